//! Settings of SBEED.

use super::head::MOST;
use super::{Approximator, Head, Horizon, Smoothing};
use crate::error::{in_range, non_negative, positive, Error, Result};
use crate::kernel::{FeatureMap, KernelSpec, Scaling};
use crate::random::Seed;
use crate::space::{Basis, NetworkConfig, Nonlinearity, Optimiser};
use serde::{Deserialize, Serialize};

/// What actions there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actions {
    /// Numbers between two bounds, column by column. A policy draws them in units in which these are −1 and 1; what is beyond
    /// is cut off when they are taken.
    Box {
        /// The lower bounds.
        low: Vec<f64>,
        /// The upper bounds.
        high: Vec<f64>,
    },
    /// The whole numbers `start`, …, `start` + `count` − 1.
    Discrete {
        /// How many.
        count: usize,
        /// The first.
        start: i64,
    },
}

impl Actions {
    /// Refuses bounds that are not finite or contradict each other, and a choice of less than two.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Box { low, high } => {
                let bounded = |(low, high): (&f64, &f64)| low < high && (high - low).is_finite();
                if low.is_empty() || low.len() != high.len() || !low.iter().zip(high).all(bounded) {
                    return Err(Error::Conflict(
                        "actions need finite bounds, the lower below the upper, in every column; bound them first, in \
                         Gymnasium with gymnasium.wrappers.RescaleAction"
                            .into(),
                    ));
                }
                Ok(())
            }
            Self::Discrete { count, .. } => {
                let possible = (2..=1 << 12).contains(count);
                in_range("the number of actions", *count as f64, possible, "[2, 2^12]").map(drop)
            }
        }
    }

    /// Columns of an action as it is kept.
    pub fn columns(&self) -> usize {
        match self {
            Self::Box { low, .. } => low.len(),
            Self::Discrete { .. } => 1,
        }
    }

    /// Outputs of the function of a policy.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Box { low, .. } => low.len(),
            Self::Discrete { count, .. } => *count,
        }
    }

    /// Actions in the units of the task, from those of a policy.
    pub fn taken(&self, actions: &[f64]) -> Vec<f64> {
        match self {
            Self::Box { low, high } => {
                let one = |(i, a): (usize, &f64)| {
                    let j = i % low.len();
                    low[j] + 0.5 * (a.clamp(-1.0, 1.0) + 1.0) * (high[j] - low[j])
                };
                actions.iter().enumerate().map(one).collect()
            }
            Self::Discrete { start, .. } => actions.iter().map(|a| a + *start as f64).collect(),
        }
    }

    /// Actions in the units of a policy, from those of the task.
    pub fn drawn(&self, taken: &[f64]) -> Vec<f64> {
        match self {
            Self::Box { low, high } => {
                let one = |(i, a): (usize, &f64)| {
                    let j = i % low.len();
                    2.0 * (a - low[j]) / (high[j] - low[j]) - 1.0
                };
                taken.iter().enumerate().map(one).collect()
            }
            Self::Discrete { start, .. } => taken.iter().map(|a| a - *start as f64).collect(),
        }
    }
}

/// What kind of function of the state is learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Random Fourier features of the Gaussian kernel, the columns themselves and a constant.
    Features {
        /// How many features, a multiple of 64.
        count: usize,
        /// The bandwidth as a multiple of the median distance between states.
        bandwidth: f64,
    },
    /// A network with tanh layers.
    Network {
        /// Sizes of the hidden layers.
        hidden: Vec<usize>,
    },
}

impl Form {
    /// The function zero of d columns at which the median distance is `median`, or a network with random weights.
    pub(super) fn build(&self, d: usize, outputs: usize, median: f64, seed: Seed) -> Result<Approximator> {
        match self {
            Self::Features { .. } => Ok(Approximator::zero(self.basis(d, median, seed)?, outputs)),
            Self::Network { hidden } => {
                let (nonlinearity, optimiser) = (Nonlinearity::Tanh, Optimiser::ADAM);
                let settings = NetworkConfig { hidden: hidden.clone(), nonlinearity, optimiser };
                settings.build(Scaling::identity(d), vec![0.0; outputs], seed).map(Approximator::Network)
            }
        }
    }

    /// The features of d columns; of a network none but the columns.
    pub(super) fn basis(&self, d: usize, median: f64, seed: Seed) -> Result<Basis> {
        let columns = Basis::columns_of(d)?;
        let Self::Features { count, bandwidth } = self else { return Ok(columns.with_intercept()) };
        let bandwidth = if median > 0.0 { bandwidth * median } else { *bandwidth };
        let map = FeatureMap::new(KernelSpec::Gaussian, bandwidth, *count, seed, Scaling::identity(d))?;
        let basis = Basis::joined(vec![Basis::features(map)?, columns])?.with_intercept();
        basis.check_room(4)?;
        Ok(basis)
    }

    /// What a ridge is divided by, so that it means the same for any number of features.
    pub(super) fn unit(&self) -> f64 {
        match self {
            Self::Features { count, .. } => *count as f64,
            Self::Network { .. } => 1.0,
        }
    }
}

/// Which V(s') the targets of V hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// That of the sweep before: V is regressed on δ, which stays as it is meanwhile.
    Frozen,
    /// The same V, through which L is differentiated too: the published gradient ∇_V L.
    Moving,
    /// The same V, at the saddle point itself: for features, where one linear system gives it.
    Saddle,
}

/// How V and ρ are learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Critic {
    /// What kind of function.
    pub form: Form,
    /// Ridge of regressions on features.
    pub ridge: f64,
    /// Sweeps of an iteration, each with δ of the V before.
    pub sweeps: usize,
    /// Adam's steps in a sweep and their size, where there is no regression to be solved.
    pub descent: (usize, f64),
}

/// Which actions ρ looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DualActions {
    /// The first of a window, ρ(s₀, a₀): exact for any K.
    First,
    /// All of a window, ρ(s₀, a₀, …, a_{K−1}), as published; biased for K > 1 where transitions are random, since later
    /// actions betray later states.
    Window,
}

/// Which steps of a window the policy answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// The first: A_t ∇log π(a_t|s_t). What came before a step says nothing of it, and is noise in the gradient below.
    First,
    /// All, as published: A_t Σ_{j<K} (ζγ)^j ∇log π(a_{t+j}|s_{t+j}).
    Window,
}

/// How far an iteration moves the policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyStep {
    /// As far as KL(π‖π') allows, the bound going from the first number to the second in the course of learning.
    Divergence(f64, f64),
    /// This many natural gradients, as published.
    Fixed(f64),
}

/// Most steps of a critic in one update: settings that come from a file must not keep a reader busy for good.
const MOST_PASSES: usize = 100_000;

/// Settings of SBEED.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// γ, K and ζ.
    pub horizon: Horizon,
    /// λ and η.
    pub smoothing: Smoothing,
    /// What the mean, or the logits, of the policy are.
    pub policy: Form,
    /// Added to the Fisher information; `None` chooses it by steps that were held out, for a Gaussian policy on features.
    pub damping: Option<f64>,
    /// How V is learnt.
    pub value: Critic,
    /// How ρ is.
    pub dual: Critic,
    /// What ρ looks at.
    pub dual_actions: DualActions,
    /// Which V(s') the targets of V hold.
    pub target: Target,
    /// Which steps of a window the policy answers for.
    pub score: Score,
    /// How far the policy moves.
    pub step: PolicyStep,
    /// The most that a step counts for being likelier under π than under β; `None` counts every step once, as published.
    pub most_ratio: Option<f64>,
    /// log σ at first, and its bounds.
    pub log_deviation: (f64, f64, f64),
    /// Where the upper bound of log σ ends, falling evenly in the course of learning; `None` leaves it where it is.
    pub last_log_deviation: Option<f64>,
    /// Iterations after every collection of steps.
    pub iterations: usize,
    /// Environments side by side.
    pub environments: usize,
    /// Steps that are remembered.
    pub capacity: usize,
    /// Whether observations are standardised and rewards divided by the deviation of their discounted sum.
    pub standardised: (bool, bool),
    /// The seed of everything.
    pub seed: Seed,
}

impl Options {
    /// The settings that were measured best; see `docs/departures.md`.
    pub fn new(seed: Seed) -> Self {
        let critic = |count: usize, bandwidth: f64| Critic {
            form: Form::Features { count, bandwidth },
            ridge: 1e-3,
            sweeps: 5,
            descent: (20, 1e-3),
        };
        Self {
            horizon: Horizon { discount: 0.99, steps: 200, trace: 0.95 },
            smoothing: Smoothing { temperature: 0.001, dual_weight: 0.1 },
            policy: Form::Features { count: 128, bandwidth: 1.5 },
            damping: None,
            value: critic(192, 0.6),
            dual: critic(128, 1.0),
            dual_actions: DualActions::First,
            target: Target::Frozen,
            score: Score::First,
            step: PolicyStep::Divergence(0.01, 0.001),
            most_ratio: Some(2.0),
            log_deviation: (-0.5, -1.5, 0.0),
            last_log_deviation: Some(-1.5),
            iterations: 2,
            environments: 10,
            capacity: 4_000,
            standardised: (true, true),
            seed,
        }
    }

    /// Settings as published (thesis 6.5): networks of two tanh layers of 64 for V and ρ, Adam, the gradient through V(s'),
    /// the dual of whole windows, natural gradients of fixed length, and neither bounds nor ratios.
    pub fn published(seed: Seed) -> Self {
        let critic = Critic {
            form: Form::Network { hidden: vec![64, 64] },
            ridge: 0.0,
            sweeps: 1,
            descent: (20, 1e-3),
        };
        Self {
            horizon: Horizon { discount: 0.995, steps: 10, trace: 1.0 },
            smoothing: Smoothing { temperature: 0.01, dual_weight: 0.1 },
            policy: Form::Features { count: 128, bandwidth: 1.0 },
            damping: Some(1e-3),
            value: critic.clone(),
            dual: critic,
            dual_actions: DualActions::Window,
            target: Target::Moving,
            score: Score::Window,
            step: PolicyStep::Fixed(0.005),
            most_ratio: None,
            log_deviation: (0.0, -10.0, 10.0),
            last_log_deviation: None,
            iterations: 3,
            capacity: 10_000,
            ..Self::new(seed)
        }
    }

    /// The bounds of log σ when a part `behind` of the learning is over.
    pub(super) fn bounds(&self, behind: f64) -> (f64, f64) {
        let (_, low, high) = self.log_deviation;
        let fall = self.last_log_deviation.map_or(0.0, |last| (high - last).max(0.0));
        (low, (high - behind * fall).max(low))
    }

    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        self.horizon.check()?;
        self.smoothing.check()?;
        self.damping.map_or(Ok(0.0), |damping| non_negative("damping", damping))?;
        for critic in [&self.value, &self.dual] {
            non_negative("ridge", critic.ridge)?;
            in_range("sweeps", critic.sweeps as f64, (1..=1_000).contains(&critic.sweeps), "[1, 1000]")?;
            let steps = critic.descent.0;
            in_range("critic_steps", steps as f64, (1..=100_000).contains(&steps), "[1, 100000]")?;
            positive("learning_rate", critic.descent.1)?;
            // Solved at once on features, unless V follows its gradient.
            let solved = matches!(critic.form, Form::Features { .. }) && self.target != Target::Moving;
            let each = if solved { 1 } else { steps };
            let passes = self.iterations.saturating_mul(critic.sweeps).saturating_mul(each);
            let most = "what makes at most 100,000 fits or steps of V, and of rho, in an update (iterations x sweeps x steps)";
            in_range("iterations", self.iterations as f64, (1..=MOST_PASSES).contains(&passes), most)?;
        }
        for form in [&self.policy, &self.value.form, &self.dual.form] {
            if let Form::Features { bandwidth, .. } = form {
                positive("bandwidth", *bandwidth)?;
            }
        }
        match self.step {
            PolicyStep::Divergence(first, last) => {
                positive("divergence", first)?;
                positive("divergence", last)?;
            }
            PolicyStep::Fixed(size) => drop(positive("policy_step", size)?),
        }
        let linear = |critic: &Critic| matches!(critic.form, Form::Features { .. });
        if self.target == Target::Saddle && !(linear(&self.value) && linear(&self.dual)) {
            let text = "target = \"saddle\" solves a linear system: V and rho must be linear in features";
            return Err(Error::Conflict(text.into()));
        }
        let (start, low, high) = self.log_deviation;
        Head::Gaussian { log_deviation: vec![start], bounds: (low, high) }.check()?;
        let last = self.last_log_deviation.unwrap_or(low);
        in_range("last_log_std", last, last.abs() <= MOST, "[-100, 100]")?;
        self.most_ratio.map_or(Ok(0.0), |most| positive("most_ratio", most))?;
        Ok(())
    }
}
