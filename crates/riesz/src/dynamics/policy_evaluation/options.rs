//! What a user can say about the evaluation of a policy.

use crate::driver::Control;
use crate::error::{in_range, non_negative, positive, Error, Result};
use crate::functions::Bandwidth;
use crate::kernel::KernelSpec;
use crate::random::Seed;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How the value is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The saddle point over V and its dual, in closed form (thesis chapter 5).
    DualEmbedding,
    /// The same by stochastic gradients (Algorithm 4).
    EmbeddingSgd,
    /// Least squares of temporal differences: E φδ = 0.
    Lstd,
    /// TD(0).
    Td,
    /// GTD2: stochastic gradients of the saddle point with one basis for both functions.
    Gtd2,
    /// The gradient of E δ², biased where transitions are random.
    ResidualGradient,
    /// A model of the transitions in the space of the kernel (Algorithms 10 and 11).
    KernelMdp,
    /// Fitted Q evaluation: regression of r + γV(s') again and again.
    FittedQ,
    /// Returns times the product of all ratios of an episode.
    ImportanceSampling,
    /// Rewards times the product of the ratios so far.
    PerDecision,
    /// The same, over the sum of these products.
    WeightedPerDecision,
    /// A value function corrected by the weighted temporal differences of each episode.
    DoublyRobust,
}

impl Method {
    /// Whether episodes, rather than transitions, are what is learnt from.
    pub fn needs_episodes(self) -> bool {
        matches!(
            self,
            Self::ImportanceSampling | Self::PerDecision | Self::WeightedPerDecision | Self::DoublyRobust
        )
    }

    /// Whether there is a value function in the end.
    pub fn has_function(self) -> bool {
        !self.needs_episodes() || self == Self::DoublyRobust
    }

    /// Whether sums over transitions are all it needs.
    pub fn is_closed(self) -> bool {
        matches!(self, Self::DualEmbedding | Self::Lstd | Self::KernelMdp | Self::FittedQ)
    }

    /// Whether it takes steps.
    pub fn is_stochastic(self) -> bool {
        matches!(self, Self::EmbeddingSgd | Self::Td | Self::Gtd2 | Self::ResidualGradient)
    }
}

/// Which functions V is a combination of, or the space that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Functions {
    /// Random features of a kernel.
    Random,
    /// Kernel atoms at states that were seen.
    Atoms,
    /// One for every state; states are 0, 1, 2, ….
    Table,
    /// The columns of the states, and a constant.
    Linear,
    /// Random features of a kernel, of which every step draws some more until there are enough (Algorithms 6 to 8).
    Growing,
    /// A multi-layer perceptron with two hidden layers, by Adam.
    Network,
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "dual_embedding" => Self::DualEmbedding,
            "embedding_sgd" => Self::EmbeddingSgd,
            "lstd" => Self::Lstd,
            "td" => Self::Td,
            "gtd2" => Self::Gtd2,
            "residual_gradient" => Self::ResidualGradient,
            "kernel_mdp" => Self::KernelMdp,
            "fitted_q" => Self::FittedQ,
            "importance_sampling" => Self::ImportanceSampling,
            "per_decision" => Self::PerDecision,
            "weighted_per_decision" => Self::WeightedPerDecision,
            "doubly_robust" => Self::DoublyRobust,
            _ => {
                let expected = "dual_embedding, embedding_sgd, lstd, td, gtd2, residual_gradient, kernel_mdp, fitted_q, \
                                importance_sampling, per_decision, weighted_per_decision, doubly_robust";
                return Err(Error::Unknown { name: "method", value: text.into(), expected });
            }
        })
    }
}

impl FromStr for Functions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "random" => Ok(Self::Random),
            "atoms" => Ok(Self::Atoms),
            "table" => Ok(Self::Table),
            "linear" => Ok(Self::Linear),
            "growing" => Ok(Self::Growing),
            "network" => Ok(Self::Network),
            _ => {
                let expected = "atoms, random, table, linear, growing, network";
                Err(Error::Unknown { name: "features", value: text.into(), expected })
            }
        }
    }
}

/// All settings of the evaluation of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "EvaluationOptions::unset")]
pub struct EvaluationOptions {
    /// How.
    pub method: Method,
    /// γ.
    pub discount: f64,
    /// Which functions V is a combination of, or the space that it is in.
    pub features: Functions,
    /// How many, where that is not given by the states; 512, or an eighth of the transitions where that is less. The most of those
    /// that grow, 1,024; the units of each hidden layer of a network, 64; states of a table at least.
    pub n_features: Option<usize>,
    /// Kernel family.
    pub kernel: KernelSpec,
    /// σ in units of standardised columns; by held-out transitions where it is to be found.
    pub bandwidth: Bandwidth,
    /// λ₁ in units of the mean of the diagonal it is added to; by held-out transitions unless given.
    pub ridge: Option<f64>,
    /// λ₂, likewise.
    pub dual_ridge: Option<f64>,
    /// Transitions of a step.
    pub batch_size: usize,
    /// Passes over the transitions.
    #[serde(alias = "n_passes")]
    pub passes: usize,
    /// Step size of V in units of 1/(λ + E‖φ‖²/B), λ the largest eigenvalue of E φφᵀ and B the transitions of a step: about where
    /// steps become unstable, by themselves and by the noise of a batch. For a network in units of a thousandth, of Adam.
    pub step: f64,
    /// Step size of the dual, likewise; for a network in units of a hundredth.
    pub dual_step: f64,
    /// Whether steps fall like 1/√t and iterates are averaged with these weights, as published, rather than constant with the
    /// average of the last half.
    pub published: bool,
    /// Whether steps learn V beside the constant c with E[r + γc − c] = 0, not to be published. That is the mean of V over the states of
    /// the log where they are those that the policy visits, and what steps are slowest to learn; elsewhere it misleads them.
    pub centred: bool,
    /// Steps of fitted Q evaluation.
    #[serde(alias = "n_iterations")]
    pub iterations: usize,
    /// Bootstrap samples of an interval.
    pub n_bootstrap: usize,
    /// Seed.
    #[serde(alias = "random_state")]
    pub seed: Seed,
    /// Seconds that steps may take.
    pub max_time: Option<f64>,
}

impl EvaluationOptions {
    /// The defaults, for this discount.
    pub fn new(discount: f64, seed: Seed) -> Self {
        Self { discount, seed, ..Self::unset() }
    }

    fn unset() -> Self {
        Self {
            method: Method::DualEmbedding,
            discount: 0.99,
            features: Functions::Atoms,
            n_features: None,
            kernel: KernelSpec::Gaussian,
            bandwidth: Bandwidth::Auto,
            ridge: None,
            dual_ridge: None,
            batch_size: 20,
            passes: 1,
            step: 0.3,
            dual_step: 0.3,
            published: false,
            centred: false,
            iterations: 1_000,
            n_bootstrap: 1_000,
            seed: Seed(0),
            max_time: None,
        }
    }

    /// Every setting is in its domain.
    pub fn check(&self) -> Result<()> {
        in_range("discount", self.discount, (0.0..=1.0).contains(&self.discount), "[0, 1]")?;
        self.kernel.check()?;
        if let Bandwidth::Value(value) = self.bandwidth {
            positive("bandwidth", value)?;
        }
        if let Some(features) = self.n_features {
            in_range("n_features", features as f64, (1..=1 << 16).contains(&features), "[1, 2^16]")?;
        }
        if matches!(self.features, Functions::Growing | Functions::Network) && !self.method.is_stochastic() {
            return Err(Error::Conflict(format!(
                "features = growing and features = network are learnt by steps: method = embedding_sgd, gtd2, td or \
                 residual_gradient, not {:?}",
                self.method
            )));
        }
        if self.centred && self.published {
            return Err(Error::Conflict(
                "as published, steps start from zero: centred = true needs published = false".into(),
            ));
        }
        self.ridge.map_or(Ok(0.0), |ridge| non_negative("ridge", ridge))?;
        self.dual_ridge.map_or(Ok(0.0), |ridge| non_negative("dual_ridge", ridge))?;
        positive("batch_size", self.batch_size as f64)?;
        positive("n_passes", self.passes as f64)?;
        positive("step", self.step)?;
        positive("dual_step", self.dual_step)?;
        positive("n_iterations", self.iterations as f64)?;
        in_range(
            "n_bootstrap",
            self.n_bootstrap as f64,
            (20..=1 << 20).contains(&self.n_bootstrap),
            "[20, 2^20]",
        )?;
        self.max_time.map_or(Ok(0.0), |seconds| positive("max_time", seconds))?;
        Ok(())
    }

    /// Refuses checkpoints of what is solved at once.
    pub(super) fn check_checkpoint(&self, control: &Control<'_>) -> Result<()> {
        if control.checkpoint.is_some() && !self.method.is_stochastic() {
            return Err(Error::Conflict(format!(
                "checkpoint is for methods that take steps, and this one is solved at once (method = {:?})",
                self.method
            )));
        }
        Ok(())
    }

    /// Refuses a discount of one where nothing ends.
    pub(super) fn check_discount(&self, terminals: &[bool]) -> Result<()> {
        if self.discount >= 1.0 && !terminals.contains(&true) {
            return Err(Error::Conflict(
                "discount = 1 needs transitions that end an episode, and none of terminals is true: values would be infinite; \
                 lower discount"
                    .into(),
            ));
        }
        Ok(())
    }
}
