//! Kernels of the distance alone: values and slopes; sums over many points are in [`sums`].

mod squares;
mod sums;

pub(crate) use sums::{add_radial_sums, Pairs};

use super::exponential::exp_of_negative;
use super::lanes::{on_device, Kernel, Lanes};
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

/// k(s) in lanes.
trait Profile {
    /// Whether k is a smooth function of s at zero, so that rounding s hardly changes it.
    const SMOOTH: bool = true;
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
}
