//! A run on disk, to be resumed bit for bit.

use super::island::{Island, Setting, State};
use super::options::AdaptiveOptions;
use super::population::Population;
use crate::distributions::model::{log_prior, Particles};
use crate::distributions::posterior::Stage;
use crate::driver::{same_settings, Fingerprint};
use crate::error::{Error, Result};
use crate::model::{Container, Stored};
use crate::random::BlockIndex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Draws from the prior by which a model is recognised.
const PROBES: usize = 4;

/// Where a run stands, and what tells it from another run.
pub(super) struct Checkpoint<'a> {
    header: Header<'a>,
    islands: Cow<'a, [Island]>,
}

/// What of it stands before the islands.
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    /// The settings; a checkpoint of another kind of fit has none of this name.
    posterior: Cow<'a, AdaptiveOptions>,
    fingerprint: Cow<'a, Fingerprint>,
    history: Cow<'a, [Stage]>,
}

/// What tells one model and data set from another: what the model says it is, and densities of a few draws from the
/// prior, at the first batch. Of a model that does not say, the densities at every single observation.
pub(super) fn fingerprint(setting: &Setting<'_>) -> Result<Fingerprint> {
    let model = setting.model;
    let (d, all) = (model.dimension(), model.observations());
    let probes = model.sample_prior(setting.options.seed, BlockIndex(1 << 43), PROBES)?;
    let prior = log_prior(model, Particles::new(&probes, d)?)?;
    let known = model.fingerprint()?;
    let mut likelihood = Vec::new();
    if known.is_some() {
        likelihood = setting.log_likelihood(&probes, &prior, 0..setting.first_batch().min(all))?;
    } else {
        for n in 0..all {
            likelihood.extend(setting.log_likelihood(&probes, &prior, n..n + 1)?);
        }
    }
    let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    Ok(known
        .unwrap_or_default()
        .with("number of observations", [all as u64])
        .with("number of parameters", [d as u64])
        .with("densities of the prior", bits(&[probes, prior].concat()))
        .with("likelihoods", bits(&likelihood)))
}

impl<'a> Checkpoint<'a> {
    pub(super) fn new(
        options: &'a AdaptiveOptions,
        fingerprint: &'a Fingerprint,
        islands: &'a [Island],
        history: &'a [Stage],
    ) -> Self {
        let fingerprint = Cow::Borrowed(fingerprint);
        let (posterior, history) = (Cow::Borrowed(options), Cow::Borrowed(history));
        Self { header: Header { posterior, fingerprint, history }, islands: Cow::Borrowed(islands) }
    }

    /// Islands and history, refused unless the run was begun with the same settings, model and data.
    pub(super) fn resume(
        self,
        settings: &[Setting<'_>],
        fingerprint: &Fingerprint,
    ) -> Result<(Vec<Island>, Vec<Stage>)> {
        let lasting = |options: &AdaptiveOptions| AdaptiveOptions { max_time: None, ..options.clone() };
        same_settings(&lasting(&self.header.posterior), &lasting(settings[0].options), &NAMES)?;
        self.header.fingerprint.same(fingerprint)?;
        let islands = self.islands.into_owned();
        let numbered = islands.iter().enumerate().all(|(i, island)| island.state.index == i);
        if !numbered || islands.len() > settings.len() {
            return Err(Error::Format(
                "the checkpoint has islands that are not those of its settings".into(),
            ));
        }
        islands.iter().zip(settings).try_for_each(|(island, setting)| island.check(setting))?;
        Ok((islands, self.header.history.into_owned()))
    }
}

/// Settings by what users call them.
const NAMES: [(&str, &str); 4] = [
    ("particles", "n_particles"),
    ("islands", "n_islands"),
    ("batch", "batch_size"),
    ("seed", "random_state"),
];

impl Island {
    /// Refuses what no run leaves behind: numbers of particles that differ, densities that are none, observations that
    /// there are not.
    fn check(&self, setting: &Setting<'_>) -> Result<()> {
        let (p, state, target) = (&self.particles, &self.state, self.state.target);
        let (m, all) = (p.len(), setting.model.observations());
        let densities = |values: &[f64]| values.len() == m && values.iter().all(|v| *v < f64::INFINITY);
        let sound = [
            ("positions", m > 0 && p.positions.len() == m * setting.model.dimension()),
            ("positions", p.positions.iter().all(|x| x.is_finite())),
            ("densities of the prior", densities(&p.log_prior)),
            ("likelihoods", densities(&p.old) && p.new.as_deref().is_none_or(densities)),
            ("weights", densities(&p.log_weights) && p.log_weights.iter().any(|w| w.is_finite())),
            ("chains", p.chains.is_none_or(|chains| (1..=m).contains(&chains))),
            ("observations", target.seen <= target.next && target.next <= all),
            ("power", (0.0..=1.0).contains(&target.power)),
            ("stage", state.stage < 1 << 24),
            ("step", state.pace.steps.iter().chain(&state.pace.lengths).all(|s| *s > 0.0 && s.is_finite())),
            ("evidence", state.log_evidence.is_finite() && state.variance >= 0.0 && state.inherited >= 0.0),
        ];
        match sound.iter().find(|(_, sound)| !sound) {
            Some((what, _)) => Err(Error::Format(format!(
                "the {what} of island {} of the checkpoint are not possible",
                state.index
            ))),
            None => Ok(()),
        }
    }
}

impl Stored for Checkpoint<'_> {
    const KIND: &'static str = "checkpoint";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.extend_header(&self.header)?;
        container.set_field("islands", &self.islands.iter().map(|i| i.state).collect::<Vec<State>>())?;
        container
            .set_field("chains", &self.islands.iter().map(|i| i.particles.chains).collect::<Vec<_>>())?;
        for island in &*self.islands {
            let (p, i) = (&island.particles, island.state.index);
            let m = p.len();
            container.insert(
                &format!("positions.{i}"),
                vec![m, p.positions.len() / m],
                p.positions.clone(),
            )?;
            container.insert(&format!("log_prior.{i}"), vec![m], p.log_prior.clone())?;
            container.insert(&format!("old.{i}"), vec![m], p.old.clone())?;
            container.insert(&format!("log_weights.{i}"), vec![m], p.log_weights.clone())?;
            if let Some(new) = &p.new {
                container.insert(&format!("new.{i}"), vec![m], new.clone())?;
            }
        }
        Ok(())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        if container.header.get("posterior").is_none() {
            return Err(Error::Checkpoint("it is that of another kind of fit".into()));
        }
        let header: Header<'_> = container.header_as()?;
        let states: Vec<State> = container.field("islands")?;
        let chains: Vec<Option<usize>> = container.field("chains")?;
        let islands = states.into_iter().zip(chains).map(|(state, chains)| {
            let i = state.index;
            let shape = container.f64s(&format!("positions.{i}"))?.0.to_vec();
            let m = shape.first().copied().unwrap_or(0);
            let positions = container.take_f64s(&format!("positions.{i}"), &shape)?;
            let has_new = container.f64s(&format!("new.{i}")).is_ok();
            // −∞ is the logarithm of a density of zero.
            let log = |v: f64| v < f64::INFINITY;
            let mut take = |name: &str| container.take_f64s_where(&format!("{name}.{i}"), &[m], log);
            let particles = Population {
                positions,
                log_prior: take("log_prior")?,
                old: take("old")?,
                log_weights: take("log_weights")?,
                new: has_new.then(|| take("new")).transpose()?,
                chains,
                evaluations: 0,
            };
            Ok(Island { particles, state })
        });
        let islands = islands.collect::<Result<Vec<_>>>()?;
        Ok(Self { header, islands: Cow::Owned(islands) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::models::TiedMixture;
    use crate::random::Seed;

    /// What a run leaves behind passes; nothing that it cannot leave behind does, and none of it panics.
    #[test]
    fn impossible_islands_are_refused() {
        let model = TiedMixture::new((0..40).map(f64::from).collect()).unwrap();
        let options = AdaptiveOptions { particles: 60, ..AdaptiveOptions::new(Seed(0)) };
        let setting = Setting::new(&model, &options, 0);
        let mut island = Island::begin(&setting, 0).unwrap();
        island.check(&setting).unwrap();
        island.advance(&setting).unwrap();
        island.check(&setting).unwrap();
        type Fault = fn(&mut Island);
        let faults: [(&str, Fault); 14] = [
            ("positions", |i| i.particles.positions[3] = f64::NAN),
            ("positions", |i| i.particles.positions[0] = f64::INFINITY),
            ("positions", |i| i.particles.positions.truncate(5)),
            ("positions", |i| i.particles = Population::default()),
            ("densities of the prior", |i| i.particles.log_prior[0] = f64::NAN),
            ("likelihoods", |i| i.particles.old[0] = f64::INFINITY),
            ("likelihoods", |i| i.particles.new = Some(vec![0.0; 3])),
            ("weights", |i| i.particles.log_weights.fill(f64::NEG_INFINITY)),
            ("chains", |i| i.particles.chains = Some(0)),
            ("observations", |i| i.state.target.next = 41),
            ("observations", |i| i.state.target.seen = usize::MAX),
            ("power", |i| i.state.target.power = f64::NAN),
            ("step", |i| i.state.pace.steps[1] = 0.0),
            ("evidence", |i| i.state.log_evidence = f64::NAN),
        ];
        for (what, fault) in faults {
            let mut island = island.clone();
            fault(&mut island);
            let error = island.check(&setting).unwrap_err().to_string();
            assert!(error.contains(&format!("the {what} of island 0")), "{what}: {error}");
        }
    }
}
