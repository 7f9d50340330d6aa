//! What is done with arbitrary bytes: by the libFuzzer targets beside this file, and by the fixed fuzzer in
//! `crates/riesz/tests/fuzz`, which counts what is allocated until a reader returns.
//!
//! A reader returns nothing for bytes that it refuses. For others it returns what is done with the contents: they are used,
//! written and read again.

use riesz::data::reader::{read_bytes, read_member_bytes, Dataset, ReadOptions, TargetColumn};
use riesz::data::Rows;
use riesz::distributions::kde::KernelDensity;
use riesz::distributions::models::lda::TopicModel;
use riesz::distributions::models::sparse_gp::SparseProcess;
use riesz::distributions::models::{Family, GeneralisedLinear};
use riesz::distributions::{adaptive, AdaptiveOptions, Posterior};
use riesz::driver::{quietly, CheckpointPolicy, Control};
use riesz::dynamics::hitting_time::HittingTime;
use riesz::dynamics::invariance::InvariantFunction;
use riesz::dynamics::policy_evaluation::{Arguments, PolicyEvaluation, Successors};
use riesz::dynamics::sbeed::{Form, Options as AgentOptions, Sbeed};
use riesz::functions::{
    Bandwidth, ColumnScaling, DensityRatio, GaussianProcess, KernelMachine, MetricSpec, NoveltyDetector,
    OnlineMachine, Options, Task, Training,
};
use riesz::model::{Container, Stored};
use riesz::random::Seed;
use riesz::Error;
use std::path::PathBuf;
use std::time::Duration;

/// What is done with contents that were read.
pub type Use = Box<dyn FnOnce()>;
/// Reads bytes.
pub type Reader = fn(&[u8]) -> Option<Use>;

/// Every reader by the name of its seeds and of its libFuzzer target.
pub const READERS: [(&str, Reader); 24] = [
    ("container", container),
    ("model", model),
    ("gaussian_process", gaussian_process),
    ("sparse_gaussian_process", sparse_gaussian_process),
    ("novelty", novelty),
    ("online", online),
    ("density_ratio", density_ratio),
    ("posterior", posterior),
    ("kernel_density", kernel_density),
    ("topics", topics),
    ("policy_evaluation", policy_evaluation),
    ("hitting_time", hitting_time),
    ("invariance", invariance),
    ("sbeed", sbeed),
    ("checkpoint", checkpoint),
    ("sweeps_checkpoint", sweeps_checkpoint),
    ("posterior_checkpoint", posterior_checkpoint),
    ("csv", csv),
    ("libsvm", libsvm),
    ("npy", npy),
    ("npz", npz),
    ("idx", idx),
    ("gz", gz),
    ("parquet", parquet),
];

/// Any file of the library.
pub fn container(bytes: &[u8]) -> Option<Use> {
    let container = Container::from_bytes(bytes).ok()?;
    // Names of columns may be refused; they are looked at by whoever predicts.
    let _ = container.columns();
    Some(Box::new(move || {
        let written = container.to_bytes().expect("what was read can be written");
        let again = Container::from_bytes(&written).expect("what was written can be read");
        // Byte for byte rather than by value: NaN differs from itself.
        assert_eq!(written, again.to_bytes().expect("what was read can be written"));
    }))
}

/// A model that was read can be used, written and read again.
fn stored<T: Stored + 'static>(bytes: &[u8], work: fn(&T)) -> Option<Use> {
    let model = T::from_bytes(bytes).ok()?;
    Some(Box::new(move || {
        work(&model);
        let written = model.to_bytes().expect("a model that was read can be written");
        assert!(T::from_bytes(&written).is_ok(), "a model that was written can be read");
    }))
}

/// Two rows of so many columns.
fn with_rows(columns: usize, work: impl FnOnce(Rows<'_>)) {
    let values: Vec<f32> = (0..2 * columns).map(|i| 0.25 * (i % 7) as f32).collect();
    work(Rows::single(&values, columns).expect("two rows"));
}

/// A kernel machine.
pub fn model(bytes: &[u8]) -> Option<Use> {
    stored::<KernelMachine>(bytes, |machine| {
        with_rows(machine.summary().columns, |rows| {
            let _ = (machine.predict(rows), machine.probabilities(rows), machine.classes_of(rows));
        });
    })
}

/// A Gaussian process.
pub fn gaussian_process(bytes: &[u8]) -> Option<Use> {
    stored::<GaussianProcess>(bytes, |process| {
        with_rows(process.columns(), |rows| {
            drop((process.mean(rows), process.marginals(rows), process.joint(rows)))
        });
    })
}

/// A sparse Gaussian process.
pub fn sparse_gaussian_process(bytes: &[u8]) -> Option<Use> {
    stored::<SparseProcess>(bytes, |process| {
        with_rows(process.columns(), |rows| drop((process.marginals(rows), process.joint(rows))));
    })
}

/// A novelty detector.
pub fn novelty(bytes: &[u8]) -> Option<Use> {
    stored::<NoveltyDetector>(bytes, |detector| {
        with_rows(detector.columns(), |rows| drop(detector.scores(rows)))
    })
}

/// An online kernel machine.
pub fn online(bytes: &[u8]) -> Option<Use> {
    stored::<OnlineMachine>(bytes, |machine| {
        with_rows(machine.columns(), |rows| {
            drop((machine.predict(rows), machine.probabilities(rows)));
            let (Task::Regression(count) | Task::Classification(count)) = machine.options().task;
            let classes = matches!(machine.options().task, Task::Classification(_));
            // A file may ask for any number of targets; those that a machine has are few.
            if classes || count <= machine.outputs() {
                let targets = vec![1.0; 2 * if classes { 1 } else { count }];
                let mut copy = machine.clone();
                let _ = quietly(|control| {
                    copy.learn(&Training { rows, targets: &targets, weights: None }, control)
                });
            }
        });
    })
}

/// A density ratio.
pub fn density_ratio(bytes: &[u8]) -> Option<Use> {
    stored::<DensityRatio>(bytes, |ratio| with_rows(ratio.summary().columns, |rows| drop(ratio.ratio(rows))))
}

/// A posterior.
pub fn posterior(bytes: &[u8]) -> Option<Use> {
    stored::<Posterior>(bytes, |posterior| {
        let density = posterior.draw(1, Seed(0)).map(|point| posterior.log_density(&point));
        drop((posterior.moments(), density, posterior.resample(3, Seed(0))));
    })
}

/// A kernel density.
pub fn kernel_density(bytes: &[u8]) -> Option<Use> {
    stored::<KernelDensity>(bytes, |density| {
        with_rows(density.summary().columns, |rows| drop(density.log_density(rows)));
    })
}

/// A topic model.
pub fn topics(bytes: &[u8]) -> Option<Use> {
    stored::<TopicModel>(bytes, |topics| {
        with_rows(topics.summary().columns, |rows| drop((topics.transform(rows), topics.components())));
    })
}

/// An evaluated policy.
pub fn policy_evaluation(bytes: &[u8]) -> Option<Use> {
    stored::<PolicyEvaluation>(bytes, |evaluation| {
        with_rows(evaluation.summary().state_columns, |rows| {
            let zeros = [0.0; 2];
            let policy = match evaluation.arguments() {
                Arguments::State => Successors::Unknown,
                _ => Successors::Actions(Rows::single(&zeros, 1).expect("two actions")),
            };
            let _ = (evaluation.value(rows, policy), evaluation.standard_errors(rows, policy));
            let _ = evaluation.estimate(Some((rows, policy)), 0.9);
        });
    })
}

/// Hitting times.
pub fn hitting_time(bytes: &[u8]) -> Option<Use> {
    stored::<HittingTime>(bytes, |chain| drop((chain.expected(0, 0), chain.stationary().len())))
}

/// An invariant function.
pub fn invariance(bytes: &[u8]) -> Option<Use> {
    stored::<InvariantFunction>(bytes, |f| with_rows(f.summary().columns, |rows| drop(f.evaluate(rows))))
}

/// A control agent: it acts, and begins to learn from what it remembers.
pub fn sbeed(bytes: &[u8]) -> Option<Use> {
    stored::<Sbeed>(bytes, |agent| {
        let mut agent = agent.clone();
        let seen = vec![0.5; agent.columns()];
        let _ = (agent.predict(&seen, None), agent.values(&seen), agent.act(&seen));
        // As many steps and features as a file may ask for are no fault of it.
        let AgentOptions { policy, value, dual, .. } = agent.options();
        let few = |form: &Form| match form {
            Form::Features { count, .. } => *count <= 256,
            Form::Network { hidden } => hidden.iter().all(|size| *size <= 256),
        };
        let steps = [value.sweeps, dual.sweeps, value.descent.0, dual.descent.0];
        if steps.iter().all(|steps| *steps <= 30) && [policy, &value.form, &dual.form].into_iter().all(few) {
            let _ = agent.learn(0.0, &mut Control::new(&mut || true, &mut |_| {}));
        }
    })
}

/// The file of a checkpoint, one for every thread; in memory where there is a folder, since a disk takes longer than all else.
fn file_of(bytes: &[u8]) -> PathBuf {
    let name = format!("riesz-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
    let memory = PathBuf::from("/dev/shm");
    let path = if memory.is_dir() { memory } else { std::env::temp_dir() }.join(name);
    std::fs::write(&path, bytes).expect("the folder of temporary files can be written");
    path
}

/// Goes on from a checkpoint until the first step is done, and says whether it was accepted.
fn resumed<T>(bytes: &[u8], fit: impl FnOnce(&mut Control<'_>) -> riesz::Result<T>) -> Option<Use> {
    let path = file_of(bytes);
    let (mut cancelled, mut observe) = (|| true, |_: &_| {});
    let mut control = Control::new(&mut cancelled, &mut observe);
    control.checkpoint = Some(CheckpointPolicy { path: path.clone(), every: Duration::from_secs(3_600) });
    let outcome = fit(&mut control);
    // Removed already where the fit has finished.
    let _ = std::fs::remove_file(path);
    match outcome {
        Ok(_) | Err(Error::Cancelled { .. }) => Some(Box::new(|| {})),
        Err(_) => None,
    }
}

/// The fit whose checkpoints are read.
pub fn fit(control: &mut Control<'_>) -> riesz::Result<KernelMachine> {
    let mut options = Options::new(Task::Regression(1), Seed(1));
    (options.bandwidth, options.scaling) = (Bandwidth::Value(1.0), ColumnScaling::None);
    (options.block_size, options.max_blocks, options.early_stopping) = (Some(64), Some(3), false);
    let x: Vec<f32> = (0..48).map(|i| 0.1 * (i * i % 17) as f32).collect();
    let y: Vec<f32> = x.chunks_exact(2).map(|x| x[0] - x[1]).collect();
    KernelMachine::fit(
        &options,
        &Training { rows: Rows::single(&x, 2)?, targets: &y, weights: None },
        control,
    )
}

/// The fit by sweeps whose checkpoints are read.
pub fn sweep(control: &mut Control<'_>) -> riesz::Result<KernelMachine> {
    let x: Vec<f32> = (0..2_000).map(|i| (i * i % 1_999) as f32 / 1_999.0).collect();
    let y: Vec<f32> = x.iter().map(|x| (6.0 * x).sin()).collect();
    let mut options = Options::new(Task::Regression(1), Seed(1));
    (options.bandwidth, options.scaling) = (Bandwidth::Value(0.2), ColumnScaling::None);
    (options.metric, options.ridge) = (MetricSpec::None, Some(1e-3));
    KernelMachine::fit(
        &options,
        &Training { rows: Rows::single(&x, 1)?, targets: &y, weights: None },
        control,
    )
}

/// The posterior whose checkpoints are read.
pub fn follow(control: &mut Control<'_>) -> riesz::Result<Posterior> {
    let x: Vec<f64> = (0..32).map(|i| f64::from(i) / 16.0 - 1.0).collect();
    let y: Vec<f64> = x.iter().map(|x| 1.0 + 2.0 * x).collect();
    let model = GeneralisedLinear::new(Family::Gaussian, &x, 1, &y, 10.0)?;
    let options = AdaptiveOptions { particles: 64, batch: Some(8), ..AdaptiveOptions::new(Seed(1)) };
    adaptive(&model, &options, control)
}

/// A checkpoint of a kernel machine.
pub fn checkpoint(bytes: &[u8]) -> Option<Use> {
    resumed(bytes, fit)
}

/// A checkpoint of a kernel machine that is fitted by sweeps.
pub fn sweeps_checkpoint(bytes: &[u8]) -> Option<Use> {
    resumed(bytes, sweep)
}

/// A checkpoint of a posterior.
pub fn posterior_checkpoint(bytes: &[u8]) -> Option<Use> {
    resumed(bytes, follow)
}

/// Data of this format, with and without a target.
fn data(name: &str, bytes: &[u8]) -> Option<Use> {
    let whole = read_bytes(name, bytes, &ReadOptions::default());
    let last = read_bytes(name, bytes, &ReadOptions { target: TargetColumn::Last, ..ReadOptions::default() });
    let sets: Vec<Dataset> = [whole, last].into_iter().flatten().collect();
    (!sets.is_empty()).then(|| Box::new(move || sets.into_iter().for_each(look)) as Use)
}

/// What was read is finite, and its target has a meaning.
fn look(Dataset { features, target, .. }: Dataset) {
    let rows = features.rows().expect("a table has rows");
    assert!(rows.check_finite("X").is_ok(), "values are finite");
    if let Some(target) = target {
        assert_eq!(target.labels().indices.len(), rows.len());
        let _ = target.guess();
    }
}

/// Delimited text, as it is and under the names of other columns.
pub fn csv(bytes: &[u8]) -> Option<Use> {
    let names = ["b", "a", "1"].map(str::to_owned).to_vec();
    let _ = read_bytes(
        "t.csv",
        bytes,
        &ReadOptions { names, unread: Some("y".into()), ..ReadOptions::default() },
    );
    data("t.csv", bytes)
}

/// LIBSVM text.
pub fn libsvm(bytes: &[u8]) -> Option<Use> {
    data("t.libsvm", bytes)
}

/// A NumPy array.
pub fn npy(bytes: &[u8]) -> Option<Use> {
    data("t.npy", bytes)
}

/// The container of MNIST.
pub fn idx(bytes: &[u8]) -> Option<Use> {
    data("t.idx", bytes)
}

/// A Parquet file.
pub fn parquet(bytes: &[u8]) -> Option<Use> {
    data("t.parquet", bytes)
}

/// Compressed text.
pub fn gz(bytes: &[u8]) -> Option<Use> {
    data("t.csv.gz", bytes)
}

/// A NumPy archive.
pub fn npz(bytes: &[u8]) -> Option<Use> {
    let table = read_member_bytes(bytes, "a").ok()?;
    Some(Box::new(move || look(Dataset { features: table, target: None, unread: None })))
}
