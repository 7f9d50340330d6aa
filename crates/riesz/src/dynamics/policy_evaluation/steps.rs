//! Value functions by stochastic steps.

use super::options::{EvaluationOptions, Method};
use super::points::{Prepared, TransitionBatches};
use crate::driver::{run, Control, Phase, Steps};
use crate::error::Result;
use crate::loss::Square;
use crate::operator::{Bellman, Deterministic, Discount};
use crate::solver::{
    DualForm, EmbeddingSgdConfig, FunctionalSgdConfig, SaddleState, Schedule, SgdState, TemporalDifference,
};
use crate::space::{Averaged, Averaging, Basis, Linear};

/// θ of the averaged iterate.
pub(super) fn descend(
    options: &EvaluationOptions,
    prepared: &Prepared<'_>,
    (basis, curvature): (Basis, f64),
    control: &mut Control<'_>,
) -> Result<Vec<f64>> {
    let operator = Bellman { discount: Discount::try_from(options.discount)? };
    let mut batches = TransitionBatches::new(prepared, options.batch_size, options.seed);
    let mut monitor = Steps::passes(Phase::Fit, options.passes, batches.len());
    let schedule = |step: f64| match (options.published, step / curvature) {
        (true, step) => Schedule::InverseRoot { step, delay: 0.0, horizon: f64::INFINITY },
        (false, step) => Schedule::Constant { step },
    };
    let steps = (options.passes * batches.len()) as u64;
    let zero = || Linear::new(basis.clone(), 1).averaging(rule(options, steps));
    let (ridge, square) = (options.ridge.unwrap_or(0.0), Square { outputs: 1 });
    let f = match options.method {
        Method::EmbeddingSgd | Method::Gtd2 => {
            let config = EmbeddingSgdConfig {
                primal: schedule(options.step),
                dual: schedule(options.dual_step),
                primal_ridge: ridge,
                dual_ridge: options.dual_ridge.unwrap_or(0.0),
                form: DualForm::Free,
            };
            let solver = config.build(operator, &square)?;
            let mut state = SaddleState::new(zero(), zero());
            run(&solver, &mut state, &mut batches, &mut monitor, control)?;
            state.f
        }
        Method::ResidualGradient => {
            let config = FunctionalSgdConfig { schedule: schedule(options.step), ridge };
            let solver = config.build(Deterministic(operator), &square)?;
            let mut state = SgdState::new(zero());
            run(&solver, &mut state, &mut batches, &mut monitor, control)?;
            state.f
        }
        _ => {
            let solver = TemporalDifference::new(schedule(options.step), ridge, operator)?;
            let mut state = SgdState::new(zero());
            run(&solver, &mut state, &mut batches, &mut monitor, control)?;
            state.f
        }
    };
    Ok(f.average().coefficients().to_vec())
}

/// The average that a method returns: weighted by the steps as published, or of the last half of the iterates.
fn rule(options: &EvaluationOptions, steps: u64) -> Averaging {
    match options.published {
        true => Averaging::StepSize,
        false => Averaging::LastHalf(steps),
    }
}
