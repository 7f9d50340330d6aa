//! An agent: it acts, remembers and learns.

use super::iteration::{followers, Experience, Iteration, ValueFit};
use super::metric::Metric;
use super::saddle::Saddle;
use super::{
    Actions, After, Approximator, Critic, DualActions, Form, Gathered, Head, Inputs, Learned, Options,
    Policy, Progressed, Regression, Replay, Running, Steps, Target, Windows,
};
use crate::data::Rows;
use crate::driver::{run, Again, Control, Monitor, Phase, Progress};
use crate::error::{finite, in_range, positive, same_columns, Error, Result};
use crate::functions::geometry::median_distance;
use crate::kernel::{KernelSpec, Scaling};
use crate::memory::room;
use crate::model::{Container, Stored};
use crate::random::{Address, BlockIndex, Seed, Stream};
use serde::{Deserialize, Serialize};

/// Most functions of ρ where each action has its own.
const MOST_FUNCTIONS: usize = 1_024;

/// An agent that learns a policy by SBEED from the steps it is told of, its own or others'.
///
/// ```
/// use riesz::driver::quietly;
/// use riesz::dynamics::sbeed::{Actions, After, Options, Sbeed, Steps};
/// use riesz::random::Seed;
///
/// // One step, in which the larger of two actions is rewarded.
/// let mut agent = Sbeed::new(Options { environments: 1, ..Options::new(Seed(1)) }, 1, Actions::Discrete { count: 2, start: 0 })?;
/// for _ in 0..20 {
///     for _ in 0..50 {
///         let acted = agent.act(&[0.5])?;
///         agent.observe(&Steps {
///             lanes: &[0],
///             states: &[0.5],
///             actions: &acted.actions,
///             log_behaviour: Some(&acted.log_probabilities),
///             rewards: &acted.taken,
///             next_states: &[0.5],
///             after: &[After::End],
///         })?;
///     }
///     quietly(|control| agent.learn(0.0, control))?;
/// }
/// assert_eq!(agent.predict(&[0.5], None)?, [1.0]);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sbeed {
    header: Header,
    /// Moments of all observations, and those that the functions were last fitted with.
    seen: Running,
    standard: Running,
    /// Moments of the discounted sum of rewards, and that sum in every environment.
    returns: Running,
    discounted: Vec<f64>,
    replay: Replay,
    learned: Option<Learned>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: Options,
    columns: usize,
    actions: Actions,
    /// Times that actions were drawn, by which draws are addressed.
    draws: u64,
    /// Times that it has learnt.
    updates: u64,
    learned: bool,
}

/// Actions that were drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Acted {
    /// In the units of the policy, as they are remembered.
    pub actions: Vec<f64>,
    /// log π(a|s).
    pub log_probabilities: Vec<f64>,
    /// In the units of the task.
    pub taken: Vec<f64>,
}

impl Sbeed {
    /// An agent that knows nothing yet, for observations of `columns` numbers.
    pub fn new(options: Options, columns: usize, actions: Actions) -> Result<Self> {
        options.check()?;
        actions.check()?;
        positive("columns of observations", columns as f64)?;
        let (lanes, capacity) = (options.environments, options.capacity);
        let replay = Replay::new(columns, actions.columns(), lanes, capacity)?;
        let header = Header { options, columns, actions, draws: 0, updates: 0, learned: false };
        let (seen, returns) = (Running::new(columns), Running::new(1));
        Ok(Self {
            header,
            standard: seen.clone(),
            seen,
            returns,
            discounted: vec![0.0; lanes],
            replay,
            learned: None,
        })
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.header.options
    }

    /// Numbers of an observation.
    pub fn columns(&self) -> usize {
        self.header.columns
    }

    /// The actions there are.
    pub fn actions(&self) -> &Actions {
        &self.header.actions
    }

    /// How often it has learnt.
    pub fn updates(&self) -> u64 {
        self.header.updates
    }

    /// What it has learnt, if anything.
    pub fn learned(&self) -> Option<&Learned> {
        self.learned.as_ref()
    }

    /// The steps it remembers.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// log σ of the policy, where it is Gaussian.
    pub fn log_deviation(&self) -> Option<Vec<f64>> {
        match self.head() {
            Head::Gaussian { log_deviation, .. } => Some(log_deviation),
            Head::Softmax => None,
        }
    }

    fn head(&self) -> Head {
        match (&self.learned, &self.header.actions) {
            (Some(learned), _) => learned.policy.head.clone(),
            (None, Actions::Box { low, .. }) => {
                let (start, least, most) = self.header.options.log_deviation;
                Head::Gaussian { log_deviation: vec![start; low.len()], bounds: (least, most) }
            }
            (None, Actions::Discrete { .. }) => Head::Softmax,
        }
    }

    /// Outputs of the policy at observations, n×p: zero before it has learnt.
    fn outputs(&self, observations: &[f32]) -> Result<Vec<f64>> {
        let d = self.header.columns;
        let n = Rows::single(observations, d)?.len();
        finite("observations", observations, d)?;
        match &self.learned {
            Some(Learned { policy, .. }) => {
                policy.evaluate(&policy.body.prepare(self.standardised(observations))?)
            }
            None => Ok(vec![0.0; n * self.header.actions.outputs()]),
        }
    }

    fn standardised(&self, observations: &[f32]) -> Vec<f32> {
        match self.header.options.standardised.0 {
            true => self.standard.standardise(observations).collect(),
            false => observations.to_vec(),
        }
    }

    /// Draws actions at observations, n×d, and counts the draw.
    pub fn act(&mut self, observations: &[f32]) -> Result<Acted> {
        let outputs = self.outputs(observations)?;
        let (head, p, draws) = (self.head(), self.header.actions.outputs(), self.header.draws);
        let address = self.address(BlockIndex(draws));
        let actions = head.actions(p, &outputs, Some(&address));
        let log_probabilities = head.log_probabilities(p, &outputs, &actions);
        self.header.draws += 1;
        Ok(Acted { taken: self.header.actions.taken(&actions), actions, log_probabilities })
    }

    fn address(&self, block: BlockIndex) -> impl Fn(usize) -> Address {
        let seed = self.header.options.seed;
        move |row| Address::new(seed, Stream::Action, block, row as u32)
    }

    /// Actions at observations in the units of the task: the likeliest, or those of a numbered draw.
    pub fn predict(&self, observations: &[f32], draw: Option<u64>) -> Result<Vec<f64>> {
        let outputs = self.outputs(observations)?;
        let p = self.header.actions.outputs();
        // Apart from the draws of `act`, which count from zero.
        let address = draw.map(|draw| self.address(BlockIndex(draw | 1 << 47)));
        let actions = match &address {
            Some(address) => self.head().actions(p, &outputs, Some(address)),
            None => self.head().actions(p, &outputs, None),
        };
        Ok(self.header.actions.taken(&actions))
    }

    /// V(s) in the units of the rewards; zero before it has learnt.
    pub fn values(&self, observations: &[f32]) -> Result<Vec<f64>> {
        finite("observations", observations, self.header.columns)?;
        let Some(Learned { value, .. }) = &self.learned else {
            return Ok(vec![0.0; Rows::single(observations, self.header.columns)?.len()]);
        };
        let values = value.values(&value.prepare(self.standardised(observations))?)?;
        Ok(values.iter().map(|v| v * self.reward_unit()).collect())
    }

    /// What rewards are divided by.
    fn reward_unit(&self) -> f64 {
        match self.header.options.standardised.1 {
            true => self.returns.deviation(0),
            false => 1.0,
        }
    }

    /// Remembers steps, in the order in which they were taken.
    pub fn observe(&mut self, steps: &Steps<'_>) -> Result<()> {
        if let Actions::Discrete { count, .. } = self.header.actions {
            check_actions(steps.actions, count)?;
        }
        self.replay.push(steps)?;
        let d = self.header.columns;
        for (i, &lane) in steps.lanes.iter().enumerate() {
            self.seen.push(steps.states[i * d..(i + 1) * d].iter().map(|&x| f64::from(x)));
            let sum = self.header.options.horizon.discount * self.discounted[lane] + steps.rewards[i];
            self.returns.push(std::iter::once(sum));
            self.discounted[lane] = if steps.after[i] == After::Step { sum } else { 0.0 };
        }
        Ok(())
    }

    /// Breaks off every episode where it stands, as an environment does that is begun anew.
    pub fn break_off(&mut self) {
        self.replay.break_off();
        self.discounted.fill(0.0);
    }

    /// The same agent without the steps it remembers.
    pub fn without_replay(&self) -> Result<Self> {
        let Options { environments, capacity, .. } = self.header.options;
        let replay = Replay::new(self.header.columns, self.header.actions.columns(), environments, capacity)?;
        Ok(Self { replay, ..self.clone() })
    }

    /// Learns from the steps it remembers, the oldest of them forgotten where they are too many. `behind` is how much of the
    /// learning is over, in [0, 1]. Gives facts about each iteration; where one fails, nothing learnt before is lost.
    pub fn learn(&mut self, behind: f64, control: &mut Control<'_>) -> Result<Vec<Progressed>> {
        in_range("progress", behind, (0.0..=1.0).contains(&behind), "[0, 1]")?;
        self.replay.forget();
        if self.replay.is_empty() {
            return Err(Error::Empty { what: "what the agent remembers", needed: "one step" });
        }
        self.standard = self.seen.clone();
        let options = self.header.options.clone();
        let scaling =
            if options.standardised.0 { self.standard.clone() } else { Running::new(self.columns()) };
        let gathered = self.replay.gather(&scaling);
        let mut learned = match &self.learned {
            Some(learned) => learned.clone(),
            None => self.begin(&gathered)?,
        };
        let experience = self.prepare(&learned, gathered)?;
        let iteration = Iteration { options: &options, behind };
        let mut watch = Watch { most: options.iterations, facts: Vec::new() };
        control.start(None);
        run(&iteration, &mut learned, &mut Again(&experience), &mut watch, control)?;
        self.learned = Some(learned);
        (self.header.updates, self.header.learned) = (self.header.updates + 1, true);
        Ok(watch.facts)
    }

    /// The first functions, with bandwidths in units of the median distance between states.
    fn begin(&self, gathered: &Gathered) -> Result<Learned> {
        let Options { policy, value, dual, seed, .. } = &self.header.options;
        let (d, p) = (self.header.columns, self.header.actions.outputs());
        let part = |k: u64| Seed(seed.0.wrapping_add(k << 56));
        let median = median_of(&gathered.states, d, *seed)?;
        let body = policy.build(d, p, median, part(1))?;
        let value = value.form.build(d, 1, median, part(2))?;
        let (pairs, width) = self.pairs(gathered)?;
        let dual = match self.functions_per_action() {
            Some(count) => Approximator::zero(dual.form.basis(d, median, part(3))?.per_action(count)?, 1),
            None => dual.form.build(width, 1, median_of(&pairs, width, *seed)?, part(3))?,
        };
        Ok(Learned { policy: Policy { body, head: self.head() }, value, dual, gains: Vec::new() })
    }

    /// How many actions there are, where ρ has a function of the state for each: one that looks at the first action, on features,
    /// of few actions. The features of many would make systems too large, and these have indicators as columns.
    fn functions_per_action(&self) -> Option<usize> {
        let Options { dual, dual_actions, .. } = &self.header.options;
        match (&self.header.actions, dual_actions, &dual.form) {
            (Actions::Discrete { count, .. }, DualActions::First, Form::Features { count: features, .. }) => {
                let each = features.saturating_add(self.header.columns);
                Some(*count).filter(|count| count.saturating_mul(each) <= MOST_FUNCTIONS)
            }
            _ => None,
        }
    }

    /// How ρ takes actions: how many of a window, how many indicators stand for one whose number is whole, and columns in all.
    fn pair_columns(&self) -> (usize, Option<usize>, usize) {
        let Options { dual_actions, horizon, .. } = &self.header.options;
        let reach = if *dual_actions == DualActions::Window { horizon.steps } else { 1 };
        let indicators = match self.header.actions {
            Actions::Discrete { count, .. } if self.functions_per_action().is_none() => Some(count),
            _ => None,
        };
        let each = indicators.unwrap_or_else(|| self.header.actions.columns());
        (reach, indicators, self.header.columns.saturating_add(reach.saturating_mul(each)))
    }

    /// States and actions as ρ takes them, row-major, and how many columns they have: (s, a₀), or (s, a₀, …, a_{K−1}) with zeros
    /// after the end of an episode. Whole numbers of actions are indicators, unless each has a function of its own.
    fn pairs(&self, gathered: &Gathered) -> Result<(Vec<f32>, usize)> {
        let (d, p, n) = (self.header.columns, self.header.actions.columns(), gathered.rewards.len());
        let (reach, indicators, width) = self.pair_columns();
        room("states and actions of windows", "window", &[n, width], 4)?;
        let mut rows = Vec::with_capacity(n * width);
        for t in 0..n {
            rows.extend_from_slice(&gathered.states[t * d..(t + 1) * d]);
            let mut going_on = true;
            for j in 0..reach {
                let at = (t + j).min(n - 1);
                let action = &gathered.actions[at * p..(at + 1) * p];
                match indicators {
                    None => rows.extend(action.iter().map(|&a| if going_on { a as f32 } else { 0.0 })),
                    Some(count) => {
                        rows.extend((0..count).map(|b| f32::from(going_on && action[0] == b as f64)))
                    }
                }
                going_on &= gathered.after[at] == After::Step;
            }
        }
        Ok((rows, width))
    }

    /// Features and factors of everything that is remembered.
    fn prepare(&self, learned: &Learned, gathered: Gathered) -> Result<Experience> {
        let options = &self.header.options;
        let n = gathered.rewards.len();
        let ridge = |critic: &Critic| critic.ridge / critic.form.unit();
        let regression = |inputs: &Inputs, critic: &Critic| {
            inputs.features().map(|phi| Regression::new(phi, n, ridge(critic))).transpose()
        };
        let pairs = match options.smoothing.dual_weight > 0.0 {
            true => {
                let (rows, width) = self.pairs(&gathered)?;
                same_columns(learned.dual.columns(), width)?;
                let inputs = learned.dual.prepare(rows)?;
                let regression = regression(&inputs, &options.dual)?;
                Some((inputs, regression))
            }
            false => None,
        };
        let Gathered { states, beyond, actions, log_behaviour, rewards, after } = gathered;
        let value_states = learned.value.prepare([&states[..], &beyond].concat())?;
        let (followers, windows) = (followers(&after), Windows::new(options.horizon, after)?);
        let value_fit = match (options.target, value_states.features()) {
            (Target::Saddle, Some(psi)) => {
                let of_pairs = pairs.as_ref().and_then(|(inputs, _)| inputs.features());
                let weights = (options.smoothing.dual_weight, [ridge(&options.value), ridge(&options.dual)]);
                ValueFit::Saddle(Box::new(Saddle::new(&windows, (psi, &followers), of_pairs, weights)?))
            }
            (Target::Frozen, _) => {
                regression(&value_states, &options.value)?.map_or(ValueFit::Steps, ValueFit::Regression)
            }
            _ => ValueFit::Steps,
        };
        let states = learned.policy.body.prepare(states)?;
        let phi = states.features().filter(|_| matches!(learned.policy.head, Head::Gaussian { .. }));
        let metric =
            phi.map(|phi| Metric::new(phi, n, options.damping, options.policy.unit())).transpose()?;
        let unit = self.reward_unit();
        Ok(Experience {
            windows,
            rewards: rewards.iter().map(|r| r / unit).collect(),
            actions,
            log_behaviour,
            states,
            metric,
            followers,
            value_states,
            value_fit,
            pairs,
        })
    }
}

/// Refuses actions that are not among 0, …, `count` − 1.
fn check_actions<'a>(actions: impl IntoIterator<Item = &'a f64>, count: usize) -> Result<()> {
    let known = |action: f64| action >= 0.0 && action < count as f64 && action.fract() == 0.0;
    let mut actions = actions.into_iter();
    actions.try_for_each(|&a| in_range("action", a, known(a), "the actions there are").map(drop))
}

/// The median distance between rows.
fn median_of(rows: &[f32], columns: usize, seed: Seed) -> Result<f64> {
    let rows = Rows::single(rows, columns)?;
    let weights = vec![1.0; rows.len()];
    Ok(median_distance(rows, &weights, &Scaling::identity(columns), &KernelSpec::Gaussian, seed))
}

/// Counts iterations and keeps what they say.
struct Watch {
    most: usize,
    facts: Vec<Progressed>,
}

impl<'a> Monitor<Iteration<'a>> for Watch {
    fn finished(&mut self, _: &Learned) -> bool {
        self.facts.len() >= self.most
    }

    fn observe(&mut self, _: &Learned, info: Progressed) -> Result<Progress> {
        self.facts.push(info);
        Ok(Progress::new(Phase::Fit, self.facts.len(), self.most, info.objective))
    }
}

impl Stored for Sbeed {
    const KIND: &'static str = "sbeed";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.set_field("sbeed", &self.header)?;
        self.seen.store(container, "seen")?;
        self.standard.store(container, "standard")?;
        self.returns.store(container, "returns")?;
        container.insert("discounted", vec![self.discounted.len()], self.discounted.clone())?;
        self.replay.store(container)?;
        if let Some(Learned { policy, value, dual, gains }) = &self.learned {
            policy.store(container)?;
            value.store(container, "value")?;
            dual.store(container, "dual")?;
            if !gains.is_empty() {
                container.insert("damping_gains", vec![gains.len()], gains.clone())?;
            }
        }
        Ok(())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("sbeed")?;
        header.options.check()?;
        header.actions.check()?;
        let (d, p) = (header.columns, header.actions.columns());
        let found = container.f64s("seen")?.1.len();
        if d == 0 || d.checked_mul(2).and_then(|d| d.checked_add(1)) != Some(found) {
            return Err(Error::Format(format!("the moments of {d} columns are not {found} numbers")));
        }
        let seen = Running::restore(container, "seen", d)?;
        let standard = Running::restore(container, "standard", d)?;
        let returns = Running::restore(container, "returns", 1)?;
        let replay = Replay::restore(container, d, p)?;
        if let Actions::Discrete { count, .. } = header.actions {
            check_actions(replay.actions(), count)?;
        }
        let discounted = container.take_f64s("discounted", &[replay.lanes()])?;
        let learned = match header.learned {
            true => Some(restore_learned(container, &header)?),
            false => None,
        };
        Ok(Self { header, seen, standard, returns, discounted, replay, learned })
    }
}

/// Functions of the columns and outputs that observations and actions have.
fn restore_learned(container: &mut Container, header: &Header) -> Result<Learned> {
    let policy = Policy::restore(container)?;
    let value = Approximator::restore(container, "value")?;
    let dual = Approximator::restore(container, "dual")?;
    let own = match (&policy.head, &header.actions) {
        (Head::Gaussian { log_deviation, .. }, Actions::Box { low, .. }) => log_deviation.len() == low.len(),
        (Head::Softmax, Actions::Discrete { .. }) => true,
        _ => false,
    };
    let shapes = [
        (policy.body.columns(), header.columns),
        (policy.outputs(), header.actions.outputs()),
        (value.columns(), header.columns),
        (value.outputs(), 1),
        (dual.outputs(), 1),
    ];
    if !own || shapes.iter().any(|(found, expected)| found != expected) {
        return Err(Error::Format(
            "the functions of an agent do not fit its observations and actions".into(),
        ));
    }
    // Only where a damping was chosen.
    let gains = match container.f64s("damping_gains").map_or(0, |(_, found)| found.len()) {
        0 => Vec::new(),
        count => container.take_f64s("damping_gains", &[count])?,
    };
    Ok(Learned { policy, value, dual, gains })
}
