//! k(x, a) at many points a, without random features.

use super::{KernelSpec, Scaling};
use crate::compute::{add_radial_sums, gaussian_points, to_bf16, Device, Pairs, Real};
use crate::error::{positive, Error, Result};
use rayon::prelude::*;

/// Rows whose sums one thread makes at a time, and fewer of them where there would not be work for all threads: each time the points are
/// prepared once more …
const ROWS: usize = 512;
const FEW_ROWS: usize = 128;
/// … so many of them.
const POINTS: usize = 4_096;

/// A kernel k(x, a) of columns (x − shift)·scale/σ, evaluated in closed form at many points a.
///
/// Points are brought into these units once ([`ClosedForm::input`]) and kept so.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedForm {
    kernel: KernelSpec,
    bandwidth: f64,
    scaling: Scaling,
    rounded: bool,
}

impl ClosedForm {
    /// Σ_j w_j k(x, a_j) of kernels in single precision has an error of about this much ‖w‖.
    pub(crate) const ROUNDING: f64 = 0.5 * f32::EPSILON as f64;

    /// Checks the parameters; a kernel that is a user's function has no closed form.
    pub fn new(kernel: KernelSpec, bandwidth: f64, scaling: Scaling) -> Result<Self> {
        kernel.check()?;
        positive("bandwidth", bandwidth)?;
        if kernel.has_user_part() {
            return Err(Error::Conflict(format!("the kernel {kernel} is known by its features alone")));
        }
        Ok(Self { kernel, bandwidth, scaling, rounded: false })
    }

    /// k(r(x), r(a)), where r rounds every number that the kernel looks at to the nearest bfloat16, by 2⁻⁸ of it at most: a kernel as positive
    /// definite as k, whose products of many columns are exact on processors that multiply such numbers several times as fast.
    #[must_use]
    pub fn rounded(self) -> Self {
        Self { rounded: true, ..self }
    }

    /// Whether numbers are rounded to bfloat16.
    pub fn is_rounded(&self) -> bool {
        self.rounded
    }

    /// The kernel family.
    pub fn kernel(&self) -> &KernelSpec {
        &self.kernel
    }

    /// The bandwidth σ.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// What is done to the columns first.
    pub fn scaling(&self) -> &Scaling {
        &self.scaling
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.scaling.shift.len()
    }

    /// Appends rows of x, row-major, in the units of the kernel.
    pub fn input(&self, rows: &[f32], out: &mut Vec<f32>) {
        let unit = if self.kernel.has_bandwidth() { 1.0 / self.bandwidth } else { 1.0 } as f32;
        let first = out.len();
        self.scaling.apply(rows, unit, out);
        if self.rounded {
            out[first..].iter_mut().for_each(|v| *v = to_bf16(*v));
        }
    }

    /// k(x, a_j) for a point x and row-major points a_j, all from [`ClosedForm::input`].
    pub(crate) fn values<R: Real>(&self, x: &[f32], points: &[f32], out: &mut [R]) -> Result<()> {
        if self.kernel == KernelSpec::Gaussian {
            gaussian_points(Device::default(), x, points, out);
            return Ok(());
        }
        if self.kernel == KernelSpec::Laplacian {
            let difference = |(x, a): (&f32, &f32)| (f64::from(*x) - f64::from(*a)).abs();
            for (out, a) in out.iter_mut().zip(points.chunks_exact(self.columns())) {
                *out = R::rounded((-x.iter().zip(a).map(difference).sum::<f64>()).exp());
            }
            return Ok(());
        }
        if let Some(radial) = self.kernel.radial() {
            for (out, a) in out.iter_mut().zip(points.chunks_exact(self.columns())) {
                *out = R::rounded(radial.value(R::squared_distance(x, a).into()));
            }
            return Ok(());
        }
        let family = self.kernel.family();
        let wide = |x: &[f32], out: &mut Vec<f64>| {
            out.clear();
            out.extend(x.iter().map(|&v| f64::from(v)));
        };
        let (mut left, mut right, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        wide(x, &mut left);
        for (out, a) in out.iter_mut().zip(points.chunks_exact(self.columns())) {
            wide(a, &mut right);
            *out = R::rounded(family.value(&left, &right, &mut buffer)?);
        }
        Ok(())
    }

    /// out_ic += Σ_j w_jc k(x_i, a_j) for rows x_i and points a_j, all from [`ClosedForm::input`], and C weights of each point; in lanes
    /// where k is a function of a distance alone. A row's bits do not depend on the others.
    pub(crate) fn add_sums(&self, x: &[f32], points: &[f32], weights: &[f64], out: &mut [f64]) -> Result<()> {
        let d = self.columns();
        if let Some(radial) = self.kernel.of_distance() {
            let pairs = Pairs { columns: d, x, points, rounded: self.rounded };
            add_radial_sums(Device::default(), radial, pairs, weights, out);
            return Ok(());
        }
        let m = points.len() / d;
        let c = weights.len() / m.max(1);
        let mut k = vec![0.0_f32; m];
        for (x, out) in x.chunks_exact(d).zip(out.chunks_exact_mut(c.max(1))) {
            self.values(x, points, &mut k)?;
            for (k, w) in k.iter().zip(weights.chunks_exact(c)) {
                out.iter_mut().zip(w).for_each(|(out, w)| *out += f64::from(*k) * w);
            }
        }
        Ok(())
    }

    /// offset_c + Σ_j w_jc k(x_i, a_j) as of [`ClosedForm::add_sums`], by all threads: sums over parts of the points are added in their order.
    pub(crate) fn expansion(
        &self,
        x: &[f32],
        points: &[f32],
        weights: &[f64],
        offset: &[f32],
    ) -> Result<Vec<f32>> {
        let (d, c) = (self.columns(), offset.len());
        let parts: Vec<(&[f32], &[f64])> =
            points.chunks(POINTS * d).zip(weights.chunks(POINTS * c)).collect();
        let tasks = (x.len() / d).div_ceil(ROWS) * parts.len();
        let each = if tasks < 2 * rayon::current_num_threads() { FEW_ROWS } else { ROWS };
        let rows: Vec<&[f32]> = x.chunks(each * d).collect();
        let of = |task: usize| -> Result<Vec<f64>> {
            let (rows, (points, weights)) = (rows[task / parts.len()], parts[task % parts.len()]);
            let mut sums = vec![0.0; rows.len() / d * c];
            self.add_sums(rows, points, weights, &mut sums)?;
            Ok(sums)
        };
        let sums: Vec<Vec<f64>> =
            (0..rows.len() * parts.len()).into_par_iter().map(of).collect::<Result<_>>()?;
        let mut out: Vec<f64> = offset.iter().cycle().take(x.len() / d * c).map(|&v| f64::from(v)).collect();
        for (task, sums) in sums.iter().enumerate() {
            let first = task / parts.len() * each * c;
            out[first..].iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
        }
        Ok(out.into_iter().map(|v| v as f32).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of [`KernelSpec::evaluate`] on the scaled columns, for every kernel.
    #[test]
    fn agrees_with_single_evaluations() {
        let names = [
            "gaussian",
            "laplacian",
            "cauchy",
            "matern(1.5)",
            "rational_quadratic(2)",
            "polynomial(2, 1)",
            "dot_product(1, 0.5)",
            "arc_cosine(1)",
            "hellinger",
            "chi_squared",
            "skewed_chi_squared(1)",
            "exponential_semigroup(0.5)",
            "gaussian + 0.5 * polynomial(2, 1)",
            "gaussian * laplacian",
        ];
        let x: Vec<f32> = (0..4 * 11).map(|i| 0.1 + ((i * 7) % 13) as f32 / 9.0).collect();
        for name in names {
            let kernel: KernelSpec = name.parse().unwrap();
            let scaling = match kernel.has_bandwidth() {
                true => {
                    Scaling { shift: vec![0.25; 11], scale: (0..11).map(|i| 0.5 + 0.1 * i as f32).collect() }
                }
                false => Scaling::identity(11),
            };
            let closed = ClosedForm::new(kernel.clone(), 1.7, scaling.clone()).unwrap();
            let mut points = Vec::new();
            closed.input(&x, &mut points);
            let mut out = [0.0_f32; 4];
            closed.values(&points[..11], &points, &mut out).unwrap();
            let plain = |i: usize| -> Vec<f32> {
                (0..11).map(|j| (x[11 * i + j] - scaling.shift[j]) * scaling.scale[j]).collect()
            };
            for (i, found) in out.iter().enumerate() {
                let expected = kernel.evaluate(&plain(0), &plain(i), 1.7).unwrap();
                assert!(
                    (f64::from(*found) - expected).abs() < 1e-5 * expected.abs().max(1.0),
                    "{name}: {found} {expected}"
                );
            }
        }
    }

    /// Numbers are rounded to the nearest, ties to even; finite ones stay finite, others as they are.
    #[test]
    fn rounded_inputs_are_bfloat16() {
        let kernel =
            |bandwidth| ClosedForm::new(KernelSpec::Gaussian, bandwidth, Scaling::identity(2)).unwrap();
        let x: Vec<f32> = (0..400).map(|i| (i as f32 - 200.0).powi(3) * 1e-4 + 0.37).collect();
        let (mut plain, mut found) = (vec![0.1], vec![0.1]);
        kernel(0.7).input(&x, &mut plain);
        kernel(0.7).rounded().input(&x, &mut found);
        assert!(found[0] == 0.1 && found.len() == 401);
        for (found, plain) in found.iter().zip(&plain).skip(1) {
            assert!(found.to_bits() & 0xffff == 0, "{found}");
            assert!((found - plain).abs() <= plain.abs() / 256.0, "{found} {plain}");
        }
        let (ties, mut found) = ([1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, f32::MAX, f32::MIN], Vec::new());
        kernel(1.0).rounded().input(&ties, &mut found);
        assert_eq!(found[..2], [1.0, 1.0 + 4.0 / 256.0]);
        assert!(found[2..].iter().all(|v| v.is_finite() && v.abs() > 3.38e38), "{found:?}");
        kernel(1.0).rounded().input(&[f32::INFINITY, f32::NAN], &mut found);
        assert!(found[4] == f32::INFINITY && found[5].is_nan());
    }

    /// Sums in parts are the sums, whatever the number of rows, points and threads, to the last bit for the rows of one call.
    #[test]
    fn expansions_are_sums_in_parts() {
        let d = 3;
        let number = |i: usize| ((i * 37 + i * i % 11) % 101) as f32 / 60.0;
        let points: Vec<f32> = (0..(2 * POINTS + 5) * d).map(number).collect();
        let x: Vec<f32> = (0..(ROWS + 3) * d).map(|i| number(i + 9)).collect();
        let weights: Vec<f64> = (0..points.len() / d * 2).map(|i| f64::from(number(i)) - 0.8).collect();
        let kernel = ClosedForm::new(KernelSpec::Matern(1.5), 0.9, Scaling::identity(d)).unwrap();
        let found = kernel.expansion(&x, &points, &weights, &[0.5, -1.0]).unwrap();
        let mut sums: Vec<f64> = [0.5, -1.0].into_iter().cycle().take(found.len()).collect();
        kernel.add_sums(&x, &points, &weights, &mut sums).unwrap();
        for (found, sum) in found.iter().zip(&sums) {
            assert!((f64::from(*found) - sum).abs() < 1e-6 * sum.abs().max(1.0), "{found} {sum}");
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = pool.install(|| kernel.expansion(&x[d..2 * d], &points, &weights, &[0.5, -1.0]));
        assert_eq!(alone.unwrap(), found[2..4]);
        assert_eq!(kernel.expansion(&x[..d], &[], &[], &[0.5, -1.0]).unwrap(), [0.5, -1.0]);
        assert!(kernel.expansion(&[], &points, &weights, &[0.5, -1.0]).unwrap().is_empty());
    }

    /// Single precision adds noise of about 2⁻²⁴‖w‖ to Σ_j w_j k(x, a_j).
    #[test]
    fn sums_are_rounded_by_as_much_as_is_said() {
        let n = 300;
        let mut state = 12_345_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1_u64 << 31) as f64 - 0.5
        };
        for d in [1, 3, 40, 200] {
            let x: Vec<f32> = (0..n * d).map(|_| (3.4 * random()) as f32).collect();
            let weights: Vec<f64> = (0..n).map(|_| random()).collect();
            let norm = weights.iter().map(|w| w * w).sum::<f64>().sqrt();
            for factor in [1.0, 4.0, 16.0] {
                let bandwidth = factor * (d as f64).sqrt();
                let kernel = ClosedForm::new(KernelSpec::Gaussian, bandwidth, Scaling::identity(d)).unwrap();
                let (mut points, mut sums) = (Vec::new(), vec![0.0; n]);
                kernel.input(&x, &mut points);
                kernel.add_sums(&points, &points, &weights, &mut sums).unwrap();
                let off = |i: usize| {
                    let square = |j: usize| {
                        let gap = |c: usize| f64::from(x[i * d + c]) - f64::from(x[j * d + c]);
                        (0..d).map(|c| gap(c).powi(2)).sum::<f64>() / bandwidth.powi(2)
                    };
                    sums[i] - (0..n).map(|j| weights[j] * (-0.5 * square(j)).exp()).sum::<f64>()
                };
                let mean = ((0..n).map(|i| off(i).powi(2)).sum::<f64>() / n as f64).sqrt();
                assert!(mean <= 4.0 * ClosedForm::ROUNDING * norm, "{d}, {factor}: {}", mean / norm);
            }
        }
    }
}
