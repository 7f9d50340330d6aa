//! The AVX-512 path.

use super::avx2::sum256;
use super::{power_of_two, three_transforms, Lanes, LANES};
use std::arch::x86_64::*;

/// One AVX-512 register.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

// SAFETY of the whole implementation: the instructions exist, because `on_device` calls these methods only
// on a `Device` that has them, and pointers are valid by the trait's contract.
impl Lanes for Avx512 {
    const WIDE: bool = true;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(_mm512_loadu_ps(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        _mm512_storeu_ps(to, self.0)
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self(_mm512_set1_ps(value))
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(_mm512_add_ps(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Self(_mm512_sub_ps(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Self(_mm512_mul_ps(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        Self(_mm512_fmadd_ps(self.0, factor.0, term.0))
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        Self(_mm512_max_ps(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        Self(_mm512_sqrt_ps(self.0))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let high = _mm512_extractf32x8_ps::<1>(self.0);
        sum256(_mm256_add_ps(_mm512_castps512_ps256(self.0), high))
    }
    #[inline(always)]
    unsafe fn add_to(self, sums: *mut f64) {
        let (low, high) = (_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
        for (eight, half) in [low, high].into_iter().enumerate() {
            let to = sums.add(8 * eight);
            _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), _mm512_cvtps_pd(half)));
        }
    }
    #[inline(always)]
    unsafe fn add_squares_to(self, sums: *mut f64) {
        let (low, high) = (_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
        for (eight, half) in [low, high].into_iter().enumerate() {
            let (to, v) = (sums.add(8 * eight), _mm512_cvtps_pd(half));
            _mm512_storeu_pd(to, _mm512_fmadd_pd(v, v, _mm512_loadu_pd(to)));
        }
    }
    #[inline(always)]
    unsafe fn fold(self) -> (Self, Self) {
        let n = _mm512_roundscale_ps::<0x08>(self.0);
        let sign = _mm512_slli_epi32::<31>(_mm512_cvtps_epi32(n));
        (Self(_mm512_sub_ps(self.0, n)), Self(_mm512_castsi512_ps(sign)))
    }
    #[inline(always)]
    unsafe fn flip(self, sign: Self) -> Self {
        Self(_mm512_xor_ps(self.0, sign.0))
    }
    #[inline(always)]
    unsafe fn exp2(self) -> Self {
        /// 2ʳ on [0, 1).
        const ABOVE_ZERO: [f32; 6] =
            [0.999_999_94, 0.693_153_1, 0.240_153_61, 0.055_826_318, 0.008_989_34, 0.001_877_576_7];
        // x − ⌊x⌋, and p · 2^⌊x⌋ with overflow to infinity. A number below
        // 2⁻¹²⁶ would cost a hundred cycles, and the polynomial may be just below one.
        let x = self.max(Self::splat(-125.0)).0;
        let r = Self(_mm512_reduce_ps::<0x01>(x));
        Self(_mm512_scalef_ps(power_of_two(r, &ABOVE_ZERO).0, x))
    }
    #[inline(always)]
    unsafe fn transpose(block: &mut [Self; LANES]) {
        // Pairs, then quadruples within 128-bit groups, then the groups themselves.
        let mut pairs = [_mm512_setzero_ps(); LANES];
        let mut quads = pairs;
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_ps(block[2 * i].0, block[2 * i + 1].0);
            pairs[2 * i + 1] = _mm512_unpackhi_ps(block[2 * i].0, block[2 * i + 1].0);
        }
        for i in [0, 1, 4, 5, 8, 9, 12, 13] {
            let to = i / 4 * 4 + i % 4 * 2;
            quads[to] = _mm512_shuffle_ps::<0x44>(pairs[i], pairs[i + 2]);
            quads[to + 1] = _mm512_shuffle_ps::<0xEE>(pairs[i], pairs[i + 2]);
        }
        for i in 0..4 {
            let a = _mm512_shuffle_f32x4::<0x88>(quads[i], quads[i + 4]);
            let b = _mm512_shuffle_f32x4::<0xDD>(quads[i], quads[i + 4]);
            let c = _mm512_shuffle_f32x4::<0x88>(quads[i + 8], quads[i + 12]);
            let d = _mm512_shuffle_f32x4::<0xDD>(quads[i + 8], quads[i + 12]);
            block[i].0 = _mm512_shuffle_f32x4::<0x88>(a, c);
            block[i + 4].0 = _mm512_shuffle_f32x4::<0x88>(b, d);
            block[i + 8].0 = _mm512_shuffle_f32x4::<0xDD>(a, c);
            block[i + 12].0 = _mm512_shuffle_f32x4::<0xDD>(b, d);
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16) {
        let bits = _mm512_castps_si512(self.0);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let carried = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let rounded = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(carried));
        _mm256_storeu_si256(to.cast(), rounded);
    }
    #[inline(always)]
    unsafe fn transform(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn compiled<L: Lanes>(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
            three_transforms::<L>(x, z, signs, size)
        }
        compiled::<Self>(x, z, signs, size)
    }
}
