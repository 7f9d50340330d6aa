//! Kernels given by a closure, through every way of fitting and back from a file.
#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::data::Rows;
use riesz::driver::{quietly, CheckpointPolicy, Control, Progress};
use riesz::functions::{
    Bandwidth, ColumnScaling, KernelMachine, Options, RandomFeatures, SolverSpec, Task, Training,
};
use riesz::kernel::{KernelSpec, UserKernel};
use riesz::model::Stored;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::Error;
use std::f64::consts::{SQRT_2, TAU};
use std::time::Duration;

/// √2 cos(ωᵀx/σ + b) with ω normal: the Gaussian kernel.
fn gaussian(name: &str, bandwidth: f64) -> KernelSpec {
    KernelSpec::User(UserKernel::new(name, move |tile, out| {
        let words = |stream, j, lane| Address::new(tile.seed, stream, BlockIndex(0), j).words(lane);
        let (m, d) = (tile.features, tile.columns);
        let normal = |j: u32, i: u32| {
            let [a, b, ..] = words(Stream::Frequency, j, i);
            normal_pair(a, b)[0] / bandwidth
        };
        let omega: Vec<f64> = (0..m as u32)
            .flat_map(|j| (0..d as u32).map(move |i| (j, i)))
            .map(|(j, i)| normal(j, i))
            .collect();
        let phase: Vec<f64> =
            (0..m as u32).map(|j| TAU * uniform_open(words(Stream::Phase, j, 0)[0])).collect();
        for (x, out) in tile.x.chunks_exact(d).zip(out.chunks_exact_mut(m)) {
            for (j, out) in out.iter_mut().enumerate() {
                let turn: f64 = x.iter().zip(&omega[j * d..]).map(|(&x, w)| f64::from(x) * w).sum();
                *out = (SQRT_2 * (turn + phase[j]).cos()) as f32;
            }
        }
        Ok(())
    }))
}

const ROWS: usize = 2_400;

/// Rows on [−1, 1]² and y = sin 3x₀ + x₁² with noise of deviation 0.1.
fn data(seed: u64) -> (Vec<f32>, Vec<f32>) {
    let row = |i: usize| {
        let [a, b, c, d] = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
        let (x, z) = (2.0 * uniform_open(a) - 1.0, 2.0 * uniform_open(b) - 1.0);
        ([x as f32, z as f32], ((3.0 * x).sin() + z * z + 0.1 * normal_pair(c, d)[0]) as f32)
    };
    let (x, y): (Vec<_>, Vec<_>) = (0..ROWS).map(row).unzip();
    (x.concat(), y)
}

fn options(kernel: KernelSpec) -> Options {
    let mut options = Options::new(Task::Regression(1), Seed(3));
    (options.kernel, options.bandwidth) = (Some(kernel), Bandwidth::Value(0.5));
    (options.block_size, options.max_blocks) = (Some(128), Some(4));
    options
}

fn fit(options: &Options) -> riesz::Result<KernelMachine> {
    let (x, y) = data(1);
    let rows = Rows::single(&x, 2).unwrap();
    let training = Training { rows, targets: &y, weights: None };
    quietly(|control| KernelMachine::fit(options, &training, control))
}

fn predictions(machine: &KernelMachine, seed: u64) -> Vec<f32> {
    machine.predict(Rows::single(&data(seed).0, 2).unwrap()).unwrap()
}

/// Root mean square error on fresh rows.
fn error(machine: &KernelMachine) -> f64 {
    let y = data(2).1;
    let total: f64 = predictions(machine, 2).iter().zip(&y).map(|(p, y)| f64::from(p - y).powi(2)).sum();
    (total / ROWS as f64).sqrt()
}

#[test]
fn a_closure_learns_what_the_built_in_kernel_learns() {
    for solver in [SolverSpec::Block, SolverSpec::Ridge, SolverSpec::Stream] {
        let with = |kernel| {
            error(&fit(&Options { solver, ridge: Some(1e-4), batch_size: 128, ..options(kernel) }).unwrap())
        };
        let (own, built_in) = (with(gaussian("own", 0.5)), with(KernelSpec::Gaussian));
        // The noise alone is 0.1; a stream of nineteen steps is farther from done.
        let bound = if solver == SolverSpec::Stream { 0.6 } else { 0.11 };
        assert!(own < bound && (own - built_in).abs() < 0.1 * built_in, "{solver:?}: {own}, {built_in}");
    }
}

#[test]
fn sums_and_products_with_named_kernels_learn_too() {
    let own = || gaussian("own", 0.5);
    let combinations = [
        KernelSpec::Sum(vec![(1.0, own()), (0.5, KernelSpec::Polynomial(2, 1.0))]),
        KernelSpec::Product(vec![own(), KernelSpec::Gaussian]),
    ];
    for kernel in combinations {
        let found = error(&fit(&options(kernel.clone())).unwrap());
        assert!(found < 0.11, "{kernel}: {found}");
    }
}

#[test]
fn threads_change_no_digit() {
    let bytes = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit(&options(gaussian("own", 0.5))).unwrap().to_bytes().unwrap())
    };
    assert_eq!(bytes(1), bytes(3));
}

#[test]
fn a_file_holds_the_name_and_wants_the_function() {
    let kernel = KernelSpec::Sum(vec![(1.0, gaussian("own", 0.5)), (0.5, KernelSpec::Gaussian)]);
    let machine = fit(&options(kernel.clone())).unwrap();
    let path = std::env::temp_dir().join(format!("riesz-user-kernel-{}.riesz", std::process::id()));
    machine.save(&path).unwrap();
    let bare = KernelMachine::load(&path);
    let other = KernelMachine::load_with_kernel(&path, &gaussian("own", 0.5));
    let whole = KernelMachine::load_with_kernel(&path, &kernel);
    std::fs::remove_file(&path).unwrap();
    let bare = bare.unwrap_err();
    assert!(matches!(&bare, Error::KernelMissing { kernel } if kernel == "own"), "{bare}");
    assert!(bare.to_string().contains("load_with_kernel"));
    let other = other.unwrap_err().to_string();
    assert!(other.contains("1 * user(own) + 0.5 * gaussian, not user(own)"), "{other}");
    assert_eq!(predictions(&whole.unwrap(), 2), predictions(&machine, 2));
}

#[test]
fn what_the_function_says_reaches_the_caller() {
    let failing = |m: usize| {
        KernelSpec::User(UserKernel::new("fragile", move |tile, out| {
            out.fill(0.5);
            // Well at first: the probe of the mean square has 256 rows, a tile of the fit 1,024.
            if tile.x.len() / tile.columns > m {
                return Err("the well is dry".into());
            }
            Ok(())
        }))
    };
    for solver in [SolverSpec::Block, SolverSpec::Ridge, SolverSpec::Stream] {
        let settings = Options { solver, ..options(failing(256)) };
        let error = fit(&settings).unwrap_err();
        assert!(matches!(&error, Error::User { kernel, .. } if kernel == "fragile"), "{solver:?}: {error}");
        assert!(error.to_string().contains("the well is dry"));
    }
    let settings = Options { scaling: ColumnScaling::Standard, ..options(failing(0)) };
    assert!(fit(&settings)
        .unwrap_err()
        .to_string()
        .contains("user(fragile) kernel takes columns as they are"));
}

#[test]
fn random_features_are_those_of_the_function() {
    let (x, _) = data(1);
    let rows = Rows::single(&x[..40], 2).unwrap();
    let m = 100;
    let map = RandomFeatures::fit(gaussian("own", 0.5), Bandwidth::Median, m, Seed(1), rows).unwrap();
    let phi = map.transform(rows).unwrap();
    assert_eq!((phi.len(), map.bandwidth()), (20 * m, 1.0));
    assert_eq!(phi, map.transform(rows).unwrap());
    // Products of features have deviations below 1.
    let inner = |a: usize, b: usize| (0..m).map(|j| phi[a * m + j] * phi[b * m + j]).sum::<f32>();
    for b in 0..20 {
        let exact = KernelSpec::Gaussian.evaluate(&x[..2], &x[2 * b..][..2], 0.5).unwrap();
        assert!((f64::from(inner(0, b)) - exact).abs() < 0.5);
    }
}

#[test]
fn a_checkpoint_is_continued_with_the_same_features_or_not_at_all() {
    let (x, y) = data(1);
    let training = Training { rows: Rows::single(&x, 2).unwrap(), targets: &y, weights: None };
    let path = std::env::temp_dir().join(format!("riesz-user-kernel-{}.checkpoint", std::process::id()));
    let run = |bandwidth: f64, stop_after: usize| {
        let mut blocks = 0;
        let counted = std::cell::Cell::new(0);
        let mut observe = |_: &Progress| {
            blocks += 1;
            counted.set(blocks);
        };
        let mut cancelled = || counted.get() >= stop_after;
        let mut control = Control::new(&mut cancelled, &mut observe);
        control.checkpoint = Some(CheckpointPolicy { path: path.clone(), every: Duration::ZERO });
        KernelMachine::fit(&options(gaussian("own", bandwidth)), &training, &mut control)
    };
    assert!(matches!(run(0.5, 3), Err(Error::Cancelled { .. })));
    let error = run(0.8, usize::MAX).unwrap_err();
    assert!(error.to_string().contains("its kernel's features differ"), "{error}");
    let resumed = run(0.5, usize::MAX).unwrap();
    assert_eq!(resumed.to_bytes().unwrap(), fit(&options(gaussian("own", 0.5))).unwrap().to_bytes().unwrap());
}
