//! Choosing bandwidth, scaling and number of blocks by the held-out loss.
//!
//! A course of block descent is a path from the constant function to one that has learnt every row by heart, and the
//! number of blocks is its regularisation. All splits of the data go along it side by side; where their mean held-out
//! loss is lowest the course of all rows will end. Only the bandwidth is left to be found: by evidence where rows are few,
//! else by the held-out loss of whole courses.

use super::options::DensityRatioOptions;
use super::samples::{Samples, Split};
use crate::driver::{Control, Phase, Progress};
use crate::error::Result;
use crate::functions::geometry::{median_distance, Moments};
use crate::functions::kernel_machine::race::{by_evidence, decided, scalings, Setting};
use crate::functions::HistoryEntry;
use crate::functions::{Bandwidth, Options};
use crate::loss::Loss;
use crate::solver::{weighted_loss, BlockDescent, BlockDescentConfig, BlockState, Problem};
use crate::space::FeatureExpansion;

/// Rows of each sample from which scaling and bandwidth are chosen.
const MOST_ROWS: usize = 4_096;
/// Effective rows below which the bandwidth is found by evidence.
const SMALL: f64 = 2_000.0;
/// A part with so large a share of the effective rows is as good as all of them.
const AS_GOOD: f64 = 0.8;
/// The curvature of the losses in units of that of the square loss, to which the evidence refers.
const NOMINAL: f64 = 0.5;
/// About the number of blocks in which a course learns what n rows can tell.
const BLOCKS: f64 = 16.0;
/// Bounds on the damping over the curvature: smaller is unstable where H comes from a subsample.
const LEAST_DAMPING: f64 = 0.05;
const MOST_DAMPING: f64 = 20.0;
/// A course ends when the held-out loss, in nats, fell by less than this over a window of blocks.
const TOLERANCE: f64 = 5e-4;
const WINDOW: usize = 8;
/// Bandwidths searched, in median distances.
const WIDEST: f64 = 8.0;
const NARROWEST: f64 = 0.05;
/// Columns whose deviations differ by less than this factor need no scaling to be tried.
const ALIKE: f64 = 1.5;
/// Narrowings by √2 tried on all rows where the bandwidth was chosen on a part.
const MOST_NARROWINGS: usize = 4;

/// A course along all splits, up to where their held-out loss is lowest.
pub(super) struct Course {
    pub setting: Setting,
    /// Blocks at the lowest held-out loss; 0 where nothing beats the constant.
    pub blocks: usize,
    /// Twice the mean held-out loss there: each sample has half of the weight.
    pub loss: f64,
    /// What it comes to at held-out rows.
    pub held: HeldOut,
    pub history: Vec<HistoryEntry>,
}

/// Values at held-out rows, with their targets and weights.
#[derive(Default)]
pub(super) struct HeldOut {
    pub values: Vec<f32>,
    pub targets: Vec<f32>,
    pub weights: Vec<f32>,
}

/// What the courses on one set of rows have in common.
pub(super) struct Field<'a> {
    options: &'a DensityRatioOptions,
    machine: Options,
    samples: &'a Samples,
    splits: Vec<Split>,
    loss: Box<dyn Loss>,
}

impl<'a> Field<'a> {
    /// With a fifth of the rows held out.
    pub(super) fn new(options: &'a DensityRatioOptions, samples: &'a Samples) -> Self {
        let splits = vec![samples.hold_out(options.seed)];
        Self { options, machine: options.machine(), samples, splits, loss: options.loss.build() }
    }

    /// With every row held out once.
    fn folded(&self) -> Self {
        let splits = self.samples.folds(self.options.seed);
        Self { splits, ..Self::new(self.options, self.samples) }
    }

    /// Features per block: more rows tell more.
    fn block_size(&self) -> usize {
        let n = self.samples.len();
        self.options.block_size.unwrap_or(match n {
            0..=1_999 => (n / 2).next_multiple_of(64).clamp(64, 512),
            2_000..=65_535 => 512,
            _ => 1_024,
        })
    }

    /// After B blocks of m features with damping ρ a direction of the kernel operator is learnt if its eigenvalue times
    /// the curvature h exceeds ρ/(mB); n rows can tell eigenvalues of about 1/n from none. Hence ρ = h·mB/n.
    fn damping(&self) -> f64 {
        let relative = BLOCKS * self.block_size() as f64 / self.samples.effective_rows();
        let automatic = self.options.loss.curvature() * relative.clamp(LEAST_DAMPING, MOST_DAMPING);
        self.options.damping.unwrap_or(automatic)
    }

    /// A solver and where it starts.
    pub(super) fn start(&self, setting: &Setting) -> Result<(BlockDescent, BlockState)> {
        let solver = BlockDescentConfig { damping: setting.damping, ..Default::default() }.build()?;
        let map = self.machine.feature_map(setting.bandwidth, self.block_size(), setting.scaling.clone())?;
        let f = FeatureExpansion::new(map, vec![self.options.loss.offset()]);
        let state = solver.init(f, self.samples.rows()?)?;
        Ok((solver, state))
    }

    pub(super) fn problem<'b>(&'b self, weights: &'b [f32]) -> Result<Problem<'b>> {
        let (rows, targets) = (self.samples.rows()?, &self.samples.targets);
        Ok(Problem { rows, targets, weights, loss: &*self.loss })
    }

    /// One course.
    fn course(&self, setting: Setting, control: &mut Control<'_>) -> Result<Course> {
        let (solver, first) = self.start(&setting)?;
        let mut states = vec![first; self.splits.len()];
        let share = 2.0 / self.splits.len() as f64;
        let held_out = |states: &[BlockState]| -> f64 {
            let loss = |(state, split): (&BlockState, &Split)| {
                weighted_loss(&*self.loss, &self.samples.targets, &split.held, &state.predictions)
            };
            share * states.iter().zip(&self.splits).map(loss).sum::<f64>()
        };
        let mut best = Course {
            setting,
            blocks: 0,
            loss: held_out(&states),
            held: self.held(&states),
            history: Vec::new(),
        };
        let beginning = best.loss;
        for block in 1..=self.options.max_blocks {
            let mut loss = 0.0;
            for (state, split) in states.iter_mut().zip(&self.splits) {
                control.check(block)?;
                loss += share * solver.step(state, &self.problem(&split.train)?)?.loss;
            }
            let lost = held_out(&states);
            best.history.push(HistoryEntry { block, loss, held_out_loss: Some(lost), held_out_error: None });
            if lost < best.loss {
                (best.blocks, best.loss, best.held) = (block, lost, self.held(&states));
            }
            if self.ends(&best, beginning) || out_of_half(self.options, control) {
                break;
            }
        }
        let (phase, done, most, elapsed) = (Phase::Race, 0, 0, control.elapsed());
        let loss = best.history.last().map_or(f64::NAN, |entry| entry.loss);
        let (held_out_loss, held_out_error) = (Some(best.loss), None);
        control.report(Progress { phase, done, most, loss, held_out_loss, held_out_error, elapsed })?;
        Ok(best)
    }

    /// Whether the held-out loss has risen for a while, or stopped falling.
    fn ends(&self, best: &Course, beginning: f64) -> bool {
        let done = best.history.len();
        let held = |b: usize| match b {
            0 => beginning,
            _ => best.history[b - 1].held_out_loss.unwrap_or(f64::INFINITY),
        };
        let rising = done - best.blocks >= 4 + best.blocks / 4;
        rising || done >= WINDOW && held(done) > held(done - WINDOW) - TOLERANCE
    }

    fn held(&self, states: &[BlockState]) -> HeldOut {
        let mut held = HeldOut::default();
        for (state, split) in states.iter().zip(&self.splits) {
            for (i, &w) in split.held.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                held.values.push(state.predictions[i]);
                held.targets.push(self.samples.targets[i]);
                held.weights.push(w);
            }
        }
        held
    }

    /// Scaling and bandwidth of few rows: those of the largest evidence for a Gaussian process that tells the samples
    /// apart, which varies far less from sample to sample than a held-out loss.
    fn by_evidence(&self, control: &mut Control<'_>) -> Result<Setting> {
        let (rows, n) = (self.samples.rows()?, self.samples.len() as f64);
        let share = (self.samples.effective_rows() / n) as f32;
        let weights: Vec<f32> = self.samples.weights.iter().map(|w| w * share).collect();
        let y: Vec<f64> = self.samples.targets.iter().map(|&y| f64::from(y)).collect();
        let moments = Moments::of(rows, &weights);
        let shape = (BLOCKS as usize, self.block_size());
        let mut setting = by_evidence(&self.machine, rows, &weights, &moments, &y, shape, control)?;
        let least = LEAST_DAMPING * self.options.loss.curvature();
        setting.damping = self.options.damping.unwrap_or(least.max(NOMINAL * setting.damping));
        Ok(setting)
    }

    /// The best scaling and bandwidth: uphill and downhill by factors of two from the median distance, then by √2.
    fn search(&self, control: &mut Control<'_>) -> Result<Course> {
        let (rows, weights) = (self.samples.rows()?, &self.samples.weights);
        let (moments, damping) = (Moments::of(rows, weights), self.damping());
        if let Some(setting) = decided(&self.machine, &moments, rows, weights, damping) {
            return self.course(setting, control);
        }
        let alike = {
            let deviations = || moments.variance.iter().filter(|v| **v > 0.0).map(|v| v.sqrt());
            deviations().fold(0.0, f64::max) < ALIKE * deviations().fold(f64::INFINITY, f64::min)
        };
        let mut best: Option<Course> = None;
        for standard in scalings(&self.machine) {
            if alike && !standard && scalings(&self.machine).len() > 1 {
                continue;
            }
            let scaling = if standard { moments.standard() } else { moments.unscaled(self.machine.kernel()) };
            let kernel = self.machine.kernel();
            let median = median_distance(rows, weights, &scaling, kernel, self.options.seed);
            let setting = Setting { scaling, standard, bandwidth: median, damping };
            let found = self.climb(setting, control)?;
            if best.as_ref().is_none_or(|best| found.loss < best.loss) {
                best = Some(found);
            }
        }
        match best {
            Some(best) => Ok(best),
            None => {
                let (scaling, bandwidth) = (moments.standard(), moments.scale_bandwidth());
                self.course(Setting { scaling, standard: true, bandwidth, damping }, control)
            }
        }
    }

    fn climb(&self, start: Setting, control: &mut Control<'_>) -> Result<Course> {
        let median = start.bandwidth;
        let mut best = self.course(start, control)?;
        for factor in [2.0, 0.5, std::f64::consts::SQRT_2, std::f64::consts::FRAC_1_SQRT_2] {
            loop {
                let bandwidth = best.setting.bandwidth * factor;
                let outside = !(NARROWEST..=WIDEST).contains(&(bandwidth / median));
                if outside || out_of_half(self.options, control) {
                    break;
                }
                let next = self.course(Setting { bandwidth, ..best.setting.clone() }, control)?;
                if next.loss >= best.loss {
                    break;
                }
                best = next;
            }
        }
        Ok(best)
    }

    /// From a bandwidth chosen on a part of the rows: all rows may want a narrower one.
    fn refine(&self, start: Setting, control: &mut Control<'_>) -> Result<Course> {
        let mut best = self.course(Setting { damping: self.damping(), ..start }, control)?;
        let narrowings = match self.options.bandwidth {
            Bandwidth::Auto if self.machine.kernel().has_bandwidth() => MOST_NARROWINGS,
            _ => 0,
        };
        for _ in 0..narrowings {
            if out_of_half(self.options, control) {
                break;
            }
            let bandwidth = best.setting.bandwidth * std::f64::consts::FRAC_1_SQRT_2;
            let next = self.course(Setting { bandwidth, ..best.setting.clone() }, control)?;
            if next.loss >= best.loss {
                break;
            }
            best = next;
        }
        Ok(best)
    }
}

/// The best course. Few rows: bandwidth by evidence, blocks by cross-validation. More: bandwidth by the loss on a hold-out,
/// from at most 4,096 rows of each sample; blocks by cross-validation if that is all of them, else on a hold-out.
pub(super) fn choose(field: &Field<'_>, control: &mut Control<'_>) -> Result<Course> {
    let Some(part) = field.samples.part(MOST_ROWS, field.options.seed)? else {
        let setting = match field.samples.effective_rows() < SMALL {
            true => field.by_evidence(control)?,
            false => field.search(control)?.setting,
        };
        return field.folded().course(setting, control);
    };
    if part.effective_rows() < AS_GOOD * field.samples.effective_rows() {
        let start = Field::new(field.options, &part).search(control)?.setting;
        return field.refine(start, control);
    }
    // One sample is small, and all the others could add is in the part already.
    let mut course = choose(&Field::new(field.options, &part), control)?;
    let features = field.block_size() as f64 / Field::new(field.options, &part).block_size() as f64;
    course.setting.damping *= if field.options.damping.is_none() { features } else { 1.0 };
    Ok(course)
}

/// Whether half of the time budget is spent.
fn out_of_half(options: &DensityRatioOptions, control: &Control<'_>) -> bool {
    options.max_time.is_some_and(|most| control.elapsed().as_secs_f64() >= 0.5 * most)
}
