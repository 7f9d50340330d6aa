//! Checkpoints of a fit.

use super::{Fit, Standing};
use crate::driver::{Control, Due};
use crate::error::{Error, Result};
use crate::functions::kernel_machine::machine::HistoryEntry;
use crate::functions::kernel_machine::options::Options;
use crate::functions::kernel_machine::race::{Choice, Setting};
use crate::model::{Container, CHECKPOINT};
use crate::solver::BlockState;
use crate::space::{FeatureExpansion, Function};
use std::path::Path;

impl Fit<'_> {
    /// Writes where the fit stands, where that is due.
    pub(super) fn save_if_due(
        &self,
        standing: &Standing,
        due: &mut Due,
        control: &Control<'_>,
    ) -> Result<()> {
        let Some(policy) = control.checkpoint.as_ref() else { return Ok(()) };
        if !due.now(policy) {
            return Ok(());
        }
        let f = &standing.state.f;
        let mut container = Container::new(CHECKPOINT);
        container.set_field("options", self.options)?;
        container.set_field("fingerprint", &format!("{:016x}", self.fingerprint))?;
        container.set_field("path", &f.device().path())?;
        container.set_field("choice", &standing.choice)?;
        container.set_field("history", &standing.history)?;
        container.set_field("best", &standing.best)?;
        container.set_field("absorbing", &standing.absorbing)?;
        container.set_field("calibration", &standing.calibration)?;
        container.set_field("shifts", &standing.shifts)?;
        let coefficients: Vec<f32> = (0..f.len()).flat_map(|b| f.coefficients(b).into_owned()).collect();
        container.insert("coefficients", vec![f.len(), f.map().block_size, f.outputs()], coefficients)?;
        let predictions = standing.state.predictions.clone();
        container.insert("predictions", vec![self.rows.len(), f.outputs()], predictions)?;
        container.save(&policy.path)
    }

    /// Whether the features of a user's kernel, known by name alone, are those that the predictions of a checkpoint were
    /// made of: compared on the first rows, to rounding.
    fn reproduces(&self, f: &FeatureExpansion, predictions: &[f32]) -> Result<bool> {
        const PROBES: usize = 16;
        if !self.options.kernel.has_user_part() {
            return Ok(true);
        }
        let few = self.rows.len().min(PROBES);
        let mut again = vec![0.0; few * f.outputs()];
        f.evaluate(self.rows.slice(0..few), &mut again)?;
        let size = again.iter().fold(1.0_f32, |most, v| most.max(v.abs()));
        Ok(again.iter().zip(predictions).all(|(a, b)| (a - b).abs() <= 1e-3 * size))
    }

    /// Continues where a checkpoint of the same fit left off, bit for bit.
    pub(super) fn resume(&self, path: &Path) -> Result<Standing> {
        let mut container = Container::load(path)?;
        container.expect_kind(CHECKPOINT)?;
        let differs = |what: &str| Error::Checkpoint(format!("its {what} differ"));
        let options: Options = container.field("options")?;
        let same = Options { max_time: None, chunk: 0, ..options }
            == Options { max_time: None, chunk: 0, ..self.options.clone() };
        if !same {
            return Err(differs("settings"));
        }
        if container.field::<String>("fingerprint")? != format!("{:016x}", self.fingerprint) {
            return Err(differs("data"));
        }
        let choice: Choice = container.field("choice")?;
        let map = self.map(&Setting::from_choice(choice, &self.moments, &self.options.kernel))?;
        let mut f = FeatureExpansion::new(map, self.offset.clone());
        if container.field::<crate::compute::Path>("path")? != f.device().path() {
            return Err(differs("instruction path (another machine wrote it); its results"));
        }
        let (m, c) = (f.map().block_size, f.outputs());
        let blocks = container.f32s("coefficients")?.0.first().copied().unwrap_or(0);
        let coefficients = container.take_f32s("coefficients", &[blocks, m, c])?;
        coefficients.chunks_exact(m * c).for_each(|block| f.push(block.to_vec()));
        let predictions = container.take_f32s("predictions", &[self.rows.len(), c])?;
        if !self.reproduces(&f, &predictions)? {
            return Err(differs("kernel's features"));
        }
        let history: Vec<HistoryEntry> = container.field("history")?;
        let best: usize = container.field("best")?;
        let shifts: Option<Vec<f32>> = container.field("shifts")?;
        if shifts.as_ref().is_some_and(|s| s.len() != c || s.iter().any(|v| !v.is_finite())) {
            return Err(Error::Format("the checkpoint contradicts itself".into()));
        }
        if best > history.len() || history.len() > self.max_blocks() || blocks > 2 * self.max_blocks() + 1 {
            return Err(Error::Format("the checkpoint contradicts itself".into()));
        }
        Ok(Standing {
            state: BlockState::resume(f, predictions),
            choice,
            history,
            best,
            absorbing: container.field("absorbing")?,
            calibration: container.field("calibration")?,
            shifts,
        })
    }
}
