//! The portable path: plain arrays, left to the compiler.

use super::{bf16, power_of_two, three_transforms, Lanes, AROUND_ZERO, LANES, MAGIC};

/// Sixteen numbers in a plain array.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; LANES]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Lanes for Portable {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's pointer is valid for sixteen numbers.
        Self(unsafe { from.cast::<[f32; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as for `load`.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; LANES])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * factor.0[i] + term.0[i]))
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, f32::max)
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        Self(self.0.map(f32::sqrt))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let halves: [f32; 8] = std::array::from_fn(|i| self.0[i] + self.0[i + 8]);
        let quarters: [f32; 4] = std::array::from_fn(|i| halves[i] + halves[i + 4]);
        (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
    }
    #[inline(always)]
    unsafe fn add_to(self, sums: *mut f64) {
        for (i, value) in self.0.into_iter().enumerate() {
            // SAFETY: the caller's pointer is valid for sixteen numbers.
            unsafe { *sums.add(i) += f64::from(value) }
        }
    }
    #[inline(always)]
    unsafe fn add_squares_to(self, sums: *mut f64) {
        for (i, value) in self.0.into_iter().enumerate() {
            // SAFETY: the caller's pointer is valid for sixteen numbers.
            unsafe { *sums.add(i) += f64::from(value) * f64::from(value) }
        }
    }
    #[inline(always)]
    unsafe fn fold(self) -> (Self, Self) {
        // Beyond 2²² the fraction is below the spacing of the numbers and is taken as zero.
        let rounded = self.0.map(|t| t + MAGIC);
        let r = std::array::from_fn(|i| {
            let r = self.0[i] - (rounded[i] - MAGIC);
            if self.0[i].abs() < 4_194_304.0 {
                r
            } else {
                0.0
            }
        });
        (Self(r), Self(rounded.map(|s| f32::from_bits(s.to_bits() << 31))))
    }
    #[inline(always)]
    unsafe fn flip(self, sign: Self) -> Self {
        self.zip(sign, |a, s| f32::from_bits(a.to_bits() ^ s.to_bits()))
    }
    #[inline(always)]
    unsafe fn exp2(self) -> Self {
        let x = self.0.map(|x| x.clamp(-126.0, 127.0));
        let rounded = x.map(|x| x + MAGIC);
        let r = Self(std::array::from_fn(|i| x[i] - (rounded[i] - MAGIC)));
        // SAFETY: plain Rust.
        let p = unsafe { power_of_two(r, &AROUND_ZERO) }.0;
        let scaled = |i: usize| f32::from_bits(p[i].to_bits().wrapping_add(rounded[i].to_bits() << 23));
        Self(std::array::from_fn(scaled))
    }
    #[inline(always)]
    unsafe fn transpose(block: &mut [Self; LANES]) {
        let old = *block;
        for (i, row) in block.iter_mut().enumerate() {
            row.0 = std::array::from_fn(|j| old[j].0[i]);
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16) {
        // SAFETY: the caller's pointer is valid for sixteen numbers.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(self.0.map(bf16)) }
    }
    #[inline(never)]
    unsafe fn transform(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
        // SAFETY: passed on unchanged.
        unsafe { three_transforms::<Self>(x, z, signs, size) }
    }
}
