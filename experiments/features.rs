//! F6, F7, F8 and F10: data whose features come from elsewhere (spec 7; thesis §3.5).
//!
//! The texts learn the features a convolutional net computes (F6–F8) or descriptors of molecules (F10). Neither the
//! nets nor the data can be shipped, so each experiment reads features and targets from NumPy files or CSV in a folder
//! of its name, and `--stand-in` runs the same recipe on made-up data of the same shape and fewer rows. How features were
//! made, and what the texts reached, is in `docs/experiments.md`.
//!
//! Block descent, softmax loss for classes and square loss for numbers; F6 with σ four times the median distance and
//! ν = 5·10⁻⁴ as in the text, the others with the bandwidth chosen on held-out rows.

use super::common::{median_distance, Console, DataFolder, Report};
use super::Arguments;
use crate::failure::{Failure, Outcome};
use crate::output::{grouped, significant};
use crate::plot::LineChart;
use riesz::data::reader::{read, read_target, TargetColumn};
use riesz::data::Rows;
use riesz::driver::Control;
use riesz::functions::{Bandwidth, ColumnScaling, KernelMachine, Options, Summary, Task, Training};
use riesz::loss::LossSpec;
use riesz::random::{normal_pair, Address, BlockIndex, Seed, Stream};
use std::fmt::Write;
use std::path::Path;

/// An experiment on given features.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// Folder of its files.
    pub folder: &'static str,
    /// Columns in the text.
    pub columns: usize,
    /// Classes; `None`: a number is learnt.
    pub classes: Option<usize>,
    /// σ over the median distance; `None`: chosen on held-out rows.
    pub bandwidths: Option<f64>,
    /// ν.
    pub ridge: Option<f64>,
    /// Rows of the stand-in, a quarter of which test.
    pub rows: usize,
    /// Most blocks on the stand-in.
    pub blocks: usize,
    /// What the text reports.
    pub text: &'static str,
    /// Where data and features come from.
    pub source: &'static str,
}

/// F6.
pub const F6: Recipe = Recipe {
    name: "F6",
    folder: "mnist8m_conv",
    columns: 1_568,
    classes: Some(10),
    bandwidths: Some(4.0),
    ridge: Some(5e-4),
    rows: 4_000,
    blocks: 4,
    text: "0.5 % of the test images wrong",
    source: "MNIST-8M is at https://leon.bottou.org/projects/infimnist; features are the outputs of the last convolutional layer of a net (docs/experiments.md)",
};

/// F7.
pub const F7: Recipe = Recipe {
    name: "F7",
    folder: "cifar10_conv",
    columns: 256,
    classes: Some(10),
    bandwidths: None,
    ridge: None,
    rows: 4_000,
    blocks: 8,
    text: "11 % of the test images wrong, as the net",
    source: "CIFAR-10 is at https://www.cs.toronto.edu/~kriz/cifar.html; features are 2,304 convolutional outputs reduced to 256 principal components (docs/experiments.md)",
};

/// F8.
pub const F8: Recipe = Recipe {
    name: "F8",
    folder: "imagenet_conv",
    columns: 9_216,
    classes: Some(1_000),
    bandwidths: Some(0.7),
    ridge: None,
    rows: 4_000,
    blocks: 2,
    text: "44.5 % of the test images wrong, voting over ten crops, 2^20 features",
    source: "ImageNet (ILSVRC 2012) is at https://image-net.org; features are the 9,216 outputs of the last pooling layer of AlexNet (docs/experiments.md)",
};

/// F10.
pub const F10: Recipe = Recipe {
    name: "F10",
    folder: "molecularspace",
    columns: 2_850,
    classes: None,
    bandwidths: None,
    ridge: None,
    rows: 4_000,
    blocks: 8,
    text: "as the net",
    source: "MolecularSpace is the Harvard Clean Energy Project database, https://www.matter.toronto.edu; features are 2,850 columns of randomised, binarised Coulomb matrices (docs/experiments.md)",
};

/// Rows and targets.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Row-major values.
    pub x: Vec<f32>,
    /// Class indices or numbers.
    pub y: Vec<f32>,
    /// Columns.
    pub columns: usize,
}

impl Part {
    fn rows(&self) -> Outcome<Rows<'_>> {
        Ok(Rows::single(&self.x, self.columns)?)
    }
}

/// Runs the experiment.
pub fn run(recipe: &Recipe, arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let seed = Seed(arguments.seed);
    let (train, test) = if arguments.stand_in {
        let rows = arguments.rows.unwrap_or(recipe.rows);
        let (train, test) = (rows - rows / 4, rows / 4);
        (stand_in(recipe, 0..train, seed), stand_in(recipe, train..train + test, seed))
    } else {
        let folder = DataFolder::new(arguments.data.clone());
        (load(recipe, &folder, "train")?, load(recipe, &folder, "test")?)
    };
    (console.say)(&format!(
        "{} rows of {} columns to learn, {} to test",
        grouped(train.y.len()),
        grouped(train.columns),
        grouped(test.y.len())
    ));
    let machine = fit(recipe, arguments, &train, console)?;
    let error = test_error(recipe, &machine, &test)?;
    Ok(report(recipe, arguments, &machine.summary(), &error))
}

/// One part of the data: `{part}_features` and `{part}_targets`, as `.npy` or `.csv`, packed or not.
fn load(recipe: &Recipe, folder: &DataFolder, part: &str) -> Outcome<Part> {
    let find = |kind: &str| {
        let names = ["npy", "npy.gz", "csv", "csv.gz"]
            .map(|extension| format!("{}/{part}_{kind}.{extension}", recipe.folder));
        let hint = format!("{}; --stand-in runs the recipe on made-up data of this shape", recipe.source);
        folder.find(&names.each_ref().map(String::as_str), &hint)
    };
    let features = read(&find("features")?, TargetColumn::None)?.features;
    let path = find("targets")?;
    let y: Vec<f32> = read_target(&path)?.numbers()?.iter().map(|&y| y as f32).collect();
    check(recipe, &y, features.len(), &path)?;
    let columns = features.columns;
    Ok(Part { x: features.into_dense()?, y, columns })
}

/// Refuses targets that are not as many as the rows, or not class indices.
fn check(recipe: &Recipe, y: &[f32], rows: usize, path: &Path) -> Outcome<()> {
    if y.len() != rows {
        let message = format!("{} holds {} targets for {rows} rows", path.display(), y.len());
        return Err(Failure::bad_input(message));
    }
    match recipe.classes {
        Some(classes) if y.iter().any(|&y| y < 0.0 || y.fract() != 0.0 || y >= classes as f32) => {
            let message = format!("{}: classes are numbers from 0 to {}", path.display(), classes - 1);
            Err(Failure::bad_input(message))
        }
        _ => Ok(()),
    }
}

/// Made-up rows: sixteen hidden numbers z of a row, mixed into all columns with noise. The classes are clusters of z; the
/// number is Σ sin z.
pub fn stand_in(recipe: &Recipe, range: std::ops::Range<usize>, seed: Seed) -> Part {
    const HIDDEN: usize = 16;
    let normals = |block: u64, index: usize, count: usize| -> Vec<f32> {
        let address = Address::new(seed, Stream::Synthetic, BlockIndex(block), index as u32);
        let pairs = (0..count.div_ceil(4) as u32).map(|lane| address.words(lane));
        let mut out: Vec<f32> = pairs
            .flat_map(|[a, b, c, d]| [normal_pair(a, b), normal_pair(c, d)].concat())
            .map(|v| v as f32)
            .collect();
        out.truncate(count);
        out
    };
    let mixing: Vec<Vec<f32>> = (0..HIDDEN).map(|k| normals(0, k, recipe.columns)).collect();
    let mut part = Part { columns: recipe.columns, ..Default::default() };
    for i in range {
        let mut z = normals(1, i, HIDDEN);
        match recipe.classes {
            Some(classes) => {
                let class = i % classes;
                let centre = normals(2, class, HIDDEN);
                z.iter_mut().zip(centre).for_each(|(z, c)| *z = 0.5 * *z + 2.0 * c);
                part.y.push(class as f32);
            }
            None => part.y.push(z.iter().map(|z| z.sin()).sum()),
        }
        let mut row = normals(3, i, recipe.columns);
        for (z, direction) in z.iter().zip(&mixing) {
            row.iter_mut().zip(direction).for_each(|(v, d)| *v += z * d);
        }
        part.x.extend(row);
    }
    part
}

fn fit(
    recipe: &Recipe,
    arguments: &Arguments,
    train: &Part,
    console: &mut Console<'_>,
) -> Outcome<KernelMachine> {
    let seed = Seed(arguments.seed);
    let task = recipe.classes.map_or(Task::Regression(1), Task::Classification);
    let mut options = Options::new(task, seed);
    options.loss = Some(if recipe.classes.is_some() { LossSpec::Softmax } else { LossSpec::Square });
    options.ridge = recipe.ridge;
    options.damping = arguments.damping;
    options.block_size = arguments.block_size;
    options.max_blocks = arguments.blocks.or(arguments.stand_in.then_some(recipe.blocks));
    options.bandwidth = match (arguments.bandwidth, recipe.bandwidths) {
        (Some(value), _) => Bandwidth::Value(value),
        (None, Some(medians)) => Bandwidth::Value(medians * median_distance(train.rows()?, seed)),
        (None, None) => Bandwidth::Auto,
    };
    if !matches!(options.bandwidth, Bandwidth::Auto) {
        options.scaling = ColumnScaling::None;
    }
    let training = Training { rows: train.rows()?, targets: &train.y, weights: None };
    let (say, cancelled) = (&mut *console.say, &mut *console.cancelled);
    let mut observe = |progress: &riesz::driver::Progress| {
        let held = progress.held_out_loss.map_or(String::new(), |loss| format!(" held out {loss:.4}"));
        say(&format!(
            "{:?} {:>4} of {:<4} loss {:.4}{held}",
            progress.phase, progress.done, progress.most, progress.loss
        ));
    };
    Ok(KernelMachine::fit(&options, &training, &mut Control::new(cancelled, &mut observe))?)
}

/// The error on the test rows, in words.
fn test_error(recipe: &Recipe, machine: &KernelMachine, test: &Part) -> Outcome<String> {
    let n = test.y.len().max(1) as f64;
    if recipe.classes.is_some() {
        let classes = machine.classes_of(test.rows()?)?;
        let wrong = classes.iter().zip(&test.y).filter(|(&c, &y)| c as f32 != y).count();
        return Ok(format!("{:.2} % of the test rows wrong", 100.0 * wrong as f64 / n));
    }
    let values = machine.predict(test.rows()?)?;
    let errors = values.iter().zip(&test.y).map(|(v, y)| f64::from((v - y).abs()));
    let mean = test.y.iter().map(|&y| f64::from(y)).sum::<f64>() / n;
    let spread = test.y.iter().map(|&y| (f64::from(y) - mean).abs()).sum::<f64>() / n;
    let error = errors.sum::<f64>() / n;
    Ok(format!("mean absolute error {} (of the mean: {})", significant(error), significant(spread)))
}

fn report(recipe: &Recipe, arguments: &Arguments, summary: &Summary, error: &str) -> Report {
    let mut table = "blocks,features,loss,held_out_loss,held_out_error\n".to_owned();
    let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
    let (mut learnt, mut held) = (Vec::new(), Vec::new());
    for entry in &summary.history {
        let features = entry.block * summary.block_size;
        let (loss, wrong) = (cell(entry.held_out_loss), cell(entry.held_out_error));
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{},{features},{:.6},{loss},{wrong}", entry.block, entry.loss);
        learnt.push((features as f64, entry.loss));
        held.extend(entry.held_out_loss.map(|loss| (features as f64, loss)));
    }
    let what = if arguments.stand_in { "made-up data of the same shape" } else { recipe.folder };
    let picture = LineChart::new(format!("{}, {what}: {error}", recipe.name))
        .x_label("random features")
        .y_label("mean loss")
        .log_y()
        .line("training rows", &learnt)
        .line("held-out rows", &held)
        .to_svg();
    let bandwidth = significant(summary.bandwidth);
    let summary = format!(
        "{what}: {error}\nbandwidth {bandwidth}, {} features\nthe text, on its own data: {}\n",
        grouped(summary.features),
        recipe.text
    );
    Report { table, picture, summary, ended: None }
}
