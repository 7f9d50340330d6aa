//! Checkpoints of a fit.

use super::descent::Log;
use super::exact::{Swept, SWEEPS};
use super::Fit;
use crate::compute::Device;
use crate::driver::{same_settings, CheckpointPolicy, Fingerprint};
use crate::error::{Error, Result};
use crate::functions::kernel_machine::calibration::Calibration;
use crate::functions::kernel_machine::machine::HistoryEntry;
use crate::functions::kernel_machine::options::Options;
use crate::functions::kernel_machine::race::{Choice, Setting};
use crate::model::{Container, Stored};
use crate::solver::{BlockState, SweepState};
use crate::space::{FeatureExpansion, Function};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

/// The tensor that a checkpoint of a race has, and no other.
const OUTLOOKS: &str = "outlooks";
/// The same of a checkpoint of sweeps.
const SWEPT: &str = "swept";

/// What tells a fit from another.
#[derive(Serialize, Deserialize)]
struct Identity<'a> {
    options: Cow<'a, Options>,
    fingerprint: Cow<'a, Fingerprint>,
    path: crate::compute::Path,
}

/// Where a fit stands, and which it is.
struct Checkpoint<'a> {
    identity: Identity<'a>,
    stand: Stand<'a>,
}

enum Stand<'a> {
    /// In the race: the outlooks of the trials so far.
    Race(Vec<f64>),
    Blocks(Blocks<'a>),
    Sweeps(Sweeps<'a>),
}

/// Sweeps over the rows of an expansion.
struct Sweeps<'a> {
    header: SweepsHeader<'a>,
    /// β: n × C.
    coefficients: (Vec<usize>, Cow<'a, [f64]>),
    /// f at the rows held out.
    predictions: (Vec<usize>, Cow<'a, [f32]>),
}

/// What of it is not a tensor.
#[derive(Serialize, Deserialize)]
struct SweepsHeader<'a> {
    history: Cow<'a, [HistoryEntry]>,
    steps: usize,
    settled: bool,
}

struct Blocks<'a> {
    header: Header<'a>,
    /// Coefficients of the blocks: blocks × m × C.
    coefficients: (Vec<usize>, Vec<f32>),
    /// Predictions of the rows: n × C.
    predictions: (Vec<usize>, Cow<'a, [f32]>),
}

/// What of it is not a tensor.
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    choice: Choice,
    history: Cow<'a, [HistoryEntry]>,
    best: usize,
    absorbing: Option<usize>,
    calibration: Option<Calibration>,
    shifts: Option<Vec<f32>>,
}

impl Stored for Checkpoint<'_> {
    const KIND: &'static str = "checkpoint";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.extend_header(&self.identity)?;
        let Blocks { header, coefficients: (shape, coefficients), predictions: (rows, predictions) } =
            match &self.stand {
                Stand::Race(outlooks) => {
                    return container.insert(OUTLOOKS, vec![outlooks.len()], outlooks.clone())
                }
                Stand::Sweeps(Sweeps { header, coefficients, predictions }) => {
                    container.extend_header(header)?;
                    container.insert(SWEPT, coefficients.0.clone(), coefficients.1.to_vec())?;
                    return container.insert("predictions", predictions.0.clone(), predictions.1.to_vec());
                }
                Stand::Blocks(blocks) => blocks,
            };
        container.extend_header(header)?;
        container.insert("coefficients", shape.clone(), coefficients.clone())?;
        container.insert("predictions", rows.clone(), predictions.to_vec())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        if container.header.get("options").is_none() {
            return Err(Error::Checkpoint("it is that of another kind of fit".into()));
        }
        let identity = container.header_as()?;
        if let Ok((shape, outlooks)) = container.f64s(OUTLOOKS) {
            if shape.len() != 1 || outlooks.iter().any(|v| !v.is_finite()) {
                return Err(Error::Format("the outlooks of its race are no finite numbers".into()));
            }
            return Ok(Self { identity, stand: Stand::Race(outlooks.to_vec()) });
        }
        if let Ok((shape, _)) = container.f64s(SWEPT) {
            let shape = shape.to_vec();
            let coefficients = container.take_f64s(SWEPT, &shape)?;
            let rows = container.f32s("predictions")?.0.to_vec();
            let predictions = container.take_f32s("predictions", &rows)?;
            let (coefficients, predictions) = ((shape, coefficients.into()), (rows, predictions.into()));
            let sweeps = Sweeps { header: container.header_as()?, coefficients, predictions };
            return Ok(Self { identity, stand: Stand::Sweeps(sweeps) });
        }
        let mut take = |name: &str| -> Result<(Vec<usize>, Vec<f32>)> {
            let shape = container.f32s(name)?.0.to_vec();
            let values = container.take_f32s(name, &shape)?;
            Ok((shape, values))
        };
        let (coefficients, (rows, predictions)) = (take("coefficients")?, take("predictions")?);
        let header: Header<'_> = container.header_as()?;
        let blocks = Blocks { header, coefficients, predictions: (rows, predictions.into()) };
        Ok(Self { identity, stand: Stand::Blocks(blocks) })
    }
}

/// Where a fit goes on.
pub(super) enum Resumed {
    /// In the race, with the outlooks found so far.
    Race(Vec<f64>),
    Blocks(Box<(BlockState, Log)>),
}

impl Fit<'_> {
    /// Writes where the fit stands.
    pub(super) fn save(&self, state: &BlockState, log: &Log, policy: &CheckpointPolicy) -> Result<()> {
        let f = &state.f;
        let header = Header {
            choice: log.choice,
            history: Cow::Borrowed(&log.history),
            best: log.best,
            absorbing: log.absorbing,
            calibration: log.calibration,
            shifts: log.shifts.clone(),
        };
        let coefficients = (0..f.len()).flat_map(|b| f.coefficients(b).into_owned()).collect();
        let blocks = Blocks {
            header,
            coefficients: (vec![f.len(), f.map().block_size, f.outputs()], coefficients),
            predictions: (vec![self.rows.len(), f.outputs()], Cow::Borrowed(&state.predictions)),
        };
        Checkpoint { identity: self.identity(), stand: Stand::Blocks(blocks) }.save(&policy.path)
    }

    /// Writes where the race stands.
    pub(super) fn save_race(&self, outlooks: &[f64], policy: &CheckpointPolicy) -> Result<()> {
        Checkpoint { identity: self.identity(), stand: Stand::Race(outlooks.to_vec()) }.save(&policy.path)
    }

    fn identity(&self) -> Identity<'_> {
        let fingerprint = Cow::Borrowed(&self.fingerprint);
        Identity { options: Cow::Borrowed(self.options), fingerprint, path: Device::default().path() }
    }

    /// Whether the features, of a user's kernel known by name alone and of rows in a metric that was learnt again, are those that the predictions of a checkpoint were
    /// made of: compared on the first rows, to rounding.
    fn reproduces(&self, f: &FeatureExpansion, predictions: &[f32]) -> Result<bool> {
        const PROBES: usize = 16;
        let few = self.rows.len().min(PROBES);
        let mut again = vec![0.0; few * f.outputs()];
        f.evaluate(self.rows.slice(0..few), &mut again)?;
        let size = again.iter().fold(1.0_f32, |most, v| most.max(v.abs()));
        Ok(again.iter().zip(predictions).all(|(a, b)| (a - b).abs() <= 1e-3 * size))
    }

    /// Writes where the sweeps stand.
    pub(super) fn save_sweeps(&self, swept: &Swept, policy: &CheckpointPolicy) -> Result<()> {
        let Swept { state, judged, history, settled } = swept;
        let c = self.offset.len();
        let sweeps = Sweeps {
            header: SweepsHeader { history: Cow::Borrowed(history), steps: state.steps, settled: *settled },
            coefficients: (vec![self.rows.len(), c], Cow::Borrowed(&state.coefficients)),
            predictions: (vec![judged.len() / c, c], Cow::Borrowed(judged)),
        };
        Checkpoint { identity: self.identity(), stand: Stand::Sweeps(sweeps) }.save(&policy.path)
    }

    /// Where the sweeps of a checkpoint of the same fit stand. What was chosen before them is chosen again.
    pub(super) fn resume_sweeps(&self, path: &Path) -> Result<Swept> {
        let Stand::Sweeps(sweeps) = self.stand_of(path)? else {
            return Err(Error::Checkpoint("it is that of a fit by blocks".into()));
        };
        let Sweeps { header: SweepsHeader { history, steps, settled }, coefficients, predictions } = sweeps;
        let (shape, judges) = ([self.rows.len(), self.offset.len()], self.held.iter().filter(|&&w| w > 0.0));
        if coefficients.0 != shape
            || predictions.0 != [judges.count(), shape[1]]
            || history.len() > SWEEPS
            || steps > SWEEPS * shape[0]
        {
            return Err(Error::Format("the checkpoint contradicts itself".into()));
        }
        let state = SweepState { coefficients: coefficients.1.into_owned(), steps };
        let judged = predictions.1.into_owned();
        Ok(Swept { state, judged, history: history.into_owned(), settled })
    }

    /// Continues where a checkpoint of the same fit left off, bit for bit.
    pub(super) fn resume(&self, path: &Path) -> Result<Resumed> {
        match self.stand_of(path)? {
            Stand::Race(outlooks) => Ok(Resumed::Race(outlooks)),
            Stand::Blocks(blocks) => self.resume_blocks(blocks),
            Stand::Sweeps(_) => Err(Error::Checkpoint("it is that of a fit by sweeps".into())),
        }
    }

    /// Where a checkpoint of the same fit stands.
    fn stand_of(&self, path: &Path) -> Result<Stand<'static>> {
        let Checkpoint { identity, stand } = Checkpoint::load(path)?;
        let lasting = |options: &Options| Options { max_time: None, chunk: 0, ..options.clone() };
        let own = self.identity();
        same_settings(&lasting(&identity.options), &lasting(&own.options), &[("seed", "random_state")])?;
        identity.fingerprint.same(&own.fingerprint)?;
        if identity.path != own.path {
            return Err(differs("instruction path (another machine wrote it); its results"));
        }
        Ok(stand)
    }

    fn resume_blocks(&self, blocks: Blocks<'_>) -> Result<Resumed> {
        let Blocks { header, coefficients, predictions } = blocks;
        let map = self.map(&Setting::from_choice(header.choice, &self.moments, self.options.kernel()))?;
        let mut f = FeatureExpansion::new(map, self.offset.clone());
        let (m, c) = (f.map().block_size, f.outputs());
        let ((shape, coefficients), (rows, predictions)) = (coefficients, predictions);
        let blocks = shape.first().copied().unwrap_or(0);
        let (history, shifts) = (header.history.into_owned(), header.shifts);
        let consistent = shape == [blocks, m, c]
            && rows == [self.rows.len(), c]
            && shifts.as_ref().is_none_or(|s| s.len() == c && s.iter().all(|v| v.is_finite()))
            && header.best <= history.len()
            && history.len() <= self.max_blocks()
            && blocks <= 2 * self.max_blocks() + 1;
        if !consistent {
            return Err(Error::Format("the checkpoint contradicts itself".into()));
        }
        coefficients.chunks_exact(m * c).for_each(|block| f.push(block.to_vec()));
        if !self.reproduces(&f, &predictions)? {
            return Err(differs("kernel's features"));
        }
        let Header { choice, best, absorbing, calibration, .. } = header;
        let log = Log { choice, history, best, absorbing, calibration, shifts };
        Ok(Resumed::Blocks(Box::new((BlockState::resume(f, predictions.into_owned()), log))))
    }
}

fn differs(what: &str) -> Error {
    Error::Checkpoint(format!("its {what} differ"))
}
