//! Adaptive particle mirror descent, the default: the posterior of more and more of the data, until it is that of all.
//!
//! The literal schedule of the thesis smooths too much (every kernel density adds h² to the variance while a step of γ
//! takes back γ of it). Here a *stage* goes from one posterior to the next,
//!
//! ```text
//! q_{t+1} ∝ q_t · Π_{b in batch} p(x_b∣θ)^{λ_t}
//! ```
//!
//! with the largest λ_t ≤ 1 that leaves a given share of the particles effective. Batches come without replacement and
//! double, so that the observations seen at λ = 1 are exactly those q_t is the posterior of: the minimiser of L over
//! the data so far, at a cost that the last stages dominate. Particles of which too few are effective are renewed by draws from a density through
//! them ([`proposal`](super::proposal)) with importance weights, or, where no such density is good enough, by Metropolis
//! moves (`moves.rs`). Independent *islands* do this with half of the particles. A last stage pools them, draws all
//! particles anew and weighs them by all the data: its weights are those of plain importance sampling, so means
//! converge to those of the posterior whatever happened before, and their mean is the evidence. Where a model has a normal
//! approximation of its posterior ([`Model::approximation`]) and draws from that are good enough, they are the answer
//! (`approximated.rs`), and so they are where the posteriors of a part of many data lead to one (`extrapolated.rs`).

mod approximated;
mod checkpoint;
mod extrapolated;
mod island;
mod last;
mod moves;
mod options;
mod population;

pub use options::{AdaptiveOptions, Renewal};

use super::model::Model;
use super::posterior::{Posterior, Stage};
use crate::driver::{Control, Due, Fingerprint, Phase, Progress};
use crate::error::{Error, Result};
use crate::memory::room;
use crate::model::Stored;
use checkpoint::Checkpoint;
use island::{Island, Setting};

/// The posterior of a model.
///
/// ```
/// use riesz::distributions::models::{Family, GeneralisedLinear};
/// use riesz::distributions::{adaptive, AdaptiveOptions};
/// use riesz::driver::quietly;
/// use riesz::random::Seed;
///
/// // y = 1 + 2x + noise, rows (x, y).
/// let x: Vec<f64> = (0..100).map(|i| f64::from(i) / 50.0 - 1.0).collect();
/// let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| 1.0 + 2.0 * x + 0.1 * f64::from(i as i32 % 7 - 3)).collect();
/// let model = GeneralisedLinear::new(Family::Gaussian, &x, 1, &y, 10.0)?;
/// let posterior = quietly(|control| adaptive(&model, &AdaptiveOptions::new(Seed(0)), control))?;
/// let slope = posterior.mean(|theta| theta[1]);
/// assert!((slope.value - 2.0).abs() < 0.2);
/// # Ok::<(), riesz::Error>(())
/// ```
pub fn adaptive(
    model: &dyn Model,
    options: &AdaptiveOptions,
    control: &mut Control<'_>,
) -> Result<Posterior> {
    options.check()?;
    if model.dimension() == 0 {
        return Err(Error::Empty { what: "the parameter", needed: "one dimension" });
    }
    if model.observations() == 0 {
        return Err(Error::Empty { what: "data", needed: "one observation" });
    }
    control.prepare_checkpoint()?;
    // Up to eight times as many in the first stages, with densities and weights, twice while they are renewed.
    room("particles", "n_particles", &[options.particles, model.dimension() + 8], 128)?;
    control.start(options.max_time);
    let mut run = Run::new(model, options, control)?;
    let posterior = match run.approximated(control)? {
        Some(posterior) => posterior,
        None => {
            let early = match run.stop() {
                Some(part) if run.islands(part, control)? => run.extrapolated(control)?,
                _ => None,
            };
            match early {
                Some(posterior) => posterior,
                None => {
                    run.islands(model.observations(), control)?;
                    run.finish(control)?
                }
            }
        }
    };
    if let Some(policy) = &control.checkpoint {
        policy.discard()?;
    }
    Ok(posterior)
}

/// Islands and what was recorded of them.
struct Run<'a> {
    settings: Vec<Setting<'a>>,
    islands: Vec<Island>,
    history: Vec<Stage>,
    due: Due,
    fingerprint: Fingerprint,
    /// The share of effective ones of the first draws from a density through particles that were moved.
    overlap: Option<f64>,
    /// Whether islands have moved by densities through each other's particles.
    companions: bool,
}

impl<'a> Run<'a> {
    /// From the beginning, or from where a checkpoint left off.
    fn new(model: &'a dyn Model, options: &'a AdaptiveOptions, control: &Control<'_>) -> Result<Self> {
        let settings: Vec<Setting<'a>> =
            (0..options.islands).map(|i| Setting::new(model, options, i)).collect();
        let mut fingerprint = Fingerprint::default();
        let (mut islands, mut history) = (Vec::new(), Vec::new());
        if let Some(policy) = &control.checkpoint {
            fingerprint = checkpoint::fingerprint(&settings[0])?;
            if policy.path.exists() {
                (islands, history) = Checkpoint::load(&policy.path)?.resume(&settings, &fingerprint)?;
            }
        }
        Ok(Self {
            settings,
            islands,
            history,
            due: Due::new(),
            fingerprint,
            overlap: None,
            companions: false,
        })
    }

    /// Runs every island until its next batch would take it beyond `most` observations, or the clock stops it. Returns
    /// whether all have stopped there now, and not earlier or, in the run of a checkpoint, further on.
    fn islands(&mut self, most: usize, control: &mut Control<'_>) -> Result<bool> {
        for index in 0..self.settings.len() {
            if self.islands.len() <= index {
                if control.out_of_time() && !self.islands.is_empty() {
                    return Ok(false);
                }
                self.islands.push(Island::begin(&self.settings[index], index)?);
            }
            while !self.islands[index].finished(&self.settings[index], most) {
                if control.out_of_time() && self.islands[index].state.stage > 0 {
                    return Ok(false);
                }
                let stage = self.islands[index].advance(&self.settings[index])?;
                self.history.push(stage);
                self.save(control)?;
                self.report(control)?;
            }
        }
        Ok(self.islands.iter().all(|i| i.state.target.seen <= most && i.state.target.power == 0.0))
    }

    fn save(&mut self, control: &Control<'_>) -> Result<()> {
        match &control.checkpoint {
            Some(policy) if self.due.now(policy) => {
                Checkpoint::new(self.options(), &self.fingerprint, &self.islands, &self.history)
                    .save(&policy.path)
            }
            _ => Ok(()),
        }
    }

    fn report(&self, control: &mut Control<'_>) -> Result<()> {
        let done = self.islands.iter().map(|i| i.state.target.seen).sum();
        let most = self.settings.len() * self.settings[0].model.observations();
        control.report(Progress::new(Phase::Posterior, done, most, f64::NAN))
    }

    fn options(&self) -> &'a AdaptiveOptions {
        self.settings[0].options
    }
}
