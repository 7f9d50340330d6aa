//! Functional stochastic gradient descent (thesis Algorithms 1–2; on a dictionary it would be NORMA).

use super::{check_ridge, Schedule};
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::operator::{Evaluation, Operator};
use crate::space::{FeatureExpansion, Space};
use serde::{Deserialize, Serialize};

/// Settings of [`FunctionalSgd`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionalSgdConfig {
    /// γ_t.
    pub schedule: Schedule,
    /// ν in E ℓ(f(x), y) + (ν/2)‖f‖².
    pub ridge: f64,
    /// Whether the average of all iterates is kept too.
    pub average: bool,
}

/// f ← (1 − γν) f − γ E_batch[ℓ'(f(x), y) k(x, ·)], with k(x, ·) seen through one fresh block of random features.
///
/// In coefficients (spec 2.3): α_t = −(γ_t/(mB)) Σ_b ℓ'(f(x_b), y_b) φ_{ω_t}(x_b), α_j ← (1 − γ_t ν) α_j for j < t.
#[derive(Clone, Copy, Debug)]
pub struct FunctionalSgd {
    config: FunctionalSgdConfig,
}

/// What changes from step to step.
#[derive(Clone, Debug)]
pub struct SgdState {
    /// The last iterate.
    pub f: FeatureExpansion,
    /// Steps taken.
    pub step: u64,
    /// Sums of the running scalar up to, not including, each block, then up to now: with S these sums the averaged
    /// iterate has the coefficients α_b (S_T − S_{b−1})/(T s_T).
    sums: Vec<f64>,
}

/// Facts about one step.
#[derive(Clone, Copy, Debug)]
pub struct SgdInfo {
    /// Mean loss on the batch before the step.
    pub loss: f64,
    /// The step size used.
    pub step_size: f64,
}

impl FunctionalSgdConfig {
    /// Checks the settings.
    pub fn build(self) -> Result<FunctionalSgd> {
        self.schedule.check()?;
        check_ridge(self.ridge)?;
        Ok(FunctionalSgd { config: self })
    }
}

impl FunctionalSgd {
    /// The state that continues from `f` (empty, or what an earlier fit returned).
    pub fn init(&self, f: FeatureExpansion) -> SgdState {
        let sums = vec![0.0; f.len() + 1];
        SgdState { f, step: 0, sums }
    }

    /// One step on a batch.
    pub fn step(
        &self,
        state: &mut SgdState,
        loss: &dyn Loss,
        rows: Rows<'_>,
        targets: &[f32],
        weights: &[f32],
    ) -> Result<SgdInfo> {
        let (n, c) = (rows.len(), loss.outputs());
        let mut values = vec![0.0; n * c];
        Evaluation.apply(&state.f, rows, &mut values)?;
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let value = loss.total(&values, targets, weights) / total;
        let step_size = self.config.schedule.at(state.step + 1);
        if !value.is_finite() {
            let lower = "the step size (theta), or raise its delay";
            return Err(Error::Diverged { step: state.step as usize, objective: value, lower });
        }
        let mut terms = vec![0.0; n * c];
        loss.residuals(&values, targets, weights, &mut terms);
        terms.iter_mut().for_each(|r| *r *= (step_size / total) as f32);
        let before = state.f.scale();
        let shrink = 1.0 - step_size * self.config.ridge;
        state.f.step(shrink, Evaluation.adjoint(rows, &terms))?;
        state.step += 1;
        if self.config.average {
            state.remember(before * shrink, shrink);
        }
        Ok(SgdInfo { loss: value, step_size })
    }
}

impl SgdState {
    /// Keeps the sums of the running scalar in its current unit.
    fn remember(&mut self, expected: f64, shrink: f64) {
        let now = self.f.scale();
        if shrink == 0.0 {
            self.sums.iter_mut().for_each(|s| *s = 0.0);
        } else if now != expected {
            // The scalar was multiplied into the coefficients: change the unit of its past values too.
            self.sums.iter_mut().for_each(|s| *s *= now / expected);
        }
        let last = self.sums.last().copied().unwrap_or(0.0);
        self.sums.push(last + now);
    }

    /// The average (1/T) Σ_t f_t of all iterates.
    pub fn average(&self) -> FeatureExpansion {
        let total = self.sums.last().copied().unwrap_or(0.0);
        let now = self.f.scale() * self.step.max(1) as f64;
        self.f.reweighted(|b| (total - self.sums[b]) / now)
    }
}
