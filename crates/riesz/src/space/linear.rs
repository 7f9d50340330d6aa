//! f = θᵀψ: a finite basis and coefficients in double precision.

use super::average::RunningAverage;
use super::basis::check_basis;
use super::{Averaged, Averaging, Basis, Function, Space, Storable, Terms};
use crate::compute::{mixed_add, mixed_dot, Device};
use crate::data::{tiles, Rows};
use crate::error::{Error, Result};
use crate::model::Container;
use faer::Mat;
use rayon::prelude::*;

/// A function f(x) = Σ_j θ_j ψ_j(x) in the span of a [`Basis`], with C outputs.
///
/// A gradient [`Space::step`] is the plain one in coefficients, θ ← (1 − γν) θ + γ Σ_i w_i ψ(x_i): that of a space whose
/// kernel is ψ(x)ᵀψ(y). Temporal differences and their relatives are written in it. Where ψ = Tψ₀ of plain functions ψ₀ (kernel
/// atoms), values are (Tᵀθ)ᵀψ₀ and a gradient Σ wψ is TΣ wψ₀: T meets two vectors a step, and no row.
#[derive(Clone, Debug)]
pub struct Linear {
    basis: Basis,
    /// θ, M×C row-major.
    coefficients: Vec<f64>,
    /// Tᵀθ, where T is not the identity.
    plain: Option<Vec<f64>>,
    outputs: usize,
    average: Option<RunningAverage>,
}

impl Linear {
    /// The function zero with C outputs.
    pub fn new(basis: Basis, outputs: usize) -> Self {
        let coefficients = vec![0.0; basis.len() * outputs];
        let plain = basis.is_transformed().then(|| coefficients.clone());
        Self { basis, coefficients, plain, outputs, average: None }
    }

    /// The function with coefficients θ, M×C row-major.
    pub fn with_coefficients(basis: Basis, coefficients: Vec<f64>) -> Result<Self> {
        let (m, found) = (basis.len(), coefficients.len());
        if found == 0 || !found.is_multiple_of(m) {
            let expected = format!("a positive multiple of {m}");
            return Err(Error::Length { what: "the coefficients", expected, found });
        }
        let plain = plain(&basis, &coefficients);
        Ok(Self { basis, coefficients, plain, outputs: found / m, average: None })
    }

    /// The basis.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// θ, M×C row-major.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// What `work` makes of ψ₀ on every tile of some rows, in the order of the tiles.
    fn over_tiles<R: Send>(
        &self,
        rows: Rows<'_>,
        work: impl Fn(std::ops::Range<usize>, &[f32]) -> R + Sync,
    ) -> Result<Vec<R>> {
        check_basis(&self.basis, rows.columns())?;
        let all: Vec<_> = tiles(rows.len()).collect();
        if let [tile] = &all[..] {
            let psi = self.basis.plain(rows.tile(tile.clone(), &mut Vec::new()))?;
            return Ok(vec![work(tile.clone(), &psi)]);
        }
        let one = |(x, psi): &mut (Vec<f32>, Vec<f32>), tile: std::ops::Range<usize>| {
            psi.resize(tile.len() * self.basis.len(), 0.0);
            self.basis.fill_plain(rows.tile(tile.clone(), x), psi)?;
            Ok(work(tile, psi))
        };
        all.into_par_iter().with_max_len(1).map_init(Default::default, one).collect()
    }
}

/// A matrix of M×C numbers that are row-major.
fn matrix(m: usize, values: &[f64]) -> Mat<f64> {
    let c = values.len() / m;
    Mat::from_fn(m, c, |i, o| values[i * c + o])
}

/// Its numbers, row-major.
fn row_major(a: &Mat<f64>) -> Vec<f64> {
    let c = a.ncols();
    (0..a.nrows() * c).map(|i| a[(i / c, i % c)]).collect()
}

/// Tᵀθ, where T is not the identity.
fn plain(basis: &Basis, coefficients: &[f64]) -> Option<Vec<f64>> {
    let transposed = || row_major(&basis.transposed(&matrix(basis.len(), coefficients)));
    basis.is_transformed().then(transposed)
}

impl Function for Linear {
    fn columns(&self) -> usize {
        self.basis.columns()
    }

    fn outputs(&self) -> usize {
        self.outputs
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        let (m, c) = (self.basis.len(), self.outputs);
        let (theta, device) = (self.plain.as_ref().unwrap_or(&self.coefficients), Device::default());
        let values = self.over_tiles(rows, |_, psi| {
            let value = |psi: &[f32], o: usize| -> f64 {
                if c == 1 {
                    return mixed_dot(device, psi, theta);
                }
                psi.iter().zip(theta[o..].iter().step_by(c)).map(|(p, a)| f64::from(*p) * a).sum()
            };
            psi.chunks_exact(m).flat_map(|psi| (0..c).map(move |o| value(psi, o) as f32)).collect::<Vec<_>>()
        })?;
        out.iter_mut().zip(values.into_iter().flatten()).for_each(|(out, value)| *out = value);
        Ok(())
    }
}

impl Space for Linear {
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        let (m, c, device) = (self.basis.len(), self.outputs, Device::default());
        let mut sums = vec![0.0; m * c];
        for Terms { rows, weights } in terms {
            let parts = self.over_tiles(*rows, |tile, psi| {
                let mut part = vec![0.0_f64; m * c];
                let weights = weights[tile.start * c..tile.end * c].chunks_exact(c);
                for (psi, w) in psi.chunks_exact(m).zip(weights) {
                    if let [w] = w {
                        mixed_add(device, f64::from(*w), psi, &mut part);
                        continue;
                    }
                    for (part, psi) in part.chunks_exact_mut(c).zip(psi) {
                        part.iter_mut().zip(w).for_each(|(part, w)| *part += f64::from(*w) * f64::from(*psi));
                    }
                }
                part
            })?;
            parts.iter().for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
        }
        if self.plain.is_some() {
            sums = row_major(&self.basis.transformed(&matrix(m, &sums)));
        }
        let shrink = 1.0 - size * ridge;
        self.coefficients.iter_mut().zip(sums).for_each(|(a, sum)| *a = shrink * *a + size * sum);
        self.plain = plain(&self.basis, &self.coefficients);
        if let Some(average) = &mut self.average {
            average.take(size, 1.0, std::iter::once(&self.coefficients[..]));
        }
        Ok(())
    }
}

impl Averaged for Linear {
    fn averaging(mut self, rule: Averaging) -> Self {
        self.average = Some(RunningAverage::new(rule));
        self
    }

    fn average(&self) -> Self {
        let mean = self
            .average
            .as_ref()
            .filter(|average| average.steps > 0)
            .and_then(|average| average.values.first());
        let coefficients = mean.unwrap_or(&self.coefficients).clone();
        let (basis, outputs) = (self.basis.clone(), self.outputs);
        Self { plain: plain(&basis, &coefficients), basis, coefficients, outputs, average: None }
    }
}

impl Storable for Linear {
    fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        self.basis.store(container, &format!("{name}.basis"))?;
        let shape = vec![self.basis.len(), self.outputs];
        container.insert(&format!("{name}.coefficients"), shape, self.coefficients.clone())?;
        RunningAverage::store(self.average.as_ref(), container, &format!("{name}.average"))
    }

    fn restore(container: &mut Container, name: &str) -> Result<Self> {
        let basis = Basis::restore(container, &format!("{name}.basis"))?;
        let coefficients = format!("{name}.coefficients");
        let (m, count) = (basis.len(), container.f64s(&coefficients)?.1.len());
        let f = Self::with_coefficients(basis, container.take_f64s(&coefficients, &[m, count / m])?)?;
        let average = RunningAverage::restore(container, &format!("{name}.average"), count)?;
        Ok(Self { average, ..f })
    }
}
