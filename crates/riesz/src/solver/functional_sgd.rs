//! Functional stochastic gradient descent: doubly stochastic gradients on random features (thesis Algorithms 1–2), NORMA on
//! a dictionary (lecture §8), Pegasos on fixed features.

use super::{check_ridge, Schedule, Solver, StepInfo};
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::operator::{adjoint, apply, Exact, Operator};
use crate::space::Space;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// Settings of [`FunctionalSgd`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionalSgdConfig {
    /// γ_t.
    pub schedule: Schedule,
    /// ν in E J((T f)(s), y) + (ν/2)‖f‖².
    pub ridge: f64,
}

/// One step of min E J((T f)(s), y) + (ν/2)‖f‖², the same for every space, operator and loss:
///
/// ```text
/// v = T f,   r = −J'(v, y)/B,   f ← (1 − γν) f + γ Σ_s r_s T*δ_s
/// ```
///
/// for a batch of B samples, or of total weight B. In coefficients of random features (spec 2.3) that is
/// α_t = −(γ_t/(mB)) Σ_b ℓ'(f(x_b), y_b) φ_{ω_t}(x_b), α_j ← (1 − γ_t ν) α_j for j < t.
pub struct FunctionalSgd<'l, T, F> {
    config: FunctionalSgdConfig,
    operator: T,
    loss: &'l dyn Loss,
    space: PhantomData<fn(F)>,
}

/// Samples with targets and weights.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a, B> {
    /// What the operator looks at.
    pub batch: B,
    /// Targets, n×[`Loss::targets`].
    pub targets: &'a [f32],
    /// Sample weights, not all zero.
    pub weights: &'a [f32],
}

/// What changes from step to step.
#[derive(Clone, Debug)]
pub struct SgdState<F> {
    /// The last iterate.
    pub f: F,
    /// Steps taken.
    pub step: u64,
}

impl<F> SgdState<F> {
    /// The state that continues from `f` (constant, or what an earlier fit returned).
    pub fn new(f: F) -> Self {
        Self { f, step: 0 }
    }
}

/// Facts about one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdInfo {
    /// Mean loss on the batch before the step: predict, then learn.
    pub loss: f64,
    /// Total weight of the batch.
    pub weight: f64,
    /// The step size used.
    pub step_size: f64,
}

impl FunctionalSgdConfig {
    /// Checks the settings. The operator must be [`Exact`]: gradients of a loss at an estimate of (T f)(s) are biased.
    pub fn build<T: Exact, F: Space>(self, operator: T, loss: &dyn Loss) -> Result<FunctionalSgd<'_, T, F>> {
        self.schedule.check()?;
        check_ridge(self.ridge)?;
        Ok(FunctionalSgd { config: self, operator, loss, space: PhantomData })
    }
}

impl<T: Operator, F: Space> Solver for FunctionalSgd<'_, T, F> {
    type Batch<'a> = Samples<'a, T::Batch<'a>>;
    type State = SgdState<F>;
    type Info = SgdInfo;

    fn step(&self, state: &mut SgdState<F>, samples: Samples<'_, T::Batch<'_>>) -> Result<SgdInfo> {
        let Samples { batch, targets, weights } = samples;
        let size = weights.len() * self.loss.outputs();
        let (mut values, mut residuals) = (vec![0.0; size], vec![0.0; size]);
        apply(&self.operator, &state.f, batch, &mut values)?;
        let weight: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let loss = self.loss.total(&values, targets, weights) / weight;
        if !loss.is_finite() {
            let lower = "the step size, or raise its delay";
            return Err(Error::Diverged { step: state.step as usize, objective: loss, lower });
        }
        self.loss.residuals(&values, targets, weights, &mut residuals);
        residuals.iter_mut().for_each(|r| *r = (f64::from(*r) / weight) as f32);
        let step_size = self.config.schedule.at(state.step + 1);
        state.f.step(step_size, self.config.ridge, &adjoint(&self.operator, batch, &residuals))?;
        state.step += 1;
        Ok(SgdInfo { loss, weight, step_size })
    }
}

impl StepInfo for SgdInfo {
    fn loss(&self) -> f64 {
        self.loss
    }
}
