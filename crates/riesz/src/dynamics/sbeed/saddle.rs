//! V at the saddle point itself, where V and ρ are linear in features.

use super::Windows;
use crate::error::Result;
use crate::linalg::cholesky::{add_product, add_square, Cholesky, DOUBLE};
use crate::solver::FeatureMatrix;
use faer::{Mat, MatRef};

/// The V = wᵀψ that minimises max over ρ of E[(δ − V)²] − ηE[(δ − ρ)²] + ν‖w‖², for a ρ in the span of ψ(s) and features of
/// (s, a).
///
/// δ = c̃ + Qw is affine in w for any window and trace. With P the ridge projection onto the span of ρ, in which V lies, the
/// best ρ is Pδ and what is left is a least squares problem,
///
/// ```text
/// min over w of  E[(Pδ − V)²] + (1 − η) E[(δ − Pδ)²] + ν‖w‖²
/// ```
///
/// whose matrix does not change while the policy moves.
pub(super) struct Saddle {
    /// P = Φ S with S = (ΦᵀΦ/n + νI)⁻¹ Φᵀ/n.
    span: Mat<f64>,
    projection: Cholesky,
    /// PQ − Ψ, and (1 − η)(Q − PQ).
    kept: Mat<f64>,
    lost: Mat<f64>,
    system: Cholesky,
}

/// AᵀB/n.
fn moments(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.ncols(), b.ncols());
    add_product(&mut out, 1.0 / a.nrows().max(1) as f64, a.transpose(), b);
    out
}

impl Saddle {
    /// From ψ of the states s and of those that follow unseen ends, whose places `next` gives, and features of (s, a).
    pub(super) fn new(
        windows: &Windows,
        (psi, next): (&FeatureMatrix, &[Option<usize>]),
        pairs: Option<&FeatureMatrix>,
        (dual_weight, ridges): (f64, [f64; 2]),
    ) -> Result<Self> {
        let (n, zeros) = (windows.len(), vec![0.0; windows.len()]);
        let own = psi.doubles(n);
        let all = psi.doubles(psi.rows());
        let mut ahead = Mat::<f64>::zeros(n, all.ncols());
        for j in 0..all.ncols() {
            let following: Vec<f64> = next.iter().map(|at| at.map_or(0.0, |at| all[(at, j)])).collect();
            ahead.col_as_slice_mut(j).copy_from_slice(&windows.delta(&zeros, &following));
        }
        let further = pairs.map(|pairs| pairs.doubles(n));
        let extra = further.as_ref().map_or(0, |further| further.ncols());
        let span =
            Mat::from_fn(n, own.ncols() + extra, |i, j| match (j.checked_sub(own.ncols()), &further) {
                (Some(j), Some(further)) => further[(i, j)],
                _ => own[(i, j)],
            });
        let projection = factor(&span, ridges[1])?;
        let projected = project(&span, &projection, &ahead);
        let kept = &projected - &own;
        let lost = (&ahead - &projected) * faer::Scale((1.0 - dual_weight).sqrt());
        let stacked = Mat::from_fn(2 * n, own.ncols(), |i, j| match i.checked_sub(n) {
            None => kept[(i, j)],
            Some(i) => lost[(i, j)],
        });
        // The mean is over 2n rows, of which those of a step are two.
        let system = factor(&stacked, 0.5 * ridges[0])?;
        let lost = lost * faer::Scale((1.0 - dual_weight).sqrt());
        Ok(Self { span, projection, kept, lost, system })
    }

    /// w for the gains of a policy.
    pub(super) fn solve(&self, windows: &Windows, gains: &[f64]) -> Vec<f64> {
        let n = windows.len();
        let constant = windows.delta(gains, &vec![0.0; n]);
        let constant = Mat::from_fn(n, 1, |i, _| constant[i]);
        let projected = project(&self.span, &self.projection, &constant);
        let rest = &constant - &projected;
        let right =
            moments(self.kept.as_ref(), projected.as_ref()) + moments(self.lost.as_ref(), rest.as_ref());
        let right: Vec<f64> = right.col_as_slice(0).iter().map(|r| -0.5 * r).collect();
        self.system.solve(&right)
    }
}

/// The factor of AᵀA/n + νI.
fn factor(a: &Mat<f64>, ridge: f64) -> Result<Cholesky> {
    let make = || {
        let mut square = Mat::zeros(a.ncols(), a.ncols());
        add_square(&mut square, a.transpose());
        let share = 1.0 / a.nrows().max(1) as f64;
        Ok(Mat::from_fn(a.ncols(), a.ncols(), |i, j| {
            share * square[(i, j)] + if i == j { ridge } else { 0.0 }
        }))
    };
    Cholesky::of(DOUBLE, "ridge", make, &mut || Ok(()))
}

/// P B.
fn project(span: &Mat<f64>, factor: &Cholesky, b: &Mat<f64>) -> Mat<f64> {
    let mut coefficients = moments(span.as_ref(), b.as_ref());
    factor.forward(coefficients.as_mut());
    factor.backward(coefficients.as_mut());
    let mut out = Mat::zeros(span.nrows(), b.ncols());
    add_product(&mut out, 1.0, span.as_ref(), coefficients.as_ref());
    out
}
