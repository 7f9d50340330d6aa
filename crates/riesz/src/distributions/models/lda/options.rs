//! What a user can say about a topic model; everything but the number of topics has a default.

use crate::error::{in_range, non_negative, positive, Error, Result};
use crate::random::Seed;
use serde::{Deserialize, Serialize};

/// How topics are learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LdaMode {
    /// Expected assignments, one particle.
    Adaptive,
    /// Drawn assignments, weighted particles.
    Paper,
}

/// Settings of a [`super::TopicModel`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "LdaOptions::unset")]
pub struct LdaOptions {
    /// K.
    #[serde(alias = "n_components")]
    pub topics: usize,
    /// How topics are learnt.
    pub mode: LdaMode,
    /// α, one number for all topics or one for each; `None`: 0.1 to start with.
    pub doc_topic_prior: Option<Vec<f64>>,
    /// η; `None`: 1/K to start with.
    pub topic_word_prior: Option<f64>,
    /// Whether priors that are not given are learnt from the third pass on (adaptive mode).
    pub learn_priors: bool,
    /// Passes over the documents.
    #[serde(alias = "max_iter")]
    pub passes: usize,
    /// B; `None`: from 32 documents, growing to 256, and 100 in paper mode.
    pub batch_size: Option<usize>,
    /// κ of the step γ_t = (t₀ + t)^−κ, of paper mode and of streaming.
    pub learning_decay: f64,
    /// t₀.
    pub learning_offset: f64,
    /// D when streaming; `None`: as many documents as have been seen.
    #[serde(alias = "total_samples")]
    pub total_documents: Option<f64>,
    /// Training perplexity is computed every so many passes; `None`: never.
    pub evaluate_every: Option<usize>,
    /// The fit ends when training perplexity changes by less.
    #[serde(alias = "perp_tol")]
    pub perplexity_tolerance: f64,
    /// New documents are settled when a sweep changes their expected counts by less than this share.
    #[serde(alias = "mean_change_tol")]
    pub document_tolerance: f64,
    /// Most sweeps over a document.
    #[serde(alias = "max_doc_update_iter")]
    pub max_sweeps: usize,
    /// Particles of paper mode.
    pub particles: usize,
    /// Seed of everything.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

/// Most sweeps over a document: rounding ends it long before.
const MOST_SWEEPS: usize = 1_000_000;

impl LdaOptions {
    /// The defaults for so many topics.
    pub fn new(topics: usize, seed: Seed) -> Self {
        Self {
            topics,
            mode: LdaMode::Adaptive,
            doc_topic_prior: None,
            topic_word_prior: None,
            learn_priors: true,
            passes: 10,
            batch_size: None,
            learning_decay: 0.7,
            learning_offset: 10.0,
            total_documents: None,
            evaluate_every: None,
            perplexity_tolerance: 0.1,
            document_tolerance: 1e-3,
            max_sweeps: 100,
            particles: 4,
            seed,
        }
    }

    /// What is filled in for a setting that is not given.
    fn unset() -> Self {
        Self::new(10, Seed(0))
    }

    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        at_least_one("n_components", self.topics)?;
        in_range("n_components", self.topics as f64, self.topics <= 1 << 16, "1, 2, …, 65536")?;
        if let Some(prior) = &self.doc_topic_prior {
            if prior.len() != 1 && prior.len() != self.topics {
                let (found, topics) = (prior.len(), self.topics);
                let message = format!("doc_topic_prior has {found} numbers, expected 1 or {topics}");
                return Err(Error::Conflict(message));
            }
            prior.iter().try_for_each(|&a| single("doc_topic_prior", a))?;
        }
        self.topic_word_prior.map_or(Ok(()), |eta| single("topic_word_prior", eta))?;
        at_least_one("max_iter", self.passes)?;
        at_least_one("batch_size", self.batch_size.unwrap_or(1))?;
        let decay = self.learning_decay;
        in_range("learning_decay", decay, (0.5..=1.0).contains(&decay), "[0.5, 1]")?;
        non_negative("learning_offset", self.learning_offset)?;
        self.total_documents.map_or(Ok(1.0), |total| positive("total_samples", total))?;
        positive("perp_tol", self.perplexity_tolerance)?;
        positive("mean_change_tol", self.document_tolerance)?;
        // Sweeps of a document are not interrupted.
        let few = (1..=MOST_SWEEPS).contains(&self.max_sweeps);
        in_range("max_doc_update_iter", self.max_sweeps as f64, few, "1, 2, …, 1000000")?;
        at_least_one("particles", self.particles)
    }

    /// α to start with, one number for each topic.
    pub(super) fn initial_doc_topic_prior(&self) -> Vec<f64> {
        match self.doc_topic_prior.as_deref() {
            None => vec![0.1; self.topics],
            Some([alpha]) => vec![*alpha; self.topics],
            Some(alphas) => alphas.to_vec(),
        }
    }

    /// η to start with.
    pub(super) fn initial_topic_word_prior(&self) -> f64 {
        self.topic_word_prior.unwrap_or(1.0 / self.topics as f64)
    }

    /// γ_t = (t₀ + t)^−κ, t from 1, at most 1.
    pub(super) fn step_size(&self, t: u64) -> f64 {
        (self.learning_offset + t as f64).powf(-self.learning_decay).min(1.0)
    }
}

/// Refuses a prior that is not positive, or is no number in single precision, in which documents are settled.
fn single(name: &'static str, prior: f64) -> Result<()> {
    positive(name, prior)?;
    in_range(name, prior, (prior as f32).is_finite(), "(0, 3.4e38]").map(drop)
}

fn at_least_one(name: &'static str, value: usize) -> Result<()> {
    in_range(name, value as f64, value > 0, "1, 2, …").map(drop)
}
