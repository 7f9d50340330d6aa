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
/// Up to this many columns a projection is as many products in lanes: a product of matrices would pack more than it multiplies.
const FEW: usize = 8;

/// Sends the features of the rows `x` (row-major) to `sink`.
pub(crate) struct Stream<'a, S> {
    pub block: &'a DenseBlock,
    pub x: &'a [f32],
    pub sink: S,
}

impl<S: Sink> Kernel for Stream<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the caller runs with the instructions of `L`.
        unsafe {
            match self.block.shift.len() {
                ..=FEW => self.in_lanes::<L>(),
                _ => self.by_product::<L>(),
            }
        }
    }
}

impl<S: Sink> Stream<'_, S> {
    /// All projections of some rows, then their features.
    #[inline(always)]
    unsafe fn by_product<L: Lanes>(mut self) {
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
                // SAFETY: z holds `stride` ≥ row + 16 numbers per frequency, phi PANEL vectors.
                unsafe {
                    for (first, panel, count) in panels(block) {
                        let z = (z.as_ptr().add(panel * stride + row), stride);
                        activate::<L>(block, z, first + panel, count, phi.as_mut_ptr());
                        let (phi, offset) = (phi.as_ptr(), first + panel);
                        self.sink.take::<L>(start + row, Group { phi, stride: LANES, offset, count });
                    }
                    self.sink.finish::<L>(start + row, (count - row).min(LANES));
                }
            }
        }
    }

    /// The projections of sixteen rows a panel at a time, in lanes; they stay in cache until they are features.
    #[inline(always)]
    unsafe fn in_lanes<L: Lanes>(mut self) {
        let (block, d) = (self.block, self.block.shift.len());
        let rows = self.x.len() / d;
        let mut phi = vec![0.0_f32; PANEL * LANES];
        let (mut centred, mut columns) = (Vec::with_capacity(LANES * d), [0.0_f32; FEW * LANES]);
        for row in (0..rows).step_by(LANES) {
            let valid = (rows - row).min(LANES);
            prepare(&self.x[row * d..(row + valid) * d], block, &mut centred);
            for (i, own) in centred.chunks_exact(d).enumerate() {
                for (k, value) in own.iter().enumerate() {
                    columns[k * LANES + i] = *value;
                }
            }
            // SAFETY: there are d ≤ FEW columns of sixteen numbers, d numbers for each frequency, and phi holds PANEL vectors.
            unsafe {
                for (first, panel, count) in panels(block) {
                    for i in 0..count {
                        let frequency = block.frequencies.as_ptr().add((panel + i) * d);
                        let mut z = L::splat(*frequency).mul(L::load(columns.as_ptr()));
                        for k in 1..d {
                            let column = L::load(columns.as_ptr().add(k * LANES));
                            z = L::splat(*frequency.add(k)).mul_add(column, z);
                        }
                        z.store(phi.as_mut_ptr().add(i * LANES));
                    }
                    activate::<L>(block, (phi.as_ptr(), LANES), first + panel, count, phi.as_mut_ptr());
                    let (phi, offset) = (phi.as_ptr(), first + panel);
                    self.sink.take::<L>(row, Group { phi, stride: LANES, offset, count });
                }
                self.sink.finish::<L>(row, valid);
            }
        }
    }
}

/// Cosines of few columns, row-major, sixteen features of a row side by side: nothing is transposed, and no row waits for
/// fifteen others. Every number is rounded as in [`Stream`].
pub(crate) struct Rowwise<'a> {
    pub block: &'a DenseBlock,
    pub x: &'a [f32],
    pub out: &'a mut [f32],
    /// Where a row begins after the one before.
    pub stride: usize,
    /// What features are multiplied by.
    pub scale: f32,
}

impl Rowwise<'_> {
    /// Whether it is for this block.
    pub(crate) fn suits(block: &DenseBlock) -> bool {
        block.shift.len() <= FEW && block.activation == Activation::Cosine
    }
}

impl Kernel for Rowwise<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { block, x, out, stride, scale } = self;
        let (d, m) = (block.shift.len(), block.phase.len());
        let frequencies = block.frequencies.len() / d;
        let columns: Vec<f32> =
            (0..d * frequencies).map(|i| block.frequencies[i % frequencies * d + i / frequencies]).collect();
        let mut centred = Vec::with_capacity(x.len());
        prepare(x, block, &mut centred);
        for (x, out) in centred.chunks_exact(d).zip(out.chunks_mut(stride)) {
            let out = &mut out[..m];
            for (first, frequency) in (0..m).step_by(LANES).map(|first| (first, first % frequencies)) {
                // SAFETY: blocks have a multiple of sixteen frequencies, and m numbers of the row exist.
                unsafe {
                    let column = columns.as_ptr().add(frequency);
                    let mut z = L::load(column).mul(L::splat(x[0]));
                    for (k, x) in x.iter().enumerate().skip(1) {
                        z = L::load(column.add(k * frequencies)).mul_add(L::splat(*x), z);
                    }
                    let phi = half_turn_cosine(z.add(L::load(block.phase.as_ptr().add(first))));
                    phi.mul(L::splat(scale)).store(out.as_mut_ptr().add(first));
                }
            }
        }
    }
}

/// Features activated at once, so that they are still in cache when the sink takes them.
const PANEL: usize = 256;

/// For each panel of features: where the features of its frequencies begin, its first frequency, and how many.
#[inline(always)]
fn panels(block: &DenseBlock) -> impl Iterator<Item = (usize, usize, usize)> {
    let frequencies = block.frequencies.len() / block.shift.len();
    (0..block.phase.len()).step_by(frequencies).flat_map(move |first| {
        (0..frequencies).step_by(PANEL).map(move |panel| (first, panel, (frequencies - panel).min(PANEL)))
    })
}

/// The features of sixteen projections each, which lie a stride apart; they may be where the features go.
///
/// # Safety
/// There are `count` projections and room for as many vectors.
#[inline(always)]
unsafe fn activate<L: Lanes>(
    block: &DenseBlock,
    (z, stride): (*const f32, usize),
    first: usize,
    count: usize,
    phi: *mut f32,
) {
    // SAFETY: as the caller says.
    unsafe {
        for i in 0..count {
            let (t, out) = (L::load(z.add(i * stride)), phi.add(i * LANES));
            match block.activation {
                Activation::Cosine => half_turn_cosine(t.add(L::splat(block.phase[first + i]))).store(out),
                Activation::Ramp { power } => each_lane(t, out, |z| ramp(z, power)),
                Activation::Decay => each_lane(t, out, |z| (-z).exp()),
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::Device;

    /// Rows that are filled by themselves have the bits of rows that stream in lanes, times the scale, and nothing else is touched:
    /// for one phase a frequency and for two, and for numbers of rows around sixteen.
    #[test]
    fn rowwise_features_have_the_same_bits() {
        let number = |i: usize| ((i * 7_919 + 13) % 201) as f32 / 40.0 - 2.5;
        for (d, repeats, rows) in [(1, 1, 1), (2, 2, 16), (5, 1, 17), (FEW, 2, 40)] {
            let m = 64 * repeats;
            let block = DenseBlock {
                shift: (0..d).map(number).collect(),
                input: Input::Plain,
                activation: Activation::Cosine,
                frequencies: (0..64 * d).map(|i| number(3 * i)).collect(),
                phase: (0..m).map(|i| number(5 * i) / 2.5).collect(),
            };
            let (block, x) =
                (block.build().unwrap(), (0..rows * d).map(|i| number(i + 5)).collect::<Vec<_>>());
            for device in Device::available() {
                let (mut streamed, mut filled) = (vec![0.0; rows * m], vec![7.0; rows * (m + 1)]);
                block.fill(device, &x, &mut streamed).unwrap();
                block.fill_scaled(device, &x, (&mut filled, m + 1), 0.125).unwrap();
                for (streamed, filled) in streamed.chunks_exact(m).zip(filled.chunks_exact(m + 1)) {
                    assert!(streamed.iter().zip(filled).all(|(a, b)| 0.125 * a == *b), "{device}, {d}");
                    assert_eq!(filled[m], 7.0);
                }
            }
        }
    }
}
