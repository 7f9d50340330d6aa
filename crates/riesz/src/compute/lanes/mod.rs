//! Sixteen rows side by side: the vector type of the hot kernels.
//!
//! Every kernel is written once, generic over [`Lanes`], and compiled once per instruction path inside
//! a `#[target_feature]` wrapper ([`on_device`]). Sixteen lanes on every path (one AVX-512 register, two
//! AVX2 registers, a plain array), so the logic of a kernel never depends on the machine.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use super::hadamard::three_transforms;
use super::{Device, Path};
use portable::Portable;

/// Rows in a lane group.
pub(crate) const LANES: usize = 16;

/// Sixteen single-precision numbers.
///
/// # Safety
/// All methods of the vector implementations must be called on a machine with the instructions their
/// name says; [`on_device`] is the only caller and dispatches on a [`Device`]. Pointers must be valid
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
    /// √self, lane by lane; no lane may be negative.
    unsafe fn sqrt(self) -> Self;
    /// The sum over the lanes.
    unsafe fn sum(self) -> f32;
    /// Adds the numbers to sixteen sums in double precision, which need no alignment.
    unsafe fn add_to(self, sums: *mut f64);
    /// Adds the squares to sixteen sums in double precision, which need no alignment.
    unsafe fn add_squares_to(self, sums: *mut f64);
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

/// The nearest bfloat16, ties to even: the largest of them where it would be infinite.
pub(crate) fn to_bf16(value: f32) -> f32 {
    if value.is_nan() {
        return f32::NAN;
    }
    if value.is_infinite() {
        return value;
    }
    let largest = f32::from_bits(0x7f7f_0000);
    f32::from_bits(u32::from(bf16(value)) << 16).clamp(-largest, largest)
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

/// Runs `kernel` compiled for the instructions of `device`.
pub(crate) fn on_device<K: Kernel>(device: Device, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
            // SAFETY: inside a function compiled with AVX2.
            unsafe { kernel.run::<avx2::Avx2>() }
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn with_avx512<K: Kernel>(kernel: K) -> K::Output {
            // SAFETY: inside a function compiled with AVX-512.
            unsafe { kernel.run::<avx512::Avx512>() }
        }
        // SAFETY: a `Device` is only made for a path the processor was asked for and has.
        match device.path() {
            Path::Portable => {}
            Path::Avx2 => return unsafe { with_avx2(kernel) },
            Path::Avx512 | Path::Amx => return unsafe { with_avx512(kernel) },
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = device;
    // SAFETY: plain Rust runs everywhere.
    unsafe { kernel.run::<Portable>() }
}

#[cfg(test)]
mod tests {
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
        for device in Device::available() {
            let mut out = vec![0.0; t.len()];
            on_device(device, Cosine(&t, &mut out));
            for (t, c) in t.iter().zip(&out) {
                let exact = std::f64::consts::SQRT_2 * (std::f64::consts::PI * f64::from(*t)).cos();
                assert!(c.abs() <= std::f32::consts::SQRT_2 + 1e-6, "{device}: cos({t}) = {c}");
                assert!(
                    t.abs() > 1e5 || (f64::from(*c) - exact).abs() < 3e-7,
                    "{device}: cos(π {t}) = {c}, not {exact}"
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
        for device in Device::available() {
            let mut out = vec![0.0; x.len()];
            on_device(device, Power(&x, &mut out));
            for (x, p) in x.iter().zip(&out[..within]) {
                let exact = f64::from(*x).exp2();
                assert!((f64::from(*p) / exact - 1.0).abs() < 3e-7, "{device}: 2^{x} = {p}, not {exact}");
            }
            assert!(out[within..within + 3].iter().all(|&p| (0.0..=2.4e-38).contains(&p)), "{device}");
            assert!(out[within + 3..within + 6].iter().all(|&p| p >= 1.7e38), "{device}");
            assert!((out[within + 6] - 1.0).abs() < 3e-7 && (out[within + 7] - 2.0).abs() < 6e-7, "{device}");
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
        for device in Device::available() {
            let mut block: [f32; 256] = std::array::from_fn(|i| i as f32);
            on_device(device, Transpose(&mut block));
            assert!((0..256).all(|i| block[i] == (i % 16 * 16 + i / 16) as f32), "{device}");
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
        for device in Device::available() {
            let mut out = [0; 16];
            on_device(device, Round(&values, &mut out));
            assert_eq!(out, values.map(bf16), "{device}");
            for (v, b) in values.iter().zip(out) {
                let back = f32::from_bits(u32::from(b) << 16);
                assert!((back - v).abs() <= v.abs() / 256.0);
            }
        }
    }
}
