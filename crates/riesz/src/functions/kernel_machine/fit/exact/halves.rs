//! Kernel, metric, bandwidth and damping of more rows than leaving out one by one can pay for: half of some thousand rows learns,
//! the other half judges.

use super::gradients::gradient_products;
use super::sample::Sample;
use super::search::{mapped, Candidate, Grid};
use crate::compute::{radial_values, Device};
use crate::error::Result;
use crate::functions::kernel_machine::metric::Form;
use crate::kernel::KernelSpec;
use crate::linalg::cholesky::add_product;
use crate::linalg::distances::{cross_squares, cross_sums};
use crate::linalg::lu::product;
use crate::linalg::Spare;
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use faer::Mat;

/// Least and most rows of a half, a quarter of all in between: choosing is not to take much longer than fitting.
const HALF: (usize, usize) = (1_024, 2_048);
/// Numbers of a row's gradients, beyond which halves have the least rows: they would cost more than all else.
const WIDE: usize = 512;
/// Rows of a half that decides about kernels, and which form of a metric is looked at further.
const SCOUTS: usize = 1_024;
/// Most rows that the metric which has won is learnt from again.
pub(super) const LEARN: usize = 4_096;
/// Matrices of doubles over the rows of a half, and over those of [`LEARN`], that are there at a time.
const HALF_MATRICES: f64 = 5.0;
const LEARN_MATRICES: f64 = 3.0;
/// Rounds of learning a metric.
const ROUNDS: usize = 3;
/// Standard errors by which a metric has to be better than none.
const ERRORS: f64 = 2.0;
/// Rows whose distances give their median.
const MEDIAN_ROWS: usize = 512;
/// Step of the damping, and how often it is taken.
const DAMPING: (f64, usize) = (10.0, 3);
/// Largest bandwidth, in median distances.
const WIDEST: f64 = 8.0;
/// Least and largest damping: with less, coefficients are so large that kernels in single precision round them into the values.
pub(super) const DAMPINGS: (f64, f64) = (1e-4, 10.0);

/// Rows that learn, and rows that judge what was learnt.
pub(super) struct Halves {
    learner: Sample,
    judge: Sample,
}

/// The roots of successive metrics, and the best settings with each.
type Rounds = Vec<(Mat<f64>, Candidate)>;

/// Distances among the rows that learn, and of those that judge from them: squared, or sums of absolute differences.
pub(super) struct Distances {
    own: Mat<f64>,
    cross: Mat<f64>,
    median: f64,
}

impl Distances {
    /// Keeps the memory.
    fn keep(self, spare: &Spare) {
        spare.keep(self.own);
        spare.keep(self.cross);
    }
}

impl Halves {
    /// The first `most` rows of each half of an order.
    pub(super) fn of(sample: &Sample, order: &[usize], most: usize) -> Self {
        let (first, second) = order.split_at(order.len() / 2);
        let [learner, judge] = [first, second].map(|half| sample.part(&half[..half.len().min(most)]));
        Self { learner, judge }
    }

    /// Squares, of the rows as they are or mapped by a root.
    pub(super) fn distances(&self, root: Option<&Mat<f64>>, spare: &Spare) -> Distances {
        let of = |x: &Mat<f64>, a: &Mat<f64>| cross_squares(x.as_ref(), a.as_ref(), spare);
        let mut found = self.distances_by(root, of);
        found.median = found.median.sqrt();
        found
    }

    /// The same of sums of absolute differences.
    fn sums(&self, root: Option<&Mat<f64>>, spare: &Spare) -> Distances {
        self.distances_by(root, |x, a| cross_sums(x, a, spare))
    }

    fn distances_by(
        &self,
        root: Option<&Mat<f64>>,
        of: impl Fn(&Mat<f64>, &Mat<f64>) -> Mat<f64>,
    ) -> Distances {
        let seen = |x: &Mat<f64>| root.map_or_else(|| x.clone(), |root| product(x.as_ref(), root.as_ref()));
        let (learner, judge) = (seen(&self.learner.x), seen(&self.judge.x));
        let own = of(&learner, &learner);
        let few = own.nrows().min(MEDIAN_ROWS);
        let mut pairs: Vec<f64> =
            (0..few).flat_map(|j| (j + 1..few).map(move |i| (i, j))).map(|at| own[at]).collect();
        let middle = pairs.len() / 2;
        let median = match pairs.is_empty() {
            true => 1.0,
            false => *pairs.select_nth_unstable_by(middle, f64::total_cmp).1,
        };
        let median = if median > 0.0 { median } else { 1.0 };
        Distances { cross: of(&judge, &learner), own, median }
    }

    /// What the judges say of kernel ridge regression with these settings.
    pub(super) fn judged(
        &self,
        seen: &Distances,
        grid: &Grid,
        at: (&KernelSpec, f64, f64),
    ) -> Option<Candidate> {
        let (kernel, factor, damping) = at;
        let bandwidth = grid.bandwidth.unwrap_or(factor * seen.median);
        let radial = kernel.of_distance()?;
        let values = |distances: &Mat<f64>| {
            let map = |s: &mut [f64]| radial_values(Device::default(), radial, s);
            mapped(radial.unit(bandwidth), distances, &grid.spare, map)
        };
        let (system, beta) = self.learner.ridge(values(&seen.own), damping)?;
        grid.spare.keep(system.into_inner());
        let mut predictions = Mat::zeros(self.judge.len(), beta.ncols());
        let cross = values(&seen.cross);
        add_product(&mut predictions, 1.0, cross.as_ref(), beta.as_ref());
        grid.spare.keep(cross);
        let losses = self.judge.losses(&predictions);
        let risk = self.judge.mean_of(losses.iter().copied());
        let kernel = kernel.clone();
        risk.is_finite().then_some(Candidate { kernel, bandwidth, factor, damping, losses, risk })
    }

    /// Replaces `best` by these settings where they do better, and says whether they do.
    fn better(
        &self,
        seen: &Distances,
        grid: &Grid,
        best: &mut Candidate,
        at: (&KernelSpec, f64, f64),
    ) -> bool {
        match self.judged(seen, grid, at) {
            Some(next) if next.risk < best.risk => {
                *best = next;
                true
            }
            _ => false,
        }
    }

    /// The best damping near that of `start`.
    fn damped(&self, seen: &Distances, start: &Candidate, grid: &Grid) -> Option<Candidate> {
        if let [damping] = grid.dampings[..] {
            return self.judged(seen, grid, (&start.kernel, start.factor, damping));
        }
        let (kernel, factor) = (&start.kernel, start.factor);
        let first = start.damping.clamp(DAMPINGS.0, DAMPINGS.1);
        let mut best = self.judged(seen, grid, (kernel, factor, first))?;
        for step in [1.0 / DAMPING.0, DAMPING.0] {
            for tried in 0..DAMPING.1 {
                let next = best.damping * step;
                let possible = next > 0.5 * DAMPINGS.0 && next < 2.0 * DAMPINGS.1;
                if !possible || !self.better(seen, grid, &mut best, (kernel, factor, next)) {
                    if tried > 0 {
                        return Some(best);
                    }
                    break;
                }
            }
        }
        Some(best)
    }

    /// The best settings near those of `start`: damping, bandwidth and kernel are changed one after the other. Another kernel has
    /// the bandwidth that is to this one's as those of `starts`, one for each kernel, are to each other.
    fn refined(
        &self,
        seen: &Distances,
        start: &Candidate,
        starts: &[Candidate],
        grid: &Grid,
    ) -> Option<Candidate> {
        let mut best = self.damped(seen, start, grid)?;
        if grid.bandwidth.is_none() {
            for step in [0.5, 2.0] {
                let (kernel, factor, damping) = (best.kernel.clone(), best.factor * step, best.damping);
                if factor <= WIDEST && self.better(seen, grid, &mut best, (&kernel, factor, damping)) {
                    break;
                }
            }
        }
        let own = starts.iter().find(|other| other.kernel == start.kernel);
        for other in starts.iter().filter(|other| other.kernel != start.kernel) {
            let ratio = own.map_or(1.0, |own| other.factor / own.factor);
            let (factor, damping) = ((best.factor * ratio).min(WIDEST), best.damping);
            self.better(seen, grid, &mut best, (&other.kernel, factor, damping));
        }
        Some(best)
    }

    /// The best settings of the Laplacian kernel near those of `start`, on columns as they are or weighted.
    fn absolute(&self, root: Option<&Mat<f64>>, start: &Candidate, grid: &Grid) -> Option<Candidate> {
        let seen = self.sums(root, &grid.spare);
        let found = self.refined(&seen, start, &[], grid);
        seen.keep(&grid.spare);
        found
    }

    /// The roots of successive metrics of one form, each from the gradients of the fit before it, and the best settings with each:
    /// all of them with the first metric, the damping with those that follow and differ less.
    fn rounds(
        &self,
        form: Form,
        start: &Candidate,
        (starts, grid): (&[Candidate], &Grid),
        may_go_on: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Rounds> {
        let d = self.learner.x.ncols();
        let (mut root, mut settings, mut found) = (Mat::identity(d, d), start.clone(), Vec::new());
        for round in 0..ROUNDS {
            if !may_go_on()? {
                break;
            }
            let Some(products) = gradient_products(&self.learner, &root, &settings, &grid.spare)? else {
                break;
            };
            let Some(next) = form.root(&products) else { break };
            root = next;
            let seen = self.distances(Some(&root), &grid.spare);
            let best = match round {
                0 => self.refined(&seen, &settings, starts, grid),
                _ => self.damped(&seen, &settings, grid),
            };
            seen.keep(&grid.spare);
            let Some(best) = best else { break };
            settings = best;
            found.push((root.clone(), settings.clone()));
        }
        Ok(found)
    }
}

/// What the halves have found.
pub(super) struct Found {
    /// The best settings without a metric.
    pub plain: Candidate,
    /// The root and form of a metric that is better than none by more than two standard errors, and the settings that go with it.
    pub metric: Option<(Mat<f64>, Form, Candidate)>,
    /// The best settings of the Laplacian kernel, and the weights of the columns that go with it where they are learnt.
    pub absolute: Option<(Option<Mat<f64>>, Candidate)>,
}

/// How many rows are looked at.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Of each half.
    half: usize,
    /// From which the metric that has won is learnt again, at most.
    learn: usize,
}

impl Size {
    /// Of n rows whose gradients have so many numbers each.
    pub(super) fn of(n: usize, numbers: usize) -> Self {
        let most = if numbers > WIDE { HALF.0 } else { HALF.1 };
        Self { half: (n / 4).clamp(HALF.0, most), learn: LEARN }
    }

    /// As many of these as matrices of so many bytes in all allow; `None` where these are too few.
    pub(super) fn within(self, bytes: f64) -> Option<Self> {
        let side = |matrices: f64| (bytes.max(0.0) / (8.0 * matrices)).sqrt() as usize;
        let size =
            Self { half: self.half.min(side(HALF_MATRICES)), learn: self.learn.min(side(LEARN_MATRICES)) };
        (size.half >= HALF.0).then_some(size)
    }

    pub(super) fn rows(self) -> usize {
        2 * self.half
    }
}

/// Settings without and with a metric, as the halves of a sample judge them; `starts` are the best of each kernel on fewer rows,
/// and not none.
///
/// Kernels and forms compete on fewer rows first. The metric that wins is learnt again from both halves. What has been found so far is what
/// there is where `may_go_on` says no.
pub(super) fn learn(
    sample: &Sample,
    forms: &[Form],
    (starts, absolute): (&[Candidate], Option<&Candidate>),
    grid: &Grid,
    (size, seed): (Size, Seed),
    may_go_on: &mut dyn FnMut() -> Result<bool>,
) -> Result<Option<Found>> {
    let order = Permutation::new(seed, Stream::Race, BlockIndex(1), sample.len());
    let order: Vec<usize> = order.indices().iter().map(|&i| i as usize).collect();
    let scouts = Halves::of(sample, &order, SCOUTS);
    let seen = scouts.distances(None, &grid.spare);
    // Each kernel by itself, the most promising one first: what is better on few rows need not be on many.
    let mut kernels: Vec<&Candidate> = starts.iter().collect();
    kernels.sort_by(|a, b| a.risk.total_cmp(&b.risk));
    let mut starts = Vec::new();
    for start in kernels {
        if starts.is_empty() || may_go_on()? {
            starts.extend(scouts.refined(&seen, start, &[], grid));
        }
    }
    let Some(start) = least(&starts) else { return Ok(None) };
    if !may_go_on()? {
        return Ok(Some(Found { plain: start.clone(), metric: None, absolute: None }));
    }
    let halves = Halves::of(sample, &order, order.len());
    let seen = halves.distances(None, &grid.spare);
    let Some(plain) = halves.refined(&seen, start, &starts, grid) else { return Ok(None) };
    seen.keep(&grid.spare);
    let mut absolute = match absolute {
        Some(start) if may_go_on()? => halves.absolute(None, start, grid).map(|found| (None, found)),
        _ => None,
    };
    if sample.x.ncols() < 2 || forms.is_empty() {
        return Ok(Some(Found { plain, metric: None, absolute }));
    }
    let mut forms = forms.to_vec();
    if forms.len() > 1 && halves.judge.len() > scouts.judge.len() {
        let mut best: Option<(f64, Form)> = None;
        for &form in &forms {
            let found = scouts.rounds(form, &plain, (&starts, grid), may_go_on)?;
            let risk = found.iter().map(|(_, found)| found.risk).fold(f64::INFINITY, f64::min);
            if best.is_none_or(|(least, _)| risk < least) {
                best = Some((risk, form));
            }
        }
        forms = best.into_iter().map(|(_, form)| form).collect();
    }
    let n = halves.judge.rows_of_equal_weight();
    let mut best: Option<(Form, usize, Rounds)> = None;
    let mut lowest = plain.risk;
    for form in forms {
        let found = halves.rounds(form, &plain, (&starts, grid), may_go_on)?;
        for (round, (_, settings)) in found.iter().enumerate() {
            let gains: Vec<f64> = plain.losses.iter().zip(&settings.losses).map(|(a, b)| a - b).collect();
            let gain = halves.judge.mean_of(gains.iter().copied());
            let error = (halves.judge.mean_of(gains.iter().map(|g| (g - gain).powi(2))) / n).sqrt();
            if gain > ERRORS * error && settings.risk < lowest {
                lowest = settings.risk;
                best = Some((form, round, found.clone()));
            }
        }
    }
    let Some((form, round, mut found)) = best else {
        return Ok(Some(Found { plain, metric: None, absolute }));
    };
    // Weights of columns alone: sums of absolute differences along other directions than the columns mean little.
    let mut weighted = None;
    if let Some((_, start)) = &absolute {
        if may_go_on()? {
            let columns = columns_of(&found[round].0);
            weighted = halves.absolute(Some(&columns), start, grid).filter(|found| found.risk < start.risk);
        }
    }
    drop(halves);
    if may_go_on()? {
        let both = sample.part(&order[..order.len().min(size.learn)]);
        match again(&both, form, &found[..round], &plain, grid)? {
            Some(root) => found[round].0 = root,
            None => return Ok(Some(Found { plain, metric: None, absolute })),
        }
    }
    let (root, settings) = found.swap_remove(round);
    if let Some(weighted) = weighted {
        absolute = Some((Some(columns_of(&root)), weighted));
    }
    Ok(Some(Found { plain, metric: Some((root, form, settings)), absolute }))
}

/// The root of one more round with the rows of both halves, from the metric of the last of the rounds `before`, which one half has learnt,
/// and its settings.
fn again(
    both: &Sample,
    form: Form,
    before: &[(Mat<f64>, Candidate)],
    plain: &Candidate,
    grid: &Grid,
) -> Result<Option<Mat<f64>>> {
    let d = both.x.ncols();
    let products = match before.last() {
        Some((root, settings)) => gradient_products(both, root, settings, &grid.spare)?,
        None => gradient_products(both, &Mat::identity(d, d), plain, &grid.spare)?,
    };
    Ok(products.and_then(|products| form.root(&products)))
}

/// The diagonal root (diag LLᵀ)^½ of the weights that a metric gives to the columns.
pub(super) fn columns_of(root: &Mat<f64>) -> Mat<f64> {
    let d = root.nrows();
    Mat::from_fn(d, d, |i, j| if i == j { root.row(i).squared_norm_l2().sqrt() } else { 0.0 })
}

/// The candidate of least risk; the first of equals.
pub(super) fn least(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().reduce(|best, next| if next.risk < best.risk { next } else { best })
}
