//! Handwritten digits: 8×8 pixels, ten classes (see `data/README.md` for the source).

use super::fit;
use crate::failure::Outcome;
use crate::output::{duration, grouped, print, share, write};
use crate::plot::{ConfusionMatrix, ImageGrid, LineChart};
use crate::score::mistakes;
use riesz::data::Rows;
use riesz::functions::{KernelMachine, Task};
use riesz::random::{BlockIndex, Permutation, Seed, Stream};
use std::path::Path;
use std::time::Instant;

/// One digit after the other: 64 pixels from 0 to 16, then the class.
static DIGITS: &[u8] = include_bytes!("../../data/digits.u8");
const PIXELS: usize = 64;
/// Digits that are learnt; the others test what was learnt.
const TRAIN: usize = 1_200;
/// Test digits in the picture.
const SHOWN: usize = 60;

/// Images and classes.
struct Digits {
    pixels: Vec<f32>,
    classes: Vec<f32>,
}

impl Digits {
    /// The digits at `indices`.
    fn at(indices: &[u32]) -> Self {
        let digits = indices.iter().map(|&i| &DIGITS[i as usize * (PIXELS + 1)..][..PIXELS + 1]);
        let pixels = digits.clone().flat_map(|digit| &digit[..PIXELS]).map(|&pixel| f32::from(pixel) / 16.0);
        Self { pixels: pixels.collect(), classes: digits.map(|digit| f32::from(digit[PIXELS])).collect() }
    }

    fn len(&self) -> usize {
        self.classes.len()
    }

    fn image(&self, i: usize) -> &[f32] {
        &self.pixels[i * PIXELS..(i + 1) * PIXELS]
    }
}

/// Fits, tests, compares and draws.
pub(super) fn run(out: &Path) -> Outcome<()> {
    let order = Permutation::new(Seed(0), Stream::Shuffle, BlockIndex(0), DIGITS.len() / (PIXELS + 1));
    let (train, test) = order.indices().split_at(TRAIN);
    let (train, test) = (Digits::at(train), Digits::at(test));
    let started = Instant::now();
    let machine = fit(Task::Classification(10), Rows::single(&train.pixels, PIXELS)?, &train.classes)?;
    let fitted = started.elapsed();
    let started = Instant::now();
    let predicted = machine.classes_of(Rows::single(&test.pixels, PIXELS)?)?;
    let answered = started.elapsed();
    let started = Instant::now();
    let nearest: Vec<u32> = (0..test.len()).map(|i| nearest_class(&train, test.image(i))).collect();
    let compared = started.elapsed();
    let wrong = |classes: &[u32]| share(mistakes(classes, &test.classes), test.len());
    print(&format!(
        "handwritten digits: learnt from {}, tested on {} others (a fixed random split)\n  \
         riesz              {} wrong, fit {}, predict {}\n  \
         nearest neighbour  {} wrong, predict {}\n",
        grouped(train.len()),
        grouped(test.len()),
        wrong(&predicted),
        duration(fitted),
        duration(answered),
        wrong(&nearest),
        duration(compared),
    ))?;
    write(&out.join("digits.svg"), &examples(&test, &predicted))?;
    write(&out.join("confusion.svg"), &confusion(&test, &predicted))?;
    write(&out.join("learning.svg"), &learning(&machine))
}

/// The class of the training digit whose pixels are nearest.
fn nearest_class(train: &Digits, image: &[f32]) -> u32 {
    let distance =
        |i: usize| -> f32 { train.image(i).iter().zip(image).map(|(a, b)| (a - b) * (a - b)).sum() };
    let nearest = (0..train.len()).map(|i| (distance(i), i)).min_by(|a, b| a.0.total_cmp(&b.0));
    nearest.map_or(0, |(_, i)| train.classes[i] as u32)
}

/// Test digits with what they were taken for, the mistakes first.
fn examples(test: &Digits, predicted: &[u32]) -> String {
    let is_wrong = |i: &usize| predicted[*i] as f32 != test.classes[*i];
    let wrong: Vec<usize> = (0..test.len()).filter(is_wrong).collect();
    let right = (0..test.len()).filter(|i| !is_wrong(i));
    let title = format!("Test digits: the {} mistakes of {} first", wrong.len(), test.len());
    let chosen = wrong.iter().copied().chain(right).take(SHOWN.max(wrong.len().next_multiple_of(10)));
    let grid = ImageGrid::new(title, 8, 8).columns(10);
    let add = |grid: ImageGrid, i: usize| {
        let (truth, guess) = (test.classes[i], predicted[i]);
        match is_wrong(&i) {
            true => grid.image(test.image(i), format!("{truth}, not {guess}"), true),
            false => grid.image(test.image(i), guess.to_string(), false),
        }
    };
    chosen.fold(grid, add).to_svg()
}

fn confusion(test: &Digits, predicted: &[u32]) -> String {
    let pairs = test.classes.iter().zip(predicted).map(|(&truth, &guess)| (truth as usize, guess as usize));
    let classes = (0..10).map(|class: u8| class.to_string());
    ConfusionMatrix::new("Which digit was taken for which", classes).pairs(pairs).to_svg()
}

fn learning(machine: &KernelMachine) -> String {
    let facts = machine.summary();
    let points: Vec<_> = facts.history.iter().map(|entry| (entry.block as f64, entry.loss)).collect();
    LineChart::new("Training loss, block by block")
        .x_label(format!("blocks of {} random features", facts.block_size))
        .y_label(format!("mean {} loss", facts.loss))
        .log_y()
        .line("", &points)
        .to_svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_are_all_there() {
        assert_eq!(DIGITS.len(), 1_797 * (PIXELS + 1));
        let digits = Digits::at(&(0..1_797).collect::<Vec<_>>());
        assert_eq!(digits.len(), 1_797);
        let count = |class: f32| digits.classes.iter().filter(|&&c| c == class).count();
        assert_eq!([0, 1, 8, 9].map(|class: u8| count(f32::from(class))), [178, 182, 174, 180]);
        assert!(digits.pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
    }
}
