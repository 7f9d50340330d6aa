//! Kernels and their random features.
//!
//! A kernel is a pair (spec 2.1): a measure p(ω) and features φ_ω with E[φ_ω(x) φ_ω(x')] = k(x, x'). One file per
//! family holds the closed form and the measure; [`FeatureMap`] turns a measure into blocks of features.
//!
//! Normalisation: a block of m scalar features stands for k ≈ (1/m) Σ φ_i(x) φ_i(x').

mod feature_map;
mod gaussian;
mod laplacian;

pub use feature_map::{FeatureForm, FeatureMap, Projection, Scaling};
pub use gaussian::Gaussian;
pub use laplacian::Laplacian;

use crate::error::{Error, Result};
use crate::random::Address;
use serde::{Deserialize, Serialize};

/// A shift-invariant kernel of unit bandwidth.
pub trait Kernel {
    /// k(x, x') for the difference x − x', in units of the bandwidth.
    fn evaluate(&self, difference: &[f64]) -> f64;

    /// Draws a frequency ω ~ p(ω) for unit bandwidth; lanes of `address` are consumed in order.
    fn frequency(&self, address: Address, out: &mut [f64]);

    /// Whether p(ω) depends on ‖ω‖ alone, so that structured orthogonal directions may replace independent ones.
    fn is_isotropic(&self) -> bool;
}

/// The kernel families, by the names users type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSpec {
    /// exp(−‖x − x'‖²/2σ²).
    Gaussian,
    /// exp(−‖x − x'‖₁/σ).
    Laplacian,
}

impl KernelSpec {
    /// The kernel itself.
    pub fn kernel(self) -> &'static dyn Kernel {
        match self {
            Self::Gaussian => &Gaussian,
            Self::Laplacian => &Laplacian,
        }
    }

    /// k(x, x') with bandwidth σ.
    pub fn evaluate(self, x: &[f32], other: &[f32], bandwidth: f64) -> f64 {
        let difference: Vec<f64> =
            x.iter().zip(other).map(|(a, b)| (f64::from(*a) - f64::from(*b)) / bandwidth).collect();
        self.kernel().evaluate(&difference)
    }
}

impl std::str::FromStr for KernelSpec {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "gaussian" | "rbf" => Ok(Self::Gaussian),
            "laplacian" => Ok(Self::Laplacian),
            _ => Err(Error::Unknown {
                name: "kernel",
                value: name.into(),
                expected: "gaussian (rbf), laplacian",
            }),
        }
    }
}

/// Fills `out` from pairs of draws, two words each.
fn fill_pairs(address: Address, out: &mut [f64], pair: impl Fn(u32, u32) -> [f64; 2]) {
    for (lane, four) in out.chunks_mut(4).enumerate() {
        let [a, b, c, d] = address.words(lane as u32);
        let draws = [pair(a, b), pair(c, d)];
        four.iter_mut().zip(draws.as_flattened()).for_each(|(o, v)| *o = *v);
    }
}
