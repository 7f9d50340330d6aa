//! Ridges by samples that were not learnt from.

use super::{Moments, Ridges};
use crate::error::{Error, Result};
use crate::linalg::cholesky::Cholesky;
use crate::solver::DualForm;
use faer::Mat;

/// Candidates for λ₁ and λ₂.
const PRIMAL: [f64; 8] = [1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1];
const DUAL: [f64; 4] = [1e-8, 1e-6, 1e-4, 1e-2];
/// λ₂ of the norm that candidates are compared in.
const NORM: f64 = 1e-6;

/// Parts that samples are dealt out to where ridges are chosen.
pub const PARTS: usize = 5;

/// How candidates for a ridge are compared: two parts of the samples are held out, and the others learnt from; with p_a, p_b the
/// errors E[φ((T f) − y)] on the two, p_aᵀG⁻¹p_b estimates without bias the squared norm of E[(T f) − y | x] in the span of φ,
/// whose noise pᵀG⁻¹p would count as error. Four times its own standard error is added, which is about |p_a − p_b|²/(2√K) in that
/// norm, or a wild f would win by luck; and an estimate below zero, which no squared norm is, counts as zero: that of a wild f may be far
/// below, as a few places decide its sign. The parts take turns.
struct Judge<'a> {
    parts: &'a [Moments],
    norm: Cholesky,
}

impl<'a> Judge<'a> {
    fn new(parts: &'a [Moments]) -> Result<Self> {
        if parts.len() < 3 {
            return Err(Error::Empty { what: "parts of the samples", needed: "three" });
        }
        Ok(Self { parts, norm: Moments::sum(parts.iter())?.factor(NORM)? })
    }

    /// What is learnt from while parts `t` and `t` + 1 are held out.
    fn training(&self, t: usize) -> Result<Moments> {
        let next = (t + 1) % self.parts.len();
        Moments::sum(
            self.parts.iter().enumerate().filter(|(k, _)| *k != t && *k != next).map(|(_, part)| part),
        )
    }

    /// The error on parts `t` and `t` + 1.
    fn error(&self, t: usize, theta: &Mat<f64>) -> f64 {
        let [a, b] = [t, t + 1].map(|k| {
            let mut error = self.parts[k % self.parts.len()].error(theta);
            self.norm.forward(error.as_mut());
            error
        });
        let (k, spread) = (a.nrows(), 2.0 / (a.nrows() as f64).sqrt());
        let estimate = |o: usize| -> f64 {
            let square: f64 = (0..k).map(|i| a[(i, o)] * b[(i, o)]).sum();
            let noise: f64 = (0..k).map(|i| (a[(i, o)] - b[(i, o)]).powi(2)).sum();
            // Not `max`, which would make zero of what is no number.
            let square = if square < 0.0 { 0.0 } else { square };
            square + spread * noise
        };
        (0..a.ncols()).map(estimate).sum()
    }
}

/// The ridges whose solution leaves the least of the error on samples that were not learnt from, and that error, for three parts of the
/// samples or more. Of λ₁ the smallest is taken whose error is at most `near` times the least: f is off by the bias of a large ridge
/// where the mean residual hardly tells. It is `most` at most. Either ridge may be given.
pub fn choose_ridges(
    parts: &[Moments],
    form: DualForm,
    (primal, dual): (Option<f64>, Option<f64>),
    (near, most): (f64, f64),
) -> Result<(Ridges, f64)> {
    let candidates = || PRIMAL.into_iter().filter(|ridge| *ridge <= most).collect();
    let primals = primal.map_or_else(candidates, |ridge| vec![ridge]);
    let duals = dual.map_or(DUAL.to_vec(), |ridge| vec![ridge]);
    let judge = Judge::new(parts)?;
    let mut scores = vec![0.0; duals.len() * primals.len()];
    for t in 0..parts.len() {
        let training = judge.training(t)?;
        for (&dual, scores) in duals.iter().zip(scores.chunks_exact_mut(primals.len())) {
            let (factor, whitened, square) = training.whitened(dual)?;
            for (score, &ridge) in scores.iter_mut().zip(&primals) {
                let (theta, _) = training.solve_whitened(form, ridge, &factor, &whitened, &square)?;
                *score += judge.error(t, &theta);
            }
        }
    }
    let ridges = |k: usize| Ridges { primal: primals[k % primals.len()], dual: duals[k / primals.len()] };
    let least =
        (0..scores.len()).filter(|&k| scores[k].is_finite()).min_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let least = least.ok_or(Error::Empty { what: "candidates for ridge", needed: "one" })?;
    let row = least / primals.len() * primals.len();
    let chosen = (row..=least).find(|&k| scores[k] <= near * scores[least]).unwrap_or(least);
    Ok((ridges(chosen), scores[chosen]))
}

/// The same for a solution with one ridge, given by `solve`.
pub fn choose_ridge(
    parts: &[Moments],
    near: f64,
    solve: impl Fn(&Moments, f64) -> Result<Mat<f64>>,
) -> Result<(f64, f64)> {
    let (judge, mut scores) = (Judge::new(parts)?, Vec::new());
    let trainings: Vec<Moments> = (0..parts.len()).map(|t| judge.training(t)).collect::<Result<_>>()?;
    let mut failure = Error::Empty { what: "candidates for ridge", needed: "one" };
    for ridge in PRIMAL {
        let score = |(t, training)| solve(training, ridge).map(|theta| judge.error(t, &theta));
        match trainings.iter().enumerate().map(score).sum::<Result<f64>>() {
            Ok(score) if score.is_finite() => scores.push((ridge, score)),
            Ok(_) => {}
            Err(error) => failure = error,
        }
    }
    let least = scores.iter().fold(f64::INFINITY, |least, (_, score)| least.min(*score));
    scores.into_iter().find(|(_, score)| *score <= near * least).ok_or(failure)
}
