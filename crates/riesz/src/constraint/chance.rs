//! How often something bad may happen.

use super::{Constraint, Quantity, Sample};
use crate::error::{in_range, Result};
use serde::{Deserialize, Serialize};

/// A convex, nondecreasing φ ≥ 1[· > 0].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generator {
    /// [1 + s]₊: CVaR_{1−γ}(g) ≤ 0, the tightest of the three.
    #[default]
    Hinge,
    /// [1 + s]₊².
    Square,
    /// eˢ, the slides' moment generating function (Chernoff).
    Exponential,
}

impl Generator {
    /// φ(s) and φ'(s).
    fn at(self, s: f64) -> (f64, f64) {
        let positive = (1.0 + s).max(0.0);
        match self {
            Self::Hinge => (positive, if s > -1.0 { 1.0 } else { 0.0 }),
            Self::Square => (positive * positive, 2.0 * positive),
            Self::Exponential => (s.exp(), s.exp()),
        }
    }
}

/// P(g(f(x), y) > 0) ≤ γ in its convex form, g > 0 being the bad event: with t > 0 and s = g/t
///
/// ```text
/// E[t φ(s)] − tγ ≤ 0,   ∂u: φ'(s) g'(u, y),   ∂t: φ(s) − s φ'(s) − γ.
/// ```
///
/// Jointly convex in (f, t) where g is convex in u. It is conservative: the frequency of g > 0 stays below γ, and should be
/// looked at beside it.
///
/// Departure: eˢ is cut at s = 30, beyond which it is taken to be e³⁰.
pub struct Chance<Q> {
    quantity: Q,
    probability: f64,
    generator: Generator,
}

/// The largest s of the exponential.
const LARGEST: f64 = 30.0;
/// The least t, in units of g.
const LEAST: f64 = 1e-3;

impl<Q: Quantity> Chance<Q> {
    /// γ in (0, 1).
    pub fn new(quantity: Q, probability: f64, generator: Generator) -> Result<Self> {
        in_range("probability", probability, probability > 0.0 && probability < 1.0, "(0, 1)")?;
        Ok(Self { quantity, probability, generator })
    }
}

impl<Q: Quantity> Constraint for Chance<Q> {
    fn start(&self) -> f64 {
        1.0
    }

    fn project(&self, t: f64) -> f64 {
        t.max(LEAST)
    }

    fn sample(&self, u: &[f32], y: &[f32], t: f64, slope: &mut [f32]) -> Result<Sample> {
        let mut s = self.quantity.value(u, y, slope)? / t;
        if self.generator == Generator::Exponential {
            s = s.min(LARGEST);
        }
        let (value, derivative) = self.generator.at(s);
        slope.iter_mut().for_each(|g| *g = (f64::from(*g) * derivative) as f32);
        let auxiliary = value - s * derivative - self.probability;
        Ok(Sample { value: t * (value - self.probability), auxiliary })
    }
}
