//! D4: topics of documents (spec 7; thesis §4.6): perplexity against documents visited.
//!
//! α = 0.1, η = 0.01, batches of 100 documents, 100 topics. The text learns 150,000 articles of Wikipedia over 8,000 words;
//! here 20 Newsgroups (11,214 documents, 3,072 words) stand in. Particle mirror descent as published, with one particle as in the
//! text, the average Σ_t γ_t β_t / Σ_t γ_t of its parameters (the remark after theorem 15), the same with four particles, and the default of this
//! library beside stochastic variational inference (Hoffman, Blei and Bach, 2010), which lives in this file:
//!
//! ```text
//! γ_d = α + Σ_w c_dw φ_dw,   φ_dwk ∝ exp(ψ(γ_dk) + ψ(λ_kw) − ψ(Σ_w λ_kw)),   λ ← (1−ρ)λ + ρ(η + (D/B) Σ_d c_dw φ_dwk)
//! ```

use super::common::{Console, DataFolder, Report};
use super::Arguments;
use crate::failure::{Failure, Outcome};
use crate::plot::LineChart;
use riesz::data::reader::read_member;
use riesz::data::{Indices, Rows, Sparse};
use riesz::distributions::models::lda::{LdaMode, LdaOptions, TopicModel};
use riesz::distributions::special::digamma;
use riesz::driver::quietly;
use riesz::random::{gamma, Address, BlockIndex, Permutation, Seed, Stream};
use riesz::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

const ALPHA: f64 = 0.1;
const ETA: f64 = 0.01;
/// Test documents that are completed.
const TESTED: usize = 1_000;
/// Sweeps over a document in variational inference.
const SWEEPS: usize = 50;

/// Documents by their words.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    starts: Vec<i64>,
    words: Vec<i64>,
    counts: Vec<f32>,
    vocabulary: usize,
}

impl Documents {
    /// Reads `<part>_indptr`, `<part>_indices` and `<part>_counts` of an archive.
    fn read(path: &Path, part: &str, vocabulary: usize) -> Outcome<Self> {
        let member = |field: &str| -> Outcome<Vec<f32>> {
            Ok(read_member(path, &format!("{part}_{field}"))?.into_dense()?)
        };
        let whole = |values: Vec<f32>| values.into_iter().map(|v| v as i64).collect();
        let (starts, words) = (whole(member("indptr")?), whole(member("indices")?));
        Ok(Self { starts, words, counts: member("counts")?, vocabulary })
    }

    /// Documents from their words, each as (word, count).
    pub fn new(documents: &[Vec<(usize, f32)>], vocabulary: usize) -> Self {
        let mut all = Self { starts: vec![0], vocabulary, ..Self::default() };
        for document in documents {
            all.words.extend(document.iter().map(|pair| pair.0 as i64));
            all.counts.extend(document.iter().map(|pair| pair.1));
            all.starts.push(all.words.len() as i64);
        }
        all
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn document(&self, d: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        (self.starts[d] as usize..self.starts[d + 1] as usize)
            .map(|i| (self.words[i] as usize, self.counts[i]))
    }

    /// The documents at `indices`.
    fn gather(&self, indices: &[u32]) -> Self {
        let documents: Vec<_> = indices.iter().map(|&d| self.document(d as usize).collect()).collect();
        Self::new(&documents, self.vocabulary)
    }

    fn rows(&self) -> Outcome<Rows<'_>> {
        let (starts, words) = (Indices::Long(&self.starts), Indices::Long(&self.words));
        Ok(Sparse::new(starts, words, &self.counts, self.vocabulary)?.into())
    }
}

/// What is learnt from, and the halves of what is tested.
#[derive(Debug)]
pub struct Corpus {
    /// Training documents.
    pub train: Documents,
    /// Halves from which proportions are estimated.
    pub observed: Documents,
    /// The other halves.
    pub held_out: Documents,
}

/// The settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// K.
    pub topics: usize,
    /// B.
    pub batch: usize,
    /// Passes over the documents.
    pub passes: usize,
    /// Particles of the run of paper mode with several.
    pub particles: usize,
    /// Seed.
    pub seed: Seed,
}

/// A perplexity on the way.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The method's name.
    pub method: &'static str,
    /// Documents visited, each visit counted.
    pub documents: usize,
    /// Seconds of learning.
    pub seconds: f64,
    /// Document-completion perplexity.
    pub perplexity: f64,
}

const PUBLISHED: &str = "mirror descent as published";
const AVERAGED: &str = "mirror descent averaged";
const SEVERAL: &str = "mirror descent of several particles";
const STREAM: &str = "expected topics in a stream";
const PASSES: &str = "default";
const VARIATIONAL: &str = "variational inference";
/// The methods compared.
pub const METHODS: [&str; 6] = [PUBLISHED, AVERAGED, SEVERAL, STREAM, PASSES, VARIATIONAL];

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let path = DataFolder::new(arguments.data.clone()).find(
        &["text/20ng/20ng_bow_etm.npz", "20ng/20ng_bow_etm.npz", "20ng_bow_etm.npz"],
        "20 Newsgroups as bags of words: the .mat files of GitHub MIND-Lab/OCTIS, octis/models/ETM_model/data/20ng, as CSR arrays <split>_{indptr,indices,counts} in one archive",
    )?;
    let train = Documents::read(&path, "tr", 0)?;
    let vocabulary = 1 + train.words.iter().copied().max().unwrap_or(0) as usize;
    let part = |name: &str| Documents::read(&path, name, vocabulary);
    let (observed, held_out) = (part("ts_h1")?, part("ts_h2")?);
    let first: Vec<u32> = (0..observed.len().min(TESTED) as u32).collect();
    let mut train = Documents { vocabulary, ..train };
    let rows = arguments.rows.unwrap_or(if arguments.quick { 2_000 } else { train.len() });
    train = train.gather(&(0..train.len().min(rows) as u32).collect::<Vec<u32>>());
    let corpus = Corpus { train, observed: observed.gather(&first), held_out: held_out.gather(&first) };
    let settings = Settings {
        topics: if arguments.quick { 20 } else { 100 },
        batch: arguments.batch.unwrap_or(100),
        passes: if arguments.quick { 2 } else { 5 },
        particles: 4,
        seed: Seed(arguments.seed),
    };
    compare(&corpus, settings, console)
}

/// Runs all methods on a corpus.
pub fn compare(corpus: &Corpus, settings: Settings, console: &mut Console<'_>) -> Outcome<Report> {
    if corpus.observed.len() != corpus.held_out.len() {
        return Err(Failure::bad_input("the halves of the test documents differ in number"));
    }
    let mut course = Course { corpus, settings, points: vec![], ended: None };
    (console.say)(&format!("{:>28} {:>10} {:>12} {:>8}", "method", "documents", "perplexity", "seconds"));
    for method in METHODS {
        if course.ended.is_none() {
            course.learn(method, console)?;
        }
    }
    Ok(course.report())
}

struct Course<'a> {
    corpus: &'a Corpus,
    settings: Settings,
    points: Vec<Point>,
    ended: Option<Error>,
}

impl Course<'_> {
    fn options(&self, mode: LdaMode) -> LdaOptions {
        LdaOptions {
            mode,
            doc_topic_prior: Some(vec![ALPHA]),
            topic_word_prior: Some(ETA),
            batch_size: Some(self.settings.batch),
            particles: self.settings.particles,
            total_documents: Some(self.corpus.train.len() as f64),
            ..LdaOptions::new(self.settings.topics, self.settings.seed)
        }
    }

    /// Runs one of the methods.
    fn learn(&mut self, method: &'static str, console: &mut Console<'_>) -> Outcome<()> {
        match method {
            PUBLISHED => {
                let options = LdaOptions { particles: 1, ..self.options(LdaMode::Paper) };
                self.batches(method, &options, console)
            }
            // It comes with the run before.
            AVERAGED => Ok(()),
            SEVERAL => self.batches(method, &self.options(LdaMode::Paper), console),
            STREAM => self.batches(method, &self.options(LdaMode::Adaptive), console),
            PASSES => self.passes(console),
            _ => self.variational(console),
        }
    }

    /// Batch after batch through `partial_fit`; the averaged parameters of a single particle on the way.
    fn batches(
        &mut self,
        method: &'static str,
        options: &LdaOptions,
        console: &mut Console<'_>,
    ) -> Outcome<()> {
        let mut average = (method == PUBLISHED).then(|| Average::new(self.corpus, self.settings));
        let mut model: Option<TopicModel> = None;
        let mut seconds = 0.0;
        for (index, indices) in self.order().chunks(self.settings.batch).enumerate() {
            let begun = Instant::now();
            let batch = self.corpus.train.gather(indices);
            match &mut model {
                None => {
                    model = Some(quietly(|c| {
                        TopicModel::begin(options, batch.rows()?, c).map_err(Failure::from)
                    })?)
                }
                Some(model) => quietly(|c| model.partial_fit(batch.rows()?, c).map_err(Failure::from))?,
            }
            seconds += begun.elapsed().as_secs_f64();
            if let (Some(average), Some(model)) = (&mut average, &model) {
                let t = options.learning_offset + (index + 1) as f64;
                average.add(&model.components(), t.powf(-options.learning_decay));
                if self.due(index + 1) {
                    let perplexity = average.completion(self.corpus);
                    self.add(AVERAGED, index + 1, seconds, perplexity, console);
                }
            }
            if let Some(model) = model.as_ref().filter(|_| self.due(index + 1)) {
                let (observed, held_out) = (self.corpus.observed.rows()?, self.corpus.held_out.rows()?);
                let perplexity = model.completion_perplexity(observed, held_out)?;
                self.add(method, index + 1, seconds, perplexity, console);
            }
            if self.asked_to_stop(console) {
                break;
            }
        }
        Ok(())
    }

    /// The default of the library, with the priors of the text: whole passes.
    fn passes(&mut self, console: &mut Console<'_>) -> Outcome<()> {
        for passes in 1..=self.settings.passes {
            let options = LdaOptions { passes, batch_size: None, ..self.options(LdaMode::Adaptive) };
            let begun = Instant::now();
            let rows = self.corpus.train.rows()?;
            let model = quietly(|control| TopicModel::fit(&options, rows, control))?;
            let seconds = begun.elapsed().as_secs_f64();
            let (observed, held_out) = (self.corpus.observed.rows()?, self.corpus.held_out.rows()?);
            let perplexity = model.completion_perplexity(observed, held_out)?;
            let point = Point { method: PASSES, documents: passes * rows.len(), seconds, perplexity };
            self.show(point, console);
            if self.asked_to_stop(console) {
                break;
            }
        }
        Ok(())
    }

    fn variational(&mut self, console: &mut Console<'_>) -> Outcome<()> {
        let mut svi = Svi::new(&self.corpus.train, self.settings);
        let (options, mut seconds) = (self.options(LdaMode::Adaptive), 0.0);
        for (index, indices) in self.order().chunks(self.settings.batch).enumerate() {
            let begun = Instant::now();
            let t = options.learning_offset + (index + 1) as f64;
            svi.step(&self.corpus.train, indices, t.powf(-options.learning_decay));
            seconds += begun.elapsed().as_secs_f64();
            if self.due(index + 1) {
                let perplexity = svi.completion(&self.corpus.observed, &self.corpus.held_out);
                self.add(VARIATIONAL, index + 1, seconds, perplexity, console);
            }
            if self.asked_to_stop(console) {
                break;
            }
        }
        Ok(())
    }

    /// All documents of all passes, each pass shuffled.
    fn order(&self) -> Vec<u32> {
        let (n, seed) = (self.corpus.train.len(), self.settings.seed);
        let pass =
            |p: usize| Permutation::new(seed, Stream::Shuffle, BlockIndex(p as u64), n).indices().to_vec();
        (0..self.settings.passes).flat_map(pass).collect()
    }

    /// Whether perplexity is computed after so many batches.
    fn due(&self, batches: usize) -> bool {
        let all = (self.settings.passes * self.corpus.train.len()).div_ceil(self.settings.batch);
        batches.is_power_of_two() && batches >= 4 || batches.is_multiple_of(100) || batches == all
    }

    fn add(
        &mut self,
        method: &'static str,
        batches: usize,
        seconds: f64,
        perplexity: f64,
        console: &mut Console<'_>,
    ) {
        let all = self.settings.passes * self.corpus.train.len();
        let documents = (batches * self.settings.batch).min(all);
        self.show(Point { method, documents, seconds, perplexity }, console);
    }

    fn show(&mut self, point: Point, console: &mut Console<'_>) {
        let Point { method, documents, seconds, perplexity } = point;
        (console.say)(&format!("{method:>28} {documents:>10} {perplexity:>12.1} {seconds:>8.2}"));
        self.points.push(point);
    }

    fn asked_to_stop(&mut self, console: &mut Console<'_>) -> bool {
        if (console.cancelled)() {
            self.ended = Some(Error::Cancelled { blocks: self.points.len() });
        }
        self.ended.is_some()
    }

    fn report(self) -> Report {
        let mut table = "method,documents,seconds,perplexity\n".to_owned();
        for Point { method, documents, seconds, perplexity } in &self.points {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{method},{documents},{seconds:.3},{perplexity:.2}");
        }
        let Settings { topics, batch, .. } = self.settings;
        let mut chart = LineChart::new(format!("{topics} topics, batches of {batch} documents"))
            .x_label("documents visited")
            .y_label("perplexity of completed documents")
            .log_x()
            .log_y();
        let mut summary = String::new();
        for method in METHODS {
            let points = self.points.iter().filter(|point| point.method == method);
            let curve: Vec<_> = points.map(|point| (point.documents as f64, point.perplexity)).collect();
            if let Some((documents, last)) = curve.last() {
                chart = chart.line(format!("{method}: {last:.0}"), &curve);
                let _ = writeln!(summary, "{method}: {last:.1} after {documents} documents");
            }
        }
        Report { table, picture: chart.to_svg(), summary, ended: self.ended }
    }
}

/// Σ_t γ_t β_t / Σ_t γ_t.
struct Average {
    sum: Vec<f64>,
    steps: f64,
    topics: usize,
}

impl Average {
    fn new(corpus: &Corpus, settings: Settings) -> Self {
        Self {
            sum: vec![0.0; corpus.train.vocabulary * settings.topics],
            steps: 0.0,
            topics: settings.topics,
        }
    }

    /// Adds W numbers for every topic.
    fn add(&mut self, beta: &[f64], step: f64) {
        self.sum.iter_mut().zip(beta).for_each(|(sum, b)| *sum += step * b);
        self.steps += step;
    }

    fn completion(&self, corpus: &Corpus) -> f64 {
        let words = corpus.train.vocabulary;
        let by_word = |i: usize| self.sum[i % self.topics * words + i / self.topics] / self.steps;
        let lambda = (0..self.sum.len()).map(by_word).collect();
        let mut averaged = Svi { lambda, weights: vec![], topics: self.topics, documents: 0.0 };
        averaged.refresh();
        averaged.completion(&corpus.observed, &corpus.held_out)
    }
}

/// Stochastic variational inference.
struct Svi {
    /// λ, K numbers for every word.
    lambda: Vec<f64>,
    /// exp(ψ(λ_kw) − ψ(Σ_w λ_kw)).
    weights: Vec<f64>,
    topics: usize,
    documents: f64,
}

impl Svi {
    /// λ ~ Gamma(100, 1/100).
    fn new(train: &Documents, settings: Settings) -> Self {
        let topics = settings.topics;
        let draw = |i: usize| {
            let at = Address::new(settings.seed, Stream::Synthetic, BlockIndex(0), i as u32);
            gamma(&mut at.sequence(), 100.0) / 100.0
        };
        let lambda = (0..train.vocabulary * topics).map(draw).collect();
        let mut svi = Self { lambda, weights: vec![], topics, documents: train.len() as f64 };
        svi.refresh();
        svi
    }

    fn totals(&self) -> Vec<f64> {
        let mut totals = vec![0.0; self.topics];
        for row in self.lambda.chunks_exact(self.topics) {
            totals.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
        }
        totals
    }

    fn refresh(&mut self) {
        let psi: Vec<f64> = self.totals().into_iter().map(digamma).collect();
        let each = |(i, &v): (usize, &f64)| (digamma(v) - psi[i % psi.len()]).exp();
        self.weights = self.lambda.iter().enumerate().map(each).collect();
    }

    /// γ of a document, and exp E log θ.
    fn infer(&self, document: &[(usize, f32)]) -> (Vec<f64>, Vec<f64>) {
        let mut gamma = vec![1.0; self.topics];
        let weigh = |gamma: &[f64]| gamma.iter().map(|&g| digamma(g).exp()).collect::<Vec<f64>>();
        let mut theta = weigh(&gamma);
        for _ in 0..SWEEPS {
            let mut sums = vec![0.0; self.topics];
            for &(word, count) in document {
                let row = &self.weights[word * self.topics..(word + 1) * self.topics];
                let sum: f64 = theta.iter().zip(row).map(|(a, b)| a * b).sum();
                let share = f64::from(count) / (sum + 1e-100);
                sums.iter_mut().zip(row).for_each(|(s, l)| *s += share * l);
            }
            let mut change = 0.0;
            for (gamma, (theta, sum)) in gamma.iter_mut().zip(theta.iter().zip(&sums)) {
                let new = ALPHA + theta * sum;
                change += (new - *gamma).abs();
                *gamma = new;
            }
            theta = weigh(&gamma);
            if change < 1e-3 * self.topics as f64 {
                break;
            }
        }
        (gamma, theta)
    }

    fn step(&mut self, train: &Documents, indices: &[u32], rho: f64) {
        let scale = rho * self.documents / indices.len() as f64;
        let mut new: Vec<f64> = self.lambda.iter().map(|v| (1.0 - rho) * v + rho * ETA).collect();
        for &d in indices {
            let document: Vec<_> = train.document(d as usize).collect();
            let (_, theta) = self.infer(&document);
            for (word, count) in document {
                let span = word * self.topics..(word + 1) * self.topics;
                let row = &self.weights[span.clone()];
                let sum: f64 = theta.iter().zip(row).map(|(a, b)| a * b).sum();
                let share = scale * f64::from(count) / (sum + 1e-100);
                for ((v, t), l) in new[span].iter_mut().zip(&theta).zip(row) {
                    *v += share * t * l;
                }
            }
        }
        self.lambda = new;
        self.refresh();
    }

    fn completion(&self, observed: &Documents, held_out: &Documents) -> f64 {
        let totals = self.totals();
        let (mut log, mut words) = (0.0, 0.0);
        for d in 0..observed.len() {
            let (gamma, _) = self.infer(&observed.document(d).collect::<Vec<_>>());
            let sum: f64 = gamma.iter().sum();
            for (word, count) in held_out.document(d) {
                let row = &self.lambda[word * self.topics..(word + 1) * self.topics];
                let p: f64 = (0..self.topics).map(|k| gamma[k] / sum * row[k] / totals[k]).sum();
                log += f64::from(count) * p.ln();
                words += f64::from(count);
            }
        }
        (-log / words).exp()
    }
}
