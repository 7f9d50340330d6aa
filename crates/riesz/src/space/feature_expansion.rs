//! f = offset + Σ_b α_bᵀ φ_b: seeded and growing.

use super::average::{is_zero, RunningAverage};
use super::{
    check_columns, take_all, Averaged, Averaging, Basis, FeatureSpace, Function, Space, Storable, Terms,
};
use crate::compute::{self, Device, FeatureBlock};
use crate::data::{Rows, TILE};
use crate::error::{Error, Result};
use crate::kernel::FeatureMap;
use crate::model::Container;
use crate::random::BlockIndex;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;

/// A function given by a seed and coefficients: f(x) = offset + s Σ_b α_bᵀ φ_b(x).
///
/// Block b of m features is regenerated from (seed, b) whenever it is needed, so memory is the coefficients alone,
/// independent of the dimension of the data. A gradient [`Space::step`] draws one fresh block (the second
/// randomness of doubly stochastic gradients, thesis Algorithm 1) and gives it the coefficients
/// α = (γ/m) Σ_i w_i φ_b(x_i); the decay of all earlier ones is the running scalar s. Once there are as many blocks as
/// [`FeatureExpansion::limited_to`] allows, a step refines those there are, as in [`super::FixedFeatures`].
#[derive(Clone, Debug)]
pub struct FeatureExpansion {
    map: FeatureMap,
    offset: Vec<f32>,
    blocks: Vec<Vec<f32>>,
    scale: f64,
    most: usize,
    average: Option<RunningAverage>,
    device: Device,
}

/// An iterate with its running scalar and its average.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Iterate {
    scale: f64,
    most: usize,
    pub averaging: Option<(Averaging, u64)>,
    /// Σ γ_s, where the average needs it.
    #[serde(default, skip_serializing_if = "is_zero")]
    step_sizes: f64,
    /// All blocks, m×C each; a tensor of the file.
    #[serde(skip)]
    pub coefficients: Vec<f32>,
    /// Their averages, [`Averaging::kept`] for each; likewise.
    #[serde(skip)]
    pub average: Vec<f64>,
}

/// Bytes of drawn blocks held at once while evaluating.
const WAVE_BYTES: usize = 32 << 20;
/// The running scalar is multiplied into the coefficients before it comes near underflow.
const LEAST_SCALE: f64 = 1e-12;

impl FeatureExpansion {
    /// The constant function `offset`, with C = `offset.len()` outputs.
    pub fn new(map: FeatureMap, offset: Vec<f32>) -> Self {
        Self {
            map,
            offset,
            blocks: Vec::new(),
            scale: 1.0,
            most: usize::MAX,
            average: None,
            device: Device::default(),
        }
    }

    /// The same function, which steps let grow to at most `blocks` blocks.
    pub fn limited_to(mut self, blocks: usize) -> Self {
        self.most = blocks;
        self
    }

    /// The constant part of f.
    pub fn offset(&self) -> &[f32] {
        &self.offset
    }

    /// Where features are computed.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The next block to be drawn.
    pub fn next(&self) -> BlockIndex {
        BlockIndex(self.blocks.len() as u64)
    }

    /// The features the expansion draws from.
    pub fn map(&self) -> &FeatureMap {
        &self.map
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether f is still constant.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Block `b`, whether f has it already or not.
    pub fn draw(&self, b: usize) -> Result<FeatureBlock> {
        self.map.draw(BlockIndex(b as u64))
    }

    /// Coefficients of block `b`, m×C row-major.
    pub fn coefficients(&self, b: usize) -> Cow<'_, [f32]> {
        match self.scale as f32 {
            1.0 => Cow::Borrowed(&self.blocks[b]),
            scale => self.blocks[b].iter().map(|a| a * scale).collect(),
        }
    }

    /// Appends a block with the given m×C coefficients.
    pub fn push(&mut self, coefficients: Vec<f32>) {
        self.materialise_scale();
        self.blocks.push(coefficients);
    }

    /// Replaces the coefficients of block `b`.
    pub fn replace(&mut self, b: usize, coefficients: Vec<f32>) {
        self.materialise_scale();
        self.blocks[b] = coefficients;
    }

    /// What a file needs to go on from the present iterate, but for the map and the offset.
    pub(crate) fn iterate(&self) -> Iterate {
        let average = self.average.as_ref();
        Iterate {
            scale: self.scale,
            most: self.most,
            averaging: average.map(|average| (average.rule, average.steps)),
            step_sizes: average.map_or(0.0, |average| average.step_sizes),
            coefficients: self.blocks.concat(),
            average: average.map_or_else(Vec::new, RunningAverage::numbers),
        }
    }

    /// The expansion that [`FeatureExpansion::iterate`] was taken from.
    pub(crate) fn from_iterate(map: FeatureMap, offset: Vec<f32>, iterate: Iterate) -> Self {
        let size = map.block_size * offset.len();
        let mut f = Self::new(map, offset).limited_to(iterate.most);
        f.blocks = iterate.coefficients.chunks(size).map(<[f32]>::to_vec).collect();
        f.scale = iterate.scale;
        f.average = iterate
            .averaging
            .map(|of| RunningAverage::from_numbers(of, iterate.step_sizes, &iterate.average, size));
        f
    }

    /// Forgets all blocks from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.blocks.truncate(len);
    }

    /// Multiplies the running scalar into the coefficients.
    pub(crate) fn materialise_scale(&mut self) {
        let scale = std::mem::replace(&mut self.scale, 1.0) as f32;
        if scale != 1.0 {
            self.blocks.iter_mut().flatten().for_each(|a| *a *= scale);
        }
    }

    /// out += (blocks `range` of f)(rows), without offset.
    pub fn add_blocks(&self, range: Range<usize>, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        let wave = (WAVE_BYTES / self.map.block_bytes()).clamp(1, 64);
        let scale = self.scale as f32;
        for start in range.clone().step_by(wave) {
            let some = start..(start + wave).min(range.end);
            let drawn: Vec<_> = some.clone().map(|b| self.draw(b)).collect::<Result<_>>()?;
            let scaled: Vec<Vec<f32>> = match scale {
                1.0 => Vec::new(),
                _ => {
                    self.blocks[some.clone()].iter().map(|b| b.iter().map(|a| a * scale).collect()).collect()
                }
            };
            let coefficients = if scale == 1.0 { &self.blocks[some] } else { &scaled[..] };
            let pairs: Vec<_> = drawn.iter().zip(coefficients).map(|(d, c)| (d, &c[..])).collect();
            self.add_drawn(&pairs, rows, out)?;
        }
        Ok(())
    }

    /// out += Σ_b Φ_b A_b. Few rows leave nothing to divide among the threads but the blocks, whose values are then added
    /// in their order: the bits are the same either way.
    fn add_drawn(&self, pairs: &[(&FeatureBlock, &[f32])], rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        let c = self.outputs();
        if rows.len() > TILE || pairs.len() == 1 {
            return compute::apply(self.device, pairs, rows, c, out);
        }
        let values: Vec<Vec<f32>> = pairs
            .par_iter()
            .map(|pair| {
                let mut values = vec![0.0; rows.len() * c];
                compute::apply(self.device, std::slice::from_ref(pair), rows, c, &mut values).map(|()| values)
            })
            .collect::<Result<_>>()?;
        values.iter().for_each(|values| out.iter_mut().zip(values).for_each(|(out, v)| *out += v));
        Ok(())
    }

    /// f ← shrink·f by the running scalar.
    fn shrink(&mut self, shrink: f64) {
        // γν = 1 occurs (θν = 1: at the first step): drop what came before instead of dividing by zero later.
        if shrink == 0.0 {
            self.blocks.iter_mut().flatten().for_each(|a| *a = 0.0);
            self.scale = 1.0;
            return;
        }
        self.scale *= shrink;
        if self.scale.abs() < LEAST_SCALE {
            self.materialise_scale();
        }
    }

    /// factor Σ_i w_i φ_b(x_i) in units of the running scalar, m×C row-major.
    fn gradient(&self, b: usize, factor: f64, terms: &[Terms<'_>]) -> Result<Vec<f32>> {
        let (m, c) = (self.map.block_size, self.outputs());
        let block = self.draw(b)?;
        let mut sums = vec![0.0_f64; m * c];
        for Terms { rows, weights } in terms {
            let part = compute::adjoint(self.device, &block, *rows, weights, c)?;
            sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += f64::from(part));
        }
        let factor = factor / self.scale;
        Ok((0..m * c).map(|i| (sums[i % c * m + i / c] * factor) as f32).collect())
    }

    /// α_0 ← α_0 + size·`step`, and the average takes the iterate.
    pub(super) fn advance(&mut self, size: f64, step: &[f32]) {
        self.materialise_scale();
        self.blocks[0]
            .iter_mut()
            .zip(step)
            .for_each(|(a, d)| *a = (f64::from(*a) + size * f64::from(*d)) as f32);
        self.take_average(size);
    }

    /// Forgets the iterates averaged so far but for the present one, as if a step of size 1 had led to it.
    pub(super) fn restart_average(&mut self) {
        if let Some(average) = &mut self.average {
            *average = RunningAverage::new(average.rule);
        }
        self.take_average(1.0);
    }

    fn take_average(&mut self, size: f64) {
        if let Some(average) = &mut self.average {
            average.take(size, self.scale, self.blocks.iter().map(|block| &block[..]));
        }
    }

    /// α_b ← α_b + (γ/M) Σ_i w_i φ_b(x_i) for the M features of all blocks.
    fn refine(&mut self, size: f64, terms: &[Terms<'_>]) -> Result<()> {
        let factor = size / (self.map.block_size * self.len()) as f64;
        let all: Vec<usize> = (0..self.len()).collect();
        let steps: Vec<Vec<f32>> =
            all.into_par_iter().map(|b| self.gradient(b, factor, terms)).collect::<Result<_>>()?;
        for (block, step) in self.blocks.iter_mut().zip(steps) {
            block.iter_mut().zip(step).for_each(|(a, step)| *a += step);
        }
        Ok(())
    }
}

impl Function for FeatureExpansion {
    fn columns(&self) -> usize {
        self.map.columns()
    }

    fn outputs(&self) -> usize {
        self.offset.len()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        check_columns(self, rows)?;
        out.chunks_exact_mut(self.outputs()).for_each(|row| row.copy_from_slice(&self.offset));
        self.add_blocks(0..self.len(), rows, out)
    }
}

impl Space for FeatureExpansion {
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        terms.iter().try_for_each(|terms| check_columns(self, terms.rows))?;
        self.shrink(1.0 - size * ridge);
        if self.len() < self.most {
            let fresh = self.gradient(self.len(), size / self.map.block_size as f64, terms)?;
            self.blocks.push(fresh);
        } else {
            self.refine(size, terms)?;
        }
        self.take_average(size);
        Ok(())
    }
}

impl Averaged for FeatureExpansion {
    fn averaging(mut self, rule: Averaging) -> Self {
        self.average = Some(RunningAverage::new(rule));
        self
    }

    fn average(&self) -> Self {
        let mut mean = Self { average: None, ..self.clone() };
        match &self.average {
            Some(average) if average.steps > 0 => {
                (mean.blocks, mean.scale) = (average.parts().collect(), 1.0)
            }
            _ => mean.materialise_scale(),
        }
        mean
    }
}

impl FeatureSpace for FeatureExpansion {
    fn map(&self) -> &FeatureMap {
        self.map()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn device(&self) -> Device {
        self.device
    }

    fn coefficients(&self, b: usize) -> Cow<'_, [f32]> {
        self.coefficients(b)
    }

    fn push(&mut self, coefficients: Vec<f32>) {
        self.push(coefficients);
    }

    fn replace(&mut self, b: usize, coefficients: Vec<f32>) {
        self.replace(b, coefficients);
    }
}

impl Storable for FeatureExpansion {
    fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        Basis::features(self.map.clone())?.store(container, &format!("{name}.map"))?;
        let iterate = self.iterate();
        container.set_field(name, &iterate)?;
        for (part, values) in [("offset", self.offset.clone()), ("coefficients", iterate.coefficients)] {
            container.insert(&format!("{name}.{part}"), vec![values.len()], values)?;
        }
        container.insert(&format!("{name}.average"), vec![iterate.average.len()], iterate.average)
    }

    fn restore(container: &mut Container, name: &str) -> Result<Self> {
        let map = Basis::restore(container, &format!("{name}.map"))?;
        let map = map.feature_map().ok_or_else(|| Error::Format("an expansion without features".into()))?;
        let mut iterate: Iterate = container.field(name)?;
        let mut take = |part: &str| take_all(container, &format!("{name}.{part}"));
        let (offset, coefficients) = (take("offset")?, take("coefficients")?);
        let average = format!("{name}.average");
        let count = container.f64s(&average)?.1.len();
        (iterate.coefficients, iterate.average) = (coefficients, container.take_f64s(&average, &[count])?);
        let size = map.block_size * offset.len();
        let whole = |count: usize| size > 0 && count.is_multiple_of(size);
        if !whole(iterate.coefficients.len()) || !whole(iterate.average.len()) {
            return Err(Error::Format("blocks of an expansion are not whole".into()));
        }
        Ok(Self::from_iterate(map.clone(), offset, iterate))
    }
}
