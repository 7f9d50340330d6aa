//! Projected stochastic primal–dual: kernel machines under constraints (slides; spec 3.4).

use super::{check_ridge, Samples, Schedule, Solver, StepInfo};
use crate::constraint::Constraint;
use crate::error::{in_range, non_negative, Error, Result};
use crate::loss::Loss;
use crate::operator::{adjoint, apply, Exact, Operator};
use crate::space::Space;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// Settings of [`PrimalDual`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrimalDualConfig {
    /// η_t.
    pub schedule: Schedule,
    /// λ in (λ/2)‖f‖².
    pub ridge: f64,
    /// δ in −(δη/2)‖μ‖².
    pub dual_ridge: f64,
    /// η_d of multipliers and auxiliary scalars.
    pub dual: Schedule,
    /// The largest norm of ℓ' + Σ μ_j g_j' at a sample, to which longer ones are shortened.
    pub clip: f64,
    /// A fixed value of all multipliers in place of learnt ones: the penalty method.
    pub penalty: Option<f64>,
    /// The multiplier beyond which a constraint counts as one that cannot be met.
    pub limit: f64,
}

impl PrimalDualConfig {
    /// As published: all steps alike, no gradient shortened.
    pub fn published(schedule: Schedule, ridge: f64, dual_ridge: f64) -> Self {
        let (dual, clip, limit) = (schedule, f64::INFINITY, 1e3);
        Self { schedule, ridge, dual_ridge, dual, clip, penalty: None, limit }
    }

    /// As published but that multipliers and auxiliary scalars move ten times slower than f ever does, and no gradient is
    /// longer than ten: with one slope of the loss as its unit, that of a sample in the worst twentieth is 1 + 20μ.
    pub fn stabilised(schedule: Schedule, ridge: f64, dual_ridge: f64) -> Self {
        let dual = match schedule.least() {
            0.0 => schedule.times(0.1),
            least => Schedule::Constant { step: 0.1 * least },
        };
        Self { dual, clip: 10.0, ..Self::published(schedule, ridge, dual_ridge) }
    }

    /// The same with steps `factor` times as long.
    pub fn times(self, factor: f64) -> Self {
        Self { schedule: self.schedule.times(factor), dual: self.dual.times(factor), ..self }
    }

    /// Checks the settings. The operator must be [`Exact`].
    pub fn build<'l, T: Exact, F: Space>(
        self,
        operator: T,
        loss: &'l dyn Loss,
        constraints: &'l [Box<dyn Constraint>],
    ) -> Result<PrimalDual<'l, T, F>> {
        self.schedule.check()?;
        check_ridge(self.ridge)?;
        non_negative("dual_ridge", self.dual_ridge)?;
        self.dual.check()?;
        in_range("clip", self.clip, self.clip > 0.0, "(0, inf]")?;
        in_range("multiplier_limit", self.limit, self.limit > 0.0, "(0, inf]")?;
        self.penalty.map(|penalty| non_negative("penalty", penalty)).transpose()?;
        Ok(PrimalDual { config: self, operator, loss, constraints, space: PhantomData })
    }
}

/// One step towards the saddle point of the Lagrangian of min E ℓ((T f)(s), y) + (λ/2)‖f‖² subject to E g_j ≤ 0,
///
/// ```text
/// L(f, a, μ) = E[ℓ + Σ_j μ_j g_j(·; a_j)] + (λ/2)‖f‖² − (δη/2)‖μ‖²:
///
/// f   ← KOMP( (1 − ηλ) f − η [ℓ' + Σ_j μ_j g_j'] T*δ_s )
/// a_j ← a_j − η_d μ_j ∂g_j/∂a
/// μ_j ← [ (1 − η_d η δ) μ_j + η_d g_j ]₊
/// ```
///
/// all from the same f, a and μ. As published η_d = η; [`PrimalDualConfig::stabilised`] has named departures. The projection is a matter of
/// the space ([`crate::space::Budget::Komp`]). Without constraints it is [`FunctionalSgd`](super::FunctionalSgd); with KOMP, POLK.
pub struct PrimalDual<'l, T, F> {
    config: PrimalDualConfig,
    operator: T,
    loss: &'l dyn Loss,
    constraints: &'l [Box<dyn Constraint>],
    space: PhantomData<fn(F)>,
}

/// What changes from step to step.
#[derive(Clone, Debug)]
pub struct PrimalDualState<F> {
    /// The last iterate of f.
    pub f: F,
    /// What is learnt of each constraint.
    pub duals: Vec<Dual>,
    /// Steps taken.
    pub step: u64,
}

/// What is learnt of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dual {
    /// μ.
    pub multiplier: f64,
    /// a: z of CVaR, t of chance constraints.
    pub auxiliary: f64,
    /// The mean of g over about the last thousand samples, each seen before it was learnt from.
    pub value: f64,
}

/// Samples over which the running mean of g is taken.
const RECENT: f64 = 1_000.0;

impl<F> PrimalDualState<F> {
    /// The state that begins with `f` and multipliers of zero, or of the penalty.
    pub fn new(f: F, constraints: &[Box<dyn Constraint>], penalty: Option<f64>) -> Self {
        let multiplier = penalty.unwrap_or(0.0);
        let starts = constraints.iter().map(|constraint| constraint.start());
        let duals = starts.map(|auxiliary| Dual { multiplier, auxiliary, value: 0.0 }).collect();
        Self { f, duals, step: 0 }
    }
}

/// Facts about one step.
#[derive(Clone, Debug, PartialEq)]
pub struct PrimalDualInfo {
    /// Mean loss on the batch before the step: predict, then learn.
    pub loss: f64,
    /// Total weight of the batch.
    pub weight: f64,
    /// The mean of each g on the batch before the step.
    pub values: Vec<f64>,
}

impl StepInfo for PrimalDualInfo {
    fn loss(&self) -> f64 {
        self.loss
    }
}

/// Sums over a batch for one constraint.
#[derive(Clone, Copy, Default)]
struct Total {
    value: f64,
    auxiliary: f64,
}

impl<T: Operator, F: Space> PrimalDual<'_, T, F> {
    /// Turns −ℓ' in `residual` into −(ℓ' + Σ μ_j g_j'), shortened, and adds up what the constraints say.
    fn constrain(
        &self,
        duals: &[Dual],
        (u, y, weight): (&[f32], &[f32], f64),
        residual: &mut [f32],
        totals: &mut [Total],
    ) -> Result<()> {
        let mut slope = vec![0.0; u.len()];
        for ((constraint, dual), total) in self.constraints.iter().zip(duals).zip(totals) {
            let sample = constraint.sample(u, y, dual.auxiliary, &mut slope)?;
            total.value += weight * sample.value;
            total.auxiliary += weight * sample.auxiliary;
            let factor = (weight * dual.multiplier) as f32;
            residual.iter_mut().zip(&slope).for_each(|(r, s)| *r -= factor * s);
        }
        let norm = residual.iter().map(|r| f64::from(*r).powi(2)).sum::<f64>().sqrt();
        let longest = weight * self.config.clip;
        if norm > longest {
            residual.iter_mut().for_each(|r| *r = (f64::from(*r) * longest / norm) as f32);
        }
        Ok(())
    }

    /// Moves multipliers and auxiliary scalars by the means of a batch.
    fn move_duals(&self, state: &mut PrimalDualState<F>, size: f64, means: &[Total]) -> Result<()> {
        let PrimalDualConfig { dual, dual_ridge, penalty, limit, .. } = self.config;
        let step = dual.at(state.step + 1);
        let share = 1.0 / (state.step as f64 + 1.0).min(RECENT);
        let all = state.duals.iter_mut().zip(self.constraints).zip(means).enumerate();
        for (j, ((dual, constraint), mean)) in all {
            dual.value += share * (mean.value - dual.value);
            let moved = dual.auxiliary - step * dual.multiplier * mean.auxiliary;
            dual.auxiliary = constraint.project(moved);
            if penalty.is_none() {
                let shrink = 1.0 - step * size * dual_ridge;
                dual.multiplier = (shrink * dual.multiplier + step * mean.value).max(0.0);
            }
            if dual.multiplier.is_nan() || dual.multiplier > limit {
                return Err(Error::Multiplier {
                    constraint: j + 1,
                    multiplier: dual.multiplier,
                    step: state.step,
                    value: dual.value,
                });
            }
        }
        Ok(())
    }
}

impl<T: Operator, F: Space> Solver for PrimalDual<'_, T, F> {
    type Batch<'a> = Samples<'a, T::Batch<'a>>;
    type State = PrimalDualState<F>;
    type Info = PrimalDualInfo;

    fn step(
        &self,
        state: &mut PrimalDualState<F>,
        samples: Samples<'_, T::Batch<'_>>,
    ) -> Result<PrimalDualInfo> {
        let Samples { batch, targets, weights } = samples;
        let (c, t) = (self.loss.outputs(), self.loss.targets());
        let (mut values, mut residuals) = (vec![0.0; weights.len() * c], vec![0.0; weights.len() * c]);
        apply(&self.operator, &state.f, batch, &mut values)?;
        let weight: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let loss = self.loss.total(&values, targets, weights) / weight;
        if !loss.is_finite() {
            let lower = "the step size, or raise its delay";
            return Err(Error::Diverged { step: state.step as usize, objective: loss, lower });
        }
        self.loss.residuals(&values, targets, weights, &mut residuals);
        let mut totals = vec![Total::default(); self.constraints.len()];
        if !self.constraints.is_empty() || self.config.clip < f64::INFINITY {
            for (i, (residual, &w)) in residuals.chunks_exact_mut(c).zip(weights).enumerate() {
                let sample = (&values[i * c..][..c], &targets[i * t..][..t], f64::from(w));
                self.constrain(&state.duals, sample, residual, &mut totals)?;
            }
        }
        residuals.iter_mut().for_each(|r| *r = (f64::from(*r) / weight) as f32);
        let size = self.config.schedule.at(state.step + 1);
        state.f.step(size, self.config.ridge, &adjoint(&self.operator, batch, &residuals))?;
        let mean = |total: &Total| Total { value: total.value / weight, auxiliary: total.auxiliary / weight };
        let means: Vec<Total> = totals.iter().map(mean).collect();
        self.move_duals(state, size, &means)?;
        state.step += 1;
        Ok(PrimalDualInfo { loss, weight, values: means.iter().map(|mean| mean.value).collect() })
    }
}
