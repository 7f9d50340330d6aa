//! The posterior itself.

use super::covariance::{kernel_matrix, Hyperparameters, Points};
use super::family::Family;
use super::likelihood::gaussian_log_density;
use super::pathwise::{Draw, PriorSamples};
use crate::error::Result;
use crate::linalg::cholesky::add_product;
use crate::linalg::{dot, Cholesky};
use faer::Mat;

/// Mean k*ᵀ(K + σ²I)⁻¹y and covariance k** − k*ᵀ(K + σ²I)⁻¹k*, from the Cholesky factor of K + σ²I: O(n³) time and
/// O(n²) memory, in double precision. The mean is ridge regression with ν = σ²/n (spec 2.5).
#[derive(Clone, Debug)]
pub(crate) struct Exact {
    points: Points,
    targets: Vec<f64>,
    factor: Cholesky,
    /// (K + σ²I)⁻¹ y.
    weights: Vec<f64>,
}

impl Exact {
    /// Conditions on `targets` (less their mean) at `points`.
    pub(crate) fn new(
        h: &Hyperparameters,
        points: Points,
        targets: Vec<f64>,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        let covariance = || Family::Gaussian.covariance(h.signal, &points, h.noise);
        let factor = Cholesky::of_covariance(covariance, check)?;
        let weights = factor.solve(&targets);
        Ok(Self { points, targets, factor, weights })
    }

    /// Conditions on further rows. The factor grows by a border:
    ///
    /// ```text
    /// [L 0; B D],   B = (L⁻¹K_on)ᵀ,   D Dᵀ = K_nn + σ²I − B Bᵀ
    /// ```
    pub(crate) fn extend(
        &mut self,
        h: &Hyperparameters,
        points: &Points,
        targets: &[f64],
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let (old, new) = (self.points.len(), points.len());
        let mut border = kernel_matrix(h.signal, &self.points, points);
        self.factor.forward(border.as_mut());
        let remaining = || {
            let mut corner = Family::Gaussian.covariance(h.signal, points, h.noise + self.factor.added());
            add_product(&mut corner, -1.0, border.transpose(), border.as_ref());
            corner
        };
        let corner = Cholesky::of_covariance(remaining, check)?;
        let mut lower = Mat::zeros(old + new, old + new);
        lower.get_mut(..old, ..old).copy_from_triangular_lower(self.factor.lower());
        lower.get_mut(old.., ..old).copy_from(border.transpose());
        lower.get_mut(old.., old..).copy_from_triangular_lower(corner.lower());
        self.factor = Cholesky::from_lower(lower, self.factor.added().max(corner.added()));
        self.targets.extend_from_slice(targets);
        self.points = self.points.followed_by(points);
        self.weights = self.factor.solve(&self.targets);
        Ok(())
    }

    /// Rows conditioned on.
    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Mean of f at `test`.
    pub(crate) fn mean(&self, h: &Hyperparameters, test: &Points) -> Vec<f64> {
        let k = kernel_matrix(h.signal, &self.points, test);
        (0..test.len()).map(|j| dot(k.col_as_slice(j), &self.weights)).collect()
    }

    /// Mean and variance of f at `test`.
    pub(crate) fn marginals(&self, h: &Hyperparameters, test: &Points) -> (Vec<f64>, Vec<f64>) {
        let mut k = kernel_matrix(h.signal, &self.points, test);
        let mean = (0..test.len()).map(|j| dot(k.col_as_slice(j), &self.weights)).collect();
        self.factor.forward(k.as_mut());
        let explained = |j| dot(k.col_as_slice(j), k.col_as_slice(j));
        (mean, (0..test.len()).map(|j| (h.signal - explained(j)).max(0.0)).collect())
    }

    /// Mean and covariance of f at `test`.
    pub(crate) fn joint(&self, h: &Hyperparameters, test: &Points) -> (Vec<f64>, Mat<f64>) {
        let mut k = kernel_matrix(h.signal, &self.points, test);
        let mean = (0..test.len()).map(|j| dot(k.col_as_slice(j), &self.weights)).collect();
        self.factor.forward(k.as_mut());
        let mut covariance = kernel_matrix(h.signal, test, test);
        add_product(&mut covariance, -1.0, k.transpose(), k.as_ref());
        (mean, covariance)
    }

    /// What turns functions f of the prior into functions of the posterior: C⁻¹(f(X) + ε), C = K + σ²I.
    pub(crate) fn correction(&self, h: &Hyperparameters, prior: &PriorSamples) -> Result<Mat<f64>> {
        let mut out = prior.at(h, &self.points)?;
        prior.add_noise(&mut out, Draw::Noise, 0, |_| h.noise.sqrt());
        self.factor.forward(out.as_mut());
        self.factor.backward(out.as_mut());
        Ok(out)
    }

    /// f(x*) + k*ᵀC⁻¹(y − f(X) − ε) for the functions f of the prior whose values at `test` are `values`.
    pub(crate) fn correct(
        &self,
        h: &Hyperparameters,
        correction: &Mat<f64>,
        test: &Points,
        mut values: Mat<f64>,
    ) -> Mat<f64> {
        let k = kernel_matrix(h.signal, &self.points, test);
        let mean: Vec<f64> = (0..test.len()).map(|j| dot(k.col_as_slice(j), &self.weights)).collect();
        values.col_iter_mut().for_each(|v| v.iter_mut().zip(&mean).for_each(|(v, m)| *v += m));
        add_product(&mut values, -1.0, k.transpose(), correction.as_ref());
        values
    }

    /// What was added to σ² because K + σ²I was singular to rounding, zero otherwise.
    pub(crate) fn jitter(&self) -> f64 {
        self.factor.added()
    }

    /// log N(y; 0, K + σ²I).
    pub(crate) fn log_marginal_likelihood(&self) -> f64 {
        gaussian_log_density(dot(&self.targets, &self.weights), self.factor.log_det(), self.len())
    }
}
