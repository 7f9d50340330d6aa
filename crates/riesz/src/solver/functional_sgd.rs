//! Functional stochastic gradient descent (thesis Algorithms 1–2; on a dictionary it would be NORMA).

use super::{check_ridge, Schedule};
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::loss::Loss;
use crate::operator::{Evaluation, Operator};
use crate::space::{FeatureExpansion, Space};
use serde::{Deserialize, Serialize};

/// Settings of [`FunctionalSgd`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionalSgdConfig {
    /// γ_t.
    pub schedule: Schedule,
    /// ν in E ℓ(f(x), y) + (ν/2)‖f‖².
    pub ridge: f64,
    /// Whether the average of all iterates is kept too.
    pub average: bool,
}

/// f ← (1 − γν) f − γ E_batch[ℓ'(f(x), y) k(x, ·)], with k(x, ·) seen through one fresh block of random features.
///
/// In coefficients (spec 2.3): α_t = −(γ_t/(mB)) Σ_b ℓ'(f(x_b), y_b) φ_{ω_t}(x_b), α_j ← (1 − γ_t ν) α_j for j < t.
#[derive(Clone, Copy, Debug)]
pub struct FunctionalSgd {
    config: FunctionalSgdConfig,
}

/// What changes from step to step.
#[derive(Clone, Debug)]
pub struct SgdState {
    /// The last iterate.
    pub f: FeatureExpansion,
    /// Steps taken.
    pub step: u64,
    /// For each block b the sum S_b of the running scalar over the iterates it is part of: the averaged iterate has
    /// the coefficients α_b S_b/(T s_T).
    sums: Vec<f64>,
}

/// Facts about one step.
#[derive(Clone, Copy, Debug)]
pub struct SgdInfo {
    /// Mean loss on the batch before the step.
    pub loss: f64,
    /// The step size used.
    pub step_size: f64,
}

impl FunctionalSgdConfig {
    /// Checks the settings.
    pub fn build(self) -> Result<FunctionalSgd> {
        self.schedule.check()?;
        check_ridge(self.ridge)?;
        Ok(FunctionalSgd { config: self })
    }
}

impl FunctionalSgd {
    /// The state that continues from `f` (empty, or what an earlier fit returned).
    pub fn init(&self, f: FeatureExpansion) -> SgdState {
        let sums = vec![0.0; f.len()];
        SgdState { f, step: 0, sums }
    }

    /// One step on a batch.
    pub fn step(
        &self,
        state: &mut SgdState,
        loss: &dyn Loss,
        rows: Rows<'_>,
        targets: &[f32],
        weights: &[f32],
    ) -> Result<SgdInfo> {
        let (n, c) = (rows.len(), loss.outputs());
        let mut values = vec![0.0; n * c];
        Evaluation.apply(&state.f, rows, &mut values)?;
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let value = loss.total(&values, targets, weights) / total;
        let step_size = self.config.schedule.at(state.step + 1);
        if !value.is_finite() {
            let lower = "the step size (theta), or raise its delay";
            return Err(Error::Diverged { step: state.step as usize, objective: value, lower });
        }
        let mut terms = vec![0.0; n * c];
        loss.residuals(&values, targets, weights, &mut terms);
        terms.iter_mut().for_each(|r| *r *= (step_size / total) as f32);
        let before = state.f.scale();
        let shrink = match 1.0 - step_size * self.config.ridge {
            // What is forgotten still counts in the average: keep a billionth of it.
            0.0 if self.config.average => 1e-9,
            shrink => shrink,
        };
        state.f.step(shrink, Evaluation.adjoint(rows, &terms))?;
        state.step += 1;
        if self.config.average {
            state.remember(before * shrink);
        }
        Ok(SgdInfo { loss: value, step_size })
    }
}

impl SgdState {
    /// Adds the running scalar to the sum of every block, in its current unit.
    fn remember(&mut self, expected: f64) {
        let now = self.f.scale();
        // The scalar may have been multiplied into the coefficients: its past values change their unit too.
        let unit = now / expected;
        self.sums.push(0.0);
        self.sums.iter_mut().for_each(|s| *s = unit * *s + now);
    }

    /// The average (1/T) Σ_t f_t of all iterates.
    pub fn average(&self) -> FeatureExpansion {
        let now = self.f.scale() * self.step.max(1) as f64;
        self.f.reweighted(|b| self.sums[b] / now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::features;
    use crate::kernel::{FeatureMap, KernelSpec, Scaling};
    use crate::loss::LossSpec;
    use crate::random::{BlockIndex, Seed};

    const X: [f32; 8] = [0.0, 0.0, 1.0, 0.3, -0.5, 1.2, 2.0, -1.0];
    const Y: [f32; 8] = [1.0, -1.0, 0.5, 0.2, -0.3, 2.0, 0.1, -0.7];
    const WEIGHTS: [f32; 4] = [1.0, 2.0, 0.0, 0.5];

    fn start() -> FeatureExpansion {
        let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 64, Seed(3), Scaling::identity(2)).unwrap();
        FeatureExpansion::new(map, vec![0.5, -0.25])
    }

    /// Spec 2.3 in double precision on four points: kernels through one block each, all coefficients decayed one by one.
    /// Returns all iterates, 4×2.
    fn textbook(config: FunctionalSgdConfig, steps: usize) -> Vec<Vec<f64>> {
        let map = start().map().clone();
        let rows = Rows::single(&X, 2).unwrap();
        let mass: f64 = WEIGHTS.iter().map(|&w| f64::from(w)).sum();
        let mut terms: Vec<Vec<f64>> = Vec::new();
        let mut iterates: Vec<Vec<f64>> = Vec::new();
        for t in 0..steps {
            let f = |i: usize| [0.5, -0.25][i % 2] + terms.iter().map(|term| term[i]).sum::<f64>();
            let values: Vec<f64> = (0..8).map(f).collect();
            let gamma = config.schedule.at(t as u64 + 1);
            let mut phi = vec![0.0; 4 * 64];
            features(start().device(), &map.draw(BlockIndex(t as u64)), rows, &mut phi).unwrap();
            let kernel = |i: usize, j: usize| {
                (0..64).map(|k| f64::from(phi[i * 64 + k] * phi[j * 64 + k])).sum::<f64>() / 64.0
            };
            let pull = |i: usize| f64::from(WEIGHTS[i / 2]) * (f64::from(Y[i]) - values[i]) / mass;
            let new = (0..8)
                .map(|i| (0..4).map(|j| gamma * pull(2 * j + i % 2) * kernel(i / 2, j)).sum())
                .collect();
            terms.iter_mut().flatten().for_each(|v| *v *= 1.0 - gamma * config.ridge);
            terms.push(new);
            let f = |i: usize| [0.5, -0.25][i % 2] + terms.iter().map(|term| term[i]).sum::<f64>();
            iterates.push((0..8).map(f).collect());
        }
        iterates
    }

    fn assert_close(f: &FeatureExpansion, expected: &[f64], what: &str) {
        let mut values = [0.0; 8];
        f.evaluate(Rows::single(&X, 2).unwrap(), &mut values).unwrap();
        for (value, expected) in values.iter().zip(expected) {
            // Some hundred additions in single precision of numbers around one.
            assert!((f64::from(*value) - expected).abs() < 3e-5, "{what}: {values:?} vs {expected:?}");
        }
    }

    /// The running scalar is the decay of all coefficients, also where it vanishes (θν = 1 and 2 without delay) and
    /// where it is multiplied into the coefficients (2⁻⁶⁰); the average is the average of the iterates.
    #[test]
    fn iterates_and_their_average_are_those_of_the_textbook() {
        let cases = [
            (Schedule::Inverse { theta: 2.0, delay: 0.0 }, 0.5, 12),
            (Schedule::Inverse { theta: 2.0, delay: 0.0 }, 1.0, 12),
            (Schedule::Inverse { theta: 3.0, delay: 4.0 }, 0.5, 30),
            (Schedule::Constant { step: 0.5 }, 1.0, 60),
            (Schedule::Constant { step: 0.3 }, 0.0, 20),
        ];
        for (schedule, ridge, steps) in cases {
            let config = FunctionalSgdConfig { schedule, ridge, average: true };
            let solver = config.build().unwrap();
            let mut state = solver.init(start());
            let loss = LossSpec::Square.build(2).unwrap();
            let mut smallest = 1.0_f64;
            for _ in 0..steps {
                solver.step(&mut state, &*loss, Rows::single(&X, 2).unwrap(), &Y, &WEIGHTS).unwrap();
                smallest = smallest.min(state.f.scale());
            }
            let iterates = textbook(config, steps);
            assert_close(&state.f, &iterates[steps - 1], &format!("last, {config:?}"));
            let mean: Vec<f64> =
                (0..8).map(|i| iterates.iter().map(|f| f[i]).sum::<f64>() / steps as f64).collect();
            assert_close(&state.average(), &mean, &format!("average, {config:?}"));
            assert!(steps < 60 || (smallest < 1e-11 && state.f.scale() > 1e-8), "never renormalised");
        }
    }

    #[test]
    fn settings_are_checked_and_divergence_is_reported() {
        let build = |schedule, ridge| FunctionalSgdConfig { schedule, ridge, average: false }.build();
        assert!(build(Schedule::Inverse { theta: 0.0, delay: 0.0 }, 0.1).is_err());
        assert!(build(Schedule::Inverse { theta: 1.0, delay: -1.0 }, 0.1).is_err());
        assert!(build(Schedule::Constant { step: f64::NAN }, 0.1).is_err());
        assert!(build(Schedule::Constant { step: 1.0 }, -0.1).is_err());
        let solver = build(Schedule::Constant { step: 1e3 }, 0.0).unwrap();
        let (mut state, loss) = (solver.init(start()), LossSpec::Square.build(2).unwrap());
        let rows = Rows::single(&X, 2).unwrap();
        let error = (0..60).find_map(|_| solver.step(&mut state, &*loss, rows, &Y, &WEIGHTS).err());
        assert!(matches!(error, Some(Error::Diverged { .. })), "{error:?}");
    }
}
