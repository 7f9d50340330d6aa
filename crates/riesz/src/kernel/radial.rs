//! Kernels of the distance alone.

use super::KernelSpec;
use crate::compute::Radial;

impl KernelSpec {
    /// The kernel as an elementary function of the distance; `None` for the others.
    pub(crate) fn radial(&self) -> Option<Radial> {
        match *self {
            Self::Gaussian => Some(Radial::Gaussian),
            Self::Matern(smoothness) => Radial::matern(smoothness),
            _ => None,
        }
    }

    /// The same, or of the sum of absolute differences.
    pub(crate) fn of_distance(&self) -> Option<Radial> {
        match self {
            Self::Laplacian => Some(Radial::Laplacian),
            _ => self.radial(),
        }
    }
}
