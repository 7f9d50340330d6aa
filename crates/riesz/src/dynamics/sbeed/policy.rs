//! Policies, and how they follow an advantage.

use super::approximator::{Approximator, Inputs};
use super::metric::Metric;
use super::Head;
use crate::error::Result;
use crate::linalg::conjugate_gradients::{truncated, Stop};
use crate::linalg::dot;
use crate::model::Container;
use crate::random::Address;

/// π(a|s): a function of the state, and a distribution that is given by its outputs.
#[derive(Clone, Debug)]
pub struct Policy {
    /// g.
    pub body: Approximator,
    /// The distribution given g(s).
    pub head: Head,
}

/// A direction of the parameters of a policy, and its length in the metric of Fisher.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    body: Vec<f64>,
    head: Vec<f64>,
    /// dᵀFd, so that KL(π‖π') ≈ ½h²q for a step of size h.
    pub(super) square: f64,
}

/// Conjugate gradients of a natural gradient that has no closed form.
const ITERATIONS: usize = 10;
const TOLERANCE: f64 = 1e-6;

impl Policy {
    /// p, the outputs of g.
    pub fn outputs(&self) -> usize {
        self.body.outputs()
    }

    /// g(s) of prepared rows, n×p.
    pub fn evaluate(&self, inputs: &Inputs) -> Result<Vec<f64>> {
        self.body.values(inputs)
    }

    /// log π(a|s) from g(s).
    pub fn log_probabilities(&self, outputs: &[f64], actions: &[f64]) -> Vec<f64> {
        self.head.log_probabilities(self.outputs(), outputs, actions)
    }

    /// Actions given g(s), drawn at addresses, or the likeliest.
    pub fn actions(&self, outputs: &[f64], at: Option<&dyn Fn(usize) -> Address>) -> Vec<f64> {
        self.head.actions(self.outputs(), outputs, at)
    }

    /// The mean of KL(π‖π') over rows.
    pub fn divergence(&self, outputs: &[f64], other: &Self, others: &[f64]) -> f64 {
        self.head.divergence(self.outputs(), outputs, &other.head, others)
    }

    /// The natural gradient F⁻¹ E[ w ∇log π(a|s) ], F = E[ ∇log π ∇log πᵀ ] under π.
    ///
    /// Where g is linear in features and the head Gaussian, F = E[φφᵀ] ⊗ diag(1/σ²) and the solution is closed,
    /// dθ = (E[φφᵀ] + νI)⁻¹ E[ φ w (a − g)ᵀ ], in the `metric` E[φφᵀ] + νI; else it is that of `ITERATIONS` conjugate
    /// gradients on Jᵀ H J + νI. That of log σ is ½E[ w ((a − g)²/σ² − 1) ].
    pub(super) fn natural_gradient(
        &self,
        inputs: &Inputs,
        (outputs, actions): (&[f64], &[f64]),
        weights: &[f64],
        (damping, metric): (f64, Option<&Metric>),
        gains: &mut Vec<f64>,
    ) -> Result<Direction> {
        let (p, n) = (self.outputs(), weights.len() as f64);
        let shares: Vec<f64> = weights.iter().map(|w| w / n).collect();
        let (mut scores, own) = self.head.scores(p, outputs, actions, &shares);
        let head: Vec<f64> = own.iter().map(|g| g / self.head.own_fisher()).collect();
        let body = match (&self.head, metric) {
            (Head::Gaussian { log_deviation, .. }, Some(metric)) => {
                let scale = |i: usize| (2.0 * log_deviation[i % p]).exp();
                scores.iter_mut().enumerate().for_each(|(i, score)| *score *= scale(i));
                let precisions: Vec<f64> = log_deviation.iter().map(|l| (-2.0 * l).exp()).collect();
                metric.solve(&self.body, inputs, (&scores, &precisions), gains)?
            }
            _ => {
                let right = self.body.adjoint(inputs, &scores)?;
                let stop = Stop { tolerance: TOLERANCE, max_iterations: ITERATIONS };
                let multiply = |d: &[f64]| {
                    let mut product = self.fisher_product(inputs, outputs, d)?;
                    product.iter_mut().zip(d).for_each(|(f, d)| *f += damping * d);
                    Ok(product)
                };
                truncated(&right, right.len(), stop, multiply, |_, _| Ok(()))?.x
            }
        };
        let mut changes = self.body.tangent(inputs, &body)?;
        let plain = changes.clone();
        self.head.fisher(p, outputs, &mut changes);
        let square = dot(&changes, &plain) / n + self.head.own_fisher() * dot(&head, &head);
        Ok(Direction { body, head, square })
    }

    /// E[JᵀHJ] d.
    fn fisher_product(&self, inputs: &Inputs, outputs: &[f64], d: &[f64]) -> Result<Vec<f64>> {
        let p = self.outputs();
        let mut changes = self.body.tangent(inputs, d)?;
        self.head.fisher(p, outputs, &mut changes);
        let n = (outputs.len() / p) as f64;
        changes.iter_mut().for_each(|t| *t /= n);
        self.body.adjoint(inputs, &changes)
    }

    /// The policy further along a direction.
    pub(super) fn moved(&self, size: f64, direction: &Direction) -> Result<Self> {
        Ok(Self {
            body: self.body.moved(size, &direction.body)?,
            head: self.head.moved(size, &direction.head),
        })
    }

    pub(super) fn store(&self, container: &mut Container) -> Result<()> {
        self.body.store(container, "policy")?;
        container.set_field("head", &self.head)
    }

    pub(super) fn restore(container: &mut Container) -> Result<Self> {
        let policy =
            Self { body: Approximator::restore(container, "policy")?, head: container.field("head")? };
        policy.head.check()?;
        Ok(policy)
    }
}
