//! Kernels of the distance alone: values, slopes, and sums over many points.
//!
//! Sixteen rows lie side by side and meet one point at a time. Distances are sums of squared differences, not of products, so
//! that nothing cancels between points that are close. Values are in single, weights and sums in double precision, since the weights of
//! a wide kernel are large and cancel. Sums run in the order of the points: how rows are shared among threads changes no digit.

use super::exponential::exp_of_negative;
use super::lanes::{on_device, Kernel, Lanes, LANES};
use super::Device;

/// k as a function of s = ‖x − x'‖²/σ².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Radial {
    /// e^{−s/2}.
    Gaussian,
    /// Matérn of smoothness 1/2: e^{−z}, z = √s.
    Exponential,
    /// Matérn of smoothness 3/2: (1 + z) e^{−z}, z = √3s.
    Once,
    /// Matérn of smoothness 5/2: (1 + z + z²/3) e^{−z}, z = √5s.
    Twice,
}

impl Radial {
    /// The Matérn kernel of this smoothness, where it is elementary.
    pub(crate) fn matern(smoothness: f64) -> Option<Self> {
        match smoothness {
            0.5 => Some(Self::Exponential),
            1.5 => Some(Self::Once),
            2.5 => Some(Self::Twice),
            _ => None,
        }
    }

    /// k at s ≥ 0.
    pub(crate) fn value(self, s: f64) -> f64 {
        match self {
            Self::Gaussian => (-0.5 * s).exp(),
            Self::Exponential => (-s.sqrt()).exp(),
            Self::Once => {
                let z = (3.0 * s).sqrt();
                (1.0 + z) * (-z).exp()
            }
            Self::Twice => {
                let z = (5.0 * s).sqrt();
                (1.0 + z + z * z / 3.0) * (-z).exp()
            }
        }
    }

    /// dk/ds at s ≥ 0, what [`radial_slopes`] is compared with; zero at s = 0 for the exponential kernel, which has a kink there.
    #[cfg(test)]
    fn slope(self, s: f64) -> f64 {
        match self {
            Self::Gaussian => -0.5 * (-0.5 * s).exp(),
            Self::Exponential if s == 0.0 => 0.0,
            Self::Exponential => -0.5 * (-s.sqrt()).exp() / s.sqrt(),
            Self::Once => -1.5 * (-(3.0 * s).sqrt()).exp(),
            Self::Twice => {
                let z = (5.0 * s).sqrt();
                -5.0 / 6.0 * (1.0 + z) * (-z).exp()
            }
        }
    }
}

/// Points whose values are computed before they are summed.
const POINTS: usize = 256;

/// s ↦ k(s) of many squared distances, in double precision.
pub(crate) fn radial_values(device: Device, radial: Radial, values: &mut [f64]) {
    on_device(device, Values { radial, values });
}

struct Values<'a> {
    radial: Radial,
    values: &'a mut [f64],
}

impl Kernel for Values<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let each = self.values.iter_mut();
        match self.radial {
            Radial::Gaussian => each.for_each(|s| *s = exp_of_negative(-0.5 * *s)),
            Radial::Exponential => each.for_each(|s| *s = exp_of_negative(-s.sqrt())),
            Radial::Once => each.for_each(|s| {
                let z = (3.0 * *s).sqrt();
                *s = (1.0 + z) * exp_of_negative(-z);
            }),
            Radial::Twice => each.for_each(|s| {
                let z = (5.0 * *s).sqrt();
                *s = (1.0 + z + z * z / 3.0) * exp_of_negative(-z);
            }),
        }
    }
}

/// s ↦ dk/ds of many squared distances, zero at s = 0 for the exponential kernel, which has a kink there.
pub(crate) fn radial_slopes(device: Device, radial: Radial, values: &mut [f64]) {
    on_device(device, Slopes { radial, values });
}

struct Slopes<'a> {
    radial: Radial,
    values: &'a mut [f64],
}

impl Kernel for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let each = self.values.iter_mut();
        match self.radial {
            Radial::Gaussian => each.for_each(|s| *s = -0.5 * exp_of_negative(-0.5 * *s)),
            Radial::Exponential => each.for_each(|s| {
                let z = s.sqrt();
                *s = if z > 0.0 { -0.5 * exp_of_negative(-z) / z } else { 0.0 };
            }),
            Radial::Once => each.for_each(|s| *s = -1.5 * exp_of_negative(-(3.0 * *s).sqrt())),
            Radial::Twice => each.for_each(|s| {
                let z = (5.0 * *s).sqrt();
                *s = -5.0 / 6.0 * (1.0 + z) * exp_of_negative(-z);
            }),
        }
    }
}

/// out_ic += Σ_j w_jc k(‖x_i − a_j‖²): rows x (n×d) and points a (m×d) in the units of the kernel, weights w (m×C), all row-major.
pub(crate) fn add_radial_sums(
    device: Device,
    radial: Radial,
    columns: usize,
    (x, points): (&[f32], &[f32]),
    weights: &[f64],
    out: &mut [f64],
) {
    let m = points.len() / columns.max(1);
    if columns == 0 || m == 0 || x.is_empty() {
        return;
    }
    let outputs = weights.len() / m;
    debug_assert!(weights.len() == m * outputs && out.len() * columns == x.len() * outputs);
    on_device(device, Sums { radial, columns, outputs, x, points, weights, out });
}

struct Sums<'a> {
    radial: Radial,
    columns: usize,
    outputs: usize,
    x: &'a [f32],
    points: &'a [f32],
    weights: &'a [f64],
    out: &'a mut [f64],
}

/// k(s) in lanes.
trait Profile {
    /// # Safety
    /// As [`Lanes`].
    unsafe fn of<L: Lanes>(s: L) -> L;
}

/// e^{−z}; far away it is zero and not the least that the power gives: what nobody has seen has no sign.
#[inline(always)]
unsafe fn decay<L: Lanes>(z: L, factor: f32) -> L {
    let least = L::splat(1e-30);
    z.mul(L::splat(-factor * std::f32::consts::LOG2_E)).exp2().add(least).sub(least)
}

struct GaussianProfile;
struct ExponentialProfile;
struct OnceProfile;
struct TwiceProfile;

impl Profile for GaussianProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        decay(s, 0.5)
    }
}

impl Profile for ExponentialProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        decay(s.sqrt(), 1.0)
    }
}

impl Profile for OnceProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        let z = s.mul(L::splat(3.0)).sqrt();
        z.mul_add(decay(z, 1.0), decay(z, 1.0))
    }
}

impl Profile for TwiceProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        let z = s.mul(L::splat(5.0)).sqrt();
        let polynomial = z.mul(L::splat(1.0 / 3.0)).mul_add(z, z.add(L::splat(1.0)));
        polynomial.mul(decay(z, 1.0))
    }
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
            }
        }
    }
}

impl Sums<'_> {
    #[inline(always)]
    unsafe fn all<L: Lanes, P: Profile>(self) {
        let (d, c) = (self.columns, self.outputs);
        let groups = (self.x.len() / d).div_ceil(LANES);
        // Columns of sixteen rows after each other; rows that are not there are zeros.
        let mut lanes = vec![0.0_f32; groups * LANES * d];
        for (i, row) in self.x.chunks_exact(d).enumerate() {
            let group = &mut lanes[i / LANES * LANES * d..];
            row.iter().enumerate().for_each(|(j, x)| group[j * LANES + i % LANES] = *x);
        }
        let mut values = [[0.0_f32; LANES]; POINTS];
        for (points, weights) in self.points.chunks(POINTS * d).zip(self.weights.chunks(POINTS * c)) {
            let count = points.len() / d;
            let rows = lanes.chunks_exact(LANES * d).zip(self.out.chunks_mut(LANES * c));
            for (x, out) in rows {
                // SAFETY: `x` has d runs of lanes, `points` has `count` ≤ POINTS rows of d numbers, `values` a run for each.
                unsafe { fill::<L, P>(x.as_ptr(), points.as_ptr(), count, d, values.as_mut_ptr().cast()) };
                for k in 0..c {
                    let mut sums = [0.0_f64; LANES];
                    for (values, w) in values[..count].iter().zip(weights.iter().skip(k).step_by(c)) {
                        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += w * f64::from(value));
                    }
                    out.iter_mut().skip(k).step_by(c).zip(sums).for_each(|(out, sum)| *out += sum);
                }
            }
        }
    }
}

/// k of sixteen rows and `count` points, a run of lanes for each point.
#[inline(always)]
unsafe fn fill<L: Lanes, P: Profile>(
    x: *const f32,
    points: *const f32,
    count: usize,
    d: usize,
    out: *mut f32,
) {
    // SAFETY: as the caller says.
    unsafe {
        let mut done = 0;
        let together = if L::WIDE { 8 } else { 4 };
        while done + together <= count {
            let (a, to) = (points.add(done * d), out.add(done * LANES));
            if L::WIDE {
                distances::<L, P, 8>(x, a, d, to);
            } else {
                distances::<L, P, 4>(x, a, d, to);
            }
            done += together;
        }
        for j in done..count {
            distances::<L, P, 1>(x, points.add(j * d), d, out.add(j * LANES));
        }
    }
}

/// k of sixteen rows and N points.
#[inline(always)]
unsafe fn distances<L: Lanes, P: Profile, const N: usize>(
    x: *const f32,
    points: *const f32,
    d: usize,
    out: *mut f32,
) {
    // SAFETY: as the caller says.
    unsafe {
        let mut squares = [L::splat(0.0); N];
        for j in 0..d {
            let x = L::load(x.add(j * LANES));
            for (p, square) in squares.iter_mut().enumerate() {
                let difference = x.sub(L::splat(*points.add(p * d + j)));
                *square = difference.mul_add(difference, *square);
            }
        }
        for (p, square) in squares.into_iter().enumerate() {
            P::of(square).store(out.add(p * LANES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_values() {
        for radial in [Radial::Gaussian, Radial::Exponential, Radial::Once, Radial::Twice] {
            for s in [0.01, 0.3, 2.0, 9.0] {
                let h = 1e-6;
                let slope = (radial.value(s + h) - radial.value(s - h)) / (2.0 * h);
                assert!((radial.slope(s) - slope).abs() < 1e-6 * slope.abs().max(1.0), "{radial:?} at {s}");
            }
            assert!(radial.value(0.0) == 1.0 && radial.slope(0.0).is_finite());
        }
    }

    const ALL: [Radial; 4] = [Radial::Gaussian, Radial::Exponential, Radial::Once, Radial::Twice];

    #[test]
    fn many_values_are_those_of_one_after_the_other() {
        for device in Device::available() {
            for radial in ALL {
                let s: Vec<f64> = (0..53).map(|i| 0.2 * f64::from(i * i)).collect();
                let mut values = s.clone();
                radial_values(device, radial, &mut values);
                let mut slopes = s.clone();
                radial_slopes(device, radial, &mut slopes);
                for ((s, value), slope) in s.iter().zip(values).zip(slopes) {
                    for (found, expected) in [(value, radial.value(*s)), (slope, radial.slope(*s))] {
                        let most = 1e-14 * expected.abs() + 1e-300;
                        assert!((found - expected).abs() <= most, "{device} {radial:?} {s}");
                    }
                }
            }
        }
    }

    fn number(i: usize) -> f32 {
        ((i * 37 + i * i % 11) % 101) as f32 / 40.0 - 1.2
    }

    /// Sizes around the lanes, the parts and the outputs taken together, on every path, against double precision.
    #[test]
    fn sums_are_those_of_the_formula_on_every_path() {
        for device in Device::available() {
            for (n, m, d, c) in [(1, 1, 1, 1), (17, 9, 3, 2), (16, 256, 7, 4), (33, 300, 5, 5)] {
                let x: Vec<f32> = (0..n * d).map(number).collect();
                let points: Vec<f32> = (0..m * d).map(|i| number(i + 5)).collect();
                let weights: Vec<f64> = (0..m * c).map(|i| f64::from(number(i + 3))).collect();
                for radial in ALL {
                    let mut out = vec![1.0; n * c];
                    add_radial_sums(device, radial, d, (&x, &points), &weights, &mut out);
                    for (i, x) in x.chunks_exact(d).enumerate() {
                        for k in 0..c {
                            let terms = points.chunks_exact(d).enumerate().map(|(j, a)| {
                                let square = |(x, a): (&f32, &f32)| (f64::from(*x) - f64::from(*a)).powi(2);
                                weights[j * c + k] * radial.value(x.iter().zip(a).map(square).sum())
                            });
                            let expected = 1.0 + terms.clone().sum::<f64>();
                            // Some roundings of each term in single precision.
                            let most = 2e-6 * (1.0 + terms.map(f64::abs).sum::<f64>());
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

    /// Rows give the same bits alone and together, and what is far away is zero.
    #[test]
    fn rows_do_not_depend_on_their_neighbours() {
        let (d, m) = (3, 270);
        let x: Vec<f32> = (0..40 * d).map(number).collect();
        let points: Vec<f32> = (0..m * d).map(|i| number(i + 1)).collect();
        let weights: Vec<f64> = (0..m).map(|i| f64::from(number(i))).collect();
        for device in Device::available() {
            let of = |x: &[f32]| {
                let mut out = vec![0.0; x.len() / d];
                add_radial_sums(device, Radial::Once, d, (x, &points), &weights, &mut out);
                out
            };
            let together = of(&x);
            let alone: Vec<f64> = x.chunks_exact(5 * d).flat_map(of).collect();
            assert_eq!(together, alone, "{device}");
            assert_eq!(of(&[1e3; 3]), [0.0], "{device}");
        }
    }
}
