//! Kernel, bandwidth and damping by leave-one-out.

use super::sample::{left_out_at, LeaveOneOut, Sample};
use crate::compute::{radial_values, Device, Radial};
use crate::data::Rows;
use crate::error::Result;
use crate::functions::geometry::median_distance;
use crate::kernel::{ClosedForm, KernelSpec, Scaling};
use crate::linalg::distances::{cross_sums, squared_distances};
use crate::linalg::Spare;
use crate::random::Seed;
use faer::Mat;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows up to which one eigendecomposition for all dampings is cheaper than a factor for each of some of them.
const FEW_ROWS: usize = 256;

/// Factors of the bandwidth by which wider and narrower ones are looked for, and how often at most.
const NEAR: [f64; 2] = [1.4, 0.7];
const MOST_NEAR: usize = 3;

/// Whether there is time for work that takes so long.
pub(super) type Affords<'a> = dyn FnMut(Duration) -> Result<bool> + 'a;

/// Settings of kernel ridge regression and what leaving rows out says of them.
#[derive(Clone)]
pub(super) struct Candidate {
    pub kernel: KernelSpec,
    pub bandwidth: f64,
    /// The bandwidth in median distances.
    pub factor: f64,
    /// λ.
    pub damping: f64,
    /// Of each row, left out.
    pub losses: Vec<f64>,
    /// Their weighted mean.
    pub risk: f64,
}

/// The settings that are compared: all combinations.
#[derive(Clone)]
pub(super) struct Grid {
    pub kernels: Vec<KernelSpec>,
    /// Bandwidths in median distances.
    pub factors: Vec<f64>,
    /// The bandwidth, where it is decided.
    pub bandwidth: Option<f64>,
    pub dampings: Vec<f64>,
    /// Where the damping of many rows is looked for first: all are compared of few rows alone.
    pub damping: f64,
    /// Memory that all searches share.
    pub spare: Arc<Spare>,
}

impl Grid {
    /// The same kernel at bandwidths around a candidate's.
    pub(super) fn around(&self, candidate: &Candidate, factors: &[f64]) -> Self {
        let factors = factors.iter().map(|f| f * candidate.factor).collect();
        let (kernels, damping) = (vec![candidate.kernel.clone()], candidate.damping);
        Self { kernels, factors, damping, ..self.clone() }
    }

    /// The candidate of least risk for the rows of `sample` at the points `x`; the first of equals.
    pub(super) fn best(&self, sample: &Sample, x: &Mat<f64>) -> Result<Option<Candidate>> {
        let (n, d) = (x.nrows(), x.ncols());
        let points: Vec<f32> = (0..n * d).map(|i| x[(i / d, i % d)] as f32).collect();
        let weights: Vec<f32> = sample.weights.iter().map(|&w| w as f32).collect();
        // Of each kind of kernel the distances that it is a function of; others look at the points.
        let absolute = |kernel: &KernelSpec| kernel.of_distance().is_some_and(Radial::is_absolute);
        let some = |of: bool| self.kernels.iter().any(|kernel| absolute(kernel) == of);
        let squares = some(false).then(|| squared_distances(x.as_ref(), &self.spare));
        let sums = some(true).then(|| cross_sums(x, x, &self.spare));
        let rows = Rows::single(&points, d)?;
        let mut settings = Vec::new();
        for kernel in &self.kernels {
            let median = median_distance(rows, &weights, &Scaling::identity(d), kernel, Seed(0));
            let bandwidths = match (kernel.has_bandwidth(), self.bandwidth) {
                (false, _) => vec![(1.0, 1.0)],
                (true, Some(bandwidth)) => vec![(bandwidth, bandwidth / median)],
                (true, None) => self.factors.iter().map(|&f| (f * median, f)).collect(),
            };
            settings.extend(bandwidths.into_iter().map(|(bandwidth, factor)| (kernel, bandwidth, factor)));
        }
        let at = |(kernel, bandwidth, factor): (&KernelSpec, f64, f64)| {
            let Some(distances) = (if absolute(kernel) { &sums } else { &squares }) else { return Ok(None) };
            let k = kernel_matrix(kernel, bandwidth, distances, &points, &self.spare)?;
            let best = match n <= FEW_ROWS {
                true => LeaveOneOut::new(k, sample).and_then(|path| self.damped(&path, sample)),
                false => {
                    let best = self.nearby(&k, sample);
                    self.spare.keep(k);
                    best
                }
            };
            let kernel = kernel.clone();
            Ok(best.map(|(damping, losses, risk)| Candidate {
                kernel,
                bandwidth,
                factor,
                damping,
                losses,
                risk,
            }))
        };
        // Of many rows one after the other: each has matrices of its own.
        let tried: Vec<Option<Candidate>> = match n <= FEW_ROWS {
            true => settings.into_par_iter().map(at).collect::<Result<_>>()?,
            false => settings.into_iter().map(at).collect::<Result<_>>()?,
        };
        [squares, sums].into_iter().flatten().for_each(|distances| self.spare.keep(distances));
        Ok(tried.into_iter().flatten().reduce(|best, next| if next.risk < best.risk { next } else { best }))
    }

    /// The best of `best` and the other kernels, each at the bandwidth that is to this one's as those of `starts`, one for each kernel,
    /// are to each other; as many of them as `affords` says that there is time for.
    pub(super) fn nearby_kernel(
        &self,
        sample: &Sample,
        x: &Mat<f64>,
        mut best: Candidate,
        starts: &[Candidate],
        affords: &mut Affords<'_>,
    ) -> Result<Candidate> {
        let Some(own) = starts.iter().find(|start| start.kernel == best.kernel) else { return Ok(best) };
        let from = best.clone();
        let mut took = Duration::ZERO;
        for start in starts.iter().filter(|start| start.kernel != own.kernel) {
            if !affords(took)? {
                break;
            }
            let begun = Instant::now();
            let other = Candidate { kernel: start.kernel.clone(), ..from.clone() };
            let next = self.around(&other, &[start.factor / own.factor]).best(sample, x)?;
            took = begun.elapsed();
            best = next.filter(|next| next.risk < best.risk).unwrap_or(best);
        }
        Ok(best)
    }

    /// From the best settings at one bandwidth to those at the next wider or narrower ones, whichever is better, and on in that
    /// direction while the risk falls and `affords` says that there is time for as much work again.
    pub(super) fn nearby_bandwidth(
        &self,
        sample: &Sample,
        x: &Mat<f64>,
        start: Candidate,
        affords: &mut Affords<'_>,
    ) -> Result<Candidate> {
        if self.bandwidth.is_some() || !start.kernel.has_bandwidth() {
            return Ok(start);
        }
        let mut took = Duration::ZERO;
        let mut next_to = |from: &Candidate, factor: f64| -> Result<Option<Candidate>> {
            if !affords(took)? {
                return Ok(None);
            }
            let begun = Instant::now();
            let next = self.around(from, &[factor]).best(sample, x)?;
            took = begun.elapsed();
            Ok(next.filter(|next| next.risk < from.risk))
        };
        let (mut best, mut onwards) = (start.clone(), None);
        for factor in NEAR {
            if let Some(next) = next_to(&start, factor)?.filter(|next| next.risk < best.risk) {
                (best, onwards) = (next, Some(factor));
            }
        }
        if let Some(factor) = onwards {
            for _ in 1..MOST_NEAR {
                match next_to(&best, factor)? {
                    Some(next) => best = next,
                    None => break,
                }
            }
        }
        Ok(best)
    }

    /// The best damping, the losses and the risk there.
    fn damped(&self, path: &LeaveOneOut<'_>, sample: &Sample) -> Option<Damped> {
        let tried =
            self.dampings.iter().filter_map(|&damping| judged(sample, damping, &path.left_out(damping)?));
        tried.reduce(|best, next| if next.2 < best.2 { next } else { best })
    }

    /// The same where each damping costs a factorisation: from the first one to the next and the next, down or else up, while the risk falls.
    fn nearby(&self, kernel: &Mat<f64>, sample: &Sample) -> Option<Damped> {
        let at = |i: usize| {
            let damping = *self.dampings.get(i)?;
            judged(sample, damping, &left_out_at(kernel, sample, damping, &self.spare)?)
        };
        let start = self.dampings.partition_point(|&d| d < 0.99 * self.damping).min(self.dampings.len() - 1);
        let mut best = at(start);
        let lower = |best: &Option<Damped>, next: &Option<Damped>| {
            next.as_ref().is_some_and(|next| best.as_ref().is_none_or(|best| next.2 < best.2))
        };
        for down in [true, false] {
            let (mut i, mut moved) = (start, false);
            while let Some(next) = if down { i.checked_sub(1) } else { Some(i + 1) } {
                let found = at(next);
                // What is not known at one damping may be at a larger one.
                let unknown = best.is_none() && !down && next < self.dampings.len();
                if !unknown && !lower(&best, &found) {
                    break;
                }
                (best, i, moved) = (found, next, true);
            }
            if moved {
                break;
            }
        }
        best
    }
}

/// A damping, the losses of rows left out at it, and the risk.
type Damped = (f64, Vec<f64>, f64);

/// What predictions for rows left out cost; `None` where the risk is not finite.
fn judged(sample: &Sample, damping: f64, left_out: &Mat<f64>) -> Option<Damped> {
    let losses = sample.losses(left_out);
    let risk = sample.mean_of(losses.iter().copied());
    risk.is_finite().then_some((damping, losses, risk))
}

/// K, or its lower triangle: from the distances that the kernel is a function of where it is one, else from row-major points.
pub(super) fn kernel_matrix(
    kernel: &KernelSpec,
    bandwidth: f64,
    distances: &Mat<f64>,
    points: &[f32],
    spare: &Spare,
) -> Result<Mat<f64>> {
    let n = distances.nrows();
    if let Some(radial) = kernel.of_distance() {
        let map = |s: &mut [f64]| radial_values(Device::default(), radial, s);
        return Ok(mapped(radial.unit(bandwidth), distances, spare, map));
    }
    let kernel = ClosedForm::new(kernel.clone(), bandwidth, Scaling::identity(points.len() / n.max(1)))?;
    let mut inputs = Vec::with_capacity(points.len());
    kernel.input(points, &mut inputs);
    gram(&kernel, &inputs)
}

/// What `map` makes of `unit` times the distances, column by column.
pub(super) fn mapped(
    unit: f64,
    distances: &Mat<f64>,
    spare: &Spare,
    map: impl Fn(&mut [f64]) + Sync,
) -> Mat<f64> {
    let mut values = spare.take(distances.nrows(), distances.ncols());
    values.par_col_iter_mut().enumerate().for_each(|(j, column)| {
        if let Some(column) = column.try_as_col_major_mut() {
            let column = column.as_slice_mut();
            column.iter_mut().zip(distances.col_as_slice(j)).for_each(|(v, s)| *v = unit * s);
            map(column);
        }
    });
    values
}

/// The lower triangle of K at points in the units of the kernel.
pub(super) fn gram(kernel: &ClosedForm, inputs: &[f32]) -> Result<Mat<f64>> {
    let d = kernel.columns();
    let n = inputs.len() / d;
    let mut k = Mat::<f64>::zeros(n, n);
    k.par_col_iter_mut().enumerate().try_for_each(|(j, column)| {
        let below = &inputs[j * d..];
        match column.try_as_col_major_mut() {
            Some(column) => kernel.values(&below[..d], below, &mut column.as_slice_mut()[j..]),
            None => Ok(()),
        }
    })?;
    Ok(k)
}
