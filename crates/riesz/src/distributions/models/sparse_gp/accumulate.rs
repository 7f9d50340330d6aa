//! What a batch of rows adds to every particle.

use super::natural::Natural;
use super::particle::{Number, Particle, Precision, Setting};
use crate::gaussian::covariance::Points;
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
    let near = |particle: &Particle| -> Vec<usize> {
        (0..batch.targets.len()).filter(|&i| particle.ball.contains(batch.points.row(i))).collect()
    };
    let near: Vec<Vec<usize>> = particles.par_iter().map(near).collect();
    let tasks: Vec<(usize, &[usize])> =
        near.iter().enumerate().flat_map(|(j, rows)| rows.chunks(CHUNK).map(move |rows| (j, rows))).collect();
    let shared = &*particles;
    let work = |&(j, rows): &(usize, &[usize])| (j, chunk(&shared[j], setting, batch, rows, entry));
    let chunks: Vec<(usize, Chunk<T>)> = tasks.par_iter().with_max_len(1).map(work).collect();
    let mut own: Vec<Vec<Chunk<T>>> = particles.iter().map(|_| Vec::new()).collect();
    chunks.into_iter().for_each(|(j, chunk)| own[j].push(chunk));
    particles.par_iter_mut().zip(&own).zip(&near).for_each(|((particle, chunks), near)| {
        particle.posterior = None;
        add_vectors(&mut particle.natural, chunks, entry.scale);
        particle.natural.constant += entry.scale * elsewhere(setting, batch, near);
    });
    particles
        .par_iter_mut()
        .zip(&own)
        .flat_map(|(particle, chunks)| {
            let panels = particle.natural.precision.par_col_chunks_mut(PANEL);
            panels.enumerate().map(move |(i, panel)| (i * PANEL, panel, chunks))
        })
        .for_each(|(first, panel, chunks)| add_panel(panel, first, chunks, entry.scale));
}

/// The rows `rows` of the batch in the eyes of a particle.
fn chunk<T: Number>(
    particle: &Particle,
    setting: &Setting,
    batch: Batch<'_>,
    rows: &[usize],
    entry: Entry,
) -> Chunk<T> {
    let hyper = &setting.hyper;
    let mut psi: Mat<T> = particle.features(setting, &batch.points.select(rows.iter().copied()));
    let mut constant = 0.0;
    let mut targets = Vec::with_capacity(rows.len());
    for (column, &i) in rows.iter().enumerate() {
        let psi = psi.col_as_slice_mut(column);
        let mut variance = hyper.noise / batch.weights[i];
        if entry.own_variance {
            variance += (hyper.signal - square(psi)).max(0.0);
        }
        let root = variance.sqrt().recip();
        let y = root * batch.targets[i];
        constant += log_density(batch.targets[i], variance);
        targets.push(y);
        T::scale(psi, root);
    }
    Chunk { psi, targets, constant }
}

/// The log density of the rows beyond a particle's ball, for which it has the prior alone; `near` are the others, in order.
fn elsewhere(setting: &Setting, batch: Batch<'_>, near: &[usize]) -> f64 {
    let mut near = near.iter().copied().peekable();
    let far = (0..batch.targets.len()).filter(|i| near.next_if_eq(i).is_none());
    let variance = |i: usize| setting.hyper.signal + setting.hyper.noise / batch.weights[i];
    far.map(|i| log_density(batch.targets[i], variance(i))).sum()
}

/// log N(y; 0, variance).
fn log_density(y: f64, variance: f64) -> f64 {
    -0.5 * (y * y / variance + (TAU * variance).ln())
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
