//! Newton's method for a kernel expansion over all rows.

use crate::error::Result;
use crate::linalg::cholesky::{add_product, solve_in_place, DOUBLE};
use crate::linalg::Cholesky;
use crate::loss::Loss;
use faer::{Mat, MatRef};

/// The minimiser of Σ w_i ℓ(f(x_i), y_i) + (λ/2)‖f − offset‖² over f = offset + Σ_j β_j k(x_j, ·), which is that over the whole
/// space of k (representer theorem).
///
/// With h the weighted curvatures of the loss, S = diag(h)^½ and r = −w ℓ', a step goes to
///
/// ```text
/// β = (1/λ) (b − S B⁻¹ S K b/λ),   b = h (f − offset) + r,   B = I + S K S/λ,
/// ```
///
/// the minimiser of the quadratic that has these curvatures, and is halved until it lowers the objective. A loss with a kink
/// is rounded, less from step to step, as in block descent.
pub(crate) struct KernelNewton<'a> {
    /// K, whole.
    pub kernel: MatRef<'a, f64>,
    /// n×[`Loss::targets`].
    pub targets: &'a [f32],
    /// w.
    pub weights: &'a [f32],
    /// ℓ.
    pub loss: &'a dyn Loss,
    /// The constant part of f.
    pub offset: &'a [f32],
    /// How much of each row is left out of a fit that is to predict it.
    pub shares: &'a [f64],
}

/// What Newton's method arrived at.
pub(crate) struct Expansion {
    /// β, n×C.
    pub coefficients: Mat<f64>,
    /// f(x_i), n×C row-major.
    pub predictions: Vec<f32>,
    /// λ.
    pub damping: f64,
    /// f₋ᵢ(x_i), learnt without row i, or its share, n×C row-major: exact for the square loss, else one Newton step from f.
    pub left_out: Vec<f32>,
}

/// The minimiser β, its values at the rows and the systems of the last step.
struct Minimum {
    beta: Mat<f64>,
    u: Vec<f32>,
    systems: Vec<System>,
}

/// Most steps.
const STEPS: usize = 40;
/// Most halvings of a step.
const HALVINGS: usize = 12;
/// |r − λβ| below this share of the largest |r| at the start is rounding.
const TOLERANCE: f64 = 1e-5;
/// A step that lowers the objective by no more than this share of it is the last.
const GAIN: f64 = 1e-9;
/// The same where a kink is rounded: the rounding changes more.
const ROUNDED_GAIN: f64 = 1e-4;
/// Least width of a rounded kink.
const LEAST_WIDTH: f32 = 1.0 / 16.0;
/// Curvatures below this are none.
const FLAT: f64 = 1e-12;

/// The curvatures of a step and the factor of B.
struct System {
    curvatures: Vec<f64>,
    factor: Cholesky,
}

impl KernelNewton<'_> {
    fn len(&self) -> usize {
        self.weights.len()
    }

    /// Minimises; `check` is asked before every factorisation whether to go on.
    pub(crate) fn minimise(&self, damping: f64, check: &mut dyn FnMut() -> Result<()>) -> Result<Expansion> {
        let Minimum { beta, u, systems } = self.minimum(damping, check)?;
        let left_out = self.left_out(&systems, &beta, &u, damping);
        Ok(Expansion { coefficients: beta, predictions: u, damping, left_out })
    }

    fn minimum(&self, damping: f64, check: &mut dyn FnMut() -> Result<()>) -> Result<Minimum> {
        let (n, c) = (self.len(), self.loss.outputs());
        let mut beta = Mat::<f64>::zeros(n, c);
        let mut inner = Mat::<f64>::zeros(n, c);
        let mut u = self.values(&inner);
        let (mut systems, mut size, mut unit) = (Vec::new(), None::<f64>, 1.0);
        for step in 0..STEPS {
            let width = (-(step as f32)).exp2().max(LEAST_WIDTH);
            if width > LEAST_WIDTH {
                unit = self.residual_unit(&u);
            }
            let smoothed = self.loss.smoothed(width * unit);
            let loss = smoothed.as_deref().unwrap_or(self.loss);
            let residuals = self.residuals(loss, &u);
            let off = (0..n * c).map(|i| (residuals[i] - damping * beta[(i / c, i % c)]).abs());
            let (off, least) =
                (off.fold(0.0, f64::max), TOLERANCE * *size.get_or_insert(largest(&residuals)));
            if step > 0 && off <= least && (smoothed.is_none() || width <= LEAST_WIDTH) || least == 0.0 {
                break;
            }
            systems = self.systems(loss, &u, damping, check)?;
            let direction = self.direction(&systems, &residuals, &inner, &beta, damping);
            let mut change = Mat::<f64>::zeros(n, c);
            add_product(&mut change, 1.0, self.kernel, direction.as_ref());
            let (taken, gain) = self.backtrack(loss, damping, (&beta, &inner), (&direction, &change));
            beta += faer::Scale(taken) * &direction;
            inner += faer::Scale(taken) * &change;
            u = self.values(&inner);
            let enough = if smoothed.is_some() { ROUNDED_GAIN } else { GAIN };
            if gain <= enough && (smoothed.is_none() || width <= LEAST_WIDTH) {
                break;
            }
        }
        Ok(Minimum { beta, u, systems })
    }

    /// Predictions for each of several parts of the rows, learnt from the others and from what is not left out of its own,
    /// n×C row-major.
    pub(crate) fn cross_fitted(
        &self,
        damping: f64,
        part_of: &[usize],
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<f32>> {
        let (n, c, t) = (self.len(), self.loss.outputs(), self.loss.targets());
        let mut out = vec![0.0; n * c];
        for part in 0..part_of.iter().max().map_or(0, |last| last + 1) {
            let own: Vec<usize> = (0..n).filter(|&i| part_of[i] == part).collect();
            let mut left = self.weights.to_vec();
            own.iter().for_each(|&i| left[i] *= (1.0 - self.shares[i]) as f32);
            let others: Vec<usize> = (0..n).filter(|&i| left[i] > 0.0).collect();
            let among = |rows: &[usize]| {
                Mat::from_fn(rows.len(), others.len(), |i, j| self.kernel[(rows[i], others[j])])
            };
            let pick = |values: &[f32], width: usize| -> Vec<f32> {
                others.iter().flat_map(|&i| values[i * width..(i + 1) * width].iter().copied()).collect()
            };
            let (kernel, targets, weights) = (among(&others), pick(self.targets, t), pick(&left, 1));
            let shares = vec![1.0; others.len()];
            let learner = KernelNewton {
                kernel: kernel.as_ref(),
                targets: &targets,
                weights: &weights,
                shares: &shares,
                ..*self
            };
            let fit = learner.minimum(damping, check)?;
            let mut inner = Mat::zeros(own.len(), c);
            add_product(&mut inner, 1.0, among(&own).as_ref(), fit.beta.as_ref());
            for (u, &i) in self.values(&inner).chunks_exact(c).zip(&own) {
                out[i * c..(i + 1) * c].copy_from_slice(u);
            }
        }
        Ok(out)
    }

    /// offset + Kβ of Kβ, row-major.
    fn values(&self, inner: &Mat<f64>) -> Vec<f32> {
        let c = self.offset.len();
        let value = |i: usize| (f64::from(self.offset[i % c]) + inner[(i / c, i % c)]) as f32;
        (0..inner.nrows() * c).map(value).collect()
    }

    /// −w ℓ', n×C row-major.
    fn residuals(&self, loss: &dyn Loss, u: &[f32]) -> Vec<f64> {
        let mut out = vec![0.0; u.len()];
        loss.residuals(u, self.targets, self.weights, &mut out);
        out.into_iter().map(f64::from).collect()
    }

    /// The mean size of the residuals, where widths are measured in it.
    fn residual_unit(&self, u: &[f32]) -> f32 {
        let total: f64 = self.weights.iter().map(|&w| f64::from(w)).sum();
        let share =
            |share: f32| (self.loss.total(u, self.targets, self.weights) / (total * f64::from(share))) as f32;
        self.loss.residual_share().map_or(1.0, |of| share(of).clamp(1e-3, 1.0))
    }

    /// B of all outputs together, or one for each where their curvatures are separate.
    fn systems(
        &self,
        loss: &dyn Loss,
        u: &[f32],
        damping: f64,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<System>> {
        let n = self.len();
        let count = if loss.has_separate_curvatures() { self.offset.len() } else { 1 };
        (0..count)
            .map(|k| {
                let mut h = vec![0.0_f32; n];
                match count {
                    1 => loss.curvatures(u, self.targets, self.weights, &mut h),
                    _ => loss.output_curvatures(k, u, self.targets, self.weights, &mut h),
                }
                let curvatures: Vec<f64> = h.iter().map(|&h| f64::from(h).max(0.0)).collect();
                let roots: Vec<f64> = curvatures.iter().map(|h| (h / damping).sqrt()).collect();
                let entry = |i: usize, j: usize| match i < j {
                    true => 0.0,
                    false => roots[i] * self.kernel[(i, j)] * roots[j] + if i == j { 1.0 } else { 0.0 },
                };
                let make = || Ok(Mat::from_fn(n, n, entry));
                Ok(System { curvatures, factor: Cholesky::of(DOUBLE, "ridge", make, check)? })
            })
            .collect()
    }

    /// From β to the minimiser of the quadratic.
    fn direction(
        &self,
        systems: &[System],
        residuals: &[f64],
        inner: &Mat<f64>,
        beta: &Mat<f64>,
        damping: f64,
    ) -> Mat<f64> {
        let (n, c) = (self.len(), self.offset.len());
        let system = |k: usize| &systems[k.min(systems.len() - 1)];
        let b = Mat::from_fn(n, c, |i, k| system(k).curvatures[i] * inner[(i, k)] + residuals[i * c + k]);
        let mut right = Mat::<f64>::zeros(n, c);
        add_product(&mut right, 1.0, self.kernel, b.as_ref());
        let root = |i: usize, k: usize| (system(k).curvatures[i] / damping).sqrt();
        let mut right = Mat::from_fn(n, c, |i, k| root(i, k) * right[(i, k)]);
        match systems {
            [one] => solve_in_place(one.factor.lower(), right.as_mut()),
            _ => systems.iter().enumerate().for_each(|(k, system)| {
                solve_in_place(system.factor.lower(), right.as_mut().subcols_mut(k, 1));
            }),
        }
        Mat::from_fn(n, c, |i, k| (b[(i, k)] - root(i, k) * right[(i, k)]) / damping - beta[(i, k)])
    }

    /// The share of a step, 1, ½, ¼, …, that lowers the objective, and by what share of it; zeros where rounding alone is left.
    fn backtrack(
        &self,
        loss: &dyn Loss,
        damping: f64,
        (beta, inner): (&Mat<f64>, &Mat<f64>),
        (direction, change): (&Mat<f64>, &Mat<f64>),
    ) -> (f64, f64) {
        let dot = |a: &Mat<f64>, b: &Mat<f64>| {
            (0..a.ncols()).map(|c| crate::linalg::dot(a.col_as_slice(c), b.col_as_slice(c))).sum::<f64>()
        };
        // ‖f + sΔ‖² = ‖f‖² + 2s⟨f, Δ⟩ + s²‖Δ‖².
        let (linear, square) = (dot(direction, inner), dot(direction, change));
        let before = loss.total(&self.values(inner), self.targets, self.weights);
        let size = (before.abs() + 0.5 * damping * dot(beta, inner)).max(f64::MIN_POSITIVE);
        let mut share = 1.0;
        for _ in 0..HALVINGS {
            let moved = inner + faer::Scale(share) * change;
            let after = loss.total(&self.values(&moved), self.targets, self.weights);
            let penalty = damping * (share * linear + 0.5 * share * share * square);
            let gain = (before - after - penalty) / size;
            if gain >= -GAIN {
                return (share, gain);
            }
            share *= 0.5;
        }
        (0.0, 0.0)
    }

    /// f₋ᵢ(x_i) = f(x_i) + (r_i/h_i)(1 − 1/(1 − s + s (B⁻¹)_ii)): leaving a share s of row i out of the quadratic at the minimum.
    fn left_out(&self, systems: &[System], beta: &Mat<f64>, u: &[f32], damping: f64) -> Vec<f32> {
        let c = self.offset.len();
        let mut out = u.to_vec();
        for (k, system) in systems.iter().enumerate() {
            let outputs = if systems.len() == 1 { 0..c } else { k..k + 1 };
            for (i, own) in system.factor.inverse_diagonal().into_iter().enumerate() {
                let h = system.curvatures[i];
                if h <= FLAT {
                    continue;
                }
                let left = 1.0 - self.shares[i] + self.shares[i] * own;
                for k in outputs.clone() {
                    let step = damping * beta[(i, k)] / h * (1.0 - 1.0 / left);
                    out[i * c + k] = (f64::from(u[i * c + k]) + step) as f32;
                }
            }
        }
        out
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |a, v| a.max(v.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::LossSpec;

    fn kernel(n: usize) -> Mat<f64> {
        let x = |i: usize| ((i * 37) % 101) as f64 / 20.0;
        Mat::from_fn(n, n, |i, j| (-(x(i) - x(j)).powi(2)).exp())
    }

    fn minimised(loss: &str, size: usize, targets: &[f32], weights: &[f32], damping: f64) -> Expansion {
        let loss = loss.parse::<LossSpec>().unwrap().build(size).unwrap();
        let (kernel, offset) = (kernel(weights.len()), loss.start(targets, weights));
        let shares = vec![1.0; weights.len()];
        let (loss, offset) = (&*loss, &offset[..]);
        let newton =
            KernelNewton { kernel: kernel.as_ref(), targets, weights, loss, offset, shares: &shares };
        newton.minimise(damping, &mut || Ok(())).unwrap()
    }

    /// The gradient in function space vanishes: λβ = −w ℓ'.
    #[test]
    fn the_minimum_is_stationary() {
        let n = 40;
        let weights: Vec<f32> = (0..n).map(|i| 0.5 + (i % 4) as f32).collect();
        let signs: Vec<f32> = (0..n).map(|i| if (i * 37) % 101 > 50 { 1.0 } else { -1.0 }).collect();
        let classes: Vec<f32> = (0..n).map(|i| (i % 3) as f32).collect();
        let counts: Vec<f32> = (0..n).map(|i| ((i * 5) % 7) as f32).collect();
        let cases = [
            ("logistic", 2, &signs),
            ("softmax", 3, &classes),
            ("poisson", 1, &counts),
            ("square", 1, &counts),
        ];
        for (name, size, targets) in cases {
            let damping = 0.3;
            let fit = minimised(name, size, targets, &weights, damping);
            let loss = name.parse::<LossSpec>().unwrap().build(size).unwrap();
            let c = loss.outputs();
            let mut residuals = vec![0.0; n * c];
            loss.residuals(&fit.predictions, targets, &weights, &mut residuals);
            for (i, r) in residuals.iter().enumerate() {
                let own = damping * fit.coefficients[(i / c, i % c)];
                assert!((f64::from(*r) - own).abs() < 2e-4, "{name}, {i}: {r} and {own}");
            }
        }
    }

    /// Each part of the rows from a fit in which it has no weight, or what is not left out, of a loss with a kink too.
    #[test]
    fn cross_fitted_predictions_are_those_of_fits_without_the_part() {
        let (n, parts, damping) = (24, 3, 0.2);
        let part_of: Vec<usize> = (0..n).map(|i| i * 7 % parts).collect();
        let shares: Vec<f64> = (0..n).map(|i| if i % 5 == 0 { 0.25 } else { 1.0 }).collect();
        let k = kernel(n);
        let y: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
        let weights: Vec<f32> = (0..n).map(|i| [0.5, 1.0, 3.0, 2.0][i % 4]).collect();
        for name in ["square", "absolute"] {
            let loss = name.parse::<LossSpec>().unwrap().build(1).unwrap();
            let with = |weights: &[f32]| {
                let (kernel, loss, shares) = (k.as_ref(), &*loss, &shares[..]);
                let newton = KernelNewton { kernel, targets: &y, weights, loss, offset: &[0.1], shares };
                let crossed = newton.cross_fitted(damping, &part_of, &mut || Ok(())).unwrap();
                (newton.minimise(damping, &mut || Ok(())).unwrap().predictions, crossed)
            };
            let (_, crossed) = with(&weights);
            for part in 0..parts {
                let own = |i: usize| part_of[i] == part;
                let left = |i: usize| if own(i) { 1.0 - shares[i] as f32 } else { 1.0 };
                let others: Vec<f32> = (0..n).map(|i| left(i) * weights[i]).collect();
                let (exact, _) = with(&others);
                for i in (0..n).filter(|&i| own(i)) {
                    assert!((exact[i] - crossed[i]).abs() < 1e-3, "{name}, {i}: {} {}", exact[i], crossed[i]);
                }
            }
        }
    }

    /// Rows left out of the square loss one by one, or a third of their weight.
    #[test]
    fn left_out_predictions_are_those_of_fits_without_the_row() {
        let n = 20;
        let weights: Vec<f32> = (0..n).map(|i| [0.5, 1.0, 3.0][i % 3]).collect();
        let shares: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { 1.0 } else { 1.0 / 3.0 }).collect();
        let damping = 0.2;
        let y: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
        let loss = LossSpec::Square.build(1).unwrap();
        let k = kernel(n);
        let with = |weights: &[f32]| {
            let (kernel, loss) = (k.as_ref(), &*loss);
            let newton = KernelNewton { kernel, targets: &y, weights, loss, offset: &[0.0], shares: &shares };
            newton.minimise(damping, &mut || Ok(())).unwrap()
        };
        let whole = with(&weights);
        for i in 0..n {
            let mut others = weights.clone();
            others[i] *= (1.0 - shares[i]) as f32;
            let (exact, found) = (with(&others).predictions[i], whole.left_out[i]);
            assert!((exact - found).abs() < 1e-4, "row {i}: {exact} and {found}");
        }
    }
}
