//! Draws from the normal approximation that a model has of its own posterior.

use super::last::ENOUGH_EFFECTIVE;
use super::options::Renewal;
use super::population::Population;
use super::Run;
use crate::distributions::model::NormalApproximation;
use crate::distributions::posterior::{few, Posterior, HEAVY};
use crate::distributions::proposal::Proposal;
use crate::distributions::weights::{normalised, pareto_smoothed};
use crate::driver::Control;
use crate::error::{finite, same_rows, Result};
use crate::random::BlockIndex;

/// Block of the random numbers of the first draws, beyond those of all other parts.
const FIRST: u64 = 1 << 44;
/// Most repetitions, each about the mean of the draws before.
const REPETITIONS: u64 = 4;
/// Fewest effective draws whose mean is nearer to the posterior's than the one they were drawn about.
const LEAST_EFFECTIVE: f64 = 20.0;
/// Share of effective draws with which the islands are not needed.
const GOOD: f64 = 0.25;

impl Run<'_> {
    /// The posterior by draws from the model's own approximation, where enough of them are effective.
    ///
    /// A Gaussian about the mode misses the mean of a skewed posterior by far more than it misses the covariance. So the second
    /// draws are about the mean of the first, with the same correlations and all deviations scaled as those draws say,
    /// and so on.
    pub(super) fn approximated(&mut self, control: &mut Control<'_>) -> Result<Option<Posterior>> {
        let (model, options) = (self.settings[0].model, self.options());
        let begun = !self.islands.is_empty() || !self.history.is_empty();
        let asked = options.laplace && options.renewal == Renewal::Auto && options.final_stage;
        if begun || !asked {
            return Ok(None);
        }
        let found = model.approximation(&mut || {
            control.check(0)?;
            Ok(!control.out_of_time())
        })?;
        let Some(NormalApproximation { mean, covariance, evaluations }) = found else { return Ok(None) };
        let d = model.dimension();
        same_rows("the mean of an approximation", d, mean.len())?;
        same_rows("the covariance of an approximation", d * d, covariance.len())?;
        finite("approximation", &[mean.as_slice(), &covariance].concat(), 1)?;
        let proposal = Proposal::normal(mean, &covariance, options.defensive);
        self.normal_draws(proposal, FIRST, evaluations, control)
    }

    /// The posterior by draws from a normal density and those about the mean of the draws before, where enough of them are
    /// effective. Random numbers are those of the blocks from `first` on; `evaluations` is what the density has cost.
    pub(super) fn normal_draws(
        &mut self,
        mut proposal: Proposal,
        first: u64,
        evaluations: u64,
        control: &mut Control<'_>,
    ) -> Result<Option<Posterior>> {
        let (options, d) = (self.options(), self.settings[0].model.dimension());
        let count = options.particles as f64;
        let mut best: Option<(f64, Population)> = None;
        for repetition in 0..REPETITIONS {
            let fresh = self.draws(&proposal, BlockIndex(first + repetition), options.particles)?;
            if let (0, Some(stage)) = (repetition, self.history.last_mut()) {
                stage.evaluations += evaluations;
            }
            self.report(control)?;
            let size = fresh.distinct_size(d);
            if best.as_ref().is_some_and(|(most, _)| size <= *most) {
                break;
            }
            if size >= LEAST_EFFECTIVE {
                proposal = proposal.about(&fresh.positions, &normalised(&fresh.log_weights));
            }
            best = Some((size, fresh));
            if size >= ENOUGH_EFFECTIVE * count || size < LEAST_EFFECTIVE || control.out_of_time() {
                break;
            }
        }
        // Islands that have no time left would know less.
        let enough = if control.out_of_time() { 0.0 } else { GOOD * count };
        let good = |(size, fresh): &(f64, Population)| {
            *size >= few(options.particles).max(enough)
                && pareto_smoothed(&fresh.log_weights).1.is_none_or(|k| k < HEAVY)
        };
        Ok(best.filter(good).map(|(_, fresh)| self.of_draws(fresh, 1)))
    }
}
