//! Sixteen rows side by side: the vector type of the hot kernels.
//!
//! Every kernel is written once, generic over [`Lanes`], and compiled once per instruction path inside
//! a `#[target_feature]` wrapper ([`on_path`]). Sixteen lanes on every path (one AVX-512 register, two
//! AVX2 registers, a plain array), so the logic of a kernel never depends on the machine.

use super::hadamard::three_transforms;

/// Rows in a lane group.
pub(crate) const LANES: usize = 16;

/// Sixteen single-precision numbers.
///
/// # Safety
/// All methods of the vector implementations must be called on a machine with the instructions their
/// name says; [`on_path`] is the only caller and dispatches on [`super::Path`]. Pointers must be valid
/// for sixteen numbers; they need no alignment.
pub(crate) trait Lanes: Copy {
    /// Whether at least twenty-four of these fit the machine's registers.
    const WIDE: bool;
    /// Reads sixteen numbers.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes sixteen numbers.
    unsafe fn store(self, to: *mut f32);
    /// The same number in every lane.
    unsafe fn splat(value: f32) -> Self;
    /// self + other.
    unsafe fn add(self, other: Self) -> Self;
    /// self − other.
    unsafe fn sub(self, other: Self) -> Self;
    /// self · other.
    unsafe fn mul(self, other: Self) -> Self;
    /// self · factor + term; fused where the machine has it, never emulated.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The larger of two numbers, lane by lane; neither may be NaN.
    unsafe fn max(self, other: Self) -> Self;
    /// The sum over the lanes.
    unsafe fn sum(self) -> f32;
    /// (r, s): the distance r ∈ [−½, ½] to the nearest integer n, and (−1)ⁿ as a sign bit.
    unsafe fn fold(self) -> (Self, Self);
    /// Flips the sign where `sign` has its sign bit set.
    unsafe fn flip(self, sign: Self) -> Self;
    /// 2ˣ, relative error below 3·10⁻⁷ for −125 ≤ x ≤ 127; at most 2⁻¹²⁴ below and at least 2¹²⁷ above.
    unsafe fn exp2(self) -> Self;
    /// Transposes a 16×16 block.
    unsafe fn transpose(block: &mut [Self; LANES]);
    /// Rounds to bfloat16 (to nearest, ties to even) and writes sixteen of them.
    unsafe fn store_bf16(self, to: *mut u16);
    /// [`three_transforms`], compiled once per path and not once per kernel that uses it.
    unsafe fn transform(x: *const f32, z: *mut f32, signs: *const f32, size: usize);
}

/// 2ʳ by a minimax polynomial of degree five, relative error 8·10⁻⁸ on the interval of length one it belongs to.
#[inline(always)]
pub(crate) unsafe fn power_of_two<L: Lanes>(r: L, coefficients: &[f32; 6]) -> L {
    // SAFETY: the caller runs with the instructions of `L`.
    unsafe {
        let mut p = L::splat(coefficients[5]);
        for k in (0..5).rev() {
            p = p.mul_add(r, L::splat(coefficients[k]));
        }
        p
    }
}

/// 2ʳ on [−½, ½].
const AROUND_ZERO: [f32; 6] =
    [1.000_000_1, 0.693_146_94, 0.240_221_2, 0.055_507_13, 0.009_675_541, 0.001_327_647_2];

/// Adding 1.5·2²³ rounds to an integer kept in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// Loads N vectors at `from`, `from + stride`, … (a plain loop: closures would not inherit the instructions).
#[inline(always)]
pub(crate) unsafe fn load_all<L: Lanes, const N: usize>(from: *const f32, stride: usize) -> [L; N] {
    // SAFETY: the caller's pointers are valid.
    unsafe {
        let mut all = [L::splat(0.0); N];
        for (k, vector) in all.iter_mut().enumerate() {
            *vector = L::load(from.add(k * stride));
        }
        all
    }
}

/// Rounds one finite number to bfloat16, ties to even.
#[inline(always)]
pub(crate) fn bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// √2 cos(π t) in every lane, |error| < 2·10⁻⁷.
///
/// t = n + r with n the nearest integer, so cos πt = (−1)ⁿ cos πr; a minimax polynomial of degree four
/// in r² (error 7·10⁻⁸) does the rest. Frequencies carry the factor 1/π, so no reduction modulo π is
/// ever needed.
#[inline(always)]
pub(crate) unsafe fn half_turn_cosine<L: Lanes>(t: L) -> L {
    let (r, sign) = t.fold();
    let q = r.mul(r);
    let p = L::splat(0.310_698_2).mul_add(q, L::splat(-1.883_563));
    let p = p.mul_add(q, L::splat(5.739_461));
    let p = p.mul_add(q, L::splat(-6.978_851));
    p.mul_add(q, L::splat(std::f32::consts::SQRT_2)).flip(sign)
}

/// The portable path: plain arrays, left to the compiler.
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
    unsafe fn sum(self) -> f32 {
        let halves: [f32; 8] = std::array::from_fn(|i| self.0[i] + self.0[i + 8]);
        let quarters: [f32; 4] = std::array::from_fn(|i| halves[i] + halves[i + 4]);
        (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
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

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    //! The AVX2 and AVX-512 paths.
    use super::{power_of_two, three_transforms, Lanes, AROUND_ZERO, LANES, MAGIC};
    use std::arch::x86_64::*;

    /// Two AVX2 registers.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(__m256, __m256);

    /// One AVX-512 register.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(__m512);

    // SAFETY of every block in the two implementations: the instructions exist, because `on_path` calls
    // these methods only under the matching `Path`, and pointers are valid by the trait's contract.
    impl Lanes for Avx2 {
        const WIDE: bool = false;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe {
                _mm256_storeu_ps(to, self.0);
                _mm256_storeu_ps(to.add(8), self.1);
            }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            unsafe { Self(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
            unsafe {
                Self(_mm256_fmadd_ps(self.0, factor.0, term.0), _mm256_fmadd_ps(self.1, factor.1, term.1))
            }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { Self(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe { sum256(_mm256_add_ps(self.0, self.1)) }
        }
        #[inline(always)]
        unsafe fn fold(self) -> (Self, Self) {
            unsafe {
                let (r0, s0) = fold256(self.0);
                let (r1, s1) = fold256(self.1);
                (Self(r0, r1), Self(s0, s1))
            }
        }
        #[inline(always)]
        unsafe fn flip(self, sign: Self) -> Self {
            unsafe { Self(_mm256_xor_ps(self.0, sign.0), _mm256_xor_ps(self.1, sign.1)) }
        }
        #[inline(always)]
        unsafe fn exp2(self) -> Self {
            unsafe {
                let (low, high) = (Self::splat(-126.0), Self::splat(127.0));
                let x = self.max(low);
                let x = Self(_mm256_min_ps(x.0, high.0), _mm256_min_ps(x.1, high.1));
                let rounded = x.add(Self::splat(MAGIC));
                let r = x.sub(rounded.sub(Self::splat(MAGIC)));
                let p = power_of_two(r, &AROUND_ZERO);
                Self(scale256(p.0, rounded.0), scale256(p.1, rounded.1))
            }
        }
        #[inline(always)]
        unsafe fn transpose(block: &mut [Self; LANES]) {
            unsafe {
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
        }
        #[inline(always)]
        unsafe fn store_bf16(self, to: *mut u16) {
            unsafe {
                let (low, high) = (round256(self.0), round256(self.1));
                let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
                _mm256_storeu_si256(to.cast(), packed);
            }
        }
        #[inline(always)]
        unsafe fn transform(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn compiled<L: Lanes>(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
                unsafe { three_transforms::<L>(x, z, signs, size) }
            }
            unsafe { compiled::<Self>(x, z, signs, size) }
        }
    }

    #[inline(always)]
    unsafe fn sum256(v: __m256) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    unsafe fn fold256(t: __m256) -> (__m256, __m256) {
        unsafe {
            let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(t);
            let sign = _mm256_slli_epi32::<31>(_mm256_cvtps_epi32(n));
            (_mm256_sub_ps(t, n), _mm256_castsi256_ps(sign))
        }
    }

    /// p · 2ⁿ for the integer n in the low bits of `rounded`.
    #[inline(always)]
    unsafe fn scale256(p: __m256, rounded: __m256) -> __m256 {
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(rounded));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent))
        }
    }

    #[inline(always)]
    unsafe fn round256(v: __m256) -> __m256i {
        unsafe {
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let carried = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            _mm256_srli_epi32::<16>(carried)
        }
    }

    #[inline(always)]
    unsafe fn transpose8(r: &mut [__m256; 8]) {
        unsafe {
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
    }

    impl Lanes for Avx512 {
        const WIDE: bool = true;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(_mm512_loadu_ps(from)) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Self(_mm512_set1_ps(value)) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Self(_mm512_add_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
            unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, term.0)) }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { Self(_mm512_max_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let high = _mm512_extractf32x8_ps::<1>(self.0);
                sum256(_mm256_add_ps(_mm512_castps512_ps256(self.0), high))
            }
        }
        #[inline(always)]
        unsafe fn fold(self) -> (Self, Self) {
            unsafe {
                let n = _mm512_roundscale_ps::<0x08>(self.0);
                let sign = _mm512_slli_epi32::<31>(_mm512_cvtps_epi32(n));
                (Self(_mm512_sub_ps(self.0, n)), Self(_mm512_castsi512_ps(sign)))
            }
        }
        #[inline(always)]
        unsafe fn flip(self, sign: Self) -> Self {
            unsafe { Self(_mm512_xor_ps(self.0, sign.0)) }
        }
        #[inline(always)]
        unsafe fn exp2(self) -> Self {
            /// 2ʳ on [0, 1).
            const ABOVE_ZERO: [f32; 6] =
                [0.999_999_94, 0.693_153_1, 0.240_153_61, 0.055_826_318, 0.008_989_34, 0.001_877_576_7];
            unsafe {
                // x − ⌊x⌋, and p · 2^⌊x⌋ with overflow to infinity. A number below
                // 2⁻¹²⁶ would cost a hundred cycles, and the polynomial may be just below one.
                let x = self.max(Self::splat(-125.0)).0;
                let r = Self(_mm512_reduce_ps::<0x01>(x));
                Self(_mm512_scalef_ps(power_of_two(r, &ABOVE_ZERO).0, x))
            }
        }
        #[inline(always)]
        unsafe fn transpose(block: &mut [Self; LANES]) {
            unsafe {
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
        }
        #[inline(always)]
        unsafe fn store_bf16(self, to: *mut u16) {
            unsafe {
                let bits = _mm512_castps_si512(self.0);
                let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
                let carried = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
                let rounded = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(carried));
                _mm256_storeu_si256(to.cast(), rounded);
            }
        }
        #[inline(always)]
        unsafe fn transform(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            unsafe fn compiled<L: Lanes>(x: *const f32, z: *mut f32, signs: *const f32, size: usize) {
                unsafe { three_transforms::<L>(x, z, signs, size) }
            }
            unsafe { compiled::<Self>(x, z, signs, size) }
        }
    }
}

/// A kernel that can be compiled for any instruction path.
pub(crate) trait Kernel {
    /// What it computes.
    type Output;
    /// Runs with the vector type `L`.
    ///
    /// # Safety
    /// The machine must have the instructions of `L`.
    unsafe fn run<L: Lanes>(self) -> Self::Output;
}

/// Runs `kernel` compiled for `path`.
pub(crate) fn on_path<K: Kernel>(path: super::Path, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2<K: Kernel>(kernel: K) -> K::Output {
            // SAFETY: inside a function compiled with AVX2.
            unsafe { kernel.run::<x86::Avx2>() }
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn avx512<K: Kernel>(kernel: K) -> K::Output {
            // SAFETY: inside a function compiled with AVX-512.
            unsafe { kernel.run::<x86::Avx512>() }
        }
        // SAFETY: a `Path` other than `Portable` comes from `Path::detect` or `Path::available`,
        // which ask the processor.
        match path {
            super::Path::Portable => {}
            super::Path::Avx2 => return unsafe { avx2(kernel) },
            super::Path::Avx512 | super::Path::Amx => return unsafe { avx512(kernel) },
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = path;
    // SAFETY: plain Rust runs everywhere.
    unsafe { kernel.run::<Portable>() }
}

#[cfg(test)]
mod tests {
    use super::super::Path;
    use super::*;

    struct Cosine<'a>(&'a [f32], &'a mut [f32]);
    impl Kernel for Cosine<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            for (t, out) in self.0.chunks_exact(LANES).zip(self.1.chunks_exact_mut(LANES)) {
                unsafe { half_turn_cosine(L::load(t.as_ptr())).store(out.as_mut_ptr()) }
            }
        }
    }

    #[test]
    fn cosine_is_accurate_and_bounded_for_any_argument() {
        let mut t: Vec<f32> = (0..16_000).map(|i| (i as f32 - 8_000.0) * 0.003_7).collect();
        t.extend((0..64).map(|i| (i as f32).exp2() * if i % 3 == 0 { -1.3 } else { 1.7 }));
        for path in Path::available() {
            let mut out = vec![0.0; t.len()];
            on_path(path, Cosine(&t, &mut out));
            for (t, c) in t.iter().zip(&out) {
                let exact = std::f64::consts::SQRT_2 * (std::f64::consts::PI * f64::from(*t)).cos();
                assert!(c.abs() <= std::f32::consts::SQRT_2 + 1e-6, "{path}: cos({t}) = {c}");
                assert!(
                    t.abs() > 1e5 || (f64::from(*c) - exact).abs() < 3e-7,
                    "{path}: cos(π {t}) = {c}, not {exact}"
                );
            }
        }
    }

    struct Power<'a>(&'a [f32], &'a mut [f32]);
    impl Kernel for Power<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            for (x, out) in self.0.chunks_exact(LANES).zip(self.1.chunks_exact_mut(LANES)) {
                unsafe { L::load(x.as_ptr()).exp2().store(out.as_mut_ptr()) }
            }
        }
    }

    #[test]
    fn powers_of_two_are_accurate_and_saturate() {
        let mut x: Vec<f32> = (0..16_000).map(|i| i as f32 * 0.015_7 - 125.0).collect();
        let within = x.len();
        x.extend([-1e30, -2000.0, -127.5, 127.5, 130.0, 1e6, 0.0, 1.0]);
        x.resize(x.len().next_multiple_of(LANES), 0.0);
        for path in Path::available() {
            let mut out = vec![0.0; x.len()];
            on_path(path, Power(&x, &mut out));
            for (x, p) in x.iter().zip(&out[..within]) {
                let exact = f64::from(*x).exp2();
                assert!((f64::from(*p) / exact - 1.0).abs() < 3e-7, "{path}: 2^{x} = {p}, not {exact}");
            }
            assert!(out[within..within + 3].iter().all(|&p| (0.0..=2.4e-38).contains(&p)), "{path}");
            assert!(out[within + 3..within + 6].iter().all(|&p| p >= 1.7e38), "{path}");
            assert!((out[within + 6] - 1.0).abs() < 3e-7 && (out[within + 7] - 2.0).abs() < 6e-7, "{path}");
        }
    }

    struct Transpose<'a>(&'a mut [f32; 256]);
    impl Kernel for Transpose<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            unsafe {
                let mut block = load_all::<L, LANES>(self.0.as_ptr(), LANES);
                L::transpose(&mut block);
                for (i, row) in block.iter().enumerate() {
                    row.store(self.0.as_mut_ptr().add(i * LANES));
                }
            }
        }
    }

    #[test]
    fn transpose_transposes() {
        for path in Path::available() {
            let mut block: [f32; 256] = std::array::from_fn(|i| i as f32);
            on_path(path, Transpose(&mut block));
            assert!((0..256).all(|i| block[i] == (i % 16 * 16 + i / 16) as f32), "{path}");
        }
    }

    struct Round<'a>(&'a [f32; 16], &'a mut [u16; 16]);
    impl Kernel for Round<'_> {
        type Output = ();
        #[inline(always)]
        unsafe fn run<L: Lanes>(self) {
            unsafe { L::load(self.0.as_ptr()).store_bf16(self.1.as_mut_ptr()) }
        }
    }

    #[test]
    fn bfloat16_rounds_to_nearest_even_on_every_path() {
        let values: [f32; 16] = std::array::from_fn(|i| (i as f32 - 7.5) * 0.123_456_7 + 1.003_906_3);
        for path in Path::available() {
            let mut out = [0; 16];
            on_path(path, Round(&values, &mut out));
            assert_eq!(out, values.map(bf16), "{path}");
            for (v, b) in values.iter().zip(out) {
                let back = f32::from_bits(u32::from(b) << 16);
                assert!((back - v).abs() <= v.abs() / 256.0);
            }
        }
    }
}
