//! A metric from the gradients of the fitted function (recursive feature machines).

use super::sample::Sample;
use super::search::{kernel_matrix, mapped, Candidate, Grid};
use crate::compute::{radial_slopes, Device};
use crate::error::Result;
use crate::functions::kernel_machine::metric::Form;
use crate::linalg::cholesky::{add_product, solve_in_place};
use crate::linalg::distances::squared_distances;
use crate::linalg::lu::product;
use crate::linalg::Cholesky;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use faer::Mat;
use rayon::prelude::*;

/// Rounds of learning a metric.
const ROUNDS: usize = 3;
/// Standard errors by which a metric has to be better than none: it is the best of a dozen.
const ERRORS: f64 = 2.0;
/// Least rows a metric is learnt from and judged by.
const LEAST_ROWS: usize = 20;

/// M = Σ_i w_i ∇f(x_i) ∇f(x_i)ᵀ, summed over the outputs of the ridge regression f with these settings at the points z = L x
/// of a radial kernel, gradients being those with respect to x.
///
/// With k a function of s = ‖z − z'‖²/σ²: ∇f(x_i) = (2/σ²) L Σ_j k'(s_ij) β_j (z_i − z_j).
pub(super) fn gradient_products(
    sample: &Sample,
    root: &Mat<f64>,
    settings: &Candidate,
) -> Result<Option<Mat<f64>>> {
    let Some(radial) = settings.kernel.radial() else { return Ok(None) };
    let z = product(sample.x.as_ref(), root.as_ref());
    let (n, d) = (z.nrows(), z.ncols());
    let squares = squared_distances(z.as_ref());
    let mut system = kernel_matrix(&settings.kernel, settings.bandwidth, &squares, &[])?;
    (0..n).for_each(|i| system[(i, i)] += settings.damping / sample.weights[i]);
    let Some(factor) = Cholesky::new(system) else { return Ok(None) };
    let mut beta = sample.y.clone();
    solve_in_place(factor.lower(), beta.as_mut());
    let slopes = mapped(settings.bandwidth, squares, |s| radial_slopes(Device::default(), radial, s));
    // Σ_j k'(s_ij) β_j (z_i − z_j) of all outputs from one product: columns β_j z_j and β_j for each.
    let c = beta.ncols();
    let terms = Mat::from_fn(n, c * (d + 1), |j, k| {
        beta[(j, k / (d + 1))] * if k % (d + 1) < d { z[(j, k % (d + 1))] } else { 1.0 }
    });
    let mut sums = Mat::<f64>::zeros(n, c * (d + 1));
    add_product(&mut sums, 1.0, slopes.as_ref(), terms.as_ref());
    let mut sum = Mat::<f64>::zeros(d, d);
    for c in 0..c {
        let of = |i: usize, j: usize| sums[(i, c * (d + 1) + j)];
        let gradients =
            Mat::from_fn(n, d, |i, j| sample.weights[i].sqrt() * (of(i, d) * z[(i, j)] - of(i, j)));
        let gradients = product(gradients.as_ref(), root.transpose());
        sum += product(gradients.transpose(), gradients.as_ref());
    }
    Ok(Some(sum))
}

/// The roots L of the metrics of successive rounds, from that of `start`: each of the gradients of the fit before it.
fn rounds(sample: &Sample, form: Form, most: usize, start: &Candidate, grid: &Grid) -> Result<Vec<Mat<f64>>> {
    let d = sample.x.ncols();
    let (mut root, mut settings, mut roots) = (Mat::identity(d, d), start.clone(), Vec::new());
    for _ in 0..most {
        let Some(products) = gradient_products(sample, &root, &settings)? else { break };
        let Some(next) = form.root(&products) else { break };
        root = next;
        roots.push(root.clone());
        if roots.len() < most {
            let z = product(sample.x.as_ref(), root.as_ref());
            let Some(best) = grid.around(start, &[1.0]).best(sample, &z)? else { break };
            settings = best;
        }
    }
    Ok(roots)
}

/// The metric that the rows ask for, as its root and form: `None` where none is better than nothing.
///
/// Each half of the rows judges, by leaving out one of its rows after the other, the metrics that were learnt from the other
/// half. The one of least loss is taken if it is better than no metric by more than two standard errors of the
/// difference, and is learnt again from all rows.
pub(super) fn learn(
    sample: &Sample,
    forms: &[Form],
    start: &Candidate,
    grid: &Grid,
    seed: Seed,
) -> Result<Option<(Mat<f64>, Form)>> {
    let n = sample.len();
    if n < 2 * LEAST_ROWS || sample.x.ncols() < 2 || start.kernel.radial().is_none() {
        return Ok(None);
    }
    let order = Permutation::new(seed, Stream::Race, BlockIndex(1), n);
    let order: Vec<usize> = order.indices().iter().map(|&i| i as usize).collect();
    let halves = [&order[..n / 2], &order[n / 2..]];
    let samples = halves.map(|rows| sample.part(rows));
    let [first, second] = [0, 1].map(|h| judged(&samples[h], &samples[1 - h], forms, start, grid));
    let (first, second) = (first?, second?);
    let whole = |key: usize| -> Option<Vec<f64>> {
        let (first, second) = (first[key].as_ref()?, second[key].as_ref()?);
        let mut losses = vec![0.0; n];
        // The first half judges what was learnt from it by the rows of the second.
        halves[1].iter().zip(first).chain(halves[0].iter().zip(second)).for_each(|(&i, l)| losses[i] = *l);
        Some(losses)
    };
    let Some(plain) = whole(0) else { return Ok(None) };
    let mut best: Option<(usize, f64)> = None;
    for key in 1..first.len() {
        let Some(losses) = whole(key) else { continue };
        let gains: Vec<f64> = plain.iter().zip(&losses).map(|(a, b)| a - b).collect();
        let gain = sample.mean_of(gains.iter().copied());
        let error =
            (sample.mean_of(gains.iter().map(|g| (g - gain).powi(2))) / sample.rows_of_equal_weight()).sqrt();
        if gain > ERRORS * error && best.is_none_or(|(_, most)| gain > most) {
            best = Some((key, gain));
        }
    }
    let Some((key, _)) = best else { return Ok(None) };
    let (form, most) = (forms[(key - 1) / ROUNDS], (key - 1) % ROUNDS + 1);
    let roots = rounds(sample, form, most, start, grid)?;
    Ok(roots.into_iter().last().map(|root| (root, form)))
}

/// Losses of the rows of `judge`, each left out: without a metric, then for each form and round those learnt from `learner`.
fn judged(
    learner: &Sample,
    judge: &Sample,
    forms: &[Form],
    start: &Candidate,
    grid: &Grid,
) -> Result<Vec<Option<Vec<f64>>>> {
    let near = grid.around(start, &[1.4, 0.7]);
    let losses = |x: &Mat<f64>| Ok(near.best(judge, x)?.map(|best| best.losses));
    let learnt: Vec<Vec<Option<Vec<f64>>>> = forms
        .par_iter()
        .map(|&form| {
            let roots = rounds(learner, form, ROUNDS, start, grid)?;
            let of = |root: &Mat<f64>| losses(&product(judge.x.as_ref(), root.as_ref()));
            let mut found = roots.iter().map(of).collect::<Result<Vec<_>>>()?;
            found.resize(ROUNDS, None);
            Ok(found)
        })
        .collect::<Result<_>>()?;
    let mut all = vec![losses(&judge.x)?];
    all.extend(learnt.into_iter().flatten());
    Ok(all)
}
