//! Eigendecompositions of symmetric matrices, each by one thread, so that its bits do not depend on their number.

use crate::linalg::lu::product;
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self_adjoint_evd, self_adjoint_evd_scratch, ComputeEigenvectors};
use faer::{Mat, MatRef, Par};

/// A = V diag(λ) Vᵀ.
pub(crate) struct Eigen {
    /// λ, increasing.
    pub values: Vec<f64>,
    /// V.
    pub vectors: Mat<f64>,
}

impl Eigen {
    /// The decomposition of the lower triangle of a symmetric matrix; `None` where it has entries that are not finite.
    pub(crate) fn of(a: MatRef<'_, f64>) -> Option<Self> {
        let n = a.nrows();
        let (mut values, mut vectors) = (Diag::<f64>::zeros(n), Mat::<f64>::zeros(n, n));
        let scratch =
            self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
        let mut memory = MemBuffer::new(scratch);
        let (stack, own) = (MemStack::new(&mut memory), Some(vectors.as_mut()));
        self_adjoint_evd(a, values.as_mut(), own, Par::Seq, stack, Default::default()).ok()?;
        let values: Vec<f64> = values.column_vector().iter().copied().collect();
        values.iter().all(|v| v.is_finite()).then_some(Self { values, vectors })
    }

    /// V diag(g(λ)) Vᵀ.
    pub(crate) fn map(&self, g: impl Fn(f64) -> f64) -> Mat<f64> {
        let n = self.values.len();
        let scaled = Mat::from_fn(n, n, |i, k| self.vectors[(i, k)] * g(self.values[k]));
        product(scaled.as_ref(), self.vectors.transpose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_what_its_eigenvalues_and_vectors_say() {
        let n = 70;
        let a = Mat::from_fn(n, n, |i, j| (-((i as f64 - j as f64) / 9.0).powi(2)).exp());
        let eigen = Eigen::of(a.as_ref()).unwrap();
        let (again, root) = (eigen.map(|v| v), eigen.map(|v| v.max(0.0).sqrt()));
        let square = product(root.as_ref(), root.as_ref());
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            assert!((again[(i, j)] - a[(i, j)]).abs() < 1e-12);
            assert!((square[(i, j)] - a[(i, j)]).abs() < 1e-7);
        }
        assert!(eigen.values.is_sorted());
        assert!(Eigen::of(Mat::from_fn(3, 3, |_, _| f64::NAN).as_ref()).is_none());
    }
}
