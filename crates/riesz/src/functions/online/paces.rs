//! Functional gradient steps at several paces side by side.
//!
//! Which step size is best depends on how fast a stream changes, and that changes too. So f = Σ_s p_s f_s is a mixture of
//! functions on the same atoms or features: f_s takes steps of its own size γ_s, and its share p_s ∝ exp(−L_s/2) falls with
//! what its predictions have lately cost, L_s ← (1 − 1/T) L_s + w ℓ(f_s(x), y). Losses are convex: ℓ(f) ≤ Σ p_s ℓ(f_s).

use super::classes::Rounded;
use super::memory::Kept;
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::solver::{PrimalDualState, Samples, Schedule, Solver, StepInfo};

/// Steps relative to η: slow streams and noisy targets ask for the first, labels that come in runs for the last.
pub(super) const PACES: [f64; 3] = [0.25, 1.0, 4.0];
/// How fast shares fall with costs.
const SHARPNESS: f64 = 0.5;

/// Functional stochastic gradient descent, one row after the other, at each of several paces.
pub(super) struct PacedSgd<'l> {
    pub loss: &'l dyn Loss,
    /// η of each pace.
    pub steps: Vec<f64>,
    /// Bound of ∇²ℓ times the mean of k(x, x): the unit of steps is one over it.
    pub curvature: f64,
    pub ridge: f64,
    /// T: costs and steps look back so many rows.
    pub horizon: f64,
}

/// What changes from row to row.
#[derive(Clone, Debug)]
pub(super) struct OnlineState {
    /// All f_s, one after the other: S·C outputs. Multipliers where there are constraints.
    pub inner: PrimalDualState<Kept>,
    /// L_s.
    pub costs: Vec<f64>,
}

/// Facts about some rows.
pub(super) struct Told {
    /// w ℓ(f(x), y) before learning, and w.
    pub costs: Vec<(f64, f64)>,
    /// f(x) before learning, n×C.
    pub values: Vec<f32>,
}

impl StepInfo for Told {
    fn loss(&self) -> f64 {
        let (loss, weight) = self.costs.iter().fold((0.0, 0.0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
        loss / weight
    }
}

/// p_s ∝ exp(−L_s/2).
pub(super) fn shares(costs: &[f64]) -> Vec<f64> {
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let weights: Vec<f64> = costs.iter().map(|cost| (SHARPNESS * (least - cost)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Σ_s p_s u_s for each of the C outputs.
pub(super) fn mix<T: Copy + Into<f64> + Rounded>(shares: &[f64], u: &[T], out: &mut [T]) {
    let c = out.len();
    for (o, out) in out.iter_mut().enumerate() {
        let terms = shares.iter().zip(u.iter().skip(o).step_by(c));
        *out = T::rounded(terms.map(|(share, u)| share * (*u).into()).sum::<f64>());
    }
}

impl PacedSgd<'_> {
    /// γ_s at step t, each at most one over the curvature.
    fn sizes(&self, t: u64) -> impl Iterator<Item = f64> + '_ {
        self.steps.iter().map(move |&step| {
            let delay = step * step;
            let horizon = self.horizon.max(delay);
            Schedule::InverseRoot { step: step / self.curvature, delay, horizon }.at(t)
        })
    }

    /// The step that `weight` rows at one point are worth: on a parabola, as many steps one after the other.
    fn repeated(&self, size: f64, weight: f32) -> f64 {
        let shrink = 1.0 - size * self.curvature;
        match weight {
            1.0 => size,
            _ => (1.0 - shrink.max(0.0).powf(f64::from(weight))) / self.curvature,
        }
    }
}

impl Solver for PacedSgd<'_> {
    type Batch<'a> = Samples<'a, Rows<'a>>;
    type State = OnlineState;
    type Info = Told;

    fn step(&self, state: &mut OnlineState, samples: Samples<'_, Rows<'_>>) -> Result<Told> {
        let Samples { batch, targets, weights } = samples;
        let (c, t) = (self.loss.outputs(), self.loss.targets());
        let (mut u, mut r) = (vec![0.0; self.steps.len() * c], vec![0.0; self.steps.len() * c]);
        let mut told =
            Told { costs: Vec::with_capacity(weights.len()), values: vec![0.0; weights.len() * c] };
        let OnlineState { inner: state, costs } = state;
        let looked = state.f.look(batch)?;
        for (i, &weight) in weights.iter().enumerate() {
            let (y, value) = (&targets[i * t..(i + 1) * t], &mut told.values[i * c..(i + 1) * c]);
            state.f.values(&looked, i, &mut u)?;
            mix(&shares(costs), &u, value);
            if weight == 0.0 {
                continue;
            }
            let (loss, weight64) = (self.loss.value(value, y), f64::from(weight));
            told.costs.push((weight64 * loss, weight64));
            let sizes: Vec<f64> = self.sizes(state.step + 1).collect();
            let size = sizes[sizes.len() / 2];
            let paces = u.chunks_exact(c).zip(r.chunks_exact_mut(c)).zip(costs.iter_mut().zip(&sizes));
            let mut total = loss;
            for ((u, r), (cost, own)) in paces {
                let lost = self.loss.value(u, y);
                total += lost;
                *cost = (1.0 - 1.0 / self.horizon) * *cost + weight64 * lost;
                self.loss.derivative(u, y, r);
                let factor = (-self.repeated(*own, weight) / size) as f32;
                r.iter_mut().for_each(|r| *r *= factor);
            }
            if !total.is_finite() {
                let lower = "the step size, or the bandwidth of a kernel that grows";
                return Err(Error::Diverged { step: state.step as usize, objective: total, lower });
            }
            state.f.step_at((&looked, i), size, self.ridge, &r)?;
            state.step += 1;
        }
        Ok(told)
    }
}
