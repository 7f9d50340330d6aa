//! f = Σ_j w_j k(x_j, ·): kernel atoms at points that were seen.

use super::average::RunningAverage;
use super::komp::{Drift, InverseGram};
use super::queue::Queue;
use super::{check_columns, Averaged, Averaging, Function, Space, Terms};
use crate::data::{tiles, Rows, TILE};
use crate::error::{Error, Result};
use crate::kernel::ClosedForm;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// How many atoms a dictionary keeps, and which one goes when there are more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// All of them.
    Unlimited,
    /// This many; the oldest goes (NORMA's truncation, whose error the shrinkage bounds).
    Oldest(usize),
    /// This many; the one of least |w_j| √k(x_j, x_j), the norm of its term, goes (as the forgetron does).
    Smallest(usize),
    /// As many as it takes: after a step of size γ, f is replaced by a function of fewer atoms within ε of it in the norm
    /// of the space (KOMP; with one sample a step it is POLK). The number of atoms stays bounded where γ is constant.
    Komp {
        /// ε.
        error: Parsimony,
        /// The most atoms, whatever ε.
        most: usize,
    },
}

/// ε of KOMP after a step of size γ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parsimony {
    /// ε = Pγ², as published for constant γ.
    Square(f64),
    /// ε = pγ, a share p of the atom that a slope of one adds: the same at every step of a falling γ.
    Share(f64),
}

impl Parsimony {
    /// P or p.
    pub fn value(self) -> f64 {
        let (Self::Square(value) | Self::Share(value)) = self;
        value
    }

    /// ε after a step of this size.
    pub fn error(self, size: f64) -> f64 {
        match self {
            Self::Square(parsimony) => parsimony * size * size,
            Self::Share(share) => share * size,
        }
    }
}

impl Budget {
    /// The most atoms.
    pub fn most(self) -> usize {
        match self {
            Self::Unlimited => usize::MAX,
            Self::Oldest(most) | Self::Smallest(most) | Self::Komp { most, .. } => most,
        }
    }
}

/// A function f(x) = offset + s Σ_j w_j k(x_j, x) with a kernel in closed form.
///
/// A gradient [`Space::step`] adds an atom for every point of non-zero weight, w = γ w_i, and shrinks the others by the
/// running scalar s (lecture §8: with one sample a step it is NORMA). Atoms beyond the [`Budget`] are dropped, one by one, or
/// their weights go to the others by projection ([`Budget::Komp`]).
#[derive(Clone, Debug)]
pub struct Dictionary {
    pub(super) kernel: ClosedForm,
    pub(super) offset: Vec<f32>,
    /// Points in the units of the kernel, M×d, oldest first.
    pub(super) points: Queue<f32>,
    /// M×C, without the running scalar.
    pub(super) weights: Queue<f64>,
    /// √k(x_j, x_j).
    pub(super) norms: Queue<f64>,
    scale: f64,
    budget: Budget,
    average: Option<RunningAverage>,
    /// K⁻¹, where atoms are removed by KOMP.
    pub(super) inverse: Option<InverseGram>,
}

/// The running scalar is multiplied into the weights before it comes near underflow.
const LEAST_SCALE: f64 = 1e-12;
/// Rows evaluated by one thread at a time.
const CHUNK: usize = 64;
/// The residual beyond which an inverse in a file is refused.
const INVERSE: f64 = 1e-3;

/// The numbers of a dictionary that a file holds beside kernel, offset, budget and points.
pub(crate) struct Raw {
    /// M×C weights in units of the running scalar.
    pub weights: Vec<f64>,
    /// The running scalar.
    pub scale: f64,
    /// The rows of the lower triangle of K⁻¹, where KOMP keeps it.
    pub inverse: Option<(Vec<f64>, Drift)>,
}

impl Dictionary {
    /// The constant function `offset`, with C = `offset.len()` outputs.
    pub fn new(kernel: ClosedForm, offset: Vec<f32>, budget: Budget) -> Self {
        Self {
            kernel,
            offset,
            points: Queue::default(),
            weights: Queue::default(),
            norms: Queue::default(),
            scale: 1.0,
            budget,
            average: None,
            inverse: None,
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
    pub fn weights(&self) -> Vec<f64> {
        self.weights.iter().map(|&w| self.scale * w).collect()
    }

    /// How exact the inverse of the Gram matrix is, where KOMP keeps one.
    pub fn drift(&self) -> Option<Drift> {
        self.inverse.as_ref().map(|inverse| inverse.drift)
    }

    /// max_i |(K P v − v)_i| of the inverse P that KOMP keeps, for signs v.
    pub fn inverse_residual(&self) -> Result<Option<f64>> {
        self.inverse.as_ref().map(|inverse| inverse.residual(&self.kernel, &self.points)).transpose()
    }

    /// Which atoms are kept.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// What a file holds beside kernel, offset, budget and points.
    pub(crate) fn raw(&self) -> Raw {
        let inverse = self.inverse.as_ref().map(|inverse| (inverse.rows().to_vec(), inverse.drift));
        Raw { weights: self.weights.to_vec(), scale: self.scale, inverse }
    }

    /// The dictionary that has these points (in the units of the kernel) and [`Dictionary::raw`] numbers.
    pub(crate) fn from_raw(
        kernel: ClosedForm,
        offset: Vec<f32>,
        budget: Budget,
        points: Vec<f32>,
        raw: Raw,
    ) -> Result<Self> {
        let (d, c) = (kernel.columns(), offset.len());
        let mut f = Self { scale: raw.scale, ..Self::new(kernel, offset, budget) };
        let mut own = [0.0_f64];
        for (point, weights) in points.chunks_exact(d).zip(raw.weights.chunks_exact(c)) {
            f.kernel.values(point, point, &mut own)?;
            f.append(point, weights.iter().copied(), own[0]);
        }
        f.inverse = raw.inverse.map(|(rows, drift)| InverseGram::from_rows(rows, drift));
        if f.inverse_residual()?.is_some_and(|residual| residual.is_nan() || residual > INVERSE) {
            return Err(Error::Format("the inverse of the Gram matrix is that of other points".into()));
        }
        Ok(f)
    }

    /// ‖f − offset‖²_H = Σ_c w_cᵀ K w_c, in double precision.
    pub fn squared_norm(&self) -> Result<f64> {
        let (d, c) = (self.kernel.columns(), self.outputs());
        let mut k = vec![0.0_f64; self.len()];
        let mut total = 0.0;
        for (x, w) in self.points.chunks_exact(d).zip(self.weights.chunks_exact(c)) {
            self.kernel.values(x, &self.points, &mut k)?;
            for (k, other) in k.iter().zip(self.weights.chunks_exact(c)) {
                let dot: f64 = w.iter().zip(other).map(|(a, b)| a * b).sum();
                total += dot * k;
            }
        }
        Ok(total * self.scale * self.scale)
    }

    /// Appends an atom at a point in the units of the kernel, where k(x, x) is `own`; its C weights are in the unit of the
    /// running scalar.
    pub(super) fn append(&mut self, point: &[f32], weights: impl IntoIterator<Item = f64>, own: f64) {
        self.points.extend(point.iter().copied());
        self.weights.extend(weights);
        self.norms.extend([own.max(0.0).sqrt()]);
    }

    /// The points of non-zero weight of all terms, in the units of the kernel, and their weights times `factor`.
    pub(super) fn atoms_of(&self, factor: f64, terms: &[Terms<'_>]) -> (Vec<f32>, Vec<f64>) {
        let (mut points, mut kept) = (Vec::new(), Vec::new());
        let (mut buffer, mut row) = (Vec::new(), Vec::new());
        for Terms { rows, weights } in terms {
            for (i, w) in weights.chunks_exact(self.outputs()).enumerate() {
                if w.iter().any(|&w| w != 0.0) {
                    row.clear();
                    row.extend_from_slice(rows.tile(i..i + 1, &mut buffer));
                    self.kernel.input(&row, &mut points);
                    kept.extend(w.iter().map(|&w| factor * f64::from(w)));
                }
            }
        }
        (points, kept)
    }

    /// Drops atom `j`.
    pub(super) fn remove(&mut self, j: usize) {
        let (d, c) = (self.kernel.columns(), self.offset.len());
        self.points.remove(j * d..(j + 1) * d);
        self.weights.remove(j * c..(j + 1) * c);
        self.norms.remove(j..j + 1);
        if let Some(average) = &mut self.average {
            average.remove(j * c..(j + 1) * c);
        }
    }

    /// Drops atoms until the budget is kept.
    fn keep_budget(&mut self) {
        while self.len() > self.budget.most() {
            let j = match self.budget {
                Budget::Smallest(_) => self.least(),
                Budget::Unlimited | Budget::Oldest(_) | Budget::Komp { .. } => 0,
            };
            self.remove(j);
        }
    }

    /// The atom whose term has the least norm.
    fn least(&self) -> usize {
        let size = |j: usize| {
            let w = &self.weights[j * self.outputs()..(j + 1) * self.outputs()];
            self.norms[j] * w.iter().map(|w| w * w).sum::<f64>().sqrt()
        };
        (1..self.len()).fold((0, size(0)), |least, j| if size(j) < least.1 { (j, size(j)) } else { least }).0
    }

    /// f at a few rows.
    fn evaluate_chunk(&self, x: &[f32], out: &mut [f32]) -> Result<()> {
        let (d, c) = (self.columns(), self.outputs());
        let (mut inputs, mut k) = (Vec::with_capacity(x.len()), vec![0.0_f32; self.len()]);
        let mut sums = vec![0.0; c];
        self.kernel.input(x, &mut inputs);
        for (x, out) in inputs.chunks_exact(d).zip(out.chunks_exact_mut(c)) {
            self.kernel.values(x, &self.points, &mut k)?;
            sums.fill(0.0);
            for (k, w) in k.iter().zip(self.weights.chunks_exact(c)) {
                sums.iter_mut().zip(w).for_each(|(sum, w)| *sum += f64::from(*k) * w);
            }
            for ((out, sum), offset) in out.iter_mut().zip(&sums).zip(&self.offset) {
                *out = (f64::from(*offset) + self.scale * sum) as f32;
            }
        }
        Ok(())
    }

    /// f ← shrink·f by the running scalar.
    fn shrink(&mut self, shrink: f64) {
        self.scale *= shrink;
        if self.scale.abs() < LEAST_SCALE {
            let scale = std::mem::replace(&mut self.scale, 1.0);
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
            if out.len() <= CHUNK * c {
                self.evaluate_chunk(x, out)?;
                continue;
            }
            let chunks = x.par_chunks(CHUNK * d).zip(out.par_chunks_mut(CHUNK * c));
            chunks.try_for_each(|(x, out)| self.evaluate_chunk(x, out))?;
        }
        Ok(())
    }
}

impl Space for Dictionary {
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        terms.iter().try_for_each(|terms| check_columns(self, terms.rows))?;
        let shrink = 1.0 - size * ridge;
        if let Budget::Komp { error, most } = self.budget {
            self.compressed_step(shrink, size, terms, (error.error(size), most))?;
        } else {
            self.shrink(shrink);
            let (points, weights) = self.atoms_of(size / self.scale, terms);
            let (d, c, mut own) = (self.columns(), self.outputs(), [0.0_f64]);
            for (x, w) in points.chunks_exact(d).zip(weights.chunks_exact(c)) {
                self.kernel.values(x, x, &mut own)?;
                self.append(x, w.iter().copied(), own[0]);
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
                (mean.weights, mean.scale) = (average.values.concat().into(), 1.0);
            }
            _ => mean.shrink(1.0),
        }
        mean
    }
}
