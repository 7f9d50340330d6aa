//! The value of a policy from logged transitions: V(s) = E[Σ_t γ^t r_t | s_0 = s] under the policy.

mod choose;
mod estimate;
mod importance;
mod log;
mod options;
mod points;
mod steps;

pub use estimate::PolicyValue;
pub use log::{Log, Successors};
pub use options::{EvaluationOptions, Functions, Method};
pub use points::Arguments;

use crate::data::{tiles, Rows};
use crate::driver::Control;
use crate::error::{Error, Result};
use crate::model::{Container, Stored};
use crate::operator::{Bellman, Discount};
use crate::solver::{
    choose_ridge, choose_ridges, DualForm, Moments, Ridges, SaddleClosedForm, Solution, PARTS,
};
use crate::space::{Basis, Linear};
use faer::Mat;
use importance::Episodes;
use points::{branches, Branch, Prepared, CHUNK};
use serde::{Deserialize, Serialize};

/// Groups of episodes that errors are computed from, at most.
const GROUPS: usize = 512;
/// Ridges whose held-out error is at most this many times the least are as good, and the smallest is taken: the mean residual falls with
/// the ridge long after the error of the value has begun to rise.
const NEAR: f64 = 2.0;
/// λ₁ of the saddle point at most, unless given: what shrinks the slowest directions of BᵀG⁻¹B is a bias of the value.
const MOST: f64 = 1e-6;
/// λ₂ unless given.
const DUAL_RIDGE: f64 = 1e-6;
/// Up to this many transitions a kernel model has an atom at every one (Algorithm 10).
const ATOMS: usize = 2_000;

/// An evaluated policy.
///
/// V is right where E[r + γV(s') − V(s) | s] = 0 for every s; a logged transition has one s' alone. The default method solves the
/// saddle point of that equation over V and a dual function ([`crate::solver::SaddleClosedForm`]); others are there to compare
/// ([`Method`]). From transitions with actions, and what the policy does afterwards, Q(s, a) is learnt in the same way.
#[derive(Clone, Debug)]
pub struct PolicyEvaluation {
    header: Header,
    /// V or Q; none for importance sampling.
    f: Option<Linear>,
    /// What each group of episodes adds to the coefficients, J×M.
    influences: Vec<f64>,
    /// Of methods that look at episodes: the estimate, and those of bootstrap samples, in order.
    replicates: Vec<f64>,
}

/// Everything about an evaluation that is not a tensor.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    options: EvaluationOptions,
    arguments: Arguments,
    state_columns: usize,
    bandwidth: Option<f64>,
    ridges: Option<Ridges>,
    held_out_error: Option<f64>,
    transitions: usize,
    episodes: usize,
    estimate: Option<f64>,
}

/// What a fit chose.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationSummary {
    /// How.
    pub method: Method,
    /// γ.
    pub discount: f64,
    /// What the value is a function of.
    pub arguments: Arguments,
    /// Columns of the states.
    #[serde(rename = "columns")]
    pub state_columns: usize,
    /// Functions of the basis; none for importance sampling.
    pub features: Option<usize>,
    /// σ, where there is one.
    pub bandwidth: Option<f64>,
    /// λ₁ and λ₂, where there are.
    pub ridges: Option<Ridges>,
    /// The squared norm of the mean residual on transitions that were held out, where ridges were chosen by it.
    pub held_out_error: Option<f64>,
    /// Transitions.
    pub transitions: usize,
    /// Episodes.
    pub episodes: usize,
    /// Seed.
    pub seed: u64,
}

impl PolicyEvaluation {
    /// Evaluates a policy on a log.
    pub fn fit(options: &EvaluationOptions, log: &Log<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        log.check()?;
        options.check_discount(log.terminals)?;
        control.start(options.max_time);
        let episodes = log.episodes();
        let header = Header {
            options: options.clone(),
            arguments: Arguments::of(log)?,
            state_columns: log.states.columns(),
            bandwidth: None,
            ridges: None,
            held_out_error: None,
            transitions: log.states.len(),
            episodes: episodes.len(),
            estimate: None,
        };
        let mut evaluation = Self { header, f: None, influences: Vec::new(), replicates: Vec::new() };
        if options.method.needs_episodes()
            && log.terminals.iter().chain(log.truncations.into_iter().flatten()).all(|end| !end)
        {
            return Err(Error::Conflict(format!(
                "the method needs episodes, and nothing in terminals or truncations says where one ends (method = {:?})",
                options.method
            )));
        }
        if options.method.has_function() {
            evaluation.learn(&Prepared::new(log)?, &episodes, control)?;
        }
        if options.method.needs_episodes() {
            evaluation.resample(log, &episodes)?;
        }
        Ok(evaluation)
    }

    /// The value function.
    fn learn(
        &mut self,
        prepared: &Prepared<'_>,
        episodes: &[std::ops::Range<usize>],
        control: &mut Control<'_>,
    ) -> Result<()> {
        let options = &adapted(&self.header.options, prepared);
        let (basis, bandwidth) = choose::choose(options, prepared)?;
        control.check(0)?;
        self.header.bandwidth = bandwidth;
        let saddle = SaddleClosedForm {
            operator: Bellman { discount: Discount::try_from(options.discount)? },
            primal: basis.clone(),
            dual: basis.clone(),
        };
        let zeros = vec![0.0; prepared.log.states.len()];
        prepared.with_transitions(|transitions| {
            let parts = saddle.moments_in_parts(transitions, &zeros, PARTS)?;
            control.check(0)?;
            let (mut solution, ridges, error) = solve(options, &parts)?;
            (self.header.ridges, self.header.held_out_error) = (Some(ridges), error);
            if options.method.is_stochastic() {
                let curvature = Moments::sum(parts.iter())?.curvature(options.batch_size);
                let theta = steps::descend(options, prepared, (basis.clone(), curvature), control)?;
                solution.theta = Mat::from_fn(theta.len(), 1, |i, _| theta[i]);
            }
            let groups = log::groups(episodes, GROUPS);
            let influences = saddle.influences(transitions, &zeros, &solution, &groups)?;
            let n = zeros.len() as f64;
            self.influences = influences.into_iter().flatten().map(|q| q / n).collect();
            self.f = Some(Linear::with_coefficients(basis.clone(), solution.coefficients())?);
            Ok(())
        })
    }

    /// The estimate from episodes, and those of bootstrap samples of them.
    fn resample(&mut self, log: &Log<'_>, episodes: &[std::ops::Range<usize>]) -> Result<()> {
        let options = &self.header.options;
        let values = match &self.f {
            Some(_) => Some(self.around(log)?),
            None => None,
        };
        let of_actions = self.header.arguments != Arguments::State;
        let values = values.as_ref().map(|values| (&values[..], of_actions));
        let estimator = Episodes::new(options.method, log, options.discount, episodes, values)?;
        let ones = vec![1; estimator.len()];
        self.header.estimate = Some(estimator.estimate(&ones, options.discount));
        let discount = options.discount;
        self.replicates = estimate::bootstrap(options.n_bootstrap, estimator.len(), options.seed, |counts| {
            estimator.estimate(counts, discount)
        });
        Ok(())
    }

    /// At each transition: the value of what was done, and of what follows (zero after the end).
    fn around(&self, log: &Log<'_>) -> Result<Vec<[f64; 2]>> {
        let taken = match (self.header.arguments, log.actions) {
            (Arguments::State, _) | (_, None) => Successors::Unknown,
            (_, Some(actions)) => Successors::Actions(actions),
        };
        let own = self.value(log.states, taken)?;
        let next = self.value(log.next_states, log.successors)?;
        let going_on = |i: usize| if log.terminals[i] { 0.0 } else { next[i] };
        Ok((0..own.len()).map(|i| [own[i], going_on(i)]).collect())
    }

    /// What the fit chose.
    pub fn summary(&self) -> EvaluationSummary {
        let Header {
            options,
            arguments,
            state_columns,
            bandwidth,
            ridges,
            held_out_error,
            transitions,
            episodes,
            ..
        } = &self.header;
        EvaluationSummary {
            method: options.method,
            discount: options.discount,
            arguments: *arguments,
            state_columns: *state_columns,
            features: self.f.as_ref().map(|f| f.basis().len()),
            bandwidth: *bandwidth,
            ridges: *ridges,
            held_out_error: *held_out_error,
            transitions: *transitions,
            episodes: *episodes,
            seed: options.seed.0,
        }
    }

    fn function(&self) -> Result<&Linear> {
        self.f.as_ref().ok_or_else(|| {
            Error::Conflict(
                "importance sampling gives one number, the value at the start of episodes, and no function"
                    .into(),
            )
        })
    }

    /// V at `states`: of what is done there as `policy` says, where values of actions were learnt.
    pub fn value(&self, states: Rows<'_>, policy: Successors<'_>) -> Result<Vec<f64>> {
        let m = self.function()?.basis().len();
        let theta = self.plain_coefficients()?;
        let mut out = Vec::with_capacity(states.len());
        self.with_features(states, policy, |psi| {
            out.extend(psi.chunks_exact(m).map(|psi| product(psi, &theta)));
        })?;
        Ok(out)
    }

    /// The standard errors of the same values: those of sums over independent episodes, to first order.
    pub fn standard_errors(&self, states: Rows<'_>, policy: Successors<'_>) -> Result<Vec<f64>> {
        let m = self.function()?.basis().len();
        let groups = self.influences.len() / m;
        let correction = groups as f64 / (groups as f64 - 1.0).max(1.0);
        let (influences, mut out) = (self.plain_influences()?, Vec::with_capacity(states.len()));
        self.with_features(states, policy, |psi| {
            out.extend(psi.chunks_exact(m).map(|psi| {
                let squares: f64 = influences.chunks_exact(m).map(|q| product(psi, q).powi(2)).sum();
                (correction * squares).sqrt()
            }));
        })?;
        Ok(out)
    }

    /// Tᵀθ, the coefficients of plain features.
    fn plain_coefficients(&self) -> Result<Vec<f64>> {
        let f = self.function()?;
        let theta = f.coefficients();
        let theta = f.basis().transposed(&Mat::from_fn(theta.len(), 1, |i, _| theta[i]));
        Ok(theta.col_as_slice(0).to_vec())
    }

    /// The same of every group, J×M.
    fn plain_influences(&self) -> Result<Vec<f64>> {
        let (basis, q) = (self.function()?.basis(), &self.influences);
        let m = basis.len();
        let all = basis.transposed(&Mat::from_fn(m, q.len() / m, |i, j| q[j * m + i]));
        Ok(all.col_iter().flat_map(|column| column.iter().copied().collect::<Vec<_>>()).collect())
    }

    /// Σ_a π(a | s) ψ₀(s, a) of some states at a time, n×M, ψ₀ the plain features.
    fn with_features(
        &self,
        states: Rows<'_>,
        policy: Successors<'_>,
        mut work: impl FnMut(&[f32]),
    ) -> Result<()> {
        crate::error::same_columns(self.header.state_columns, states.columns())?;
        states.check_finite("states")?;
        let basis = self.function()?.basis();
        let (d, m) = (basis.columns(), basis.len());
        let all = branches(self.header.arguments, states, policy)?;
        for start in (0..states.len()).step_by(CHUNK) {
            let range = start..(start + CHUNK).min(states.len());
            let mut sum = vec![0.0; range.len() * m];
            for Branch { rows, probabilities } in &all {
                let psi = features(basis, &rows[range.start * d..range.end * d])?;
                for (i, (sum, psi)) in sum.chunks_exact_mut(m).zip(psi.chunks_exact(m)).enumerate() {
                    let p = probabilities.as_ref().map_or(1.0, |p| p[range.start + i]);
                    sum.iter_mut().zip(psi).for_each(|(sum, psi)| *sum += p * psi);
                }
            }
            work(&sum);
        }
        Ok(())
    }
}

/// ψ₀ of some rows.
fn features(basis: &Basis, x: &[f32]) -> Result<Vec<f32>> {
    use rayon::prelude::*;
    let (d, m) = (basis.columns(), basis.len());
    let n = x.len() / d;
    let parts: Vec<Vec<f32>> = tiles(n)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|tile| {
            let mut psi = vec![0.0; tile.len() * m];
            basis.fill_plain(&x[tile.start * d..tile.end * d], &mut psi).map(|()| psi)
        })
        .collect::<Result<_>>()?;
    Ok(parts.concat())
}

fn product(psi: &[f32], theta: &[f64]) -> f64 {
    psi.iter().zip(theta).map(|(psi, theta)| f64::from(*psi) * theta).sum()
}

/// The settings of a basis that a method has by itself.
fn adapted(options: &EvaluationOptions, prepared: &Prepared<'_>) -> EvaluationOptions {
    let n = prepared.log.states.len();
    let every = options.method == Method::KernelMdp
        && options.features == Functions::Atoms
        && options.n_features.is_none()
        && n <= ATOMS;
    match every {
        true => EvaluationOptions { n_features: Some(n), ..options.clone() },
        false => options.clone(),
    }
}

/// θ by the method, its ridges, and the held-out error where they were chosen.
fn solve(options: &EvaluationOptions, parts: &[Moments]) -> Result<(Solution, Ridges, Option<f64>)> {
    let all = Moments::sum(parts.iter())?;
    if matches!(options.method, Method::DualEmbedding | Method::DoublyRobust) {
        let (ridges, error) = match (options.ridge, options.dual_ridge) {
            (Some(primal), Some(dual)) => (Ridges { primal, dual }, None),
            (primal, dual) => {
                // With one basis for both functions the dual's ridge matters little, and a large one does harm.
                choose_ridges(parts, DualForm::Free, (primal, dual.or(Some(DUAL_RIDGE))), (NEAR, MOST))
                    .map(|(r, error)| (r, Some(error)))?
            }
        };
        return Ok((all.solve(DualForm::Free, ridges)?, ridges, error));
    }
    let steps = options.iterations;
    let fitted = |moments: &Moments, ridge: f64| moments.solve_fitted(ridge, steps);
    let square = |moments: &Moments, ridge: f64| moments.solve_square(ridge).map(|solution| solution.theta);
    let (ridge, error) = match (options.ridge, options.method) {
        (Some(ridge), _) => (ridge, None),
        (None, Method::FittedQ) => {
            choose_ridge(parts, NEAR, fitted).map(|(ridge, error)| (ridge, Some(error)))?
        }
        (None, _) => choose_ridge(parts, NEAR, square).map(|(ridge, error)| (ridge, Some(error)))?,
    };
    let mut solution = all.solve_square(ridge)?;
    if options.method == Method::FittedQ {
        solution.theta = fitted(&all, ridge)?;
    }
    Ok((solution, Ridges { primal: ridge, dual: 0.0 }, error))
}

impl Stored for PolicyEvaluation {
    const KIND: &'static str = "policy_evaluation";

    fn store(&self, container: &mut Container) -> Result<()> {
        let mut header = self.header.clone();
        header.options.max_time = None;
        container.set_field("policy_evaluation", &header)?;
        container.insert("replicates", vec![self.replicates.len()], self.replicates.clone())?;
        let Some(f) = &self.f else { return Ok(()) };
        let m = f.basis().len();
        f.basis().store(container, "basis")?;
        container.insert("coefficients", vec![m], f.coefficients().to_vec())?;
        container.insert("influences", vec![self.influences.len() / m, m], self.influences.clone())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("policy_evaluation")?;
        header.options.check()?;
        let d = header.state_columns;
        crate::error::in_range("columns", d as f64, (1..=1 << 20).contains(&d), "[1, 2^20]")?;
        let count = container.f64s("replicates")?.1.len();
        let replicates = container.take_f64s("replicates", &[count])?;
        let mut evaluation = Self { header, f: None, influences: Vec::new(), replicates };
        if evaluation.header.options.method.has_function() {
            let m = container.f64s("coefficients")?.1.len();
            let coefficients = container.take_f64s("coefficients", &[m])?;
            let groups = container.f64s("influences")?.1.len() / m.max(1);
            evaluation.influences = container.take_f64s("influences", &[groups, m])?;
            let basis = Basis::restore(container, "basis")?;
            let columns = evaluation.header.arguments.columns(evaluation.header.state_columns);
            if basis.columns() != columns || basis.len() != m {
                return Err(Error::Format("the value function does not fit its arguments".into()));
            }
            evaluation.f = Some(Linear::with_coefficients(basis, coefficients)?);
        }
        let Header { options, estimate, .. } = &evaluation.header;
        let wanted = options.method.needs_episodes();
        if estimate.is_some() != wanted || evaluation.replicates.is_empty() == wanted {
            return Err(Error::Format("an estimate from episodes is missing, or of another method".into()));
        }
        Ok(evaluation)
    }
}
