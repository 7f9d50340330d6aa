//! What the experiments on real data share: where the data lie, and what a run leaves behind.

use crate::failure::{Failure, Outcome};
use riesz::data::Rows;
use riesz::random::{BlockIndex, Permutation, Seed, Stream};
use riesz::Error;
use std::path::PathBuf;

/// What an experiment leaves behind.
#[derive(Debug)]
pub struct Report {
    /// The table, as CSV.
    pub table: String,
    /// The picture, as SVG.
    pub picture: String,
    /// The result in a few lines.
    pub summary: String,
    /// Why it ended early, if it did; the rest is what there was until then.
    pub ended: Option<Error>,
}

/// What a run tells while it runs, and asks.
pub struct Console<'a> {
    /// Shows a line.
    pub say: &'a mut dyn FnMut(&str),
    /// Whether the user has asked to stop.
    pub cancelled: &'a mut dyn FnMut() -> bool,
}

/// The folder of data sets: `--data`, or the environment variable `RIESZ_DATA`.
#[derive(Clone, Debug)]
pub struct DataFolder(pub Option<PathBuf>);

impl DataFolder {
    /// The folder given, or that of the environment.
    pub fn new(given: Option<PathBuf>) -> Self {
        Self(given.or_else(|| std::env::var_os("RIESZ_DATA").map(PathBuf::from)))
    }

    /// The first of `names` there is in the folder; else an error that says where to get it.
    pub fn find(&self, names: &[&str], source: &str) -> Outcome<PathBuf> {
        let Some(folder) = &self.0 else {
            let message = "this experiment reads data; name their folder by --data or by RIESZ_DATA";
            return Err(Failure::bad_input(message).hint(source));
        };
        names.iter().map(|name| folder.join(name)).find(|path| path.is_file()).ok_or_else(|| {
            let message = format!("none of {} in {}", names.join(", "), folder.display());
            Failure::bad_input(message).hint(source)
        })
    }
}

/// The median distance between `rows`, on at most 1,000 of them.
pub fn median_distance(rows: Rows<'_>, seed: Seed) -> f64 {
    const MOST: usize = 1_000;
    let order = Permutation::new(seed, Stream::Subsample, BlockIndex(0), rows.len());
    let sample = rows.gather(&order.indices()[..rows.len().min(MOST)]);
    let sample: Vec<&[f32]> = sample.chunks_exact(rows.columns()).collect();
    let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
    let mut distances: Vec<f32> = sample
        .iter()
        .enumerate()
        .flat_map(|(i, a)| sample[..i].iter().map(move |b| distance(a, b)))
        .filter(|&distance| distance > 0.0)
        .collect();
    if distances.is_empty() {
        return 1.0;
    }
    let middle = distances.len() / 2;
    f64::from(*distances.select_nth_unstable_by(middle, f32::total_cmp).1)
}
