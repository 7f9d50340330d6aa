//! Learning from files straight through: rows come part by part, and none is kept.

use super::machine::KernelMachine;
use super::options::{Options, Task};
use super::training::Training;
use crate::data::files::{list, Parts};
use crate::data::reader::{Dataset, RawTarget, ReadOptions};
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
    /// Learns from files as [`KernelMachine::begin`] and [`KernelMachine::partial_fit`] learn from batches, in
    /// [`Options::passes`] passes: part after part of each file, the rows of a part in random order. `classes` are the
    /// names of the classes, none for a regression. Beside the function, memory is that of a few parts
    /// ([`PART`](crate::data::files::PART)), however many rows there are.
    ///
    /// Rows are mixed within a part only: files that are sorted by their target should be shuffled first.
    pub fn fit_files(
        options: &Options,
        paths: &[PathBuf],
        read: &ReadOptions,
        classes: &[String],
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
                let rows = Rows::single(&order.x, features.columns)?;
                let training = Training { rows, targets: &order.y, weights: None };
                match &mut machine {
                    None => machine = Some(Self::begin(options, &training, control)?),
                    Some(machine) => machine.partial_fit(&training, control)?,
                }
                if pass == 0 {
                    seen.rows += features.len();
                }
                (seen.columns, seen.first_index) = (features.columns, features.first_index);
                (seen.names, seen.target) = (features.names, raw.name().to_owned());
            }
        }
        let machine = machine.ok_or(Error::Empty { what: "the files", needed: "one row" })?;
        Ok((machine, seen))
    }
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
