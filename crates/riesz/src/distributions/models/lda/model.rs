//! A fitted topic model.

use super::adaptive::{Batch, Batches, Contribution, Memory};
use super::corpus::Corpus;
use super::infer::{Effort, Topics};
use super::options::{LdaMode, LdaOptions};
use super::paper::{MirrorStep, Particles};
use super::perplexity::{completion, Variational};
use super::priors::{learn_alpha, learn_eta};
use super::statistics::Statistics;
use crate::data::Rows;
use crate::distributions::model::even_batches;
use crate::driver::{Control, Phase, Progress};
use crate::error::{same_columns, same_rows, Error, Result};
use crate::model::{Container, Stored};
use crate::random::{BlockIndex, Permutation, Stream};
use serde::{Deserialize, Serialize};

/// The first pass after which priors are learnt: by then documents have been visited under topics that tell them apart.
const LEARN_FROM: usize = 3;
/// Documents of a batch in paper mode (thesis 4.6).
const PAPER_BATCH: usize = 100;
/// Documents of a batch when streaming, unless given.
const STREAM_BATCH: usize = 256;

/// Topics learnt from documents.
///
/// ```
/// use riesz::data::Rows;
/// use riesz::distributions::models::lda::{LdaOptions, TopicModel};
/// use riesz::driver::quietly;
/// use riesz::random::Seed;
///
/// // Documents are about fruit (words 0, 1) or about planets (words 2, 3).
/// let counts = [4.0, 3.0, 0.0, 0.0, 0.0, 0.0, 5.0, 2.0].repeat(20);
/// let documents = Rows::double(&counts, 4)?;
/// let options = LdaOptions::new(2, Seed(0));
/// let model = quietly(|control| TopicModel::fit(&options, documents, control))?;
/// let theta = model.transform(documents)?;
/// assert!((theta[0] - theta[2]).abs() > 0.8, "two documents, two topics");
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopicModel {
    statistics: Statistics,
    header: Header,
    particles: Option<Particles>,
}

/// Everything about a topic model that is not a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: LdaOptions,
    vocabulary: usize,
    alpha: Vec<f64>,
    eta: f64,
    /// Passes of the fit.
    passes: usize,
    /// Batches seen, and documents.
    batches: u64,
    documents: f64,
    /// Training perplexity, where it was asked for.
    history: Vec<f64>,
}

/// What a fit chose and how it went.
#[derive(Clone, Debug, Serialize)]
pub struct LdaSummary {
    /// K.
    pub topics: usize,
    /// W.
    pub columns: usize,
    /// How topics were learnt.
    pub mode: LdaMode,
    /// α.
    pub doc_topic_prior: Vec<f64>,
    /// η.
    pub topic_word_prior: f64,
    /// Passes over the documents.
    pub passes: usize,
    /// Batches seen.
    pub batches: u64,
    /// Training perplexity, where it was asked for.
    pub history: Vec<f64>,
    /// Logarithms of the particles' weights (paper mode).
    pub log_weights: Option<Vec<f64>>,
    /// Seed.
    pub seed: u64,
}

impl TopicModel {
    /// Learns topics from documents (rows) over a vocabulary (columns).
    pub fn fit(options: &LdaOptions, rows: Rows<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        let corpus = Corpus::new(rows)?;
        let mut model = Self::empty(options, &corpus);
        control.start(None);
        match options.mode {
            LdaMode::Adaptive => model.descend(&corpus, control)?,
            LdaMode::Paper => model.sample(&corpus, control)?,
        }
        Ok(model)
    }

    /// A model that has seen nothing: noise that is spread as the words of `corpus`, or particles at the prior.
    fn empty(options: &LdaOptions, corpus: &Corpus) -> Self {
        let header = Header {
            options: options.clone(),
            vocabulary: corpus.vocabulary(),
            alpha: options.initial_doc_topic_prior(),
            eta: options.initial_topic_word_prior(),
            passes: 0,
            batches: 0,
            documents: 0.0,
            history: vec![],
        };
        let statistics = Statistics::noise(corpus, options.topics, options.seed);
        let particles = (options.mode == LdaMode::Paper).then(|| {
            let alpha = header.alpha.clone();
            Particles::new(options.particles, corpus.vocabulary(), alpha, header.eta, options.seed)
        });
        Self { statistics, header, particles }
    }

    /// The topics of streaming: learns from documents as they come, also after a fit.
    pub fn begin(options: &LdaOptions, rows: Rows<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        let mut model = Self::empty(options, &Corpus::new(rows)?);
        model.partial_fit(rows, control)?;
        Ok(model)
    }

    /// Passes of incremental collapsed variational Bayes.
    fn descend(&mut self, corpus: &Corpus, control: &mut Control<'_>) -> Result<()> {
        let options = self.header.options.clone();
        let width = self.statistics.width();
        let mut batches = Batches::new(&options);
        let mut memory = Memory::new(corpus.len(), width);
        let mut current = Statistics::new(corpus.vocabulary(), options.topics);
        let mut contribution = Contribution::default();
        for pass in 0..options.passes {
            let order =
                Permutation::new(options.seed, Stream::Shuffle, BlockIndex(pass as u64), corpus.len());
            let (order, alpha) = (order.indices(), self.padded_alpha());
            current.clear();
            let mut seen = 0;
            while seen < order.len() {
                let end = (seen + batches.size()).min(order.len());
                let (documents, left) = (&order[seen..end], |at: usize| 1.0 - at as f32 / order.len() as f32);
                let (share, eta) = (left(seen), self.header.eta);
                let topics = Topics::between(&current, &self.statistics, share, &alpha, options.topics, eta);
                let batch = Batch { corpus, documents, again: pass > 0, own: share };
                contribution.settle(&batch, &topics, &mut memory);
                contribution.add_to(&mut current, corpus, documents);
                seen = end;
                self.header.batches += 1;
                control.check(pass)?;
            }
            current.sum();
            std::mem::swap(&mut self.statistics, &mut current);
            self.header.passes = pass + 1;
            self.header.documents += order.len() as f64;
            if options.learn_priors && pass + 1 >= LEARN_FROM {
                self.learn_priors(&memory.expected);
            }
            if self.finished(corpus, control)? {
                break;
            }
        }
        Ok(())
    }

    /// Learns the priors that were not given.
    fn learn_priors(&mut self, expected: &[f32]) {
        let (header, statistics) = (&mut self.header, &self.statistics);
        if header.options.doc_topic_prior.is_none() {
            learn_alpha(&mut header.alpha, expected, statistics.width());
        }
        if header.options.topic_word_prior.is_none() {
            learn_eta(&mut header.eta, statistics, header.options.topics);
        }
    }

    /// Passes of particle mirror descent.
    fn sample(&mut self, corpus: &Corpus, control: &mut Control<'_>) -> Result<()> {
        corpus.check_whole()?;
        let options = self.header.options.clone();
        let size = options.batch_size.unwrap_or(PAPER_BATCH);
        for pass in 0..options.passes {
            let order =
                Permutation::new(options.seed, Stream::Shuffle, BlockIndex(pass as u64), corpus.len());
            let batches = even_batches(corpus.len(), size);
            let weight = batches.len() as f64;
            for batch in batches {
                self.sample_step(corpus, &order.indices()[batch], weight);
                control.check(pass)?;
            }
            self.header.passes = pass + 1;
            self.header.documents += corpus.len() as f64;
            self.show_heaviest();
            if self.finished(corpus, control)? {
                break;
            }
        }
        Ok(())
    }

    fn sample_step(&mut self, corpus: &Corpus, documents: &[u32], weight: f64) {
        self.header.batches += 1;
        let size = self.header.options.step_size(self.header.batches);
        if let Some(particles) = &mut self.particles {
            particles.step(corpus, documents, MirrorStep { size, weight });
        }
    }

    /// Makes the particle of the largest weight the one that transforms.
    fn show_heaviest(&mut self) {
        if let Some(particles) = &self.particles {
            let beta = &particles.beta[particles.heaviest()];
            let counts: Vec<f32> = beta.iter().map(|b| (b - self.header.eta).max(0.0) as f32).collect();
            self.statistics = Statistics::from_rows(&counts, self.header.options.topics);
        }
    }

    /// Reports a pass, and says whether training perplexity has settled.
    fn finished(&mut self, corpus: &Corpus, control: &mut Control<'_>) -> Result<bool> {
        let (done, most) = (self.header.passes, self.header.options.passes);
        let every = self.header.options.evaluate_every;
        let mut settled = false;
        if every.is_some_and(|every| every > 0 && done.is_multiple_of(every)) {
            let now = self.perplexity_of(corpus);
            let last = self.header.history.last().copied();
            let tolerance = self.header.options.perplexity_tolerance;
            settled = last.is_some_and(|last| (last - now).abs() < tolerance);
            self.header.history.push(now);
        }
        let loss = self.header.history.last().copied().unwrap_or(f64::NAN);
        control.report(Progress::new(Phase::Fit, done, most, loss))?;
        Ok(settled)
    }

    /// Learns from more documents: for each batch N ← (1−γ)N + γ(D/B)·counts with the next step size γ; D is
    /// `total_documents`, or as many as have been seen.
    pub fn partial_fit(&mut self, rows: Rows<'_>, control: &mut Control<'_>) -> Result<()> {
        let corpus = self.read(rows)?;
        let options = self.header.options.clone();
        let order: Vec<u32> = (0..corpus.len() as u32).collect();
        if self.particles.is_some() {
            corpus.check_whole()?;
            for documents in order.chunks(options.batch_size.unwrap_or(PAPER_BATCH)) {
                self.header.documents += documents.len() as f64;
                let total = options.total_documents.unwrap_or(self.header.documents);
                self.sample_step(&corpus, documents, total / documents.len() as f64);
                control.check(self.header.batches as usize)?;
            }
            self.show_heaviest();
            return Ok(());
        }
        let alpha = self.padded_alpha();
        let mut memory = Memory::new(0, alpha.len());
        let mut batch_sum = Statistics::new(corpus.vocabulary(), options.topics);
        let mut contribution = Contribution::default();
        for documents in order.chunks(options.batch_size.unwrap_or(STREAM_BATCH)) {
            let topics = Topics::new(&self.statistics, &alpha, options.topics, self.header.eta);
            let batch = Batch { corpus: &corpus, documents, again: false, own: 0.0 };
            contribution.settle(&batch, &topics, &mut memory);
            batch_sum.clear();
            contribution.add_to(&mut batch_sum, &corpus, documents);
            self.header.batches += 1;
            self.header.documents += documents.len() as f64;
            let total = options.total_documents.unwrap_or(self.header.documents);
            let step = options.step_size(self.header.batches);
            self.statistics.mix(1.0 - step, step * total / documents.len() as f64, &batch_sum);
            control.check(self.header.batches as usize)?;
        }
        Ok(())
    }

    /// Topic proportions of documents, K numbers for each, that sum to one.
    pub fn transform(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        let corpus = self.read(rows)?;
        let alpha = self.padded_alpha();
        let topics = self.topics(&alpha);
        Ok(topics.proportions(&topics.expected(&corpus, self.effort()), self.header.alpha.len()))
    }

    /// A lower bound of the log likelihood of documents, that of the topics included
    /// (what scikit-learn calls the score).
    pub fn bound(&self, rows: Rows<'_>) -> Result<f64> {
        Ok(self.bound_of(&self.read(rows)?))
    }

    /// exp(−bound / words).
    pub fn perplexity(&self, rows: Rows<'_>) -> Result<f64> {
        Ok(self.perplexity_of(&self.read(rows)?))
    }

    fn bound_of(&self, corpus: &Corpus) -> f64 {
        let alpha = self.padded_alpha();
        let expected = self.topics(&alpha).expected(corpus, self.effort());
        let variational = Variational::new(&self.statistics, &self.header.alpha, self.header.eta);
        variational.bound(corpus, &expected, alpha.len(), self.effort())
    }

    fn perplexity_of(&self, corpus: &Corpus) -> f64 {
        (-self.bound_of(corpus) / corpus.tokens()).exp()
    }

    /// Perplexity of the held-out words of documents whose proportions come from the observed words:
    /// exp(−Σ c log Σ_k θ_k φ_kw / Σ c).
    pub fn completion_perplexity(&self, observed: Rows<'_>, held_out: Rows<'_>) -> Result<f64> {
        same_rows("X_held_out", observed.len(), held_out.len())?;
        let rest = self.read(held_out)?;
        let proportions = self.transform(observed)?;
        let alpha = self.padded_alpha();
        let sum = completion(&rest, &proportions, &self.topics(&alpha), self.header.alpha.len());
        Ok((-sum / rest.tokens()).exp())
    }

    /// N_wk + η, W numbers for each topic: the Dirichlet parameters of the topics.
    pub fn components(&self) -> Vec<f64> {
        let (width, eta) = (self.statistics.width(), self.header.eta);
        let column = |k: usize| self.statistics.values.iter().skip(k).step_by(width);
        (0..self.header.alpha.len()).flat_map(|k| column(k).map(move |&n| f64::from(n) + eta)).collect()
    }

    /// What the fit chose and how it went.
    pub fn summary(&self) -> LdaSummary {
        LdaSummary {
            topics: self.header.alpha.len(),
            columns: self.header.vocabulary,
            mode: self.header.options.mode,
            doc_topic_prior: self.header.alpha.clone(),
            topic_word_prior: self.header.eta,
            passes: self.header.passes,
            batches: self.header.batches,
            history: self.header.history.clone(),
            log_weights: self.particles.as_ref().map(Particles::log_weights),
            seed: self.header.options.seed.0,
        }
    }

    /// The particles of paper mode.
    pub fn particles(&self) -> Option<&Particles> {
        self.particles.as_ref()
    }

    fn read(&self, rows: Rows<'_>) -> Result<Corpus> {
        same_columns(self.header.vocabulary, rows.columns())?;
        Corpus::new(rows)
    }

    fn topics<'a>(&'a self, alpha: &'a [f32]) -> Topics<'a> {
        Topics::new(&self.statistics, alpha, self.header.alpha.len(), self.header.eta)
    }

    /// α in single precision, with zeros up to whole vectors.
    fn padded_alpha(&self) -> Vec<f32> {
        let mut alpha: Vec<f32> = self.header.alpha.iter().map(|&a| a as f32).collect();
        alpha.resize(self.statistics.width(), 0.0);
        alpha
    }

    fn effort(&self) -> Effort {
        let options = &self.header.options;
        Effort { sweeps: options.max_sweeps, tolerance: options.document_tolerance as f32 }
    }
}

impl Stored for TopicModel {
    const KIND: &'static str = "topics";

    fn store(&self, container: &mut Container) -> Result<()> {
        let (words, topics) = (self.header.vocabulary, self.header.alpha.len());
        container.set_field("topics", &self.header)?;
        container.insert("statistics", vec![words, topics], self.statistics.to_rows(topics))?;
        if let Some(particles) = &self.particles {
            let count = particles.beta.len();
            container.insert("particles", vec![count, words, topics], particles.beta.concat())?;
            let weights = particles.unnormalised_log_weights().to_vec();
            container.insert("log_weights", vec![count], weights)?;
            container.set_field("steps", &particles.steps)?;
        }
        Ok(())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("topics")?;
        header.options.check()?;
        let (words, topics) = (header.vocabulary, header.options.topics);
        let good = |v: &f64| (*v as f32).is_finite() && *v > 0.0;
        if header.alpha.len() != topics || !header.alpha.iter().all(good) || !good(&header.eta) {
            return Err(Error::Format("priors of topics must be positive numbers, one for each".into()));
        }
        let rows = container.take_f32s("statistics", &[words, topics])?;
        if rows.is_empty() || rows.iter().any(|v| *v < 0.0) {
            return Err(Error::Format("counts of topics must not be negative".into()));
        }
        let statistics = Statistics::from_rows(&rows, topics);
        let particles = match header.options.mode {
            LdaMode::Adaptive => None,
            LdaMode::Paper => Some(read_particles(container, &header)?),
        };
        Ok(Self { statistics, header, particles })
    }
}

fn read_particles(container: &mut Container, header: &Header) -> Result<Particles> {
    let (count, words, topics) = (header.options.particles, header.vocabulary, header.options.topics);
    let beta = container.take_f64s("particles", &[count, words, topics])?;
    let log_weights = container.take_f64s("log_weights", &[count])?;
    if beta.iter().any(|b| *b <= 0.0) {
        return Err(Error::Format("particles of topics must be positive".into()));
    }
    let steps = container.field("steps")?;
    let beta = beta.chunks_exact(words * topics).map(<[f64]>::to_vec).collect();
    let fresh = Particles::new(0, words, header.alpha.clone(), header.eta, header.options.seed);
    Ok(fresh.restored(beta, log_weights, steps))
}
