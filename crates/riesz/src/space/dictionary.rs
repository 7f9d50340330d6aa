//! f = Σ_j w_j k(x_j, ·): kernel atoms at points that were seen.

use super::average::RunningAverage;
use super::{check_columns, Averaged, Averaging, Function, Space, Terms};
use crate::data::{tiles, Rows, TILE};
use crate::error::Result;
use crate::kernel::ClosedForm;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How many atoms a dictionary keeps, and which one goes when there are more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// All of them.
    Unlimited,
    /// This many; the oldest goes (NORMA's truncation, whose error the shrinkage bounds).
    Oldest(usize),
    /// This many; the one of least |w_j| √k(x_j, x_j), the norm of its term, goes (as the forgetron does).
    Smallest(usize),
}

impl Budget {
    /// The most atoms.
    pub fn most(self) -> usize {
        match self {
            Self::Unlimited => usize::MAX,
            Self::Oldest(most) | Self::Smallest(most) => most,
        }
    }
}

/// A function f(x) = offset + s Σ_j w_j k(x_j, x) with a kernel in closed form.
///
/// A gradient [`Space::step`] adds an atom for every point of non-zero weight, w = γ w_i, and shrinks the others by the
/// running scalar s (lecture §8: with one sample a step it is NORMA). Atoms beyond the [`Budget`] are dropped, one by one.
#[derive(Clone, Debug)]
pub struct Dictionary {
    kernel: ClosedForm,
    offset: Vec<f32>,
    /// Points in the units of the kernel, M×d, oldest first.
    points: Vec<f32>,
    /// M×C, without the running scalar.
    weights: Vec<f32>,
    /// √k(x_j, x_j).
    norms: Vec<f32>,
    scale: f64,
    budget: Budget,
    average: Option<RunningAverage>,
}

/// The running scalar is multiplied into the weights before it comes near underflow.
const LEAST_SCALE: f64 = 1e-12;
/// Rows evaluated by one thread at a time.
const CHUNK: usize = 64;

impl Dictionary {
    /// The constant function `offset`, with C = `offset.len()` outputs.
    pub fn new(kernel: ClosedForm, offset: Vec<f32>, budget: Budget) -> Self {
        Self {
            kernel,
            offset,
            points: Vec::new(),
            weights: Vec::new(),
            norms: Vec::new(),
            scale: 1.0,
            budget,
            average: None,
        }
    }

    /// The kernel of the atoms.
    pub fn kernel(&self) -> &ClosedForm {
        &self.kernel
    }

    /// The constant part of f.
    pub fn offset(&self) -> &[f32] {
        &self.offset
    }

    /// Number M of atoms.
    pub fn len(&self) -> usize {
        self.norms.len()
    }

    /// Whether f is still constant.
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// The points of the atoms in the units of the kernel, M×d, oldest first.
    pub fn points(&self) -> &[f32] {
        &self.points
    }

    /// The weights of the atoms, M×C.
    pub fn weights(&self) -> Vec<f32> {
        self.weights.iter().map(|&w| (self.scale * f64::from(w)) as f32).collect()
    }

    /// The weights in units of the running scalar, and that scalar: what a file holds.
    pub(crate) fn raw(&self) -> (&[f32], f64) {
        (&self.weights, self.scale)
    }

    /// The dictionary that has these points (in the units of the kernel) and [`Dictionary::raw`] weights.
    pub(crate) fn from_raw(
        kernel: ClosedForm,
        offset: Vec<f32>,
        budget: Budget,
        points: Vec<f32>,
        (weights, scale): (Vec<f32>, f64),
    ) -> Result<Self> {
        let (d, c) = (kernel.columns(), offset.len());
        let mut f = Self { scale, ..Self::new(kernel, offset, budget) };
        for (point, weights) in points.chunks_exact(d).zip(weights.chunks_exact(c)) {
            f.append(point, weights.iter().copied())?;
        }
        Ok(f)
    }

    /// ‖f − offset‖²_H = Σ_c w_cᵀ K w_c, in double precision.
    pub fn squared_norm(&self) -> Result<f64> {
        let (d, c) = (self.kernel.columns(), self.outputs());
        let mut k = vec![0.0; self.len()];
        let mut total = 0.0;
        for (x, w) in self.points.chunks_exact(d).zip(self.weights.chunks_exact(c)) {
            self.kernel.values(x, &self.points, &mut k)?;
            for (k, other) in k.iter().zip(self.weights.chunks_exact(c)) {
                let dot: f64 = w.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                total += dot * f64::from(*k);
            }
        }
        Ok(total * self.scale * self.scale)
    }

    /// Appends an atom at a point in the units of the kernel; its C weights are in the unit of the running scalar.
    fn append(&mut self, point: &[f32], weights: impl Iterator<Item = f32>) -> Result<()> {
        let mut own = [0.0];
        self.kernel.values(point, point, &mut own)?;
        self.points.extend_from_slice(point);
        self.weights.extend(weights);
        self.norms.push(own[0].max(0.0).sqrt());
        Ok(())
    }

    /// Drops atom `j`.
    fn remove(&mut self, j: usize) {
        let (d, c) = (self.kernel.columns(), self.offset.len());
        self.points.drain(j * d..(j + 1) * d);
        self.weights.drain(j * c..(j + 1) * c);
        self.norms.remove(j);
        if let Some(average) = &mut self.average {
            average.remove(j * c..(j + 1) * c);
        }
    }

    /// Drops atoms until the budget is kept.
    fn keep_budget(&mut self) {
        while self.len() > self.budget.most() {
            let j = match self.budget {
                Budget::Smallest(_) => self.least(),
                Budget::Unlimited | Budget::Oldest(_) => 0,
            };
            self.remove(j);
        }
    }

    /// The atom whose term has the least norm.
    fn least(&self) -> usize {
        let size = |j: usize| {
            let w = &self.weights[j * self.outputs()..(j + 1) * self.outputs()];
            self.norms[j] * w.iter().map(|w| w * w).sum::<f32>().sqrt()
        };
        (1..self.len()).fold((0, size(0)), |least, j| if size(j) < least.1 { (j, size(j)) } else { least }).0
    }

    /// f ← shrink·f by the running scalar.
    fn shrink(&mut self, shrink: f64) {
        self.scale *= shrink;
        if self.scale.abs() < LEAST_SCALE {
            let scale = std::mem::replace(&mut self.scale, 1.0) as f32;
            self.weights.iter_mut().for_each(|w| *w *= scale);
        }
    }
}

impl Function for Dictionary {
    fn columns(&self) -> usize {
        self.kernel.columns()
    }

    fn outputs(&self) -> usize {
        self.offset.len()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        check_columns(self, rows)?;
        let (d, c) = (self.columns(), self.outputs());
        let parts: Vec<_> = tiles(rows.len()).zip(out.chunks_mut(TILE * c)).collect();
        for (tile, out) in parts {
            let mut buffer = Vec::new();
            let x = rows.tile(tile, &mut buffer);
            x.par_chunks(CHUNK * d).zip(out.par_chunks_mut(CHUNK * c)).try_for_each(|(x, out)| {
                let (mut inputs, mut k) = (Vec::with_capacity(x.len()), vec![0.0; self.len()]);
                self.kernel.input(x, &mut inputs);
                for (x, out) in inputs.chunks_exact(d).zip(out.chunks_exact_mut(c)) {
                    self.kernel.values(x, &self.points, &mut k)?;
                    for (o, out) in out.iter_mut().enumerate() {
                        let sum: f64 =
                            k.iter().zip(self.weights.iter().skip(o).step_by(c)).map(product).sum();
                        *out = (f64::from(self.offset[o]) + self.scale * sum) as f32;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn product((k, w): (&f32, &f32)) -> f64 {
    f64::from(*k) * f64::from(*w)
}

impl Space for Dictionary {
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        terms.iter().try_for_each(|terms| check_columns(self, terms.rows))?;
        self.shrink(1.0 - size * ridge);
        let (d, c, factor) = (self.columns(), self.outputs(), size / self.scale);
        for Terms { rows, weights } in terms {
            for tile in tiles(rows.len()) {
                let (mut buffer, mut inputs) = (Vec::new(), Vec::new());
                self.kernel.input(rows.tile(tile.clone(), &mut buffer), &mut inputs);
                let weights = &weights[tile.start * c..tile.end * c];
                for (x, w) in inputs.chunks_exact(d).zip(weights.chunks_exact(c)) {
                    if w.iter().any(|&w| w != 0.0) {
                        self.append(x, w.iter().map(|&w| (factor * f64::from(w)) as f32))?;
                    }
                }
            }
        }
        self.keep_budget();
        if let Some(average) = &mut self.average {
            average.take(size, self.scale, std::iter::once(&self.weights[..]));
        }
        Ok(())
    }
}

impl Averaged for Dictionary {
    fn averaging(mut self, rule: Averaging) -> Self {
        self.average = Some(RunningAverage::new(rule));
        self
    }

    /// Atoms that were dropped are missing from the average too.
    fn average(&self) -> Self {
        let mut mean = Self { average: None, ..self.clone() };
        match &self.average {
            Some(average) if average.steps > 0 => {
                (mean.weights, mean.scale) = (average.parts().flatten().collect(), 1.0);
            }
            _ => mean.shrink(1.0),
        }
        mean
    }
}
