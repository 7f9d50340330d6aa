//! A metric from the gradients of the fitted function (recursive feature machines).

use super::sample::Sample;
use super::search::{kernel_matrix, mapped, Affords, Candidate, Grid};
use crate::compute::{radial_slopes, radial_values, Device};
use crate::error::Result;
use crate::functions::kernel_machine::metric::Form;
use crate::linalg::cholesky::{add_product, add_square};
use crate::linalg::distances::{cross_squares, squared_distances};
use crate::linalg::lu::product;
use crate::linalg::Spare;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use faer::Mat;
use rayon::prelude::*;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Rounds of learning a metric.
const ROUNDS: usize = 3;
/// Standard errors by which a metric has to be better than none: it is the best of a dozen.
const ERRORS: f64 = 2.0;
/// (n, k): of up to n rows, k parts judge metrics in turn; of more, two.
const FOLDS: [(usize, usize); 2] = [(600, 5), (1_200, 3)];
/// Half the least number of rows a metric is learnt from and judged by.
const LEAST_ROWS: usize = 20;
/// Columns of a product that gradients are sums of.
const MOST_TERMS: usize = 4_096;
/// Products of numbers for the gradients at all rows and their squares, beyond which fewer rows have to do.
const PRODUCTS: f64 = 8e9;

/// M = Σ_i w_i ∇f(x_i) ∇f(x_i)ᵀ, summed over the outputs of the ridge regression f with these settings at the points z = Lᵀx
/// of a radial kernel, gradients being those with respect to x, but for a factor.
///
/// With k a function of s = ‖z − z'‖²/σ²: ∇f(x_i) = (2/σ²) L Σ_j k'(s_ij) β_j (z_i − z_j).
pub(super) fn gradient_products(
    sample: &Sample,
    root: &Mat<f64>,
    settings: &Candidate,
    spare: &Spare,
) -> Result<Option<Mat<f64>>> {
    let Some(radial) = settings.kernel.radial() else { return Ok(None) };
    let z = product(sample.x.as_ref(), root.as_ref());
    let (n, d) = (z.nrows(), z.ncols());
    let squares = squared_distances(z.as_ref(), spare);
    let kernel = kernel_matrix(&settings.kernel, settings.bandwidth, &squares, &[], spare)?;
    let Some((factor, beta)) = sample.ridge(kernel, settings.damping) else { return Ok(None) };
    spare.keep(factor.into_inner());
    let unit = radial.unit(settings.bandwidth);
    let slopes = mapped(unit, &squares, spare, |s| radial_slopes(Device::default(), radial, s));
    spare.keep(squares);
    // Σ_j k'(s_ij) β_j (z_i − z_j) of some outputs from one product: columns β_j z_j and β_j for each.
    let mut square = Mat::<f64>::zeros(d, d);
    let some = (MOST_TERMS / (d + 1)).max(1);
    for first in (0..beta.ncols()).step_by(some) {
        let c = some.min(beta.ncols() - first);
        let terms = Mat::from_fn(n, c * (d + 1), |j, k| {
            beta[(j, first + k / (d + 1))] * if k % (d + 1) < d { z[(j, k % (d + 1))] } else { 1.0 }
        });
        let mut sums = Mat::<f64>::zeros(n, c * (d + 1));
        add_product(&mut sums, 1.0, slopes.as_ref(), terms.as_ref());
        for c in 0..c {
            let of = |i: usize, j: usize| sums[(i, c * (d + 1) + j)];
            let gradients =
                Mat::from_fn(d, n, |j, i| sample.weights[i].sqrt() * (of(i, d) * z[(i, j)] - of(i, j)));
            add_square(&mut square, gradients.as_ref());
        }
    }
    spare.keep(slopes);
    let square = Mat::from_fn(d, d, |i, j| square[(i.max(j), i.min(j))]);
    Ok(Some(product(product(root.as_ref(), square.as_ref()).as_ref(), root.transpose())))
}

/// The roots L of the metrics of successive rounds, each of the gradients of the fit before it, and the damping that is best with it.
fn rounds(
    sample: &Sample,
    form: Form,
    most: usize,
    start: &Candidate,
    grid: &Grid,
) -> Result<Vec<(Mat<f64>, Candidate)>> {
    let d = sample.x.ncols();
    let mut found: Vec<(Mat<f64>, Candidate)> = vec![(Mat::identity(d, d), start.clone())];
    for round in 0..most {
        let (root, settings) = &found[round];
        let products = gradient_products(sample, root, settings, &grid.spare)?;
        let Some(root) = products.and_then(|products| form.root(&products)) else { break };
        let z = product(sample.x.as_ref(), root.as_ref());
        let Some(best) = grid.around(start, &[1.0]).best(sample, &z)? else { break };
        found.push((root, best));
    }
    Ok(found.split_off(1))
}

/// A metric, and the settings that are best with it.
pub(super) struct Learnt {
    pub root: Mat<f64>,
    pub form: Form,
    pub settings: Candidate,
}

/// The metric that the rows ask for: `None` where none is better than nothing, or where `affords` says that there is no time for
/// work that takes so long.
///
/// Every part of the rows judges what was learnt from the others, without a metric and with those of each form and round: metric,
/// damping and function. Rows with the same columns are in one part. A form that has done worse than no metric on the parts so far
/// is not looked at on the others. The metric of least loss is taken if it is better than none by more than two standard errors of the
/// difference, and is learnt again from all rows, or as many as gradients are affordable of.
pub(super) fn learn(
    sample: &Sample,
    forms: &[Form],
    start: &Candidate,
    grid: &Grid,
    seed: Seed,
    affords: &mut Affords<'_>,
) -> Result<Option<Learnt>> {
    let rows = sample.alike();
    let possible = sample.x.ncols() > 1 && !forms.is_empty() && start.kernel.radial().is_some();
    if rows.len() < 2 * LEAST_ROWS || !possible {
        return Ok(None);
    }
    let order = Permutation::new(seed, Stream::Race, BlockIndex(1), rows.len());
    let order = within(affordable(sample), &rows, order.indices());
    let dealt = |part: &[u32]| part.iter().flat_map(|&k| rows[k as usize].clone()).collect::<Vec<_>>();
    let mut learners = dealt(order);
    let folds = FOLDS.iter().find(|(most, _)| learners.len() <= *most).map_or(2, |(_, folds)| *folds);
    let mut plain = Losses::default();
    let mut tried: Vec<(Form, Vec<Losses>)> =
        forms.iter().map(|form| (*form, vec![Losses::default(); ROUNDS])).collect();
    let mut took = Duration::ZERO;
    for fold in 0..folds {
        let range = fold * order.len() / folds..(fold + 1) * order.len() / folds;
        let others = [&order[..range.start], &order[range.end..]].concat();
        let (judges, others) = (dealt(&order[range]), dealt(&others));
        let (learner, judge) = (sample.part(&others), sample.part(&judges));
        let begun = Instant::now();
        let own = match grid.around(start, &[1.0]).best(&learner, &learner.x)? {
            Some(best) => predicted(&learner, None, &judge, &best, &grid.spare).map(|p| judge.losses(&p)),
            None => None,
        };
        let Some(own) = own else { return Ok(None) };
        if !affords(took.max(begun.elapsed() * (tried.len() * ROUNDS) as u32))? {
            return Ok(None);
        }
        let begun = Instant::now();
        let found = judged(&learner, &judge, &tried, start, grid)?;
        took = begun.elapsed();
        plain.add(&judges, own);
        for ((_, all), found) in tried.iter_mut().zip(found) {
            all.truncate(found.len());
            all.iter_mut().zip(found).for_each(|(all, losses)| all.add(&judges, losses));
        }
        tried.retain(|(_, all)| all.iter().any(|losses| losses.gain(&plain, sample).0 > 0.0));
        if tried.is_empty() {
            return Ok(None);
        }
    }
    let rounds_of = |(form, all): &(Form, Vec<Losses>)| -> Vec<(Form, usize, (f64, f64))> {
        all.iter().enumerate().map(|(k, losses)| (*form, k + 1, losses.gain(&plain, sample))).collect()
    };
    let better = tried.iter().flat_map(rounds_of).filter(|(_, _, (gain, error))| *gain > ERRORS * error);
    let Some((form, round, _)) = better.reduce(|a, b| if b.2 .0 > a.2 .0 { b } else { a }) else {
        return Ok(None);
    };
    if !affords(took)? {
        return Ok(None);
    }
    learners.sort_unstable();
    let Some((root, mut settings)) = rounds(&sample.part(&learners), form, round, start, grid)?.pop() else {
        return Ok(None);
    };
    if learners.len() < sample.len() {
        let z = product(sample.x.as_ref(), root.as_ref());
        settings = grid.around(start, &[1.0]).best(sample, &z)?.unwrap_or(settings);
    }
    Ok(Some(Learnt { root, form, settings }))
}

/// Rows n of which gradients cost so many products, C n²(d + 1) + C n d².
fn affordable(sample: &Sample) -> usize {
    let (c, d) = (sample.y.ncols() as f64, sample.x.ncols() as f64);
    let (square, linear) = (c * (d + 1.0), c * d * d);
    ((linear.powi(2) + 4.0 * square * PRODUCTS).sqrt() - linear).div_euclid(2.0 * square) as usize
}

/// As many of the runs of rows in this order as have at most so many rows, but the least number of them at least.
fn within<'o>(most: usize, rows: &[Range<usize>], order: &'o [u32]) -> &'o [u32] {
    let mut sum = 0;
    let few = order.iter().take_while(|&&k| {
        sum += rows[k as usize].len();
        sum <= most
    });
    &order[..few.count().max(2 * LEAST_ROWS).min(order.len())]
}

/// Losses of rows by what was learnt without them.
#[derive(Clone, Default)]
struct Losses {
    rows: Vec<usize>,
    losses: Vec<f64>,
}

impl Losses {
    fn add(&mut self, rows: &[usize], losses: Vec<f64>) {
        self.rows.extend(rows);
        self.losses.extend(losses);
    }

    /// The weighted mean of what is gained over the losses of `plain`, and its standard error.
    fn gain(&self, plain: &Self, sample: &Sample) -> (f64, f64) {
        let part = sample.part(&self.rows);
        let gains: Vec<f64> = plain.losses.iter().zip(&self.losses).map(|(a, b)| a - b).collect();
        let gain = part.mean_of(gains.iter().copied());
        let square = part.mean_of(gains.iter().map(|g| (g - gain).powi(2)));
        (gain, (square / part.rows_of_equal_weight()).sqrt())
    }
}

/// Losses of the rows of `judge` by what is learnt from `learner` with the metrics of each form and round.
fn judged(
    learner: &Sample,
    judge: &Sample,
    forms: &[(Form, Vec<Losses>)],
    start: &Candidate,
    grid: &Grid,
) -> Result<Vec<Vec<Vec<f64>>>> {
    let of = |(form, rounds_left): &(Form, Vec<Losses>)| -> Result<Vec<Vec<f64>>> {
        let found = rounds(learner, *form, rounds_left.len(), start, grid)?;
        let losses = found.iter().map_while(|(root, settings)| {
            predicted(learner, Some(root), judge, settings, &grid.spare)
                .map(|predictions| judge.losses(&predictions))
        });
        Ok(losses.collect())
    };
    forms.par_iter().map(of).collect()
}

/// Kernel ridge regression on the rows of `learner`, in a metric, at those of `judge`; `None` where it has no solution.
fn predicted(
    learner: &Sample,
    root: Option<&Mat<f64>>,
    judge: &Sample,
    settings: &Candidate,
    spare: &Spare,
) -> Option<Mat<f64>> {
    let radial = settings.kernel.radial()?;
    let values = |x: &Mat<f64>, a: &Mat<f64>| {
        let squares = cross_squares(x.as_ref(), a.as_ref(), spare);
        let values = mapped(radial.unit(settings.bandwidth), &squares, spare, |s| {
            radial_values(Device::default(), radial, s)
        });
        spare.keep(squares);
        values
    };
    let seen = |x: &Mat<f64>| root.map_or_else(|| x.clone(), |root| product(x.as_ref(), root.as_ref()));
    let (own, other) = (seen(&learner.x), seen(&judge.x));
    let (factor, beta) = learner.ridge(values(&own, &own), settings.damping)?;
    spare.keep(factor.into_inner());
    let mut out = Mat::zeros(other.nrows(), beta.ncols());
    let cross = values(&other, &own);
    add_product(&mut out, 1.0, cross.as_ref(), beta.as_ref());
    spare.keep(cross);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KernelSpec;

    fn sample(outputs: usize) -> Sample {
        let n = 12;
        let x = Mat::from_fn(n, 2, |i, j| ((i * 5 + j * 7) % 12) as f64 / 4.0 - 1.0 + 0.1 * (j * i) as f64);
        let y = Mat::from_fn(n, outputs, |i, c| ((1.0 + c as f64) * x[(i, 0)]).sin() + x[(i, 1)]);
        let weights = (0..n).map(|i| 0.5 + (i % 3) as f64).collect();
        Sample { x, y, weights, shares: vec![1.0; n], labels: Vec::new(), mean: vec![0.0; outputs] }
    }

    fn settings(kernel: KernelSpec) -> Candidate {
        Candidate { kernel, bandwidth: 1.3, factor: 1.0, damping: 0.01, losses: Vec::new(), risk: 0.0 }
    }

    /// Differences of the function itself, in a metric that is not the identity.
    #[test]
    fn gradients_are_those_of_the_function() {
        let all = sample(2);
        let root = Mat::from_fn(2, 2, |i, j| [[1.2, 0.3], [-0.4, 0.8]][i][j]);
        let scaled = |m: &Mat<f64>| m / (m[(0, 0)] + m[(1, 1)]);
        for kernel in [KernelSpec::Gaussian, KernelSpec::Matern(1.5)] {
            let settings = settings(kernel);
            let at = |step: [f64; 2]| {
                let x = Mat::from_fn(all.len(), 2, |i, j| all.x[(i, j)] + step[j]);
                let moved = Sample { x, ..all.clone() };
                predicted(&all, Some(&root), &moved, &settings, &Spare::default()).unwrap()
            };
            let h = 1e-5;
            let slopes = [[h, 0.0], [0.0, h]].map(|s| (at(s) - at(s.map(|v| -v))) / (2.0 * h));
            let brute = Mat::from_fn(2, 2, |a, b| {
                let at = |i: usize| (0..2).map(|c| slopes[a][(i, c)] * slopes[b][(i, c)]).sum::<f64>();
                (0..all.len()).map(|i| all.weights[i] * at(i)).sum()
            });
            let found = gradient_products(&all, &root, &settings, &Spare::default()).unwrap().unwrap();
            let gap = (scaled(&found) - scaled(&brute)).norm_max();
            assert!(gap < 1e-6, "{gap}");
        }
    }

    /// Runs of rows are taken whole, as many as their rows allow.
    #[test]
    fn runs_are_counted_by_their_rows() {
        let runs: Vec<Range<usize>> = (0..60).map(|k| 3 * k..3 * k + 3).collect();
        let order: Vec<u32> = (0..60).rev().collect();
        assert_eq!(within(160, &runs, &order), &order[..53]);
        assert_eq!(within(10, &runs, &order).len(), 2 * LEAST_ROWS);
        assert_eq!(within(1_000, &runs, &order).len(), 60);
        let all = sample(2);
        let n = affordable(&all) as f64;
        let cost = |n: f64| 2.0 * (n * n * 3.0 + n * 4.0);
        assert!(cost(n) <= PRODUCTS && cost(n + 1.0) > PRODUCTS);
    }

    /// More outputs than one product of matrices takes are summed like few.
    #[test]
    fn many_outputs_are_the_sum_of_their_parts() {
        let settings = settings(KernelSpec::Gaussian);
        let all = sample(MOST_TERMS / 3 + 40);
        let root = Mat::identity(2, 2);
        let of = |first: usize, last: usize| {
            let y = Mat::from_fn(all.len(), last - first, |i, c| all.y[(i, first + c)]);
            gradient_products(&Sample { y, ..all.clone() }, &root, &settings, &Spare::default())
                .unwrap()
                .unwrap()
        };
        let (whole, c) = (of(0, all.y.ncols()), all.y.ncols());
        let gap = (&whole - of(0, c / 2) - of(c / 2, c)).norm_max();
        assert!(gap < 1e-10 * whole.norm_max(), "{gap}");
    }
}
