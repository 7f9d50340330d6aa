//! E3: policy evaluation in three environments (spec 7; thesis §5.7): navigation, cart-pole swing-up, PUMA-560.
//!
//! One s' for every s: in navigation of states drawn from their law, elsewhere of states that the policy comes to; batches of 20; ten seeds. Two errors at fresh states: the
//! mean squared Bellman error E (E[r + γV(s') − V(s) | s])², whose inner expectation has 100 samples and no bias since two halves
//! of them are multiplied; and the root mean square of V − Vπ, Vπ by simulation, whose own variance is taken off. The two may
//! rank methods differently.
//!
//! V has kernel atoms at 512 states for all methods but GTD2 and the residual gradient, which have 256 random features as in the
//! text; the bandwidth is the one that the closed form chose by held-out transitions. Steps are
//! 0.3/c, c = λ + E‖φ‖²/20 with the largest eigenvalue λ of E[φφᵀ], constant, with the average of the last half; the published
//! form has 2/(c√t) for both functions and the average with these weights. It makes one pass over the transitions, as all do, and, in a row
//! of its own, four. *Centred* steps begin at the constant that solves the equation among constants, others at zero.

use super::common::{Console, Report};
use super::Arguments;
use crate::failure::Outcome;
use crate::plot::LineChart;
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::dynamics::environment::{named, steps_until, Environment, Rollouts, Step, Transitions, NAMES};
use riesz::dynamics::policy_evaluation::{
    EvaluationOptions, Functions, Log, Method, PolicyEvaluation, Successors,
};
use riesz::functions::Bandwidth;
use riesz::random::{BlockIndex, Permutation, Seed, Stream as RandomStream};
use riesz::Error;
use std::fmt::Write;
use std::time::Instant;

/// Samples of the inner expectation.
const INNER: usize = 100;

/// Steps of an episode from which transitions are taken.
const EPISODE: usize = 100;

/// Transitions: independent ones in navigation, as in the text; elsewhere those of episodes under the policy, a hundred steps each, since
/// what the policy comes to is far from any law of states that could be drawn from.
fn transitions(environment: &dyn Environment, n: usize, seed: Seed) -> Outcome<Transitions> {
    if environment.name() == "navigation" {
        return Ok(environment.transitions(n, seed)?);
    }
    let d = environment.state_columns();
    let mut states = environment.reset(n.div_ceil(EPISODE), seed, 0)?;
    let mut all = Transitions::default();
    for t in 0..EPISODE {
        let actions = environment.actions(&states)?;
        let step = environment.step(&states, &actions, seed, t as u64)?;
        all.states.extend_from_slice(&states);
        all.actions.extend_from_slice(&actions);
        all.step.rewards.extend_from_slice(&step.rewards);
        all.step.terminated.extend_from_slice(&step.terminated);
        all.step.next_states.extend_from_slice(&step.next_states);
        states = step.next_states;
    }
    // In random order, so that any number of them are of all times.
    let order = Permutation::new(seed, RandomStream::Shuffle, BlockIndex(1), all.step.rewards.len());
    let order = &order.indices()[..n];
    let rows = |from: &[f64], d: usize| -> Vec<f64> {
        order.iter().flat_map(|&i| &from[i as usize * d..][..d]).copied().collect()
    };
    let step = Step {
        rewards: rows(&all.step.rewards, 1),
        next_states: rows(&all.step.next_states, d),
        terminated: order.iter().map(|&i| all.step.terminated[i as usize]).collect(),
    };
    Ok(Transitions {
        states: rows(&all.states, d),
        actions: rows(&all.actions, environment.action_columns()),
        step,
    })
}

/// States at which values are compared.
struct Test {
    states: Vec<f64>,
    rewards: Vec<f64>,
    next: Vec<f64>,
    values: Vec<f64>,
    /// The mean square of the errors of these values.
    variance: f64,
}

impl Test {
    fn new(environment: &dyn Environment, states: usize, rollouts: usize) -> Outcome<Self> {
        // Far from the seeds that are learnt from.
        let seed = Seed(1 << 40);
        let sampled = transitions(environment, states, seed)?;
        let discount = environment.discount();
        let rollouts = Rollouts { rollouts, steps: steps_until(discount, 1e-4)?, discount, seed };
        let truth = quietly(|control| environment.values(&sampled.states, &rollouts, control))?;
        let variance = truth.standard_errors.iter().map(|e| e * e).sum::<f64>() / states as f64;
        let next = environment.next_states(&sampled.states, INNER, seed)?;
        Ok(Self {
            states: sampled.states,
            rewards: sampled.step.rewards,
            next,
            values: truth.values,
            variance,
        })
    }

    /// The Bellman error and the error of the value.
    fn errors(&self, evaluation: &PolicyEvaluation, d: usize, discount: f64) -> Outcome<[f64; 2]> {
        let value = |rows: &[f64]| evaluation.value(Rows::double(rows, d)?, Successors::Unknown);
        let (own, next) = (value(&self.states)?, value(&self.next)?);
        let half = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let bellman = |(i, v): (usize, &f64)| {
            let (a, b) = next[i * INNER..(i + 1) * INNER].split_at(INNER / 2);
            (self.rewards[i] + discount * half(a) - v) * (self.rewards[i] + discount * half(b) - v)
        };
        let n = own.len() as f64;
        let msbe = own.iter().enumerate().map(bellman).sum::<f64>() / n;
        let square = own.iter().zip(&self.values).map(|(v, truth)| (v - truth).powi(2)).sum::<f64>() / n;
        Ok([msbe, (square - self.variance).max(0.0).sqrt()])
    }

    /// The deviation of V over states.
    fn spread(&self) -> f64 {
        let n = self.values.len() as f64;
        let mean = self.values.iter().sum::<f64>() / n;
        (self.values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
    }
}

/// What is compared.
#[derive(Clone, Copy)]
struct Entry {
    label: &'static str,
    method: Method,
    published: bool,
    centred: bool,
    passes: usize,
}

fn entries() -> [Entry; 12] {
    let entry = |label, method| Entry { label, method, published: false, centred: false, passes: 1 };
    [
        entry("dual embedding (closed form)", Method::DualEmbedding),
        entry("Embedding-SGD", Method::EmbeddingSgd),
        Entry { centred: true, ..entry("Embedding-SGD, centred", Method::EmbeddingSgd) },
        Entry { published: true, ..entry("Embedding-SGD as published", Method::EmbeddingSgd) },
        Entry {
            published: true,
            passes: 4,
            ..entry("Embedding-SGD as published, four passes", Method::EmbeddingSgd)
        },
        entry("LSTD", Method::Lstd),
        entry("TD(0)", Method::Td),
        Entry { centred: true, ..entry("TD(0), centred", Method::Td) },
        entry("kernel MDP", Method::KernelMdp),
        entry("fitted Q evaluation", Method::FittedQ),
        entry("GTD2", Method::Gtd2),
        entry("residual gradient", Method::ResidualGradient),
    ]
}

fn options(entry: Entry, discount: f64, bandwidth: Bandwidth, seed: Seed) -> EvaluationOptions {
    let Entry { method, published, centred, passes, .. } = entry;
    let few = matches!(method, Method::Gtd2 | Method::ResidualGradient);
    EvaluationOptions {
        method,
        published,
        centred,
        passes,
        bandwidth,
        step: if published { 2.0 } else { 0.3 },
        dual_step: if published { 2.0 } else { 0.3 },
        features: if few { Functions::Random } else { Functions::Atoms },
        n_features: few.then_some(256),
        ..EvaluationOptions::new(discount, seed)
    }
}

/// Errors of every method in one environment, at each number of transitions.
struct Course {
    name: String,
    looks: [usize; 2],
    /// By method and number of transitions: Bellman error and error of the value of every run.
    errors: Vec<Vec<[f64; 2]>>,
}

impl Course {
    fn of(&self, method: usize, look: usize, kind: usize) -> impl Iterator<Item = f64> + '_ {
        self.errors[method * self.looks.len() + look].iter().map(move |errors| errors[kind])
    }

    fn mean(&self, method: usize, look: usize, kind: usize) -> f64 {
        self.of(method, look, kind).sum::<f64>() / self.of(method, look, kind).count() as f64
    }

    fn deviation(&self, method: usize, kind: usize) -> f64 {
        let (mean, count) = (self.mean(method, 1, kind), self.of(method, 1, kind).count() as f64);
        (self.of(method, 1, kind).map(|e| (e - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt()
    }

    /// One run: its lines of the table.
    fn run(
        &mut self,
        environment: &dyn Environment,
        test: &Test,
        run: usize,
        arguments: &Arguments,
    ) -> Outcome<String> {
        let (d, discount) = (environment.state_columns(), environment.discount());
        let (seed, mut table) = (Seed(arguments.seed + run as u64), String::new());
        let log = transitions(environment, self.looks[1], seed)?;
        let rewards: Vec<f32> = log.step.rewards.iter().map(|&r| r as f32).collect();
        for (l, count) in self.looks.into_iter().enumerate() {
            let log = Log {
                states: Rows::double(&log.states[..count * d], d)?,
                actions: None,
                rewards: &rewards[..count],
                next_states: Rows::double(&log.step.next_states[..count * d], d)?,
                terminals: &log.step.terminated[..count],
                truncations: None,
                discounts: None,
                ratios: None,
                successors: Successors::Unknown,
            };
            let mut bandwidth = arguments.bandwidth.map_or(Bandwidth::Auto, Bandwidth::Value);
            for (m, entry) in entries().into_iter().enumerate() {
                let (started, options) = (Instant::now(), options(entry, discount, bandwidth, seed));
                let errors = match quietly(|control| PolicyEvaluation::fit(&options, &log, control)) {
                    Ok(evaluation) => {
                        bandwidth = evaluation.summary().bandwidth.map_or(bandwidth, Bandwidth::Value);
                        test.errors(&evaluation, d, discount)?
                    }
                    // Steps that are too long for an environment are a result too.
                    Err(Error::Diverged { .. }) => [f64::INFINITY; 2],
                    Err(error) => return Err(error.into()),
                };
                let ([msbe, rmse], seconds) = (errors, started.elapsed().as_secs_f64());
                // Writing to a string cannot fail.
                let label = entry.label;
                let _ =
                    writeln!(table, "{},\"{label}\",{run},{count},{msbe:e},{rmse:e},{seconds:.2}", self.name);
                self.errors[m * self.looks.len() + l].push(errors);
            }
        }
        Ok(table)
    }
}

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let n = arguments.rows.unwrap_or(if arguments.quick { 4_000 } else { 50_000 });
    let (runs, states) = if arguments.quick { (1, 50) } else { (10, 500) };
    // Values of navigation deviate little beside their noise.
    let rollouts = |name: &str| match (arguments.quick, name) {
        (true, _) => 50,
        (false, "navigation") => 2_000,
        (false, _) => 200,
    };
    let mut table = "environment,method,run,transitions,msbe,value_rmse,seconds\n".to_owned();
    let (mut summary, mut ended) = (String::new(), None);
    let wanted = arguments.environment.as_deref();
    let names: Vec<&str> = wanted.map_or_else(|| NAMES.split(", ").collect(), |name| vec![name]);
    let mut chart = LineChart::new(format!("Policy evaluation: {}", names[0]))
        .x_label("transitions")
        .y_label("root mean square error of the value")
        .log_x()
        .log_y();
    for name in &names {
        let environment = named(name)?;
        let test = Test::new(environment.as_ref(), states, rollouts(name))?;
        let looks = [n / 10, n];
        let errors = vec![Vec::new(); entries().len() * looks.len()];
        let mut course = Course { name: (*name).to_owned(), looks, errors };
        let mut say = |line: String| {
            (console.say)(&line);
            summary += &line;
            summary += "\n";
        };
        say(format!("{name}: V deviates by {:.3}, simulated to {:.1e}", test.spread(), test.variance.sqrt()));
        for run in 0..runs {
            if (console.cancelled)() {
                ended = Some(Error::Cancelled { blocks: run });
                return Ok(Report { table, picture: chart.to_svg(), summary, ended });
            }
            table += &course.run(environment.as_ref(), &test, run, arguments)?;
        }
        for (m, Entry { label, .. }) in entries().into_iter().enumerate() {
            let [msbe, rmse] = [0, 1].map(|kind| (course.mean(m, 1, kind), course.deviation(m, kind)));
            say(format!(
                "{name}, {label}: Bellman error {:.2e} ± {:.1e}, value {:.4} ± {:.4}",
                msbe.0, msbe.1, rmse.0, rmse.1
            ));
            if *name == names[0] {
                let points = [0, 1].map(|l| (looks[l] as f64, course.mean(m, l, 1)));
                chart = chart.line(label, &points);
            }
        }
    }
    Ok(Report { table, picture: chart.to_svg(), summary, ended })
}
