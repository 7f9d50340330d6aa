//! E2: atomisation energies of QM7 from permuted Coulomb matrices (thesis §5.6.1): E[f(z) | x] = y, z a random order of x's atoms.
//!
//! Every molecule that is learnt has ten *virtual samples*, matrices whose atoms are sorted by ‖C_i‖ + s e_i ([`super::f9`]);
//! s = 1 is the usual order with few exchanges, s = 20 mixes the heavy atoms. A prediction is the mean of f over twenty new ones. Learners
//! share everything but the gradient:
//!
//! - f is a combination of 512 Laplacian kernels (σ = 3000) at virtual samples and a constant, in a basis that is orthonormal on the
//!   samples, so that steps of order one suit all of them. Batches of 1,000 molecules, constant steps, the average of the last half;
//! - **work** is the number of virtual samples, per molecule, at which f has been evaluated;
//! - *sample averages* descend ½(mean of f over the ten − y)², ten evaluations a visit; *virtual samples* ½(f(z) − y)², one of
//!   the ten a visit; *Embedding-SGD* the saddle point with u = v − y, one of the ten a visit. Its dual v is a number for every molecule,
//!   v ← v + ρ(f(z) − v), which evaluates nothing. As published both functions move at once; *dual first* moves f by the new v, and its rate
//!   in the k-th visit is max(ρ, 1/k): v begins as the mean of what it has seen, not at zero;
//! - the *closed form* has 1,024 kernels at the sorted matrices for its dual.
//!
//! Step and ρ are those of the least error on a tenth of the molecules, for every method and every work by itself.
//! Departures: a Laplacian instead of a Gaussian kernel, which is a third worse here; a random split.

use super::common::{Console, DataFolder, Report};
use super::f9::{Molecules, ENTRIES};
use super::Arguments;
use crate::failure::Outcome;
use crate::plot::LineChart;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};
use rayon::prelude::*;
use riesz::data::Rows;
use riesz::kernel::{ClosedForm, KernelSpec, Scaling};
use riesz::loss::Square;
use riesz::operator::{adjoint, apply, ConditionalMean, Deterministic, Evaluation, Sampled};
use riesz::random::{Address, BlockIndex, Permutation, Seed, Stream};
use riesz::solver::{
    choose_ridges, DualForm, EmbeddingSgdConfig, FunctionalSgdConfig, SaddleClosedForm, SaddleState, Samples,
    Schedule, SgdState, Solver,
};
use riesz::space::{Averaged, Averaging, Basis, Function, Linear, Space, Terms};
use riesz::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write;

const ATOMS: usize = 512;
const DUAL_ATOMS: usize = 1_024;
const BANDWIDTH: f64 = 3_000.0;
const BATCH: usize = 1_000;
const SAMPLES: usize = 10;
const TEST_SAMPLES: usize = 20;
const FOLDS: usize = 5;
/// Added to the diagonal of the moments that whiten.
const RIDGE: f64 = 1e-7;
const STEPS: [f64; 4] = [0.2, 0.4, 0.8, 1.6];
/// ρ; one is virtual samples where the dual moves first, and is tried only where both move at once.
const RATES: [f64; 3] = [0.1, 0.3, 1.0];

/// A number for every molecule: a function on a finite set, given by places.
#[derive(Clone)]
struct Table(Vec<f32>);

impl Table {
    fn places(&self, rows: Rows<'_>) -> Vec<usize> {
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        rows.gather(&all).iter().map(|&i| (i as usize).min(self.0.len() - 1)).collect()
    }
}

impl Function for Table {
    fn columns(&self) -> usize {
        1
    }

    fn outputs(&self) -> usize {
        1
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        out.iter_mut().zip(self.places(rows)).for_each(|(out, i)| *out = self.0[i]);
        Ok(())
    }
}

impl Space for Table {
    fn step(&mut self, size: f64, _ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        for Terms { rows, weights } in terms {
            let places = self.places(*rows);
            places.into_iter().zip(weights.iter()).for_each(|(i, w)| self.0[i] += size as f32 * w);
        }
        Ok(())
    }
}

/// Molecules of one part: mean features of the test samples, and energies.
struct Judged {
    mean: Vec<f32>,
    energies: Vec<f64>,
}

/// What is learnt from and judged by.
struct Fold {
    /// ψ(z_k), an array for every k.
    z: Vec<Vec<f32>>,
    /// x, atoms sorted.
    sorted: Vec<f32>,
    /// y in its unit, whose mean and deviation these are.
    y: Vec<f32>,
    centre: f64,
    scale: f64,
    width: usize,
    held_out: Judged,
    test: Judged,
}

fn laplacian(points: &[f32]) -> Outcome<Basis> {
    let kernel = ClosedForm::new(KernelSpec::Laplacian, BANDWIDTH, Scaling::identity(ENTRIES))?;
    Ok(Basis::atoms(kernel, points)?.with_intercept())
}

/// ψ of some rows, whitened where a factor is given.
fn mapped(basis: &Basis, inverse: Option<&Mat<f32>>, x: &[f32]) -> Outcome<Vec<f32>> {
    let (m, tile) = (basis.len(), 256);
    let mut out = vec![0.0; x.len() / ENTRIES * m];
    out.par_chunks_mut(tile * m).zip(x.par_chunks(tile * ENTRIES)).try_for_each(
        |(out, x)| -> Result<()> {
            basis.fill(x, out)?;
            if let Some(inverse) = inverse {
                let own = out.to_vec();
                let n = out.len() / m;
                let (own, out) =
                    (MatRef::from_row_major_slice(&own, n, m), MatMut::from_row_major_slice_mut(out, n, m));
                matmul(out, Accum::Replace, own, inverse.transpose(), 1.0, Par::Seq);
            }
            Ok(())
        },
    )?;
    Ok(out)
}

/// L⁻¹ for E[ψψᵀ] + λI = LLᵀ.
fn whitening(psi: &[f32], m: usize) -> Outcome<Mat<f32>> {
    let n = psi.len() / m;
    let psi = Mat::from_fn(n, m, |i, j| f64::from(psi[i * m + j]));
    let mut gram = Mat::<f64>::identity(m, m) * faer::Scale(RIDGE);
    matmul(gram.as_mut(), Accum::Add, psi.transpose(), psi.as_ref(), 1.0 / n as f64, Par::Seq);
    let singular = |_| Error::NotPositiveDefinite { block: 0, size: m, raise: "the ridge of the whitening" };
    let factor = gram.llt(Side::Lower).map_err(singular)?;
    let mut inverse = Mat::<f64>::identity(m, m);
    solve_lower_triangular_in_place(factor.L(), inverse.as_mut(), Par::Seq);
    Ok(Mat::from_fn(m, m, |i, j| inverse[(i, j)] as f32))
}

impl Fold {
    fn new(molecules: &Molecules, fold: usize, noise: f64, seed: Seed) -> Outcome<Self> {
        let order = Permutation::new(seed, Stream::HoldOut, BlockIndex(0), molecules.len());
        let [mut learnt, mut held_out, mut test] = [Vec::new(), Vec::new(), Vec::new()];
        for (rank, &i) in order.indices().iter().enumerate() {
            let part = match (rank % FOLDS == fold, (rank / FOLDS).is_multiple_of(10)) {
                (true, _) => &mut test,
                (false, true) => &mut held_out,
                _ => &mut learnt,
            };
            part.push(i as usize);
        }
        let of = |part: &[usize], k: usize, noise: f64| -> Vec<f32> {
            part.par_iter().flat_map_iter(|&i| molecules.realise(i, k, noise, seed)).collect()
        };
        let first = of(&learnt, 0, noise);
        let basis = laplacian(&first[..ATOMS.min(learnt.len()) * ENTRIES])?;
        let width = basis.len();
        let inverse = whitening(&mapped(&basis, None, &first)?, width)?;
        let z = (0..SAMPLES).map(|k| mapped(&basis, Some(&inverse), &of(&learnt, k, noise)));
        let z = z.collect::<Outcome<_>>()?;
        let judged = |part: &[usize]| -> Outcome<Judged> {
            let mut mean = vec![0.0; part.len() * width];
            for k in SAMPLES..SAMPLES + TEST_SAMPLES {
                let psi = mapped(&basis, Some(&inverse), &of(part, k, noise))?;
                mean.iter_mut().zip(psi).for_each(|(mean, psi)| *mean += psi / TEST_SAMPLES as f32);
            }
            Ok(Judged { mean, energies: part.iter().map(|&i| molecules.energies[i]).collect() })
        };
        let energies: Vec<f64> = learnt.iter().map(|&i| molecules.energies[i]).collect();
        let n = energies.len() as f64;
        let centre = energies.iter().sum::<f64>() / n;
        let scale = (energies.iter().map(|e| (e - centre).powi(2)).sum::<f64>() / n).sqrt().max(1e-9);
        Ok(Self {
            z,
            sorted: of(&learnt, 0, 0.0),
            y: energies.iter().map(|e| ((e - centre) / scale) as f32).collect(),
            centre,
            scale,
            width,
            held_out: judged(&held_out)?,
            test: judged(&test)?,
        })
    }

    /// Mean absolute errors on the held-out and on the test molecules.
    fn errors(&self, f: &Linear) -> Outcome<[f64; 2]> {
        let error = |judged: &Judged| -> Outcome<f64> {
            let mut values = vec![0.0; judged.energies.len()];
            f.evaluate(Rows::single(&judged.mean, self.width)?, &mut values)?;
            let pairs = values.iter().zip(&judged.energies);
            let total: f64 = pairs.map(|(v, e)| (self.centre + self.scale * f64::from(*v) - e).abs()).sum();
            Ok(total / judged.energies.len() as f64)
        };
        Ok([error(&self.held_out)?, error(&self.test)?])
    }

    fn closed(&self) -> Outcome<[f64; 2]> {
        let dual = laplacian(&self.sorted[..DUAL_ATOMS.min(self.y.len()) * ENTRIES])?;
        let primal = Basis::columns_of(self.width)?;
        let saddle = SaddleClosedForm { operator: ConditionalMean, primal, dual };
        let z = self.z.iter().map(|z| Rows::single(z, self.width)).collect::<Result<Vec<_>>>()?;
        let batch = Sampled::new(Rows::single(&self.sorted, ENTRIES)?, &z)?;
        let parts = <[_; 3]>::try_from(saddle.moments_in_parts(batch, &self.y, 3)?)
            .map_err(|_| Error::Empty { what: "molecules", needed: "three" })?;
        let (ridges, _) = choose_ridges(&parts, DualForm::Free, (None, None), (1.1, 0.1))?;
        let solution = saddle.moments(batch, &self.y)?.solve(DualForm::Free, ridges)?;
        self.errors(&Linear::with_coefficients(saddle.primal, solution.coefficients())?)
    }
}

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    DualFirst,
    AtOnce,
    SampleAverages,
    VirtualSamples,
}

impl Method {
    const ALL: [Self; 4] = [Self::DualFirst, Self::AtOnce, Self::SampleAverages, Self::VirtualSamples];

    fn name(self) -> &'static str {
        match self {
            Self::DualFirst => "Embedding-SGD, dual first",
            Self::AtOnce => "Embedding-SGD, at once",
            Self::SampleAverages => "sample averages",
            Self::VirtualSamples => "virtual samples",
        }
    }

    /// Samples at which f is evaluated in a visit of a molecule.
    fn samples(self) -> usize {
        if self == Self::SampleAverages {
            SAMPLES
        } else {
            1
        }
    }

    /// ρ to be tried.
    fn rates(self) -> &'static [f64] {
        match self {
            Self::DualFirst => &RATES[..2],
            Self::AtOnce => &RATES,
            _ => &[0.0],
        }
    }
}

/// What a step learns from.
struct Batch {
    /// Names of molecules, the x of the dual.
    names: Vec<f32>,
    targets: Vec<f32>,
    /// Features of one virtual sample of each, or of all.
    z: Vec<Vec<f32>>,
}

impl Batch {
    /// Of step `t`: molecules order after order, one of their samples at random or all.
    fn new(fold: &Fold, t: usize, size: usize, samples: usize, seed: Seed) -> Self {
        let (n, start, width) = (fold.y.len(), t * size, fold.width);
        let order = |pass: usize| Permutation::new(seed, Stream::Subsample, BlockIndex(pass as u64), n);
        let (pass, from) = (start / n, start % n);
        let mut places: Vec<u32> = order(pass).indices()[from..(from + size).min(n)].to_vec();
        if places.len() < size {
            places.extend(&order(pass + 1).indices()[..size - places.len()]);
        }
        let pick = |k: usize, i: u32| &fold.z[k][i as usize * width..(i as usize + 1) * width];
        let word =
            |i: u32| Address::new(seed, Stream::Synthetic, BlockIndex(t as u64), i).words(0)[0] as usize;
        let z = match samples {
            1 => vec![places.iter().flat_map(|&i| pick(word(i) % SAMPLES, i)).copied().collect()],
            all => (0..all).map(|k| places.iter().flat_map(|&i| pick(k, i)).copied().collect()).collect(),
        };
        let targets = places.iter().map(|&i| fold.y[i as usize]).collect();
        Self { names: places.iter().map(|&i| i as f32).collect(), targets, z }
    }
}

/// A step of f and v on one virtual sample of each molecule, v before f: u = v − y is that of the new v.
fn dual_first(
    pair: &mut SaddleState<Linear, Table>,
    batch: Sampled<'_>,
    given: Rows<'_>,
    targets: &[f32],
    [step, rate]: [f64; 2],
) -> Result<()> {
    let mut values = vec![0.0; targets.len()];
    let mut v = values.clone();
    apply(&ConditionalMean, &pair.f, batch, &mut values)?;
    pair.dual.evaluate(given, &mut v)?;
    values.iter_mut().zip(&v).for_each(|(f, v)| *f -= v);
    pair.dual.step(rate, 0.0, &[Terms::new(given, &values)])?;
    pair.dual.evaluate(given, &mut v)?;
    let share = 1.0 / targets.len() as f32;
    v.iter_mut().zip(targets).for_each(|(v, y)| *v = share * (y - *v));
    pair.f.step(step, 0.0, &adjoint(&ConditionalMean, batch, &v))
}

/// Errors of the average of the iterates after some amounts of work; infinite where it diverged.
fn course(
    method: Method,
    fold: &Fold,
    [step, rate]: [f64; 2],
    looks: &[usize],
    seed: Seed,
) -> Outcome<Vec<[f64; 2]>> {
    let (n, width) = (fold.y.len(), fold.width);
    let size = BATCH.min(n);
    let (square, weights) = (Square { outputs: 1 }, vec![1.0; size]);
    let zero = || Ok::<_, Error>(Linear::new(Basis::columns_of(width)?, 1).averaging(Averaging::Tail));
    let mut pair = SaddleState::new(zero()?, Table(vec![0.0; n]));
    let mut single = SgdState::new(zero()?);
    let config = EmbeddingSgdConfig {
        primal: Schedule::Constant { step },
        // Gradients are means over the batch, and a batch has a molecule once.
        dual: Schedule::Constant { step: rate.max(1e-9) * size as f64 },
        primal_ridge: 0.0,
        dual_ridge: 0.0,
        form: DualForm::Shifted,
    };
    let saddle = config.build(ConditionalMean, &square)?;
    let plain = FunctionalSgdConfig { schedule: Schedule::Constant { step }, ridge: 0.0 };
    let (average, each) =
        (plain.build(Deterministic(ConditionalMean), &square)?, plain.build(Evaluation, &square)?);
    let mut errors = Vec::new();
    for t in 0.. {
        let Batch { names, targets, z } = Batch::new(fold, t, size, method.samples(), seed);
        let z = z.iter().map(|z| Rows::single(z, width)).collect::<Result<Vec<_>>>()?;
        let given = Rows::single(&names, 1)?;
        let (batch, weights, targets) = (Sampled::new(given, &z)?, &weights[..], &targets[..]);
        let moved = match method {
            Method::DualFirst => {
                let visit = t * size / n + 1;
                dual_first(&mut pair, batch, given, targets, [step, rate.max(1.0 / visit as f64)])
            }
            Method::AtOnce => saddle.step(&mut pair, Samples { batch, targets, weights }).map(drop),
            Method::SampleAverages => {
                average.step(&mut single, Samples { batch, targets, weights }).map(drop)
            }
            Method::VirtualSamples => {
                each.step(&mut single, Samples { batch: z[0], targets, weights }).map(drop)
            }
        };
        match moved {
            Err(Error::Diverged { .. }) => errors.resize(looks.len(), [f64::INFINITY; 2]),
            moved => moved?,
        }
        let work = (t + 1) * size * method.samples() / n;
        while errors.len() < looks.len() && work >= looks[errors.len()] {
            let f = if method.rates().len() > 1 { pair.f.average() } else { single.f.average() };
            errors.push(fold.errors(&f)?.map(|e| if e.is_finite() { e } else { f64::INFINITY }));
        }
        if errors.len() == looks.len() {
            break;
        }
    }
    Ok(errors)
}

/// Test errors of the steps that were best on held-out molecules: of every method and work, fold after fold.
type Chosen = BTreeMap<(usize, usize), Vec<f64>>;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// All methods and settings on one fold.
fn compare(
    fold: &Fold,
    looks: &[usize],
    seed: Seed,
    chosen: &mut Chosen,
    mut write: impl FnMut(&str, [f64; 2], usize, [f64; 2]),
    cancelled: &mut dyn FnMut() -> bool,
) -> Outcome<bool> {
    let closed = fold.closed()?;
    write("closed form", [0.0; 2], SAMPLES, closed);
    chosen.entry((Method::ALL.len(), 0)).or_default().push(closed[1]);
    for (m, method) in Method::ALL.into_iter().enumerate() {
        let mut best = vec![[f64::INFINITY; 2]; looks.len()];
        for (&step, &rate) in
            STEPS.iter().flat_map(|step| method.rates().iter().map(move |rate| (step, rate)))
        {
            if cancelled() {
                return Ok(false);
            }
            let errors = course(method, fold, [step, rate], looks, seed)?;
            for ((best, &error), &work) in best.iter_mut().zip(&errors).zip(looks) {
                write(method.name(), [step, rate], work, error);
                if error[0] < best[0] {
                    *best = error;
                }
            }
        }
        for (k, best) in best.iter().enumerate() {
            chosen.entry((m, k)).or_default().push(best[1]);
        }
    }
    Ok(true)
}

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Report> {
    let seed = Seed(arguments.seed);
    let molecules = if arguments.stand_in {
        Molecules::synthetic(arguments.rows.unwrap_or(600), seed)
    } else {
        Molecules::read(&DataFolder::new(arguments.data.clone()))?
    };
    let folds = arguments.only_folds.unwrap_or(if arguments.quick { 1 } else { 3 }).min(FOLDS);
    let looks: &[usize] = if arguments.quick { &[10, 20] } else { &[10, 20, 40, 80] };
    let (mut table, mut summary, mut ended) =
        ("noise,fold,method,step,rate,work,held_out,test\n".to_owned(), String::new(), None);
    let mut chart = LineChart::new("QM7, permuted Coulomb matrices")
        .x_label("evaluations of f per molecule")
        .y_label("mean absolute error, kcal/mol")
        .log_x()
        .log_y();
    'all: for noise in [1.0, 20.0] {
        let mut chosen = Chosen::new();
        for k in 0..folds {
            let fold = Fold::new(&molecules, k, noise, seed)?;
            let write = |method: &str, [step, rate]: [f64; 2], work: usize, [held_out, test]: [f64; 2]| {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    table,
                    "{noise},{},\"{method}\",{step},{rate},{work},{held_out:.4},{test:.4}",
                    k + 1
                );
            };
            if !compare(&fold, looks, seed, &mut chosen, write, console.cancelled)? {
                ended = Some(Error::Cancelled { blocks: k });
                break 'all;
            }
            (console.say)(&format!("permutations with noise {noise}: fold {} of {folds}", k + 1));
        }
        for (m, method) in Method::ALL.into_iter().enumerate() {
            let points: Vec<(f64, f64)> =
                looks.iter().enumerate().map(|(k, &w)| (w as f64, mean(&chosen[&(m, k)]))).collect();
            let text: Vec<String> = points.iter().map(|(w, e)| format!("{e:.2} after {w}")).collect();
            let line = format!("noise {noise}, {}: {}", method.name(), text.join(", "));
            (console.say)(&line);
            let _ = writeln!(summary, "{line}");
            chart = chart.line(format!("{}, noise {noise}", method.name()), &points);
        }
        let line = format!("noise {noise}, closed form: {:.2}", mean(&chosen[&(Method::ALL.len(), 0)]));
        (console.say)(&line);
        let _ = writeln!(summary, "{line}");
    }
    Ok(Report { table, picture: chart.to_svg(), summary, ended })
}
