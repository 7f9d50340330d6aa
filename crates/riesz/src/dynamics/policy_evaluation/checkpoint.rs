//! Steps on disk, to be resumed bit for bit.

use super::log::{Log, Successors};
use super::options::EvaluationOptions;
use super::steps::History;
use crate::compute::Device;
use crate::data::Rows;
use crate::driver::{same_settings, CheckpointPolicy, Fingerprint, Monitor, Phase, Progress, Steps};
use crate::error::{Error, Result};
use crate::model::Container;
use crate::solver::{SaddleState, SgdState, Solver, StepInfo};
use crate::space::Storable;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Entries of a history, about.
const ENTRIES: u64 = 200;

/// What tells a fit from another.
#[derive(Serialize, Deserialize)]
struct Identity {
    /// The settings; a checkpoint of another kind of fit has none of this name.
    evaluation: EvaluationOptions,
    fingerprint: Fingerprint,
    path: crate::compute::Path,
    #[serde(default)]
    revision: u32,
}

/// Raised where the same settings and transitions lead to other functions or steps than before.
const REVISION: u32 = 1;

/// What steps have seen.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Seen {
    history: History,
    /// The sum and number of objectives since the last entry.
    sum: f64,
    count: u64,
}

/// A state that a checkpoint can hold.
pub(super) trait Stand {
    /// Steps taken.
    fn step(&self) -> u64;
    fn store(&self, container: &mut Container) -> Result<()>;
    fn restore(&mut self, container: &mut Container, step: u64) -> Result<()>;
}

impl<F: Storable> Stand for SgdState<F> {
    fn step(&self) -> u64 {
        self.step
    }

    fn store(&self, container: &mut Container) -> Result<()> {
        self.f.store(container, "f")
    }

    fn restore(&mut self, container: &mut Container, step: u64) -> Result<()> {
        self.step = step;
        replace(&mut self.f, container, "f")
    }
}

impl<F: Storable> Stand for SaddleState<F, F> {
    fn step(&self) -> u64 {
        self.step
    }

    fn store(&self, container: &mut Container) -> Result<()> {
        self.f.store(container, "f")?;
        self.dual.store(container, "dual")
    }

    fn restore(&mut self, container: &mut Container, step: u64) -> Result<()> {
        self.step = step;
        replace(&mut self.f, container, "f")?;
        replace(&mut self.dual, container, "dual")
    }
}

fn replace<F: Storable>(f: &mut F, container: &mut Container, name: &str) -> Result<()> {
    let stored = F::restore(container, name)?;
    if (stored.columns(), stored.outputs()) != (f.columns(), f.outputs()) {
        return Err(Error::Format("the checkpoint contradicts itself".into()));
    }
    *f = stored;
    Ok(())
}

/// Counts steps, keeps a history of their objective and writes checkpoints.
pub(super) struct Watch {
    steps: Steps,
    length: usize,
    every: u64,
    identity: Identity,
    seen: Seen,
}

impl Watch {
    /// Of passes that have `length` steps.
    pub(super) fn new(options: &EvaluationOptions, log: &Log<'_>, length: usize) -> Self {
        let steps = Steps::passes(Phase::Fit, options.passes, length);
        let evaluation = EvaluationOptions { max_time: None, ..options.clone() };
        let (fingerprint, path) = (fingerprint(log), Device::default().path());
        let identity = Identity { evaluation, fingerprint, path, revision: REVISION };
        let every = (options.passes.saturating_mul(length) as u64).div_ceil(ENTRIES).max(1);
        Self { steps, length, every, identity, seen: Seen::default() }
    }

    /// What the steps saw.
    pub(super) fn history(self) -> History {
        self.seen.history
    }

    /// Goes on where a checkpoint of the same fit left off.
    pub(super) fn resume(&mut self, state: &mut impl Stand, path: &Path) -> Result<()> {
        let mut container = Container::load(path)?;
        container.expect_kind("checkpoint")?;
        if container.header.get("evaluation").is_none() {
            return Err(Error::Checkpoint("it is that of another kind of fit".into()));
        }
        let stored: Identity = container.header_as()?;
        let names = [("seed", "random_state"), ("passes", "n_passes"), ("iterations", "n_iterations")];
        same_settings(&stored.evaluation, &self.identity.evaluation, &names)?;
        stored.fingerprint.same(&self.identity.fingerprint)?;
        if stored.path != self.identity.path {
            return Err(Error::Checkpoint(
                "its instruction path (another machine wrote it); its results differ".into(),
            ));
        }
        if stored.revision != self.identity.revision {
            return Err(Error::Checkpoint(
                "the version of riesz that wrote it, whose functions are others; begin anew".into(),
            ));
        }
        let step: u64 = container.field("step")?;
        self.seen = container.field("seen")?;
        self.steps = self.steps.after(step as usize, self.length);
        state.restore(&mut container, step)
    }
}

impl<S: Solver> Monitor<S> for Watch
where
    S::State: Stand,
{
    fn finished(&mut self, state: &S::State) -> bool {
        Monitor::<S>::finished(&mut self.steps, state)
    }

    fn observe(&mut self, state: &S::State, info: S::Info) -> Result<Progress> {
        let seen = &mut self.seen;
        (seen.sum, seen.count) = (seen.sum + info.loss(), seen.count + 1);
        if seen.count == self.every {
            seen.history.push((state.step(), seen.sum / seen.count as f64));
            (seen.sum, seen.count) = (0.0, 0);
        }
        Monitor::<S>::observe(&mut self.steps, state, info)
    }

    fn begins_another_pass(&mut self, state: &S::State) -> bool {
        Monitor::<S>::begins_another_pass(&mut self.steps, state)
    }

    fn save(&self, state: &S::State, policy: &CheckpointPolicy) -> Result<()> {
        let mut container = Container::new("checkpoint");
        container.extend_header(&self.identity)?;
        container.set_field("step", &state.step())?;
        container.set_field("seen", &self.seen)?;
        state.store(&mut container)?;
        container.save(&policy.path)
    }
}

/// The transitions, part by part.
fn fingerprint(log: &Log<'_>) -> Fingerprint {
    let rows = |rows: Rows<'_>| {
        let mut words = vec![rows.columns() as u64];
        rows.for_each_word(|word| words.push(word));
        words
    };
    let bits = |values: &[f32]| values.iter().map(|v| u64::from(v.to_bits())).collect::<Vec<_>>();
    let flags = |values: &[bool]| values.iter().map(|&v| u64::from(v)).collect::<Vec<_>>();
    let (name, following) = match log.successors {
        Successors::Unknown => ("next_actions", Vec::new()),
        Successors::Actions(actions) => ("next_actions", rows(actions)),
        Successors::Probabilities(p, _) => ("next_action_probabilities", bits(p)),
    };
    Fingerprint::default()
        .with("states", rows(log.states))
        .with("actions", log.actions.map_or_else(Vec::new, rows))
        .with("rewards", bits(log.rewards))
        .with("next_states", rows(log.next_states))
        .with("terminals", flags(log.terminals))
        .with("truncations", flags(log.truncations.unwrap_or_default()))
        .with("discounts", bits(log.discounts.unwrap_or_default()))
        .with("weights", bits(log.ratios.unwrap_or_default()))
        .with(name, following)
}
