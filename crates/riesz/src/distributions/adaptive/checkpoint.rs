//! A run on disk, to be resumed bit for bit.

use super::island::{Island, Population, Setting, State};
use super::options::AdaptiveOptions;
use crate::distributions::model::{log_prior, Particles};
use crate::distributions::posterior::Stage;
use crate::error::{Error, Result};
use crate::model::{Container, CHECKPOINT};
use crate::random::BlockIndex;
use std::path::Path;

/// Draws from the prior by which a model is recognised.
const PROBES: usize = 4;

/// What a checkpoint holds.
#[derive(Default)]
pub(super) struct Saved {
    pub(super) islands: Vec<Island>,
    pub(super) history: Vec<Stage>,
}

/// A number that tells one model and data set from another: sizes, and densities of a few draws from the prior at the first
/// batch.
pub(super) fn fingerprint(setting: &Setting<'_>) -> Result<u64> {
    let model = setting.model;
    let d = model.dimension();
    let probes = model.sample_prior(setting.options.seed, BlockIndex(1 << 43), PROBES)?;
    let prior = log_prior(model, Particles::new(&probes, d)?)?;
    let rows = setting.options.batch.min(model.observations());
    let likelihood = setting.log_likelihood(&probes, &prior, 0..rows)?;
    let words = [d as u64, model.observations() as u64].into_iter();
    let values = probes.iter().chain(&prior).chain(&likelihood).map(|v| v.to_bits());
    Ok(crate::driver::fingerprint_of(words.chain(values)))
}

/// Writes where a run stands.
pub(super) fn save(
    path: &Path,
    options: &AdaptiveOptions,
    fingerprint: u64,
    islands: &[Island],
    history: &[Stage],
) -> Result<()> {
    let mut container = Container::new(CHECKPOINT);
    container.set_field("posterior", options)?;
    container.set_field("fingerprint", &format!("{fingerprint:016x}"))?;
    container.set_field("islands", &islands.iter().map(|i| i.state).collect::<Vec<State>>())?;
    container.set_field("chains", &islands.iter().map(|i| i.particles.chains).collect::<Vec<_>>())?;
    container.set_field("history", history)?;
    for island in islands {
        let (p, i) = (&island.particles, island.state.index);
        let m = p.len();
        container.insert(&format!("positions.{i}"), vec![m, p.positions.len() / m], p.positions.clone())?;
        container.insert(&format!("log_prior.{i}"), vec![m], p.log_prior.clone())?;
        container.insert(&format!("old.{i}"), vec![m], p.old.clone())?;
        container.insert(&format!("log_weights.{i}"), vec![m], p.log_weights.clone())?;
        if let Some(new) = &p.new {
            container.insert(&format!("new.{i}"), vec![m], new.clone())?;
        }
    }
    container.save(path)
}

impl Saved {
    /// The run in a file, refused unless it was begun with the same settings, model and data.
    pub(super) fn load(path: &Path, options: &AdaptiveOptions, fingerprint: u64) -> Result<Self> {
        let mut container = Container::load(path)?;
        container.expect_kind(CHECKPOINT)?;
        let differs = |what: &str| Error::Checkpoint(format!("its {what} differ"));
        let saved: Option<AdaptiveOptions> = container.field("posterior")?;
        let saved = saved.ok_or_else(|| differs("kind of fit"))?;
        if (AdaptiveOptions { max_time: None, ..saved })
            != (AdaptiveOptions { max_time: None, ..options.clone() })
        {
            return Err(differs("settings"));
        }
        if container.field::<String>("fingerprint")? != format!("{fingerprint:016x}") {
            return Err(differs("model or data"));
        }
        let states: Vec<State> = container.field("islands")?;
        let chains: Vec<Option<usize>> = container.field("chains")?;
        let history = container.field("history")?;
        let islands = states.into_iter().zip(chains).map(|(state, chains)| {
            let i = state.index;
            let shape = container.f64s(&format!("positions.{i}"))?.0.to_vec();
            let m = shape.first().copied().unwrap_or(0);
            let positions = container.take_f64s(&format!("positions.{i}"), &shape)?;
            let mut take = |name: &str| container.take_f64s(&format!("{name}.{i}"), &[m]);
            let particles = Population {
                positions,
                log_prior: take("log_prior")?,
                old: take("old")?,
                log_weights: take("log_weights")?,
                new: take("new").ok(),
                chains,
                evaluations: 0,
            };
            Ok(Island { particles, state })
        });
        Ok(Self { islands: islands.collect::<Result<_>>()?, history })
    }
}
