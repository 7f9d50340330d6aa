//! A value function, and its values.

use super::points::{branches, Branch, CHUNK};
use super::{PolicyEvaluation, Successors};
use crate::data::{tiles, Rows};
use crate::error::{Error, Result};
use crate::space::{Basis, FeatureExpansion, Function, Linear, Network};
use faer::Mat;

/// V or Q, in one of the spaces.
#[derive(Clone, Debug)]
pub(super) enum ValueFunction {
    Linear(Linear),
    Growing(FeatureExpansion),
    Network(Network),
}

impl ValueFunction {
    pub(super) fn as_function(&self) -> &dyn Function {
        match self {
            Self::Linear(f) => f,
            Self::Growing(f) => f,
            Self::Network(f) => f,
        }
    }

    /// Numbers that were learnt.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Linear(f) => f.basis().len(),
            Self::Growing(f) => f.len() * f.map().block_size,
            Self::Network(f) => f.parameters().len(),
        }
    }
}

impl PolicyEvaluation {
    fn function(&self) -> Result<&ValueFunction> {
        self.f.as_ref().ok_or_else(|| {
            Error::Conflict(
                "importance sampling gives one number, the value at the start of episodes, and no function"
                    .into(),
            )
        })
    }

    /// V as a combination of functions, by which errors are known.
    fn linear(&self) -> Result<&Linear> {
        match self.function()? {
            ValueFunction::Linear(f) => Ok(f),
            ValueFunction::Growing(_) | ValueFunction::Network(_) => Err(Error::Conflict(
                "standard errors and intervals are known of a fixed set of functions: fit with features = atoms, random, table or \
                 linear, or ask for values alone"
                    .into(),
            )),
        }
    }

    /// V at `states`: of what is done there as `policy` says, where values of actions were learnt.
    pub fn value(&self, states: Rows<'_>, policy: Successors<'_>) -> Result<Vec<f64>> {
        if let ValueFunction::Growing(_) | ValueFunction::Network(_) = self.function()? {
            return self.value_by_branches(states, policy);
        }
        let theta = self.plain_coefficients()?;
        let (m, mut out) = (theta.len(), Vec::with_capacity(states.len()));
        self.with_features(states, policy, |psi| {
            out.extend(psi.chunks_exact(m).map(|psi| product(psi, &theta)));
        })?;
        Ok(out)
    }

    /// Σ_a π(a | s) V(s, a).
    fn value_by_branches(&self, states: Rows<'_>, policy: Successors<'_>) -> Result<Vec<f64>> {
        self.check_states(states)?;
        let (f, mut sum) = (self.function()?.as_function(), vec![0.0; states.len()]);
        for Branch { rows, probabilities } in &branches(self.header.arguments, states, policy)? {
            let mut values = vec![0.0; states.len()];
            f.evaluate(Rows::single(rows, f.columns())?, &mut values)?;
            for (i, (sum, value)) in sum.iter_mut().zip(values).enumerate() {
                *sum += probabilities.as_ref().map_or(1.0, |p| f64::from(p[i])) * f64::from(value);
            }
        }
        Ok(sum)
    }

    fn check_states(&self, states: Rows<'_>) -> Result<()> {
        crate::error::same_columns(self.header.state_columns, states.columns())?;
        states.check_finite("states")
    }

    /// The standard errors of the same values: those of sums over independent episodes, to first order.
    pub fn standard_errors(&self, states: Rows<'_>, policy: Successors<'_>) -> Result<Vec<f64>> {
        let m = self.linear()?.basis().len();
        let groups = self.influences.len() / m;
        let correction = groups as f64 / (groups as f64 - 1.0).max(1.0);
        let (influences, mut out) = (self.plain_influences()?, Vec::with_capacity(states.len()));
        self.with_features(states, policy, |psi| {
            out.extend(psi.chunks_exact(m).map(|psi| {
                let squares: f64 = influences.chunks_exact(m).map(|q| product(psi, q).powi(2)).sum();
                (correction * squares).sqrt()
            }));
        })?;
        Ok(out)
    }

    /// Tᵀθ, the coefficients of plain features.
    pub(super) fn plain_coefficients(&self) -> Result<Vec<f64>> {
        let f = self.linear()?;
        let theta = f.coefficients();
        let theta = f.basis().transposed(&Mat::from_fn(theta.len(), 1, |i, _| theta[i]));
        Ok(theta.col_as_slice(0).to_vec())
    }

    /// The same of every group, J×M.
    pub(super) fn plain_influences(&self) -> Result<Vec<f64>> {
        let (basis, q) = (self.linear()?.basis(), &self.influences);
        let m = basis.len();
        let all = basis.transposed(&Mat::from_fn(m, q.len() / m, |i, j| q[j * m + i]));
        Ok(all.col_iter().flat_map(|column| column.iter().copied().collect::<Vec<_>>()).collect())
    }

    /// Σ_a π(a | s) ψ₀(s, a) of some states at a time, n×M, ψ₀ the plain features.
    pub(super) fn with_features(
        &self,
        states: Rows<'_>,
        policy: Successors<'_>,
        mut work: impl FnMut(&[f32]),
    ) -> Result<()> {
        self.check_states(states)?;
        let basis = self.linear()?.basis();
        let (d, m) = (basis.columns(), basis.len());
        let all = branches(self.header.arguments, states, policy)?;
        for start in (0..states.len()).step_by(CHUNK) {
            let range = start..(start + CHUNK).min(states.len());
            let mut sum = vec![0.0; range.len() * m];
            for Branch { rows, probabilities } in &all {
                let psi = features(basis, &rows[range.start * d..range.end * d])?;
                for (i, (sum, psi)) in sum.chunks_exact_mut(m).zip(psi.chunks_exact(m)).enumerate() {
                    let p = probabilities.as_ref().map_or(1.0, |p| p[range.start + i]);
                    sum.iter_mut().zip(psi).for_each(|(sum, psi)| *sum += p * psi);
                }
            }
            work(&sum);
        }
        Ok(())
    }
}

/// ψ₀ of some rows.
fn features(basis: &Basis, x: &[f32]) -> Result<Vec<f32>> {
    use rayon::prelude::*;
    let (d, m) = (basis.columns(), basis.len());
    let n = x.len() / d;
    let parts: Vec<Vec<f32>> = tiles(n)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|tile| {
            let mut psi = vec![0.0; tile.len() * m];
            basis.fill_plain(&x[tile.start * d..tile.end * d], &mut psi).map(|()| psi)
        })
        .collect::<Result<_>>()?;
    Ok(parts.concat())
}

pub(super) fn product(psi: &[f32], theta: &[f64]) -> f64 {
    psi.iter().zip(theta).map(|(psi, theta)| f64::from(*psi) * theta).sum()
}
