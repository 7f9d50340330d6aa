//! Closed forms from sums over transitions.

use super::options::{EvaluationOptions, Functions, Method};
use super::points::Prepared;
use crate::error::Result;
use crate::model::Container;
use crate::solver::{choose_ridge, choose_ridges, Addend, DualForm, Moments, Ridges, Solution, PARTS};
use faer::Mat;

/// Groups of episodes that errors are computed from, at most.
pub(super) const GROUPS: usize = 512;
/// Ridges whose held-out error is at most this many times the least are as good, and the smallest is taken: the mean residual falls with
/// the ridge long after the error of the value has begun to rise.
const NEAR: f64 = 2.0;
/// λ₁ of the saddle point at most, unless given: what shrinks the slowest directions of BᵀG⁻¹B is a bias of the value.
const MOST: f64 = 1e-6;
/// λ₂ unless given.
const DUAL_RIDGE: f64 = 1e-6;
/// Up to this many transitions a kernel model has an atom at every one (Algorithm 10).
const ATOMS: usize = 2_000;

/// What transitions say, however many they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// Moments of parts of them, by which ridges are chosen.
    pub parts: Vec<Moments>,
    /// Σ φ(T V) of groups of episodes, at the V that was known when they came.
    pub scores: Vec<Mat<f64>>,
}

impl Stream {
    /// Adds the moments of further transitions, part by part.
    pub(super) fn add(&mut self, parts: Vec<Moments>) {
        match self.parts.is_empty() {
            true => self.parts = parts,
            false => self.parts.iter_mut().zip(&parts).for_each(|(sum, part)| sum.add(part)),
        }
    }

    /// Adds the scores of further groups. Where they become too many, neighbours are one.
    pub(super) fn add_scores(&mut self, scores: Vec<Mat<f64>>) {
        self.scores.extend(scores);
        while self.scores.len() > GROUPS {
            let sum = |pair: &[Mat<f64>]| pair.iter().skip(1).fold(pair[0].clone(), |sum, more| sum + more);
            self.scores = self.scores.chunks(2).map(sum).collect();
        }
    }

    /// Adds what is known to a container, whose fields begin with "stream".
    pub(super) fn store(&self, container: &mut Container) -> Result<()> {
        container.set_field("stream", &self.parts.len())?;
        for (k, part) in self.parts.iter().enumerate() {
            part.store(container, &format!("stream.{k}"))?;
        }
        let rows = self.scores.first().map_or(0, |score| score.nrows());
        let scores: Vec<f64> = self.scores.iter().flat_map(|score| score.col_as_slice(0).to_vec()).collect();
        container.insert("stream.scores", vec![self.scores.len(), rows], scores)
    }

    /// Takes out what [`Stream::store`] added, for a basis of M functions.
    pub(super) fn restore(container: &mut Container, m: usize) -> Result<Self> {
        let parts: usize = container.field("stream")?;
        let parts = (0..parts.min(PARTS)).map(|k| Moments::restore(container, &format!("stream.{k}"), m));
        let parts = parts.collect::<Result<_>>()?;
        let groups = container.f64s("stream.scores")?.1.len() / m;
        let scores = container.take_f64s("stream.scores", &[groups, m])?;
        let column = |score: &[f64]| Mat::from_fn(m, 1, |i, _| score[i]);
        Ok(Self { parts, scores: scores.chunks_exact(m).map(column).collect() })
    }
}

/// The settings of a basis that a method has by itself.
pub(super) fn adapted(options: &EvaluationOptions, prepared: &Prepared<'_>) -> EvaluationOptions {
    let n = prepared.log.states.len();
    let every = options.method == Method::KernelMdp
        && options.features == Functions::Atoms
        && options.n_features.is_none()
        && n <= ATOMS;
    match every {
        true => EvaluationOptions { n_features: Some(n), ..options.clone() },
        false => options.clone(),
    }
}

/// θ by the method, its ridges, and the held-out error where they were chosen.
pub(super) fn solve(
    options: &EvaluationOptions,
    parts: &[Moments],
) -> Result<(Solution, Ridges, Option<f64>)> {
    let all = Moments::sum(parts.iter())?;
    if matches!(options.method, Method::DualEmbedding | Method::DoublyRobust) {
        let (ridges, error) = match (options.ridge, options.dual_ridge) {
            (Some(primal), Some(dual)) => (Ridges { primal, dual }, None),
            (primal, dual) => {
                // With one basis for both functions the dual's ridge matters little, and a large one does harm.
                choose_ridges(parts, DualForm::Free, (primal, dual.or(Some(DUAL_RIDGE))), (NEAR, MOST))
                    .map(|(r, error)| (r, Some(error)))?
            }
        };
        return Ok((all.solve(DualForm::Free, ridges)?, ridges, error));
    }
    let steps = options.iterations;
    let fitted = |moments: &Moments, ridge: f64| moments.solve_fitted(ridge, steps);
    let (ridge, error) = match (options.ridge, options.method) {
        (Some(ridge), _) => (ridge, None),
        (None, Method::FittedQ) => {
            choose_ridge(parts, NEAR, fitted).map(|(ridge, error)| (ridge, Some(error)))?
        }
        (None, _) => choose_ridge(parts, NEAR, Moments::solve_square_alone)
            .map(|(ridge, error)| (ridge, Some(error)))?,
    };
    let mut solution = all.solve_square(ridge)?;
    if options.method == Method::FittedQ {
        solution.theta = fitted(&all, ridge)?;
    }
    Ok((solution, Ridges { primal: ridge, dual: 0.0 }, error))
}
