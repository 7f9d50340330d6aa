//! Kernels of a distance alone: values and slopes; sums over many points are in [`sums`].

mod squares;
mod sums;

pub(crate) use sums::{add_radial_sums, Pairs};

use super::exponential::exp_of_negative;
use super::lanes::{on_device, Kernel, Lanes};
use super::Device;

/// k as a function of s = ‖x − x'‖²/σ²; the last one, of s = ‖x − x'‖₁/σ.
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
    /// e^{−s} of the sum of absolute differences.
    Laplacian,
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

    /// Whether s is a sum of absolute differences.
    pub(crate) fn is_absolute(self) -> bool {
        self == Self::Laplacian
    }

    /// What ‖x − x'‖² or ‖x − x'‖₁ is multiplied by.
    pub(crate) fn unit(self, bandwidth: f64) -> f64 {
        if self.is_absolute() {
            1.0 / bandwidth
        } else {
            1.0 / (bandwidth * bandwidth)
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
            Self::Laplacian => (-s).exp(),
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
            Self::Laplacian => -(-s).exp(),
        }
    }
}

/// s ↦ k(s) of many distances, in double precision.
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
            Radial::Laplacian => each.for_each(|s| *s = exp_of_negative(-*s)),
        }
    }
}

/// s ↦ dk/ds of many distances, zero at s = 0 for the exponential kernel, which has a kink there.
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
            Radial::Laplacian => each.for_each(|s| *s = -exp_of_negative(-*s)),
        }
    }
}

/// out_i = Σ_k |x_ik − a_k| of rows whose columns k are given by `column`, for the numbers `point` of a.
pub(crate) fn absolute_distances<'c>(
    device: Device,
    column: impl Fn(usize) -> &'c [f64],
    point: &[f64],
    out: &mut [f64],
) {
    on_device(device, AbsoluteDistances { column, point, out });
}

struct AbsoluteDistances<'a, C> {
    column: C,
    point: &'a [f64],
    out: &'a mut [f64],
}

impl<'c, C: Fn(usize) -> &'c [f64]> Kernel for AbsoluteDistances<'_, C> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        /// Sums that stay in the first-level cache.
        const ROWS: usize = 512;
        for (part, out) in self.out.chunks_mut(ROWS).enumerate() {
            out.fill(0.0);
            for (k, a) in self.point.iter().enumerate() {
                let column = &(self.column)(k)[part * ROWS..];
                out.iter_mut().zip(column).for_each(|(out, x)| *out += (x - a).abs());
            }
        }
    }
}

/// k(s) in lanes.
trait Profile {
    /// Whether k is a smooth function of s at zero, so that rounding s hardly changes it.
    const SMOOTH: bool = true;
    /// Whether s is a sum of absolute differences.
    const ABSOLUTE: bool = false;
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
struct LaplacianProfile;

impl Profile for LaplacianProfile {
    const SMOOTH: bool = false;
    const ABSOLUTE: bool = true;
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        decay(s, 1.0)
    }
}

impl Profile for GaussianProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        decay(s, 0.5)
    }
}

impl Profile for ExponentialProfile {
    const SMOOTH: bool = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_values() {
        for radial in ALL {
            for s in [0.01, 0.3, 2.0, 9.0] {
                let h = 1e-6;
                let slope = (radial.value(s + h) - radial.value(s - h)) / (2.0 * h);
                assert!((radial.slope(s) - slope).abs() < 1e-6 * slope.abs().max(1.0), "{radial:?} at {s}");
            }
            assert!(radial.value(0.0) == 1.0 && radial.slope(0.0).is_finite());
        }
    }

    const ALL: [Radial; 5] =
        [Radial::Gaussian, Radial::Exponential, Radial::Once, Radial::Twice, Radial::Laplacian];

    /// Sizes around the parts, on every path.
    #[test]
    fn absolute_distances_are_those_of_the_differences() {
        for device in Device::available() {
            for (n, d) in [(1, 1), (7, 3), (511, 2), (513, 5)] {
                let x: Vec<Vec<f64>> =
                    (0..d).map(|k| (0..n).map(|i| ((i * 37 + k * 11) % 23) as f64 - 9.0).collect()).collect();
                let point: Vec<f64> = (0..d).map(|k| k as f64 - 1.5).collect();
                let mut out = vec![f64::NAN; n];
                absolute_distances(device, |k| &x[k], &point, &mut out);
                for (i, found) in out.iter().enumerate() {
                    let exact: f64 = (0..d).map(|k| (x[k][i] - point[k]).abs()).sum();
                    assert_eq!(*found, exact, "{device} {n}, {d}: {i}");
                }
            }
        }
    }

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
}
