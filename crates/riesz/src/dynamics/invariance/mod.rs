//! Functions of inputs that a transformation should not change: invariance learning, and learning from noisy inputs.

mod steps;

use super::bandwidth;
use crate::data::Rows;
use crate::driver::{Control, Phase, Progress};
use crate::error::{finite, in_range, non_negative, positive, same_columns, Error, Result};
use crate::functions::geometry::{median_distance, Moments};
use crate::functions::Bandwidth;
use crate::kernel::{ClosedForm, FeatureMap, KernelSpec, Scaling};
use crate::loss::{column, Loss, Square, Unit};
use crate::model::{Container, Stored};
use crate::operator::{ConditionalMean, Sampled};
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use crate::solver::{self, choose_ridges, DualForm, Ridges, SaddleClosedForm, PARTS};
use crate::space::{Basis, Function, Linear};
use serde::{Deserialize, Serialize};

/// ℓ of [`InvariantFunction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvarianceLoss {
    /// ½(u − y)², for each output.
    #[default]
    Square,
    /// −log of the probability of the class, the one whose target is the largest; outputs are log-odds.
    Logistic,
}

/// Settings of [`InvariantFunction`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "InvarianceOptions::unset")]
pub struct InvarianceOptions {
    /// Atoms of f, and of its dual; a quarter of the rows unless given, from 64 to 1,024.
    pub n_features: Option<usize>,
    /// Kernel family.
    pub kernel: KernelSpec,
    /// σ; by held-out rows where it is to be found.
    pub bandwidth: Bandwidth,
    /// Whether columns are brought to zero mean and unit variance.
    pub standardise: bool,
    /// λ₁ in units of the mean of the diagonal it is added to; by held-out rows unless given.
    pub ridge: Option<f64>,
    /// λ₂, likewise.
    pub dual_ridge: Option<f64>,
    /// ℓ. By the logistic loss f is learnt in steps from that of the square loss, whose ridges these are.
    pub loss: InvarianceLoss,
    /// Passes of the steps over the rows.
    #[serde(alias = "n_passes")]
    pub passes: usize,
    /// Seed.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

impl InvarianceOptions {
    /// The defaults.
    pub fn new(seed: Seed) -> Self {
        Self { seed, ..Self::unset() }
    }

    fn unset() -> Self {
        Self {
            n_features: None,
            kernel: KernelSpec::Gaussian,
            bandwidth: Bandwidth::Auto,
            standardise: true,
            ridge: None,
            dual_ridge: None,
            loss: InvarianceLoss::Square,
            passes: 50,
            seed: Seed(0),
        }
    }

    /// Every setting is in its domain.
    pub fn check(&self) -> Result<()> {
        self.kernel.check()?;
        if let Bandwidth::Value(value) = self.bandwidth {
            positive("bandwidth", value)?;
        }
        if let Some(features) = self.n_features {
            in_range("n_features", features as f64, (1..=1 << 14).contains(&features), "[1, 2^14]")?;
        }
        self.ridge.map_or(Ok(0.0), |ridge| non_negative("ridge", ridge))?;
        self.dual_ridge.map_or(Ok(0.0), |ridge| non_negative("dual_ridge", ridge))?;
        positive("n_passes", self.passes as f64)?;
        Ok(())
    }
}

/// Inputs x, K samples z of each, and n×C targets.
#[derive(Clone, Copy, Debug)]
pub struct Virtual<'a> {
    /// x.
    pub rows: Rows<'a>,
    /// z_1, …, z_K, each with a row for every x.
    pub samples: &'a [Rows<'a>],
    /// y.
    pub targets: &'a [f32],
}

impl Virtual<'_> {
    fn outputs(&self) -> Result<usize> {
        let n = self.rows.len();
        if n < 4 {
            return Err(Error::Empty { what: "X", needed: "four rows" });
        }
        if self.targets.is_empty() || !self.targets.len().is_multiple_of(n) {
            return Err(Error::RowCount { what: "y", expected: n, found: self.targets.len() });
        }
        self.rows.check_finite("X")?;
        self.samples.iter().try_for_each(|rows| rows.check_finite("the samples of the augmenter"))?;
        finite("y", self.targets, self.targets.len() / n)?;
        Ok(self.targets.len() / n)
    }
}

/// f whose mean over samples z of p(z | x) predicts y: min E ℓ_y(E[f(z) | x]) (thesis 5.2), with as few as one z for each x.
///
/// f and its dual are combinations of kernel atoms, f at samples z and the dual at inputs x; for the square loss the saddle point is
/// solved in closed form, targets in units of their deviation, and for the logistic loss Embedding-SGD takes steps. What is
/// predicted at x is the mean of f over new samples of x.
#[derive(Clone, Debug)]
pub struct InvariantFunction {
    header: Header,
    f: Linear,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    options: InvarianceOptions,
    bandwidth: f64,
    ridges: Ridges,
    units: Vec<Unit>,
    rows: usize,
    samples: usize,
}

/// What a fit chose.
#[derive(Clone, Debug, Serialize)]
pub struct InvarianceSummary {
    /// Input columns.
    pub columns: usize,
    /// Outputs.
    pub outputs: usize,
    /// Atoms.
    pub features: usize,
    /// σ.
    pub bandwidth: f64,
    /// λ₁ and λ₂.
    pub ridges: Ridges,
    /// Rows.
    pub rows: usize,
    /// Samples of each.
    pub samples: usize,
    /// Seed.
    pub seed: u64,
}

/// What atoms are made from, but for the bandwidth.
struct Ground<'a> {
    options: &'a InvarianceOptions,
    data: &'a Virtual<'a>,
    scaling: Scaling,
    median: f64,
}

impl<'a> Ground<'a> {
    fn new(options: &'a InvarianceOptions, data: &'a Virtual<'a>) -> Result<Self> {
        let (z, weights) = (data.samples[0], vec![1.0; data.rows.len()]);
        options.kernel.check_domain(z)?;
        let moments = Moments::of(z, &weights);
        let scaling = match options.standardise && options.kernel.has_bandwidth() {
            true => moments.standard(),
            false => moments.unscaled(&options.kernel),
        };
        let median = match options.kernel.has_bandwidth() {
            true => median_distance(z, &weights, &scaling, &options.kernel, options.seed),
            false => 1.0,
        };
        Ok(Self { options, data, scaling, median })
    }

    fn features(&self) -> usize {
        let n = self.data.rows.len();
        self.options.n_features.unwrap_or_else(|| (n / 4).next_power_of_two().clamp(64, 1_024)).min(n)
    }

    /// Atoms at some of `rows`.
    fn atoms(&self, rows: Rows<'_>, bandwidth: f64, features: usize) -> Result<Basis> {
        let order = Permutation::new(self.options.seed, Stream::Inducing, BlockIndex(0), rows.len());
        let points = rows.gather(&order.indices()[..features.min(rows.len())]);
        let kernel = ClosedForm::new(self.options.kernel.clone(), bandwidth, self.scaling.clone())?;
        Ok(Basis::atoms(kernel, &points)?.with_intercept())
    }

    fn bandwidth(&self, targets: &[f32]) -> Result<f64> {
        let n = self.data.rows.len();
        match self.options.bandwidth {
            _ if !self.options.kernel.has_bandwidth() => Ok(1.0),
            Bandwidth::Value(value) => Ok(value),
            Bandwidth::Scale => Ok((0.5 * self.data.rows.columns() as f64).sqrt()),
            Bandwidth::Auto if n >= bandwidth::LEAST => self.race(targets),
            Bandwidth::Auto | Bandwidth::Median => Ok(self.median),
        }
    }

    fn race(&self, targets: &[f32]) -> Result<f64> {
        let Virtual { rows, samples, .. } = self.data;
        let (n, c) = (rows.len(), targets.len() / rows.len());
        let order = Permutation::new(self.options.seed, Stream::Subsample, BlockIndex(0), n);
        let some = &order.indices()[..bandwidth::RACED.min(n)];
        let x = rows.gather(some);
        let z: Vec<Vec<f32>> = samples.iter().map(|rows| rows.gather(some)).collect();
        let z: Vec<Rows<'_>> = z.iter().map(|z| Rows::single(z, rows.columns())).collect::<Result<_>>()?;
        let y: Vec<f32> = some.iter().flat_map(|&i| &targets[i as usize * c..][..c]).copied().collect();
        let seed = Seed(self.options.seed.0 ^ 1);
        let map = FeatureMap::new(
            KernelSpec::RationalQuadratic(1.0),
            0.25 * self.median,
            bandwidth::JUDGES,
            seed,
            self.scaling.clone(),
        )?;
        let judge = Basis::features(map)?.with_intercept();
        let batch = Sampled::new(Rows::single(&x, rows.columns())?, &z)?;
        let features = self.features().min(bandwidth::SOME);
        let primal = |bandwidth: f64| self.atoms(samples[0], bandwidth, features);
        bandwidth::best(ConditionalMean, (batch, &y), &judge, self.median, primal)
    }
}

impl InvariantFunction {
    /// Learns f from inputs, samples of each and targets.
    pub fn fit(options: &InvarianceOptions, data: &Virtual<'_>, control: &mut Control<'_>) -> Result<Self> {
        options.check()?;
        let batch = Sampled::new(data.rows, data.samples)?;
        let c = data.outputs()?;
        same_columns(data.rows.columns(), data.samples[0].columns())?;
        let (targets, units) = standardised(data.targets, c);
        let ground = Ground::new(options, data)?;
        control.start(None);
        control.report(Progress::new(Phase::Race, 0, 0, f64::NAN))?;
        let bandwidth = ground.bandwidth(&targets)?;
        control.report(Progress::new(Phase::Ridge, 0, 0, f64::NAN))?;
        let features = ground.features();
        let saddle = SaddleClosedForm {
            operator: ConditionalMean,
            primal: ground.atoms(data.samples[0], bandwidth, features)?,
            dual: ground.atoms(data.rows, bandwidth, features)?,
        };
        let parts = saddle.moments_in_parts(batch, &targets, PARTS)?;
        control.check(0)?;
        let moments = solver::Moments::sum(parts.iter())?;
        let ridges = match (options.ridge, options.dual_ridge) {
            (Some(primal), Some(dual)) => Ridges { primal, dual },
            (primal, dual) => choose_ridges(&parts, DualForm::Free, (primal, dual), bandwidth::NEAR)?.0,
        };
        let mut solution = moments.solve(DualForm::Free, ridges)?;
        let (f, units) = match options.loss {
            InvarianceLoss::Square => {
                (Linear::with_coefficients(saddle.primal, solution.coefficients())?, units)
            }
            InvarianceLoss::Logistic => {
                in_units(&mut solution.theta, &units);
                let bases = (saddle.primal, saddle.dual, &moments);
                let f = steps::descend(options, data, bases, (&solution.theta, ridges.dual), control)?;
                (f, vec![Unit::IDENTITY; c])
            }
        };
        let header = Header {
            options: options.clone(),
            bandwidth,
            ridges,
            units,
            rows: data.rows.len(),
            samples: data.samples.len(),
        };
        Ok(Self { header, f })
    }

    /// f(z), n×C row-major, in the units of the targets.
    pub fn evaluate(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        same_columns(self.f.columns(), rows.columns())?;
        rows.check_finite("X")?;
        let c = self.f.outputs();
        let mut out = vec![0.0; rows.len() * c];
        self.f.evaluate(rows, &mut out)?;
        for row in out.chunks_exact_mut(c) {
            row.iter_mut()
                .zip(&self.header.units)
                .for_each(|(v, unit)| *v = unit.output(f64::from(*v)) as f32);
        }
        Ok(out)
    }

    /// What the fit chose.
    pub fn summary(&self) -> InvarianceSummary {
        let Header { options, bandwidth, ridges, rows, samples, .. } = &self.header;
        InvarianceSummary {
            columns: self.f.columns(),
            outputs: self.f.outputs(),
            features: self.f.basis().len(),
            bandwidth: *bandwidth,
            ridges: *ridges,
            rows: *rows,
            samples: *samples,
            seed: options.seed.0,
        }
    }
}

/// Coefficients, of which the last is that of the function one, in the units of the targets.
fn in_units(theta: &mut faer::Mat<f64>, units: &[Unit]) {
    let last = theta.nrows() - 1;
    for (o, unit) in units.iter().enumerate() {
        theta.col_as_slice_mut(o).iter_mut().for_each(|value| *value *= unit.factor);
        theta[(last, o)] += unit.offset;
    }
}

/// Targets in their units, n×C.
fn standardised(targets: &[f32], c: usize) -> (Vec<f32>, Vec<Unit>) {
    let weights = vec![1.0; targets.len() / c];
    let units: Vec<Unit> =
        (0..c).map(|k| Square { outputs: 1 }.unit(&column(targets, &weights, k, c))).collect();
    (targets.iter().enumerate().map(|(i, y)| units[i % c].scaled(*y)).collect(), units)
}

impl Stored for InvariantFunction {
    const KIND: &'static str = "invariance";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.set_field("invariance", &self.header)?;
        self.f.basis().store(container, "basis")?;
        let shape = vec![self.f.basis().len(), self.f.outputs()];
        container.insert("coefficients", shape, self.f.coefficients().to_vec())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("invariance")?;
        header.options.check()?;
        let basis = Basis::restore(container, "basis")?;
        let c = header.units.len();
        if c == 0 {
            return Err(Error::Format("a function without outputs".into()));
        }
        let coefficients = container.take_f64s("coefficients", &[basis.len(), c])?;
        Ok(Self { f: Linear::with_coefficients(basis, coefficients)?, header })
    }
}
