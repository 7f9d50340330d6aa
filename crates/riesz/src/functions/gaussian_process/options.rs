//! Settings of a Gaussian process.

use crate::error::{positive, Error, Result};
use crate::gaussian::hyperparameters::{Given, Learning};
use crate::random::Seed;
use serde::{Deserialize, Serialize};

/// Rows up to which the posterior is exact by default.
const EXACT_ROWS: usize = 8_192;

/// How the posterior is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// Exact up to 8,192 rows, inducing points above.
    Auto,
    /// The Cholesky factor of K + σ²I: O(n³) time, O(n²) memory.
    Exact,
    /// Inducing points, and neighbours for the residual: O(n) for fixed numbers of both.
    Inducing,
}

/// Settings of [`GaussianProcess`](super::GaussianProcess). What is `None` is learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "GaussianProcessOptions::unset")]
pub struct GaussianProcessOptions {
    /// s², in squared units of the targets.
    pub signal: Option<f64>,
    /// σ², in squared units of the targets.
    pub noise: Option<f64>,
    /// ℓ, one per column, in its units.
    pub length_scales: Option<Vec<f64>>,
    /// Rows the hyper-parameters are learnt from, drawn at random.
    pub learning_rows: usize,
    /// How the posterior is computed.
    pub approximation: Approximation,
    /// Most inducing points; fewer above 131,072 rows, where their features would not fit in a gibibyte.
    pub inducing: usize,
    /// Neighbours of a row in the inducing approximation.
    pub neighbours: usize,
    /// Most seconds spent on learning hyper-parameters; those found by then are taken. Conditioning on the rows comes
    /// after, however long it takes.
    #[serde(skip_serializing)]
    pub max_time: Option<f64>,
    /// Seed of the order of the rows.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

impl GaussianProcessOptions {
    /// Everything learnt.
    pub fn new(seed: Seed) -> Self {
        Self {
            signal: None,
            noise: None,
            length_scales: None,
            learning_rows: 4_000,
            approximation: Approximation::Auto,
            inducing: 1_024,
            neighbours: 32,
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
        self.learning().check()?;
        positive("inducing", self.inducing as f64)?;
        self.max_time.map_or(Ok(1.0), |v| positive("max_time", v))?;
        Ok(())
    }

    /// What is learnt, and from what.
    pub(super) fn learning(&self) -> Learning {
        let (signal, noise, length_scales) = (self.signal, self.noise, self.length_scales.clone());
        let given = Given { signal, noise, length_scales };
        Learning { given, rows: self.learning_rows, seed: self.seed }
    }

    /// Whether the posterior on `rows` rows is exact.
    pub(super) fn exact(&self, rows: usize) -> bool {
        match self.approximation {
            Approximation::Auto => rows <= EXACT_ROWS,
            Approximation::Exact => true,
            Approximation::Inducing => false,
        }
    }
}

/// How samples are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Jointly up to 2,048 points, functions above.
    Auto,
    /// From the normal distribution at the points: O(t³) for t of them, exact.
    Joint,
    /// Functions of the posterior, made from functions of the prior with random features: O(t) for t points. Mean and
    /// covariance over samples are exact, normality is not quite. The same seed is the same function whatever the points.
    Functions,
}

impl std::str::FromStr for Sampling {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "joint" => Ok(Self::Joint),
            "functions" => Ok(Self::Functions),
            _ => {
                Err(Error::Unknown { name: "method", value: name.into(), expected: "auto, joint, functions" })
            }
        }
    }
}
