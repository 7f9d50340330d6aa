//! Sums of kernels against double precision, pair by pair.
#![allow(clippy::unwrap_used)]

use riesz::compute::Device;
use riesz::data::Rows;
use riesz::distributions::kde::{log_kernel_sums, log_sums, Centres, Tolerance};
use riesz::distributions::kde::{BandwidthRule, DensityOptions, KernelDensity, Shape};
use riesz::distributions::special::log_sum_exp;
use riesz::model::{Container, Stored};
use riesz::random::Seed;

/// Numbers between −1 and 1 from a linear congruence, and normals from twelve of them.
struct Stream(u64);

impl Stream {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| 0.5 * self.uniform()).sum()
    }

    fn normals(&mut self, count: usize, scale: f64) -> Vec<f64> {
        (0..count).map(|_| scale * self.normal()).collect()
    }
}

fn exponents<'a>(q: &'a [f64], c: &'a [f64], w: &'a [f64], d: usize) -> impl Iterator<Item = f64> + 'a {
    let square = |c: &[f64]| q.iter().zip(c).map(|(q, c)| (q - c) * (q - c)).sum::<f64>();
    c.chunks(d).zip(w).map(move |(c, w)| w - 0.5 * square(c))
}

fn reference(q: &[f64], c: &[f64], w: &[f64], d: usize) -> Vec<f64> {
    q.chunks(d).map(|q| log_sum_exp(&exponents(q, c, w, d).collect::<Vec<_>>())).collect()
}

fn largest_error(found: &[f64], expected: &[f64]) -> f64 {
    let errors = found.iter().zip(expected).map(|(f, e)| if f == e { 0.0 } else { (f - e).abs() });
    errors.fold(0.0, |most, e| if e > most || e.is_nan() { e } else { most })
}

fn error(q: &[f64], c: &[f64], w: &[f64], d: usize) -> f64 {
    let mut found = vec![0.0; q.len() / d];
    log_kernel_sums(q, c, w, d, &mut found).unwrap();
    largest_error(&found, &reference(q, c, w, d))
}

#[test]
fn sums_are_those_of_double_precision() {
    for (d, n, m) in
        [(1, 3_000, 700), (2, 5_000, 900), (3, 1_000, 300), (7, 600, 100), (20, 700, 90), (60, 400, 70)]
    {
        for scale in [0.3, 1.0, 8.0, 100.0] {
            let mut s = Stream(d as u64);
            let (q, c) = (s.normals(m * d, scale), s.normals(n * d, scale));
            let w: Vec<f64> = (0..n).map(|_| 3.0 * s.uniform()).collect();
            let e = error(&q, &c, &w, d);
            assert!(e < 2e-5, "d = {d}, spread {scale}: error {e}");
        }
    }
}

#[test]
fn clusters_of_any_width_far_apart() {
    // Single centres hundreds of bandwidths apart, a crowd, and queries in, between and far beyond them.
    for d in [1, 2, 3, 10] {
        let mut s = Stream(7);
        let mut c = s.normals(500 * d, 200.0);
        c.extend(s.normals(1_500 * d, 0.4).iter().map(|x| x + 150.0));
        let mut q = c[480 * d..700 * d].to_vec();
        q.extend(s.normals(200 * d, 0.5).iter().map(|x| x + 150.0));
        q.extend(s.normals(100 * d, 3_000.0));
        q.extend((0..d).map(|_| 1e5));
        let w = s.normals(2_000, 2.0);
        let mut found = vec![0.0; q.len() / d];
        log_kernel_sums(&q, &c, &w, d, &mut found).unwrap();
        for (f, e) in found.iter().zip(reference(&q, &c, &w, d)) {
            assert!((f - e).abs() < 2e-5 + 1e-14 * e.abs(), "d = {d}: {f} is not {e}");
        }
    }
}

#[test]
fn repeated_single_and_absent_centres() {
    let mut s = Stream(3);
    let q = s.normals(2 * 90, 3.0);
    let same: Vec<f64> = (0..1_000).flat_map(|_| [0.3, -0.7]).collect();
    assert!(error(&q, &same, &vec![0.0; 1_000], 2) < 1e-5);
    assert!(error(&q, &[0.1, 0.2], &[-3.0], 2) < 1e-5);
    assert!(error(&same, &q, &vec![-700.0; 90], 2) < 1e-5);

    // What has no weight is not there, and weights may be of any size.
    let c = s.normals(2 * 600, 3.0);
    let w: Vec<f64> =
        (0..600).map(|j| if j % 3 == 0 { f64::NEG_INFINITY } else { 1e4 + 500.0 * s.uniform() }).collect();
    assert!(error(&q, &c, &w, 2) < 2e-5);
    let mut found = vec![0.0; 90];
    log_kernel_sums(&q, &c, &vec![f64::NEG_INFINITY; 600], 2, &mut found).unwrap();
    assert!(found.iter().all(|f| *f == f64::NEG_INFINITY));
    log_kernel_sums(&q, &[], &[], 2, &mut found).unwrap();
    assert!(found.iter().all(|f| *f == f64::NEG_INFINITY));
    log_kernel_sums(&[], &c, &w, 2, &mut []).unwrap();
}

#[test]
fn every_path_and_every_tolerance_keeps_its_promise() {
    for (d, n, m) in [(1, 4_000, 1_500), (2, 6_000, 2_000), (3, 3_000, 600), (9, 800, 200)] {
        let mut s = Stream(11);
        let (q, c) = (s.normals(m * d, 5.0), s.normals(n * d, 5.0));
        let w = s.normals(n, 1.0);
        let centres = Centres::new(&c, &w, d).unwrap();
        let expected = reference(&q, &c, &w, d);
        for device in Device::available() {
            for (relative, rounding) in
                [(0.0, 1e-12), (1e-8, 1e-12), (1e-6, 1e-5), (1e-4, 1e-5), (1e-2, 1e-5)]
            {
                let tolerance = Tolerance { relative, ..Tolerance::default() };
                let mut found = vec![0.0; m];
                log_sums(device, &centres, &q, tolerance, &mut found).unwrap();
                let e = largest_error(&found, &expected);
                assert!(e <= 1.01 * relative + rounding, "{device}, d = {d}, tolerance {relative}: {e}");
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for d in [1, 2, 3, 12] {
        let mut s = Stream(5);
        let (q, c, w) = (s.normals(1_000 * d, 6.0), s.normals(3_000 * d, 6.0), s.normals(3_000, 1.0));
        let of = |threads| {
            let mut found = vec![0.0; 1_000];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| log_kernel_sums(&q, &c, &w, d, &mut found)).unwrap();
            found
        };
        assert_eq!(of(1), of(3));
    }
}

#[test]
fn a_density_is_normalised_and_read_back() {
    let rows = Stream(2).normals(2 * 400, 1.5);
    let view = Rows::double(&rows, 2).unwrap();
    let weights: Vec<f64> = (0..400).map(|j| f64::from(j % 5)).collect();
    let options = DensityOptions {
        bandwidth: BandwidthRule::Silverman,
        shape: Shape::Covariance,
        ..DensityOptions::default()
    };
    let density = KernelDensity::fit(&options, view, Some(&weights)).unwrap();
    let grid: Vec<f64> =
        (0..160 * 160).flat_map(|i| [i % 160, i / 160]).map(|k| f64::from(k) * 0.1 - 8.0).collect();
    let values = density.log_density(Rows::double(&grid, 2).unwrap()).unwrap();
    let mass: f64 = values.iter().map(|v| v.exp() * 0.01).sum();
    assert!((mass - 1.0).abs() < 1e-4, "{mass}");

    let bytes = density.to_bytes().unwrap();
    let container = || Container::from_bytes(&bytes).unwrap();
    let copy = KernelDensity::from_container(container()).unwrap();
    assert_eq!(copy.log_density(view).unwrap(), density.log_density(view).unwrap());
    assert_eq!(copy.sample(9, Seed(4)).unwrap(), density.sample(9, Seed(4)).unwrap());
    let mut damaged = container();
    damaged.insert("weights", vec![400], vec![-1.0; 400]).unwrap();
    let message = KernelDensity::from_container(damaged).unwrap_err().to_string();
    assert!(message.contains("not a valid riesz file: sample_weight = -1"), "{message}");
}

#[test]
fn what_cannot_be_is_refused() {
    let view = Rows::double(&[0.0, 1.0, 2.0, 2.0, 3.0, 5.0], 2).unwrap();
    let fit = |options: DensityOptions, weights: Option<&[f64]>| {
        KernelDensity::fit(&options, view, weights).map(|_| ()).unwrap_err().to_string()
    };
    let default = DensityOptions::default;
    let bandwidth = BandwidthRule::Fixed(-2.0);
    assert_eq!(fit(DensityOptions { bandwidth, ..default() }, None), "bandwidth = -2 is outside (0, inf)");
    assert!(fit(default(), Some(&[1.0])).contains("sample_weight has 1 rows, expected 3"));
    assert!(fit(default(), Some(&[0.0; 3])).contains("sample_weight (all zero) is empty"));
    let one = Some(&[0.0, 1.0, 0.0][..]);
    assert!(fit(DensityOptions { shape: Shape::Covariance, ..default() }, one).contains("singular"));
    let density = KernelDensity::fit(&default(), view, None).unwrap();
    let stop = density.log_density_while(view, &mut || false).unwrap_err();
    assert!(matches!(stop, riesz::Error::Cancelled { .. }));
    let narrow = Rows::double(&[1.0], 1).unwrap();
    assert_eq!(density.log_density(narrow).unwrap_err().to_string(), "expected 2 columns, found 1");
}
