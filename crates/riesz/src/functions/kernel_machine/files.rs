//! Learning from files straight through: rows come part by part, and none is kept.

use super::machine::KernelMachine;
use super::options::{Options, Task, MOST_FEATURES};
use super::stream::features_within;
use super::training::Training;
use crate::data::files::{list, Parts, PART};
use crate::data::reader::{Dataset, RawTarget, ReadOptions, Table};
use crate::data::Rows;
use crate::driver::Control;
use crate::error::{Error, Result};
use crate::random::{BlockIndex, Permutation, Stream};
use std::path::PathBuf;
use std::time::Instant;

/// What was found in files.
#[derive(Clone, Debug, Default)]
pub struct FilesSeen {
    /// Rows.
    pub rows: usize,
    /// Features of each.
    pub columns: usize,
    /// Their names; none where the files have none.
    pub names: Vec<String>,
    /// Number the files give their first column.
    pub first_index: usize,
    /// The name of the target.
    pub target: String,
}

impl KernelMachine {
    /// Bytes that a fit by blocks takes beside the program and the rows, about: for n rows of d columns, T targets, C outputs
    /// and M features in blocks of m
    ///
    /// ```text
    /// 4n (5 + 3T + 4C) + 4 m² (2 + S (2 + log₂ L)) + 40,960 (m + d) + 4 M C + 24 MiB.
    /// ```
    ///
    /// The sums: weights and their parts; targets as given, encoded and in units; predictions of two trials, each beside those
    /// before its last step. A factorisation in double precision, and S Gram matrices for each level of the tree over L leaves by
    /// which rows are added up, S being C for losses with a curvature for each output. Features of the sampled rows of a leaf, and
    /// the rows of the race. Coefficients. Parts of files.
    pub fn memory(options: &Options, rows: usize, columns: usize) -> f64 {
        let (targets, outputs) = match options.task {
            Task::Regression(targets) => {
                (targets, options.loss.as_ref().map_or(targets, |loss| loss.outputs(targets)))
            }
            Task::Classification(classes) => (1, if classes == 2 { 1 } else { classes }),
        };
        let (n, m) = (rows as f64, options.block_size.unwrap_or(2_048) as f64);
        let features = options.max_blocks.map_or(MOST_FEATURES as f64, |blocks| blocks as f64 * m);
        // The memory of a matrix is whole huge pages.
        let matrix = (4.0 * m * m).max((2 << 20) as f64);
        let leaves = ((16.0 * m).max(n / 32.0) / 8_192.0).max(1.0);
        let matrices = matrix * (2.0 + outputs as f64 * (2.0 + leaves.log2()));
        let per_row = 4.0 * (5 + 3 * targets + 4 * outputs) as f64;
        let coefficients = 4.0 * features * outputs as f64;
        n * per_row + matrices + 40_960.0 * (m + columns as f64) + coefficients + (3 * PART) as f64
    }

    /// Learns from files as [`KernelMachine::begin`] and [`KernelMachine::partial_fit`] learn from batches, in
    /// [`Options::passes`] passes: part after part of each file, the rows of a part in random order. `classes` are the
    /// names of the classes, none for a regression. Beside the function, memory is that of a few parts
    /// ([`PART`](crate::data::files::PART)) and of what a stream keeps, however many rows there are. There are as many
    /// features (4,096, or a half, a quarter or an eighth of them) as fit into half of `memory` bytes, unless `options` have a number.
    ///
    /// Rows are mixed within a part only: files that are sorted by their target should be shuffled first.
    pub fn fit_files(
        options: &Options,
        paths: &[PathBuf],
        read: &ReadOptions,
        classes: &[String],
        memory: Option<usize>,
        control: &mut Control<'_>,
    ) -> Result<(Self, FilesSeen)> {
        options.check()?;
        let files = list(paths, read)?;
        let started = Instant::now();
        let in_time = || options.max_time.is_none_or(|most| started.elapsed().as_secs_f64() < most);
        let (mut machine, mut seen, mut order) = (None::<Self>, FilesSeen::default(), Order::default());
        for pass in 0..options.passes.max(1) {
            for (number, part) in Parts::new(files.clone(), read.clone())?.enumerate() {
                if machine.is_some() && !in_time() {
                    break;
                }
                let Dataset { features, target, .. } = part?;
                let Some(raw) = target else {
                    return Err(Error::Conflict("the files hold no target; name its column".into()));
                };
                let place = BlockIndex((pass as u64) << 32 | number as u64);
                let shuffled = Permutation::new(options.seed, Stream::Shuffle, place, features.len());
                order.shuffle(features.rows()?, &targets(&raw, options.task, classes)?, shuffled.indices());
                let Table { columns, first_index, names, values } = features;
                // The part goes before anything is learnt from its rows.
                drop(values);
                let rows = Rows::single(&order.x, columns)?;
                let training = Training { rows, targets: &order.y, weights: None };
                match &mut machine {
                    None => {
                        let options = within(options, memory, columns)?;
                        machine = Some(Self::begin(&options, &training, control)?);
                    }
                    Some(machine) => machine.partial_fit(&training, control)?,
                }
                if pass == 0 {
                    seen.rows += rows.len();
                }
                seen = FilesSeen { columns, first_index, names, target: raw.name().to_owned(), ..seen };
            }
        }
        let machine = machine.ok_or(Error::Empty { what: "the files", needed: "one row" })?;
        Ok((machine, seen))
    }
}

/// The options with as many features as fit into `memory`, unless they have a number of them.
fn within(options: &Options, memory: Option<usize>, columns: usize) -> Result<Options> {
    let mut options = options.clone();
    if let (Some(bytes), None, None, None) = (memory, options.theta, options.max_blocks, options.block_size) {
        // The other half is for the program, parts and pages of files.
        let features = features_within(bytes as f64 / 2.0, columns)?;
        (options.max_blocks, options.block_size) = (Some(1), Some(features));
    }
    Ok(options)
}

/// Rows and targets of a part in random order.
#[derive(Default)]
struct Order {
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Order {
    fn shuffle(&mut self, rows: Rows<'_>, targets: &[f32], order: &[u32]) {
        rows.gather_into(order, &mut self.x);
        self.y.clear();
        self.y.extend(order.iter().map(|&i| targets[i as usize]));
    }
}

/// Numbers, or positions among the classes.
fn targets(raw: &RawTarget, task: Task, classes: &[String]) -> Result<Vec<f32>> {
    if let Task::Regression(_) = task {
        return Ok(raw.numbers()?.into_iter().map(|y| y as f32).collect());
    }
    raw.labels().positions(classes).map_err(|label| {
        Error::Conflict(format!("the target {:?} holds {label:?}, which is none of the classes", raw.name()))
    })
}
