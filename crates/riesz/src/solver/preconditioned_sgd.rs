//! Stochastic gradients on fixed features, preconditioned by what the first rows say of them.

use super::feature_matrix::{solve, FeatureMatrix, SecondMoments};
use super::{Samples, SgdInfo, Solver};
use crate::data::Rows;
use crate::error::{Error, Result};
use crate::linalg::Cholesky;
use crate::loss::Loss;
use crate::model::Container;
use crate::space::{Averaged, Averaging, FeatureSpace, FixedFeatures, Function};
use serde::{Deserialize, Serialize};

/// Steps on M fixed features φ along the gradient that the second moments of the first rows precondition:
///
/// ```text
/// P = (G + ρI)⁻¹ with G = E φφᵀ of the first rows and ρ = Mλ/n,
/// g = −E_batch[J'(f(x), y) φ(x)] − (h₀Mλ/N) α,    d = P g,    α ← α + η d,
/// ```
///
/// where λ is the total ridge (nν of the objective (1/n) Σ J + (ν/2)‖f‖²), N counts the rows seen and h₀ is the curvature of
/// the loss at the start. η is the share c of the minimiser along d of the batch's loss, to second order with
/// the curvature of each row, and is halved while the loss of the batch would rise: neither the unit of the targets nor
/// the size of a batch is a setting. The first rows themselves are fitted by a few such steps with c = 1, which for the square
/// loss is one exact solve.
///
/// A departure from thesis Algorithm 1, measured in `docs/departures.md`: a step sees each row once too, but moves along
/// directions of small variance as fast as along large ones.
pub struct PreconditionedSgd<'l> {
    loss: &'l dyn Loss,
}

/// What changes from step to step.
#[derive(Clone)]
pub struct PreconditionedState {
    /// The last iterate, which keeps the average of all.
    pub f: FixedFeatures,
    moments: SecondMoments,
    /// ρ.
    damping: f64,
    factor: Cholesky,
    /// Mν at N rows is `constant` + `total`/N.
    constant: f64,
    total: f64,
    /// N.
    seen: f64,
    steps: u64,
}

/// How ν depends on the number N of rows seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StreamRidge {
    /// ν = λ/N: what was chosen for some rows stays right for more. In units of the curvature at the start.
    Total(f64),
    /// ν as it is.
    PerRow(f64),
}

/// The share c of the batch's own minimiser.
const SHARE: f64 = 0.5;
/// Steps on the first rows, where the loss is not the square.
const FIRST_STEPS: usize = 8;
/// How often a step that raises the loss of its batch is halved before it is left out.
const HALVINGS: usize = 12;
/// Iterates are averaged with weights of about t³.
const AVERAGING: f64 = 3.0;
/// Width over which a kink is rounded, in mean residuals or margins.
const WIDTH: f32 = 0.125;

impl<'l> PreconditionedSgd<'l> {
    /// The solver of a loss.
    pub fn new(loss: &'l dyn Loss) -> Self {
        Self { loss }
    }

    /// Fits the first rows on the one block of features of `f`, whose coefficients are ignored. The average weighs iterates
    /// like t^c with c = `averaging`, 3 unless given.
    pub fn begin(
        &self,
        f: FixedFeatures,
        samples: Samples<'_, Rows<'_>>,
        ridge: StreamRidge,
        averaging: Option<f64>,
    ) -> Result<PreconditionedState> {
        let Samples { batch, targets, weights } = samples;
        let f = f.cleared().averaging(Averaging::Power(averaging.unwrap_or(AVERAGING)));
        let phi = FeatureMatrix::new(f.map(), f.device(), batch)?;
        let (m, mass) = (phi.features() as f64, weights.iter().map(|&w| f64::from(w)).sum::<f64>());
        let start = f.offset().repeat(weights.len());
        let mut curvature = vec![0.0; weights.len()];
        self.stand_in(&start, targets, weights, |loss| {
            loss.curvatures(&start, targets, weights, &mut curvature);
        });
        let curvature = curvature.iter().map(|&h| f64::from(h)).sum::<f64>() / mass;
        let (constant, total) = match ridge {
            StreamRidge::Total(ridge) => (0.0, curvature * m * ridge),
            StreamRidge::PerRow(ridge) => (m * ridge, 0.0),
        };
        let damping = (constant + total / mass) / curvature.max(f64::MIN_POSITIVE);
        let moments = phi.second_moments(weights);
        let factor = moments.factor(damping)?;
        let mut state =
            PreconditionedState { f, moments, damping, factor, constant, total, seen: mass, steps: 0 };
        let steps = if self.loss.name() == "square" { 1 } else { FIRST_STEPS };
        for _ in 0..steps {
            self.step_on(&mut state, &phi, samples, (1.0, mass))?;
        }
        state.f.begin_average();
        Ok(state)
    }

    /// Calls `with` the loss itself, or with its kink rounded where it has one.
    fn stand_in(&self, values: &[f32], targets: &[f32], weights: &[f32], with: impl FnOnce(&dyn Loss)) {
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let mean = self.loss.total(values, targets, weights) / total;
        let unit = self.loss.residual_share().map_or(1.0, |share| (mean as f32 / share).clamp(1e-3, 1.0));
        match self.loss.smoothed(WIDTH * unit) {
            Some(smoothed) => with(&*smoothed),
            None => with(self.loss),
        }
    }

    /// One step with the share c of the line search, where N rows have been seen with this batch.
    fn step_on(
        &self,
        state: &mut PreconditionedState,
        phi: &FeatureMatrix,
        Samples { targets, weights, .. }: Samples<'_, Rows<'_>>,
        (share, seen): (f64, f64),
    ) -> Result<SgdInfo> {
        let c = state.f.outputs();
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let alpha = state.f.coefficients(0).into_owned();
        let mut values = phi.apply(&alpha, c);
        values
            .chunks_exact_mut(c)
            .for_each(|row| row.iter_mut().zip(state.f.offset()).for_each(|(v, o)| *v += o));
        let loss = self.loss.total(&values, targets, weights) / total;
        if !loss.is_finite() {
            let lower = "the scale of the targets";
            return Err(Error::Diverged { step: state.steps as usize, objective: loss, lower });
        }
        let (mut residuals, mut curvatures) = (vec![0.0; values.len()], vec![0.0; weights.len()]);
        self.stand_in(&values, targets, weights, |loss| {
            loss.residuals(&values, targets, weights, &mut residuals);
            loss.curvatures(&values, targets, weights, &mut curvatures);
        });
        residuals.iter_mut().for_each(|r| *r = (f64::from(*r) / total) as f32);
        let ridge = state.constant + state.total / seen;
        let gradient: Vec<f64> =
            phi.adjoint(&residuals, c).iter().zip(&alpha).map(|(g, a)| g - ridge * f64::from(*a)).collect();
        let direction = solve(&state.factor, &gradient, c);
        let step: Vec<f32> = direction.iter().map(|&d| d as f32).collect();
        let along = phi.apply(&step, c);
        let bend: f64 = along.chunks_exact(c).zip(&curvatures).map(|(u, h)| f64::from(*h) * squares(u)).sum();
        let slope: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let mut size = share * slope / (bend / total + ridge * squares(&step));
        if !(size.is_finite() && size > 0.0) {
            size = 0.0;
        }
        let at = |size: f64| -> f64 {
            let moved: Vec<f32> = values.iter().zip(&along).map(|(v, u)| v + size as f32 * u).collect();
            self.loss.total(&moved, targets, weights) / total
        };
        // A NaN is no fall either.
        let falls = |size: f64| size == 0.0 || at(size) <= loss + 1e-6 * loss.abs();
        let mut halvings = 0;
        while !falls(size) {
            halvings += 1;
            size = if halvings < HALVINGS { 0.5 * size } else { 0.0 };
        }
        state.f.advance(size, &step);
        state.steps += 1;
        Ok(SgdInfo { loss, weight: total, step_size: size })
    }
}

/// The numbers of a state that are not tensors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Numbers {
    damping: f64,
    constant: f64,
    total: f64,
    seen: f64,
    steps: u64,
}

impl PreconditionedState {
    /// Adds all but f to a container.
    pub(crate) fn store(&self, container: &mut Container) -> Result<()> {
        let Self { damping, constant, total, seen, steps, .. } = *self;
        container.set_field("preconditioner", &Numbers { damping, constant, total, seen, steps })?;
        let lower = self.moments.lower().to_vec();
        container.insert("preconditioner", vec![lower.len()], lower)
    }

    /// Takes out what [`PreconditionedState::store`] added.
    pub(crate) fn restore(container: &mut Container, f: FixedFeatures) -> Result<Self> {
        let Numbers { damping, constant, total, seen, steps } = container.field("preconditioner")?;
        let count = container.f32s("preconditioner")?.1.len();
        let lower = container.take_f32s("preconditioner", &[count])?;
        let moments = SecondMoments::new(f.map().block_size, lower)?;
        let factor = moments.factor(damping)?;
        Ok(Self { f, moments, damping, factor, constant, total, seen, steps })
    }

    /// Steps taken, those on the first rows included.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

fn squares(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v) * f64::from(v)).sum()
}

impl Solver for PreconditionedSgd<'_> {
    type Batch<'a> = Samples<'a, Rows<'a>>;
    type State = PreconditionedState;
    type Info = SgdInfo;

    fn step(&self, state: &mut PreconditionedState, samples: Samples<'_, Rows<'_>>) -> Result<SgdInfo> {
        let phi = FeatureMatrix::new(state.f.map(), state.f.device(), samples.batch)?;
        let weight: f64 = samples.weights.iter().map(|&w| f64::from(w)).sum();
        let seen = state.seen + weight;
        let info = self.step_on(state, &phi, samples, (SHARE, seen))?;
        state.seen = seen;
        Ok(info)
    }
}
