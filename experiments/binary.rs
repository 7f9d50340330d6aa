//! Two classes, one kernel, three solvers: one pass of doubly stochastic gradients, one of the library's stream, and block
//! descent (F3, F4, F5).
//!
//! All learn f with the hinge loss max(0, 1 − y f(x)), the Gaussian kernel of bandwidth σ and the penalty (ν/2)‖f‖².
//! The stream sees every row once: batch t, a fresh block of m features, the step γ_t = θ/(t + t₀). Theorem 11 asks
//! for θν ≥ 1, which is 3·10⁶ on a9a and as much too large as on F1; what was tried there (batches of 256 rows, blocks
//! of 1,024 features, error of the last iterate / the average after one pass):
//!
//! | θ | t₀ | error, % |
//! | --- | --- | --- |
//! | 1/ν | 1/ν (γ₁ = 1, batches of 128) | 18.3 / 23.1 |
//! | 100 | 20 | 18.9 / 21.6 |
//! | 1,000 | 20 | 15.5 / 15.8, the default |
//! | 5,000 | 100 | 17.1 / 15.9 |
//!
//! The library's own stream (`solver = stream`) takes the same batches by preconditioned steps of a length that each batch
//! decides. Block descent visits all rows for every block and takes damped Newton steps.

use super::common::Console;
use crate::failure::{Failure, Outcome};
use crate::output::{grouped, significant};
use crate::plot::LineChart;
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{Bandwidth, ColumnScaling, KernelMachine, Options, SolverSpec, Task, Training};
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::loss::LossSpec;
use riesz::operator::Evaluation;
use riesz::random::{BlockIndex, Permutation, Seed, Stream};
use riesz::solver::{BlockDescentConfig, FunctionalSgdConfig, Problem, Samples, Schedule, SgdState, Solver};
use riesz::space::FeatureExpansion;
use riesz::Error;
use std::fmt::Write;
use std::time::Instant;

/// Rows and their classes, −1 or 1.
#[derive(Clone, Debug, Default)]
pub struct Labelled {
    /// Row-major values.
    pub x: Vec<f32>,
    /// Classes.
    pub y: Vec<f32>,
    /// Columns.
    pub columns: usize,
}

impl Labelled {
    /// The rows.
    pub fn rows(&self) -> Outcome<Rows<'_>> {
        Ok(Rows::single(&self.x, self.columns)?)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// The rows at `indices`.
    pub fn at(&self, indices: &[u32]) -> Outcome<Self> {
        let y = indices.iter().map(|&i| self.y[i as usize]).collect();
        Ok(Self { x: self.rows()?.gather(indices), y, columns: self.columns })
    }

    /// The first `train` rows of a random order, and the others.
    pub fn split(&self, train: usize, seed: Seed) -> Outcome<(Self, Self)> {
        if train == 0 || train >= self.len() {
            let message = format!("{train} rows to learn from, of {}: none would be left", self.len());
            return Err(Failure::bad_input(message));
        }
        let order = Permutation::new(seed, Stream::HoldOut, BlockIndex(0), self.len());
        let (train, test) = order.indices().split_at(train);
        Ok((self.at(train)?, self.at(test)?))
    }

    /// Scales the columns of both to [0, 1] by the range of the first.
    pub fn scale_to_unit(&mut self, other: &mut Self) {
        for j in 0..self.columns {
            let (low, high) = self.x[j..]
                .iter()
                .step_by(self.columns)
                .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
            let width = if high > low { high - low } else { 1.0 };
            for x in [&mut self.x, &mut other.x] {
                x[j..].iter_mut().step_by(self.columns).for_each(|v| *v = (*v - low) / width);
            }
        }
    }
}

/// What may be changed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Title of the picture.
    pub title: String,
    /// σ.
    pub bandwidth: f64,
    /// ν.
    pub ridge: f64,
    /// Rows of a step of the stream.
    pub batch: usize,
    /// Features of a block.
    pub block: usize,
    /// θ in γ_t = θ/(t + t₀).
    pub theta: f64,
    /// t₀.
    pub delay: f64,
    /// Blocks of the descent.
    pub blocks: usize,
    /// ρ of the descent.
    pub damping: f64,
    /// Test errors of the text, by name, in per cent.
    pub text: Vec<(&'static str, f64)>,
    /// Seed of features and order.
    pub seed: Seed,
}

/// A solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Doubly stochastic gradients, the last iterate.
    Last,
    /// Doubly stochastic gradients, the average of the iterates.
    Average,
    /// The library's stream: preconditioned steps on a fixed number of features.
    Preconditioned,
    /// Block descent.
    Descent,
}

impl Method {
    /// All of them, in the order of tables and pictures.
    pub const ALL: [Self; 4] = [Self::Last, Self::Average, Self::Preconditioned, Self::Descent];

    /// Its name in tables and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "one pass, last iterate",
            Self::Average => "one pass, average",
            Self::Preconditioned => "one pass, preconditioned",
            Self::Descent => "block descent",
        }
    }
}

/// The test error after some work.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The solver.
    pub method: Method,
    /// Rows seen, each visit counted.
    pub rows: usize,
    /// Features of f.
    pub features: usize,
    /// Seconds since the solver began, tests not counted for the stream.
    pub seconds: f64,
    /// Per cent of the test rows on the wrong side.
    pub error: f64,
}

/// The course of an experiment.
#[derive(Debug)]
pub struct Course {
    settings: Settings,
    /// All points, in order.
    pub points: Vec<Point>,
    /// Why it ended early, if it did.
    pub ended: Option<Error>,
}

/// Per cent of scores on the wrong side.
fn percent_wrong(scores: impl Iterator<Item = f64>, y: &[f32]) -> f64 {
    let wrong = scores.zip(y).filter(|(score, &y)| score * f64::from(y) <= 0.0).count();
    100.0 * wrong as f64 / y.len().max(1) as f64
}

impl Course {
    /// Nothing done yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, points: Vec::new(), ended: None }
    }

    fn start(&self, columns: usize) -> Outcome<FeatureExpansion> {
        let Settings { bandwidth, block, seed, .. } = self.settings;
        let map = FeatureMap::new(KernelSpec::Gaussian, bandwidth, block, seed, Scaling::identity(columns))?;
        Ok(FeatureExpansion::new(map, vec![0.0]))
    }

    fn add(&mut self, point: Point, console: &mut Console<'_>) {
        let Point { method, rows, features, seconds, error } = point;
        (console.say)(&format!(
            "{:<24} {:>12} {:>10} {seconds:>9.1} s {error:>8.3} %",
            method.name(),
            grouped(rows),
            grouped(features)
        ));
        self.points.push(point);
    }

    /// `steps` steps of doubly stochastic gradients; `batch(t)` gives the t-th batch, t = 1, 2, …
    pub fn stream(
        &mut self,
        steps: usize,
        test: &Labelled,
        batch: &mut dyn FnMut(usize) -> Outcome<Labelled>,
        console: &mut Console<'_>,
    ) -> Outcome<()> {
        let Settings { ridge, theta, delay, .. } = self.settings;
        let schedule = Schedule::Inverse { theta, delay };
        let loss = LossSpec::Hinge.build(2)?;
        let solver = FunctionalSgdConfig { schedule, ridge }.build(Evaluation, &*loss)?;
        let mut state = SgdState::new(self.start(test.columns)?);
        // f on the test rows follows f step by step: f ← (1 − γν) f + the new block.
        let (mut last, mut sum) = (vec![0.0_f64; test.len()], vec![0.0_f64; test.len()]);
        let (mut seen, mut seconds) = (0, 0.0);
        for t in 1..=steps {
            let rows = batch(t)?;
            let begun = Instant::now();
            let ones = vec![1.0; rows.len()];
            let taken =
                solver.step(&mut state, Samples { batch: rows.rows()?, targets: &rows.y, weights: &ones });
            seconds += begun.elapsed().as_secs_f64();
            seen += rows.len();
            let info = match taken {
                Ok(info) if !(console.cancelled)() => info,
                Ok(_) => return self.stop(Error::Cancelled { blocks: t }),
                Err(error) => return self.stop(error),
            };
            let mut new = vec![0.0; test.len()];
            state.f.add_blocks(t - 1..t, test.rows()?, &mut new)?;
            let shrink = 1.0 - info.step_size * ridge;
            for ((last, sum), new) in last.iter_mut().zip(&mut sum).zip(new) {
                *last = shrink * *last + f64::from(new);
                *sum += *last;
            }
            if t.is_power_of_two() || t == steps {
                let features = t * self.settings.block;
                for (method, scores) in [(Method::Last, &last), (Method::Average, &sum)] {
                    let error = percent_wrong(scores.iter().copied(), &test.y);
                    self.add(Point { method, rows: seen, features, seconds, error }, console);
                }
            }
        }
        Ok(())
    }

    /// The same batches by `solver = stream` of the library, whose steps have no θ; σ and ν stay those of the text.
    pub fn preconditioned(
        &mut self,
        steps: usize,
        test: &Labelled,
        batch: &mut dyn FnMut(usize) -> Outcome<Labelled>,
        console: &mut Console<'_>,
    ) -> Outcome<()> {
        let Settings { bandwidth, ridge, batch: size, seed, .. } = self.settings;
        let options = Options {
            loss: Some(LossSpec::Hinge),
            bandwidth: Bandwidth::Value(bandwidth),
            scaling: ColumnScaling::None,
            solver: SolverSpec::Stream,
            ridge: Some(ridge),
            batch_size: size,
            ..Options::new(Task::Classification(2), seed)
        };
        let mut machine: Option<KernelMachine> = None;
        let (mut seen, mut seconds) = (0, 0.0);
        for t in 1..=steps {
            let rows = batch(t)?;
            let classes: Vec<f32> = rows.y.iter().map(|&y| if y > 0.0 { 1.0 } else { 0.0 }).collect();
            let data = Training { rows: rows.rows()?, targets: &classes, weights: None };
            let begun = Instant::now();
            let taken = quietly(|control| match &mut machine {
                Some(machine) => machine.partial_fit(&data, control),
                None => KernelMachine::begin(&options, &data, control).map(|begun| machine = Some(begun)),
            });
            seconds += begun.elapsed().as_secs_f64();
            seen += rows.len();
            if (console.cancelled)() {
                return self.stop(Error::Cancelled { blocks: t });
            }
            match (taken, &machine) {
                (Ok(()), Some(machine)) if t.is_power_of_two() || t == steps => {
                    let scores = machine.decision(test.rows()?)?;
                    let error = percent_wrong(scores.iter().map(|&v| f64::from(v)), &test.y);
                    let features = machine.summary().features;
                    let method = Method::Preconditioned;
                    self.add(Point { method, rows: seen, features, seconds, error }, console);
                }
                (Ok(()), _) => {}
                (Err(error), _) => return self.stop(error),
            }
        }
        Ok(())
    }

    /// Block descent on `train`.
    pub fn descend(&mut self, train: &Labelled, test: &Labelled, console: &mut Console<'_>) -> Outcome<()> {
        let n = train.len();
        // A row of weight zero is predicted and not learnt from.
        let x: Vec<f32> = train.x.iter().chain(&test.x).copied().collect();
        let y: Vec<f32> = train.y.iter().chain(&test.y).copied().collect();
        let weights: Vec<f32> = (0..y.len()).map(|i| if i < n { 1.0 } else { 0.0 }).collect();
        let loss = LossSpec::Hinge.build(2)?;
        let rows = Rows::single(&x, train.columns)?;
        let problem = Problem { rows, targets: &y, weights: &weights, loss: &*loss };
        let Settings { damping, ridge, blocks, block, .. } = self.settings;
        let solver = BlockDescentConfig { damping, ridge, ..Default::default() }.build()?;
        let mut state = solver.init(self.start(train.columns)?, rows)?;
        let begun = Instant::now();
        for b in 1..=blocks {
            if let Err(error) = solver.step(&mut state, &problem) {
                return self.stop(error);
            }
            if (console.cancelled)() {
                return self.stop(Error::Cancelled { blocks: b });
            }
            if b.is_power_of_two() || b.is_multiple_of(16) || b == blocks {
                let error = percent_wrong(state.predictions[n..].iter().map(|&v| f64::from(v)), &test.y);
                let (method, seconds) = (Method::Descent, begun.elapsed().as_secs_f64());
                self.add(Point { method, rows: b * n, features: b * block, seconds, error }, console);
            }
        }
        Ok(())
    }

    fn stop(&mut self, reason: Error) -> Outcome<()> {
        self.ended = Some(reason);
        Ok(())
    }

    /// The points of one solver.
    pub fn of(&self, method: Method) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.method == method)
    }

    /// The table.
    pub fn to_csv(&self) -> String {
        let mut text = "method,rows,features,seconds,error_percent\n".to_owned();
        for Point { method, rows, features, seconds, error } in &self.points {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{},{rows},{features},{seconds:.3},{error:.4}",
                method.name().replace(',', "")
            );
        }
        text
    }

    /// The picture: test error against rows seen.
    pub fn to_svg(&self) -> String {
        let mut chart = LineChart::new(self.settings.title.clone())
            .x_label("rows seen, each visit counted")
            .y_label("test error, %")
            .log_x()
            .log_y();
        for method in Method::ALL {
            let points: Vec<_> = self.of(method).map(|p| (p.rows as f64, p.error)).collect();
            if let Some(last) = points.last() {
                chart = chart.line(format!("{}: {:.2} %", method.name(), last.1), &points);
            }
        }
        let ends =
            |pick: fn(f64, f64) -> f64, start| self.points.iter().map(|p| p.rows as f64).fold(start, pick);
        let (left, right) = (ends(f64::min, f64::INFINITY), ends(f64::max, 1.0));
        for (name, error) in &self.settings.text {
            chart = chart.dashed(format!("the text, {name}: {error} %"), &[(left, *error), (right, *error)]);
        }
        chart.to_svg()
    }

    /// The result in a few lines.
    pub fn summary(&self) -> String {
        let Settings { bandwidth, ridge, .. } = self.settings;
        let mut text = format!("bandwidth {}, ν = {ridge:.3e}\n", significant(bandwidth));
        for method in Method::ALL {
            if let Some(point) = self.of(method).last() {
                let _ =
                    writeln!(text, "{}: {:.2} % after {:.1} s", method.name(), point.error, point.seconds);
            }
        }
        for (name, error) in &self.settings.text {
            let _ = writeln!(text, "the text, {name}: {error} %");
        }
        text
    }

    /// What the experiment leaves behind.
    pub fn report(self) -> super::common::Report {
        let (table, picture, summary) = (self.to_csv(), self.to_svg(), self.summary());
        super::common::Report { table, picture, summary, ended: self.ended }
    }
}

/// One pass over `train` in a random order, then block descent on it.
pub fn one_pass_and_descent(
    settings: Settings,
    train: &Labelled,
    test: &Labelled,
    console: &mut Console<'_>,
) -> Outcome<Course> {
    let order = Permutation::new(settings.seed, Stream::Shuffle, BlockIndex(0), train.len());
    let batches: Vec<&[u32]> = order.indices().chunks(settings.batch).collect();
    let mut course = Course::new(settings);
    course.stream(batches.len(), test, &mut |t| train.at(batches[t - 1]), console)?;
    if course.ended.is_none() {
        course.preconditioned(batches.len(), test, &mut |t| train.at(batches[t - 1]), console)?;
    }
    if course.ended.is_none() {
        course.descend(train, test, console)?;
    }
    Ok(course)
}
