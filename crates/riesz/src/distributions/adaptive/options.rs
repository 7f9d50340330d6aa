//! Settings of adaptive particle mirror descent.

use crate::error::{in_range, Result};
use crate::random::Seed;
use serde::{Deserialize, Serialize};

/// Most particles of an island that were not asked for.
const MOST: usize = 10_000;

/// How particles are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// By draws from a density through them, as long as enough draws can be expected to be effective; else by moves.
    Auto,
    /// By draws always.
    Draws,
    /// By Metropolis moves always.
    Moves,
}

/// Settings; every one has a default but the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "AdaptiveOptions::unset")]
pub struct AdaptiveOptions {
    /// Particles of the posterior.
    #[serde(alias = "n_particles")]
    pub particles: usize,
    /// Independent runs with half of the particles between them, pooled for the last stage.
    #[serde(alias = "n_islands")]
    pub islands: usize,
    /// Observations in the first batch; `None`: ten for each parameter, and 16 at least.
    #[serde(alias = "batch_size")]
    pub batch: Option<usize>,
    /// Factor by which the observations looked at grow.
    pub growth: f64,
    /// Share of the particles that must stay effective in a step.
    pub effective: f64,
    /// Share of the draws from a heavy-tailed density.
    pub defensive: f64,
    /// How particles are renewed.
    pub renewal: Renewal,
    /// Whether draws from a normal approximation are tried: the model's own, where it has one, and that of many data to which
    /// islands lead that have seen a part of them.
    pub laplace: bool,
    /// Whether a last stage draws all particles anew and weighs them by all data.
    pub final_stage: bool,
    /// Most seconds. Islands that have seen all data by then make up the posterior; without one it is the posterior of the
    /// observations that the first has seen.
    pub max_time: Option<f64>,
    /// The seed.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

impl AdaptiveOptions {
    /// The defaults.
    pub fn new(seed: Seed) -> Self {
        Self {
            particles: 2_000,
            islands: 2,
            batch: None,
            growth: 2.0,
            effective: 0.3,
            defensive: 0.1,
            renewal: Renewal::Auto,
            laplace: true,
            final_stage: true,
            max_time: None,
            seed,
        }
    }

    /// What is filled in for a setting that is not given.
    fn unset() -> Self {
        Self::new(Seed(0))
    }

    /// Refuses settings outside their domain.
    pub(super) fn check(&self) -> Result<()> {
        in_range(
            "n_particles",
            self.particles as f64,
            (50..1 << 31).contains(&self.particles),
            "[50, 2^31)",
        )?;
        in_range("n_islands", self.islands as f64, (1..=1024).contains(&self.islands), "[1, 1024]")?;
        let batch = self.batch.unwrap_or(1);
        in_range("batch_size", batch as f64, batch >= 1, "[1, ∞)")?;
        in_range("growth", self.growth, self.growth > 1.0 && self.growth.is_finite(), "(1, ∞)")?;
        in_range("effective", self.effective, self.effective > 0.0 && self.effective < 1.0, "(0, 1)")?;
        in_range("defensive", self.defensive, (0.0..1.0).contains(&self.defensive), "[0, 1)")?;
        let time = self.max_time.unwrap_or(1.0);
        in_range("max_time", time, time > 0.0, "(0, ∞)").map(drop)
    }

    /// Particles of one island: half of all shared among the islands, or what a covariance in this dimension needs to be
    /// known well enough to draw from: some d² effective ones.
    pub(super) fn island_size(&self, dimension: usize) -> usize {
        let share = self.particles.div_ceil(2 * self.islands);
        let covariance = (100 + 50 * dimension).max(3 * dimension * dimension / 2);
        share.max(covariance.min(self.particles.max(MOST)))
    }
}
