//! Linear algebra and numerical analysis that more than one part needs: one Cholesky factorisation with one rule for
//! matrices that rounding has made singular, rows of a matrix that are independent, LU, eigendecompositions, distances of rows, conjugate gradients, quasi-Newton steps, k-means, special functions.

pub(crate) mod cholesky;
pub(crate) mod conjugate_gradients;
pub(crate) mod distances;
pub(crate) mod eigen;
pub(crate) mod independent;
pub(crate) mod k_means;
pub(crate) mod lu;
pub(crate) mod quasi_newton;
pub(crate) mod spare;
pub mod special;

pub(crate) use cholesky::Cholesky;
pub(crate) use eigen::Eigen;
pub(crate) use spare::Spare;

/// Σ a_i b_i.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
