//! `riesz stream`: rows from the standard input are predicted, then learnt from.
//!
//! Units, scaling and bandwidth are settled by the first row and anew by the first 2, 4, 8, … 1,024; so rows are never kept
//! waiting. How lines are cut together changes neither a prediction nor the model.

mod arguments;
mod learner;
mod lines;
mod rows;

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{check_folder_of, grouped, significant};
use crate::table::target_column;
pub(crate) use arguments::Arguments;

use arguments::TaskName;
use learner::{Learner, Tally, Target};
use lines::{Lines, Next};
use riesz::functions::Task;
use riesz::Error;
use rows::Reader;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    let every = Duration::try_from_secs_f64(arguments.save_every).map_err(|_| {
        let value = arguments.save_every;
        Error::OutOfRange { name: "save_every", value, range: "[0, inf)" }
    })?;
    [&arguments.model, &arguments.out].into_iter().flatten().try_for_each(|path| check_folder_of(path))?;
    arguments.machine.options(Task::Regression(1))?.check().or_else(|error| match error {
        Error::Conflict(_) => Ok(()),
        error => Err(error),
    })?;
    let learner = match &arguments.model {
        Some(path) if path.exists() => Some(Learner::load(path)?),
        Some(path) if arguments.resume => {
            let message = format!("{}: there is no model to resume", path.display());
            return Err(Failure::bad_input(message).hint("without --resume the stream begins anew"));
        }
        _ => None,
    };
    let mut stream = Stream::new(arguments, learner, every)?;
    let ended = stream.follow(Lines::of(std::io::stdin()));
    // Whatever ended the stream, what it has taken is kept.
    stream.keep()?;
    stream.report();
    ended
}

struct Stream<'a> {
    arguments: &'a Arguments,
    learner: Option<Learner>,
    reader: Option<Reader>,
    out: Box<dyn Write>,
    lines: u64,
    /// Rows to be read over.
    seen: u64,
    started: Instant,
    begun: u64,
    saved: Instant,
    every: Duration,
    reported: Tally,
}

impl<'a> Stream<'a> {
    fn new(arguments: &'a Arguments, learner: Option<Learner>, every: Duration) -> Outcome<Self> {
        let mut learner = learner;
        for learner in learner.iter_mut().filter(|_| !arguments.resume) {
            // Another input, whose rows are counted anew.
            learner.tally = Tally { previous: learner.tally.previous, ..Tally::default() };
        }
        let tally = learner.as_ref().map(|learner| learner.tally.clone()).unwrap_or_default();
        let seen = tally.rows;
        let out: Box<dyn Write> = match &arguments.out {
            Some(path) => Box::new(open(path, arguments.resume.then_some(tally.written))?),
            None => Box::new(std::io::stdout()),
        };
        let now = Instant::now();
        let begun = tally.rows;
        Ok(Self {
            arguments,
            learner,
            reader: None,
            out,
            lines: 0,
            seen,
            started: now,
            begun,
            saved: now,
            every,
            reported: tally,
        })
    }

    /// Takes lines until there are no more or the user has asked to stop.
    fn follow(&mut self, lines: Lines) -> Outcome<()> {
        let interrupt = Interrupt::listen();
        let mut stopping = false;
        loop {
            if interrupt.asked() && !stopping {
                stopping = true;
                lines.stop();
            }
            match lines.next() {
                Next::Lines(some) => self.take(&some)?,
                Next::Nothing if stopping => {
                    let message = match (&self.arguments.model, &self.learner) {
                        (Some(path), Some(learner)) => format!(
                            "interrupted after {} rows, which are in {}",
                            grouped(learner.tally.rows as usize),
                            path.display()
                        ),
                        _ => "interrupted".to_owned(),
                    };
                    return Err(Failure::interrupted(message)
                        .hint("--resume reads over them where the input begins anew"));
                }
                Next::Nothing => {}
                Next::End => return Ok(()),
                Next::Failed(error) => return Err(Failure::io(Path::new("standard input"), error)),
            }
        }
    }

    /// Takes some lines: those that are rows are predicted, then learnt from.
    fn take(&mut self, lines: &[Vec<u8>]) -> Outcome<()> {
        let mut out = String::new();
        let mut run = Run::default();
        let taken = lines.iter().try_for_each(|line| self.take_line(line, &mut run, &mut out));
        let learnt = self.learn(&mut run, &mut out);
        self.print(&out)?;
        taken.and(learnt)?;
        if self.saved.elapsed() >= self.every {
            self.keep()?;
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], run: &mut Run, out: &mut String) -> Outcome<()> {
        self.lines += 1;
        let line = match self.lines {
            1 => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            _ => line,
        }
        .trim_ascii_end();
        if line.is_empty() {
            return Ok(());
        }
        if self.reader.is_none() && !self.begin(line, out)? {
            return Ok(());
        }
        if self.seen > 0 {
            self.seen -= 1;
            return Ok(());
        }
        let (x, target) = match self.parse(line) {
            Ok(parsed) => parsed,
            Err(reason) if self.arguments.skip_bad => {
                self.learn(run, out)?;
                eprintln!("line {}: {reason}; left out", self.lines);
                self.learner.iter_mut().for_each(|learner| learner.tell_bad(out));
                return Ok(());
            }
            Err(reason) => return Err(self.bad(&reason)),
        };
        match target {
            Some(Target::Known(y)) if self.learner.as_ref().is_some_and(|l| l.machine.is_some()) => {
                run.x.extend(x);
                run.y.push(y);
            }
            other => {
                self.learn(run, out)?;
                if let Some(learner) = &mut self.learner {
                    learner.take_alone(&x, other, out)?;
                }
            }
        }
        let rows = self.learner.as_ref().map_or(0, |learner| learner.tally.rows) + run.y.len() as u64;
        if self.arguments.report_every > 0 && rows.is_multiple_of(self.arguments.report_every) {
            self.learn(run, out)?;
            self.report();
        }
        Ok(())
    }

    /// Settles how lines are read, by the first of them; whether it is a row.
    fn begin(&mut self, line: &[u8], out: &mut String) -> Outcome<bool> {
        let target = target_column(&self.arguments.target);
        let known = self.learner.as_ref().map(|learner| learner.columns.clone()).unwrap_or_default();
        let form = (self.arguments.format, self.arguments.header);
        let (reader, is_row) =
            Reader::new(line, form, &target, &known).map_err(|reason| self.bad(&reason))?;
        if let Some(machine) = self.learner.as_ref().and_then(|learner| learner.machine.as_ref()) {
            if machine.columns() != reader.features() {
                return Err(Error::Columns { expected: machine.columns(), found: reader.features() }.into());
            }
        } else {
            let Arguments { task, classes, machine, .. } = self.arguments;
            let of_classes = machine.loss.as_ref().map(|loss| loss.is_classification());
            let task = match (task, classes.len(), of_classes) {
                (Some(TaskName::Classification), ..) | (None, 1.., _) | (None, 0, Some(true)) => {
                    Some(Task::Classification(classes.len().max(2)))
                }
                (Some(TaskName::Regression), ..) | (None, 0, Some(false)) => Some(Task::Regression(1)),
                (None, 0, None) => None,
            };
            let options = machine.options(task.unwrap_or(Task::Regression(1)))?;
            options.check()?;
            let mut learner = Learner::new(options, classes);
            learner.decided = task.is_some();
            learner.columns = reader.columns(line, is_row);
            self.learner = Some(learner);
        }
        self.reader = Some(reader);
        if let Some(learner) = &mut self.learner {
            learner.probabilities = self.arguments.probabilities;
            learner.declared = !self.arguments.classes.is_empty();
            if !self.arguments.resume {
                out.push_str(&learner.header());
                learner.tally.written += out.len() as u64;
            }
        }
        Ok(is_row)
    }

    /// Features and target of a line, or what is wrong with it.
    fn parse(&mut self, line: &[u8]) -> Result<(Vec<f32>, Option<Target>), String> {
        let (Some(reader), Some(learner)) = (&self.reader, &mut self.learner) else {
            return Err("the stream has not begun".into());
        };
        let row = reader.row(line)?;
        if let (Some(text), false) = (&row.target, learner.decided) {
            eprintln!("the target is {}; --task says otherwise", learner.decide(text));
        }
        let target = row.target.map(|text| learner.target(&text)).transpose()?;
        Ok((row.x, target))
    }

    /// Learns from rows that have been collected.
    fn learn(&mut self, run: &mut Run, out: &mut String) -> Outcome<()> {
        if let (Some(learner), false) = (&mut self.learner, run.y.is_empty()) {
            learner.take_run(&run.x, &run.y, out)?;
        }
        *run = Run::default();
        Ok(())
    }

    fn bad(&self, reason: &str) -> Failure {
        let failure = Failure::bad_input(format!("standard input, line {}: {reason}", self.lines));
        match &self.arguments.model {
            Some(path) => failure.hint(format!(
                "--skip-bad leaves such rows out; the rows before it are in {}, --resume goes on behind them",
                path.display()
            )),
            None => failure.hint("--skip-bad leaves such rows out"),
        }
    }

    /// Writes predictions; a reader that has gone away is no error.
    fn print(&mut self, text: &str) -> Outcome<()> {
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::io(self.arguments.out.as_deref().unwrap_or(Path::new("stdout")), error))
            }
            _ => Ok(()),
        }
    }

    /// Writes the model, if it is to be kept.
    fn keep(&mut self) -> Outcome<()> {
        if let (Some(path), Some(learner)) = (&self.arguments.model, &mut self.learner) {
            learner.save(path)?;
        }
        self.saved = Instant::now();
        Ok(())
    }

    /// A line about the rows so far, and since the line before.
    fn report(&mut self) {
        let (Some(learner), 1..) = (&self.learner, self.arguments.report_every) else { return };
        let (now, before) = (&learner.tally, &self.reported);
        let speed = (now.rows - self.begun) as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let measure = |error: f64, scored: u64| match learner.is_classification() {
            _ if scored == 0 => "none".to_owned(),
            true => format!("{:.4}", 1.0 - error / scored as f64),
            false => significant((error / scored as f64).sqrt()),
        };
        let name = if learner.is_classification() { "accuracy" } else { "RMSE" };
        let bad = if now.bad > 0 { format!(", {} bad", grouped(now.bad as usize)) } else { String::new() };
        eprintln!(
            "{} rows{bad}, {} rows/s, {name} {} (lately {}), no change {}, {} {}",
            grouped(now.rows as usize),
            grouped(speed as usize),
            measure(now.error, now.scored),
            measure(now.error - before.error, now.scored - before.scored),
            measure(now.no_change, now.scored),
            grouped(learner.machine.as_ref().map_or(0, |machine| machine.atoms())),
            learner.kept(),
        );
        self.reported = now.clone();
    }
}

/// Rows that are learnt from together.
#[derive(Default)]
struct Run {
    x: Vec<f32>,
    y: Vec<f32>,
}

/// Opens the file of predictions: an empty one, or the one so far, of which `written` bytes are kept.
fn open(path: &Path, written: Option<u64>) -> Outcome<File> {
    let failed = |error| Failure::io(path, error);
    let Some(written) = written else { return File::create(path).map_err(failed) };
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length > written {
        file.set_len(written).map_err(failed)?;
    }
    Ok(file)
}
