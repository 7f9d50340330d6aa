//! Value functions by stochastic steps.

use super::checkpoint::{Stand, Watch};
use super::options::{EvaluationOptions, Functions, Method};
use super::points::{Prepared, TransitionBatches};
use crate::driver::{run, Batches, Control};
use crate::error::Result;
use crate::loss::Square;
use crate::operator::{Bellman, Deterministic, Discount};
use crate::solver::{
    DualForm, EmbeddingSgdConfig, FunctionalSgdConfig, Moments, SaddleState, Schedule, SgdState, Solver,
    TemporalDifference,
};
use crate::space::{Averaging, Basis, Linear, Storable};
use faer::Mat;

/// The mean objective of the steps since the last entry, and how many steps were taken then.
pub(super) type History = Vec<(u64, f64)>;

/// θ by steps, and what they saw: of V, or of f with V = c + f where they are centred.
pub(super) fn learn(
    options: &EvaluationOptions,
    prepared: &Prepared<'_>,
    (basis, moments): (&Basis, &Moments),
    control: &mut Control<'_>,
) -> Result<(Mat<f64>, History)> {
    let one = basis.one().filter(|_| options.centred);
    let constant = one.as_ref().map_or(0.0, |_| prepared.log.constant(options.discount));
    let (inner, places) = match options.features {
        // The function one has by far the largest eigenvalue, and steps would have to be short enough for it.
        Functions::Random | Functions::Atoms => basis.without_intercept(),
        _ => (basis.clone(), (0..basis.len()).collect()),
    };
    let curvature = moments.curvature(&places, options.batch_size);
    let rewards = prepared.log.rewards_beside(options.discount, constant);
    let descent = Descent { options, prepared, rewards, units: [1.0 / curvature; 2] };
    let zero = Linear::new(inner, 1);
    let (f, history) = descent.run((zero.clone(), zero), control)?;
    let one = one.unwrap_or_else(|| vec![0.0; basis.len()]);
    let mut theta = Mat::from_fn(basis.len(), 1, |i, _| constant * one[i]);
    places.iter().zip(f.coefficients()).for_each(|(&place, value)| theta[(place, 0)] += value);
    Ok((theta, history))
}

/// Steps over transitions with rewards of their own; step sizes of V and of its dual are in units.
pub(super) struct Descent<'a> {
    pub options: &'a EvaluationOptions,
    pub prepared: &'a Prepared<'a>,
    pub rewards: Vec<f32>,
    pub units: [f64; 2],
}

impl Descent<'_> {
    /// The averaged iterate from a function and its dual on.
    pub(super) fn run<F: Storable>(
        self,
        (f, dual): (F, F),
        control: &mut Control<'_>,
    ) -> Result<(F, History)> {
        let Self { options, prepared, rewards, units } = self;
        let operator = Bellman { discount: Discount::try_from(options.discount)? };
        let mut batches = TransitionBatches::new(prepared, rewards, options.batch_size, options.seed);
        let mut watch = Watch::new(options, prepared.log, batches.len());
        let schedule = |unit: f64, step: f64| match (options.published, unit * step) {
            (true, step) => Schedule::InverseRoot { step, delay: 0.0, horizon: f64::INFINITY },
            (false, step) => Schedule::Constant { step },
        };
        let f = f.averaging(rule(options, options.passes.saturating_mul(batches.len()) as u64));
        let (ridge, square) = (options.ridge.unwrap_or(0.0), Square { outputs: 1 });
        let f = match options.method {
            Method::EmbeddingSgd | Method::Gtd2 => {
                let config = EmbeddingSgdConfig {
                    primal: schedule(units[0], options.step),
                    dual: schedule(units[1], options.dual_step),
                    primal_ridge: ridge,
                    dual_ridge: options.dual_ridge.unwrap_or(0.0),
                    form: DualForm::Free,
                };
                let solver = config.build(operator, &square)?;
                let mut state = SaddleState::new(f, dual);
                follow(&solver, &mut state, &mut batches, &mut watch, control)?;
                state.f
            }
            Method::ResidualGradient => {
                let config = FunctionalSgdConfig { schedule: schedule(units[0], options.step), ridge };
                let solver = config.build(Deterministic(operator), &square)?;
                let mut state = SgdState::new(f);
                follow(&solver, &mut state, &mut batches, &mut watch, control)?;
                state.f
            }
            _ => {
                let solver = TemporalDifference::new(schedule(units[0], options.step), ridge, operator)?;
                let mut state = SgdState::new(f);
                follow(&solver, &mut state, &mut batches, &mut watch, control)?;
                state.f
            }
        };
        Ok((f.average(), watch.history()))
    }
}

/// All steps, or those that a checkpoint has not seen.
fn follow<'a, S: Solver>(
    solver: &S,
    state: &mut S::State,
    batches: &mut TransitionBatches<'a>,
    watch: &mut Watch,
    control: &mut Control<'_>,
) -> Result<()>
where
    S::State: Stand,
    TransitionBatches<'a>: Batches<S>,
{
    if let Some(policy) = &control.checkpoint {
        policy.prepare()?;
        if policy.path.exists() {
            watch.resume(state, &policy.path)?;
            batches.seek(state.step());
        }
    }
    run(solver, state, batches, watch, control)?;
    Ok(())
}

/// The average that a method returns: weighted by the steps as published, or of the last half of the iterates.
fn rule(options: &EvaluationOptions, steps: u64) -> Averaging {
    match options.published {
        true => Averaging::StepSize,
        false => Averaging::LastHalf(steps),
    }
}
