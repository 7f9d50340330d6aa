//! The Walsh–Hadamard transform of sixteen rows at once, three in a row with random signs between.
//!
//! The stages of a Walsh–Hadamard transform commute, so the last stage of one transform and the first of the next can
//! be chosen to touch the same few vectors: load, transform, flip signs, transform again, store. With index
//! i = (i_c, i_b, i_a), i_a < 16, i_b < 16, three signed transforms are the passes
//!
//! ```text
//! [D₃ a] [b]   [c D₂ c]   [a] [b D₁ b] [a]   [c]
//! ```
//!
//! where a and b stay within runs of 256 vectors in the first-level cache; each pass adds and subtracts whole
//! registers, never shuffles. For D ≤ 256 there is no c, and D₂ is applied on its own.

use super::lanes::{load_all, Lanes, LANES};

/// Vectors in a run that stays in first-level cache.
const RUN: usize = 256;
/// No signs in this pass.
const NONE: u8 = 0;
/// Signs are multiplied before the butterflies.
const BEFORE: u8 = 1;
/// Butterflies, signs, butterflies.
const BETWEEN: u8 = 2;

/// z = H D₁ H D₂ H D₃ x in every lane, H the unnormalised Walsh–Hadamard matrix of size D = 2ᵏ ≥ 16; `signs` holds
/// D₃, D₂ and D₁.
///
/// # Safety
/// `x` and `z` are valid for 16 D numbers, `signs` for 3 D; the machine has the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn three_transforms<L: Lanes>(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
    // SAFETY: every pass touches exactly the D vectors of `z`; signs are indexed as z is.
    unsafe {
        let (third, second, first) = (signs, signs.add(size), signs.add(2 * size));
        let run = size.min(RUN);
        for start in (0..size).step_by(run) {
            let (x, z) = (x.add(start * LANES), z.add(start * LANES));
            pass_from::<L, 16, BEFORE>(x, z, third.add(start), run, 1);
            middle::<L, NONE>(z, third, run);
        }
        outer::<L, BETWEEN>(z, second, size);
        for start in (0..size).step_by(run) {
            let z = z.add(start * LANES);
            pass::<L, 16, NONE>(z, first, run, 1);
            middle::<L, BETWEEN>(z, first.add(start), run);
            pass::<L, 16, NONE>(z, first, run, 1);
        }
        outer::<L, NONE>(z, second, size);
    }
}

/// The stages b: stride 16 within a run.
#[inline(always)]
unsafe fn middle<L: Lanes, const SIGNS: u8>(z: *mut f32, signs: *const f32, run: usize) {
    // SAFETY: as for the caller.
    unsafe {
        match run / 16 {
            16 => pass::<L, 16, SIGNS>(z, signs, run, 16),
            8 => pass::<L, 8, SIGNS>(z, signs, run, 16),
            4 => pass::<L, 4, SIGNS>(z, signs, run, 16),
            2 => pass::<L, 2, SIGNS>(z, signs, run, 16),
            _ => pass::<L, 1, SIGNS>(z, signs, run, 16),
        }
    }
}

/// The stages c: stride 256 and above, in as many passes of radix up to 16 as the size needs. Signs are applied once, in
/// the last pass before which and after which all other passes are done.
#[inline(always)]
unsafe fn outer<L: Lanes, const SIGNS: u8>(z: *mut f32, signs: *const f32, size: usize) {
    // SAFETY: as for the caller.
    unsafe {
        let mut stride = RUN;
        while size / stride > 16 {
            pass::<L, 16, NONE>(z, signs, size, stride);
            stride *= 16;
        }
        match size / stride {
            16 => pass::<L, 16, SIGNS>(z, signs, size, stride),
            8 => pass::<L, 8, SIGNS>(z, signs, size, stride),
            4 => pass::<L, 4, SIGNS>(z, signs, size, stride),
            2 => pass::<L, 2, SIGNS>(z, signs, size, stride),
            _ => pass::<L, 1, SIGNS>(z, signs, size, stride),
        }
        while SIGNS == BETWEEN && stride > RUN {
            stride /= 16;
            pass::<L, 16, NONE>(z, signs, size, stride);
        }
    }
}

/// A pass in place.
#[inline(always)]
unsafe fn pass<L: Lanes, const R: usize, const SIGNS: u8>(
    z: *mut f32,
    signs: *const f32,
    size: usize,
    stride: usize,
) {
    // SAFETY: reading from and writing to the same vectors, each read before it is written.
    unsafe { pass_from::<L, R, SIGNS>(z, z, signs, size, stride) }
}

/// One pass: butterflies of radix R over indices that differ by multiples of `stride`.
#[inline(always)]
unsafe fn pass_from<L: Lanes, const R: usize, const SIGNS: u8>(
    from: *const f32,
    z: *mut f32,
    signs: *const f32,
    size: usize,
    stride: usize,
) {
    if R == 1 && SIGNS == NONE {
        return;
    }
    let mut base = 0;
    while base < size {
        for offset in base..base + stride.min(size) {
            // SAFETY: offset + (R − 1) stride < size.
            unsafe {
                let mut v = load_all::<L, R>(from.add(offset * LANES), stride * LANES);
                if SIGNS == BEFORE {
                    flip(&mut v, signs.add(offset), stride);
                }
                butterfly(&mut v);
                if SIGNS == BETWEEN {
                    flip(&mut v, signs.add(offset), stride);
                    butterfly(&mut v);
                }
                for (k, value) in v.iter().enumerate() {
                    value.store(z.add((offset + k * stride) * LANES));
                }
            }
        }
        base += R * stride.min(size);
    }
}

/// Multiplies by the signs at `signs`, `signs + stride`, …
#[inline(always)]
unsafe fn flip<L: Lanes, const R: usize>(v: &mut [L; R], signs: *const f32, stride: usize) {
    for (k, value) in v.iter_mut().enumerate() {
        // SAFETY: the caller vouches for the signs.
        *value = unsafe { value.mul(L::splat(*signs.add(k * stride))) };
    }
}

/// The transform of R registers.
#[inline(always)]
unsafe fn butterfly<L: Lanes, const R: usize>(v: &mut [L; R]) {
    let mut half = 1;
    while half < R {
        for i in 0..R {
            if i & half == 0 {
                let (a, b) = (v[i], v[i + half]);
                // SAFETY: the caller vouches for the instructions.
                unsafe {
                    v[i] = a.add(b);
                    v[i + half] = a.sub(b);
                }
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{on_device, Kernel};
    use super::super::Device;
    use super::*;

    struct Transform<'a>(&'a mut [f32], &'a [f32]);
    impl Kernel for Transform<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            let x = self.0.to_vec();
            unsafe {
                three_transforms::<L>(x.as_ptr(), self.0.as_mut_ptr(), self.1.as_ptr(), self.1.len() / 3)
            }
        }
    }

    /// y ← H diag(signs) y by the textbook loop.
    fn textbook(y: &mut [f64], signs: &[f32]) {
        y.iter_mut().zip(signs).for_each(|(v, s)| *v *= f64::from(*s));
        let mut half = 1;
        while half < y.len() {
            for i in (0..y.len()).filter(|i| i & half == 0) {
                (y[i], y[i + half]) = (y[i] + y[i + half], y[i] - y[i + half]);
            }
            half *= 2;
        }
    }

    #[test]
    fn equals_three_textbook_transforms_for_every_size() {
        for device in Device::available() {
            for size in (4..15).chain([17, 18]).map(|k| 1usize << k) {
                let signs: Vec<f32> =
                    (0..3 * size).map(|i| if (i * i / 7) % 3 == 0 { -1.0 } else { 1.0 }).collect();
                let mut z: Vec<f32> = (0..size * LANES).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
                let lanes = [0, 7, 15];
                let mut expected: Vec<Vec<f64>> =
                    lanes.iter().map(|l| (0..size).map(|i| f64::from(z[i * LANES + l])).collect()).collect();
                on_device(device, Transform(&mut z, &signs));
                for (lane, y) in lanes.iter().zip(&mut expected) {
                    signs.chunks_exact(size).for_each(|s| textbook(y, s));
                    let scale = y.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
                    for i in 0..size {
                        let error = (f64::from(z[i * LANES + lane]) - y[i]).abs();
                        assert!(error < 1e-5 * scale, "{device}, size {size}, index {i}: {error} of {scale}");
                    }
                }
            }
        }
    }
}
