//! A machine that learns from a stream, the labels it has met and what its predictions were worth.

use crate::predict::quoted;
use riesz::data::lines::number;
use riesz::data::reader::label_key;
use riesz::data::Rows;
use riesz::driver::quietly;
use riesz::functions::{likeliest, Memory, OnlineMachine, OnlineOptions, Task, Training};
use riesz::loss::LossSpec;
use riesz::model::{Columns, Container, Stored};
use riesz::Result;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

/// Header field of a model file that a stream goes on from.
const FIELD: &str = "stream";
/// What is printed where nothing has been learnt yet.
pub(super) const UNKNOWN: &str = "NA";

/// How a stream went so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Rows taken, whatever became of them.
    pub rows: u64,
    pub bad: u64,
    /// Bytes of predictions written.
    pub written: u64,
    /// Rows with a target that were predicted, and Σ of 1[wrong] or (y − f(x))².
    pub scored: u64,
    pub error: f64,
    /// The same Σ where the target before is the prediction.
    pub no_change: f64,
    /// The target before: a number, or the index of a class.
    pub previous: Option<f64>,
}

pub(super) struct Learner {
    pub options: OnlineOptions,
    pub machine: Option<OnlineMachine>,
    pub columns: Columns,
    pub tally: Tally,
    /// Spellings of the classes, in the order of their indices, and the index of each.
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// Whether a class that is not known is refused.
    pub declared: bool,
    /// Whether it is known what the target is.
    pub decided: bool,
    /// Whether the probability of a class is written beside it.
    pub probabilities: bool,
}

impl Learner {
    /// One that has learnt nothing, of classes that are known, or none.
    pub(super) fn new(options: OnlineOptions, classes: &[String]) -> Self {
        let mut learner = Self {
            options,
            machine: None,
            columns: Columns::default(),
            tally: Tally::default(),
            names: Vec::new(),
            places: HashMap::new(),
            declared: !classes.is_empty(),
            decided: true,
            probabilities: false,
        };
        classes.iter().for_each(|name| learner.name(name));
        learner
    }

    /// One from a model file.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let container = Container::load(path)?;
        let (columns, tally) = (container.columns()?, container.field::<Option<Tally>>(FIELD)?);
        let machine = OnlineMachine::from_container(container)?;
        columns.check(machine.columns())?;
        let mut learner = Self::new(machine.options().clone(), &[]);
        machine.class_names().iter().for_each(|name| learner.name(name));
        if let (Task::Classification(classes), true) = (machine.options().task, learner.names.is_empty()) {
            (0..classes).for_each(|class| learner.name(&class.to_string()));
        }
        Ok(Self { machine: Some(machine), columns, tally: tally.unwrap_or_default(), ..learner })
    }

    /// Writes the model, all of it or nothing.
    pub(super) fn save(&mut self, path: &Path) -> Result<()> {
        let Some(machine) = &mut self.machine else { return Ok(()) };
        if self.options.task != Task::Regression(1) {
            machine.set_class_names(self.names.clone())?;
        }
        let mut container = machine.to_container()?;
        container.set_columns(&self.columns)?;
        container.set_field(FIELD, &self.tally)?;
        container.save(path)
    }

    pub(super) fn is_classification(&self) -> bool {
        matches!(self.options.task, Task::Classification(_))
    }

    /// Takes the first target for what it looks like, and says what that is.
    pub(super) fn decide(&mut self, text: &str) -> &'static str {
        self.decided = true;
        if number("the target", text).is_ok() {
            return "a quantity";
        }
        self.options.task = Task::Classification(2);
        "a class"
    }

    /// What the machine keeps.
    pub(super) fn kept(&self) -> &'static str {
        match self.options.memory {
            Memory::Dictionary(_) => "atoms",
            Memory::Features(_) => "features",
        }
    }

    fn name(&mut self, name: &str) {
        let place = self.names.len();
        if self.places.insert(label_key(name).into_owned(), place).is_none() {
            self.names.push(name.to_owned());
        }
    }

    /// What a target is, or what is wrong with it.
    pub(super) fn target(&self, text: &str) -> std::result::Result<Target, String> {
        if !self.is_classification() {
            return number("the target", text).map(Target::Known);
        }
        match self.places.get(&*label_key(text)) {
            Some(place) => Ok(Target::Known(*place as f32)),
            None if self.declared => Err(format!("the class {text:?} is not among --classes")),
            None => Ok(Target::NewClass(text.to_owned())),
        }
    }

    /// Predicts rows and learns from them, one after the other, with targets of known classes; appends a line for each.
    pub(super) fn take_run(&mut self, x: &[f32], targets: &[f32], out: &mut String) -> Result<()> {
        let Some(machine) = &mut self.machine else { return Ok(()) };
        let data = Training { rows: Rows::single(x, x.len() / targets.len())?, targets, weights: None };
        let mut values = Vec::new();
        quietly(|control| machine.learn_telling(&data, Some(&mut values), control))?;
        let targets: Vec<Option<f32>> = targets.iter().copied().map(Some).collect();
        self.tell(values, &targets, out)
    }

    /// The same for a row that is unlike others: the first, one without a target, or the first of its class, which is
    /// predicted among the classes before it.
    pub(super) fn take_alone(&mut self, x: &[f32], target: Option<Target>, out: &mut String) -> Result<()> {
        let rows = Rows::single(x, x.len())?;
        let values = self.machine.as_ref().map_or(Ok(Vec::new()), |machine| machine.decision(rows))?;
        let new_class = self.names.len() as f32;
        let place = target.as_ref().map(|target| match target {
            Target::Known(place) => *place,
            Target::NewClass(_) => new_class,
        });
        self.tell(values, &[place], out)?;
        if let Some(Target::NewClass(name)) = &target {
            self.name(name);
            self.make_room()?;
        }
        let Some(place) = place else { return Ok(()) };
        let data = Training { rows, targets: &[place], weights: None };
        match &mut self.machine {
            Some(machine) => quietly(|control| machine.learn(&data, control)),
            None => {
                self.make_room()?;
                self.machine = Some(quietly(|control| OnlineMachine::begin(&self.options, &data, control))?);
                Ok(())
            }
        }
    }

    /// Sees to it that there is room for all classes, of which there are two at least.
    fn make_room(&mut self) -> Result<()> {
        let Task::Classification(known) = self.options.task else { return Ok(()) };
        let classes = self.names.len().max(2).max(known);
        self.options.task = Task::Classification(classes);
        match &mut self.machine {
            Some(machine) if classes > known => machine.grow_classes(classes),
            _ => Ok(()),
        }
    }

    /// Writes a line for each row and compares with the targets there are.
    fn tell(&mut self, mut values: Vec<f32>, targets: &[Option<f32>], out: &mut String) -> Result<()> {
        self.tally.rows += targets.len() as u64;
        let before = out.len();
        match &self.machine {
            None => targets.iter().for_each(|_| line(out, UNKNOWN, self.probabilities.then_some(f64::NAN))),
            Some(machine) if self.is_classification() => {
                let shares = if self.probabilities { machine.probabilities_of(&values)? } else { Vec::new() };
                let (c, seen) = (machine.outputs(), self.names.len());
                let classes = shares.len() / targets.len();
                for (i, target) in targets.iter().enumerate() {
                    let class = likeliest(&values[i * c..(i + 1) * c], seen);
                    let share = shares.get(i * classes..(i + 1) * classes).unwrap_or_default();
                    let p = self.probabilities.then(|| share[class] / share[..seen].iter().sum::<f64>());
                    line(out, &quoted(&self.names[class]), p);
                    self.tally.score(
                        *target,
                        |y| f64::from(u8::from(y != class as f64)),
                        |a, b| f64::from(u8::from(a != b)),
                    );
                }
            }
            Some(machine) => {
                machine.make_predictions(&mut values)?;
                let c = machine.outputs();
                for (prediction, target) in values.chunks_exact(c).zip(targets) {
                    let cells: Vec<String> = prediction.iter().map(f32::to_string).collect();
                    line(out, &cells.join(","), None);
                    let square = |a: f64, b: f64| (a - b).powi(2);
                    self.tally.score(*target, |y| square(y, f64::from(prediction[0])), square);
                }
            }
        }
        if self.machine.is_none() {
            self.tally.previous = targets.iter().flatten().next_back().map(|y| f64::from(*y));
        }
        self.tally.written += (out.len() - before) as u64;
        Ok(())
    }

    /// A line for a row that is left out.
    pub(super) fn tell_bad(&mut self, out: &mut String) {
        let before = out.len();
        line(out, UNKNOWN, self.probabilities.then_some(f64::NAN));
        self.tally.rows += 1;
        self.tally.bad += 1;
        self.tally.written += (out.len() - before) as u64;
    }

    /// The names of what is written.
    pub(super) fn header(&self) -> String {
        match (&self.options.loss, self.probabilities) {
            (Some(LossSpec::Quantile { levels }), _) => {
                let names: Vec<String> = levels.iter().map(|level| format!("quantile_{level}")).collect();
                names.join(",") + "\n"
            }
            (_, true) => "prediction,probability\n".into(),
            (_, false) => "prediction\n".into(),
        }
    }
}

/// A target as the machine has it.
#[derive(Debug)]
pub(super) enum Target {
    /// A number, or the index of a class.
    Known(f32),
    /// A class that was not met before.
    NewClass(String),
}

impl Tally {
    /// Counts the cost of a prediction, and of the target before in its place.
    fn score(&mut self, target: Option<f32>, cost: impl Fn(f64) -> f64, no_change: impl Fn(f64, f64) -> f64) {
        let Some(target) = target.map(f64::from) else { return };
        if let Some(previous) = self.previous {
            self.scored += 1;
            self.error += cost(target);
            self.no_change += no_change(target, previous);
        }
        self.previous = Some(target);
    }
}

fn line(out: &mut String, prediction: &str, probability: Option<f64>) {
    out.push_str(prediction);
    match probability {
        Some(p) if p.is_nan() => out.push_str(",NA"),
        Some(p) => {
            // Writing to a string cannot fail.
            let _ = write!(out, ",{p}");
        }
        None => {}
    }
    out.push('\n');
}
