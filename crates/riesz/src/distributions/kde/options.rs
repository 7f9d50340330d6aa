//! What a kernel density is made of.

use super::sums::Tolerance;
use crate::error::{non_negative, positive, Result};
use crate::linalg::special::ln_gamma;
use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_PI_2, PI, TAU};

/// A kernel k(r) of the distance r in units of the bandwidth, by scikit-learn's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DensityKernel {
    /// exp(−½r²).
    Gaussian,
    /// 1 for r < 1.
    Tophat,
    /// 1 − r² for r < 1.
    Epanechnikov,
    /// exp(−r).
    Exponential,
    /// 1 − r for r < 1.
    Linear,
    /// cos(½πr) for r < 1.
    Cosine,
}

impl DensityKernel {
    /// k(√s).
    pub(super) fn of_square(self, s: f64) -> f64 {
        let inside = |value: f64| if s < 1.0 { value } else { 0.0 };
        match self {
            Self::Gaussian => (-0.5 * s).exp(),
            Self::Exponential => (-s.sqrt()).exp(),
            Self::Tophat => inside(1.0),
            Self::Epanechnikov => inside(1.0 - s),
            Self::Linear => inside(1.0 - s.sqrt()),
            Self::Cosine => inside((FRAC_PI_2 * s.sqrt()).cos()),
        }
    }

    /// log ∫ k(‖x‖) dx over d dimensions.
    pub(super) fn log_integral(self, d: usize) -> f64 {
        let n = d as f64;
        // Volume of the unit ball and surface of the unit sphere.
        let ball = 0.5 * n * PI.ln() - ln_gamma(0.5 * n + 1.0);
        let sphere = n.ln() + ball;
        match self {
            Self::Gaussian => 0.5 * n * TAU.ln(),
            Self::Tophat => ball,
            Self::Epanechnikov => ball + (2.0 / (n + 2.0)).ln(),
            Self::Exponential => sphere + ln_gamma(n),
            Self::Linear => ball - (n + 1.0).ln(),
            Self::Cosine => sphere + radial_cosine(d).ln(),
        }
    }
}

/// ∫₀¹ r^{d−1} cos(½πr) dr, by Simpson's rule where the recursion by parts would cancel.
fn radial_cosine(d: usize) -> f64 {
    const INTERVALS: usize = 4_096;
    let step = 1.0 / INTERVALS as f64;
    let value = |i: usize| (i as f64 * step).powi(d as i32 - 1) * (FRAC_PI_2 * i as f64 * step).cos();
    let inner: f64 = (1..INTERVALS).map(|i| if i % 2 == 1 { 4.0 } else { 2.0 } * value(i)).sum();
    step / 3.0 * (value(0) + inner + value(INTERVALS))
}

/// How the bandwidth follows from n rows of d columns. Shaped by the covariance, n is the effective number 1/Σ w_j² of
/// weights that add up to one (SciPy's rule), otherwise the number of rows (scikit-learn's).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BandwidthRule {
    /// n^{−1/(d+4)}.
    Scott,
    /// (n (d + 2)/4)^{−1/(d+4)}.
    Silverman,
    /// This number.
    Fixed(f64),
}

impl BandwidthRule {
    /// The bandwidth for n rows of d columns.
    pub fn bandwidth(self, n: f64, d: usize) -> f64 {
        let d = d as f64;
        match self {
            Self::Scott => n.powf(-1.0 / (d + 4.0)),
            Self::Silverman => (n * (d + 2.0) / 4.0).powf(-1.0 / (d + 4.0)),
            Self::Fixed(h) => h,
        }
    }
}

/// What the bandwidth multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// The identity: kernels are round.
    Isotropic,
    /// A square root of the covariance of the rows: kernels are elliptic.
    Covariance,
}

/// Settings of a kernel density.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DensityOptions {
    /// The kernel.
    pub kernel: DensityKernel,
    /// The bandwidth, or how it is found.
    pub bandwidth: BandwidthRule,
    /// What it multiplies.
    pub shape: Shape,
    /// Largest relative error of a density, beside the rounding of single precision; below 5·10⁻⁷ densities are computed
    /// in double precision.
    #[serde(alias = "rtol")]
    pub relative_tolerance: f64,
    /// Largest absolute error of a density that is in order however small the density.
    #[serde(alias = "atol")]
    pub absolute_tolerance: f64,
}

impl Default for DensityOptions {
    fn default() -> Self {
        Self {
            kernel: DensityKernel::Gaussian,
            bandwidth: BandwidthRule::Scott,
            shape: Shape::Isotropic,
            relative_tolerance: Tolerance::default().relative,
            absolute_tolerance: 0.0,
        }
    }
}

impl DensityOptions {
    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        if let BandwidthRule::Fixed(h) = self.bandwidth {
            positive("bandwidth", h)?;
        }
        non_negative("rtol", self.relative_tolerance)?;
        non_negative("atol", self.absolute_tolerance)?;
        Ok(())
    }
}
