//! F3: kernel support-vector machine on Adult (a9a), 32,561 + 16,281 rows of 123 columns (spec 7; thesis §3.5).
//!
//! Hinge loss, Gaussian kernel with σ the median distance, ν = 1/(100 n), one pass of doubly stochastic gradients
//! beside block descent. The text: 15 % for the exact machine, 15.3 % after one pass.

use super::binary::{one_pass_and_descent, Course, Labelled, Settings};
use super::common::{median_distance, Console, DataFolder};
use super::Arguments;
use crate::failure::{Failure, Outcome};
use riesz::data::reader::{read_with, Format, ReadOptions, TargetColumn};
use riesz::random::Seed;

/// Columns of a9a; the test file does not reach the last one.
const COLUMNS: usize = 123;

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Course> {
    let folder = DataFolder::new(arguments.data.clone());
    let train = read(&folder, "a9a")?;
    let test = read(&folder, "a9a.t")?;
    one_pass_and_descent(settings(arguments, &train)?, &train, &test, console)
}

/// The settings of the text for these rows, but for what the user changed.
pub fn settings(arguments: &Arguments, train: &Labelled) -> Outcome<Settings> {
    let seed = Seed(arguments.seed);
    let bandwidth = match arguments.bandwidth {
        Some(bandwidth) => bandwidth,
        None => median_distance(train.rows()?, seed),
    };
    Ok(Settings {
        title: "Adult (a9a): kernel support-vector machine".into(),
        bandwidth,
        ridge: 1.0 / (100.0 * train.len() as f64),
        batch: arguments.batch.unwrap_or(256),
        block: arguments.block_size.unwrap_or(1_024),
        theta: arguments.theta.unwrap_or(super::THETA),
        delay: arguments.delay,
        blocks: arguments.blocks.unwrap_or(16),
        damping: arguments.damping.unwrap_or(0.1),
        text: vec![("exact", 15.0), ("one pass", 15.3)],
        seed,
    })
}

fn read(folder: &DataFolder, name: &str) -> Outcome<Labelled> {
    let names = ["", ".gz", ".libsvm", ".libsvm.gz"].map(|extension| format!("{name}{extension}"));
    let places: Vec<String> = names.iter().flat_map(|name| [format!("a9a/{name}"), name.clone()]).collect();
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    let path = folder.find(
        &places,
        "a9a and a9a.t are among the binary data sets of LIBSVM (https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html); unpack a .bz2 with bunzip2 first",
    )?;
    let options = ReadOptions {
        target: TargetColumn::Last,
        columns: Some(COLUMNS),
        format: Some(Format::Libsvm),
        first_index: Some(1),
        ..ReadOptions::default()
    };
    let data = read_with(&path, &options)?;
    let target = data.target.ok_or_else(|| Failure::bad_input("the file holds no labels"))?;
    let y = target.numbers()?.iter().map(|&y| if y > 0.0 { 1.0 } else { -1.0 }).collect();
    Ok(Labelled { x: data.features.into_dense()?, y, columns: COLUMNS })
}
