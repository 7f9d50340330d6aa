//! Functions whose mean over samples of an input is what is predicted: inputs known up to noise, as in the text.
#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::dynamics::invariance::{InvarianceOptions, InvariantFunction, Virtual};
use riesz::functions::Bandwidth;
use riesz::model::Stored;
use riesz::random::{normal_pair, Address, BlockIndex, Seed, Stream};
use riesz::Result;
use std::f64::consts::PI;

/// Standard deviation of z around x.
const NOISE: f64 = 0.05;

/// E[y | x].
fn target(x: f64) -> f64 {
    3.0 * x * x + ((3.53 * PI * x).sin() + (7.7 * PI * x).cos()) * (-1.6 * PI * x.abs()).exp()
}

fn words(block: u64, i: usize) -> [u32; 4] {
    Address::new(Seed(9), Stream::Synthetic, BlockIndex(block), i as u32).words(0)
}

/// Noisy samples of some inputs.
fn samples(x: &[f32], block: u64) -> Vec<f32> {
    let noise = |i| {
        let [a, b, ..] = words(block, i);
        (NOISE * normal_pair(a, b)[0]) as f32
    };
    x.iter().enumerate().map(|(i, x)| x + noise(i)).collect()
}

struct Data {
    x: Vec<f32>,
    z: Vec<Vec<f32>>,
    y: Vec<f32>,
}

impl Data {
    fn new(n: usize, samples_of_each: u64) -> Self {
        let x: Vec<f32> = (0..n).map(|i| words(0, i)[0] as f32 / u32::MAX as f32 - 0.5).collect();
        let y = x.iter().enumerate().map(|(i, &x)| {
            let [_, a, b, _] = words(0, i);
            (target(f64::from(x)) + 0.1 * normal_pair(a, b)[0]) as f32
        });
        Self { y: y.collect(), z: (1..=samples_of_each).map(|k| samples(&x, k)).collect(), x }
    }

    fn fit(&self, options: &InvarianceOptions) -> Result<InvariantFunction> {
        let z: Vec<_> = self.z.iter().map(|z| rows(z)).collect();
        let data = Virtual { rows: rows(&self.x), samples: &z, targets: &self.y };
        quietly(|control| InvariantFunction::fit(options, &data, control))
    }
}

fn rows(x: &[f32]) -> Rows<'_> {
    Rows::single(x, 1).unwrap()
}

fn options() -> InvarianceOptions {
    InvarianceOptions { n_features: Some(64), ..InvarianceOptions::new(Seed(1)) }
}

/// Mean square of E[f(z) | x] − E[y | x] on [−½, ½], the inner mean by a fine grid of the noise.
fn error(f: &InvariantFunction) -> f64 {
    let grid: Vec<f64> = (-40..=40).map(|k| f64::from(k) * 0.1).collect();
    let weights: Vec<f64> = grid.iter().map(|e| (-0.5 * e * e).exp()).collect();
    let mass: f64 = weights.iter().sum();
    let square = |x: f64| {
        let z: Vec<f32> = grid.iter().map(|e| (x + NOISE * e) as f32).collect();
        let values = f.evaluate(rows(&z)).unwrap();
        let mean: f64 = values.iter().zip(&weights).map(|(f, w)| f64::from(*f) * w).sum::<f64>() / mass;
        (mean - target(x)).powi(2)
    };
    (0..=100).map(|i| square(f64::from(i) / 100.0 - 0.5)).sum::<f64>() / 101.0
}

/// One sample of every input is enough, and labels of samples instead (f(z) ≈ y) are an answer to another question.
#[test]
fn the_mean_over_samples_is_the_target() {
    let several = error(&Data::new(4_000, 10).fit(&options()).unwrap());
    let single = Data::new(8_000, 1);
    let one = error(&single.fit(&options()).unwrap());
    let virtual_samples = Data { x: single.z[0].clone(), ..single };
    let other = error(&virtual_samples.fit(&options()).unwrap());
    assert!(several < 0.002 && one < 0.004 && other > 0.04, "{several} {one} {other}");
}

/// Each output is learnt as if it were alone, in its own unit.
#[test]
fn outputs_do_not_meet() {
    let data = Data::new(1_000, 3);
    let fixed = InvarianceOptions {
        bandwidth: Bandwidth::Value(0.2),
        ridge: Some(1e-6),
        dual_ridge: Some(1e-6),
        ..options()
    };
    let alone = data.fit(&fixed).unwrap();
    let y = data.y.iter().flat_map(|&y| [y, 100.0 - 1_000.0 * y]).collect();
    let both = Data { y, ..data }.fit(&fixed).unwrap();
    let grid: Vec<f32> = (0..50).map(|i| i as f32 / 50.0 - 0.5).collect();
    let values = both.evaluate(rows(&grid)).unwrap();
    for (value, f) in values.chunks_exact(2).zip(alone.evaluate(rows(&grid)).unwrap()) {
        assert!(
            (value[0] - f).abs() < 1e-4 && (value[1] - (100.0 - 1_000.0 * f)).abs() < 0.1,
            "{value:?} {f}"
        );
    }
    assert_eq!(both.summary().outputs, 2);
}

/// A function comes out of a file as it went in, and is the same on any number of threads.
#[test]
fn files_and_threads_change_no_bit() {
    let data = Data::new(2_000, 2);
    let f = data.fit(&options()).unwrap();
    let bytes = f.to_bytes().unwrap();
    let again = InvariantFunction::from_bytes(&bytes).unwrap();
    assert_eq!(again.evaluate(rows(&data.x)).unwrap(), f.evaluate(rows(&data.x)).unwrap());
    assert_eq!(again.to_bytes().unwrap(), bytes);
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(|| data.fit(&options()).unwrap().to_bytes().unwrap()), bytes);
    }
    assert_eq!((f.summary().rows, f.summary().samples), (2_000, 2));
}

/// What cannot be learnt from is refused by name.
#[test]
fn bad_input_is_named() {
    let data = || Data::new(40, 2);
    let bad = |change: &dyn Fn(&mut Data)| {
        let mut data = data();
        change(&mut data);
        data.fit(&options()).unwrap_err().to_string()
    };
    assert!(bad(&|data| data.z[1][7] = f32::NAN).contains("the augmenter contains NaN at row 7"));
    assert!(bad(&|data| data.x[3] = f32::INFINITY).contains("X contains inf at row 3"));
    assert!(bad(&|data| data.y[5] = f32::NAN).contains("y contains NaN at row 5"));
    assert!(bad(&|data| data.z.clear()).contains("samples is empty"));
    assert!(bad(&|data| data.z[1].truncate(39)).contains("samples has 39 rows, expected 40"));
    assert!(bad(&|data| data.y.truncate(39)).contains("y has 39 rows, expected 40"));
    let few = Data::new(3, 1).fit(&options()).unwrap_err().to_string();
    assert!(few.contains("four rows"), "{few}");
    let refused = [
        ("bandwidth", InvarianceOptions { bandwidth: Bandwidth::Value(0.0), ..options() }),
        ("n_features", InvarianceOptions { n_features: Some(0), ..options() }),
        ("ridge", InvarianceOptions { ridge: Some(-1.0), ..options() }),
        ("dual_ridge", InvarianceOptions { dual_ridge: Some(f64::NAN), ..options() }),
    ];
    for (name, options) in refused {
        let error = data().fit(&options).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
    let plane: Vec<f32> = vec![0.5; 80];
    let (x, z) = (data().x, Rows::single(&plane, 2).unwrap());
    let data = Virtual { rows: rows(&x), samples: &[z], targets: &x };
    let error = quietly(|control| InvariantFunction::fit(&options(), &data, control)).unwrap_err();
    assert!(error.to_string().contains("expected 1 columns, found 2"), "{error}");
    let f = Data::new(40, 1).fit(&options()).unwrap();
    assert!(f.evaluate(z).is_err() && f.evaluate(rows(&[f32::NAN])).is_err());
}
