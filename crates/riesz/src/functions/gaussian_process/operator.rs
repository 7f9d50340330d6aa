//! The posterior covariance as an operator, by doubly stochastic gradients (spec 2.5, route 1; thesis appendix A.4).

use super::per_point::{prior_variances, scaled_rows};
use crate::compute::{features, Device};
use crate::data::Rows;
use crate::error::{non_negative, same_columns, Error, Result};
use crate::kernel::FeatureMap;
use crate::memory::room;
use crate::random::{uniform_open, Address, BlockIndex, Stream};
use crate::solver::Schedule;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};

/// Settings of [`PosteriorOperator`].
#[derive(Clone, Debug)]
pub struct PosteriorOperatorConfig {
    /// The features of k/s². Even blocks are ω, odd ones ω': two independent streams.
    pub map: FeatureMap,
    /// σ²/(n s²).
    pub ridge: f64,
    /// γ_t.
    pub schedule: Schedule,
}

/// Σ = C(C + (σ²/n)I)⁻¹ with C = (1/n) Σ_i k(x_i, ·) ⊗ k(x_i, ·), held as Σ_{i≤j} θ_ij φ_{ω_i} ⊗ φ_{ω'_j}; then
/// var(x*) = k(x*, x*) − (Σ k(x*, ·))(x*), here in units of s². k(x*, x*) is that of the kernel, whatever it is.
///
/// A step on a batch of B rows (drawn with replacement) and a fresh block of m features of either stream:
///
/// ```text
/// θ_it = −(γ/mB) Σ_b [Σ_{i≤j<t} θ_ij φ_{ω'_j}(x_b)] φ_{ω'_t}(x_b)ᵀ      i < t
/// θ_tt = +(γ/m²B) Σ_b φ_{ω_t}(x_b) φ_{ω'_t}(x_b)ᵀ
/// θ_ij ← (1 − γσ²/n) θ_ij                                              i ≤ j < t, after the lines above
/// ```
///
/// Step t costs O(t² m² B) and the operator keeps t²m²/2 numbers: this is the algorithm of the text, for tests and
/// for streams, not the way to a posterior on rows in memory. *Departure:* γ_t may be delayed, as everywhere.
#[derive(Clone, Debug)]
pub struct PosteriorOperator {
    config: PosteriorOperatorConfig,
    /// θ_ij of m×m blocks, `theta[j][i]` for i ≤ j.
    theta: Vec<Vec<Mat<f32>>>,
}

impl PosteriorOperatorConfig {
    /// Checks the settings; the operator starts at zero.
    pub fn build(self) -> Result<PosteriorOperator> {
        self.map.check()?;
        non_negative("ridge", self.ridge)?;
        self.schedule.check()?;
        Ok(PosteriorOperator { config: self, theta: Vec::new() })
    }
}

impl PosteriorOperator {
    /// Steps taken.
    pub fn steps(&self) -> usize {
        self.theta.len()
    }

    /// One step on a batch.
    pub fn step(&mut self, batch: Rows<'_>) -> Result<()> {
        let (t, m, size) = (self.theta.len(), self.config.map.block_size as f64, batch.len() as f64);
        let gamma = self.config.schedule.at(t as u64 + 1);
        let first = self.features(2 * t, batch)?;
        let second = self.features(2 * t + 1, batch)?;
        let product = |left: &Mat<f32>, factor: f64| {
            let mut out = Mat::zeros(left.ncols(), second.ncols());
            matmul(out.as_mut(), Accum::Replace, left.transpose(), second.as_ref(), factor as f32, Par::Seq);
            out
        };
        let inner = self.contracted(batch)?;
        let mut column: Vec<Mat<f32>> = inner.iter().map(|s| product(s, -gamma / (m * size))).collect();
        column.push(product(&first, gamma / (m * m * size)));
        let shrink = faer::Scale((1.0 - gamma * self.config.ridge) as f32);
        self.theta.iter_mut().flatten().for_each(|theta| *theta *= shrink);
        self.theta.push(column);
        Ok(())
    }

    /// S_i = Σ_{j≥i} Φ'_j θ_ijᵀ (rows×m) for every i: what the second argument leaves of the operator at `rows`.
    fn contracted(&self, rows: Rows<'_>) -> Result<Vec<Mat<f32>>> {
        let m = self.config.map.block_size;
        let mut out = vec![Mat::<f32>::zeros(rows.len(), m); self.theta.len()];
        for (j, column) in self.theta.iter().enumerate() {
            let phi = self.features(2 * j + 1, rows)?;
            for (theta, sum) in column.iter().zip(&mut out) {
                matmul(sum.as_mut(), Accum::Add, phi.as_ref(), theta.transpose(), 1.0, Par::Seq);
            }
        }
        Ok(out)
    }

    /// Φ of a block, n×m.
    fn features(&self, block: usize, rows: Rows<'_>) -> Result<Mat<f32>> {
        let map = &self.config.map;
        same_columns(map.columns(), rows.columns())?;
        let (n, m) = (rows.len(), map.block_size);
        let mut phi = vec![0.0; n * m];
        features(Device::default(), &map.draw(BlockIndex(block as u64))?, rows, &mut phi)?;
        Ok(MatRef::from_row_major_slice(&phi, n, m).to_owned())
    }

    /// Posterior covariance of f at `rows` in units of s², symmetrised: k − ½(Σ + Σᵀ).
    pub fn covariance(&self, rows: Rows<'_>) -> Result<Mat<f64>> {
        let n = rows.len();
        let mut explained = Mat::<f32>::zeros(n, n);
        for (i, sum) in self.contracted(rows)?.iter().enumerate() {
            let phi = self.features(2 * i, rows)?;
            matmul(explained.as_mut(), Accum::Add, phi.as_ref(), sum.transpose(), 1.0, Par::Seq);
        }
        let map = &self.config.map;
        let points = scaled_rows(map, rows);
        let mut covariance = Mat::zeros(n, n);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let prior = map.kernel.evaluate(&points[i], &points[j], map.bandwidth)?;
            covariance[(i, j)] = prior - 0.5 * f64::from(explained[(i, j)] + explained[(j, i)]);
        }
        Ok(covariance)
    }

    /// Posterior variances at `rows` in units of s².
    pub fn variances(&self, rows: Rows<'_>) -> Result<Vec<f64>> {
        let mut out = prior_variances(&self.config.map, rows)?;
        for (i, sum) in self.contracted(rows)?.iter().enumerate() {
            let phi = self.features(2 * i, rows)?;
            let explained =
                |r: usize| (0..phi.ncols()).map(|j| f64::from(phi[(r, j)] * sum[(r, j)])).sum::<f64>();
            out.iter_mut().enumerate().for_each(|(r, v)| *v -= explained(r));
        }
        Ok(out)
    }
}

/// Posterior variances at `test` in units of s², after as many steps of [`PosteriorOperator`] as asked for on batches of
/// `rows` that are drawn with replacement.
pub fn operator_variances(
    config: PosteriorOperatorConfig,
    steps: usize,
    batch_size: usize,
    rows: Rows<'_>,
    test: Rows<'_>,
) -> Result<Vec<f64>> {
    if rows.is_empty() {
        return Err(Error::Empty { what: "X", needed: "one row" });
    }
    room(
        "numbers of the operator",
        "n_blocks or block_size",
        &[steps, steps, config.map.block_size, config.map.block_size],
        2,
    )?;
    room("rows of a step", "batch_size", &[batch_size, rows.columns() + 2 * config.map.block_size], 4)?;
    if batch_size == 0 {
        return Err(Error::OutOfRange { name: "batch_size", value: 0.0, range: "1, 2, …" });
    }
    let seed = config.map.seed;
    let mut operator = config.build()?;
    for step in 0..steps {
        let address = |i: usize| Address::new(seed, Stream::Shuffle, BlockIndex(step as u64), i as u32);
        let pick = |i: usize| (uniform_open(address(i).words(0)[0]) * rows.len() as f64) as u32;
        let picks: Vec<u32> = (0..batch_size).map(|i| pick(i).min(rows.len() as u32 - 1)).collect();
        operator.step(Rows::single(&rows.gather(&picks), rows.columns())?)?;
    }
    operator.variances(test)
}
