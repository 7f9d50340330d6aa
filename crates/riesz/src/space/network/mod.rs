//! A small multi-layer perceptron.

mod layers;
mod optimiser;
#[cfg(test)]
mod tests;

pub use layers::Nonlinearity;
pub use optimiser::Optimiser;

use super::average::{is_zero, RunningAverage};
use super::{check_columns, take_all, Averaged, Averaging, Function, Space, Storable, Terms};
use crate::compute::{add_in_order, check_length};
use crate::data::Rows;
use crate::error::{in_range, Error, Result};
use crate::kernel::Scaling;
use crate::memory::room;
use crate::model::Container;
use crate::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use layers::{Layers, ROWS};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Settings of a [`Network`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Sizes of the hidden layers, seven at most; none makes f affine.
    pub hidden: Vec<usize>,
    /// What is done to their values.
    pub nonlinearity: Nonlinearity,
    /// How parameters follow gradients.
    pub optimiser: Optimiser,
}

/// A function f(x) = offset + W_L a(W_{L−1} a(… W_1 x̃ + b_1 …) + b_{L−1}) + b_L of the columns x̃ = (x − shift)·scale
/// (thesis C.5.3).
///
/// θ is all W_l and b_l. Biases start at zero and weights uniform on ±√(6/(inputs + outputs)) (Glorot and Bengio 2010), by
/// address. A gradient [`Space::step`] ascends Σ_i w_iᵀ f(x_i) − (ν/2)‖θ‖² by
///
/// ```text
/// g = Σ_i w_iᵀ ∂f(x_i)/∂θ − νθ,   θ ← θ + γ g   or Adam's step
/// ```
///
/// which departs from the step of a kernel in three ways. f is not linear in θ: the step moves along the kernel
/// ⟨∂f(x)/∂θ, ∂f(x')/∂θ⟩ of the present θ, to first order in γ, and that kernel changes. The norm that ν weighs is ‖θ‖, biases
/// included, not one of functions. And with Adam the size γ is no factor of the weights: a step is about γ in every
/// parameter, whatever the length of g. The [`Averaged::average`] is the network of the average θ, not the average of functions.
///
/// Parameters and moments are in single precision, sums over rows and steps in double.
///
/// ```
/// use riesz::data::Rows;
/// use riesz::kernel::Scaling;
/// use riesz::random::Seed;
/// use riesz::space::{Function, NetworkConfig, Nonlinearity, Optimiser, Space, Terms};
///
/// let settings = NetworkConfig { hidden: vec![16, 16], nonlinearity: Nonlinearity::Tanh, optimiser: Optimiser::ADAM };
/// let mut f = settings.build(Scaling::identity(2), vec![0.0], Seed(1))?;
/// let (rows, mut before, mut after) = (Rows::single(&[0.5, -1.0], 2)?, [0.0], [0.0]);
/// f.evaluate(rows, &mut before)?;
/// f.step(0.01, 0.0, &[Terms::new(rows, &[1.0])])?;
/// f.evaluate(rows, &mut after)?;
/// assert!(after[0] > before[0]);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    config: NetworkConfig,
    scaling: Scaling,
    offset: Vec<f32>,
    layers: Layers,
    theta: Vec<f32>,
    moments: Vec<f32>,
    steps: u64,
    average: Option<RunningAverage>,
}

/// What a file needs to go on from a network, but for scaling and offset: settings and numbers for its header, and
/// tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkParts {
    /// The settings.
    pub config: NetworkConfig,
    /// Steps of the optimiser.
    pub steps: u64,
    /// How iterates are averaged, and how many were.
    pub averaging: Option<(Averaging, u64)>,
    /// Σ γ_s over these, where the average needs it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step_sizes: f64,
    /// P parameters: W_l (outputs×inputs, row-major) and b_l, layer by layer; a tensor of the file.
    #[serde(skip)]
    pub parameters: Vec<f32>,
    /// Moments of the optimiser: none, or P of the first kind and P of the second; likewise.
    #[serde(skip)]
    pub moments: Vec<f32>,
    /// Averages of the parameters, where one has begun: P numbers, or twice P for [`Averaging::Tail`]; likewise.
    #[serde(skip)]
    pub average: Vec<f64>,
}

/// What a file holds of a network in single precision.
const TENSORS: [&str; 5] = ["shift", "scale", "offset", "parameters", "moments"];
/// Most layers of weights.
const MOST_LAYERS: usize = 8;
/// Bytes that a parameter takes: itself, its moments, its average and its gradients.
const BYTES: usize = 40;
/// Bytes of the gradients of single tiles held at once.
const WAVE_BYTES: usize = 64 << 20;

impl NetworkConfig {
    /// Refuses settings that make no network from d columns to C outputs; gives its layers.
    fn check(&self, scaling: &Scaling, outputs: usize) -> Result<Layers> {
        scaling.check()?;
        if outputs == 0 {
            return Err(Error::Empty { what: "the offset of a network", needed: "one output" });
        }
        let layers = self.hidden.len() + 1;
        in_range("the number of layers", layers as f64, layers <= MOST_LAYERS, "1 to 8")?;
        for &size in &self.hidden {
            in_range("the size of a hidden layer", size as f64, size > 0, "1, 2, …")?;
        }
        self.optimiser.check()?;
        let widths = [&[scaling.shift.len()], &self.hidden[..], &[outputs]].concat();
        let size = |pair: &[usize]| pair[0].saturating_add(1).saturating_mul(pair[1]);
        let parameters = widths.windows(2).map(size).fold(0, usize::saturating_add);
        room("the parameters of a network", "the sizes of its hidden layers", &[parameters], BYTES)?;
        Ok(Layers::new(&widths, self.nonlinearity))
    }

    /// The network with random weights, d = `scaling.shift.len()` columns and C = `offset.len()` outputs.
    pub fn build(self, scaling: Scaling, offset: Vec<f32>, seed: Seed) -> Result<Network> {
        let layers = self.check(&scaling, offset.len())?;
        let mut theta = vec![0.0; layers.parameters()];
        for (l, (inputs, outputs, range)) in layers.weights().enumerate() {
            let bound = (6.0 / (inputs + outputs) as f64).sqrt();
            let words = Address::new(seed, Stream::Network, BlockIndex(l as u64), 0).sequence();
            let draws = words.map(|word| bound * (2.0 * uniform_open(word) - 1.0));
            theta[range].iter_mut().zip(draws).for_each(|(w, draw)| *w = draw as f32);
        }
        let moments = vec![0.0; self.optimiser.moments() * theta.len()];
        Ok(Network { config: self, scaling, offset, layers, theta, moments, steps: 0, average: None })
    }
}

impl Network {
    /// The settings.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// What is done to the columns first.
    pub fn scaling(&self) -> &Scaling {
        &self.scaling
    }

    /// The constant part of f, which steps leave alone.
    pub fn offset(&self) -> &[f32] {
        &self.offset
    }

    /// θ: W_l (outputs×inputs, row-major) and b_l, layer by layer.
    pub fn parameters(&self) -> &[f32] {
        &self.theta
    }

    /// What a file needs, but for scaling and offset.
    pub fn parts(&self) -> NetworkParts {
        let average = self.average.as_ref();
        NetworkParts {
            config: self.config.clone(),
            steps: self.steps,
            averaging: average.map(|average| (average.rule, average.steps)),
            parameters: self.theta.clone(),
            moments: self.moments.clone(),
            step_sizes: average.map_or(0.0, |average| average.step_sizes),
            average: average.map_or_else(Vec::new, RunningAverage::numbers),
        }
    }

    /// The network that has these parts.
    pub fn from_parts(scaling: Scaling, offset: Vec<f32>, parts: NetworkParts) -> Result<Self> {
        let NetworkParts { config, steps, averaging, step_sizes, parameters: theta, moments, average } =
            parts;
        let layers = config.check(&scaling, offset.len())?;
        check_length("the parameters of a network", layers.parameters(), theta.len())?;
        check_length("the moments of a network", config.optimiser.moments() * theta.len(), moments.len())?;
        let kept = averaging.filter(|(_, steps)| *steps > 0).map_or(0, |(rule, _)| rule.kept());
        check_length("the average of a network", kept * theta.len(), average.len())?;
        let average = averaging.map(|of| RunningAverage::from_numbers(of, step_sizes, &average, theta.len()));
        Ok(Self { config, scaling, offset, layers, theta, moments, steps, average })
    }

    /// Values of all layers at one tile of at most ROWS rows.
    fn forward(&self, rows: Rows<'_>, tile: Range<usize>) -> Vec<Vec<f32>> {
        let (mut buffer, mut inputs) = (Vec::new(), Vec::with_capacity(ROWS * self.columns()));
        let count = tile.len();
        self.scaling.apply(rows.tile(tile, &mut buffer), 1.0, &mut inputs);
        inputs.resize(ROWS * self.columns(), 0.0);
        self.layers.forward(&self.theta, inputs, count)
    }

    /// ∂f(x_i)/∂θ · d of each row for a direction d of θ, n×C row-major.
    pub(crate) fn tangent(&self, rows: Rows<'_>, direction: &[f32]) -> Result<Vec<f32>> {
        check_columns(self, rows)?;
        check_length("the direction of a network", self.theta.len(), direction.len())?;
        let (n, c) = (rows.len(), self.outputs());
        let one = |tile: usize| {
            let tile = tile * ROWS..((tile + 1) * ROWS).min(n);
            let mut change = self.layers.tangent(&self.theta, direction, &self.forward(rows, tile.clone()));
            change.truncate(tile.len() * c);
            change
        };
        Ok((0..n.div_ceil(ROWS)).into_par_iter().flat_map_iter(one).collect())
    }

    /// Σ_i w_iᵀ ∂f(x_i)/∂θ over the points of all terms, tile by tile and added in their order.
    pub(crate) fn gradient(&self, terms: &[Terms<'_>]) -> Result<Vec<f64>> {
        let c = self.outputs();
        let mut tiles = Vec::new();
        for terms in terms {
            check_columns(self, terms.rows)?;
            let n = terms.rows.len();
            check_length("the weights of the terms", n * c, terms.weights.len())?;
            tiles.extend((0..n).step_by(ROWS).map(|start| (terms, start..(start + ROWS).min(n))));
        }
        let partial = |(terms, tile): &(&Terms<'_>, Range<usize>)| {
            let mut weights = terms.weights[tile.start * c..tile.end * c].to_vec();
            weights.resize(ROWS * c, 0.0);
            self.layers.backward(&self.theta, &self.forward(terms.rows, tile.clone()), weights)
        };
        let mut gradient = vec![0.0; self.theta.len()];
        let wave = (WAVE_BYTES / (4 * self.theta.len())).clamp(1, 8 * rayon::current_num_threads());
        for some in tiles.chunks(wave) {
            let partials: Vec<_> = some.par_iter().with_max_len(1).map(partial).collect();
            add_in_order(&mut gradient, &partials);
        }
        Ok(gradient)
    }
}

impl Function for Network {
    fn columns(&self) -> usize {
        self.scaling.shift.len()
    }

    fn outputs(&self) -> usize {
        self.offset.len()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        let c = self.outputs();
        check_columns(self, rows)?;
        check_length("the array for the values", rows.len() * c, out.len())?;
        out.par_chunks_mut(ROWS * c).enumerate().for_each(|(tile, out)| {
            let (start, count) = (tile * ROWS, out.len() / c);
            let values = self.forward(rows, start..start + count).pop().unwrap_or_default();
            for (out, values) in out.chunks_exact_mut(c).zip(values.chunks_exact(c)) {
                let sums = self.offset.iter().zip(values);
                out.iter_mut().zip(sums).for_each(|(out, (offset, value))| *out = offset + value);
            }
        });
        Ok(())
    }
}

impl Space for Network {
    /// The step of [`Network`]: one pass forward and backward over the points of all terms.
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        let mut gradient = self.gradient(terms)?;
        gradient.iter_mut().zip(&self.theta).for_each(|(g, theta)| *g -= ridge * f64::from(*theta));
        self.steps += 1;
        let optimiser = self.config.optimiser;
        optimiser.step(self.steps, size, &gradient, &mut self.theta, &mut self.moments);
        if let Some(average) = &mut self.average {
            average.take(size, 1.0, std::iter::once(&self.theta[..]));
        }
        Ok(())
    }
}

impl Averaged for Network {
    fn averaging(mut self, rule: Averaging) -> Self {
        self.average = Some(RunningAverage::new(rule));
        self
    }

    /// The network of the average parameters.
    fn average(&self) -> Self {
        let mut mean = Self { average: None, ..self.clone() };
        if let Some(average) = self.average.as_ref().filter(|average| average.steps > 0) {
            mean.theta = average.parts().flatten().collect();
        }
        mean
    }
}

impl Storable for Network {
    fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        let NetworkParts { parameters, moments, average, .. } = self.parts();
        container.set_field(name, &self.parts())?;
        let Scaling { shift, scale } = self.scaling.clone();
        let single = [shift, scale, self.offset.clone(), parameters, moments];
        for (part, values) in TENSORS.into_iter().zip(single) {
            container.insert(&format!("{name}.{part}"), vec![values.len()], values)?;
        }
        container.insert(&format!("{name}.average"), vec![average.len()], average)
    }

    fn restore(container: &mut Container, name: &str) -> Result<Self> {
        let parts: NetworkParts = container.field(name)?;
        let average = format!("{name}.average");
        let count = container.f64s(&average)?.1.len();
        let average = container.take_f64s(&average, &[count])?;
        let mut take = |k: usize| take_all(container, &format!("{name}.{}", TENSORS[k]));
        let (scaling, offset) = (Scaling { shift: take(0)?, scale: take(1)? }, take(2)?);
        let parts = NetworkParts { parameters: take(3)?, moments: take(4)?, average, ..parts };
        Self::from_parts(scaling, offset, parts)
    }
}
