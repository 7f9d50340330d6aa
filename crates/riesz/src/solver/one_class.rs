//! One-class machines on fixed features: a function and its quantile, learnt together by Newton steps.

use super::solve_regularised;
use crate::compute::{self, Buffer, Gram, GramRows, GramSample, GramScratch};
use crate::data::Rows;
use crate::error::{in_range, Error, Result};
use crate::loss::{Loss, Novelty, Smoothed};
use crate::random::BlockIndex;
use crate::space::{FeatureExpansion, Function, Space, Terms};

/// Settings of [`OneClass`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneClassConfig {
    /// ν in (0, 1]: the share of rows below the level.
    pub nu: f64,
}

/// The level set of most rows (thesis §3.3, novelty detection; spec 2.2),
///
/// ```text
/// min over f and τ of  (1/ν) E max(0, τ − f(x)) − τ + ½‖f‖²,
/// ```
///
/// on one block of m fixed random features. At the minimum a share ν of the rows lies below τ, and
/// f = (1/ν) E 1{f(x) < τ} k(x, ·): a kernel density estimate from the rows that have few others near them.
/// The thesis writes the penalty with a factor of its own; it scales f and τ, nothing else.
///
/// Each step is one of Newton's on the loss with its kink rounded over a width w ([`Smoothed`]), τ eliminated: with
/// g = ℓ' ∈ [0, 1] and c = ℓ'' = 1/w inside the rounding, 0 outside, f = αᵀφ and E c the mean of c,
///
/// ```text
/// H = mI + (1/ν)(E cφφᵀ − E[cφ] E[cφ]ᵀ / E c),   α ← α − H⁻¹ (mα − E[gφ]/ν),   τ: E g = ν.
/// ```
///
/// The start is the kernel density estimate from all rows (ν = 1), w is twice the deviation of its values and falls
/// after every full step. A step that raises the objective is halved.
#[derive(Clone, Copy, Debug)]
pub struct OneClass {
    config: OneClassConfig,
}

/// What changes from step to step.
pub struct OneClassState {
    /// f, one block.
    pub f: FeatureExpansion,
    /// f on the rows.
    pub values: Vec<f32>,
    /// τ.
    pub level: f64,
    /// The width w, and what it was at the start.
    width: f64,
    first_width: f64,
    gram: (Gram, GramScratch),
    system: Buffer<f64>,
}

impl OneClassState {
    /// Whether the rounding is fine enough for the minimum of the loss itself.
    pub fn is_sharp(&self) -> bool {
        self.width <= SHARP * self.first_width
    }
}

/// Facts about one step.
#[derive(Clone, Copy, Debug)]
pub struct OneClassInfo {
    /// The objective without rounding, after the step.
    pub objective: f64,
    /// The share of the step that was taken.
    pub taken: f64,
}

/// The width of the rounding falls by this factor after a full step…
const SHRINK: f64 = 0.35;
/// … and no longer matters at this share of the first …
const SHARP: f64 = 0.02;
/// … which falls no further than this.
const NARROWEST: f64 = 1e-3;
/// Values that differ by less than this share of their size are equal.
const FLAT: f64 = 1e-5;
/// Halvings of a step before it is given up.
const HALVINGS: usize = 8;
/// Bisections for the level.
const BISECTIONS: usize = 40;
/// Rows whose features are held in memory at a time.
const CHUNK: usize = 8_192;

impl OneClassConfig {
    /// Checks the settings.
    pub fn build(self) -> Result<OneClass> {
        in_range("nu", self.nu, self.nu > 0.0 && self.nu <= 1.0, "(0, 1]")?;
        Ok(OneClass { config: self })
    }
}

impl OneClass {
    /// The kernel density estimate from all rows, on the first block of `empty`.
    pub fn init(&self, empty: FeatureExpansion, rows: Rows<'_>, weights: &[f32]) -> Result<OneClassState> {
        let mut f = empty;
        f.truncate(0);
        let total = mass(weights);
        let shares: Vec<f32> = weights.iter().map(|&w| (f64::from(w) / total) as f32).collect();
        f.step(1.0, 0.0, &[Terms::new(rows, &shares)])?;
        f.materialise_scale();
        let mut values = vec![0.0; rows.len()];
        f.evaluate(rows, &mut values)?;
        let mean = |g: &dyn Fn(f64) -> f64| {
            values.iter().zip(weights).map(|(&v, &w)| f64::from(w) * g(f64::from(v))).sum::<f64>() / total
        };
        let centre = mean(&|v| v);
        let deviation = mean(&|v| (v - centre).powi(2)).sqrt();
        let width = if deviation > FLAT * centre.abs() { 2.0 * deviation } else { 0.0 };
        let (gram, system) = Default::default();
        let mut state = OneClassState { f, values, level: centre, width, first_width: width, gram, system };
        state.level = self.level(&state.values, weights, width.max(f64::from(f32::MIN_POSITIVE)));
        Ok(state)
    }

    /// One Newton step. Where all rows have the same value there is nothing to learn, and nothing is done.
    pub fn step(&self, state: &mut OneClassState, rows: Rows<'_>, weights: &[f32]) -> Result<OneClassInfo> {
        if state.width == 0.0 {
            return Ok(OneClassInfo { objective: self.objective(state, weights, None), taken: 0.0 });
        }
        let width = state.width;
        state.level = self.level(&state.values, weights, width);
        let before = self.objective(state, weights, Some(width));
        let direction = self.direction(state, rows, weights)?;
        let block = state.f.map().draw(BlockIndex(0))?;
        let mut along = vec![0.0; rows.len()];
        compute::apply(state.f.device(), &[(&block, &direction)], rows, 1, &mut along)?;
        let (old, values) = (state.f.coefficients(0).to_vec(), state.values.clone());
        let mut taken = 1.0;
        for halving in 0..=HALVINGS {
            let share = if halving == HALVINGS { 0.0 } else { 0.5_f64.powi(halving as i32) };
            taken = share;
            let moved = |(a, b): (&f32, &f32)| a + share as f32 * b;
            state.f.replace(0, old.iter().zip(&direction).map(moved).collect());
            state.values = values.iter().zip(&along).map(moved).collect();
            state.level = self.level(&state.values, weights, width);
            if self.objective(state, weights, Some(width)) <= before + 1e-7 * before.abs() {
                break;
            }
        }
        // A step cut short has met rows it did not know of: the next one looks as far as this one.
        if taken == 1.0 {
            state.width = (SHRINK * width).max(NARROWEST * state.first_width);
        }
        let objective = self.objective(state, weights, None);
        if !objective.is_finite() {
            return Err(Error::Diverged { step: 0, objective, lower: "the scale of the columns" });
        }
        Ok(OneClassInfo { objective, taken })
    }

    /// −H⁻¹ ∇ by the Sherman–Morrison formula: with A = mI + E cφφᵀ/ν and v = E[cφ],
    /// H⁻¹ b = A⁻¹b + A⁻¹v (vᵀA⁻¹b)/(ν E c − vᵀA⁻¹v).
    fn direction(&self, state: &mut OneClassState, rows: Rows<'_>, weights: &[f32]) -> Result<Vec<f32>> {
        let nu = self.config.nu;
        let (n, m, total) = (rows.len(), state.f.map().block_size, mass(weights));
        let loss = self.rounded(state.level, state.width);
        let mut slopes = vec![0.0; n];
        loss.residuals(&state.values, &[], weights, &mut slopes);
        let inside = |g: f32, w: f32| g > 0.0 && g < w;
        let curvature = |(&g, &w): (&f32, &f32)| if inside(g, w) { w / state.width as f32 } else { 0.0 };
        let curvatures: Vec<f32> = slopes.iter().zip(weights).map(curvature).collect();
        let both: Vec<f32> = slopes.iter().zip(&curvatures).flat_map(|(&g, &c)| [g, c]).collect();
        let block = state.f.map().draw(BlockIndex(0))?;
        let sample = GramSample::new(n, n, state.f.map().seed, BlockIndex(0));
        let gram_rows = GramRows { weights: &curvatures, sample, chunk: CHUNK };
        let device = state.f.device();
        let (gram, scratch) = &mut state.gram;
        let sums = compute::normal_equations(device, &block, rows, &both, gram_rows, (gram, scratch))?;
        let alpha = state.f.coefficients(0);
        let pull = |i: usize| sums[i] / (nu * total) - m as f64 * f64::from(alpha[i]);
        let v = |i: usize| sums[m + i] / total;
        let right: Vec<f64> = (0..m).map(pull).chain((0..m).map(v)).collect();
        let solution =
            solve_regularised(&mut state.system, &state.gram.0, 1.0 / (nu * total), m as f64, &right)
                .ok_or(Error::NotPositiveDefinite { block: 0, size: m, raise: "nu" })?;
        let dot = |column: usize| (0..m).map(|i| v(i) * solution[2 * i + column]).sum::<f64>();
        let (along, own) = (dot(0), dot(1));
        let gap = nu * mass(&curvatures) / total - own;
        let factor = if gap > 0.0 { along / gap } else { 0.0 };
        Ok((0..m).map(|i| (solution[2 * i] + factor * solution[2 * i + 1]) as f32).collect())
    }

    fn rounded(&self, level: f64, width: f64) -> Smoothed<Novelty> {
        Smoothed { loss: Novelty { level: level as f32 }, width: width as f32 }
    }

    /// The τ at which E g = ν, by bisection: E g rises with τ.
    fn level(&self, values: &[f32], weights: &[f32], width: f64) -> f64 {
        let wanted = self.config.nu * mass(weights);
        let extreme = |pick: fn(f64, f64) -> f64, start| values.iter().fold(start, |a, &v| pick(a, v.into()));
        let (mut low, mut high) = (extreme(f64::min, f64::INFINITY), extreme(f64::max, f64::NEG_INFINITY));
        high += width;
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (low + high);
            let slope =
                |(&v, &w): (&f32, &f32)| f64::from(w) * ((middle - f64::from(v)) / width).clamp(0.0, 1.0);
            let found: f64 = values.iter().zip(weights).map(slope).sum();
            *(if found < wanted { &mut low } else { &mut high }) = middle;
        }
        0.5 * (low + high)
    }

    /// (1/ν) E ℓ − τ + ½‖f‖², with the kink or rounded over `width`.
    fn objective(&self, state: &OneClassState, weights: &[f32], width: Option<f64>) -> f64 {
        let loss = match width {
            Some(width) => self.rounded(state.level, width).total(&state.values, &[], weights),
            None => Novelty { level: state.level as f32 }.total(&state.values, &[], weights),
        };
        let m = state.f.map().block_size as f64;
        let square: f64 = state.f.coefficients(0).iter().map(|&a| f64::from(a).powi(2)).sum();
        loss / (self.config.nu * mass(weights)) - state.level + 0.5 * m * square
    }
}

fn mass(weights: &[f32]) -> f64 {
    weights.iter().map(|&w| f64::from(w)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::features;
    use crate::kernel::{FeatureMap, KernelSpec, Scaling};
    use crate::random::Seed;

    const M: usize = 64;

    fn rows() -> Vec<f32> {
        // Uneven, in two clusters and a few stragglers.
        let coordinate = |i: usize| (i * 7919 % 1_009) as f32 / 500.0 - 1.0;
        (0..120)
            .map(|i| coordinate(i) + if i % 5 < 2 { 3.0 } else { 0.0 } + (i % 17 / 16) as f32 * 6.0)
            .collect()
    }

    fn empty() -> FeatureExpansion {
        let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, M, Seed(3), Scaling::identity(2)).unwrap();
        FeatureExpansion::new(map, vec![0.0])
    }

    fn solve(nu: f64, weights: &[f32], steps: usize) -> (OneClassState, Vec<OneClassInfo>) {
        let x = rows();
        let rows = Rows::single(&x, 2).unwrap();
        let solver = OneClassConfig { nu }.build().unwrap();
        let mut state = solver.init(empty(), rows, weights).unwrap();
        let infos = (0..steps).map(|_| solver.step(&mut state, rows, weights).unwrap()).collect();
        (state, infos)
    }

    /// The kernel matrix through the same features, in double precision.
    fn kernel() -> Vec<Vec<f64>> {
        let x = rows();
        let mut phi = vec![0.0; 60 * M];
        let f = empty();
        features(f.device(), &f.map().draw(BlockIndex(0)).unwrap(), Rows::single(&x, 2).unwrap(), &mut phi)
            .unwrap();
        let dot = |i: usize, j: usize| {
            (0..M).map(|k| f64::from(phi[i * M + k]) * f64::from(phi[j * M + k])).sum::<f64>() / M as f64
        };
        (0..60).map(|i| (0..60).map(|j| dot(i, j)).collect()).collect()
    }

    /// The dual: min ½aᵀKa over 0 ≤ a_i ≤ w_i/(νW), Σa = 1, by pairwise coordinate descent (exact line search on the
    /// most violating pair) until no pair improves; the primal optimum is −½aᵀKa.
    fn dual(nu: f64, weights: &[f32]) -> f64 {
        let k = kernel();
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let cap: Vec<f64> = weights.iter().map(|&w| f64::from(w) / (nu * total)).collect();
        let mut a: Vec<f64> = weights.iter().map(|&w| f64::from(w) / total).collect();
        for _ in 0..20_000 {
            let g: Vec<f64> = k.iter().map(|row| row.iter().zip(&a).map(|(k, a)| k * a).sum()).collect();
            let up = (0..60).filter(|&i| a[i] < cap[i] - 1e-15).min_by(|&i, &j| g[i].total_cmp(&g[j]));
            let down = (0..60).filter(|&i| a[i] > 1e-15).max_by(|&i, &j| g[i].total_cmp(&g[j]));
            let (Some(i), Some(j)) = (up, down) else { break };
            if g[j] - g[i] < 1e-12 {
                break;
            }
            let step = (g[j] - g[i]) / (k[i][i] + k[j][j] - 2.0 * k[i][j]).max(1e-12);
            let step = step.min(cap[i] - a[i]).min(a[j]);
            a[i] += step;
            a[j] -= step;
        }
        let g: Vec<f64> = k.iter().map(|row| row.iter().zip(&a).map(|(k, a)| k * a).sum()).collect();
        -0.5 * a.iter().zip(&g).map(|(a, g)| a * g).sum::<f64>()
    }

    #[test]
    fn the_objective_meets_its_dual() {
        let weights: Vec<f32> = (0..60).map(|i| 1.0 + (i % 3) as f32).collect();
        for nu in [0.1, 0.5, 0.9] {
            let exact = dual(nu, &weights);
            let (_, infos) = solve(nu, &weights, 30);
            let found = infos[29].objective;
            // Weak duality from below (to rounding), the width of the rounding from above.
            assert!(found > exact - 1e-6 && found < exact + 5e-3 * exact.abs(), "ν={nu}: {found} vs {exact}");
        }
    }

    #[test]
    fn a_share_nu_of_the_weight_lies_below_the_level() {
        let weights: Vec<f32> = (0..60).map(|i| 1.0 + (i % 3) as f32).collect();
        for nu in [0.2, 0.5, 0.8] {
            let (state, _) = solve(nu, &weights, 10);
            let below = |slack: f64| {
                let is = |v: f32| f64::from(v) < state.level + slack;
                state
                    .values
                    .iter()
                    .zip(&weights)
                    .filter(|(&v, _)| is(v))
                    .map(|(_, &w)| f64::from(w))
                    .sum::<f64>()
            };
            // Rows on the level itself may count either way; it is as sharp as the rounding.
            let (least, most, wanted) =
                (below(-2.0 * state.width), below(2.0 * state.width), nu * mass(&weights));
            assert!(least <= wanted && wanted <= most, "ν={nu}: {least} … {most}, wanted {wanted}");
        }
    }

    /// At ν = 1 all rows have a say: f is the mean of their kernels, where the descent starts.
    #[test]
    fn at_one_it_is_the_kernel_density_estimate() {
        let weights = [1.0_f32; 60];
        let (state, infos) = solve(1.0, &weights, 5);
        let k = kernel();
        for (v, row) in state.values.iter().zip(&k) {
            let mean = row.iter().sum::<f64>() / 60.0;
            assert!((f64::from(*v) - mean).abs() < 1e-3 * mean.abs().max(0.1), "{v} vs {mean}");
        }
        assert!(infos.iter().all(|i| i.objective.is_finite()));
    }

    #[test]
    fn nu_outside_its_domain_is_refused() {
        for nu in [0.0, -0.1, 1.1, f64::NAN] {
            assert!(OneClassConfig { nu }.build().unwrap_err().to_string().contains("nu"));
        }
    }
}
