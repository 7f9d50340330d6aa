//! Every loss finds the minimiser that it is known for: quantiles, medians, rates, margins.
#![allow(clippy::unwrap_used)]

use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{Bandwidth, KernelMachine, Options, Task, Training};
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::loss::{DensityRatioKl, DensityRatioSquare, Logistic, Loss, LossSpec, Novelty};
use riesz::model::Stored;
use riesz::operator::Evaluation;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::solver::{BlockDescentConfig, FunctionalSgdConfig, Problem, Samples, Schedule, SgdState, Solver};
use riesz::space::{Averaged, Averaging, FeatureExpansion, Function};

/// One column x, uniform on [−1, 1], and a target that is a function of x, a normal number and a uniform one.
struct Data {
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Data {
    fn draw(seed: u64, n: usize, target: impl Fn(f64, f64, f64) -> f64) -> Self {
        let row = |i: usize| {
            let [a, b, c, d] = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
            let x = 2.0 * uniform_open(a) - 1.0;
            (x as f32, target(x, normal_pair(b, c)[0], uniform_open(d)) as f32)
        };
        let (x, y) = (0..n).map(row).unzip();
        Self { x, y }
    }

    fn rows(&self) -> Rows<'_> {
        Rows::single(&self.x, 1).unwrap()
    }

    fn fit_weighted(&self, loss: &str, weights: Option<&[f32]>) -> KernelMachine {
        let options = Options {
            loss: Some(loss.parse().unwrap()),
            bandwidth: Bandwidth::Value(0.5),
            block_size: Some(128),
            ..Options::new(Task::Regression(1), Seed(5))
        };
        let data = Training { rows: self.rows(), targets: &self.y, weights };
        quietly(|control| KernelMachine::fit(&options, &data, control)).unwrap()
    }

    fn fit(&self, loss: &str) -> KernelMachine {
        self.fit_weighted(loss, None)
    }
}

/// Root mean square distance of predictions, output `k` of `c`, from a function of x.
fn distance(machine: &KernelMachine, truth: impl Fn(f64) -> f64, k: usize) -> f64 {
    let grid: Vec<f32> = (0..201).map(|i| 0.95 * (i as f32 / 100.0 - 1.0)).collect();
    let values = machine.predict(Rows::single(&grid, 1).unwrap()).unwrap();
    let c = machine.outputs();
    let square = |(x, row): (&f32, &[f32])| (f64::from(row[k]) - truth(f64::from(*x))).powi(2);
    (grid.iter().zip(values.chunks_exact(c)).map(square).sum::<f64>() / grid.len() as f64).sqrt()
}

/// A count of mean `rate` from a uniform number, by inversion.
fn count(rate: f64, uniform: f64) -> f64 {
    let (mut k, mut mass) = (0.0, (-rate).exp());
    let mut below = mass;
    while below < uniform && k < 1e3 {
        k += 1.0;
        mass *= rate / k;
        below += mass;
    }
    k
}

fn spread(x: f64) -> f64 {
    0.2 + 0.3 * (x + 1.0)
}

/// Noise whose spread grows with x. The share of fresh rows below the quantile τ is τ up to √(τ(1 − τ)(1/n + 1/N)) of
/// n seen and N fresh rows; 4 of these on either half of the rows, and 0.01 for what a dozen degrees of freedom learn by
/// heart. The quantiles themselves: deviation √(τ(1 − τ)·12/n)/(density at τ), three times that.
#[test]
fn quantiles_cover_what_they_should() {
    let heteroscedastic = |x: f64, z: f64, _| (3.0 * x).sin() + spread(x) * z;
    let fresh = Data::draw(2, 8_000, heteroscedastic);
    let levels = [(0.1_f64, -1.281_55_f64), (0.5, 0.0), (0.9, 1.281_55)];
    for n in [1_500, 6_000] {
        let machine = Data::draw(1, n, heteroscedastic).fit("quantile=0.1,0.5,0.9");
        let predictions = machine.predict(fresh.rows()).unwrap();
        for (k, (level, z)) in levels.into_iter().enumerate() {
            for side in [-1.0, 1.0] {
                let rows: Vec<usize> = (0..8_000).filter(|&i| fresh.x[i] * side > 0.0).collect();
                let below = rows.iter().filter(|&&i| fresh.y[i] < predictions[3 * i + k]).count();
                let share = below as f64 / rows.len() as f64;
                let noise = (level * (1.0 - level) * (2.0 / n as f64 + 1.0 / rows.len() as f64)).sqrt();
                println!("{n} rows, level {level}, side {side}: {share}");
                assert!((share - level).abs() < 4.0 * noise + 0.01, "{n} rows, level {level}: {share}");
            }
            let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() / 0.5;
            let deviation = (level * (1.0 - level) * 12.0 / n as f64).sqrt() / density;
            let found = distance(&machine, |x| (3.0 * x).sin() + z * spread(x), k);
            println!("{n} rows, level {level}: {found} off, deviation {deviation}");
            assert!(found < 3.0 * deviation, "{n} rows, level {level}: {found} off");
        }
    }
}

/// Rates e^{1 + sin 3x}: a dozen degrees of freedom leave a relative error of √(12/(n·e)) or so; three times that.
#[test]
fn poisson_finds_the_rate() {
    let rate = |x: f64| (1.0 + (3.0 * x).sin()).exp();
    for n in [800, 5_000] {
        let machine = Data::draw(3, n, |x, _, u| count(rate(x), u)).fit("poisson");
        let expected = (12.0 / (n as f64 * std::f64::consts::E)).sqrt();
        let found = distance(&machine, rate, 0) / std::f64::consts::E;
        println!("{n} rows: relative error {found}, expected {expected}");
        assert!(found < 3.0 * expected, "{n} rows: relative error {found}");
    }
}

/// Rates of a hundredth and of a million are found as well: nothing depends on the unit of time.
#[test]
fn poisson_knows_no_unit_of_time() {
    for scale in [0.02, 1e5] {
        let rate = |x: f64| scale * (0.5 + x).exp();
        // A million draws one by one are a normal number.
        let draw = |x: f64, z: f64, u: f64| match rate(x) {
            rate if rate > 500.0 => (rate + rate.sqrt() * z).round(),
            rate => count(rate, u),
        };
        let machine = Data::draw(4, 4_000, draw).fit("poisson");
        let found = distance(&machine, |x| rate(x) / scale, 0);
        let scaled = distance(&machine, rate, 0) / scale;
        let expected = (6.0 / (4_000.0 * 1.9 * scale)).sqrt();
        println!("rates of {scale}: error {scaled}, expected {expected}");
        assert!(found.is_finite() && scaled < (3.0 * 1.9 * expected).max(0.02), "rates of {scale}: {scaled}");
    }
}

/// A twentieth of the targets is 20 too high. The square loss is drawn up by the mean, 1; the median moves by 0.05/2
/// over the density, 0.006 with noise of 0.1, and Huber's estimate by δ·0.05.
#[test]
fn outliers_hardly_move_robust_losses() {
    let truth = |x: f64| (3.0 * x).sin();
    let contaminated = |x: f64, z: f64, u: f64| truth(x) + 0.1 * z + if u < 0.05 { 20.0 } else { 0.0 };
    for n in [1_000, 4_000] {
        let data = Data::draw(5, n, contaminated);
        let square = distance(&data.fit("square"), truth, 0);
        println!("{n} rows: square {square}");
        assert!(square > 0.8, "{n} rows: square {square}");
        for loss in ["absolute", "huber=0.135", "epsilon_insensitive=0.05"] {
            let found = distance(&data.fit(loss), truth, 0);
            println!("{n} rows: {loss} {found}");
            assert!(found < 0.06, "{n} rows: {loss} {found}");
        }
    }
}

/// Skewed noise tells them apart: mean 1, median log 2, and in between Huber's estimate.
#[test]
fn each_loss_has_its_own_centre() {
    let data = Data::draw(6, 4_000, |x, _, u| x - u.ln());
    for (loss, centre) in [("square", 1.0), ("absolute", 2f64.ln()), ("huber=100", 1.0)] {
        let found = distance(&data.fit(loss), |x| x + centre, 0);
        println!("{loss}: {found} from {centre}");
        // A dozen degrees of freedom of 4,000 rows of deviation one: 0.055.
        assert!(found < 0.12, "{loss}: {found} from {centre}");
    }
}

/// y and 1,000 y + 5 lead to the same function in their units, with lengths in these units too.
#[test]
fn units_of_the_targets_do_not_matter() {
    for n in [500, 2_500] {
        let data = Data::draw(7, n, |x, z, _| (3.0 * x).sin() + 0.2 * z);
        let scaled = Data { x: data.x.clone(), y: data.y.iter().map(|y| 1_000.0 * y + 5.0).collect() };
        for (one, other) in [
            ("absolute", "absolute"),
            ("huber=0.2", "huber=200"),
            ("epsilon_insensitive=0.1", "epsilon_insensitive=100"),
            ("quantile=0.2,0.8", "quantile=0.2,0.8"),
        ] {
            let values = data.fit(one).predict(data.rows()).unwrap();
            let others = scaled.fit(other).predict(data.rows()).unwrap();
            let apart = values.iter().zip(&others).map(|(a, b)| (a - (b - 5.0) / 1_000.0).abs());
            let apart = apart.fold(0.0, f32::max);
            println!("{n} rows: {one} {apart}");
            assert!(apart < 0.02, "{n} rows: {one} {apart} apart");
        }
    }
}

/// Small data: a weight of k is a row given k times, to the last bit, for every loss of regression.
#[test]
fn weights_are_repetitions() {
    let data = Data::draw(8, 120, |x, z, _| ((3.0 * x).sin() + 0.3 * z).exp());
    let weights: Vec<f32> = (0..120).map(|i| (i % 3) as f32).collect();
    let order: Vec<usize> = (0..120).flat_map(|i| std::iter::repeat_n(i, i % 3)).collect();
    let pick = |values: &[f32]| order.iter().map(|&i| values[i]).collect();
    let repeated = Data { x: pick(&data.x), y: pick(&data.y) };
    for loss in LossSpec::names(false) {
        let [weighted, copies] =
            [data.fit_weighted(loss, Some(&weights)), repeated.fit(loss)].map(|m| m.to_bytes().unwrap());
        assert!(weighted == copies, "{loss}");
    }
}

/// Three classes on a line with a tenth of the labels wrong: Crammer and Singer's hinge decides as Bayes would.
#[test]
fn crammer_singer_decides_between_classes() {
    let label = |x: f64, u: f64| ((1.5 * (x + 1.0)) as usize + usize::from(u < 0.1)) % 3;
    for n in [900, 3_000] {
        let (seen, fresh) = (
            Data::draw(9, n, |x, _, u| label(x, u) as f64),
            Data::draw(10, 3_000, |x, _, u| label(x, u) as f64),
        );
        let loss = Some(LossSpec::CrammerSinger);
        let options =
            Options { loss, max_blocks: Some(20), ..Options::new(Task::Classification(3), Seed(1)) };
        let data = Training { rows: seen.rows(), targets: &seen.y, weights: None };
        let machine = quietly(|control| KernelMachine::fit(&options, &data, control)).unwrap();
        let classes = machine.classes_of(fresh.rows()).unwrap();
        let wrong = classes.iter().zip(&fresh.y).filter(|(c, y)| **c as f32 != **y).count() as f64 / 3_000.0;
        println!("{n} rows: {wrong} wrong");
        // A tenth ± 4 deviations of 3,000 rows, and 0.02 at the two borders.
        assert!(wrong < 0.1 + 0.022 + 0.02, "{n} rows: {wrong} wrong");
        let p = machine.probabilities(fresh.rows()).unwrap();
        assert!(p.chunks_exact(3).all(|p| (p.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    }
}

/// Streams take every loss, from nothing and on top of a fit.
#[test]
fn streams_take_every_loss() {
    let truth = |x: f64| 2.0 + (3.0 * x).sin();
    let data = Data::draw(11, 6_000, |x, _, u| count(truth(x), u));
    let data = Training { rows: data.rows(), targets: &data.y, weights: None };
    for loss in LossSpec::names(false).filter(|loss| *loss != "square") {
        let options = Options {
            loss: Some(loss.parse().unwrap()),
            bandwidth: Bandwidth::Value(0.5),
            ridge: Some(1e-2),
            batch_size: 100,
            ..Options::new(Task::Regression(1), Seed(5))
        };
        let mut machine = quietly(|control| KernelMachine::begin(&options, &data, control)).unwrap();
        quietly(|control| machine.partial_fit(&data, control)).unwrap();
        let middle = machine.outputs() / 2;
        let found = distance(&machine, truth, middle);
        println!("{loss}: {found}");
        // The function has deviation 0.7 around a mean of 2, a median is up to 0.3 below the mean of counts.
        assert!(found < 0.6, "{loss}: {found}");
    }
}

/// Rows of two samples in turn and their targets ±1: q is uniform on [−1, 1] and p has the density (1 + x)/2 there, so
/// x = 2√u − 1 and p/q = 1 + x.
fn two_samples() -> (Vec<f32>, Vec<f32>) {
    let draw = |i: usize| {
        let [a, ..] = Address::new(Seed(12), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
        if i.is_multiple_of(2) {
            (2.0 * uniform_open(a) - 1.0, -1.0)
        } else {
            (2.0 * uniform_open(a).sqrt() - 1.0, 1.0)
        }
    };
    (0..8_000).map(draw).map(|(x, y)| (x as f32, y)).unzip()
}

/// Rows of both samples in equal numbers; a dozen degrees of freedom on 4,000 rows leave √(12/4000) = 0.055, three times
/// that.
#[test]
fn density_ratios_are_found() {
    let (x, targets) = two_samples();
    let rows = Rows::single(&x, 1).unwrap();
    let (least_squares, kl): (&dyn Loss, &dyn Loss) = (&DensityRatioSquare, &DensityRatioKl);
    for (loss, ratio) in [(least_squares, (|u| u) as fn(f64) -> f64), (kl, f64::exp)] {
        let problem = Problem { rows, targets: &targets, weights: &[1.0; 8_000], loss };
        let solver = BlockDescentConfig::default().build().unwrap();
        let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 64, Seed(1), Scaling::identity(1)).unwrap();
        let mut state = solver.init(FeatureExpansion::new(map, vec![0.0]), rows).unwrap();
        (0..30).for_each(|_| _ = solver.step(&mut state, &problem).unwrap());
        let error = |(u, x): (&f32, &f32)| (ratio(f64::from(*u)) - f64::from(1.0 + x)).powi(2);
        // Under q, where the ratio is to be known.
        let errors = state.predictions.iter().zip(&x).step_by(2).map(error);
        let found = (errors.sum::<f64>() / 4_000.0).sqrt();
        println!("{}: {found}", loss.name());
        assert!(found < 0.165, "{}: {found}", loss.name());
    }
}

/// A batch of functional gradient descent with steps of γ.
fn descend(state: &mut SgdState<FeatureExpansion>, step: f64, loss: &dyn Loss, x: &[f32], targets: &[f32]) {
    let config = FunctionalSgdConfig { schedule: Schedule::Constant { step }, ridge: 1e-3 };
    let (batch, weights) = (Rows::single(x, 1).unwrap(), vec![1.0; x.len()]);
    let solver = config.build(Evaluation, loss).unwrap();
    solver.step(state, Samples { batch, targets, weights: &weights }).unwrap();
}

fn begin(start: Vec<f32>) -> SgdState<FeatureExpansion> {
    let map = FeatureMap::new(KernelSpec::Gaussian, 0.5, 64, Seed(1), Scaling::identity(1)).unwrap();
    SgdState::new(FeatureExpansion::new(map, start).averaging(Averaging::Power(0.0)))
}

fn values(f: &FeatureExpansion, x: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len() * f.outputs()];
    f.evaluate(Rows::single(x, 1).unwrap(), &mut out).unwrap();
    out
}

/// Unit, start and step size by the loss itself: targets of any size lead to the same function, times that size. One
/// pass leaves less than a third of the deviation 0.7 of the truth; the noise is symmetric, a median up to 0.05 off.
#[test]
fn streams_know_no_unit() {
    let truth = |x: f64| 2.0 + (3.0 * x).sin();
    let data = Data::draw(13, 6_000, |x, z, _| (truth(x) + 0.3 * z).abs());
    let grid: Vec<f32> = (0..41).map(|i| 0.95 * (i as f32 / 20.0 - 1.0)).collect();
    for name in LossSpec::names(false) {
        let found = [1e-6_f64, 1.0, 1e6].map(|size| {
            let default: LossSpec = name.parse().unwrap();
            let given = LossSpec::parameter(name).filter(|_| !default.is_list()).map(|_| [0.5 * size]);
            let spec = LossSpec::new(name, given.as_ref().map(|given| &given[..])).unwrap();
            let column: Vec<(f32, f32)> = data.y[..500].iter().map(|y| (y * size as f32, 1.0)).collect();
            let unit = spec.build(1).unwrap().unit(&column);
            let loss = spec.build_in(&[unit.scale]).unwrap();
            let y: Vec<f32> = data.y.iter().map(|y| unit.scaled(y * size as f32)).collect();
            let start = loss.stream_start(&y[..500], &[1.0; 500]);
            let step = 0.5 / f64::from(loss.step_curvature(&start, 1.0));
            let mut state = begin(start);
            for (x, y) in data.x.chunks(50).zip(y.chunks(50)) {
                descend(&mut state, step, &*loss, x, y);
            }
            let c = loss.outputs();
            let predict = |u: &[f32]| {
                let mut u: Vec<f32> = u.iter().map(|&u| unit.output(f64::from(u)) as f32).collect();
                loss.predict(&mut u);
                f64::from(u[c / 2]) / size
            };
            values(&state.f.average(), &grid).chunks_exact(c).map(predict).collect::<Vec<_>>()
        });
        let distance = |f: &[f64], g: &dyn Fn(usize) -> f64| {
            (f.iter().enumerate().map(|(i, f)| (f - g(i)).powi(2)).sum::<f64>() / f.len() as f64).sqrt()
        };
        let error = distance(&found[1], &|i| truth(f64::from(grid[i])));
        println!("{name}: {error}");
        assert!(error < 0.25, "{name}: {error}");
        for other in [0, 2] {
            let change = distance(&found[other], &|i| found[1][i]);
            assert!(change < 1e-3, "{name}: {change} between sizes");
        }
    }
}

/// The level moves beside the function: a share ν of the rows is below it when they come, and whatever is unlike them.
#[test]
fn novelty_is_streamed() {
    let data = Data::draw(14, 10_000, |_, z, _| z);
    let (mut state, mut novelty, nu) = (begin(vec![0.0]), Novelty { level: 0.0 }, 0.1);
    let mut below = 0;
    for (batch, x) in data.y.chunks(50).enumerate() {
        let u = values(&state.f, x);
        below += u.iter().filter(|u| batch >= 100 && **u < novelty.level).count();
        let next = novelty.moved(&u, &[1.0; 50], 0.2, nu);
        descend(&mut state, 0.2, &novelty, x, &[]);
        novelty = next;
    }
    let share = below as f64 / 5_000.0;
    println!("{share} below {}", novelty.level);
    // By the recursion the mean share is ν less the change of the level over γ times 100 batches: 0.4 at most.
    assert!((share - nu).abs() < 0.02, "{share} below");
    assert!(values(&state.f, &[6.0, -6.0]).iter().all(|u| *u < novelty.level));
    assert!(values(&state.f, &[0.0])[0] > novelty.level);
}

/// Rows of two samples in one stream; f starts at its value for p = q. The ratio itself has deviation 0.58 under q.
#[test]
fn density_ratios_are_streamed() {
    let (x, targets) = two_samples();
    let losses: [&dyn Loss; 3] = [&DensityRatioSquare, &DensityRatioKl, &Logistic];
    let identity: fn(f64) -> f64 = |u| u;
    for (loss, ratio) in losses.into_iter().zip([identity, f64::exp, f64::exp]) {
        let start = loss.start(&targets, &[1.0; 8_000]);
        let step = 0.5 / f64::from(loss.step_curvature(&start, 1.0));
        let mut state = begin(start);
        for (x, y) in x.chunks(50).zip(targets.chunks(50)) {
            descend(&mut state, step, loss, x, y);
        }
        let found = values(&state.f.average(), &x);
        let error = |(u, x): (&f32, &f32)| (ratio(f64::from(*u)) - f64::from(1.0 + x)).powi(2);
        let error = (found.iter().zip(&x).step_by(2).map(error).sum::<f64>() / 4_000.0).sqrt();
        println!("{}: {error}", loss.name());
        assert!(error < 0.2, "{}: {error}", loss.name());
    }
}
