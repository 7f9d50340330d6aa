//! TD(0): the baseline of policy evaluation.

use super::{check_ridge, Samples, Schedule, SgdInfo, SgdState, Solver};
use crate::error::{Error, Result};
use crate::operator::{apply, Conditional};
use crate::space::{Space, Terms};
use std::marker::PhantomData;

/// One step of temporal differences, V ← (1 − γν) V + γ δ k(s, ·) with δ = (T V)(s) − y: that of the Bellman residual where
/// its dependence on V(s') is left out ("semi-gradient"). It is no gradient of anything, and may diverge off-policy.
pub struct TemporalDifference<T, F> {
    schedule: Schedule,
    ridge: f64,
    operator: T,
    space: PhantomData<fn(F)>,
}

impl<T: Conditional, F: Space> TemporalDifference<T, F> {
    /// Checks the settings.
    pub fn new(schedule: Schedule, ridge: f64, operator: T) -> Result<Self> {
        schedule.check()?;
        check_ridge(ridge)?;
        Ok(Self { schedule, ridge, operator, space: PhantomData })
    }
}

impl<T: Conditional, F: Space> Solver for TemporalDifference<T, F> {
    type Batch<'a> = Samples<'a, T::Batch<'a>>;
    type State = SgdState<F>;
    type Info = SgdInfo;

    fn step(&self, state: &mut SgdState<F>, samples: Samples<'_, T::Batch<'_>>) -> Result<SgdInfo> {
        let Samples { batch, targets, weights } = samples;
        let mut residuals = vec![0.0; targets.len()];
        apply(&self.operator, &state.f, batch, &mut residuals)?;
        let weight: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let (c, mut loss) = (targets.len() / weights.len().max(1), 0.0);
        for (i, (r, y)) in residuals.iter_mut().zip(targets).enumerate() {
            let (delta, w) = (f64::from(*r) - f64::from(*y), f64::from(weights[i / c]));
            loss += 0.5 * w * delta * delta / weight;
            *r = (w * delta / weight) as f32;
        }
        if !loss.is_finite() {
            return Err(Error::Diverged {
                step: state.step as usize,
                objective: loss,
                lower: "the step size",
            });
        }
        let step_size = self.schedule.at(state.step + 1);
        state.f.step(step_size, self.ridge, &[Terms::new(self.operator.given(batch), &residuals)])?;
        state.step += 1;
        Ok(SgdInfo { loss, weight, step_size })
    }
}
