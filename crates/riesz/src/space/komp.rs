//! KOMP: a function of fewer atoms within a given distance (slides, "Kernel Matching Pursuit"; spec 3.2).
//!
//! Of f̃ = Σ_j w_j k(x_j, ·) atoms are removed one by one, each time the one whose removal hurts least, and f̃ is projected on
//! what is left. With P = K⁻¹ of the points that there are,
//!
//! ```text
//! ‖f − f₋ⱼ‖²_H = Σ_c w_jc²/P_jj,    w₋ ← w₋ − P₋ⱼ w_j/P_jj,    P₋₋ ← P₋₋ − P₋ⱼ Pⱼ₋/P_jj,
//! ```
//!
//! O(M²) a removal. The projections are orthogonal, so that squared errors add up: it ends before their sum would exceed ε².
//!
//! A new atom (x, c) has b = P k_x and s = k(x, x) − k_xᵀ b, the squared distance of k(x, ·) from the span. Duplicates, s = 0 to
//! rounding, leave their weight to the others at once, w ← w + c bᵀ at the cost c² s. Any other is kept aside
//! until the first removal is known. Most often that is its own, and P stays as it is; where
//! it takes the place of atom j the two changes of P are one pass, and a small s does no harm to it:
//!
//! ```text
//! the cost of j beside the new atom:   Σ_c w_jc² s/(s P_jj + b_j²)
//! after j has gone:                    b' = b₋ − P₋ⱼ b_j/P_jj,   s' = s + b_j²/P_jj.
//! ```

use super::dictionary::Dictionary;
use super::{Function, Terms};
use crate::compute::{packed, symmetric_product, symmetric_update, Device};
use crate::error::Result;
use crate::kernel::ClosedForm;
use crate::linalg::cholesky::{solve_in_place, Cholesky};
use faer::Mat;
use serde::{Deserialize, Serialize};

/// K⁻¹ of the points of a dictionary in double precision, kept up to date by rank-one changes.
#[derive(Clone, Debug)]
pub(super) struct InverseGram {
    device: Device,
    /// The rows of its lower triangle.
    rows: Vec<f64>,
    pub(super) drift: Drift,
}

/// How far the inverse of a Gram matrix has moved from what it should be by the roundings of its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Changes so far.
    pub changes: u64,
    /// How often it was computed anew.
    pub refreshes: u64,
    /// The largest max_i |(K P v − v)_i| with signs v that was found, before it was computed anew.
    pub worst: f64,
}

/// Changes after which the drift is looked at.
const CHECKED: u64 = 256;
/// The drift beyond which the inverse is computed anew.
const ALLOWED: f64 = 1e-8;
/// s/k(x, x) at or below which a point counts as a combination of the others, whatever ε; costs are taken that much too large.
/// Since the squared distance of atom j from the span of the others is 1/P_jj, ‖K⁻¹‖ is at most M times 10⁶ then, and the
/// condition of the Gram matrix M² times 10⁶.
const DEPENDENT: f64 = 1e-6;

/// An atom that is not yet in the dictionary.
struct Fresh<'a> {
    point: &'a [f32],
    weights: Vec<f64>,
    /// b.
    coefficients: Vec<f64>,
    /// s.
    distance: f64,
    /// k(x, x).
    own: f64,
}

/// An atom that may go.
#[derive(Clone, Copy)]
struct Removal {
    atom: usize,
    cost: f64,
    dependent: bool,
}

impl Removal {
    fn comes_before(&self, other: &Self) -> bool {
        (self.dependent, other.cost) > (other.dependent, self.cost)
    }
}

impl Fresh<'_> {
    /// What it costs to leave it out.
    fn cost(&self) -> f64 {
        square(&self.weights) * (self.distance + DEPENDENT * self.own)
    }
}

fn square(w: &[f64]) -> f64 {
    w.iter().map(|w| w * w).sum()
}

impl InverseGram {
    pub(super) fn new() -> Self {
        Self { device: Device::default(), rows: Vec::new(), drift: Drift::default() }
    }

    /// The inverse with these numbers, as a file has them.
    pub(super) fn from_rows(rows: Vec<f64>, drift: Drift) -> Self {
        Self { device: Device::default(), rows, drift }
    }

    /// The rows of the lower triangle.
    pub(super) fn rows(&self) -> &[f64] {
        &self.rows
    }

    fn diagonal(&self, j: usize) -> f64 {
        self.rows[packed(j + 1) - 1]
    }

    fn column(&self, j: usize, m: usize) -> Vec<f64> {
        let below = (j + 1..m).map(|i| self.rows[packed(i) + j]);
        self.rows[packed(j)..packed(j + 1)].iter().copied().chain(below).collect()
    }

    fn product(&self, v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; v.len()];
        symmetric_product(self.device, &self.rows, v, &mut out);
        out
    }

    /// P ← [[P + bbᵀ/s, −b/s], [−bᵀ/s, 1/s]].
    fn append(&mut self, b: &[f64], s: f64) {
        symmetric_update(self.device, &mut self.rows, &[(1.0 / s, b)], None);
        self.border(b.iter().copied(), s);
    }

    /// Atom j goes and another, whose b and s are those without j, comes.
    fn swap(&mut self, j: usize, (column, own): (&[f64], f64), b: &[f64], s: f64) {
        symmetric_update(self.device, &mut self.rows, &[(-1.0 / own, column), (1.0 / s, b)], Some(j));
        self.border(b.iter().enumerate().filter(|(i, _)| *i != j).map(|(_, b)| *b), s);
    }

    fn border(&mut self, b: impl Iterator<Item = f64>, s: f64) {
        self.rows.extend(b.map(|b| -b / s).chain([1.0 / s]));
        self.drift.changes += 1;
    }

    fn remove(&mut self, j: usize, column: &[f64]) {
        symmetric_update(self.device, &mut self.rows, &[(-1.0 / column[j], column)], Some(j));
        self.drift.changes += 1;
    }

    /// max_i |(K P v − v)_i| for signs v that differ from time to time.
    pub(super) fn residual(&self, kernel: &ClosedForm, points: &[f32]) -> Result<f64> {
        let m = points.len() / kernel.columns();
        let bit = |i: usize| (i as u64 ^ self.drift.changes).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63;
        let signs: Vec<f64> = (0..m).map(|i| if bit(i) == 0 { 1.0 } else { -1.0 }).collect();
        let (u, mut k, mut worst) = (self.product(&signs), vec![0.0; m], 0.0_f64);
        for (x, sign) in points.chunks_exact(kernel.columns()).zip(&signs) {
            kernel.values(x, points, &mut k)?;
            let found: f64 = k.iter().zip(&u).map(|(k, u)| k * u).sum();
            worst = worst.max((found - sign).abs());
        }
        Ok(worst)
    }

    /// Looks at the drift now and then, and computes K⁻¹ anew where it is too large.
    fn keep_exact(&mut self, kernel: &ClosedForm, points: &[f32], before: u64) -> Result<()> {
        if before / CHECKED == self.drift.changes / CHECKED {
            return Ok(());
        }
        let residual = self.residual(kernel, points)?;
        self.drift.worst = self.drift.worst.max(residual);
        if residual > ALLOWED {
            self.refresh(kernel, points)?;
        }
        Ok(())
    }

    /// P = K⁻¹ from the points.
    fn refresh(&mut self, kernel: &ClosedForm, points: &[f32]) -> Result<()> {
        let m = points.len() / kernel.columns();
        let mut gram = Mat::zeros(m, m);
        for (x, column) in points.chunks_exact(kernel.columns()).zip(gram.col_iter_mut()) {
            if let Some(column) = column.try_as_col_major_mut() {
                kernel.values(x, points, column.as_slice_mut())?;
            }
        }
        let factor = Cholesky::of_covariance(|| gram.clone(), &mut || Ok(()))?;
        let mut inverse = Mat::identity(m, m);
        solve_in_place(factor.lower(), inverse.as_mut());
        self.rows = (0..m).flat_map(|i| (0..=i).map(move |k| (i, k))).map(|at| inverse[at]).collect();
        self.drift.refreshes += 1;
        Ok(())
    }
}

impl Dictionary {
    /// f ← KOMP(shrink·f + Σ_i w_i k(x_i, ·), ε), and at most `most` atoms, whatever ε.
    ///
    /// KOMP changes f by at most ε in norm, unless `most` is exceeded or ε is below 10⁻³ of the norm of an atom: what is
    /// closer to the span of the others is not told apart from it, so that the inverse stays accurate.
    pub(super) fn compressed_step(
        &mut self,
        shrink: f64,
        factor: f64,
        terms: &[Terms<'_>],
        (error, most): (f64, usize),
    ) -> Result<()> {
        self.weights.iter_mut().for_each(|w| *w *= shrink);
        let mut inverse = self.inverse.take().unwrap_or_else(InverseGram::new);
        let outcome = self.add_and_compress(&mut inverse, factor, terms, (error, most));
        self.inverse = Some(inverse);
        outcome
    }

    fn add_and_compress(
        &mut self,
        inverse: &mut InverseGram,
        factor: f64,
        terms: &[Terms<'_>],
        (error, most): (f64, usize),
    ) -> Result<()> {
        let (before, mut left) = (inverse.drift.changes, error * error);
        let (points, weights) = self.atoms_of(factor, terms);
        let atoms = points.chunks_exact(self.columns()).zip(weights.chunks_exact(self.outputs()));
        let mut pending = None;
        for (point, weights) in atoms {
            if let Some(fresh) = pending.take() {
                self.take_in(inverse, fresh);
            }
            let fresh = self.beside(inverse, point, weights)?;
            if fresh.distance <= DEPENDENT * fresh.own {
                left = (left - fresh.cost()).max(0.0);
                self.fold(&fresh);
            } else {
                pending = Some(fresh);
            }
        }
        loop {
            let many = self.len() + usize::from(pending.is_some()) > most;
            let Some(least) = self.cheapest(inverse, pending.as_ref()) else { break };
            if least.cost > left && !many && !least.dependent {
                break;
            }
            left = (left - least.cost).max(0.0);
            match pending.take() {
                Some(fresh) if least.atom == self.len() => self.fold(&fresh),
                Some(fresh) => self.swap(inverse, least.atom, fresh),
                None => self.drop_atom(inverse, least.atom),
            }
        }
        if let Some(fresh) = pending {
            self.take_in(inverse, fresh);
        }
        inverse.keep_exact(&self.kernel, &self.points, before)
    }

    /// An atom beside the dictionary.
    fn beside<'a>(&self, inverse: &InverseGram, point: &'a [f32], weights: &[f64]) -> Result<Fresh<'a>> {
        let (mut k, mut own) = (vec![0.0_f64; self.len()], [0.0_f64]);
        self.kernel.values(point, &self.points, &mut k)?;
        self.kernel.values(point, point, &mut own)?;
        let coefficients = inverse.product(&k);
        let explained: f64 = k.iter().zip(&coefficients).map(|(k, b)| k * b).sum();
        let distance = (own[0] - explained).max(0.0);
        Ok(Fresh { point, weights: weights.to_vec(), coefficients, distance, own: own[0] })
    }

    /// The atom whose removal costs least, the last one being the atom beside; those that have become a combination of the
    /// others come before all.
    fn cheapest(&self, inverse: &InverseGram, fresh: Option<&Fresh<'_>>) -> Option<Removal> {
        let mut least = fresh.map(|fresh| Removal { atom: self.len(), cost: fresh.cost(), dependent: false });
        for (atom, w) in self.weights.chunks_exact(self.outputs()).enumerate() {
            let (own, floor) = (inverse.diagonal(atom), DEPENDENT * self.norms[atom] * self.norms[atom]);
            let distance = match fresh {
                None => 1.0 / own,
                Some(Fresh { coefficients, distance, .. }) => {
                    distance / (distance * own + coefficients[atom] * coefficients[atom])
                }
            };
            let found = Removal { atom, cost: square(w) * (distance + floor), dependent: distance <= floor };
            if least.is_none_or(|least| found.comes_before(&least)) {
                least = Some(found);
            }
        }
        least
    }

    /// The atom beside becomes one of the dictionary.
    fn take_in(&mut self, inverse: &mut InverseGram, fresh: Fresh<'_>) {
        inverse.append(&fresh.coefficients, fresh.distance);
        self.append(fresh.point, fresh.weights, fresh.own);
    }

    /// w ← w + c bᵀ.
    fn fold(&mut self, fresh: &Fresh<'_>) {
        for (w, b) in self.weights.chunks_exact_mut(self.offset.len()).zip(&fresh.coefficients) {
            w.iter_mut().zip(&fresh.weights).for_each(|(w, c)| *w += c * b);
        }
    }

    /// Atom j goes, and the atom beside takes a place at the end.
    fn swap(&mut self, inverse: &mut InverseGram, j: usize, mut fresh: Fresh<'_>) {
        let c = self.outputs();
        let column = inverse.column(j, self.len());
        let (own, s, b_j) = (column[j], fresh.distance, fresh.coefficients[j]);
        let gone: Vec<f64> = self.weights[j * c..(j + 1) * c].to_vec();
        let whole = s * own + b_j * b_j;
        for ((w, p), b) in self.weights.chunks_exact_mut(c).zip(&column).zip(&mut fresh.coefficients) {
            let share = (s * p + *b * b_j) / whole;
            w.iter_mut().zip(&gone).for_each(|(w, gone)| *w -= share * gone);
            *b -= p * b_j / own;
        }
        fresh.weights.iter_mut().zip(&gone).for_each(|(w, gone)| *w += b_j / whole * gone);
        let distance = s + b_j * b_j / own;
        inverse.swap(j, (&column, own), &fresh.coefficients, distance);
        self.remove(j);
        self.append(fresh.point, fresh.weights, fresh.own);
    }

    fn drop_atom(&mut self, inverse: &mut InverseGram, j: usize) {
        let c = self.outputs();
        let column = inverse.column(j, self.len());
        let gone: Vec<f64> = self.weights[j * c..(j + 1) * c].to_vec();
        for (w, p) in self.weights.chunks_exact_mut(c).zip(&column) {
            w.iter_mut().zip(&gone).for_each(|(w, gone)| *w -= p / column[j] * gone);
        }
        inverse.remove(j, &column);
        self.remove(j);
    }
}
