//! NORMA: regret, budgets, files, errors.

#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{Bandwidth, ColumnScaling, Memory, OnlineMachine, OnlineOptions, Task, Training};
use riesz::loss::LossSpec;
use riesz::model::Stored;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::space::Budget;
use riesz::Error;

const BANDWIDTH: f64 = 0.5;

/// f* = Σ_j c_j k(z_j, ·), four terms.
fn best(x: &[f32]) -> f64 {
    let terms = [(0.3, 0.8, 1.0), (-0.5, 0.2, -1.5), (0.7, -0.6, 0.8), (-0.2, -0.7, 1.2)];
    let squares = |a: f64, b: f64| (f64::from(x[0]) - a).powi(2) + (f64::from(x[1]) - b).powi(2);
    terms.iter().map(|(a, b, c)| c * (-squares(*a, *b) / (2.0 * BANDWIDTH * BANDWIDTH)).exp()).sum()
}

/// Rows uniform on [−1, 1]², targets f* plus normal noise of deviation 0.3.
fn stream(seed: u64, n: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for i in 0..n {
        let words = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
        let point = [words[0], words[1]].map(|w| (2.0 * uniform_open(w) - 1.0) as f32);
        y.push((best(&point) + 0.3 * normal_pair(words[2], words[3])[0]) as f32);
        x.extend(point);
    }
    (x, y)
}

fn options(budget: Budget) -> OnlineOptions {
    OnlineOptions {
        bandwidth: Bandwidth::Value(BANDWIDTH),
        scaling: ColumnScaling::None,
        step: 2.0,
        adaptive: false,
        ridge: 0.0,
        memory: Memory::Dictionary(budget),
        ..OnlineOptions::new(Task::Regression(1), Seed(1))
    }
}

fn learn(options: &OnlineOptions, x: &[f32], y: &[f32]) -> riesz::Result<OnlineMachine> {
    let data = Training { rows: Rows::single(x, 2)?, targets: y, weights: None };
    quietly(|control| OnlineMachine::begin(options, &data, control))
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = logs.len() as f64;
    let (x, y) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let covariance: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    covariance / logs.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

/// Regret O(√T) with γ_t = η/√t (lecture §8), against the f* that made the targets; the mean of ten streams.
#[test]
fn regret_grows_no_faster_than_the_root_of_time() {
    let times = [256, 512, 1_024, 2_048, 4_096];
    let mean = |t: usize| {
        let regret = |seed: u64| {
            let (x, y) = stream(seed, t);
            let machine = learn(&options(Budget::Unlimited), &x, &y).unwrap();
            let values: Vec<f32> = x.chunks(2).map(|x| best(x) as f32).collect();
            let data = Training { rows: Rows::single(&x, 2).unwrap(), targets: &y, weights: None };
            machine.regret(&data, &values).unwrap()
        };
        (0..10).map(regret).sum::<f64>() / 10.0
    };
    let points: Vec<(f64, f64)> = times.iter().map(|&t| (t as f64, mean(t))).collect();
    let growth = slope(&points);
    assert!(points.iter().all(|p| p.1 > 0.0) && growth < 0.6, "{growth:.2}: {points:?}");
    // A learner that stood still would pay in proportion to the time: the slope of its regret is one.
    let constant = options(Budget::Oldest(1));
    let stuck = |t: usize| {
        let (x, y) = stream(3, t);
        let machine = learn(&OnlineOptions { step: 1e-6, ..constant.clone() }, &x, &y).unwrap();
        let values: Vec<f32> = x.chunks(2).map(|x| best(x) as f32).collect();
        let data = Training { rows: Rows::single(&x, 2).unwrap(), targets: &y, weights: None };
        (t as f64, machine.regret(&data, &values).unwrap())
    };
    let standing = slope(&times.map(stuck));
    assert!(standing > 0.9, "{standing}");
}

#[test]
fn the_budget_is_never_exceeded_and_learning_goes_on() {
    let (x, y) = stream(5, 3_000);
    for budget in [Budget::Oldest(100), Budget::Smallest(100)] {
        let mut machine = learn(&options(budget), &x[..200], &y[..100]).unwrap();
        for start in (100..3_000).step_by(100) {
            let rows = Rows::single(&x[2 * start..2 * start + 200], 2).unwrap();
            let data = Training { rows, targets: &y[start..start + 100], weights: None };
            quietly(|control| machine.learn(&data, control)).unwrap();
            assert!(machine.dictionary().unwrap().len() <= 100, "{budget:?}");
        }
        assert_eq!(machine.steps(), 3_000);
        let predicted = machine.predict(Rows::single(&x, 2).unwrap()).unwrap();
        let off: f64 = x.chunks(2).zip(&predicted).map(|(x, p)| (best(x) - f64::from(*p)).powi(2)).sum();
        let size: f64 = x.chunks(2).map(|x| best(x).powi(2)).sum();
        assert!(off < 0.5 * size, "{budget:?}: {off} of {size}");
    }
}

/// Learning in two calls, with a file between them, has the bits of one call.
#[test]
fn a_file_in_the_middle_changes_nothing() {
    let (x, y) = stream(6, 700);
    let options = OnlineOptions { ridge: 0.05, ..options(Budget::Smallest(60)) };
    let half = 350;
    let first = learn(&options, &x[..2 * half], &y[..half]).unwrap();
    let mut again = OnlineMachine::from_bytes(&first.to_bytes().unwrap()).unwrap();
    let mut straight = first.clone();
    let rest =
        Training { rows: Rows::single(&x[2 * half..], 2).unwrap(), targets: &y[half..], weights: None };
    for machine in [&mut again, &mut straight] {
        quietly(|control| machine.learn(&rest, control)).unwrap();
    }
    assert_eq!(again.to_bytes().unwrap(), straight.to_bytes().unwrap());
}

/// The unit of the targets is that of the predictions, and of nothing else.
#[test]
fn units_do_not_matter() {
    let (x, y) = stream(7, 400);
    let at = |factor: f32, loss: LossSpec| {
        let y: Vec<f32> = y.iter().map(|y| factor * y).collect();
        let options = OnlineOptions { loss: Some(loss), ..options(Budget::Oldest(200)) };
        learn(&options, &x, &y).unwrap().predict(Rows::single(&x, 2).unwrap()).unwrap()
    };
    for loss in [LossSpec::Square, LossSpec::Absolute] {
        let plain = at(1.0, loss.clone());
        for factor in [1e-6_f32, 1e6] {
            for (p, q) in plain.iter().zip(at(factor, loss.clone())) {
                assert!((p - q / factor).abs() < 2e-3, "{loss}, {factor}: {p} vs {}", q / factor);
            }
        }
    }
}

#[test]
fn classes_are_told_apart_and_have_probabilities() {
    let (x, _) = stream(8, 1_500);
    let y: Vec<f32> = x.chunks(2).map(|p| f32::from(u8::from(p[0].hypot(p[1]) < 0.6))).collect();
    let task = OnlineOptions { task: Task::Classification(2), ..options(Budget::Oldest(500)) };
    let machine = learn(&task, &x, &y).unwrap();
    let p = machine.probabilities(Rows::single(&x, 2).unwrap()).unwrap();
    let right = p.chunks(2).zip(&y).filter(|(p, y)| (p[1] > 0.5) == (**y == 1.0)).count();
    assert!(right > 1_400, "{right} of 1,500");
    let margins = OnlineOptions { loss: Some(LossSpec::Hinge), ..task };
    let error = learn(&margins, &x, &y).unwrap().probabilities(Rows::single(&x, 2).unwrap()).unwrap_err();
    assert!(error.to_string().contains("margins"), "{error}");
}

#[test]
fn bad_settings_and_data_are_refused_by_name() {
    let (x, y) = stream(9, 20);
    let with = |change: &dyn Fn(&mut OnlineOptions)| {
        let mut options = options(Budget::Oldest(5));
        change(&mut options);
        learn(&options, &x, &y).unwrap_err().to_string()
    };
    assert!(with(&|o| o.step = 0.0).contains("step"));
    assert!(with(&|o| o.ridge = -1.0).contains("ridge"));
    assert!(with(&|o| o.memory = Memory::Dictionary(Budget::Oldest(0))).contains("budget"));
    assert!(with(&|o| o.loss = Some(LossSpec::Hinge)).contains("classification"));
    let machine = learn(&options(Budget::Oldest(5)), &x, &y).unwrap();
    let wide = [0.0; 3];
    let error = machine.predict(Rows::single(&wide, 3).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Columns { expected: 2, found: 3 }), "{error}");
    let data = Training { rows: Rows::single(&x, 2).unwrap(), targets: &y, weights: None };
    assert!(matches!(machine.regret(&data, &[0.0; 3]), Err(Error::RowCount { what: "values", .. })));
}
