//! Exponentials of many numbers in double precision.

use super::lanes::{on_device, Kernel, Lanes};
use super::Device;

/// k_i ← factor · exp(min(k_i − ½(squares_i + own), 0)): inner products become values of a Gaussian kernel.
pub(crate) fn gaussian_values(device: Device, k: &mut [f64], squares: &[f64], own: f64, factor: f64) {
    on_device(device, GaussianValues { k, squares, own, factor });
}

struct GaussianValues<'a> {
    k: &'a mut [f64],
    squares: &'a [f64],
    own: f64,
    factor: f64,
}

impl Kernel for GaussianValues<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (k, square) in self.k.iter_mut().zip(self.squares) {
            *k = self.factor * exp_of_negative(*k - 0.5 * (square + self.own));
        }
    }
}

/// Adds min(v, 0) to each of m `sums` and multiplies its `product` by 1 + e^{−∣v∣}, v = ±η: the sum less the logarithm of the product
/// is then Σ log 1/(1 + e^{−v}). η is a row of m numbers for each sign; of more than a thousand rows products overflow.
pub(crate) fn logistic_rows(
    device: Device,
    eta: &[f64],
    signs: &[f64],
    sums: &mut [f64],
    products: &mut [f64],
) {
    on_device(device, LogisticRows { eta, signs, sums, products });
}

struct LogisticRows<'a> {
    eta: &'a [f64],
    signs: &'a [f64],
    sums: &'a mut [f64],
    products: &'a mut [f64],
}

impl Kernel for LogisticRows<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (eta, sign) in self.eta.chunks_exact(self.sums.len().max(1)).zip(self.signs) {
            for ((sum, product), eta) in self.sums.iter_mut().zip(self.products.iter_mut()).zip(eta) {
                let v = sign * eta;
                *sum += v.min(0.0);
                *product *= 1.0 + exp_of_negative(-v.abs());
            }
        }
    }
}

/// eˣ for x ≤ 0, and 1 above; below −708 it is e⁻⁷⁰⁸.
///
/// x = n ln 2 + r with |r| ≤ ½ ln 2, and eʳ by its series to r¹³: a relative error of at most 4 roundings. No branches,
/// so that a loop of it becomes vectors.
#[inline(always)]
pub(super) fn exp_of_negative(x: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5·2⁵²: adding it rounds to whole numbers
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1; // its last 32 bits are zero, so that n·LN2_HIGH is exact
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let x = x.clamp(-708.0, 0.0);
    let shifted = x * std::f64::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let mut sum = INVERSE_FACTORIALS[0];
    for coefficient in &INVERSE_FACTORIALS[1..] {
        sum = sum * r + coefficient;
    }
    // The low bits of `shifted` are n; those above them leave on the left.
    sum * f64::from_bits(shifted.to_bits().wrapping_add(1_023) << 52)
}

/// 1/13!, 1/12!, …, 1/1!, 1/0!.
const INVERSE_FACTORIALS: [f64; 14] = {
    let mut out = [1.0; 14];
    let mut i = 13;
    while i > 0 {
        out[i - 1] = out[i] / (14 - i) as f64;
        i -= 1;
    }
    out
};

/// exp(−½‖x − a_j‖²) of a point x and m points a_j, whose columns follow each other (d×m), in single precision.
pub(crate) fn gaussian_row(device: Device, x: &[f32], columns: &[f32], out: &mut [f32]) {
    on_device(device, GaussianRow { x, columns, out });
}

struct GaussianRow<'a> {
    x: &'a [f32],
    columns: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for GaussianRow<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        self.out.fill(0.0);
        for (x, column) in self.x.iter().zip(self.columns.chunks_exact(self.out.len())) {
            for (sum, a) in self.out.iter_mut().zip(column) {
                *sum += (x - a) * (x - a);
            }
        }
        self.out.iter_mut().for_each(|sum| *sum = exp_of_negative_single(-0.5 * *sum));
    }
}

/// A precision in which kernels at points are computed.
pub(crate) trait Real: Copy + Default + From<f32> + Into<f64> + Send + Sync {
    /// ‖x − a‖².
    fn squared_distance(x: &[f32], a: &[f32]) -> Self;
    /// exp(−x/2), x ≥ 0.
    fn exp_of_half(x: Self) -> Self;
    /// Rounded to this precision.
    fn rounded(value: f64) -> Self;
}

/// ‖x − a‖² in lanes of eight columns, so that the loop becomes vectors.
macro_rules! real {
    ($type:ty, $exp:path, $last:literal) => {
        impl Real for $type {
            #[inline(always)]
            fn squared_distance(x: &[f32], a: &[f32]) -> Self {
                let square = |x: f32, a: f32| {
                    let difference = Self::from(x) - Self::from(a);
                    difference * difference
                };
                let (x, x_end) = x.as_chunks::<8>();
                let (a, a_end) = a.as_chunks::<8>();
                let mut sums = [0.0; 8];
                for (x, a) in x.iter().zip(a) {
                    for l in 0..8 {
                        sums[l] += square(x[l], a[l]);
                    }
                }
                let mut sum =
                    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
                for (x, a) in x_end.iter().zip(a_end) {
                    sum += square(*x, *a);
                }
                sum
            }

            #[inline(always)]
            fn exp_of_half(x: Self) -> Self {
                // Far away is zero and not the least that the exponential gives: what nobody has seen has no sign.
                let value = $exp(-0.5 * x);
                if x > $last {
                    0.0
                } else {
                    value
                }
            }

            fn rounded(value: f64) -> Self {
                value as Self
            }
        }
    };
}

real!(f32, exp_of_negative_single, 174.0);
real!(f64, exp_of_negative, 1_416.0);

/// ‖x − a‖² in double precision.
#[inline]
pub(crate) fn squared_distance(x: &[f32], a: &[f32]) -> f64 {
    f64::squared_distance(x, a)
}

/// exp(−½‖x − a_j‖²) of a point x and points a_j, a row each.
pub(crate) fn gaussian_points<R: Real>(device: Device, x: &[f32], points: &[f32], out: &mut [R]) {
    on_device(device, GaussianPoints { x, points, out });
}

struct GaussianPoints<'a, R> {
    x: &'a [f32],
    points: &'a [f32],
    out: &'a mut [R],
}

impl<R: Real> Kernel for GaussianPoints<'_, R> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (out, a) in self.out.iter_mut().zip(self.points.chunks_exact(self.x.len())) {
            *out = R::squared_distance(self.x, a);
        }
        for out in self.out {
            *out = R::exp_of_half(*out);
        }
    }
}

/// eˣ for x ≤ 0 to about two roundings of single precision, likewise; below −87 it is e⁻⁸⁷.
#[inline(always)]
fn exp_of_negative_single(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5·2²³: adding it rounds to whole numbers
    const LN2_HIGH: f32 = 0.693_359_4; // nine bits, so that n·LN2_HIGH is exact
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 0.0);
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let mut sum = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * r + coefficient;
    }
    sum * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::super::Path;
    use super::*;

    #[test]
    fn agrees_with_the_library() {
        for i in 0..20_000 {
            let x = -0.0354 * f64::from(i) + 1.0;
            let (found, expected) = (exp_of_negative(x), x.clamp(-708.0, 0.0).exp());
            assert!((found / expected - 1.0).abs() < 1e-15, "{x}: {found} vs {expected}");
        }
        assert_eq!(exp_of_negative(0.0), 1.0);
        assert!(exp_of_negative(f64::NEG_INFINITY) < 1e-300);
    }

    /// Columns around the width of the lanes, both precisions, on every path, against the formula.
    #[test]
    fn rows_of_points_are_gaussian() {
        for device in Device::available() {
            for d in [1, 2, 7, 8, 9, 21] {
                let number = |i: usize| ((i * 37) % 19) as f32 / 9.0 - 1.0;
                let x: Vec<f32> = (0..d).map(number).collect();
                let points: Vec<f32> = (0..5 * d).map(|i| number(i + 3)).collect();
                let (mut single, mut double) = ([0.0_f32; 5], [0.0_f64; 5]);
                gaussian_points(device, &x, &points, &mut single);
                gaussian_points(device, &x, &points, &mut double);
                for (j, a) in points.chunks_exact(d).enumerate() {
                    let square: f64 =
                        x.iter().zip(a).map(|(x, a)| (f64::from(*x) - f64::from(*a)).powi(2)).sum();
                    let expected = (-0.5 * square).exp();
                    assert!((double[j] / expected - 1.0).abs() < 1e-14, "{device}, {d}");
                    assert!((f64::from(single[j]) / expected - 1.0).abs() < 1e-5, "{device}, {d}");
                }
            }
        }
    }

    #[test]
    fn single_precision_is_right_to_its_roundings() {
        for i in 0..20_000 {
            let x = -0.0043 * i as f32;
            let (found, expected) = (f64::from(exp_of_negative_single(x)), f64::from(x).exp());
            assert!(
                (found / expected - 1.0).abs() < 4.0 * f64::from(f32::EPSILON),
                "{x}: {found} vs {expected}"
            );
        }
        assert_eq!(exp_of_negative_single(0.0), 1.0);
        let columns: Vec<f32> = (0..3 * 37).map(|i| 0.3 * (i as f32).cos()).collect();
        let of = |device| {
            let mut out = vec![f32::NAN; 37];
            gaussian_row(device, &[0.1, -0.4, 1.5], &columns, &mut out);
            out
        };
        let expected = of(Device::with_path(Path::Portable).unwrap());
        let square = |j: usize| {
            let terms = [0.1_f32, -0.4, 1.5].iter().enumerate();
            terms.map(|(k, x)| f64::from(x - columns[37 * k + j]).powi(2)).sum::<f64>()
        };
        assert!((0..37).all(|j| (f64::from(expected[j]) - (-0.5 * square(j)).exp()).abs() < 1e-6));
        assert!(Device::available().into_iter().all(|device| of(device) == expected));
    }

    #[test]
    fn all_paths_agree() {
        let squares: Vec<f64> = (0..37).map(|i| 0.3 * f64::from(i)).collect();
        let of = |device| {
            let mut k: Vec<f64> = (0..37).map(|i| (f64::from(i)).sin()).collect();
            gaussian_values(device, &mut k, &squares, 0.7, 2.5);
            k
        };
        let expected = of(Device::with_path(Path::Portable).unwrap());
        assert!((expected[3] - 2.5 * (3_f64.sin() - 0.5 * (0.9 + 0.7)).min(0.0).exp()).abs() < 1e-15);
        assert!(Device::available().into_iter().all(|device| of(device) == expected));
    }
}
