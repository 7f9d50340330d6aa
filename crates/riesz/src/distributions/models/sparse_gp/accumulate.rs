//! What a batch of rows adds to every particle.

use super::natural::Natural;
use super::particle::{Number, Particle, Precision, Setting};
use crate::functions::gaussian_process::covariance::Points;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, Par};
use rayon::prelude::*;
use std::f64::consts::TAU;

/// Rows whose features one thread computes at a time.
const CHUNK: usize = 256;
/// Columns of Λ one thread adds to at a time.
const PANEL: usize = 64;

/// Rows (in units of the length scales), targets less their mean, and weights: the noise of row i is σ²/w_i.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) points: &'a Points,
    pub(super) targets: &'a [f64],
    pub(super) weights: &'a [f64],
}

/// How rows enter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Factor on their log-likelihood.
    pub(super) scale: f64,
    /// Whether a row's noise has what Z does not say of f there added, s² − ‖ψ‖² (FITC); else it is σ² alone.
    pub(super) own_variance: bool,
    pub(super) precision: Precision,
}

/// Some rows in the eyes of a particle.
struct Chunk<T: Number> {
    /// √β_i ψ_i, one column each.
    psi: Mat<T>,
    /// √β_i y_i.
    targets: Vec<f64>,
    /// Σ [½ log(β_i/2π) − ½β_i y_i²].
    constant: f64,
}

/// Adds the rows to every particle. Threads share out chunks of features, then panels of Λ; every sum has one order.
pub(super) fn add(particles: &mut [Particle], setting: &Setting, batch: Batch<'_>, entry: Entry) {
    match entry.precision {
        Precision::Single => add_in::<f32>(particles, setting, batch, entry),
        Precision::Double => add_in::<f64>(particles, setting, batch, entry),
    }
}

fn add_in<T: Number>(particles: &mut [Particle], setting: &Setting, batch: Batch<'_>, entry: Entry) {
    let n = batch.targets.len();
    let parts: Vec<(std::ops::Range<usize>, Points)> = (0..n)
        .step_by(CHUNK)
        .map(|from| from..n.min(from + CHUNK))
        .map(|range| (range.clone(), batch.points.select(range)))
        .collect();
    let (shared, count) = (&*particles, parts.len());
    let chunks: Vec<Chunk<T>> = (0..particles.len() * count)
        .into_par_iter()
        .with_max_len(1)
        .map(|task| {
            let (range, points) = &parts[task % count];
            chunk(&shared[task / count], setting, points, batch, range.clone(), entry)
        })
        .collect();
    let per_particle = count.max(1);
    particles.par_iter_mut().zip(chunks.par_chunks(per_particle)).for_each(|(particle, chunks)| {
        particle.posterior = None;
        add_vectors(&mut particle.natural, chunks, entry.scale);
    });
    particles
        .par_iter_mut()
        .zip(chunks.par_chunks(per_particle))
        .flat_map(|(particle, chunks)| {
            let panels = particle.natural.precision.par_col_chunks_mut(PANEL);
            panels.enumerate().map(move |(i, panel)| (i * PANEL, panel, chunks))
        })
        .for_each(|(first, panel, chunks)| add_panel(panel, first, chunks, entry.scale));
}

fn chunk<T: Number>(
    particle: &Particle,
    setting: &Setting,
    points: &Points,
    batch: Batch<'_>,
    range: std::ops::Range<usize>,
    entry: Entry,
) -> Chunk<T> {
    let hyper = &setting.hyper;
    let mut psi: Mat<T> = particle.features(setting, points);
    let mut constant = 0.0;
    let mut targets = Vec::with_capacity(range.len());
    for (column, i) in range.enumerate() {
        let psi = psi.col_as_slice_mut(column);
        let mut variance = hyper.noise / batch.weights[i];
        if entry.own_variance {
            variance += (hyper.signal - square(psi)).max(0.0);
        }
        let root = variance.sqrt().recip();
        let y = root * batch.targets[i];
        constant -= 0.5 * (variance * TAU).ln() + 0.5 * y * y;
        targets.push(y);
        T::scale(psi, root);
    }
    Chunk { psi, targets, constant }
}

/// ‖v‖² in sixteen running sums, which become vectors.
fn square<T: Number>(values: &[T]) -> f64 {
    let (groups, rest) = values.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for group in groups {
        sums.iter_mut().zip(group).for_each(|(sum, v)| *sum += v.double() * v.double());
    }
    sums.iter().sum::<f64>() + rest.iter().map(|v| v.double() * v.double()).sum::<f64>()
}

/// h and c.
fn add_vectors<T: Number>(natural: &mut Natural, chunks: &[Chunk<T>], scale: f64) {
    for chunk in chunks {
        natural.constant += scale * chunk.constant;
        for (i, y) in chunk.targets.iter().enumerate() {
            let psi = chunk.psi.col_as_slice(i);
            natural.shift.iter_mut().zip(psi).for_each(|(h, p)| *h += scale * y * p.double());
        }
    }
}

/// Columns of Λ, from their diagonal on: summed over the rows of a batch in the precision of the features, over batches in
/// double precision.
fn add_panel<T: Number>(panel: MatMut<'_, f64>, first: usize, chunks: &[Chunk<T>], scale: f64) {
    let (m, width) = (panel.nrows(), panel.ncols());
    let mut sum = Mat::<T>::zeros(m - first, width);
    for chunk in chunks {
        let (left, right) = (chunk.psi.get(first.., ..), chunk.psi.get(first..first + width, ..));
        matmul(sum.as_mut(), Accum::Add, left, right.transpose(), T::of(1.0), Par::Seq);
    }
    let panel = panel.subrows_mut(first, m - first);
    for (j, column) in panel.col_iter_mut().enumerate() {
        column.iter_mut().zip(sum.col_as_slice(j)).for_each(|(out, v)| *out += scale * v.double());
    }
}
