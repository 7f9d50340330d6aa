//! Quantiles that cover as many new rows as they say.

use super::Fit;
use crate::driver::{run, Again, Control, Phase, Steps};
use crate::error::Result;
use crate::functions::kernel_machine::training::effective_rows;
use crate::functions::quantile::weighted_quantile;
use crate::random::{BlockIndex, Permutation, Stream};
use crate::solver::{BlockDescent, Problem};
use crate::space::FeatureExpansion;

/// Parts of a cross-validation.
pub(super) const FOLDS: usize = 5;

impl Fit<'_> {
    /// For each quantile τ the τ-quantile of y − f over rows that f was not learnt from, by their weights: added to f it
    /// leaves the share τ of them below. Rows that were learnt from lie nearer to f than new ones do, so f itself
    /// covers too few. `None` where levels are not what defines the outputs.
    ///
    /// Where f leaves τ + e below and the chance of n rows is s = √(τ(1−τ)/n), only 1 − s²/e² of it is taken.
    pub(super) fn shifts(&self, predictions: &[f32], weights: &[f32]) -> Option<Vec<f32>> {
        let levels = self.loss.levels();
        let (c, n) = (levels.len(), effective_rows(weights));
        let shift = |(k, &level): (usize, &f64)| {
            let own = predictions.iter().skip(k).step_by(c);
            let residuals: Vec<f32> = self.targets.iter().zip(own).map(|(y, f)| y - f).collect();
            let below = residuals.iter().zip(weights).filter(|(r, _)| **r < 0.0);
            let excess = below.map(|(_, &w)| f64::from(w)).sum::<f64>() / n - level;
            let trust = 1.0 - level * (1.0 - level) / (n * excess * excess);
            (trust.max(0.0) * weighted_quantile(&residuals, weights, level)) as f32
        };
        (c > 0).then(|| levels.iter().enumerate().map(shift).collect())
    }

    /// The same where no rows were held out: each fifth of them is predicted by a fit to the others, with the settings
    /// and the number of blocks of the fit itself.
    pub(super) fn cross_validated_shifts(
        &self,
        solver: &BlockDescent,
        fitted: &FeatureExpansion,
        control: &mut Control<'_>,
    ) -> Result<Option<Vec<f32>>> {
        let n = self.rows.len();
        if self.loss.levels().is_empty() || n < 2 * FOLDS {
            return Ok(None);
        }
        let c = self.loss.outputs();
        let order = Permutation::new(self.options.seed, Stream::HoldOut, BlockIndex(0), n);
        let mut predictions = vec![0.0; n * c];
        for fold in 0..FOLDS {
            let others = |i: usize| order.indices()[i] as usize % FOLDS != fold;
            let weights: Vec<f32> = (0..n).map(|i| if others(i) { self.weights[i] } else { 0.0 }).collect();
            if weights.iter().all(|&w| w == 0.0) {
                return Ok(None);
            }
            let offset = self.loss.start(&self.targets, &weights);
            let f = FeatureExpansion::new(fitted.map().clone(), offset);
            let mut state = solver.init(f, self.rows)?;
            let problem = Problem { weights: &weights, ..self.problem() };
            run(
                solver,
                &mut state,
                &mut Again(problem),
                &mut Steps::new(Phase::Absorb, fitted.len()),
                control,
            )?;
            for i in (0..n).filter(|&i| !others(i)) {
                predictions[i * c..(i + 1) * c].copy_from_slice(&state.predictions[i * c..(i + 1) * c]);
            }
        }
        Ok(self.shifts(&predictions, &self.weights))
    }
}
