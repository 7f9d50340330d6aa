//! A metric from the gradients of the fitted function (recursive feature machines).

use super::sample::Sample;
use super::search::{kernel_matrix, mapped, Candidate, Grid};
use crate::compute::{radial_slopes, radial_values, Device};
use crate::error::Result;
use crate::functions::kernel_machine::metric::Form;
use crate::linalg::cholesky::{add_product, solve_in_place};
use crate::linalg::distances::{cross_squares, squared_distances};
use crate::linalg::lu::product;
use crate::linalg::Cholesky;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use faer::Mat;
use rayon::prelude::*;

/// Rounds of learning a metric.
const ROUNDS: usize = 3;
/// Standard errors by which a metric has to be better than none: it is the best of a dozen.
const ERRORS: f64 = 2.0;
/// Parts of at most so many rows that judge metrics in turn; two of more rows.
const FOLDS: [(usize, usize); 2] = [(600, 5), (1_200, 3)];
/// Half the least number of rows a metric is learnt from and judged by.
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
    let kernel = kernel_matrix(&settings.kernel, settings.bandwidth, &squares, &[])?;
    let Some(beta) = ridge(sample, kernel, settings.damping) else { return Ok(None) };
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
/// Every part of the rows judges what was learnt from the others, without a metric and with those of each form and round: metric, bandwidth,
/// damping and function. The metric of least loss is taken if it is better than none by more than two standard errors of the
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
    let folds = FOLDS.iter().find(|(most, _)| n <= *most).map_or(2, |(_, folds)| *folds);
    let mut losses = vec![Some(vec![0.0; n]); 1 + forms.len() * ROUNDS];
    for fold in 0..folds {
        let range = fold * n / folds..(fold + 1) * n / folds;
        let judges = &order[range.clone()];
        let learners: Vec<usize> = [&order[..range.start], &order[range.end..]].concat();
        let found = judged(&sample.part(&learners), &sample.part(judges), forms, start, grid)?;
        for (all, found) in losses.iter_mut().zip(found) {
            *all = all.take().zip(found).map(|(mut all, found)| {
                judges.iter().zip(found).for_each(|(&i, loss)| all[i] = loss);
                all
            });
        }
    }
    let Some(plain) = losses[0].as_ref() else { return Ok(None) };
    let mut best: Option<(usize, f64)> = None;
    for (key, losses) in losses.iter().enumerate().skip(1) {
        let Some(losses) = losses else { continue };
        let gains: Vec<f64> = plain.iter().zip(losses).map(|(a, b)| a - b).collect();
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

/// Losses of the rows of `judge` by what is learnt from `learner`: without a metric, then for each form and round.
fn judged(
    learner: &Sample,
    judge: &Sample,
    forms: &[Form],
    start: &Candidate,
    grid: &Grid,
) -> Result<Vec<Option<Vec<f64>>>> {
    let near = grid.around(start, &[1.4, 0.7]);
    let losses = |root: Option<&Mat<f64>>| -> Result<Option<Vec<f64>>> {
        let seen = |x: &Mat<f64>| root.map_or_else(|| x.clone(), |root| product(x.as_ref(), root.as_ref()));
        let (own, other) = (seen(&learner.x), seen(&judge.x));
        let Some(best) = near.best(learner, &own)? else { return Ok(None) };
        Ok(predicted(learner, &own, &other, &best).map(|predictions| judge.losses(&predictions)))
    };
    let learnt: Vec<Vec<Option<Vec<f64>>>> = forms
        .par_iter()
        .map(|&form| {
            let roots = rounds(learner, form, ROUNDS, start, grid)?;
            let mut found = roots.iter().map(|root| losses(Some(root))).collect::<Result<Vec<_>>>()?;
            found.resize(ROUNDS, None);
            Ok(found)
        })
        .collect::<Result<_>>()?;
    let mut all = vec![losses(None)?];
    all.extend(learnt.into_iter().flatten());
    Ok(all)
}

/// Kernel ridge regression on rows at the points `own`, at other points; `None` where it has no solution.
fn predicted(sample: &Sample, own: &Mat<f64>, other: &Mat<f64>, settings: &Candidate) -> Option<Mat<f64>> {
    let radial = settings.kernel.radial()?;
    let values = |squares: Mat<f64>| {
        mapped(settings.bandwidth, squares, |s| radial_values(Device::default(), radial, s))
    };
    let beta = ridge(sample, values(squared_distances(own.as_ref())), settings.damping)?;
    let mut out = Mat::zeros(other.nrows(), beta.ncols());
    add_product(&mut out, 1.0, values(cross_squares(other.as_ref(), own.as_ref())).as_ref(), beta.as_ref());
    Some(out)
}

/// (K + λW⁻¹)⁻¹ y.
fn ridge(sample: &Sample, mut kernel: Mat<f64>, damping: f64) -> Option<Mat<f64>> {
    sample.weights.iter().enumerate().for_each(|(i, w)| kernel[(i, i)] += damping / w);
    let factor = Cholesky::new(kernel)?;
    let mut beta = sample.y.clone();
    solve_in_place(factor.lower(), beta.as_mut());
    Some(beta)
}
