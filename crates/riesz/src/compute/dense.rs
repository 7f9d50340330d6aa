//! Independent random features: a matrix product, then cosine and product, tile by tile.

use super::lanes::{half_turn_cosine, Kernel, Lanes, LANES};
use super::products::{Group, Sink};
use super::{check_block, check_length, FeatureBlock, Kind};
use crate::error::Result;

/// What is done to a column before it is projected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    /// x − shift.
    Plain,
    /// log(x + c) − shift.
    Log {
        /// c.
        constant: f32,
    },
}

/// What becomes of a projection z.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// √2 cos π(z + phase).
    Cosine,
    /// √2 zⁿ where z > 0, else zero.
    Ramp {
        /// n.
        power: u32,
    },
    /// exp(−z).
    Decay,
}

/// A block of dense random features: feature i is the activation of ⟨frequency_i, x⟩.
///
/// Standardisation is folded into the frequencies and phases; only the shift is subtracted from the data, so
/// that large means do not cost precision.
#[derive(Clone, Debug)]
pub struct DenseBlock {
    /// Subtracted from each column.
    pub shift: Vec<f32>,
    /// What is done to each column first.
    pub input: Input,
    /// What becomes of each projection.
    pub activation: Activation,
    /// Frequencies, one row of d numbers each; in half turns for cosines.
    pub frequencies: Vec<f32>,
    /// Phases in half turns, one per feature: the second half of the features repeats the frequencies
    /// of the first when there are twice as many phases as frequencies.
    pub phase: Vec<f32>,
}

impl DenseBlock {
    /// The block, if its parts fit each other.
    pub fn build(self) -> Result<FeatureBlock> {
        let d = self.shift.len();
        let frequencies = self.frequencies.len() / d.max(1);
        check_block(d, frequencies, self.phase.len())?;
        check_length("frequencies", frequencies * d, self.frequencies.len())?;
        Ok(FeatureBlock(Kind::Dense(self)))
    }
}

/// Rows projected at once: enough that packing the frequencies is a small part of the product.
const CHUNK: usize = 512;

/// Sends the features of the rows `x` (row-major) to `sink`.
pub(crate) struct Stream<'a, S> {
    pub block: &'a DenseBlock,
    pub x: &'a [f32],
    pub sink: S,
}

impl<S: Sink> Kernel for Stream<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) {
        let (block, d) = (self.block, self.block.shift.len());
        let rows = self.x.len() / d;
        let frequencies = block.frequencies.len() / d;
        let stride = CHUNK.min(rows.next_multiple_of(LANES));
        let mut z = vec![0.0_f32; frequencies * stride];
        let mut phi = vec![0.0_f32; PANEL * LANES];
        let mut centred = Vec::with_capacity(stride * d);
        for start in (0..rows).step_by(stride) {
            let count = (rows - start).min(stride);
            prepare(&self.x[start * d..(start + count) * d], block, &mut centred);
            // Whole lane groups: the product takes another route for a few rows, and a row must not depend on how
            // many others it comes with.
            centred.resize(count.next_multiple_of(LANES) * d, 0.0);
            project(&block.frequencies, &centred, d, &mut z, stride);
            for row in (0..count).step_by(LANES) {
                // SAFETY: z holds `stride` ≥ row + 16 numbers per frequency.
                unsafe {
                    for first in (0..block.phase.len()).step_by(frequencies) {
                        emit::<L, S>(block, &z[row..], stride, first, &mut phi, start + row, &mut self.sink);
                    }
                    self.sink.finish::<L>(start + row, (count - row).min(LANES));
                }
            }
        }
    }
}

/// Features activated at once, so that they are still in cache when the sink takes them.
const PANEL: usize = 256;

/// Activates the features `first..first + frequencies` of one lane group and passes them on.
#[inline(always)]
unsafe fn emit<L: Lanes, S: Sink>(
    block: &DenseBlock,
    z: &[f32],
    stride: usize,
    first: usize,
    phi: &mut [f32],
    row: usize,
    sink: &mut S,
) {
    let frequencies = block.frequencies.len() / block.shift.len();
    for panel in (0..frequencies).step_by(PANEL) {
        let count = (frequencies - panel).min(PANEL);
        // SAFETY: (panel + count) · stride numbers of z exist, phi holds PANEL vectors.
        unsafe {
            for i in 0..count {
                let t = L::load(z.as_ptr().add((panel + i) * stride));
                let out = phi.as_mut_ptr().add(i * LANES);
                match block.activation {
                    Activation::Cosine => {
                        half_turn_cosine(t.add(L::splat(block.phase[first + panel + i]))).store(out);
                    }
                    Activation::Ramp { power } => each_lane(t, out, |z| ramp(z, power)),
                    Activation::Decay => each_lane(t, out, |z| (-z).exp()),
                }
            }
            sink.take::<L>(row, Group { phi: phi.as_ptr(), stride: LANES, offset: first + panel, count });
        }
    }
}

/// √2 zⁿ where z > 0, else zero.
#[inline(always)]
fn ramp(z: f32, power: u32) -> f32 {
    if z > 0.0 {
        std::f32::consts::SQRT_2 * z.powi(power as i32)
    } else {
        0.0
    }
}

/// Applies `f` to every lane of `t`.
#[inline(always)]
unsafe fn each_lane<L: Lanes>(t: L, out: *mut f32, f: impl Fn(f32) -> f32) {
    // SAFETY: `out` is valid for sixteen numbers.
    unsafe {
        t.store(out);
        for lane in 0..LANES {
            *out.add(lane) = f(*out.add(lane));
        }
    }
}

/// The rows as they are projected.
#[inline(always)]
fn prepare(x: &[f32], block: &DenseBlock, out: &mut Vec<f32>) {
    out.clear();
    for row in x.chunks_exact(block.shift.len()) {
        match block.input {
            Input::Plain => out.extend(row.iter().zip(&block.shift).map(|(v, s)| v - s)),
            Input::Log { constant } => {
                out.extend(row.iter().zip(&block.shift).map(|(v, s)| (v + constant).ln() - s));
            }
        }
    }
}

/// z = frequencies · xᵀ, one row of `stride` numbers per frequency.
fn project(frequencies: &[f32], x: &[f32], d: usize, z: &mut [f32], stride: usize) {
    let (m, n) = (frequencies.len() / d, x.len() / d);
    // SAFETY: the three matrices are within their slices: m×d, d×n (transposed view of n×d), m×stride with
    // n ≤ stride; the destination does not alias the sources.
    unsafe {
        gemm::gemm(
            m,
            n,
            d,
            z.as_mut_ptr(),
            1,
            stride as isize,
            false,
            frequencies.as_ptr(),
            1,
            d as isize,
            x.as_ptr(),
            d as isize,
            1,
            0.0_f32,
            1.0_f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
