//! From gradients to steps.

use crate::error::{in_range, positive, Result};
use serde::{Deserialize, Serialize};

/// How the parameters θ of a network follow the gradient g, upwards, with steps of size γ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimiser {
    /// θ ← θ + γ g.
    Sgd,
    /// Kingma and Ba 2015, Algorithm 1: m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g²,
    /// θ ← θ + γ (m/(1 − β₁ᵗ)) / (√(v/(1 − β₂ᵗ)) + ε).
    Adam {
        /// β₁ in [0, 1).
        beta1: f64,
        /// β₂ in [0, 1).
        beta2: f64,
        /// ε > 0.
        epsilon: f64,
    },
}

impl Optimiser {
    /// Adam with the constants of its text.
    pub const ADAM: Self = Self::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };

    pub(super) fn check(&self) -> Result<()> {
        let Self::Adam { beta1, beta2, epsilon } = *self else { return Ok(()) };
        for (name, beta) in [("beta1", beta1), ("beta2", beta2)] {
            in_range(name, beta, (0.0..1.0).contains(&beta), "[0, 1)")?;
        }
        positive("epsilon", epsilon).map(drop)
    }

    /// How many numbers it keeps for each parameter.
    pub(super) fn moments(&self) -> usize {
        match self {
            Self::Sgd => 0,
            Self::Adam { .. } => 2,
        }
    }

    /// Step t = 1, 2, … of `size` γ along `gradient`. `moments` are all m, then all v.
    pub(super) fn step(self, t: u64, size: f64, gradient: &[f64], theta: &mut [f32], moments: &mut [f32]) {
        match self {
            Self::Sgd => {
                let pairs = theta.iter_mut().zip(gradient);
                pairs.for_each(|(theta, g)| *theta = (f64::from(*theta) + size * g) as f32);
            }
            Self::Adam { beta1, beta2, epsilon } => {
                let (first, second) = moments.split_at_mut(theta.len());
                let [correct1, correct2] = [beta1, beta2].map(|beta| 1.0 - beta.powf(t as f64));
                let moments = first.iter_mut().zip(second);
                for ((theta, g), (m, v)) in theta.iter_mut().zip(gradient).zip(moments) {
                    let mean = beta1 * f64::from(*m) + (1.0 - beta1) * g;
                    let square = beta2 * f64::from(*v) + (1.0 - beta2) * g * g;
                    (*m, *v) = (mean as f32, square as f32);
                    let step = (mean / correct1) / ((square / correct2).sqrt() + epsilon);
                    *theta = (f64::from(*theta) + size * step) as f32;
                }
            }
        }
    }
}
