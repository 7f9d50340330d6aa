//! The AVX2 path.

use super::{power_of_two, three_transforms, Lanes, AROUND_ZERO, LANES, MAGIC};
use std::arch::x86_64::*;

/// Two AVX2 registers.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256, __m256);

// SAFETY of the whole implementation: the instructions exist, because `on_device` calls these methods only
// on a `Device` that has them, and pointers are valid by the trait's contract.
impl Lanes for Avx2 {
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8)))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        _mm256_storeu_ps(to, self.0);
        _mm256_storeu_ps(to.add(8), self.1);
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self(_mm256_set1_ps(value), _mm256_set1_ps(value))
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1))
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Self(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1))
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Self(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1))
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        Self(_mm256_fmadd_ps(self.0, factor.0, term.0), _mm256_fmadd_ps(self.1, factor.1, term.1))
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        Self(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1))
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        Self(_mm256_sqrt_ps(self.0), _mm256_sqrt_ps(self.1))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        sum256(_mm256_add_ps(self.0, self.1))
    }
    #[inline(always)]
    unsafe fn add_to(self, sums: *mut f64) {
        for (half, eight) in [self.0, self.1].into_iter().enumerate() {
            let (low, high) = (_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            for (quarter, four) in [low, high].into_iter().enumerate() {
                let to = sums.add(8 * half + 4 * quarter);
                _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), _mm256_cvtps_pd(four)));
            }
        }
    }
    #[inline(always)]
    unsafe fn add_squares_to(self, sums: *mut f64) {
        for (half, eight) in [self.0, self.1].into_iter().enumerate() {
            let (low, high) = (_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            for (quarter, four) in [low, high].into_iter().enumerate() {
                let (to, v) = (sums.add(8 * half + 4 * quarter), _mm256_cvtps_pd(four));
                _mm256_storeu_pd(to, _mm256_fmadd_pd(v, v, _mm256_loadu_pd(to)));
            }
        }
    }
    #[inline(always)]
    unsafe fn fold(self) -> (Self, Self) {
        let (r0, s0) = fold256(self.0);
        let (r1, s1) = fold256(self.1);
        (Self(r0, r1), Self(s0, s1))
    }
    #[inline(always)]
    unsafe fn flip(self, sign: Self) -> Self {
        Self(_mm256_xor_ps(self.0, sign.0), _mm256_xor_ps(self.1, sign.1))
    }
    #[inline(always)]
    unsafe fn exp2(self) -> Self {
        let (low, high) = (Self::splat(-126.0), Self::splat(127.0));
        let x = self.max(low);
        let x = Self(_mm256_min_ps(x.0, high.0), _mm256_min_ps(x.1, high.1));
        let rounded = x.add(Self::splat(MAGIC));
        let r = x.sub(rounded.sub(Self::splat(MAGIC)));
        let p = power_of_two(r, &AROUND_ZERO);
        Self(scale256(p.0, rounded.0), scale256(p.1, rounded.1))
    }
    #[inline(always)]
    unsafe fn transpose(block: &mut [Self; LANES]) {
        let mut quarters = [[[_mm256_setzero_ps(); 8]; 2]; 2];
        for i in 0..8 {
            quarters[0][0][i] = block[i].0;
            quarters[0][1][i] = block[i].1;
            quarters[1][0][i] = block[i + 8].0;
            quarters[1][1][i] = block[i + 8].1;
        }
        for row in &mut quarters {
            for quarter in row {
                transpose8(quarter);
            }
        }
        for i in 0..8 {
            block[i] = Self(quarters[0][0][i], quarters[1][0][i]);
            block[i + 8] = Self(quarters[0][1][i], quarters[1][1][i]);
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16) {
        let (low, high) = (round256(self.0), round256(self.1));
        let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
        _mm256_storeu_si256(to.cast(), packed);
    }
    #[inline(always)]
    unsafe fn transform(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn compiled<L: Lanes>(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
            three_transforms::<L>(x, z, signs, size)
        }
        compiled::<Self>(x, z, signs, size)
    }
}

#[inline(always)]
pub(super) unsafe fn sum256(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

#[inline(always)]
unsafe fn fold256(t: __m256) -> (__m256, __m256) {
    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(t);
    let sign = _mm256_slli_epi32::<31>(_mm256_cvtps_epi32(n));
    (_mm256_sub_ps(t, n), _mm256_castsi256_ps(sign))
}

/// p · 2ⁿ for the integer n in the low bits of `rounded`.
#[inline(always)]
unsafe fn scale256(p: __m256, rounded: __m256) -> __m256 {
    let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(rounded));
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent))
}

#[inline(always)]
unsafe fn round256(v: __m256) -> __m256i {
    let bits = _mm256_castps_si256(v);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let carried = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    _mm256_srli_epi32::<16>(carried)
}

#[inline(always)]
unsafe fn transpose8(r: &mut [__m256; 8]) {
    let (mut t, mut s) = (*r, *r);
    for i in 0..4 {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for i in [0, 1, 4, 5] {
        let to = i / 4 * 4 + i % 4 * 2;
        s[to] = _mm256_shuffle_ps::<0x44>(t[i], t[i + 2]);
        s[to + 1] = _mm256_shuffle_ps::<0xEE>(t[i], t[i + 2]);
    }
    for i in 0..4 {
        r[i] = _mm256_permute2f128_ps::<0x20>(s[i], s[i + 4]);
        r[i + 4] = _mm256_permute2f128_ps::<0x31>(s[i], s[i + 4]);
    }
}
