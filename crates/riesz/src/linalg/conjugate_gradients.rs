//! Conjugate gradients.

use super::dot;
use crate::error::{Error, Result};
use rayon::prelude::*;

/// Numbers summed by one thread.
const TILE: usize = 1_024;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    /// Relative residual ‖b − Ax‖/‖b‖ wanted of every right-hand side.
    pub(crate) tolerance: f64,
    pub(crate) max_iterations: usize,
}

/// Solutions x of A x = b, one run of n numbers per right-hand side, with the iterations spent and the largest relative
/// residual.
pub(crate) struct Solution {
    pub(crate) x: Vec<f64>,
    pub(crate) iterations: usize,
    pub(crate) residual: f64,
}

/// Solves A x = b for a positive definite A and all right-hand sides at once, each with its own steps. `multiply` gives A p
/// of as many runs of n numbers as `right` has; `progress` is told iteration and residual, and may end it with an error.
pub(crate) fn conjugate_gradients(
    right: &[f64],
    n: usize,
    stop: Stop,
    multiply: impl FnMut(&[f64]) -> Result<Vec<f64>>,
    progress: impl FnMut(usize, f64) -> Result<()>,
) -> Result<Solution> {
    let solution = truncated(right, n, stop, multiply, progress)?;
    let Solution { iterations, residual, .. } = solution;
    if residual > stop.tolerance {
        let (method, wanted) = ("conjugate gradients", stop.tolerance);
        return Err(Error::NotConverged { method, iterations, residual, wanted });
    }
    Ok(solution)
}

/// The same, content with what the iterations have reached where they are used up.
pub(crate) fn truncated(
    right: &[f64],
    n: usize,
    stop: Stop,
    mut multiply: impl FnMut(&[f64]) -> Result<Vec<f64>>,
    mut progress: impl FnMut(usize, f64) -> Result<()>,
) -> Result<Solution> {
    let norms: Vec<f64> = right.chunks(n).map(|b| tiled_dot(b, b).max(f64::MIN_POSITIVE)).collect();
    let mut x = vec![0.0; right.len()];
    let (mut r, mut p) = (right.to_vec(), right.to_vec());
    let mut rho: Vec<f64> = norms.clone();
    let worst = |rho: &[f64]| rho.iter().zip(&norms).map(|(r, b)| (r / b).sqrt()).fold(0.0, f64::max);
    for iterations in 0..stop.max_iterations {
        let residual = worst(&rho);
        progress(iterations, residual)?;
        if residual <= stop.tolerance {
            return Ok(Solution { x, iterations, residual });
        }
        let q = multiply(&p)?;
        for (k, rho) in rho.iter_mut().enumerate() {
            let run = k * n..(k + 1) * n;
            let (x, r, p, q) = (&mut x[run.clone()], &mut r[run.clone()], &mut p[run.clone()], &q[run]);
            let step = *rho / tiled_dot(p, q).max(f64::MIN_POSITIVE);
            x.iter_mut().zip(&*p).for_each(|(x, p)| *x += step * p);
            r.iter_mut().zip(q).for_each(|(r, q)| *r -= step * q);
            let new = tiled_dot(r, r);
            let ratio = new / rho.max(f64::MIN_POSITIVE);
            p.iter_mut().zip(&*r).for_each(|(p, r)| *p = r + ratio * *p);
            *rho = new;
        }
    }
    let residual = worst(&rho);
    Ok(Solution { x, iterations: stop.max_iterations, residual })
}

/// ⟨a, b⟩ summed tile by tile in a fixed order.
fn tiled_dot(a: &[f64], b: &[f64]) -> f64 {
    let partial: Vec<f64> = a.par_chunks(TILE).zip(b.par_chunks(TILE)).map(|(a, b)| dot(a, b)).collect();
    partial.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In exact arithmetic a matrix with three eigenvalues needs three iterations.
    #[test]
    fn as_many_iterations_as_eigenvalues() {
        let eigenvalue = |i: usize| [1.0, 2.0, 5.0][i % 3];
        let right: Vec<f64> = (0..60).map(|i| 1.0 + (i as f64 * 0.7).sin()).collect();
        let multiply = |p: &[f64]| Ok((0..60).map(|i| eigenvalue(i % 30) * p[i]).collect());
        let stop = Stop { tolerance: 1e-12, max_iterations: 10 };
        let solution = conjugate_gradients(&right, 30, stop, multiply, |_, _| Ok(())).unwrap();
        assert_eq!(solution.iterations, 3);
        assert!(solution.residual <= 1e-12);
        for (i, x) in solution.x.iter().enumerate() {
            assert!((x - right[i] / eigenvalue(i % 30)).abs() < 1e-12, "{i}");
        }
    }
}
