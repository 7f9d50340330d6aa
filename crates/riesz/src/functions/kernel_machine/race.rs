//! Choosing scaling and bandwidth by what they lead to.
//!
//! The best bandwidth depends on the budget: a narrow kernel starts badly and ends best when there are many rows and
//! many features (spec 2.4). So candidates are compared not by the loss they reach in a short trial but by where their
//! learning curve points: held-out loss falls like a power of the number of features, and two points of the curve give
//! the exponent.

use super::evidence::log_evidence;
use super::findings::Findings;
use super::machine::HistoryEntry;
use super::options::{Bandwidth, ColumnScaling, Options};
use crate::data::Rows;
use crate::driver::{run, Again, Control, Monitor, Phase, Progress};
use crate::error::Result;
use crate::functions::geometry::{median_distance, Moments};
use crate::kernel::{KernelSpec, Scaling};
use crate::loss::Loss;
use crate::random::{BlockIndex, Permutation, Stream};
use crate::solver::{weighted_loss, BlockDescent, BlockDescentConfig, BlockInfo, BlockState, Problem};
use crate::space::FeatureExpansion;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Looks at the held-out rows after every block of a trial.
struct Watch<'a> {
    contest: &'a Contest<'a>,
    blocks: usize,
    history: Vec<HistoryEntry>,
}

impl Monitor<BlockDescent> for Watch<'_> {
    fn finished(&mut self, _: &BlockState) -> bool {
        self.history.len() >= self.blocks
    }

    fn observe(&mut self, state: &BlockState, info: BlockInfo) -> Result<Progress> {
        let Contest { rows, loss, targets, held, error, .. } = *self.contest;
        rows.fault()?;
        let held_out_loss = Some(weighted_loss(loss, targets, held, &state.predictions));
        let held_out_error = error(&state.predictions);
        let block = self.history.len() + 1;
        self.history.push(HistoryEntry { block, loss: info.loss, held_out_loss, held_out_error });
        Ok(Progress { held_out_loss, ..Progress::new(Phase::Race, 0, 0, info.loss) })
    }
}

/// What the race decides.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub scaling: Scaling,
    pub standard: bool,
    pub bandwidth: f64,
    pub damping: f64,
}

/// The part of a [`Setting`] that is not recomputed from the data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub standard: bool,
    pub bandwidth: f64,
    pub damping: f64,
}

impl Setting {
    pub(crate) fn choice(&self) -> Choice {
        Choice { standard: self.standard, bandwidth: self.bandwidth, damping: self.damping }
    }

    pub(crate) fn from_choice(choice: Choice, moments: &Moments, kernel: &KernelSpec) -> Self {
        let Choice { standard, bandwidth, damping } = choice;
        Self { scaling: scaling(moments, standard, kernel), standard, bandwidth, damping }
    }
}

pub(crate) fn scaling(moments: &Moments, standard: bool, kernel: &KernelSpec) -> Scaling {
    if standard {
        moments.standard()
    } else {
        moments.unscaled(kernel)
    }
}

/// The data of a race.
pub(crate) struct Contest<'a> {
    pub rows: Rows<'a>,
    pub targets: &'a [f32],
    /// Training weights: zero on held-out rows.
    pub weights: &'a [f32],
    /// Weights of the held-out rows: zero on training rows.
    pub held: &'a [f32],
    pub loss: &'a dyn Loss,
    pub offset: &'a [f32],
    /// Share of the held-out rows that predictions get wrong, where that means something.
    pub error: &'a dyn Fn(&[f32]) -> Option<f64>,
}

/// How the fit will go on once the race is decided.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    /// All but the damping, which a [`Setting`] brings.
    pub config: BlockDescentConfig,
    pub block_size: usize,
    pub max_blocks: usize,
}

/// A short fit of one setting.
pub(crate) struct Trial {
    pub state: BlockState,
    pub history: Vec<HistoryEntry>,
}

/// The best so far.
struct Leader {
    setting: Setting,
    outlook: f64,
    /// How long the last trial has taken.
    took: Duration,
    /// `None` where an earlier run has found the outlook.
    trial: Option<Trial>,
}

/// Candidates per octave on the coarse grid run from 1.6 times the median distance downwards.
const COARSE: [f64; 5] = [1.6, 0.8, 0.4, 0.2, 0.1];
/// Rows of the first stage.
const FIRST_ROWS: usize = 8_192;
/// Features of a trial in the first stage; rows entering H per feature there.
const FIRST_FEATURES: usize = 2_048;
const FIRST_GRAM_ROWS: usize = 8;
/// Blocks of a trial in the second stage.
const SECOND_BLOCKS: usize = 4;
/// The second stage narrows the bandwidth by √2 at most this often.
const MOST_NARROWINGS: i32 = 8;
/// One part of the time budget in so many is for choosing.
pub(crate) const CHOICE: u32 = 3;
/// Share of the measured exponent that is trusted beyond the trial.
const TRUST: f64 = 0.8;

/// The scalings to be compared: an explicit bandwidth refers to the columns as they are, and so does a kernel without one.
pub(crate) fn scalings(options: &Options) -> Vec<bool> {
    if !options.kernel().has_bandwidth() {
        return vec![false];
    }
    match (options.scaling, options.bandwidth) {
        (ColumnScaling::None, _) => vec![false],
        (ColumnScaling::Standard, _) => vec![true],
        (ColumnScaling::Auto, Bandwidth::Auto) => vec![false, true],
        (ColumnScaling::Auto, _) => vec![false],
    }
}

/// A setting that needs no race, where the user has decided.
pub(crate) fn decided(
    options: &Options,
    moments: &Moments,
    rows: Rows<'_>,
    weights: &[f32],
    damping: f64,
) -> Option<Setting> {
    let standard = scalings(options)[0];
    let scaling = scaling(moments, standard, options.kernel());
    let bandwidth = match options.bandwidth {
        _ if !options.kernel().has_bandwidth() => 1.0,
        Bandwidth::Auto => return None,
        Bandwidth::Value(value) => value,
        Bandwidth::Median => median_distance(rows, weights, &scaling, options.kernel(), options.seed),
        Bandwidth::Scale if standard => (rows.columns() as f64 / 2.0).sqrt(),
        Bandwidth::Scale => moments.scale_bandwidth(),
    };
    Some(Setting { scaling, standard, bandwidth, damping })
}

/// Races scalings and bandwidths: coarsely on a subsample, then on all rows around the winner. A trial of the second
/// stage is the beginning of a fit; the winner's is returned to be continued.
pub(crate) fn race(
    options: &Options,
    contest: &Contest<'_>,
    moments: &Moments,
    damping: f64,
    schedule: Schedule,
    (findings, control): (&mut Findings<'_>, &mut Control<'_>),
) -> Result<(Setting, Option<Trial>)> {
    let sub = Subsample::draw(options, contest);
    let small = sub.contest(contest)?;
    // Structured features come in groups of the padded dimension.
    let block_size = contest.rows.columns().next_power_of_two().clamp(512, 1_024);
    let config = BlockDescentConfig { gram_rows_per_feature: FIRST_GRAM_ROWS, ..schedule.config };
    let first =
        Stage { options, contest: &small, config, block_size, blocks: FIRST_FEATURES / block_size, schedule };
    let mut best = None;
    for standard in scalings(options) {
        let scaling = scaling(moments, standard, options.kernel());
        let median = median_distance(small.rows, small.weights, &scaling, options.kernel(), options.seed);
        for factor in COARSE {
            let bandwidth = factor * median;
            let setting = Setting { scaling: scaling.clone(), standard, bandwidth, damping };
            first.consider(&mut best, setting, findings, control)?;
        }
    }
    let Some(Leader { setting, .. }) = &best else { return Ok((fallback(moments, damping), None)) };
    let setting = setting.clone();
    for factor in [std::f64::consts::SQRT_2, std::f64::consts::FRAC_1_SQRT_2] {
        let next = Setting { bandwidth: setting.bandwidth * factor, ..setting.clone() };
        first.consider(&mut best, next, findings, control)?;
    }
    let start = best.map_or(setting, |leader| leader.setting);
    let (config, block_size) = (schedule.config, schedule.block_size);
    let second = Stage { options, contest, config, block_size, blocks: SECOND_BLOCKS, schedule };
    second.refine(start, findings, control)
}

/// One stage of the race: what its trials have in common.
struct Stage<'a> {
    options: &'a Options,
    contest: &'a Contest<'a>,
    config: BlockDescentConfig,
    block_size: usize,
    blocks: usize,
    schedule: Schedule,
}

impl Stage<'_> {
    /// Narrows the bandwidth while that points lower: more rows and features than the first stage saw can only pull
    /// it down.
    fn refine(
        &self,
        start: Setting,
        findings: &mut Findings<'_>,
        control: &mut Control<'_>,
    ) -> Result<(Setting, Option<Trial>)> {
        let mut best = None;
        let mut lowest = f64::INFINITY;
        for octave_halves in 0..=MOST_NARROWINGS {
            let bandwidth = start.bandwidth * (-0.5 * f64::from(octave_halves)).exp2();
            let setting = Setting { bandwidth, ..start.clone() };
            let outlook = self.consider(&mut best, setting, findings, control)?;
            if outlook >= lowest {
                break;
            }
            lowest = outlook;
        }
        let Some(Leader { setting, outlook, trial, .. }) = best else { return Ok((start, None)) };
        let trial = trial.map_or_else(|| self.repeat(&setting, outlook, control), Ok)?;
        Ok((setting, (trial.history.len() <= self.schedule.max_blocks).then_some(trial)))
    }

    /// A trial again whose outlook an earlier run has found.
    fn repeat(&self, setting: &Setting, known: f64, control: &mut Control<'_>) -> Result<Trial> {
        let trial = self.trial(setting, control)?;
        if !control.out_of_time() {
            Findings::compare(known, self.outlook(&trial))?;
        }
        Ok(trial)
    }

    /// Where the curve of a trial points: finite, whatever the curve.
    fn outlook(&self, trial: &Trial) -> f64 {
        let curve: Vec<f64> = trial.history.iter().filter_map(|entry| entry.held_out_loss).collect();
        let budget = self.schedule.max_blocks * self.schedule.block_size;
        outlook(&curve, self.block_size, budget).min(f64::MAX)
    }

    /// Runs a trial and returns its outlook; it replaces the best so far if it points lower.
    fn consider(
        &self,
        best: &mut Option<Leader>,
        setting: Setting,
        findings: &mut Findings<'_>,
        control: &mut Control<'_>,
    ) -> Result<f64> {
        let begun = Instant::now();
        let (outlook, trial) = match findings.next() {
            Some(outlook) => (outlook, None),
            None if best.as_ref().is_some_and(|leader| !control.has_part_for(CHOICE, leader.took)) => {
                return Ok(f64::INFINITY)
            }
            None => {
                let trial = self.trial(&setting, control)?;
                let outlook = self.outlook(&trial);
                findings.add(outlook)?;
                (outlook, Some(trial))
            }
        };
        let took = begun.elapsed();
        match best {
            Some(leader) if outlook >= leader.outlook => leader.took = took,
            _ => *best = Some(Leader { setting, outlook, took, trial }),
        }
        Ok(outlook)
    }

    fn trial(&self, setting: &Setting, control: &mut Control<'_>) -> Result<Trial> {
        let (options, contest) = (self.options, self.contest);
        let (scaling, bandwidth) = (setting.scaling.clone(), setting.bandwidth);
        let map = options.feature_map(bandwidth, self.block_size, scaling)?;
        let solver = BlockDescentConfig { damping: setting.damping, ..self.config }.build()?;
        let mut state = solver.init(FeatureExpansion::new(map, contest.offset.to_vec()), contest.rows)?;
        let Contest { rows, targets, weights, loss, .. } = *contest;
        let problem = Problem { rows, targets, weights, loss };
        let mut watch = Watch { contest, blocks: self.blocks, history: Vec::new() };
        run(&solver, &mut state, &mut Again(problem), &mut watch, control)?;
        let history = watch.history;
        Ok(Trial { state, history })
    }
}

pub(crate) fn fallback(moments: &Moments, damping: f64) -> Setting {
    Setting { scaling: moments.standard(), standard: true, bandwidth: moments.scale_bandwidth(), damping }
}

/// The log of the held-out loss the curve points to at `budget` features.
fn outlook(curve: &[f64], block_size: usize, budget: usize) -> f64 {
    let last = curve[curve.len() - 1].max(1e-12);
    if curve.len() < 2 {
        // The time was up after one block.
        return last.ln();
    }
    let middle = curve[curve.len() / 2 - 1].max(1e-12);
    let exponent = (last / middle).ln().clamp(-0.6, 0.0);
    let octaves = (budget as f64 / (curve.len() * block_size) as f64).log2().max(0.0);
    curve.iter().fold(last, |a, &b| a.min(b.max(1e-12))).ln() + TRUST * exponent * octaves
}

/// Rows of the first stage, gathered.
struct Subsample {
    x: Vec<f32>,
    targets: Vec<f32>,
    weights: Vec<f32>,
    held: Vec<f32>,
    columns: usize,
}

impl Subsample {
    fn draw(options: &Options, contest: &Contest<'_>) -> Self {
        let n = contest.rows.len();
        let order = Permutation::new(options.seed, Stream::Race, BlockIndex(0), n);
        let (mut train, mut held) = (Vec::new(), Vec::new());
        for &i in order.indices() {
            if contest.weights[i as usize] > 0.0 && train.len() < FIRST_ROWS {
                train.push(i);
            } else if contest.held[i as usize] > 0.0 && held.len() < FIRST_ROWS / 4 {
                held.push(i);
            }
        }
        train.extend(held);
        let t = contest.loss.targets();
        let pick = |values: &[f32]| train.iter().map(|&i| values[i as usize]).collect();
        Self {
            x: contest.rows.gather(&train),
            targets: train
                .iter()
                .flat_map(|&i| contest.targets[i as usize * t..][..t].iter().copied())
                .collect(),
            weights: pick(contest.weights),
            held: pick(contest.held),
            columns: contest.rows.columns(),
        }
    }

    fn contest<'a>(&'a self, of: &Contest<'a>) -> Result<Contest<'a>> {
        Ok(Contest {
            rows: Rows::single(&self.x, self.columns)?,
            targets: &self.targets,
            weights: &self.weights,
            held: &self.held,
            loss: of.loss,
            offset: of.offset,
            error: &|_| None,
        })
    }
}

/// Small data: scaling, bandwidth and damping by evidence. `y` are the centred targets, n×C; `blocks` and `block_size`
/// say how the fit will go on: B damped steps with ρ leave the noise s² = ρ n/(m B).
pub(crate) fn by_evidence(
    options: &Options,
    rows: Rows<'_>,
    weights: &[f32],
    moments: &Moments,
    y: &[f64],
    (blocks, block_size): (usize, usize),
    control: &mut Control<'_>,
) -> Result<Setting> {
    let features = (2 * rows.len()).next_multiple_of(64).clamp(64, 512);
    let mut best: Option<(Setting, f64)> = None;
    for standard in scalings(options) {
        let scaling = scaling(moments, standard, options.kernel());
        let bandwidths: Vec<f64> = match decided(options, moments, rows, weights, 1.0) {
            Some(setting) => vec![setting.bandwidth],
            None => {
                let median = median_distance(rows, weights, &scaling, options.kernel(), options.seed);
                [2.8, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18].iter().map(|f| f * median).collect()
            }
        };
        for bandwidth in bandwidths {
            control.check(0)?;
            let map = options.feature_map(bandwidth, features, scaling.clone())?;
            let (noise, evidence) = log_evidence(&map, rows, y, weights)?;
            let total = weights.iter().map(|&w| f64::from(w)).sum::<f64>();
            let damping = noise * (blocks * block_size) as f64 / (total * map.mean_square(rows)?);
            let setting =
                Setting { scaling: scaling.clone(), standard, bandwidth, damping: damping.clamp(1e-4, 1e3) };
            if best.as_ref().is_none_or(|(_, b)| evidence > *b) {
                best = Some((setting, evidence));
            }
        }
    }
    Ok(best.map_or_else(|| fallback(moments, 0.1), |(setting, _)| setting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Task;
    use crate::loss::LossSpec;
    use crate::random::Seed;

    /// A held-out loss of 2 M^{−a} at M features points to itself, but for the share that is not trusted.
    #[test]
    fn the_outlook_follows_a_power_law() {
        let curve =
            |exponent: f64| (1..=8).map(|b| 2.0 * (64.0 * f64::from(b)).powf(-exponent)).collect::<Vec<_>>();
        for exponent in [0.1, 0.4] {
            let octaves = 3.0;
            let exact = (2.0 * 4_096_f64.powf(-exponent)).ln();
            let untrusted = (1.0 - TRUST) * exponent * std::f64::consts::LN_2 * octaves;
            let found = outlook(&curve(exponent), 64, 4_096);
            assert!((found - exact - untrusted).abs() < 1e-9, "{found} vs {exact}");
        }
        // Nothing beyond the trial: the loss itself. A steep start is not believed beyond 2^{−0.6} an octave … and a
        // rising curve is not expected to rise further.
        assert!((outlook(&curve(0.4), 64, 512) - (2.0 * 512_f64.powf(-0.4)).ln()).abs() < 1e-12);
        assert!(
            (outlook(&[1.0, 0.5, 0.3, 0.01], 64, 1_024) - (0.01_f64.ln() - TRUST * 0.6 * 2.0)).abs() < 1e-9
        );
        assert_eq!(outlook(&[1.0, 0.5, 0.6, 0.7], 64, 1_024), 0.5_f64.ln());
    }

    /// The first stage sees some training rows and some held-out ones, each with its own target and weight.
    #[test]
    fn a_subsample_keeps_rows_targets_and_weights_together() {
        let n = 12_000;
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let held: Vec<f32> = (0..n).map(|i| if i % 5 == 0 { 2.0 + (i % 7) as f32 } else { 0.0 }).collect();
        let weights: Vec<f32> = (0..n).map(|i| if i % 5 == 1 { 1.0 + (i % 3) as f32 } else { 0.0 }).collect();
        let targets: Vec<f32> = (0..2 * n).map(|i| -(i as f32)).collect();
        let loss = LossSpec::Square.build(2).unwrap();
        let rows = Rows::single(&x, 1).unwrap();
        let contest = Contest {
            rows,
            targets: &targets,
            weights: &weights,
            held: &held,
            loss: &*loss,
            offset: &[0.0; 2],
            error: &|_| None,
        };
        let options = Options::new(Task::Regression(2), Seed(1));
        let sub = Subsample::draw(&options, &contest);
        // 2,400 training rows are all there, of as many held-out ones a quarter of 8,192.
        assert_eq!(sub.x.len(), 2_400 + 2_048);
        let mut seen: Vec<usize> = sub.x.iter().map(|&v| v as usize).collect();
        for (k, &i) in seen.iter().enumerate() {
            assert_eq!((sub.weights[k], sub.held[k]), (weights[i], held[i]));
            assert_eq!(sub.targets[2 * k..2 * k + 2], targets[2 * i..2 * i + 2]);
            assert!(weights[i] + held[i] > 0.0);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 2_400 + 2_048);
    }

    #[test]
    fn a_bandwidth_the_user_has_decided_is_taken() {
        let x = [0.0_f32, 0.0, 3.0, 4.0];
        let (rows, weights) = (Rows::single(&x, 2).unwrap(), [1.0, 1.0]);
        let moments = Moments::of(rows, &weights);
        let with = |bandwidth, scaling| {
            let options = Options { bandwidth, scaling, ..Options::new(Task::Regression(1), Seed(1)) };
            decided(&options, &moments, rows, &weights, 0.3).map(|s| (s.standard, s.bandwidth, s.damping))
        };
        assert_eq!(with(Bandwidth::Auto, ColumnScaling::Auto), None);
        assert_eq!(with(Bandwidth::Value(7.0), ColumnScaling::Auto), Some((false, 7.0, 0.3)));
        assert_eq!(with(Bandwidth::Median, ColumnScaling::None), Some((false, 5.0, 0.3)));
        assert_eq!(with(Bandwidth::Scale, ColumnScaling::Standard), Some((true, 1.0, 0.3)));
    }
}
