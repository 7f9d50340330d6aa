//! A fitted density ratio.

use super::choose::{choose, Course, Field};
use super::divergence::Divergences;
use super::options::{DensityRatioLoss, DensityRatioOptions};
use super::samples::{Sample, Samples};
use crate::compute;
use crate::data::Rows;
use crate::driver::{run, Again, Control, Phase, Steps};
use crate::error::{Error, Result};
use crate::functions::kept_rows::Labelled;
use crate::functions::kernel_machine::metric_of_classes;
use crate::functions::kernel_machine::stream::{Course as Passes, Stream};
use crate::functions::stored::{insert_expansion, take_expansion};
use crate::functions::{ColumnScaling, HistoryEntry, Metric, MetricForm, Options, Training};
use crate::kernel::{FeatureForm, FeatureMap, KernelSpec, Projection};
use crate::loss::Unit;
use crate::model::{Container, Stored};
use crate::random::Seed;
use crate::space::{FeatureExpansion, Function};
use serde::{Deserialize, Serialize};

/// r = p/q from a sample of p and one of q.
///
/// f = log r (least squares: f = r) is a function of random features that minimises the held-out part of the objective
/// ([`DensityRatioLoss`]), learnt by block functional descent: numerator rows have the target +1, denominator rows −1, and each
/// sample half of the total weight. The number of blocks has the lowest loss on held-out rows; so has the bandwidth from
/// 2,000 rows on, below which it has the largest evidence. Then all rows are learnt from. Rows go through a learnt metric
/// ([`MetricSpec`](crate::functions::MetricSpec)) first where the samples are told apart better so; it is learnt from at most 256
/// rows of each, rows that are held out later among them.
///
/// A stream ([`DensityRatio::begin`], [`DensityRatio::partial_fit`]) sees both samples as one of rows with targets ±1 and learns
/// the same f like that of a kernel machine: settled on the first rows, then by a step for every batch.
#[derive(Clone, Debug)]
pub struct DensityRatio {
    f: FeatureExpansion,
    /// What rows go through first, where it does better.
    metric: Option<Metric>,
    header: Header,
    /// What a stream needs to go on, beside f.
    stream: Option<Stream>,
}

/// Everything about a ratio that is not a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: DensityRatioOptions,
    bandwidth: f64,
    standard: bool,
    projection: Projection,
    form: FeatureForm,
    block_size: usize,
    path: compute::Path,
    range: Range,
    divergences: Option<Divergences>,
    history: Vec<HistoryEntry>,
    /// Whether the file holds a metric.
    #[serde(default)]
    metric: bool,
    /// Whether the file holds what a stream needs to go on.
    #[serde(default)]
    streams: bool,
}

impl Header {
    fn new(options: &DensityRatioOptions, f: &FeatureExpansion, standard: bool, range: Range) -> Self {
        let map = f.map();
        Self {
            options: options.clone(),
            bandwidth: map.bandwidth,
            standard,
            projection: map.projection,
            form: map.form,
            block_size: map.block_size,
            path: f.device().path(),
            range,
            divergences: None,
            history: Vec::new(),
            metric: false,
            streams: false,
        }
    }
}

/// Rows per step of a stream, of which one says little, and the fewest of either sample in one.
const BATCH: usize = 2_048;
const LEAST: usize = 16;

/// What ratios can be told from zero and from infinity: from 1/n_p to n_q. Where r < 1/n_p or r > n_q on a set, the
/// sample of p or of q has less than one row there on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    fn of(samples: &Samples) -> Self {
        let [numerator, denominator] = samples.sizes();
        Self { least: 1.0 / numerator as f64, most: denominator as f64 }
    }

    /// Rows of both samples.
    fn rows(&self) -> f64 {
        1.0 / self.least + self.most
    }

    /// The range after as many further rows as `other` is of.
    fn after(&self, other: Self) -> Self {
        Self { least: 1.0 / (1.0 / self.least + 1.0 / other.least), most: self.most + other.most }
    }

    /// log r from f.
    fn log_ratio(&self, loss: DensityRatioLoss, u: f32) -> f32 {
        let u = f64::from(u);
        let log = match loss {
            DensityRatioLoss::Logistic | DensityRatioLoss::Kl => u.clamp(self.least.ln(), self.most.ln()),
            DensityRatioLoss::LeastSquares => u.clamp(self.least, self.most).ln(),
        };
        log as f32
    }
}

/// What a fit chose and how it went.
#[derive(Clone, Debug, Serialize)]
pub struct DensityRatioSummary {
    /// The objective.
    pub loss: DensityRatioLoss,
    /// Kernel family.
    pub kernel: KernelSpec,
    /// Bandwidth σ.
    pub bandwidth: f64,
    /// `standard` or `none`.
    pub scaling: &'static str,
    /// The form of the learnt metric, where there is one.
    pub metric: Option<MetricForm>,
    /// How much each column counts in it, as shares.
    pub importances: Option<Vec<f32>>,
    /// Blocks.
    pub blocks: usize,
    /// Features per block.
    pub block_size: usize,
    /// Input columns.
    pub columns: usize,
    /// Estimates from rows not learnt from before; `None` after the first rows of a stream.
    pub divergences: Option<Divergences>,
    /// Seed.
    pub seed: u64,
    /// The objective on training and held-out rows, block by block, while the number of blocks was chosen.
    pub history: Vec<HistoryEntry>,
}

impl DensityRatio {
    /// Learns from a sample of p and one of q.
    pub fn fit(
        options: &DensityRatioOptions,
        numerator: Sample<'_>,
        denominator: Sample<'_>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        options.check()?;
        let samples = Samples::new(numerator, denominator)?;
        options.kernel.check_domain(samples.rows()?)?;
        control.start(options.max_time);
        let metric = metric_between(options, &samples, control)?;
        let (samples, inner) = match &metric {
            Some(metric) => (
                samples.mapped(metric)?,
                &DensityRatioOptions { scaling: ColumnScaling::None, ..options.clone() },
            ),
            None => (samples, options),
        };
        let field = Field::new(inner, &samples);
        let course = choose(&field, control)?;
        let f = descend(&field, &samples, &course, control)?;
        let range = Range::of(&samples);
        let log_ratio = |&u: &f32| range.log_ratio(options.loss, u);
        let held: Vec<f32> = course.held.values.iter().map(log_ratio).collect();
        let divergences = Divergences::of(&held, &course.held.targets, &course.held.weights);
        let mut header = Header::new(options, &f, course.setting.standard, range);
        (header.divergences, header.history) = (Some(divergences), course.history);
        Ok(Self { f, metric, header, stream: None })
    }

    /// The first rows of a stream: settles on them what is left open, then learns from them, the samples taking turns.
    pub fn begin(
        options: &DensityRatioOptions,
        numerator: Sample<'_>,
        denominator: Sample<'_>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        options.check()?;
        let samples = Samples::new(numerator, denominator)?.interleaved()?;
        options.kernel.check_domain(samples.rows()?)?;
        control.start(options.max_time);
        let passes = Passes { passes: 1, shuffle: None };
        let loss = |_: &[Unit]| Ok(options.loss.build());
        let stream =
            Stream::begin(&streaming(options, &samples), &loss, labelled(&samples)?, passes, control)?;
        let f = stream.function();
        let header = Header::new(options, &f, stream.standard, Range::of(&samples));
        Ok(Self { f, metric: None, header, stream: Some(stream) })
    }

    /// Learns from further rows of both samples, after a fit or a stream: a step for every batch, each sample with half of its
    /// weight. Divergences are estimated at these rows before they are learnt from.
    pub fn partial_fit(
        &mut self,
        numerator: Sample<'_>,
        denominator: Sample<'_>,
        control: &mut Control<'_>,
    ) -> Result<()> {
        let options = self.header.options.clone();
        let samples = Samples::new(numerator, denominator)?.interleaved()?;
        control.start(options.max_time);
        let before = self.log_ratio(samples.rows()?)?;
        let samples = match &self.metric {
            Some(metric) => samples.mapped(metric)?,
            None => samples,
        };
        let machine = streaming(&options, &samples);
        let stream = self.stream.get_or_insert_with(|| {
            Stream::after(self.f.clone(), self.header.standard, self.header.range.rows(), &machine)
        });
        stream.learn(&machine, &|_| Ok(options.loss.build()), labelled(&samples)?, control)?;
        self.f = stream.function();
        let range = self.header.range.after(Range::of(&samples));
        let divergences = Some(Divergences::of(&before, &samples.targets, &samples.weights));
        let history = std::mem::take(&mut self.header.history);
        self.header =
            Header { divergences, history, ..Header::new(&options, &self.f, stream.standard, range) };
        Ok(())
    }

    /// log p/q at `rows`, from −log n_p to log n_q: ratios beyond cannot be told from none and from infinity.
    pub fn log_ratio(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        rows.check_finite("X")?;
        self.f.map().kernel.check_domain(rows)?;
        let mut values = vec![0.0; rows.len()];
        match &self.metric {
            Some(metric) => metric.evaluate(rows, 1, &mut values, |rows, out| self.f.evaluate(rows, out))?,
            None => self.f.evaluate(rows, &mut values)?,
        }
        let (loss, range) = (self.header.options.loss, self.header.range);
        values.iter_mut().for_each(|u| *u = range.log_ratio(loss, *u));
        Ok(values)
    }

    /// p/q at `rows`, positive.
    pub fn ratio(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        let mut values = self.log_ratio(rows)?;
        values.iter_mut().for_each(|f| *f = f.exp());
        Ok(values)
    }

    /// Divergences of p from q, estimated on two new samples.
    pub fn divergences(&self, numerator: Rows<'_>, denominator: Rows<'_>) -> Result<Divergences> {
        let mut values = self.log_ratio(numerator)?;
        let mut targets = vec![1.0; values.len()];
        values.extend(self.log_ratio(denominator)?);
        targets.resize(values.len(), -1.0);
        Ok(Divergences::of(&values, &targets, &vec![1.0; targets.len()]))
    }

    /// Divergences of p from q, estimated in the fit at rows that were held out, or in a stream at the last rows before they were
    /// learnt from; `None` after the first rows of a stream.
    pub fn held_out_divergences(&self) -> Option<Divergences> {
        self.header.divergences
    }

    /// The learnt metric of the columns, where there is one.
    pub fn metric(&self) -> Option<&Metric> {
        self.metric.as_ref()
    }

    /// What the fit chose and how it went.
    pub fn summary(&self) -> DensityRatioSummary {
        let map = self.f.map();
        DensityRatioSummary {
            loss: self.header.options.loss,
            kernel: map.kernel.clone(),
            bandwidth: map.bandwidth,
            scaling: if self.header.standard { "standard" } else { "none" },
            metric: self.metric.as_ref().map(Metric::form),
            importances: self.metric.as_ref().map(|metric| metric.importances().to_vec()),
            blocks: self.f.len(),
            block_size: map.block_size,
            columns: map.columns(),
            divergences: self.header.divergences,
            seed: map.seed.0,
            history: self.header.history.clone(),
        }
    }

    /// The seed of the fit.
    pub fn seed(&self) -> Seed {
        self.header.options.seed
    }
}

impl Stored for DensityRatio {
    const KIND: &'static str = "density_ratio";

    fn store(&self, container: &mut Container) -> Result<()> {
        let mut header = self.header.clone();
        (header.options.max_time, header.streams) = (None, self.stream.is_some());
        header.metric = self.metric.is_some();
        container.set_field("density_ratio", &header)?;
        insert_expansion(container, &self.f)?;
        self.metric.as_ref().map_or(Ok(()), |metric| metric.store(container))?;
        self.stream.as_ref().map_or(Ok(()), |stream| stream.store(container))
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("density_ratio")?;
        header.options.check()?;
        let Range { least, most } = header.range;
        if !(0.0 < least && least <= 1.0 && 1.0 <= most && most.is_finite()) {
            return Err(Error::Format(format!("ratios range from {least} to {most}")));
        }
        let f = take_expansion(container, 1, |scaling| FeatureMap {
            kernel: header.options.kernel.clone(),
            bandwidth: header.bandwidth,
            projection: header.projection,
            form: header.form,
            block_size: header.block_size,
            seed: header.options.seed,
            scaling,
        })?;
        let stream = header.streams.then(|| Stream::restore(container, &f)).transpose()?;
        let metric = header.metric.then(|| Metric::restore(container, f.map().columns())).transpose()?;
        Ok(Self { f, metric, header, stream })
    }
}

/// Rows of each sample from which a metric is learnt.
const METRIC_ROWS: usize = 256;

/// The metric in which the samples are told apart; `None` where none is better than nothing.
fn metric_between(
    options: &DensityRatioOptions,
    samples: &Samples,
    control: &mut Control<'_>,
) -> Result<Option<Metric>> {
    let part = samples.part(METRIC_ROWS, options.seed)?;
    let samples = part.as_ref().unwrap_or(samples);
    let classes: Vec<f32> = samples.targets.iter().map(|&y| if y > 0.0 { 1.0 } else { 0.0 }).collect();
    let data = Training { rows: samples.rows()?, targets: &classes, weights: Some(&samples.weights) };
    metric_of_classes(&options.machine(), &data, control)
}

/// Settings of the stream, with batches that have rows of both samples.
fn streaming(options: &DensityRatioOptions, samples: &Samples) -> Options {
    let [p, q] = samples.sizes();
    Options { batch_size: BATCH.max(LEAST * samples.len().div_ceil(p.min(q))), ..options.machine() }
}

fn labelled(samples: &Samples) -> Result<Labelled<'_>> {
    Ok(Labelled { rows: samples.rows()?, targets: &samples.targets, weights: &samples.weights })
}

/// As many blocks as the course decided for, on all rows.
fn descend(
    field: &Field<'_>,
    samples: &Samples,
    course: &Course,
    control: &mut Control<'_>,
) -> Result<FeatureExpansion> {
    let (solver, mut state) = field.start(&course.setting)?;
    let problem = field.problem(&samples.weights)?;
    run(&solver, &mut state, &mut Again(problem), &mut Steps::new(Phase::Fit, course.blocks), control)?;
    Ok(state.f)
}
