//! Small data and learnt metrics as users meet them.
#![allow(clippy::unwrap_used)]

use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{KernelMachine, MetricSpec, Options, SolverSpec, Task, Training};
use riesz::loss::LossSpec;
use riesz::model::{Container, Stored};
use riesz::random::{normal_pair, Address, BlockIndex, Seed, Stream};

const COLUMNS: usize = 10;

/// y = sin 2x₂ + x₇ of ten normal columns; for classes its sign.
fn two_of_ten(n: usize, classes: bool) -> (Vec<f32>, Vec<f32>) {
    let normal = |i: usize, j: usize| {
        let words = Address::new(Seed(9), Stream::Synthetic, BlockIndex(j as u64), i as u32).words(0);
        normal_pair(words[0], words[1])[0]
    };
    let x: Vec<f32> = (0..n * COLUMNS).map(|k| normal(k / COLUMNS, k % COLUMNS) as f32).collect();
    let target = |row: &[f32]| (2.0 * row[2]).sin() + row[7];
    let y = x.chunks_exact(COLUMNS).map(target);
    let y = y.map(|y| if classes { f32::from(u8::from(y > 0.0)) } else { y }).collect();
    (x, y)
}

fn fit(options: &Options, x: &[f32], y: &[f32], weights: Option<&[f32]>) -> KernelMachine {
    let data = Training { rows: Rows::single(x, COLUMNS).unwrap(), targets: y, weights };
    quietly(|control| KernelMachine::fit(options, &data, control)).unwrap()
}

fn task(classes: bool) -> Task {
    if classes {
        Task::Classification(2)
    } else {
        Task::Regression(1)
    }
}

/// The metric finds the two columns that matter, of few rows and, by blocks, of many.
#[test]
fn a_metric_finds_the_columns_that_matter() {
    let (auto, block) = (SolverSpec::Auto, SolverSpec::Block);
    for (n, classes, solver) in [
        (300, false, auto),
        (400, true, auto),
        (2_400, false, auto),
        (2_400, true, auto),
        (2_400, false, block),
    ] {
        let (x, y) = two_of_ten(n, classes);
        let mut options = Options { solver, ..Options::new(task(classes), Seed(1)) };
        let fit_with = |options: &Options| fit(options, &x, &y, None).summary();
        let summary = fit_with(&options);
        assert_eq!(summary.exact, solver == auto);
        let importances = summary.importances.unwrap();
        assert!((importances.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        let share = importances[2] + importances[7];
        assert!(share > 0.8, "{n} rows: {importances:?}");
        options.metric = MetricSpec::None;
        let plain = fit_with(&options);
        assert!(plain.metric.is_none() && plain.importances.is_none());
        let best = |history: &[riesz::functions::HistoryEntry]| {
            history.iter().filter_map(|e| e.held_out_loss).fold(f64::INFINITY, f64::min)
        };
        assert!(best(&summary.history) < 0.8 * best(&plain.history), "{n} rows");
    }
}

/// Weights are repeated rows, and the number of threads changes no bit.
#[test]
fn weights_repeat_rows_and_threads_change_nothing() {
    for classes in [false, true] {
        let (x, y) = two_of_ten(160, classes);
        let options = Options::new(task(classes), Seed(2));
        let weights: Vec<f32> = (0..160).map(|i| (i % 3) as f32).collect();
        let rows: Vec<usize> = (0..160).rev().flat_map(|i| std::iter::repeat_n(i, i % 3)).collect();
        let repeated: Vec<f32> = rows.iter().flat_map(|&i| &x[i * COLUMNS..][..COLUMNS]).copied().collect();
        let labels: Vec<f32> = rows.iter().map(|&i| y[i]).collect();
        let bytes = |machine: KernelMachine| machine.to_container().unwrap().to_bytes().unwrap();
        let weighted = bytes(fit(&options, &x, &y, Some(&weights)));
        assert!(weighted == bytes(fit(&options, &repeated, &labels, None)));
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(weighted == bytes(pool.install(|| fit(&options, &x, &y, Some(&weights)))), "{threads}");
        }
    }
}

/// A file brings back expansion and metric; one whose metric is of other columns is refused.
#[test]
fn expansions_and_metrics_are_stored() {
    let (x, y) = two_of_ten(200, false);
    let machine = fit(&Options::new(Task::Regression(1), Seed(3)), &x, &y, None);
    assert!(machine.metric().is_some() && machine.summary().exact);
    let mut container = machine.to_container().unwrap();
    let bytes = container.to_bytes().unwrap();
    let again = KernelMachine::from_container(Container::from_bytes(&bytes).unwrap()).unwrap();
    let rows = Rows::single(&x, COLUMNS).unwrap();
    assert_eq!(again.predict(rows).unwrap(), machine.predict(rows).unwrap());
    assert_eq!(again.metric(), machine.metric());
    container.insert("metric.root", vec![3, 3], vec![0.0_f32; 9]).unwrap();
    assert!(KernelMachine::from_container(container).is_err());
    let wrong = Rows::single(&x, COLUMNS / 2).unwrap();
    assert!(machine.predict(wrong).unwrap_err().to_string().contains("columns"));
}

/// A stream goes on from an expansion: what it knew is still there after the first rows more.
#[test]
fn a_stream_goes_on_from_an_expansion() {
    let (x, y) = two_of_ten(400, false);
    let mut machine = fit(&Options::new(Task::Regression(1), Seed(4)), &x, &y, None);
    let rows = Rows::single(&x, COLUMNS).unwrap();
    let before = machine.predict(rows).unwrap();
    let data = Training { rows: rows.slice(0..20), targets: &y[..20], weights: None };
    quietly(|control| machine.partial_fit(&data, control)).unwrap();
    assert!(!machine.summary().exact);
    let after = machine.predict(rows).unwrap();
    let square = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
    assert!(square(&before, &after) < 0.05 * square(&y, &vec![0.0; 400]), "{}", square(&before, &after));
}

/// Every loss is fitted by an expansion, and by blocks where that is asked for.
#[test]
fn all_losses_are_fitted_and_blocks_are_still_there() {
    let (x, y) = two_of_ten(120, true);
    for name in LossSpec::names(true).chain(LossSpec::names(false)) {
        let loss: LossSpec = name.parse().unwrap();
        let kind = task(loss.is_classification());
        let mut options = Options { loss: Some(loss), ..Options::new(kind, Seed(5)) };
        options.metric = MetricSpec::None;
        let summary = fit(&options, &x, &y, None).summary();
        assert!(summary.exact && summary.blocks == 1 && summary.features == 120, "{name}");
        assert!(summary.history[0].held_out_loss.unwrap().is_finite(), "{name}");
    }
    let mut options = Options::new(Task::Classification(2), Seed(5));
    options.solver = SolverSpec::Block;
    let blocks = fit(&options, &x, &y, None).summary();
    assert!(!blocks.exact && blocks.loss == LossSpec::Softmax && blocks.blocks > 1);
    options.solver = SolverSpec::Auto;
    options.max_blocks = Some(2);
    assert_eq!(fit(&options, &x, &y, None).summary().blocks, 2);
}
