//! Settings of a sparse Gaussian process.

use crate::error::{positive, Result};
use crate::gaussian::hyperparameters::{Given, Learning};
use crate::gaussian::Family;
use crate::random::Seed;
use crate::solver::Schedule;
use serde::{Deserialize, Serialize};

/// How the posterior is approached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Particles of neighbouring rows, a variance for every row, predictions by the particles that know.
    Adaptive,
    /// The recursion as published: random sets, one variance for all rows, weights by evidence.
    Paper,
}

/// Settings of [`SparseProcess`](super::SparseProcess). What is `None` is learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "SparseProcessOptions::unset")]
pub struct SparseProcessOptions {
    /// Inducing inputs m of a particle.
    #[serde(alias = "n_inducing")]
    pub inducing: usize,
    /// Particles J.
    #[serde(alias = "n_particles")]
    pub particles: usize,
    /// Rows B of a step.
    pub batch_size: usize,
    /// κ.
    pub kernel: Family,
    /// s², in squared units of the targets.
    pub signal: Option<f64>,
    /// σ² = 1/β, in squared units of the targets.
    pub noise: Option<f64>,
    /// ℓ, one per column, in its units.
    #[serde(alias = "length_scale")]
    pub length_scales: Option<Vec<f64>>,
    /// Rows the hyper-parameters are learnt from, drawn at random.
    pub learning_rows: usize,
    /// How the posterior is approached.
    pub mode: Mode,
    /// γ_t of the paper's mode; a step above one counts as one.
    pub schedule: Schedule,
    /// Passes over the rows of the paper's mode.
    #[serde(alias = "n_passes")]
    pub passes: usize,
    /// Most seconds; what was learnt by then is the posterior of the rows seen.
    #[serde(skip_serializing)]
    pub max_time: Option<f64>,
    /// Seed of inducing inputs and of the order of the rows.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

impl SparseProcessOptions {
    /// Everything learnt.
    pub fn new(seed: Seed) -> Self {
        Self {
            inducing: 512,
            particles: 16,
            batch_size: 1_024,
            kernel: Family::Gaussian,
            signal: None,
            noise: None,
            length_scales: None,
            learning_rows: 2_000,
            mode: Mode::Adaptive,
            schedule: Schedule::Inverse { theta: 1.0, delay: 0.0 },
            passes: 1,
            max_time: None,
            seed,
        }
    }

    /// What is filled in for a setting that is not given.
    fn unset() -> Self {
        Self::new(Seed(0))
    }

    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        positive("n_inducing", self.inducing as f64)?;
        positive("n_particles", self.particles as f64)?;
        positive("batch_size", self.batch_size as f64)?;
        positive("n_passes", self.passes as f64)?;
        self.max_time.map_or(Ok(1.0), |v| positive("max_time", v))?;
        self.schedule.check()?;
        self.learning().check()
    }

    /// Distinct rows up to which there is one set that has them all: m, and in the adaptive mode √J m, which costs as much a
    /// row as J sets of m do.
    pub(super) fn largest(&self) -> usize {
        match self.mode {
            Mode::Paper => self.inducing,
            Mode::Adaptive => (self.inducing as f64 * (self.particles as f64).sqrt()) as usize,
        }
    }

    /// What is learnt, and from what.
    pub(super) fn learning(&self) -> Learning {
        let (signal, noise, length_scales) = (self.signal, self.noise, self.length_scales.clone());
        let given = Given { signal, noise, length_scales };
        Learning { given, rows: self.learning_rows, seed: self.seed }
    }
}
