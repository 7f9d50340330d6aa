//! Structured orthogonal random features: transform, cosine and product, fused.

use super::lanes::{half_turn_cosine, load_all, Kernel, Lanes, LANES};
use super::products::{Group, Sink};
use super::{check_block, check_length, FeatureBlock, Kind};
use crate::error::{in_range, Result};

/// A block of structured orthogonal features (SORF).
///
/// With D the dimension padded to a power of two and H the unnormalised Walsh–Hadamard matrix, copy c of the
/// block projects x̃ = (x − shift)·scale to z = H D₁ H D₂ H D₃ x̃, and feature i is √2 cos π(gain_i z_i + phase_i).
#[derive(Clone, Debug)]
pub struct StructuredBlock {
    /// Subtracted from each column.
    pub shift: Vec<f32>,
    /// Multiplied to each shifted column.
    pub scale: Vec<f32>,
    /// Padded dimension D, a power of two, at least 16.
    pub padded: usize,
    /// D₃, D₂, D₁ of every copy, 3·D signs each.
    pub signs: Vec<f32>,
    /// 1/(π σ) times what makes the row norms right, one per frequency.
    pub gain: Vec<f32>,
    /// Phases in half turns, one per feature: the second half of the features repeats the frequencies
    /// of the first when there are twice as many phases as gains.
    pub phase: Vec<f32>,
}

impl StructuredBlock {
    /// The block, if its parts fit each other.
    pub fn build(self) -> Result<FeatureBlock> {
        let (d, frequencies) = (self.shift.len(), self.gain.len());
        check_block(d, frequencies, self.phase.len())?;
        check_length("scale", d, self.scale.len())?;
        let possible = self.padded.is_power_of_two() && self.padded >= d.max(LANES);
        let range = "powers of two, at least 16 and the number of columns";
        in_range("padded", self.padded as f64, possible, range)?;
        let copies = frequencies.div_ceil(self.padded);
        check_length("signs", 3 * self.padded * copies, self.signs.len())?;
        Ok(FeatureBlock(Kind::Structured(self)))
    }
}

/// Features activated at once, so that they are still in first-level cache when the sink takes them.
const PANEL: usize = 256;

/// Sends the features of the rows `x` (row-major) to `sink`.
pub(crate) struct Stream<'a, S> {
    pub block: &'a StructuredBlock,
    pub x: &'a [f32],
    pub sink: S,
}

impl<S: Sink> Kernel for Stream<'_, S> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(mut self) {
        let (block, d) = (self.block, self.block.shift.len());
        let (rows, padded) = (self.x.len() / d, block.padded);
        let mut input = vec![0.0_f32; padded * LANES];
        let mut z = vec![0.0_f32; padded * LANES];
        let mut phi = vec![0.0_f32; PANEL.min(padded) * LANES];
        let frequencies = block.gain.len();
        for row in (0..rows).step_by(LANES) {
            let valid = (rows - row).min(LANES);
            // SAFETY: buffers hold D vectors; offsets stay below the number of frequencies and features.
            unsafe {
                gather::<L>(block, &self.x[row * d..(row + valid) * d], &mut input);
                for (copy, signs) in block.signs.chunks_exact(3 * padded).enumerate() {
                    L::transform(input.as_ptr(), z.as_mut_ptr(), signs.as_ptr(), padded);
                    let end = (copy * padded + padded).min(frequencies);
                    for offset in (copy * padded..end).step_by(PANEL) {
                        let count = PANEL.min(end - offset);
                        let z = &z[offset % padded * LANES..];
                        for first in (0..block.phase.len()).step_by(frequencies) {
                            let (gain, phase) = (&block.gain[offset..], &block.phase[first + offset..]);
                            activate::<L>(z, &gain[..count], &phase[..count], &mut phi);
                            let group =
                                Group { phi: phi.as_ptr(), stride: LANES, offset: first + offset, count };
                            self.sink.take::<L>(row, group);
                        }
                    }
                }
                self.sink.finish::<L>(row, valid);
            }
        }
    }
}

/// phi_i = √2 cos π(gain_i z_i + phase_i).
#[inline(always)]
unsafe fn activate<L: Lanes>(z: &[f32], gain: &[f32], phase: &[f32], phi: &mut [f32]) {
    for (i, (&gain, &phase)) in gain.iter().zip(phase).enumerate() {
        // SAFETY: i < count ≤ D.
        unsafe {
            let t = L::load(z.as_ptr().add(i * LANES)).mul_add(L::splat(gain), L::splat(phase));
            half_turn_cosine(t).store(phi.as_mut_ptr().add(i * LANES));
        }
    }
}

/// Transposes up to sixteen rows into lanes, standardised; missing rows and padding are zero.
#[inline(always)]
unsafe fn gather<L: Lanes>(block: &StructuredBlock, x: &[f32], out: &mut [f32]) {
    let d = block.shift.len();
    let rows = x.len() / d;
    let whole = if rows == LANES { d / LANES * LANES } else { 0 };
    for j in (0..whole).step_by(LANES) {
        // SAFETY: sixteen rows and columns j..j + 16 exist.
        unsafe {
            let (shift, scale) = (L::load(block.shift.as_ptr().add(j)), L::load(block.scale.as_ptr().add(j)));
            let mut tile = load_all::<L, LANES>(x.as_ptr().add(j), d);
            for row in &mut tile {
                *row = row.sub(shift).mul(scale);
            }
            L::transpose(&mut tile);
            for (k, column) in tile.iter().enumerate() {
                column.store(out.as_mut_ptr().add((j + k) * LANES));
            }
        }
    }
    for j in whole..d {
        for lane in 0..LANES {
            out[j * LANES + lane] =
                if lane < rows { (x[lane * d + j] - block.shift[j]) * block.scale[j] } else { 0.0 };
        }
    }
}
