//! A set of inducing inputs and the features it makes of rows.

use super::inducing::Ball;
use super::natural::{Natural, Posterior};
use crate::error::Result;
use crate::gaussian::covariance::{add_noise, Points};
use crate::gaussian::{Family, Hyperparameters};
use crate::linalg::cholesky::add_product;
use crate::linalg::{dot, Cholesky};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, Par};

/// Rows of L⁻¹ multiplied at a time: what is above its diagonal is zero and left out.
const BLOCK: usize = 64;
/// Single precision is enough where n s²/σ² times (rounding)²/nugget stays below this: then what rounding adds to Λ is
/// small beside the prior.
const SINGLE_ENOUGH: f64 = 0.1;

/// Numbers the features of training rows are computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Single,
    Double,
}

impl Precision {
    /// The cheapest that does for `rows` rows.
    pub(super) fn enough(h: &Hyperparameters, rows: usize) -> Self {
        let rounding = f64::from(f32::EPSILON) / 2.0;
        let added = rows as f64 * h.signal / h.noise * rounding * rounding / Self::Single.nugget();
        if added < SINGLE_ENOUGH {
            Self::Single
        } else {
            Self::Double
        }
    }

    /// Added to the diagonal of K_mm, relative to s²: L⁻¹ must not multiply the rounding of kernel values by more.
    pub(super) fn nugget(self) -> f64 {
        match self {
            Self::Single => 1e-6,
            Self::Double => 1e-8,
        }
    }
}

/// A number features are computed in.
pub(super) trait Number: faer::traits::RealField + Copy + Send + Sync {
    fn of(value: f64) -> Self;
    fn double(self) -> f64;
    /// v ← factor·v.
    fn scale(values: &mut [Self], factor: f64);
    /// ψ of rows whose kernel values with Z are the columns of `k`.
    fn whiten(particle: &Particle, k: Mat<f64>) -> Mat<Self>;
}

impl Number for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn double(self) -> f64 {
        self
    }

    fn scale(values: &mut [Self], factor: f64) {
        values.iter_mut().for_each(|v| *v *= factor);
    }

    fn whiten(particle: &Particle, mut k: Mat<f64>) -> Mat<f64> {
        solve_lower_triangular_in_place(particle.prior.lower(), k.as_mut(), Par::Seq);
        k
    }
}

impl Number for f32 {
    fn of(value: f64) -> Self {
        value as f32
    }

    fn double(self) -> f64 {
        f64::from(self)
    }

    fn scale(values: &mut [Self], factor: f64) {
        let factor = factor as f32;
        values.iter_mut().for_each(|v| *v *= factor);
    }

    /// By the inverse of L, which a product is faster with than a substitution.
    fn whiten(particle: &Particle, k: Mat<f64>) -> Mat<f32> {
        let (m, b) = (k.nrows(), k.ncols());
        let mut single = Mat::<f32>::zeros(m, b);
        for j in 0..b {
            let column = single.col_as_slice_mut(j).iter_mut().zip(k.col_as_slice(j));
            column.for_each(|(out, v)| *out = *v as f32);
        }
        let mut out = Mat::<f32>::zeros(m, b);
        for from in (0..m).step_by(BLOCK) {
            let to = m.min(from + BLOCK);
            let rows = out.as_mut().subrows_mut(from, to - from);
            let inverse = particle.inverse.get(from..to, ..to);
            matmul(rows, Accum::Replace, inverse, single.get(..to, ..), 1.0, Par::Seq);
        }
        out
    }
}

/// A set Z of inducing inputs, and what is known of the values there.
#[derive(Clone, Debug)]
pub(super) struct Particle {
    /// Z, in the units of the columns.
    pub(super) rows: Vec<f64>,
    /// The rows it learns from.
    pub(super) ball: Ball,
    /// Z, in units of the length scales.
    points: Points,
    /// L.
    prior: Cholesky,
    /// L⁻¹ in single precision; empty where rows are whitened in double precision.
    inverse: Mat<f32>,
    /// The state.
    pub(super) natural: Natural,
    /// What the state says, once it is asked for.
    pub(super) posterior: Option<Posterior>,
}

impl Particle {
    /// The prior on the values at `rows`.
    pub(super) fn new(
        setting: &Setting,
        precision: Precision,
        rows: Vec<f64>,
        ball: Ball,
        log_prior: f64,
    ) -> Result<Self> {
        let points = setting.points(&rows);
        let m = points.len();
        let signal = setting.hyper.signal;
        let covariance = || setting.kernel.covariance(signal, &points, precision.nugget() * signal);
        let prior = Cholesky::of_covariance(covariance, &mut || Ok(()))?;
        let inverse = match precision {
            Precision::Double => Mat::zeros(0, 0),
            Precision::Single => {
                let mut inverse = Mat::<f64>::identity(m, m);
                prior.forward(inverse.as_mut());
                Mat::from_fn(m, m, |i, j| if i < j { 0.0 } else { inverse[(i, j)] as f32 })
            }
        };
        let natural = Natural::prior(m, log_prior);
        Ok(Self { rows, ball, points, prior, inverse, natural, posterior: None })
    }

    /// ψ(x) of the rows, one column each, by one thread.
    pub(super) fn features<T: Number>(&self, setting: &Setting, rows: &Points) -> Mat<T> {
        T::whiten(self, setting.kernel.block(setting.hyper.signal, &self.points, rows))
    }

    /// ψ(x) by all threads, in double precision.
    fn all_features(&self, setting: &Setting, rows: &Points) -> Mat<f64> {
        let mut psi = setting.kernel.block(setting.hyper.signal, &self.points, rows);
        self.prior.forward(psi.as_mut());
        psi
    }

    /// Mean and variance of f given this set.
    pub(super) fn marginals(&self, setting: &Setting, posterior: &Posterior, rows: &Points) -> [Vec<f64>; 2] {
        let mut psi = self.all_features(setting, rows);
        let mean = (0..rows.len()).map(|i| dot(psi.col_as_slice(i), &posterior.mean)).collect();
        let own: Vec<f64> = squares(&psi);
        posterior.system.forward(psi.as_mut());
        let least = LEAST * setting.hyper.signal;
        let of = |(own, left): (&f64, f64)| (setting.hyper.signal - own).max(least) + left;
        let variance = own.iter().zip(squares(&psi)).map(of).collect();
        [mean, variance]
    }

    /// Mean and covariance of f given this set: k** − ψ*ᵀψ* + ψ*ᵀΛ⁻¹ψ*.
    pub(super) fn joint(
        &self,
        setting: &Setting,
        posterior: &Posterior,
        rows: &Points,
    ) -> (Vec<f64>, Mat<f64>) {
        let mut psi = self.all_features(setting, rows);
        let mean = (0..rows.len()).map(|i| dot(psi.col_as_slice(i), &posterior.mean)).collect();
        let mut covariance = setting.kernel.block(setting.hyper.signal, rows, rows);
        add_product(&mut covariance, -1.0, psi.transpose(), psi.as_ref());
        posterior.system.forward(psi.as_mut());
        add_product(&mut covariance, 1.0, psi.transpose(), psi.as_ref());
        add_noise(&mut covariance, LEAST * setting.hyper.signal);
        (mean, covariance)
    }
}

/// Least variance of f at a row given the values at Z, relative to s².
const LEAST: f64 = 1e-9;

/// ‖column‖² of every column.
fn squares(psi: &Mat<f64>) -> Vec<f64> {
    (0..psi.ncols()).map(|i| dot(psi.col_as_slice(i), psi.col_as_slice(i))).collect()
}

/// What all particles share.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) kernel: Family,
    pub(super) hyper: Hyperparameters,
    /// Subtracted from the columns: only differences count, and those of centred rows are rounded least.
    pub(super) shift: Vec<f64>,
}

impl Setting {
    /// Rows in units of the length scales.
    pub(super) fn points(&self, rows: &[f64]) -> Points {
        Points::new(rows, &self.shift, &self.hyper.length_scales)
    }
}
