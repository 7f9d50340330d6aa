//! The value of a policy from logged transitions: V(s) = E[Σ_t γ^t r_t | s_0 = s] under the policy.

mod checkpoint;
mod choose;
mod estimate;
mod file;
mod importance;
mod improve;
mod log;
mod options;
mod points;
mod remark;
mod solve;
mod steps;
mod value;

pub use estimate::PolicyValue;
pub use improve::Improvement;
pub use log::{Log, Successors};
pub use options::{EvaluationOptions, Functions, Method};
pub use points::Arguments;
pub use remark::Remark;

use crate::driver::{Control, Phase, Progress};
use crate::dynamics::bandwidth;
use crate::error::{same_columns, Error, Result};
use crate::operator::{Bellman, Discount};
use crate::solver::{Moments, Ridges, SaddleClosedForm, PARTS};
use crate::space::{FeatureExpansion, Linear, NetworkConfig, Nonlinearity, Optimiser};
use choose::InSpace;
use importance::Episodes;
use improve::Improved;
use points::Prepared;
use serde::{Deserialize, Serialize};
use solve::{adapted, solve, Stream, GROUPS};
use steps::{Descent, History};
use value::ValueFunction;

/// Units of the steps of networks, V and dual: those of Adam are about how far every parameter moves, and where V is not the slower
/// of the two they circle around each other.
const ADAM_UNITS: [f64; 2] = [0.001, 0.01];

/// An evaluated policy.
///
/// V is right where E[r + γV(s') − V(s) | s] = 0 for every s; a logged transition has one s' alone. The default method solves the
/// saddle point of that equation over V and a dual function ([`crate::solver::SaddleClosedForm`]); others are there to compare
/// ([`Method`]). From transitions with actions, and what the policy does afterwards, Q(s, a) is learnt in the same way.
#[derive(Clone, Debug)]
pub struct PolicyEvaluation {
    header: Header,
    /// V or Q; none for importance sampling.
    f: Option<ValueFunction>,
    /// What each group of episodes adds to the coefficients, J×M.
    influences: Vec<f64>,
    /// Of methods that look at episodes: the estimate, and those of bootstrap samples, in order.
    replicates: Vec<f64>,
    /// What a stream has said, where it may go on.
    stream: Option<Stream>,
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
    #[serde(default)]
    history: History,
    /// How the policy was found, where it was sought.
    #[serde(default)]
    improved: Option<Improved>,
    #[serde(default)]
    remarks: Vec<Remark>,
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
    /// Functions of the basis, or parameters of a network; none for importance sampling.
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
    /// Of methods that take steps: how many were taken, and the mean objective since the last entry.
    pub history: Vec<(u64, f64)>,
    /// Where the policy was improved: after each evaluation, the share of transitions after which another action is best.
    pub changes: Vec<f64>,
    /// Reasons to doubt it: the kind of each, and what it says.
    pub remarks: Vec<(&'static str, String)>,
    /// Seed.
    pub seed: u64,
}

impl PolicyEvaluation {
    /// Evaluates a policy on a log.
    pub fn fit(options: &EvaluationOptions, log: &Log<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        log.check()?;
        options.check_discount(log.terminals)?;
        options.check_checkpoint(control)?;
        control.start(options.max_time);
        let episodes = log.episodes();
        let mut evaluation = Self::unfitted(options, log)?;
        log.check_support()?;
        if options.method.needs_episodes()
            && log.terminals.iter().chain(log.truncations.into_iter().flatten()).all(|end| !end)
        {
            return Err(Error::Conflict(format!(
                "the method needs episodes, and nothing in terminals or truncations says where one ends (method = {:?})",
                options.method
            )));
        }
        if options.method.needs_episodes()
            && log.ratios.is_none()
            && !matches!(log.successors, Successors::Unknown)
        {
            return Err(Error::Conflict(format!(
                "the method multiplies rewards that were logged by pi(a|s)/pi_b(a|s), which a policy alone does not tell: give weights, \
                 ones where the log is of the policy itself (method = {:?})",
                options.method
            )));
        }
        evaluation.header.remarks = Remark::about(options, log, &episodes)?;
        if options.method.has_function() {
            evaluation.learn(&Prepared::new(log)?, &episodes, control)?;
        }
        if options.method.needs_episodes() {
            evaluation.resample(log, &episodes)?;
        }
        evaluation.count(log, &episodes);
        control.checkpoint.as_ref().map_or(Ok(()), |policy| policy.discard())?;
        Ok(evaluation)
    }

    /// Evaluates a policy on the first part of a log, which settles the functions that V is a combination of; [`Self::partial_fit`]
    /// goes on.
    pub fn begin(options: &EvaluationOptions, log: &Log<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        if !options.method.is_closed() {
            return Err(Error::Conflict(format!(
                "partial_fit adds to the sums of a closed form: method = dual_embedding, lstd, kernel_mdp or fitted_q, not {:?}",
                options.method
            )));
        }
        options.check_checkpoint(control)?;
        log.check()?;
        let mut evaluation = Self::unfitted(options, log)?;
        evaluation.stream = Some(Stream::default());
        evaluation.partial_fit(log, control)?;
        Ok(evaluation)
    }

    /// Learns from further transitions: sums are added to, whatever their number, and the closed form solved again. What groups of
    /// episodes add to the coefficients is known at the value function of their time.
    pub fn partial_fit(&mut self, log: &Log<'_>, control: &mut Control<'_>) -> Result<()> {
        log.check()?;
        self.header.options.check_discount(log.terminals)?;
        same_columns(self.header.state_columns, log.states.columns())?;
        let Some(stream) =
            self.stream.clone().filter(|_| Arguments::of(log).ok() == Some(self.header.arguments))
        else {
            return Err(Error::Conflict(
                "further transitions need an evaluation that began with partial_fit, of the same states and actions".into(),
            ));
        };
        control.start(None);
        let episodes = log.episodes();
        self.header.remarks = Remark::about(&self.header.options, log, &episodes)?;
        let stream = self.learn_linear(&Prepared::new(log)?, &episodes, stream, control)?;
        self.stream = Some(stream);
        self.count(log, &episodes);
        Ok(())
    }

    fn unfitted(options: &EvaluationOptions, log: &Log<'_>) -> Result<Self> {
        let header = Header {
            options: options.clone(),
            arguments: Arguments::of(log)?,
            state_columns: log.states.columns(),
            bandwidth: None,
            ridges: None,
            held_out_error: None,
            transitions: 0,
            episodes: 0,
            estimate: None,
            history: Vec::new(),
            improved: None,
            remarks: Vec::new(),
        };
        Ok(Self { header, f: None, influences: Vec::new(), replicates: Vec::new(), stream: None })
    }

    fn count(&mut self, log: &Log<'_>, episodes: &[std::ops::Range<usize>]) {
        self.header.transitions += log.states.len();
        self.header.episodes += episodes.len();
    }

    /// The value function.
    fn learn(
        &mut self,
        prepared: &Prepared<'_>,
        episodes: &[std::ops::Range<usize>],
        control: &mut Control<'_>,
    ) -> Result<()> {
        match self.header.options.features {
            Functions::Growing | Functions::Network => self.learn_in_space(prepared, control),
            _ => self.learn_linear(prepared, episodes, Stream::default(), control).map(|_| ()),
        }
    }

    /// The value function as a combination of functions, which are chosen unless there are some; gives what was summed.
    fn learn_linear(
        &mut self,
        prepared: &Prepared<'_>,
        episodes: &[std::ops::Range<usize>],
        mut stream: Stream,
        control: &mut Control<'_>,
    ) -> Result<Stream> {
        let options = &adapted(&self.header.options, prepared);
        let basis = match &self.f {
            Some(ValueFunction::Linear(f)) => f.basis().clone(),
            _ => {
                control.report(Progress::new(Phase::Race, 0, 0, f64::NAN))?;
                let (basis, bandwidth) = choose::choose(options, prepared)?;
                self.header.bandwidth = bandwidth;
                basis
            }
        };
        control.report(Progress::new(Phase::Ridge, 0, 0, f64::NAN))?;
        let saddle = SaddleClosedForm {
            operator: Bellman { discount: Discount::try_from(options.discount)? },
            primal: basis.clone(),
            dual: basis.clone(),
        };
        let zeros = vec![0.0; prepared.log.states.len()];
        prepared.with_transitions(|transitions| {
            stream.add(match by_some(options, prepared) {
                true => {
                    let some = prepared.sample(bandwidth::RACED, options.seed);
                    saddle.moments_in_parts(some.transitions()?, some.targets(), PARTS)?
                }
                false => saddle.moments_in_parts(transitions, &zeros, PARTS)?,
            });
            control.check(0)?;
            let (mut solution, ridges, error) = solve(options, &stream.parts)?;
            (self.header.ridges, self.header.held_out_error) = (Some(ridges), error);
            let mut by_steps = None;
            if options.method.is_stochastic() {
                let moments = Moments::sum(stream.parts.iter())?;
                let (theta, history) = steps::learn(options, prepared, (&basis, &moments), control)?;
                self.header.history = history;
                by_steps = Some((moments, std::mem::replace(&mut solution.theta, theta)));
            }
            let groups = log::groups(episodes, GROUPS);
            stream.add_scores(saddle.scores(transitions, &zeros, &solution.theta, &groups)?);
            let (influences, rows) =
                (solution.influences(&stream.scores), (self.header.transitions + zeros.len()) as f64);
            self.influences = influences.into_iter().flatten().map(|q| q / rows).collect();
            if let Some((moments, solved)) = by_steps {
                let asked = (&solution.theta, &solved, basis.one());
                self.header.remarks.extend(Remark::about_steps(&moments, asked, &self.influences));
            }
            let f = Linear::with_coefficients(basis.clone(), solution.coefficients())?;
            self.f = Some(ValueFunction::Linear(f));
            Ok(stream)
        })
    }

    /// The value function by steps in a space that is no combination of fixed functions.
    fn learn_in_space(&mut self, prepared: &Prepared<'_>, control: &mut Control<'_>) -> Result<()> {
        let options = &self.header.options;
        let constant = if options.centred { prepared.log.constant(options.discount) as f32 } else { 0.0 };
        control.report(Progress::new(Phase::Race, 0, 0, f64::NAN))?;
        let space = choose::space(options, prepared)?;
        let descent =
            |units: [f64; 2]| Descent { options, prepared, rewards: prepared.log.rewards.to_vec(), units };
        let (f, history) = match space {
            InSpace::Growing { maps: [map, dual], blocks, unit, bandwidth } => {
                self.header.bandwidth = Some(bandwidth);
                let f = FeatureExpansion::new(map, vec![constant]).limited_to(blocks);
                let dual = FeatureExpansion::new(dual, vec![0.0]).limited_to(blocks);
                let (f, history) = descent([unit; 2]).run((f, dual), control)?;
                (ValueFunction::Growing(f), history)
            }
            InSpace::Network { scaling, width, seeds: [seed, dual] } => {
                let (nonlinearity, optimiser) = (Nonlinearity::Tanh, Optimiser::ADAM);
                let config = NetworkConfig { hidden: vec![width; 2], nonlinearity, optimiser };
                let f = config.clone().build(scaling.clone(), vec![constant], seed)?;
                let dual = config.build(scaling, vec![0.0], dual)?;
                let (f, history) = descent(ADAM_UNITS).run((f, dual), control)?;
                (ValueFunction::Network(f), history)
            }
        };
        (self.f, self.header.history) = (Some(f), history);
        Ok(())
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
            history,
            improved,
            remarks,
            ..
        } = &self.header;
        EvaluationSummary {
            method: options.method,
            discount: options.discount,
            arguments: *arguments,
            state_columns: *state_columns,
            features: self.f.as_ref().map(ValueFunction::len),
            bandwidth: *bandwidth,
            ridges: *ridges,
            held_out_error: *held_out_error,
            transitions: *transitions,
            episodes: *episodes,
            history: history.clone(),
            changes: improved.as_ref().map_or_else(Vec::new, |improved| improved.changes.clone()),
            remarks: remarks.iter().map(|remark| (remark.kind(), remark.to_string())).collect(),
            seed: options.seed.0,
        }
    }
}

/// Whether moments of some transitions are enough: where steps are taken, moments only say how long these may be and how V answers to a
/// transition. A state of a table, an action or a column that few transitions have may be in none of them, so all are summed there.
fn by_some(options: &EvaluationOptions, prepared: &Prepared<'_>) -> bool {
    options.method.is_stochastic()
        && matches!(options.features, Functions::Atoms | Functions::Random)
        && !matches!(prepared.arguments, Arguments::OneOf(_))
}
