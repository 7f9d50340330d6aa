//! Kernels of the distance alone, with their slopes.

use super::KernelSpec;

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

    /// dk/ds at s ≥ 0; zero at s = 0 for the exponential kernel, which has a kink there.
    pub(crate) fn slope(self, s: f64) -> f64 {
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

impl KernelSpec {
    /// The kernel as an elementary function of the distance; `None` for the others.
    pub(crate) fn radial(&self) -> Option<Radial> {
        match *self {
            Self::Gaussian => Some(Radial::Gaussian),
            Self::Matern(smoothness) => Radial::matern(smoothness),
            _ => None,
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
}
