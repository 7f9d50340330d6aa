//! What a user gets back: weighted particles, a density, the evidence, and whether to trust them.

use super::factor::moments;
use super::model::Particles;
use super::proposal::Proposal;
use super::special::log_sum_exp;
use super::weights::{effective_size, normalised, pareto_smoothed, systematic};
use crate::error::{Error, Result};
use crate::memory::room;
use crate::model::{Container, Stored};
use crate::random::{Address, BlockIndex, Seed, Stream};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Pareto shape from which importance weights are not to be trusted.
pub(super) const HEAVY: f64 = 0.7;
/// Share of effective draws below which a density through moved particles does not confirm them: adaptation to the draws
/// themselves then finds the part of the posterior that they have seen, and no weight tells of the rest.
pub(super) const LEAST_OVERLAP: f64 = 0.4;
/// Share of effective particles from which no few carry the weights, whatever the shape of their tail.
const NEARLY_EQUAL: f64 = 0.8;
/// Least effective number of particles that is not remarked upon.
const FEW: f64 = 100.0;

/// Effective particles, of so many, below which they have collapsed.
pub(super) fn few(particles: usize) -> f64 {
    FEW.min(0.5 * particles as f64)
}
/// R̂ from which islands disagree.
const DISAGREE: f64 = 1.1;
/// Block of the groups of the density.
const DENSITY: u64 = 1 << 41;
/// First block of draws.
const DRAWS: u64 = 1 << 42;

/// How the particles of a stage came about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// Those of the stage before, or of the prior, with new weights.
    Kept,
    /// Draws from a density through those of the stage before.
    Draws,
    /// Metropolis moves.
    Moves {
        /// Share of them that was accepted.
        acceptance: f64,
    },
}

/// What R̂ compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Islands that know nothing of each other.
    #[default]
    Islands,
    /// Islands that agreed once and have moved by densities through each other's particles since.
    Companions,
    /// The two halves of the draws.
    Halves,
}

/// What happened in a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The island; `None` for draws of no island: the last stage, which all share, those about a mode, and particles of islands that
    /// have stopped at a part of the data, looking at all of them.
    pub island: Option<usize>,
    /// Observations whose posterior the stage began with.
    pub seen: usize,
    /// Observations of the batch.
    pub batch: usize,
    /// Power of the batch's likelihood at the end of the stage.
    pub power: f64,
    /// Particles.
    pub particles: usize,
    /// How many of them are effective.
    pub effective_size: f64,
    /// Groups found in them; 0 where they were kept.
    pub groups: usize,
    /// How they came about.
    pub kind: StageKind,
    /// Likelihoods of single observations evaluated so far, by the island.
    pub evaluations: u64,
}

/// The logarithm of ∫ p(x∣θ) p(θ) dθ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The estimate.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

impl Compared {
    /// What to say where R̂ is `worst`.
    fn disagreement(self, worst: f64) -> String {
        let (who, what, raise) = match self {
            Self::Islands => {
                ("independent islands disagree", "modes may be missing", "n_particles or n_islands")
            }
            Self::Companions => (
                "islands disagree, though they moved by densities through each other's particles",
                "modes may be missing",
                "n_particles or n_islands",
            ),
            Self::Halves => {
                ("the two halves of the draws disagree", "a few draws carry the means", "n_particles")
            }
        };
        format!("{who} (R-hat = {worst:.2}, should be below {DISAGREE}): {what}; raise {raise}")
    }
}

impl Evidence {
    /// The mean of independent importance weights, with the error √((Σw²)/(Σw)² − 1/m).
    pub(super) fn of_weights(log_weights: &[f64]) -> Self {
        let count = log_weights.len() as f64;
        let size = effective_size(log_weights);
        let value = log_sum_exp(log_weights) - count.ln();
        Self { value, error: (1.0 / size - 1.0 / count).max(0.0).sqrt() }
    }
}

/// A mean with its Monte Carlo error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// What is known about a posterior besides its particles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Observations it is the posterior of.
    pub seen: usize,
    /// Observations there are.
    pub observations: usize,
    /// The log-evidence: a mean of importance weights, or a bridge between moved particles and draws. `None` where the
    /// algorithm gives none (strategy 2, steps other than 1/t), and after Metropolis moves where draws from a density
    /// through the particles do not confirm them, or none were made.
    pub evidence: Option<Evidence>,
    /// Effective number of particles.
    pub effective_size: f64,
    /// Shape of the tail of the weights, of draws from a density through the particles where these were moved; `None` where
    /// four in five are effective: weights that are nearly equal may have any tail.
    pub pareto_k: Option<f64>,
    /// Agreement in mean and spread, by coordinate: between islands after moves, else between the halves of the draws.
    pub r_hat: Option<Vec<f64>>,
    /// What it compares.
    #[serde(default)]
    pub compared: Compared,
    /// After moves that did not mix well, the share of effective ones of the first draws from a density through the moved
    /// particles.
    #[serde(default)]
    pub overlap: Option<f64>,
    /// Groups in the last particles that were drawn anew; 0 where there were none.
    pub groups: usize,
    /// Whether the particles are positions of Metropolis chains.
    pub moved: bool,
    /// Likelihoods of single observations that were evaluated.
    pub evaluations: u64,
    /// The stages.
    pub history: Vec<Stage>,
    /// The seed.
    pub seed: Seed,
}

/// Weighted particles that stand for a posterior.
#[derive(Debug)]
pub struct Posterior {
    dimension: usize,
    positions: Vec<f64>,
    /// Normalised.
    log_weights: Vec<f64>,
    report: Report,
    density: OnceLock<Proposal>,
}

/// Refuses more draws, of `numbers` numbers each, than have addresses or memory.
fn drawable(count: usize, numbers: usize) -> Result<()> {
    if count >= 1 << 32 {
        return Err(Error::OutOfRange { name: "n", value: count as f64, range: "[0, 2^32)" });
    }
    room("draws", "n", &[count, numbers], 8)
}

impl Posterior {
    /// The posterior that particles from elsewhere stand for: `positions` row-major, logarithms of weights known up to a
    /// factor. What is not known of them (evidence, history, agreement of islands) stays empty in the report.
    ///
    /// ```
    /// use riesz::distributions::Posterior;
    /// use riesz::random::Seed;
    ///
    /// let posterior = Posterior::of_particles(1, vec![-1.0, 0.0, 1.0], vec![0.0, 1.0_f64.ln(), 2.0_f64.ln()], Seed(0))?;
    /// assert!((posterior.mean(|theta| theta[0]).value - 0.25).abs() < 1e-15);
    /// # Ok::<(), riesz::Error>(())
    /// ```
    pub fn of_particles(
        dimension: usize,
        positions: Vec<f64>,
        log_weights: Vec<f64>,
        seed: Seed,
    ) -> Result<Self> {
        let count = Particles::new(&positions, dimension)?.len();
        if count == 0 {
            return Err(Error::Empty { what: "positions", needed: "one particle" });
        }
        if count != log_weights.len() {
            return Err(Error::RowCount { what: "log_weights", expected: count, found: log_weights.len() });
        }
        let fault = positions.iter().position(|x| !x.is_finite());
        if let Some(i) = fault {
            let (row, column) = (i / dimension, i % dimension);
            return Err(Error::NotFinite { what: "positions", value: positions[i], row, column });
        }
        if let Some(row) = log_weights.iter().position(|w| w.is_nan() || *w == f64::INFINITY) {
            return Err(Error::NotFinite { what: "log_weights", value: log_weights[row], row, column: 0 });
        }
        if log_sum_exp(&log_weights) == f64::NEG_INFINITY {
            return Err(Error::Impossible { particles: count, observations: 0 });
        }
        Ok(Self::new(dimension, positions, log_weights, seed))
    }

    /// Particles with weights known up to a factor.
    pub(super) fn new(dimension: usize, positions: Vec<f64>, mut log_weights: Vec<f64>, seed: Seed) -> Self {
        let total = log_sum_exp(&log_weights);
        log_weights.iter_mut().for_each(|w| *w -= total);
        let size = effective_size(&log_weights);
        let uneven = size < NEARLY_EQUAL * log_weights.len() as f64;
        let report = Report {
            seen: 0,
            observations: 0,
            evidence: None,
            effective_size: size,
            pareto_k: pareto_smoothed(&log_weights).1.filter(|_| uneven),
            r_hat: None,
            compared: Compared::Islands,
            overlap: None,
            groups: 0,
            moved: false,
            evaluations: 0,
            history: Vec::new(),
            seed,
        };
        Self { dimension, positions, log_weights, report, density: OnceLock::new() }
    }

    pub(super) fn of_observations(mut self, seen: usize, observations: usize) -> Self {
        (self.report.seen, self.report.observations) = (seen, observations);
        self
    }

    pub(super) fn with_evidence(mut self, evidence: Option<Evidence>) -> Self {
        self.report.evidence = evidence;
        self
    }

    pub(super) fn with_diagnostics(
        mut self,
        size: f64,
        (r_hat, compared): (Option<Vec<f64>>, Compared),
        moved: bool,
    ) -> Self {
        self.report.effective_size = size;
        (self.report.r_hat, self.report.compared) = (r_hat, compared);
        self.report.moved = moved;
        self
    }

    pub(super) fn with_overlap(mut self, overlap: Option<f64>) -> Self {
        self.report.overlap = overlap;
        self
    }

    /// Says what the weights of draws from a density through the particles tell, where these were moved.
    pub(super) fn with_shape(mut self, pareto_k: Option<f64>) -> Self {
        self.report.pareto_k = pareto_k.or(self.report.pareto_k);
        self
    }

    pub(super) fn with_history(mut self, history: Vec<Stage>, evaluations: u64, groups: usize) -> Self {
        self.report.history = history;
        self.report.evaluations = evaluations;
        self.report.groups = groups;
        self
    }

    /// Dimension d of θ.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of particles.
    pub fn len(&self) -> usize {
        self.log_weights.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.log_weights.is_empty()
    }

    /// The particles, row-major.
    pub fn positions(&self) -> &[f64] {
        &self.positions
    }

    /// Logarithms of their weights, which sum to one.
    pub fn log_weights(&self) -> &[f64] {
        &self.log_weights
    }

    /// Diagnostics, evidence and history.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What a user should know before using the posterior; empty where nothing speaks against it.
    pub fn warnings(&self) -> Vec<String> {
        let report = &self.report;
        let mut warnings = Vec::new();
        if report.seen < report.observations {
            warnings.push(format!(
                "the fit ended after {} of {} observations: this is the posterior of those alone; raise max_time or n_steps",
                report.seen, report.observations
            ));
        }
        if report.effective_size < few(self.len()) {
            warnings.push(format!(
                "the particles have collapsed: only {:.1} of {} are effective; raise n_particles, or reparametrise the model so that \
                 the posterior is closer to a Gaussian",
                report.effective_size,
                self.len()
            ));
        }
        if let Some(k) = report.pareto_k.filter(|k| *k >= HEAVY) {
            let (what, whose) = if report.moved {
                ("draws from a density through the particles do not confirm them", "their weights' ")
            } else {
                ("a few particles carry the weights", "")
            };
            warnings.push(format!(
                "{what} ({whose}Pareto k = {k:.2}, should be below {HEAVY}): means and the evidence are not to be trusted; raise \
                 n_particles, or reparametrise the model so that the posterior is closer to a Gaussian"
            ));
        }
        if let Some(share) = report.overlap.filter(|share| *share < LEAST_OVERLAP) {
            warnings.push(format!(
                "draws from a density through particles that Metropolis moves left are effective to {:.0} % only: parts of the posterior \
                 that chains seldom visit may be missing; raise n_particles, or reparametrise the \
                 model so that the posterior is closer to a Gaussian",
                100.0 * share
            ));
        }
        let worst = report.r_hat.iter().flatten().copied().fold(1.0, f64::max);
        if worst >= DISAGREE {
            warnings.push(report.compared.disagreement(worst));
        }
        warnings
    }

    /// E f(θ) with its Monte Carlo error √(Σ w² (f − E f)²), widened where the particles are positions of chains.
    pub fn mean(&self, f: impl Fn(&[f64]) -> f64) -> Estimate {
        let values: Vec<f64> = self.positions.chunks_exact(self.dimension).map(f).collect();
        self.mean_of(&values)
    }

    /// The mean of values of a function at the particles.
    pub fn mean_of(&self, values: &[f64]) -> Estimate {
        let weights = normalised(&self.log_weights);
        let value: f64 = weights.iter().zip(values).filter(|(w, _)| **w > 0.0).map(|(w, v)| w * v).sum();
        let spread: f64 = weights.iter().zip(values).map(|(w, v)| (w * (v - value)).powi(2)).sum();
        let inflation = (effective_size(&self.log_weights) / self.report.effective_size).max(1.0);
        Estimate { value, error: (spread * inflation).sqrt() }
    }

    /// Mean and covariance of θ.
    pub fn moments(&self) -> (Vec<f64>, Vec<f64>) {
        moments(&self.positions, &normalised(&self.log_weights), self.dimension)
    }

    /// Indices of `count` particles by systematic resampling, in random order.
    pub fn resample(&self, count: usize, seed: Seed) -> Result<Vec<usize>> {
        drawable(count, 4)?;
        let weights = normalised(&self.log_weights);
        let chosen = systematic(&weights, count, Address::new(seed, Stream::Resample, BlockIndex(DRAWS), 0));
        let order = crate::random::Permutation::new(seed, Stream::Resample, BlockIndex(DRAWS + 1), count);
        Ok(order.indices().iter().map(|&i| chosen[i as usize]).collect())
    }

    /// `count` draws from the density, which are new points.
    pub fn draw(&self, count: usize, seed: Seed) -> Result<Vec<f64>> {
        drawable(count, self.dimension + 2)?;
        Ok(self.density().draw(count, seed, BlockIndex(DRAWS + 2)))
    }

    /// log q̃ at rows of `points`.
    pub fn log_density(&self, points: &[f64]) -> Result<Vec<f64>> {
        if !points.len().is_multiple_of(self.dimension) {
            return Err(Error::Columns { expected: self.dimension, found: points.len() });
        }
        Ok(self.density().log_density(points))
    }

    /// The groups of the density: share, mean and covariance of each.
    pub fn groups(&self) -> Vec<(f64, Vec<f64>, Vec<f64>)> {
        self.density().describe()
    }

    fn density(&self) -> &Proposal {
        if let Some(density) = self.density.get() {
            return density;
        }
        // Not under the lock: a thread of the pool that waits for others may take up another call for the same density.
        let (weights, block) = (normalised(&self.log_weights), BlockIndex(DENSITY));
        let fitted =
            Proposal::straight(&self.positions, &weights, self.dimension, 0.0, self.report.seed, block);
        self.density.get_or_init(|| fitted)
    }
}

impl Stored for Posterior {
    const KIND: &'static str = "posterior";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.set_field("report", &self.report)?;
        container.insert("positions", vec![self.len(), self.dimension], self.positions.clone())?;
        container.insert("log_weights", vec![self.len()], self.log_weights.clone())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let report: Report = container.field("report")?;
        let (shape, _) = container.f64s("positions")?;
        let &[count, dimension] = shape else {
            return Err(Error::Format(format!("positions have the shape {shape:?}, not m × d")));
        };
        if count == 0 || dimension == 0 {
            return Err(Error::Format("a posterior without particles".to_owned()));
        }
        let positions = container.take_f64s("positions", &[count, dimension])?;
        // −∞ is the logarithm of a weight of zero.
        let log_weights = container.take_f64s_where("log_weights", &[count], |w| w < f64::INFINITY)?;
        let total = log_sum_exp(&log_weights);
        if total.is_nan() || total.abs() >= 1e-6 {
            return Err(Error::Format("weights of particles that do not sum to one".to_owned()));
        }
        Ok(Self { dimension, positions, log_weights, report, density: OnceLock::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The warning names what was compared.
    #[test]
    fn a_disagreement_is_that_of_what_was_compared() {
        let said = |compared| {
            let warned = |r| {
                Posterior::new(1, vec![0.0; 400], vec![0.0; 400], Seed(0))
                    .with_diagnostics(400.0, (Some(vec![1.0, r]), compared), false)
                    .warnings()
            };
            assert_eq!(warned(1.09), Vec::<String>::new());
            warned(1.5).concat()
        };
        assert!(said(Compared::Islands).starts_with("independent islands disagree (R-hat = 1.50"));
        assert!(said(Compared::Companions).contains("each other's particles (R-hat = 1.50"));
        assert!(said(Compared::Halves).starts_with("the two halves of the draws disagree (R-hat = 1.50"));
    }
}
