//! Sums of kernels of the distance over many points.
//!
//! Sixteen rows lie side by side and meet one point at a time. Values are in single, weights and sums in double precision, since the weights of
//! a wide kernel are large and cancel (of many outputs, sums of eight terms are in single precision). Sums run in the order of the points: how rows are
//! shared among threads changes no digit.

use super::super::inner_products::{product_on, OnTiles, Product};
use super::super::lanes::{on_device, Kernel, Lanes, LANES};
use super::super::Device;
use super::squares::{
    fill, fill_again, finish_products, is_large, squared_norms, Absolute, Differences, Products, MANY_COLUMNS,
};
use super::{
    ExponentialProfile, GaussianProfile, LaplacianProfile, OnceProfile, Profile, Radial, TwiceProfile,
};

/// Points whose values are computed before they are summed.
pub(super) const POINTS: usize = 256;
/// Outputs from which on sums of a few terms are in single precision: those of fewer are not what takes the time.
const MANY_OUTPUTS: usize = 4;
/// Terms of such a sum.
const SHORT: usize = 8;

/// Rows x (n×d) and points a (m×d) in the units of the kernel, row-major.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<'a> {
    /// d.
    pub columns: usize,
    pub x: &'a [f32],
    pub points: &'a [f32],
    /// Whether all numbers are bfloat16. It is said and not looked for, so that a row's bits do not depend on the others.
    pub rounded: bool,
}

/// out_ic += Σ_j w_jc k(x_i, a_j) for weights w (m×C), row-major.
pub(crate) fn add_radial_sums(
    device: Device,
    radial: Radial,
    pairs: Pairs<'_>,
    weights: &[f64],
    out: &mut [f64],
) {
    let m = pairs.points.len() / pairs.columns.max(1);
    if pairs.columns == 0 || m == 0 || pairs.x.is_empty() {
        return;
    }
    let outputs = weights.len() / m;
    debug_assert!(weights.len() == m * outputs && out.len() * pairs.columns == pairs.x.len() * outputs);
    let product = product_on(device).filter(|_| pairs.rounded);
    on_device(device, Sums { radial, pairs, product, outputs, weights, out });
}

struct Sums<'a> {
    radial: Radial,
    pairs: Pairs<'a>,
    /// How tiles are multiplied, where products are on tiles.
    product: Option<Product>,
    outputs: usize,
    weights: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for Sums<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the machine has the instructions of L.
        unsafe {
            match self.radial {
                Radial::Gaussian => self.all::<L, GaussianProfile>(),
                Radial::Exponential => self.all::<L, ExponentialProfile>(),
                Radial::Once => self.all::<L, OnceProfile>(),
                Radial::Twice => self.all::<L, TwiceProfile>(),
                Radial::Laplacian => self.all::<L, LaplacianProfile>(),
            }
        }
    }
}

/// Values of a tile of points, aligned as lanes and tiles want them.
#[repr(align(64))]
struct TileOfValues([[f32; LANES]; POINTS]);

impl Sums<'_> {
    #[inline(always)]
    unsafe fn all<L: Lanes, P: Profile>(self) {
        let (Pairs { columns: d, x, points, .. }, c) = (self.pairs, self.outputs);
        let lanes = side_by_side(x, d);
        let by_products = P::SMOOTH && d >= MANY_COLUMNS;
        let norm_columns = if by_products { d } else { 0 };
        // SAFETY: the instructions are those of L.
        let row_norms = unsafe { squared_norms::<L>(x, norm_columns) };
        let mut on_tiles =
            self.product.filter(|_| by_products).map(|product| OnTiles::new(product, d, &lanes));
        let (mut values, mut short) = (TileOfValues([[0.0; LANES]; POINTS]), Vec::new());
        let mut sums = vec![[0.0; LANES]; c];
        for (points, weights) in points.chunks(POINTS * d).zip(self.weights.chunks(POINTS * c)) {
            let count = points.len() / d;
            // SAFETY: as above.
            let point_norms = unsafe { squared_norms::<L>(points, norm_columns) };
            let far = point_norms.iter().any(is_large);
            if let Some(on_tiles) = &mut on_tiles {
                on_tiles.take(points);
            }
            if c >= MANY_OUTPUTS {
                short.resize(c * count, 0.0);
                transpose(weights, c, &mut short);
            }
            let rows = lanes.chunks_exact(LANES * d).zip(self.out.chunks_mut(LANES * c)).enumerate();
            for (group, (x, out)) in rows {
                // SAFETY: `x` has d runs of lanes, `points` has `count` ≤ POINTS rows of d numbers, `values` a run for each.
                unsafe {
                    if by_products {
                        let own = &row_norms[group * LANES..row_norms.len().min((group + 1) * LANES)];
                        let norms = (own, &point_norms[..]);
                        match &on_tiles {
                            Some(on_tiles) => {
                                on_tiles.multiply(group, &mut values.0);
                                finish_products::<L, P>(norms, &mut values.0[..count]);
                            }
                            None => fill::<L, P, Products>(x, points, norms, &mut values.0[..count]),
                        }
                        if far || own.iter().any(is_large) {
                            fill_again::<L, P>(x, points, norms, &mut values.0[..count]);
                        }
                    } else if P::ABSOLUTE {
                        fill::<L, P, Absolute>(x, points, (&[], &[]), &mut values.0[..count]);
                    } else {
                        fill::<L, P, Differences>(x, points, (&[], &[]), &mut values.0[..count]);
                    }
                }
                match c {
                    // SAFETY: the instructions are those of L.
                    MANY_OUTPUTS.. => unsafe {
                        add_weighted_shortly::<L>(&values.0[..count], &short, &mut sums, out);
                    },
                    _ => add_weighted(&values.0[..count], weights, c, out),
                }
            }
        }
    }
}

/// Weights m×C in single precision, as C×m.
#[inline(always)]
fn transpose(weights: &[f64], outputs: usize, short: &mut [f32]) {
    let m = short.len() / outputs;
    for (j, weights) in weights.chunks_exact(outputs).enumerate() {
        short[j..].iter_mut().step_by(m).zip(weights).for_each(|(short, w)| *short = *w as f32);
    }
}

/// Columns of sixteen rows after each other; rows that are not there are zeros.
#[inline(always)]
fn side_by_side(x: &[f32], d: usize) -> Vec<f32> {
    let mut lanes = vec![0.0_f32; (x.len() / d).div_ceil(LANES) * LANES * d];
    for (i, row) in x.chunks_exact(d).enumerate() {
        let group = &mut lanes[i / LANES * LANES * d..];
        row.iter().enumerate().for_each(|(j, x)| group[j * LANES + i % LANES] = *x);
    }
    lanes
}

/// out_ic += Σ_j w_jc v_ji for sixteen rows i, or fewer.
#[inline(always)]
fn add_weighted(values: &[[f32; LANES]], weights: &[f64], c: usize, out: &mut [f64]) {
    for k in 0..c {
        let mut sums = [0.0_f64; LANES];
        for (values, w) in values.iter().zip(weights.iter().skip(k).step_by(c)) {
            sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += w * f64::from(value));
        }
        out.iter_mut().skip(k).step_by(c).zip(sums).for_each(|(out, sum)| *out += sum);
    }
}

/// The same for C outputs, by weights C×m: sums of [`SHORT`] terms in single precision, whose rounding is that of the values, are added in double
/// precision, in `sums`.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn add_weighted_shortly<L: Lanes>(
    values: &[[f32; LANES]],
    weights: &[f32],
    sums: &mut [[f64; LANES]],
    out: &mut [f64],
) {
    let (m, c) = (values.len(), sums.len());
    sums.fill([0.0; LANES]);
    for (part, values) in values.chunks(SHORT).enumerate() {
        let mut k = 0;
        while k < c {
            let (weights, sums) = (&weights[k * m + part * SHORT..], &mut sums[k..]);
            // SAFETY: there are weights of these values for as many outputs as are taken together.
            k += unsafe {
                match c - k {
                    4.. => add_terms::<L, 4>(values, weights, m, sums),
                    2 | 3 => add_terms::<L, 2>(values, weights, m, sums),
                    _ => add_terms::<L, 1>(values, weights, m, sums),
                }
            };
        }
    }
    for (i, out) in out.chunks_exact_mut(c).enumerate() {
        out.iter_mut().zip(&*sums).for_each(|(out, sum)| *out += sum[i]);
    }
}

/// Adds a few terms to N sums of sixteen, whose weights are m apart; N.
///
/// # Safety
/// As [`Lanes`]; there are N runs of weights, the last as long as `values`, and as many sums.
#[inline(always)]
unsafe fn add_terms<L: Lanes, const N: usize>(
    values: &[[f32; LANES]],
    weights: &[f32],
    m: usize,
    sums: &mut [[f64; LANES]],
) -> usize {
    debug_assert!(weights.len() >= (N - 1) * m + values.len() && sums.len() >= N);
    // SAFETY: as the caller says.
    unsafe {
        let mut short = [L::splat(0.0); N];
        for (j, value) in values.iter().enumerate() {
            let value = L::load(value.as_ptr());
            for (k, short) in short.iter_mut().enumerate() {
                *short = value.mul_add(L::splat(*weights.as_ptr().add(k * m + j)), *short);
            }
        }
        for (short, sums) in short.iter().zip(sums) {
            short.add_to(sums.as_mut_ptr());
        }
    }
    N
}

#[cfg(test)]
mod tests {
    use super::super::super::inner_products::tests::emulated;
    use super::super::super::to_bf16;
    use super::super::squares::NEAR;
    use super::*;

    const ALL: [Radial; 5] =
        [Radial::Gaussian, Radial::Exponential, Radial::Once, Radial::Twice, Radial::Laplacian];

    /// k in double precision.
    fn value(radial: Radial, x: &[f32], a: &[f32]) -> f64 {
        let difference = |(x, a): (&f32, &f32)| f64::from(*x) - f64::from(*a);
        let each = x.iter().zip(a).map(difference);
        radial.value(if radial.is_absolute() { each.map(f64::abs).sum() } else { each.map(|v| v * v).sum() })
    }

    /// Sums of numbers that are not rounded.
    fn add_sums(
        device: Device,
        radial: Radial,
        columns: usize,
        (x, points): (&[f32], &[f32]),
        weights: &[f64],
        out: &mut [f64],
    ) {
        let pairs = Pairs { columns, x, points, rounded: false };
        add_radial_sums(device, radial, pairs, weights, out);
    }

    fn number(i: usize) -> f32 {
        ((i * 37 + i * i % 11) % 101) as f32 / 40.0 - 1.2
    }

    /// Sizes around the lanes, the parts and the outputs taken together, on every path, against double precision.
    #[test]
    fn sums_are_those_of_the_formula_on_every_path() {
        for device in Device::available() {
            for (n, m, d, c) in
                [(1, 1, 1, 1), (17, 9, 3, 2), (16, 256, 7, 4), (33, 300, 5, 5), (20, 270, 40, 10)]
            {
                let x: Vec<f32> = (0..n * d).map(number).collect();
                let points: Vec<f32> = (0..m * d).map(|i| number(i + 5)).collect();
                let weights: Vec<f64> = (0..m * c).map(|i| f64::from(number(i + 3))).collect();
                for radial in ALL {
                    let mut out = vec![1.0; n * c];
                    add_sums(device, radial, d, (&x, &points), &weights, &mut out);
                    for (i, x) in x.chunks_exact(d).enumerate() {
                        for k in 0..c {
                            let norm = |x: &[f32]| x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
                            let (mut expected, mut most) = (1.0, 2e-6);
                            for (j, a) in points.chunks_exact(d).enumerate() {
                                let term = weights[j * c + k] * value(radial, x, a);
                                expected += term;
                                // Some roundings in single precision: of each term, and by products of its norms.
                                let by_products = if d < MANY_COLUMNS { 0.0 } else { norm(x) + norm(a) };
                                most += term.abs() * (2e-6 + 2e-7 * by_products);
                            }
                            let found = out[i * c + k];
                            assert!(
                                (found - expected).abs() < most,
                                "{device} {radial:?}: {found} {expected}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Products are used where they are as good as differences: a row far out, next to which others lie, is seen as by differences.
    #[test]
    fn close_rows_far_out_are_told_apart() {
        let d = MANY_COLUMNS;
        for radial in ALL {
            for device in Device::available() {
                for offset in [0.0, 300.0] {
                    let points: Vec<f32> = (0..9 * d).map(|i| offset + 0.1 * number(i)).collect();
                    for (j, a) in points.chunks_exact(d).enumerate() {
                        for (i, x) in points.chunks_exact(d).enumerate() {
                            let mut out = [0.0];
                            add_sums(device, radial, d, (x, a), &[1.0], &mut out);
                            let expected = value(radial, x, a);
                            assert!(
                                (out[0] - expected).abs() < 2e-6,
                                "{device} {radial:?} {offset}: {i}, {j}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Nearly equal rows of the largest norm whose distances are by products, and of many columns.
    #[test]
    fn products_lose_little() {
        let d = 512;
        let length = (0.9 * NEAR / d as f32).sqrt();
        let rows: Vec<f32> =
            (0..40 * d).map(|i| length * (1.0 - 2.0 * (i % d % 2) as f32 + 0.02 * number(i))).collect();
        for (device, radial) in Device::available().into_iter().flat_map(|d| ALL.map(|radial| (d, radial))) {
            let own = &rows[..d];
            for x in rows.chunks_exact(d) {
                let mut out = [0.0];
                add_sums(device, radial, d, (x, own), &[1.0], &mut out);
                let expected = value(radial, x, own);
                assert!((out[0] - expected).abs() < 1e-5, "{device} {radial:?}: {} {expected}", out[0]);
            }
        }
    }

    /// Rows give the same bits alone and together, and what is far away is zero.
    #[test]
    fn rows_do_not_depend_on_their_neighbours() {
        for d in [3, MANY_COLUMNS] {
            rows_are_alone(d);
        }
    }

    fn rows_are_alone(d: usize) {
        let m = 270;
        // One row and one point are far out.
        let mut x: Vec<f32> = (0..40 * d).map(number).collect();
        x[7 * d..8 * d].iter_mut().for_each(|v| *v += 9.0);
        let mut points: Vec<f32> = (0..m * d).map(|i| number(i + 1)).collect();
        points[..d].iter_mut().for_each(|v| *v += 9.0);
        let weights: Vec<f64> = (0..m).map(|i| f64::from(number(i))).collect();
        for device in Device::available() {
            let of = |x: &[f32]| {
                let mut out = vec![0.0; x.len() / d];
                add_sums(device, Radial::Once, d, (x, &points), &weights, &mut out);
                out
            };
            let together = of(&x);
            let alone: Vec<f64> = x.chunks_exact(5 * d).flat_map(of).collect();
            assert_eq!(together, alone, "{device}");
            assert_eq!(of(&vec![1e3; d]), [0.0], "{device}");
        }
    }

    /// Rounded numbers on every path, and by tiles that are emulated, where sizes are around those of tiles; one row and one point are far out.
    #[test]
    fn sums_of_rounded_numbers_are_those_of_the_formula() {
        for d in [32, 33, 88, 100] {
            for m in [1, 5, 16, 255, 256, 257, 600] {
                for n in [1, 15, 16, 33] {
                    let mut x: Vec<f32> = (0..n * d).map(|i| to_bf16(0.3 * number(i))).collect();
                    let mut points: Vec<f32> = (0..m * d).map(|i| to_bf16(0.3 * number(i + 5))).collect();
                    x[(n - 1) * d..].iter_mut().for_each(|v| *v = to_bf16(*v + 3.0));
                    points[..d].iter_mut().for_each(|v| *v = to_bf16(*v + 3.0));
                    for radial in [Radial::Gaussian, Radial::Once, Radial::Twice] {
                        rounded_sums_are_right(
                            radial,
                            Pairs { columns: d, x: &x, points: &points, rounded: true },
                        );
                    }
                }
            }
        }
    }

    fn rounded_sums_are_right(radial: Radial, pairs: Pairs<'_>) {
        let Pairs { columns: d, x, points, .. } = pairs;
        let (n, m) = (x.len() / d, points.len() / d);
        let k: Vec<f64> = x
            .chunks_exact(d)
            .flat_map(|x| points.chunks_exact(d).map(move |a| value(radial, x, a)))
            .collect();
        for outputs in [1, 3, 4, 10] {
            let weights: Vec<f64> = (0..m * outputs).map(|i| f64::from(number(i + 3))).collect();
            let right = |name: &str, out: &[f64]| {
                for (i, found) in out.iter().enumerate() {
                    let (row, output) = (i / outputs, i % outputs);
                    let terms = (0..m).map(|j| weights[j * outputs + output] * k[row * m + j]);
                    let (expected, size) = terms.fold((1.0, 1.0), |(sum, size), t| (sum + t, size + t.abs()));
                    assert!(
                        (found - expected).abs() < 5e-6 * size,
                        "{name} {radial:?} {d}, {m}, {n}, {outputs}: {found} {expected}"
                    );
                }
            };
            for device in Device::available() {
                let mut out = vec![1.0; n * outputs];
                add_radial_sums(device, radial, pairs, &weights, &mut out);
                right(&device.to_string(), &out);
                let (product, mut out) = (Some(emulated as Product), vec![1.0; n * outputs]);
                let weights = &weights;
                on_device(device, Sums { radial, pairs, product, outputs, weights, out: &mut out });
                right("emulated", &out);
            }
        }
    }
}
