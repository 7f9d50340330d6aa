//! Sums of kernels against double precision, pair by pair.

use riesz::distributions::kde::log_kernel_sums;
use riesz::distributions::special::log_sum_exp;

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
    log_kernel_sums(q, c, w, d, &mut found);
    largest_error(&found, &reference(q, c, w, d))
}

#[test]
#[ignore]
fn timing() {
    for (d, n) in
        [(1, 50_000), (2, 50_000), (3, 50_000), (5, 20_000), (10, 20_000), (20, 20_000), (50, 20_000)]
    {
        let mut s = Stream(1);
        let h = (n as f64).powf(-1.0 / (d as f64 + 4.0));
        let (q, c) = (s.normals(n * d, 1.0 / h), s.normals(n * d, 1.0 / h));
        let w: Vec<f64> = (0..n).map(|_| s.uniform()).collect();
        let mut out = vec![0.0; n];
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let mut best = f64::INFINITY;
        for _ in 0..2 {
            let start = std::time::Instant::now();
            pool.install(|| log_kernel_sums(&q, &c, &w, d, &mut out));
            best = best.min(start.elapsed().as_secs_f64());
        }
        let expected = reference(&q[..200 * d], &c, &w, d);
        let e = largest_error(&out[..200], &expected);
        println!("d {d} n {n}: {best:.4} s, {:.4} ns a pair, error {e:.1e}", best * 1e9 / (n * n) as f64);
    }
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
            println!("d {d} scale {scale}: {e:.1e}");
            assert!(e < 2e-5, "d = {d}, spread {scale}: error {e}");
        }
    }
}
