//! Streams: what the number of threads, of calls and of files between them must not change, and what a stream learns.
#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::data::Rows;
use riesz::driver::{quietly, run, Control, Minibatches, Phase, Steps};
use riesz::functions::{
    Bandwidth, ColumnScaling, DensityRatio, DensityRatioLoss, DensityRatioOptions, KernelMachine,
    NoveltyDetector, NoveltyOptions, Options, Sample, SolverSpec, Task, Training,
};
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::loss::LossSpec;
use riesz::model::Stored;
use riesz::operator::Evaluation;
use riesz::random::{normal_pair, Address, BlockIndex, Permutation, Seed, Stream};
use riesz::solver::{FunctionalSgdConfig, Schedule, SgdState};
use riesz::space::{Averaged, FeatureExpansion, Function};
use riesz::Error;
use std::ops::Range;

/// First rows that a stream keeps.
const CAPACITY: usize = 8_192;

/// Rows of two columns, a target each, and weights.
#[derive(Clone)]
struct Data {
    x: Vec<f32>,
    y: Vec<f32>,
    w: Option<Vec<f32>>,
}

impl Data {
    fn len(&self) -> usize {
        self.y.len()
    }

    fn rows(&self) -> Rows<'_> {
        Rows::single(&self.x, 2).unwrap()
    }

    fn training(&self) -> Training<'_> {
        self.part(0..self.len())
    }

    fn part(&self, range: Range<usize>) -> Training<'_> {
        Training {
            rows: self.rows().slice(range.clone()),
            targets: &self.y[range.clone()],
            weights: self.w.as_ref().map(|w| &w[range]),
        }
    }

    fn pick(&self, order: impl IntoIterator<Item = usize>) -> Self {
        let order: Vec<usize> = order.into_iter().collect();
        let x = order.iter().flat_map(|&i| [self.x[2 * i], self.x[2 * i + 1]]).collect();
        Self { x, y: order.iter().map(|&i| self.y[i]).collect(), w: None }
    }

    fn fit(&self, options: &Options) -> KernelMachine {
        quietly(|control| KernelMachine::fit(options, &self.training(), control)).unwrap()
    }
}

/// Four standard normal numbers for row i.
fn normals(seed: u64, i: usize) -> [f32; 4] {
    let [a, b, c, d] = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
    let ([a, b], [c, d]) = (normal_pair(a, b), normal_pair(c, d));
    [a as f32, b as f32, c as f32, d as f32]
}

/// n rows from N(centre, I).
fn cloud(seed: u64, n: usize, centre: f32) -> Vec<f32> {
    (0..n).flat_map(|i| [centre + normals(seed, i)[0], normals(seed, i)[1]]).collect()
}

/// y = sin 3x₀ + cos 3x₁ + noise of deviation 0.1.
fn curve(seed: u64, n: usize) -> Data {
    let x = cloud(seed, n, 0.0);
    let target = |i: usize| (3.0 * x[2 * i]).sin() + (3.0 * x[2 * i + 1]).cos() + 0.1 * normals(seed, i)[2];
    let y = (0..n).map(target).collect();
    Data { x, y, w: None }
}

/// Three classes by angle: a linear function cannot tell them apart.
fn sectors(seed: u64, n: usize) -> Data {
    let x = cloud(seed, n, 0.0);
    let class = |r: &[f32]| ((r[1].atan2(r[0]) / std::f32::consts::TAU + 0.5) * 6.0).floor() % 3.0;
    let y = x.chunks_exact(2).map(class).collect();
    Data { x, y, w: None }
}

/// Everything given, and few features: no comparisons, cheap steps.
fn plain(task: Task) -> Options {
    Options {
        solver: SolverSpec::Stream,
        bandwidth: Bandwidth::Value(1.0),
        scaling: ColumnScaling::None,
        ridge: Some(1e-5),
        block_size: Some(64),
        max_blocks: Some(2),
        batch_size: 256,
        ..Options::new(task, Seed(7))
    }
}

fn regression() -> Options {
    plain(Task::Regression(1))
}

/// The ways to stream: by default, as published, as published with an average.
fn ways() -> [Options; 3] {
    let published = Options { theta: Some(20.0), delay: Some(20.0), ..regression() };
    [regression(), published.clone(), Options { averaging: Some(1.0), max_blocks: Some(30), ..published }]
}

fn begin(options: &Options, data: &Training<'_>) -> KernelMachine {
    quietly(|control| KernelMachine::begin(options, data, control)).unwrap()
}

fn go_on(machine: &mut KernelMachine, data: &Training<'_>) {
    quietly(|control| machine.partial_fit(data, control)).unwrap();
}

/// A stream of `data` in calls of `size` rows.
fn stream(options: &Options, data: &Data, size: usize) -> KernelMachine {
    let n = data.len();
    let mut machine = begin(options, &data.part(0..size.min(n)));
    for start in (size..n).step_by(size) {
        go_on(&mut machine, &data.part(start..n.min(start + size)));
    }
    machine
}

/// Mean squared error over the variance of the targets.
fn unexplained(machine: &KernelMachine, data: &Data) -> f64 {
    let n = data.len() as f64;
    let predictions = machine.predict(data.rows()).unwrap();
    let mean = data.y.iter().map(|&y| f64::from(y)).sum::<f64>() / n;
    let spread: f64 = data.y.iter().map(|&y| (f64::from(y) - mean).powi(2)).sum();
    predictions.iter().zip(&data.y).map(|(p, y)| f64::from(p - y).powi(2)).sum::<f64>() / spread
}

/// Share of rows that are put in the wrong class.
fn mistakes(machine: &KernelMachine, data: &Data) -> f64 {
    let found = machine.classes_of(data.rows()).unwrap();
    found.iter().zip(&data.y).filter(|(k, y)| **k as f32 != **y).count() as f64 / data.len() as f64
}

// ------------------------------------------------------------------------------------- kernel machines: same bits

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let data = curve(1, CAPACITY + 700);
    let with = |threads: usize, work: &(dyn Fn() -> Vec<u8> + Sync)| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
    };
    for options in ways() {
        let work = || stream(&options, &data, 3_000).to_bytes().unwrap();
        let one = with(1, &work);
        assert!([2, 3].into_iter().all(|threads| with(threads, &work) == one), "{options:?}");
    }
    // After a fit by blocks.
    let work = || {
        let mut machine = data.pick(0..500).fit(&Options { solver: SolverSpec::Block, ..regression() });
        go_on(&mut machine, &data.part(500..1_500));
        machine.to_bytes().unwrap()
    };
    let one = with(1, &work);
    assert!([2, 3].into_iter().all(|threads| with(threads, &work) == one));
}

/// While the first rows are kept, while rows wait for a batch, and after: a file in between changes nothing.
#[test]
fn a_stream_goes_on_from_its_file_to_the_same_bytes() {
    let data = curve(2, CAPACITY + 1_500);
    let stages = [0..300, 300..450, 450..1_000, 1_000..CAPACITY + 100, CAPACITY + 100..CAPACITY + 1_500];
    let fitted = data.pick(0..300).fit(&Options { solver: SolverSpec::Block, ..regression() });
    let begun = ways().map(|options| begin(&options, &data.part(stages[0].clone())));
    for mut machine in begun.into_iter().chain([fitted]) {
        for range in &stages[1..] {
            let mut copy = KernelMachine::from_bytes(&machine.to_bytes().unwrap()).unwrap();
            go_on(&mut machine, &data.part(range.clone()));
            go_on(&mut copy, &data.part(range.clone()));
            assert!(copy.to_bytes().unwrap() == machine.to_bytes().unwrap(), "{range:?}");
        }
    }
}

/// From the rows on that settle everything, the same rows lead to the same bytes in however many calls they come.
#[test]
fn calls_of_any_size_lead_to_the_same_bytes() {
    let data = curve(3, CAPACITY + 2_000);
    let bytes = |size| stream(&regression(), &data, size).to_bytes().unwrap();
    let whole = bytes(data.len());
    assert!([1, 50, 500].into_iter().all(|size| bytes(size) == whole));
}

/// Before that a stream lags behind its rows by half of them at most: calls of one row are as good as calls of 500 up to what half of
/// the rows are worth.
#[test]
fn small_calls_learn_as_well_as_large_ones() {
    let (data, fresh) = (curve(4, 3_000), curve(5, 2_000));
    let [one, fifty, many] =
        [1, 50, 500].map(|size| unexplained(&stream(&regression(), &data, size), &fresh));
    let half = unexplained(&begin(&regression(), &data.part(0..1_500)), &fresh);
    println!("one {one:.4}, fifty {fifty:.4}, many {many:.4}, half {half:.4}");
    assert!([one, fifty, many].into_iter().all(|left| left < 1.1 * half));
}

/// After a fit a call moves f by as much as its rows say, not by a whole step for every call.
#[test]
fn calls_after_a_fit_move_f_as_far_in_however_many_they_come() {
    let (data, fresh) = (curve(6, 1_600), curve(7, 2_000));
    let options = Options { solver: SolverSpec::Block, max_blocks: Some(6), ..regression() };
    let fitted = data.pick(0..600).fit(&options);
    let before = unexplained(&fitted, &fresh);
    let after = [1, 50, 1_000].map(|size| {
        let mut machine = fitted.clone();
        (600..1_600).step_by(size).for_each(|start| go_on(&mut machine, &data.part(start..start + size)));
        assert_eq!(machine.summary().blocks, 6);
        unexplained(&machine, &fresh)
    });
    println!("before {before:.4}, after {after:.4?}");
    assert!(after.iter().all(|left| *left < before && (left / after[2] - 1.0).abs() < 0.1));
}

/// With θ it is `FunctionalSgd` and nothing else: the same blocks, the same steps, the same bits.
#[test]
fn theta_is_the_published_algorithm() {
    // Rows in pairs x, −x, so that their mean is zero and columns stay as they are.
    let half = cloud(8, 500, 0.0);
    let x: Vec<f32> = half.chunks_exact(2).flat_map(|r| [r[0], r[1], -r[0], -r[1]]).collect();
    let y: Vec<f32> = x.chunks_exact(2).map(|r| f32::from(r[0] * r[1] > 0.0)).collect();
    let data = Data { x, y, w: None };
    let options = Options {
        theta: Some(8.0),
        delay: Some(3.0),
        ridge: Some(0.01),
        loss: Some(LossSpec::Logistic),
        max_blocks: None,
        ..plain(Task::Classification(2))
    };
    let machine = begin(&options, &data.training());

    let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 64, Seed(7), Scaling::identity(2)).unwrap();
    let loss = LossSpec::Logistic.build(2).unwrap();
    let signs: Vec<f32> = data.y.iter().map(|y| 2.0 * y - 1.0).collect();
    let weights = vec![1.0; data.len()];
    let offset = loss.stream_start(&signs, &weights);
    let mut state = SgdState::new(FeatureExpansion::new(map, offset));
    let config = FunctionalSgdConfig { schedule: Schedule::Inverse { theta: 8.0, delay: 3.0 }, ridge: 0.01 };
    let solver = config.build(Evaluation, &*loss).unwrap();
    let mut batches = Minibatches::new(data.rows(), &signs, &weights, 256, None);
    let mut steps = Steps::passes(Phase::Stream, 1, 4);
    quietly(|control| run(&solver, &mut state, &mut batches, &mut steps, control)).unwrap();

    let mut expected = vec![0.0; data.len()];
    state.f.average().evaluate(data.rows(), &mut expected).unwrap();
    assert_eq!(machine.summary().blocks, 4);
    assert_eq!(machine.decision(data.rows()).unwrap(), expected);
    assert!(mistakes(&machine, &data) < 0.3);
}

/// The budget of features holds in every way of streaming, and learning goes on at it.
#[test]
fn the_budget_of_blocks_is_kept() {
    let (data, fresh) = (curve(9, 4_000), curve(10, 1_000));
    for options in ways() {
        let first = begin(&options, &data.part(0..1_000));
        let last = stream(&options, &data, 1_000);
        let Options { max_blocks, block_size, .. } = options;
        assert!(last.summary().features <= max_blocks.unwrap() * block_size.unwrap());
        let [first, last] = [first, last].map(|machine| unexplained(&machine, &fresh));
        assert!(last < first, "{first} -> {last}: {options:?}");
    }
    // A fit stopped below its budget is filled up to it; one above keeps what it has.
    for (fit, most) in [(2, 3), (4, 3)] {
        let options = Options { solver: SolverSpec::Block, max_blocks: Some(fit), ..regression() };
        let machine = data.pick(0..500).fit(&options);
        assert_eq!(machine.summary().blocks, fit);
        let mut machine = with_budget(&machine, most);
        go_on(&mut machine, &data.part(500..2_000));
        assert_eq!(machine.summary().blocks, fit.max(most));
    }
}

/// The same machine with another `max_blocks`.
fn with_budget(machine: &KernelMachine, most: usize) -> KernelMachine {
    let mut container = machine.to_container().unwrap();
    let mut header: serde_json::Value = container.field("machine").unwrap();
    header["options"]["max_blocks"] = most.into();
    container.set_field("machine", &header).unwrap();
    KernelMachine::from_container(container).unwrap()
}

// --------------------------------------------------------------------------------------- kernel machines: learning

#[test]
fn the_unit_of_the_targets_changes_nothing() {
    let data = curve(11, 1_000);
    let positive = Data { y: data.y.iter().map(|y| (0.5 * y).exp()).collect(), ..data.clone() };
    let cases = [
        (LossSpec::Square, &data),
        (LossSpec::Absolute, &data),
        (LossSpec::Quantile { levels: vec![0.1, 0.9] }, &data),
        (LossSpec::Poisson, &positive),
    ];
    for (loss, data) in cases {
        for theta in [None, Some(2.0)] {
            let options = Options { loss: Some(loss.clone()), theta, ..regression() };
            let predict = |unit: f32| {
                let scaled = Data { y: data.y.iter().map(|y| unit * y).collect(), ..data.clone() };
                stream(&options, &scaled, 400).predict(data.rows()).unwrap()
            };
            let plain = predict(1.0);
            // A power of two is exact, but for the logarithm of the unit of a rate. Otherwise rounding decides now and then whether a step
            // is halved, where the loss has a kink: the mean difference stays below the noise.
            let power = 20.0_f32.exp2();
            let exact = if loss == LossSpec::Poisson { 1e-3 } else { 1e-6 };
            for (unit, bound) in [(1.0 / power, exact), (power, exact), (1e-6, 0.1), (1e6, 0.1)] {
                let off = predict(unit).iter().zip(&plain).map(|(p, q)| (p / unit - q).powi(2)).sum::<f32>();
                let off = (off / plain.len() as f32).sqrt();
                assert!(off < bound, "{loss} {theta:?} in units of {unit}: {off}");
            }
        }
    }
}

#[test]
fn a_second_pass_improves() {
    let (data, fresh) = (curve(12, 10_000), curve(13, 2_000));
    // Steps on few rows leave noise behind; what the first 8,192 rows settle is solved exactly.
    let patient = Options { batch_size: 1_024, ..regression() };
    for options in [patient, ways()[2].clone()] {
        let after = |passes| unexplained(&data.fit(&Options { passes, ..options.clone() }), &fresh);
        let [one, two] = [1, 2].map(after);
        println!("one pass {one:.5}, two {two:.5}");
        assert!(two < one, "{one} -> {two}");
    }
    let (data, fresh) = (sectors(12, 10_000), sectors(13, 4_000));
    let after = |passes| {
        let options = Options { passes, batch_size: 512, ..plain(Task::Classification(3)) };
        mistakes(&data.fit(&options), &fresh)
    };
    let [one, two] = [1, 2].map(after);
    println!("one pass {one:.4}, two {two:.4}");
    assert!(two < one, "{one} -> {two}");
}

/// Rows of weight zero are not there. A weight of two is a row twice, exactly (up to rounding) for the rows that settle everything;
/// later batches have as many rows, whatever these weigh, and both streams end near each other.
#[test]
fn weights_count_rows() {
    let (data, fresh) = (curve(14, 9_000), curve(15, 2_000));
    let weights: Vec<usize> = (0..data.len()).map(|i| i % 3).collect();
    let weighted = Data { w: Some(weights.iter().map(|&w| w as f32).collect()), ..data.clone() };
    let heavy: Vec<usize> = (0..data.len()).filter(|&i| weights[i] > 0).collect();
    let mut without = data.pick(heavy.iter().copied());
    without.w = Some(heavy.iter().map(|&i| weights[i] as f32).collect());
    let repeated = |n: usize| data.pick((0..n).flat_map(|i| vec![i; weights[i]]));

    let bytes = |data: &Data| stream(&regression(), data, data.len()).to_bytes().unwrap();
    assert!(bytes(&weighted) == bytes(&without));

    let first = begin(&regression(), &weighted.part(0..2_000)).predict(fresh.rows()).unwrap();
    let twice = begin(&regression(), &repeated(2_000).training()).predict(fresh.rows()).unwrap();
    let off = first.iter().zip(&twice).fold(0.0, |a: f32, (p, q)| a.max((p - q).abs()));
    assert!(off < 1e-3, "{off}");

    let weighted = unexplained(&stream(&regression(), &weighted, 1_000), &fresh);
    let repeated = unexplained(&stream(&regression(), &repeated(9_000), 1_000), &fresh);
    assert!((weighted / repeated - 1.0).abs() < 0.1, "{weighted} {repeated}");
}

/// One class after the other. `fit` shuffles; calls in that order are learnt from anew while the first rows are kept; past these
/// the last class is only learnt from by steps, which costs accuracy but not the other classes.
#[test]
fn rows_in_the_order_of_their_classes_are_learnt() {
    let fresh = sectors(17, 2_000);
    let options = plain(Task::Classification(3));
    let sorted = |n| {
        let data = sectors(16, n);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&i, &j| data.y[i].total_cmp(&data.y[j]));
        data.pick(order)
    };
    for n in [4_000, 12_000] {
        let data = sorted(n);
        let order = Permutation::new(Seed(1), Stream::Shuffle, BlockIndex(0), n);
        let mixed = data.pick(order.indices().iter().map(|&i| i as usize));
        let errors = [data.fit(&options), stream(&options, &data, 500), stream(&options, &mixed, 500)]
            .map(|machine| mistakes(&machine, &fresh));
        println!("{n} rows: fit {:.3}, in order {:.3}, mixed {:.3}", errors[0], errors[1], errors[2]);
        let [fit, order, mixed] = errors;
        assert!(fit < mixed + 0.02 && order < mixed + 0.15, "{errors:?}");
    }
}

// ---------------------------------------------------------------------------------------- kernel machines: errors

/// A call that is refused leaves the stream as it was; one that is cancelled leaves one that goes on.
#[test]
fn a_refused_call_changes_nothing() {
    let data = curve(18, 900);
    let classes = sectors(19, 900);
    let narrow =
        Training { rows: Rows::single(&data.x[..50], 1).unwrap(), targets: &data.y[..50], weights: None };
    let refused = |machine: &KernelMachine, data: &Training<'_>, expected: &str| {
        let mut copy = machine.clone();
        let error = quietly(|control| copy.partial_fit(data, control)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(copy.to_bytes().unwrap() == machine.to_bytes().unwrap(), "{expected}");
    };
    for options in ways() {
        let machine = begin(&options, &data.part(0..300));
        refused(&machine, &narrow, "2 columns");
        refused(&machine, &data.part(0..0), "X");
        let mut broken = data.pick(0..10);
        broken.x[3] = f32::NAN;
        refused(&machine, &broken.training(), "X");
        refused(&machine, &Training { targets: &[f32::INFINITY], ..data.part(0..1) }, "y");
        refused(&machine, &Training { targets: &data.y[..3], ..data.part(0..2) }, "y");
        refused(&machine, &Training { weights: Some(&[-1.0]), ..data.part(0..1) }, "sample_weight");

        let mut machine = machine;
        let stopped = machine.partial_fit(&data.part(300..700), &mut Control::new(&mut || true, &mut |_| {}));
        if options.theta.is_none() {
            assert!(matches!(stopped, Err(Error::Cancelled { .. })), "{stopped:?}");
        }
        let mut copy = KernelMachine::from_bytes(&machine.to_bytes().unwrap()).unwrap();
        go_on(&mut copy, &data.part(700..900));
        assert!(copy.predict(data.rows()).unwrap().iter().all(|p| p.is_finite()));
    }
    let machine = begin(&plain(Task::Classification(3)), &classes.part(0..300));
    refused(&machine, &Training { targets: &[3.0], ..classes.part(0..1) }, "class");
    let wild = Options { theta: Some(1e30), ..regression() };
    let error = quietly(|control| KernelMachine::begin(&wild, &data.training(), control)).unwrap_err();
    assert!(matches!(error, Error::Diverged { .. }), "{error}");
}

// --------------------------------------------------------------------------------------------------------- novelty

fn detector(options: &NoveltyOptions, x: &[f32], size: usize) -> NoveltyDetector {
    let mut calls = x.chunks(2 * size).map(|call| Rows::single(call, 2).unwrap());
    let first = calls.next().unwrap();
    let mut found = quietly(|control| NoveltyDetector::begin(options, first, None, control)).unwrap();
    calls.for_each(|rows| quietly(|control| found.partial_fit(rows, None, control)).unwrap());
    found
}

/// Share of pairs of a usual and a far row that the scores put in order.
fn area_under_curve(detector: &NoveltyDetector) -> f64 {
    let scores = |x: &[f32]| detector.scores(Rows::single(x, 2).unwrap()).unwrap();
    let usual = scores(&cloud(31, 1_000, 0.0));
    let far = scores(&cloud(32, 500, 0.0).iter().map(|x| 2.5 * x).collect::<Vec<_>>());
    let below = |u: &f32| usual.iter().filter(|v| u < v).count();
    far.iter().map(below).sum::<usize>() as f64 / (usual.len() * far.len()) as f64
}

/// A stream separates as the fit to all rows does, and the share of fresh rows below its offset is what was asked for.
#[test]
fn a_stream_of_novelty_is_near_the_fit_to_all_rows() {
    let x = cloud(30, 14_000, 0.0);
    let fresh = cloud(33, 4_000, 0.0);
    for (nu, contamination) in [(0.5, None), (0.1, None), (0.2, Some(0.05))] {
        let options = NoveltyOptions { nu, contamination, features: 128, ..NoveltyOptions::new(Seed(1)) };
        let rows = Rows::single(&x, 2).unwrap();
        let batch = quietly(|control| NoveltyDetector::fit(&options, rows, None, control)).unwrap();
        let wanted = contamination.unwrap_or(nu);
        for size in [300, 2_000] {
            let stream = detector(&options, &x, size);
            let scores = stream.scores(Rows::single(&fresh, 2).unwrap()).unwrap();
            let below = scores.iter().filter(|s| f64::from(**s) < stream.offset()).count() as f64 / 4_000.0;
            // Four deviations of the share of fresh rows, and as many of that of the rows the offset is from.
            let bound = 4.0 * (wanted * (1.0 - wanted) * (1.0 / 4_000.0 + 1.0 / 14_000.0)).sqrt();
            let areas = [&stream, &batch].map(area_under_curve);
            println!("ν {nu}, {size} rows a call: {below:.4} of {wanted} ± {bound:.4}, areas {areas:.4?}");
            assert!((below - wanted).abs() < bound, "{below} of {wanted} ± {bound}");
            assert!(areas[0] > areas[1] - 0.01, "{areas:?}");
        }
    }
}

/// A file in between changes nothing; calls of one row and of 700 lead to the same detector once the first rows are complete.
#[test]
fn a_detector_goes_on_from_its_file_and_in_calls_of_any_size() {
    let x = cloud(34, CAPACITY + 2_100, 0.0);
    let options = NoveltyOptions { features: 64, nu: 0.2, ..NoveltyOptions::new(Seed(2)) };
    let mut machine = detector(&options, &x[..600], 300);
    for call in x[600..].chunks(2 * 1_900) {
        let mut copy = NoveltyDetector::from_bytes(&machine.to_bytes().unwrap()).unwrap();
        let rows = Rows::single(call, 2).unwrap();
        for detector in [&mut machine, &mut copy] {
            quietly(|control| detector.partial_fit(rows, None, control)).unwrap();
        }
        assert!(copy.to_bytes().unwrap() == machine.to_bytes().unwrap());
    }
    let [one, many] = [1, 700].map(|size| detector(&options, &x, size));
    let scores = |detector: &NoveltyDetector| detector.scores(Rows::single(&x, 2).unwrap()).unwrap();
    assert_eq!((scores(&one), one.offset()), (scores(&many), many.offset()));
}

#[test]
fn what_a_stream_of_novelty_refuses() {
    let x = cloud(35, 100, 0.0);
    let found = detector(&NoveltyOptions { features: 64, ..NoveltyOptions::new(Seed(2)) }, &x, 100);
    let refused = |rows: Rows<'_>, weights: Option<&[f32]>| {
        let mut copy = found.clone();
        let error = quietly(|control| copy.partial_fit(rows, weights, control)).unwrap_err();
        assert!(copy.to_bytes().unwrap() == found.to_bytes().unwrap());
        error.to_string()
    };
    assert!(refused(Rows::single(&x, 1).unwrap(), None).contains("2 columns"));
    assert!(refused(Rows::single(&[], 2).unwrap(), None).contains("X"));
    assert!(refused(Rows::single(&[f32::NAN, 0.0], 2).unwrap(), None).contains("X"));
    let two = Rows::single(&x[..4], 2).unwrap();
    assert!(refused(two, Some(&[0.0, 0.0])).contains("sample_weight"));
    assert!(refused(two, Some(&[1.0])).contains("sample_weight"));
}

// --------------------------------------------------------------------------------------------------- density ratios

fn sample(x: &[f32]) -> Sample<'_> {
    Sample { rows: Rows::single(x, 2).unwrap(), weights: None }
}

/// Calls of `n` rows of N((1, 0), I) and as many of N(0, I), `count` times.
fn ratio(options: &DensityRatioOptions, n: usize, count: usize) -> DensityRatio {
    let (p, q) = (cloud(41, n * count, 1.0), cloud(42, n * count, 0.0));
    let mut calls = p.chunks(2 * n).zip(q.chunks(2 * n)).map(|(p, q)| (sample(p), sample(q)));
    let (p, q) = calls.next().unwrap();
    let mut found = quietly(|control| DensityRatio::begin(options, p, q, control)).unwrap();
    calls.for_each(|(p, q)| quietly(|control| found.partial_fit(p, q, control)).unwrap());
    found
}

/// Root mean square error of the log ratio, which is x₀ − ½, at rows of both samples.
fn error(found: &DensityRatio) -> f64 {
    let x = [cloud(43, 1_000, 1.0), cloud(44, 1_000, 0.0)].concat();
    let values = found.log_ratio(Rows::single(&x, 2).unwrap()).unwrap();
    let square = values.iter().zip(x.chunks_exact(2)).map(|(f, r)| f64::from(f - r[0] + 0.5).powi(2));
    (square.sum::<f64>() / 2_000.0).sqrt()
}

#[test]
fn a_stream_of_two_samples_finds_their_ratio() {
    for loss in [DensityRatioLoss::Logistic, DensityRatioLoss::Kl, DensityRatioLoss::LeastSquares] {
        let options = DensityRatioOptions {
            loss,
            block_size: Some(128),
            max_blocks: 2,
            ..DensityRatioOptions::new(Seed(3))
        };
        let stream = ratio(&options, 500, 12);
        let (p, q) = (cloud(41, 6_000, 1.0), cloud(42, 6_000, 0.0));
        let batch = quietly(|control| DensityRatio::fit(&options, sample(&p), sample(&q), control)).unwrap();
        let [streamed, fitted] = [&stream, &batch].map(error);
        let kl = stream.held_out_divergences().unwrap().kl;
        println!("{loss:?}: stream {streamed:.3}, fit {fitted:.3}, KL {kl:.3}");
        assert!(streamed < 2.0 * fitted + 0.05, "{streamed} {fitted}");
        // KL = ½, at 500 rows of each sample before they were learnt from: four deviations of 1/√500.
        assert!((kl - 0.5).abs() < 0.18, "{kl}");
    }
}

/// First rows, later ones and a fit: a file in between changes nothing.
#[test]
fn a_ratio_goes_on_from_its_file_to_the_same_bytes() {
    let options =
        DensityRatioOptions { block_size: Some(128), max_blocks: 2, ..DensityRatioOptions::new(Seed(4)) };
    let (p, q) = (cloud(45, 4_600, 1.0), cloud(46, 9_000, 0.0));
    let fitted = quietly(|c| DensityRatio::fit(&options, sample(&p[..600]), sample(&q[..600]), c)).unwrap();
    let begun = quietly(|c| DensityRatio::begin(&options, sample(&p[..600]), sample(&q[..600]), c)).unwrap();
    assert!(begun.held_out_divergences().is_none() && fitted.held_out_divergences().is_some());
    let calls = [(&p[600..800], &q[600..1_000]), (&p[800..], &q[1_000..17_000]), (&p[..300], &q[17_000..])];
    for mut machine in [fitted, begun] {
        let before = error(&machine);
        for (p, q) in calls {
            let mut copy = DensityRatio::from_bytes(&machine.to_bytes().unwrap()).unwrap();
            for ratio in [&mut machine, &mut copy] {
                quietly(|control| ratio.partial_fit(sample(p), sample(q), control)).unwrap();
            }
            assert!(copy.to_bytes().unwrap() == machine.to_bytes().unwrap());
        }
        let after = error(&machine);
        println!("{before} -> {after}");
        assert!(after < before, "{before} -> {after}");
    }
}

#[test]
fn what_a_stream_of_ratios_refuses() {
    let options =
        DensityRatioOptions { block_size: Some(128), max_blocks: 1, ..DensityRatioOptions::new(Seed(4)) };
    let found = ratio(&options, 100, 1);
    let x = cloud(47, 10, 0.0);
    let refused = |p: Sample<'_>, q: Sample<'_>| {
        let mut copy = found.clone();
        let error = quietly(|control| copy.partial_fit(p, q, control)).unwrap_err();
        assert!(copy.to_bytes().unwrap() == found.to_bytes().unwrap());
        error.to_string()
    };
    let narrow = Sample { rows: Rows::single(&x, 1).unwrap(), weights: None };
    assert!(refused(narrow, sample(&x)).contains("columns"));
    assert!(refused(narrow, narrow).contains("2 columns"));
    assert!(refused(sample(&x), sample(&[])).contains("X_denominator"));
    assert!(refused(sample(&x[..2]), sample(&x)).contains("X_numerator"));
    assert!(refused(sample(&[f32::NAN; 4]), sample(&x)).contains("X_numerator"));
}
