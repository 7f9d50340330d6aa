//! Small files of every kind, from which the changed ones are made.

use crate::readers::{fit, follow, sweep};
use crate::writer::{parquet, Cells, Form as Written};
use parquet::basic::{Compression, ZstdLevel};
use riesz::constraint::ConstraintSpec;
use riesz::data::Rows;
use riesz::distributions::kde::{DensityOptions, KernelDensity, Shape};
use riesz::distributions::models::lda::{LdaMode, LdaOptions, TopicModel};
use riesz::distributions::models::sparse_gp::{Mode, SparseProcess, SparseProcessOptions};
use riesz::distributions::Posterior;
use riesz::driver::{quietly, CheckpointPolicy, Control};
use riesz::dynamics::hitting_time::HittingTime;
use riesz::dynamics::invariance::{InvarianceOptions, InvariantFunction, Virtual};
use riesz::dynamics::policy_evaluation::{
    EvaluationOptions, Functions, Log, Method, PolicyEvaluation, Successors,
};
use riesz::dynamics::sbeed::{Actions, After, Form, Options as SbeedOptions, Sbeed, Steps};
use riesz::functions::{
    Approximation, Bandwidth, DensityRatio, DensityRatioOptions, GaussianProcess, GaussianProcessOptions,
    KernelMachine, Memory, MetricSpec, NoveltyDetector, NoveltyOptions, OnlineMachine, OnlineOptions,
    Options, Sample, SolverSpec, Task, Training,
};
use riesz::loss::LossSpec;
use riesz::model::{Columns, Container, Stored, Values};
use riesz::random::Seed;
use riesz::space::{Budget, Parsimony};
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

type Seeds = Vec<(&'static str, String, Vec<u8>)>;

const SEED: Seed = Seed(7);

/// Target, name and contents of every seed.
pub fn all() -> Seeds {
    let mut seeds = Seeds::new();
    machines(&mut seeds);
    others(&mut seeds);
    distributions(&mut seeds);
    dynamics(&mut seeds);
    checkpoints(&mut seeds);
    data(&mut seeds);
    columns(&mut seeds);
    seeds
}

/// n rows of two columns.
fn values(n: usize) -> Vec<f32> {
    (0..2 * n).map(|i| 0.1 * (i * i % 23) as f32).collect()
}

fn options(task: Task, change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::new(task, SEED);
    (options.bandwidth, options.block_size, options.max_blocks) = (Bandwidth::Value(1.0), Some(64), Some(2));
    change(&mut options);
    options
}

fn machines(seeds: &mut Seeds) {
    let x = values(40);
    let y: Vec<f32> = x.chunks_exact(2).map(|x| x[0] - x[1]).collect();
    let positive: Vec<f32> = y.iter().map(|y| y.abs()).collect();
    let classes = |k: usize| (0..40).map(|i| (i % k) as f32).collect::<Vec<f32>>();
    let cases: [(&str, Options, Vec<f32>); 10] = [
        (
            "expansion",
            options(Task::Regression(1), |o| {
                (o.bandwidth, o.block_size, o.max_blocks) = (Bandwidth::Auto, None, None);
                o.metric = MetricSpec::Diagonal;
            }),
            x.chunks_exact(2).map(|x| (3.0 * x[0]).sin()).collect(),
        ),
        ("regression", options(Task::Regression(1), |_| {}), y.clone()),
        ("two-outputs", options(Task::Regression(2), |_| {}), [y.clone(), y.clone()].concat()),
        ("quantiles", options(Task::Regression(1), |o| o.loss = "quantile=0.1,0.9".parse().ok()), y.clone()),
        ("poisson", options(Task::Regression(1), |o| o.loss = Some(LossSpec::Poisson)), positive.clone()),
        ("binary", options(Task::Classification(2), |o| o.loss = Some(LossSpec::Hinge)), classes(2)),
        ("three", options(Task::Classification(3), |_| {}), classes(3)),
        (
            "product",
            options(Task::Regression(1), |o| {
                o.kernel = Some("laplacian * polynomial(2, 1)".parse().unwrap());
            }),
            y.clone(),
        ),
        (
            "chi-squared",
            options(Task::Regression(1), |o| o.kernel = Some("chi_squared".parse().unwrap())),
            y.clone(),
        ),
        (
            "stream",
            options(Task::Regression(1), |o| {
                (o.solver, o.block_size, o.max_blocks) = (SolverSpec::Stream, Some(64), Some(1));
            }),
            y.clone(),
        ),
    ];
    for (name, options, targets) in cases {
        let data = Training { rows: Rows::single(&x, 2).unwrap(), targets: &targets, weights: None };
        let mut machine = quietly(|control| KernelMachine::fit(&options, &data, control)).unwrap();
        if name == "three" {
            machine.set_class_names(["a", "b", "c"].map(str::to_owned).to_vec()).unwrap();
        }
        let mut container = machine.to_container().unwrap();
        container.set_columns(&Columns::of_numbers(["a".into(), "b".into()], Some("y".into()))).unwrap();
        let bytes = container.to_bytes().unwrap();
        if ["binary", "three"].contains(&name) {
            seeds.push(("container", name.into(), bytes.clone()));
        }
        seeds.push(("model", name.into(), bytes));
    }
    let published = options(Task::Regression(1), |o| {
        (o.solver, o.theta, o.max_blocks) = (SolverSpec::Stream, Some(1.0), Some(2))
    });
    let data = Training { rows: Rows::single(&x, 2).unwrap(), targets: &y, weights: None };
    let machine = quietly(|control| KernelMachine::fit(&published, &data, control)).unwrap();
    seeds.push(("model", "published-stream".into(), machine.to_bytes().unwrap()));
}

fn others(seeds: &mut Seeds) {
    let (x, doubles) = (values(16), values(16).iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
    let (rows, y) =
        (Rows::single(&x, 2).unwrap(), doubles.chunks_exact(2).map(|x| x[0] - x[1]).collect::<Vec<_>>());
    for (name, approximation) in [("exact", Approximation::Exact), ("inducing", Approximation::Inducing)] {
        let options = GaussianProcessOptions {
            approximation,
            inducing: 4,
            neighbours: 2,
            ..GaussianProcessOptions::new(SEED)
        };
        let process = quietly(|control| GaussianProcess::fit(&options, rows, &y, control)).unwrap();
        seeds.push(("gaussian_process", name.into(), process.to_bytes().unwrap()));
    }
    for (name, mode) in [("adaptive", Mode::Adaptive), ("paper", Mode::Paper)] {
        let options = SparseProcessOptions {
            inducing: 4,
            particles: 2,
            batch_size: 8,
            mode,
            ..SparseProcessOptions::new(SEED)
        };
        let process = quietly(|control| SparseProcess::fit(&options, rows, &y, None, control)).unwrap();
        seeds.push(("sparse_gaussian_process", name.into(), process.to_bytes().unwrap()));
    }
    let options = NoveltyOptions { features: 64, ..NoveltyOptions::new(SEED) };
    let detector = quietly(|control| NoveltyDetector::fit(&options, rows, None, control)).unwrap();
    seeds.push(("novelty", "gaussian".into(), detector.to_bytes().unwrap()));
    let (targets, classes): (Vec<f32>, Vec<f32>) =
        (y.iter().map(|&y| y as f32).collect(), (0..16).map(|i| (i % 3) as f32).collect());
    for (name, task, targets) in
        [("regression", Task::Regression(1), &targets), ("three", Task::Classification(3), &classes)]
    {
        let data = Training { rows, targets, weights: None };
        let few = OnlineOptions { memory: Memory::Features(64), ..OnlineOptions::new(task, SEED) };
        let machine = quietly(|control| OnlineMachine::begin(&few, &data, control)).unwrap();
        seeds.push(("online", name.into(), machine.to_bytes().unwrap()));
        let risk = ConstraintSpec::Cvar { level: 0.9, bound: 1.0, loss: None };
        let constrained = OnlineOptions {
            memory: Memory::Dictionary(Budget::Komp { error: Parsimony::Share(0.1), most: 50 }),
            constraints: vec![risk],
            ..OnlineOptions::new(task, SEED)
        };
        let machine = quietly(|control| OnlineMachine::begin(&constrained, &data, control)).unwrap();
        seeds.push(("online", format!("{name}-constrained"), machine.to_bytes().unwrap()));
    }
    let options =
        DensityRatioOptions { block_size: Some(64), max_blocks: 2, ..DensityRatioOptions::new(SEED) };
    let sample = |rows| Sample { rows, weights: None };
    let ratio = quietly(|control| {
        DensityRatio::fit(&options, sample(rows.slice(0..8)), sample(rows.slice(8..16)), control)
    });
    seeds.push(("density_ratio", "gaussian".into(), ratio.unwrap().to_bytes().unwrap()));
    // Samples that differ in one column of three, the others being of no use.
    let noise = |i: usize| (0.731 * (i * i) as f32).sin();
    let x: Vec<f32> = (0..600)
        .flat_map(|i| [noise(3 * i) + 2.0 * (i / 300) as f32, noise(3 * i + 1), noise(3 * i + 2)])
        .collect();
    let rows = Rows::single(&x, 3).unwrap();
    let options =
        DensityRatioOptions { block_size: Some(64), max_blocks: 1, ..DensityRatioOptions::new(SEED) };
    let ratio = quietly(|control| {
        DensityRatio::fit(&options, sample(rows.slice(0..300)), sample(rows.slice(300..600)), control)
    });
    let ratio = ratio.unwrap();
    assert!(ratio.metric().is_some());
    seeds.push(("density_ratio", "metric".into(), ratio.to_bytes().unwrap()));
}

fn distributions(seeds: &mut Seeds) {
    let posterior = quietly(follow).unwrap().to_container().unwrap();
    seeds.push(("posterior", "linear".into(), thinned(posterior).to_bytes().unwrap()));
    // Two groups of particles.
    let positions = (0..32).map(|i| f64::from(i * i % 23) + if i < 16 { 0.0 } else { 200.0 }).collect();
    let groups = Posterior::of_particles(2, positions, vec![0.0; 16], SEED).unwrap();
    seeds.push(("posterior", "groups".into(), groups.to_bytes().unwrap()));
    let (x, weights) = (values(16), vec![1.0; 16]);
    let rows = Rows::single(&x, 2).unwrap();
    for (name, shape) in [("isotropic", Shape::Isotropic), ("covariance", Shape::Covariance)] {
        let options = DensityOptions { shape, ..DensityOptions::default() };
        let density = KernelDensity::fit(&options, rows, Some(&weights)).unwrap();
        seeds.push(("kernel_density", name.into(), density.to_bytes().unwrap()));
    }
    let counts: Vec<f32> = (0..48).map(|i| (i % 3) as f32).collect();
    let rows = Rows::single(&counts, 6).unwrap();
    for (name, mode) in [("adaptive", LdaMode::Adaptive), ("paper", LdaMode::Paper)] {
        let options = LdaOptions { mode, passes: 2, particles: 2, ..LdaOptions::new(3, SEED) };
        let topics = quietly(|control| TopicModel::fit(&options, rows, control)).unwrap();
        seeds.push(("topics", name.into(), topics.to_bytes().unwrap()));
    }
}

fn dynamics(seeds: &mut Seeds) {
    let (x, next) = (values(40), values(41));
    let (rewards, ends): (Vec<f32>, Vec<bool>) = (0..40).map(|i| (0.1 * (i % 7) as f32, i % 8 == 7)).unzip();
    let state: Vec<f32> = (0..40).map(|i| (i % 3) as f32).collect();
    let actions: Vec<f32> = (0..40).map(|i| (i % 2) as f32).collect();
    let half = vec![0.5; 80];
    let few = |method, features| EvaluationOptions {
        method,
        features,
        n_features: Some(if features == Functions::Random { 64 } else { 6 }),
        bandwidth: Bandwidth::Value(1.0),
        n_bootstrap: 20,
        ..EvaluationOptions::new(0.9, SEED)
    };
    let plain = Log {
        states: Rows::single(&x, 2).unwrap(),
        actions: Some(Rows::single(&actions, 1).unwrap()),
        rewards: &rewards,
        next_states: Rows::single(&next[2..], 2).unwrap(),
        terminals: &ends,
        truncations: None,
        discounts: None,
        ratios: None,
        successors: Successors::Unknown,
    };
    let ones = vec![1.0; rewards.len()];
    let weighted = Log { ratios: Some(&ones), ..plain };
    let discrete = Log {
        states: Rows::single(&state, 1).unwrap(),
        next_states: Rows::single(&actions, 1).unwrap(),
        successors: Successors::Probabilities(&half, 2),
        ..plain
    };
    for (name, options, log) in [
        ("atoms", few(Method::DualEmbedding, Functions::Atoms), plain),
        ("random", few(Method::Lstd, Functions::Random), plain),
        ("linear", few(Method::Td, Functions::Linear), plain),
        ("table", few(Method::FittedQ, Functions::Table), discrete),
        ("per-decision", few(Method::PerDecision, Functions::Atoms), weighted),
        (
            "doubly-robust",
            few(Method::DoublyRobust, Functions::Table),
            Log { ratios: Some(&ones), ..discrete },
        ),
    ] {
        let evaluation = quietly(|control| PolicyEvaluation::fit(&options, &log, control)).unwrap();
        seeds.push(("policy_evaluation", name.into(), evaluation.to_bytes().unwrap()));
    }
    let chain = HittingTime::fit(&[0, 1, 2, 1, 0], &[1, 2, 1, 0, 0]).unwrap();
    seeds.push(("hitting_time", "chain".into(), chain.to_bytes().unwrap()));
    let rows = Rows::single(&x, 2).unwrap();
    let options = InvarianceOptions { n_features: Some(6), ..InvarianceOptions::new(SEED) };
    let data = Virtual { rows, samples: &[rows, rows], targets: &rewards };
    let f = quietly(|control| InvariantFunction::fit(&options, &data, control)).unwrap();
    seeds.push(("invariance", "noise".into(), f.to_bytes().unwrap()));
    agents(seeds);
}

/// Agents with features and with networks, numbered actions and columns of them, before and after they have learnt.
fn agents(seeds: &mut Seeds) {
    let few = |form: Form| {
        let mut options = SbeedOptions { environments: 2, capacity: 8, ..SbeedOptions::new(SEED) };
        options.horizon.steps = 3;
        (options.policy, options.value.form, options.dual.form) = (form.clone(), form.clone(), form);
        options
    };
    let pick = Actions::Discrete { count: 2, start: 1 };
    let pull = Actions::Box { low: vec![-1.0], high: vec![2.0] };
    let features = || Form::Features { count: 64, bandwidth: 1.0 };
    let network = || Form::Network { hidden: vec![2] };
    for (name, form, actions, learns) in [
        ("fresh", features(), pick.clone(), false),
        ("discrete", features(), pick, true),
        ("box", features(), pull.clone(), true),
        ("network", network(), pull, true),
    ] {
        let mut agent = Sbeed::new(few(form), 1, actions).unwrap();
        for after in [After::Step, After::End, After::Unseen] {
            let steps = Steps {
                lanes: &[0, 1],
                states: &[0.5, -0.5],
                actions: &[0.0, 1.0],
                log_behaviour: Some(&[-0.5, -0.7]),
                rewards: &[1.0, 0.0],
                next_states: &[0.7, -0.1],
                after: &[after, After::Step],
            };
            agent.observe(&steps).unwrap();
        }
        if learns {
            quietly(|control| agent.learn(0.0, control)).unwrap();
        }
        seeds.push(("sbeed", name.into(), agent.to_bytes().unwrap()));
    }
}

fn checkpoints(seeds: &mut Seeds) {
    /// The checkpoint of a fit that is interrupted when it asks whether to go on for the `steps`-th time.
    fn interrupted<T>(steps: usize, fit: fn(&mut Control<'_>) -> riesz::Result<T>) -> Option<Vec<u8>> {
        let path = std::env::temp_dir().join(format!("riesz-seed-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut asked = 0;
        let mut cancelled = || {
            asked += 1;
            asked > steps
        };
        let mut observe = |_: &_| {};
        let mut control = Control::new(&mut cancelled, &mut observe);
        control.checkpoint = Some(CheckpointPolicy { path: path.clone(), every: Duration::ZERO });
        let _ = fit(&mut control);
        std::fs::read(&path).ok()
    }
    for steps in [2, 3, 4] {
        let files =
            [("checkpoint", interrupted(steps, fit)), ("posterior_checkpoint", interrupted(steps, follow))];
        for (target, bytes) in files {
            let container = bytes.map(|bytes| Container::from_bytes(&bytes).unwrap());
            let container = container.map(|all| if target == "checkpoint" { all } else { thinned(all) });
            let bytes = container.map(|container| container.to_bytes().unwrap());
            seeds.extend(bytes.map(|bytes| (target, format!("{steps}-steps"), bytes)));
        }
    }
    // Nothing is written until the sweeps begin.
    let sweeps = (1..100).filter_map(|steps| interrupted(steps, sweep));
    let named = sweeps
        .take(2)
        .enumerate()
        .map(|(i, bytes)| ("sweeps_checkpoint", format!("{}-sweeps", i + 1), bytes));
    seeds.extend(named);
}

/// A few of the particles, and a few stages: a density through many takes milliseconds.
fn thinned(mut container: Container) -> Container {
    const PARTICLES: usize = 24;
    for (name, tensor) in &mut container.tensors {
        let Values::F64(values) = &mut tensor.values else { continue };
        let (all, width) = (tensor.shape[0], values.len() / tensor.shape[0]);
        let kept = |i: usize| values[i * (all / PARTICLES) * width..][..width].to_vec();
        *values = (0..PARTICLES).flat_map(kept).collect();
        tensor.shape[0] = PARTICLES;
        // Those of a posterior sum to one.
        if name == "log_weights" {
            let total = values.iter().map(|w| w.exp()).sum::<f64>().ln();
            values.iter_mut().for_each(|w| *w -= total);
        }
    }
    if let Some(Value::Array(history)) = container.header.pointer_mut("/report/history") {
        history.drain(1..history.len() - 3);
    }
    container
}

fn data(seeds: &mut Seeds) {
    let mut add = |target, name: &str, bytes: &[u8]| seeds.push((target, name.to_owned(), bytes.to_vec()));
    let csv: [(&str, &str); 5] = [
        ("header", "a,b,y\n1,2,x\n-3.5,4e2,\"y, z\"\n0.25,+1,x\n"),
        ("semicolons", "\u{feff}\"a \"\"q\"\"\";1;b\r\n1;2;3\r\n4;5;6\r\n"),
        ("bare", "# comment\n1 2  3\n4 5\t6\n"),
        ("labels", "x,colour\n1,red\n2,blue\n3,red\n"),
        ("tabs", "1\t2\n3\t4\n\n5\t6"),
    ];
    for (name, text) in csv {
        add("csv", name, text.as_bytes());
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        add("gz", name, &encoder.finish().unwrap());
    }
    add("libsvm", "binary", b"+1 1:0.5 3:2 # note\n-1 qid:2 2:-1e-3\n");
    add("libsvm", "wide", b"a 0:1 1000:1\nb\nc 7:3\n");
    let npy = |descr: &str, order: &str, shape: &str, data: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
    };
    let floats: Vec<u8> = (0..6).flat_map(|i| (0.5 * i as f32).to_le_bytes()).collect();
    let plain = npy("<f4", "False", "(2, 3)", &floats);
    add("npy", "floats", &plain);
    add("npy", "columns", &npy(">i2", "True", "(2, 3)", &[0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]));
    add("npy", "bytes", &npy("|u1", "False", "(2, 2, 2)", &[1, 2, 3, 4, 5, 6, 7, 8]));
    add(
        "idx",
        "images",
        &[&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3][..], &[0, 1, 2, 253, 254, 255]].concat(),
    );
    add("idx", "doubles", &[&[0, 0, 14, 2, 0, 0, 0, 1, 0, 0, 0, 1][..], &1.5_f64.to_be_bytes()].concat());
    for deflated in [false, true] {
        add("npz", if deflated { "deflated" } else { "stored" }, &archive(&plain, deflated));
    }
}

/// An archive with one array, `a`.
fn archive(array: &[u8], deflated: bool) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(array).unwrap();
    let packed = if deflated { encoder.finish().unwrap() } else { array.to_vec() };
    let method = if deflated { [8, 0] } else { [0, 0] };
    let sizes =
        [&[0; 8][..], &(packed.len() as u32).to_le_bytes(), &(array.len() as u32).to_le_bytes(), &[5, 0]]
            .concat();
    let local = [b"PK\x03\x04\x14\0\0\0", &method[..], &sizes, &[0, 0], b"a.npy", &packed].concat();
    let directory = [b"PK\x01\x02\x14\0\x14\0\0\0", &method[..], &sizes, &[0; 16], b"a.npy"].concat();
    let lengths = [(directory.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes()].concat();
    [&local[..], &directory, b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &lengths, &[0, 0]].concat()
}

/// Parquet files: every type, packed and not, with and without a dictionary.
fn columns(seeds: &mut Seeds) {
    let n = 0..20;
    let columns = [
        ("a", Cells::Single(n.clone().map(|i| 0.5 * i as f32).collect())),
        ("b", Cells::Double(n.clone().map(|i| 0.25 * f64::from(i % 3)).collect())),
        ("c", Cells::Long(n.clone().map(i64::from).collect())),
        ("d", Cells::Bool(n.clone().map(|i| i % 2 == 0).collect())),
        ("e", Cells::Optional(n.clone().map(|i| Some(i as f32)).collect())),
        ("y", Cells::Text(n.map(|i| ["one", "two"][i as usize % 2]).collect())),
    ];
    let plain = Written { dictionary: false, group: 12, page: 6, ..Written::default() };
    let forms = [
        ("plain", plain),
        ("dictionary", Written { dictionary: true, ..plain }),
        (
            "snappy",
            Written { compression: Compression::SNAPPY, second_version: true, dictionary: true, ..plain },
        ),
        ("zstd", Written { compression: Compression::ZSTD(ZstdLevel::default()), ..Written::default() }),
        ("lz4", Written { compression: Compression::LZ4_RAW, ..plain }),
    ];
    for (name, form) in forms {
        seeds.push(("parquet", format!("{name}.parquet"), parquet(&columns, form)));
    }
    let numbers = parquet(&columns[..3], plain);
    seeds.push(("parquet", "numbers.parquet".into(), numbers));
}
