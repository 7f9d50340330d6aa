//! Squared distances of sixteen rows, side by side, from some points, and the kernel there.
//!
//! They are sums of squared differences, so that nothing cancels between points that are close; those of many columns are ‖x‖² + ‖a‖² − 2⟨x, a⟩, half
//! the work, for smooth kernels and where norms are so small that little cancels (‖·‖² ≤ [`NEAR`] in units of the kernel); of bfloat16 numbers the products
//! are made on AMX tiles where there are any.

use super::super::lanes::{Lanes, LANES};
use super::sums::POINTS;
use super::Profile;

/// Columns from which on distances are by products: below, other work outweighs them.
pub(super) const MANY_COLUMNS: usize = 32;
/// Columns whose products are summed before they are added to the others: rounding grows with the number of terms of a sum.
const PIECE: usize = 64;
/// Largest squared norm, in units of the kernel, of a row whose distances are by products: their error is some 10⁻⁷ to 10⁻⁶ of the norms, so that k is wrong by
/// 10⁻⁵ at most, where rows are nearly equal.
pub(super) const NEAR: f32 = 16.0;

/// ‖x‖² of rows of d columns, in sixteen sums in double precision; nothing for d = 0.
#[inline(always)]
pub(super) unsafe fn squared_norms<L: Lanes>(rows: &[f32], d: usize) -> Vec<f32> {
    if d == 0 {
        return Vec::new();
    }
    let mut norms = Vec::with_capacity(rows.len() / d);
    for row in rows.chunks_exact(d) {
        let (runs, rest) = row.as_chunks::<LANES>();
        let (mut sums, mut last) = ([0.0_f64; LANES], [0.0; LANES]);
        last[..rest.len()].copy_from_slice(rest);
        // SAFETY: runs of lanes, and instructions as the caller says.
        unsafe {
            for run in runs {
                L::load(run.as_ptr()).add_squares_to(sums.as_mut_ptr());
            }
            L::load(last.as_ptr()).add_squares_to(sums.as_mut_ptr());
        }
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            (0..width).for_each(|i| sums[i] += sums[i + width]);
        }
        norms.push(sums[0] as f32);
    }
    norms
}

/// Whether distances of a row or point of this squared norm are by differences.
pub(super) fn is_large(norm: &f32) -> bool {
    norm.is_nan() || *norm > NEAR
}

/// How the squared distances of sixteen rows from N points, or sums of absolute differences, are found; `own` are the squared norms of the rows, `norms` those of the points.
pub(super) trait Squares {
    /// # Safety
    /// As [`Lanes`]; `x` has d runs of lanes, `points` N rows of d numbers, `norms` N numbers where they are used.
    unsafe fn of<L: Lanes, const N: usize>(
        x: *const f32,
        points: *const f32,
        d: usize,
        own: L,
        norms: *const f32,
    ) -> [L; N];
}

/// Σ (x − a)².
pub(super) struct Differences;
/// Σ |x − a|.
pub(super) struct Absolute;
/// ‖x‖² + ‖a‖² − 2⟨x, a⟩, at least zero.
pub(super) struct Products;

/// What each column adds to such a sum.
trait Term {
    /// # Safety
    /// As [`Lanes`].
    unsafe fn add<L: Lanes>(difference: L, sum: L) -> L;
}

impl Term for Differences {
    #[inline(always)]
    unsafe fn add<L: Lanes>(difference: L, sum: L) -> L {
        // SAFETY: as the caller says.
        unsafe { difference.mul_add(difference, sum) }
    }
}

impl Term for Absolute {
    #[inline(always)]
    unsafe fn add<L: Lanes>(difference: L, sum: L) -> L {
        // SAFETY: as the caller says.
        unsafe { sum.add(difference.max(L::splat(0.0).sub(difference))) }
    }
}

impl<T: Term> Squares for T {
    #[inline(always)]
    unsafe fn of<L: Lanes, const N: usize>(
        x: *const f32,
        points: *const f32,
        d: usize,
        _: L,
        _: *const f32,
    ) -> [L; N] {
        // SAFETY: as the caller says.
        unsafe {
            let mut sums = [L::splat(0.0); N];
            for j in 0..d {
                let x = L::load(x.add(j * LANES));
                for (p, sum) in sums.iter_mut().enumerate() {
                    *sum = T::add(x.sub(L::splat(*points.add(p * d + j))), *sum);
                }
            }
            sums
        }
    }
}

impl Squares for Products {
    #[inline(always)]
    unsafe fn of<L: Lanes, const N: usize>(
        x: *const f32,
        points: *const f32,
        d: usize,
        own: L,
        norms: *const f32,
    ) -> [L; N] {
        // SAFETY: as the caller says.
        unsafe {
            let mut products = [L::splat(0.0); N];
            let mut first = 0;
            while first < d {
                let last = d.min(first + PIECE);
                let mut piece = [L::splat(0.0); N];
                for j in first..last {
                    let x = L::load(x.add(j * LANES));
                    for (p, product) in piece.iter_mut().enumerate() {
                        *product = x.mul_add(L::splat(*points.add(p * d + j)), *product);
                    }
                }
                for (product, piece) in products.iter_mut().zip(piece) {
                    *product = product.add(piece);
                }
                first = last;
            }
            for (p, product) in products.iter_mut().enumerate() {
                *product = square::<L>(*product, own, *norms.add(p));
            }
            products
        }
    }
}

/// ‖x‖² + ‖a‖² − 2⟨x, a⟩, at least zero.
#[inline(always)]
unsafe fn square<L: Lanes>(product: L, own: L, norm: f32) -> L {
    // SAFETY: the caller runs with the instructions of `L`.
    unsafe { product.mul_add(L::splat(-2.0), own.add(L::splat(norm))).max(L::splat(0.0)) }
}

/// k in place of products ⟨x, a⟩.
#[inline(always)]
pub(super) unsafe fn finish_products<L: Lanes, P: Profile>(
    (own, norms): (&[f32], &[f32]),
    values: &mut [[f32; LANES]],
) {
    let own = padded(own);
    // SAFETY: runs of lanes, and instructions as the caller says.
    unsafe {
        let own = L::load(own.as_ptr());
        for (value, norm) in values.iter_mut().zip(norms) {
            P::of(square::<L>(L::load(value.as_ptr()), own, *norm)).store(value.as_mut_ptr());
        }
    }
}

/// Sixteen norms; of rows that are not there, zero.
#[inline(always)]
fn padded(own: &[f32]) -> [f32; LANES] {
    let mut norms = [0.0; LANES];
    norms[..own.len()].copy_from_slice(own);
    norms
}

/// Values of rows and points of large norms, found by products, once more by differences. A value depends on its own row and point alone.
#[inline(always)]
pub(super) unsafe fn fill_again<L: Lanes, P: Profile>(
    x: &[f32],
    points: &[f32],
    (own, norms): (&[f32], &[f32]),
    out: &mut [[f32; LANES]],
) {
    let mut other = [[0.0; LANES]; POINTS];
    // SAFETY: as the caller says.
    unsafe {
        fill::<L, P, Differences>(x, points, (&[], &[]), &mut other[..out.len()]);
    }
    for ((out, other), norm) in out.iter_mut().zip(&other).zip(norms) {
        for (i, own) in own.iter().enumerate() {
            if is_large(own) || is_large(norm) {
                out[i] = other[i];
            }
        }
    }
}

/// k of sixteen rows and some points, a run of lanes for each point.
///
/// # Safety
/// As [`Lanes`]; `x` has d runs of lanes, `points` d numbers for each run of `out`, and so have `norms` one where `S` uses them.
#[inline(always)]
pub(super) unsafe fn fill<L: Lanes, P: Profile, S: Squares>(
    x: &[f32],
    points: &[f32],
    (own, norms): (&[f32], &[f32]),
    out: &mut [[f32; LANES]],
) {
    let (d, count, own) = (x.len() / LANES, out.len(), padded(own));
    // SAFETY: as the caller says.
    unsafe {
        let (x, own, to) = (x.as_ptr(), L::load(own.as_ptr()), out.as_mut_ptr().cast::<f32>());
        // Norms that are not used are not read: wrapping, for there may be none.
        let at = |j: usize| (points.as_ptr().add(j * d), norms.as_ptr().wrapping_add(j), to.add(j * LANES));
        let mut done = 0;
        let together = if L::WIDE { 12 } else { 6 };
        while done + together <= count {
            let (a, norms, to) = at(done);
            if L::WIDE {
                kernels::<L, P, S, 12>(x, a, d, (own, norms), to);
            } else {
                kernels::<L, P, S, 6>(x, a, d, (own, norms), to);
            }
            done += together;
        }
        while done + 4 <= count {
            let (a, norms, to) = at(done);
            kernels::<L, P, S, 4>(x, a, d, (own, norms), to);
            done += 4;
        }
        for j in done..count {
            let (a, norms, to) = at(j);
            kernels::<L, P, S, 1>(x, a, d, (own, norms), to);
        }
    }
}

/// k of sixteen rows and N points.
#[inline(always)]
unsafe fn kernels<L: Lanes, P: Profile, S: Squares, const N: usize>(
    x: *const f32,
    points: *const f32,
    d: usize,
    (own, norms): (L, *const f32),
    out: *mut f32,
) {
    // SAFETY: as the caller says.
    unsafe {
        let squares: [L; N] = S::of(x, points, d, own, norms);
        for (p, square) in squares.into_iter().enumerate() {
            P::of(square).store(out.add(p * LANES));
        }
    }
}
