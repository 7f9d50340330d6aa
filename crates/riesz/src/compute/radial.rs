//! Kernels of the distance alone: values, slopes, and sums over many points.
//!
//! Sixteen rows lie side by side and meet one point at a time. Distances are sums of squared differences, so that nothing cancels
//! between points that are close; those of many columns are ‖x‖² + ‖a‖² − 2⟨x, a⟩, half the work, for smooth kernels and where norms are so
//! small that little cancels (‖·‖² ≤ [`NEAR`] in units of the kernel). Values are in single, weights and sums in double precision, since the weights of
//! a wide kernel are large and cancel (of many outputs, sums of eight terms are in single precision). Sums run in the order of the points: how rows are shared among threads changes no digit.

use super::exponential::exp_of_negative;
use super::lanes::{on_device, Kernel, Lanes, LANES};
use super::Device;

/// k as a function of s = ‖x − x'‖²/σ².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Radial {
    /// e^{−s/2}.
    Gaussian,
    /// Matérn of smoothness 1/2: e^{−z}, z = √s.
    Exponential,
    /// Matérn of smoothness 3/2: (1 + z) e^{−z}, z = √3s.
    Once,
    /// Matérn of smoothness 5/2: (1 + z + z²/3) e^{−z}, z = √5s.
    Twice,
}

impl Radial {
    /// The Matérn kernel of this smoothness, where it is elementary.
    pub(crate) fn matern(smoothness: f64) -> Option<Self> {
        match smoothness {
            0.5 => Some(Self::Exponential),
            1.5 => Some(Self::Once),
            2.5 => Some(Self::Twice),
            _ => None,
        }
    }

    /// k at s ≥ 0.
    pub(crate) fn value(self, s: f64) -> f64 {
        match self {
            Self::Gaussian => (-0.5 * s).exp(),
            Self::Exponential => (-s.sqrt()).exp(),
            Self::Once => {
                let z = (3.0 * s).sqrt();
                (1.0 + z) * (-z).exp()
            }
            Self::Twice => {
                let z = (5.0 * s).sqrt();
                (1.0 + z + z * z / 3.0) * (-z).exp()
            }
        }
    }

    /// dk/ds at s ≥ 0, what [`radial_slopes`] is compared with; zero at s = 0 for the exponential kernel, which has a kink there.
    #[cfg(test)]
    fn slope(self, s: f64) -> f64 {
        match self {
            Self::Gaussian => -0.5 * (-0.5 * s).exp(),
            Self::Exponential if s == 0.0 => 0.0,
            Self::Exponential => -0.5 * (-s.sqrt()).exp() / s.sqrt(),
            Self::Once => -1.5 * (-(3.0 * s).sqrt()).exp(),
            Self::Twice => {
                let z = (5.0 * s).sqrt();
                -5.0 / 6.0 * (1.0 + z) * (-z).exp()
            }
        }
    }
}

/// Points whose values are computed before they are summed.
const POINTS: usize = 256;
/// Columns from which on distances are by products: below, other work outweighs them.
const MANY_COLUMNS: usize = 32;
/// Columns whose products are summed before they are added to the others: rounding grows with the number of terms of a sum.
const PIECE: usize = 64;
/// Outputs from which on sums of a few terms are in single precision: those of fewer are not what takes the time.
const MANY_OUTPUTS: usize = 4;
/// Terms of such a sum.
const SHORT: usize = 8;
/// Largest squared norm, in units of the kernel, of a row whose distances are by products: their error is some 10⁻⁷ to 10⁻⁶ of the norms, so that k is wrong by
/// 10⁻⁵ at most, where rows are nearly equal.
const NEAR: f32 = 16.0;

/// s ↦ k(s) of many squared distances, in double precision.
pub(crate) fn radial_values(device: Device, radial: Radial, values: &mut [f64]) {
    on_device(device, Values { radial, values });
}

struct Values<'a> {
    radial: Radial,
    values: &'a mut [f64],
}

impl Kernel for Values<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let each = self.values.iter_mut();
        match self.radial {
            Radial::Gaussian => each.for_each(|s| *s = exp_of_negative(-0.5 * *s)),
            Radial::Exponential => each.for_each(|s| *s = exp_of_negative(-s.sqrt())),
            Radial::Once => each.for_each(|s| {
                let z = (3.0 * *s).sqrt();
                *s = (1.0 + z) * exp_of_negative(-z);
            }),
            Radial::Twice => each.for_each(|s| {
                let z = (5.0 * *s).sqrt();
                *s = (1.0 + z + z * z / 3.0) * exp_of_negative(-z);
            }),
        }
    }
}

/// s ↦ dk/ds of many squared distances, zero at s = 0 for the exponential kernel, which has a kink there.
pub(crate) fn radial_slopes(device: Device, radial: Radial, values: &mut [f64]) {
    on_device(device, Slopes { radial, values });
}

struct Slopes<'a> {
    radial: Radial,
    values: &'a mut [f64],
}

impl Kernel for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let each = self.values.iter_mut();
        match self.radial {
            Radial::Gaussian => each.for_each(|s| *s = -0.5 * exp_of_negative(-0.5 * *s)),
            Radial::Exponential => each.for_each(|s| {
                let z = s.sqrt();
                *s = if z > 0.0 { -0.5 * exp_of_negative(-z) / z } else { 0.0 };
            }),
            Radial::Once => each.for_each(|s| *s = -1.5 * exp_of_negative(-(3.0 * *s).sqrt())),
            Radial::Twice => each.for_each(|s| {
                let z = (5.0 * *s).sqrt();
                *s = -5.0 / 6.0 * (1.0 + z) * exp_of_negative(-z);
            }),
        }
    }
}

/// out_ic += Σ_j w_jc k(‖x_i − a_j‖²): rows x (n×d) and points a (m×d) in the units of the kernel, weights w (m×C), all row-major.
pub(crate) fn add_radial_sums(
    device: Device,
    radial: Radial,
    columns: usize,
    (x, points): (&[f32], &[f32]),
    weights: &[f64],
    out: &mut [f64],
) {
    let m = points.len() / columns.max(1);
    if columns == 0 || m == 0 || x.is_empty() {
        return;
    }
    let outputs = weights.len() / m;
    debug_assert!(weights.len() == m * outputs && out.len() * columns == x.len() * outputs);
    on_device(device, Sums { radial, columns, outputs, x, points, weights, out });
}

struct Sums<'a> {
    radial: Radial,
    columns: usize,
    outputs: usize,
    x: &'a [f32],
    points: &'a [f32],
    weights: &'a [f64],
    out: &'a mut [f64],
}

/// k(s) in lanes.
trait Profile {
    /// Whether k is a smooth function of s at zero, so that rounding s hardly changes it.
    const SMOOTH: bool = true;
    /// # Safety
    /// As [`Lanes`].
    unsafe fn of<L: Lanes>(s: L) -> L;
}

/// e^{−z}; far away it is zero and not the least that the power gives: what nobody has seen has no sign.
#[inline(always)]
unsafe fn decay<L: Lanes>(z: L, factor: f32) -> L {
    let least = L::splat(1e-30);
    z.mul(L::splat(-factor * std::f32::consts::LOG2_E)).exp2().add(least).sub(least)
}

struct GaussianProfile;
struct ExponentialProfile;
struct OnceProfile;
struct TwiceProfile;

impl Profile for GaussianProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        decay(s, 0.5)
    }
}

impl Profile for ExponentialProfile {
    const SMOOTH: bool = false;
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        decay(s.sqrt(), 1.0)
    }
}

impl Profile for OnceProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        let z = s.mul(L::splat(3.0)).sqrt();
        z.mul_add(decay(z, 1.0), decay(z, 1.0))
    }
}

impl Profile for TwiceProfile {
    #[inline(always)]
    unsafe fn of<L: Lanes>(s: L) -> L {
        let z = s.mul(L::splat(5.0)).sqrt();
        let polynomial = z.mul(L::splat(1.0 / 3.0)).mul_add(z, z.add(L::splat(1.0)));
        polynomial.mul(decay(z, 1.0))
    }
}

impl Kernel for Sums<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the machine has the instructions of L.
        unsafe {
            match self.radial {
                Radial::Gaussian => self.all::<L, GaussianProfile>(),
                Radial::Exponential => self.all::<L, ExponentialProfile>(),
                Radial::Once => self.all::<L, OnceProfile>(),
                Radial::Twice => self.all::<L, TwiceProfile>(),
            }
        }
    }
}

impl Sums<'_> {
    #[inline(always)]
    unsafe fn all<L: Lanes, P: Profile>(self) {
        let (d, c) = (self.columns, self.outputs);
        let groups = (self.x.len() / d).div_ceil(LANES);
        // Columns of sixteen rows after each other; rows that are not there are zeros.
        let mut lanes = vec![0.0_f32; groups * LANES * d];
        for (i, row) in self.x.chunks_exact(d).enumerate() {
            let group = &mut lanes[i / LANES * LANES * d..];
            row.iter().enumerate().for_each(|(j, x)| group[j * LANES + i % LANES] = *x);
        }
        let by_products = P::SMOOTH && d >= MANY_COLUMNS;
        let [row_norms, point_norms] = match by_products {
            true => [squared_norms(self.x, d), squared_norms(self.points, d)],
            false => [Vec::new(), Vec::new()],
        };
        let (mut values, mut short) = ([[0.0_f32; LANES]; POINTS], Vec::new());
        let tiles = self.points.chunks(POINTS * d).zip(self.weights.chunks(POINTS * c)).enumerate();
        for (tile, (points, weights)) in tiles {
            let count = points.len() / d;
            if c >= MANY_OUTPUTS {
                short.clear();
                (0..c).for_each(|k| short.extend(weights.iter().skip(k).step_by(c).map(|w| *w as f32)));
            }
            let rows = lanes.chunks_exact(LANES * d).zip(self.out.chunks_mut(LANES * c)).enumerate();
            for (group, (x, out)) in rows {
                // SAFETY: `x` has d runs of lanes, `points` has `count` ≤ POINTS rows of d numbers, `values` a run for each.
                unsafe {
                    if by_products {
                        let own = &row_norms[group * LANES..row_norms.len().min((group + 1) * LANES)];
                        let others = &point_norms[tile * POINTS..][..count];
                        fill_by_products::<L, P>(x, points, (own, others), &mut values[..count]);
                    } else {
                        fill::<L, P, Differences>(x, points, (&[0.0; LANES], &[]), &mut values[..count]);
                    }
                }
                match c {
                    // SAFETY: the instructions are those of L.
                    MANY_OUTPUTS.. => unsafe {
                        add_weighted_shortly::<L>(&values[..count], &short, out);
                    },
                    _ => add_weighted(&values[..count], weights, c, out),
                }
            }
        }
    }
}

/// ‖x‖² of rows.
fn squared_norms(rows: &[f32], d: usize) -> Vec<f32> {
    let square = |v: &f32| f64::from(*v) * f64::from(*v);
    rows.chunks_exact(d).map(|x| x.iter().map(square).sum::<f64>() as f32).collect()
}

/// out_ic += Σ_j w_jc v_ji for sixteen rows i, or fewer.
#[inline(always)]
fn add_weighted(values: &[[f32; LANES]], weights: &[f64], c: usize, out: &mut [f64]) {
    for k in 0..c {
        let mut sums = [0.0_f64; LANES];
        for (values, w) in values.iter().zip(weights.iter().skip(k).step_by(c)) {
            sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += w * f64::from(value));
        }
        out.iter_mut().skip(k).step_by(c).zip(sums).for_each(|(out, sum)| *out += sum);
    }
}

/// The same for many outputs, by weights c×m: sums of [`SHORT`] terms in single precision, whose rounding is that of the values, are added in double precision.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn add_weighted_shortly<L: Lanes>(values: &[[f32; LANES]], weights: &[f32], out: &mut [f64]) {
    let c = weights.len() / values.len();
    for (k, weights) in weights.chunks_exact(values.len()).enumerate() {
        let mut sums = [0.0_f64; LANES];
        for (values, weights) in values.chunks(SHORT).zip(weights.chunks(SHORT)) {
            let mut short = [0.0_f32; LANES];
            // SAFETY: runs of lanes, and instructions as the caller says.
            unsafe {
                let mut sum = L::splat(0.0);
                for (values, w) in values.iter().zip(weights) {
                    sum = L::load(values.as_ptr()).mul_add(L::splat(*w), sum);
                }
                sum.store(short.as_mut_ptr());
            }
            sums.iter_mut().zip(&short).for_each(|(sum, &short)| *sum += f64::from(short));
        }
        out.iter_mut().skip(k).step_by(c).zip(sums).for_each(|(out, sum)| *out += sum);
    }
}

/// How the squared distances of sixteen rows from N points are found; `own` are the squared norms of the rows, `norms` those of the points.
trait Squares {
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
struct Differences;
/// ‖x‖² + ‖a‖² − 2⟨x, a⟩, at least zero.
struct Products;

impl Squares for Differences {
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
            let mut squares = [L::splat(0.0); N];
            for j in 0..d {
                let x = L::load(x.add(j * LANES));
                for (p, square) in squares.iter_mut().enumerate() {
                    let difference = x.sub(L::splat(*points.add(p * d + j)));
                    *square = difference.mul_add(difference, *square);
                }
            }
            squares
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
                let sum = own.add(L::splat(*norms.add(p)));
                *product = product.mul_add(L::splat(-2.0), sum).max(L::splat(0.0));
            }
            products
        }
    }
}

/// [`fill`] by products; by differences for rows and points of large norms. A value depends on its own row and point alone.
#[inline(always)]
unsafe fn fill_by_products<L: Lanes, P: Profile>(
    x: &[f32],
    points: &[f32],
    (own, norms): (&[f32], &[f32]),
    out: &mut [[f32; LANES]],
) {
    let mut row_norms = [0.0; LANES];
    row_norms[..own.len()].copy_from_slice(own);
    let large = |norm: &f32| norm.is_nan() || *norm > NEAR;
    // SAFETY: as the caller says.
    unsafe {
        fill::<L, P, Products>(x, points, (&row_norms, norms), out);
        if own.iter().chain(norms).any(large) {
            let mut other = [[0.0; LANES]; POINTS];
            fill::<L, P, Differences>(x, points, (&row_norms, &[]), &mut other[..out.len()]);
            for ((out, other), norm) in out.iter_mut().zip(&other).zip(norms) {
                for (i, own) in own.iter().enumerate() {
                    if large(own) || large(norm) {
                        out[i] = other[i];
                    }
                }
            }
        }
    }
}

/// k of sixteen rows and some points, a run of lanes for each point.
///
/// # Safety
/// As [`Lanes`]; `x` has d runs of lanes, `points` d numbers for each run of `out`, and so have `norms` one where `S` uses them.
#[inline(always)]
unsafe fn fill<L: Lanes, P: Profile, S: Squares>(
    x: &[f32],
    points: &[f32],
    (own, norms): (&[f32; LANES], &[f32]),
    out: &mut [[f32; LANES]],
) {
    let (d, count) = (x.len() / LANES, out.len());
    // SAFETY: as the caller says.
    unsafe {
        let (x, own, to) = (x.as_ptr(), L::load(own.as_ptr()), out.as_mut_ptr().cast::<f32>());
        // Norms that are not used are not read: wrapping, for there may be none.
        let at = |j: usize| (points.as_ptr().add(j * d), norms.as_ptr().wrapping_add(j), to.add(j * LANES));
        let mut done = 0;
        let together = if L::WIDE { 8 } else { 4 };
        while done + together <= count {
            let (a, norms, to) = at(done);
            if L::WIDE {
                kernels::<L, P, S, 8>(x, a, d, (own, norms), to);
            } else {
                kernels::<L, P, S, 4>(x, a, d, (own, norms), to);
            }
            done += together;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_values() {
        for radial in [Radial::Gaussian, Radial::Exponential, Radial::Once, Radial::Twice] {
            for s in [0.01, 0.3, 2.0, 9.0] {
                let h = 1e-6;
                let slope = (radial.value(s + h) - radial.value(s - h)) / (2.0 * h);
                assert!((radial.slope(s) - slope).abs() < 1e-6 * slope.abs().max(1.0), "{radial:?} at {s}");
            }
            assert!(radial.value(0.0) == 1.0 && radial.slope(0.0).is_finite());
        }
    }

    const ALL: [Radial; 4] = [Radial::Gaussian, Radial::Exponential, Radial::Once, Radial::Twice];

    #[test]
    fn many_values_are_those_of_one_after_the_other() {
        for device in Device::available() {
            for radial in ALL {
                let s: Vec<f64> = (0..53).map(|i| 0.2 * f64::from(i * i)).collect();
                let mut values = s.clone();
                radial_values(device, radial, &mut values);
                let mut slopes = s.clone();
                radial_slopes(device, radial, &mut slopes);
                for ((s, value), slope) in s.iter().zip(values).zip(slopes) {
                    for (found, expected) in [(value, radial.value(*s)), (slope, radial.slope(*s))] {
                        let most = 1e-14 * expected.abs() + 1e-300;
                        assert!((found - expected).abs() <= most, "{device} {radial:?} {s}");
                    }
                }
            }
        }
    }

    fn number(i: usize) -> f32 {
        ((i * 37 + i * i % 11) % 101) as f32 / 40.0 - 1.2
    }

    /// Sizes around the lanes, the parts and the outputs taken together, on every path, against double precision.
    #[test]
    fn sums_are_those_of_the_formula_on_every_path() {
        for device in Device::available() {
            for (n, m, d, c) in
                [(1, 1, 1, 1), (17, 9, 3, 2), (16, 256, 7, 4), (33, 300, 5, 5), (20, 270, 40, 10)]
            {
                let x: Vec<f32> = (0..n * d).map(number).collect();
                let points: Vec<f32> = (0..m * d).map(|i| number(i + 5)).collect();
                let weights: Vec<f64> = (0..m * c).map(|i| f64::from(number(i + 3))).collect();
                for radial in ALL {
                    let mut out = vec![1.0; n * c];
                    add_radial_sums(device, radial, d, (&x, &points), &weights, &mut out);
                    for (i, x) in x.chunks_exact(d).enumerate() {
                        for k in 0..c {
                            let norm = |x: &[f32]| x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
                            let (mut expected, mut most) = (1.0, 2e-6);
                            for (j, a) in points.chunks_exact(d).enumerate() {
                                let square = |(x, a): (&f32, &f32)| (f64::from(*x) - f64::from(*a)).powi(2);
                                let term =
                                    weights[j * c + k] * radial.value(x.iter().zip(a).map(square).sum());
                                expected += term;
                                // Some roundings in single precision: of each term, and by products of its norms.
                                let by_products = if d < MANY_COLUMNS { 0.0 } else { norm(x) + norm(a) };
                                most += term.abs() * (2e-6 + 2e-7 * by_products);
                            }
                            let found = out[i * c + k];
                            assert!(
                                (found - expected).abs() < most,
                                "{device} {radial:?}: {found} {expected}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Products are used where they are as good as differences: a row far out, next to which others lie, is seen as by differences.
    #[test]
    fn close_rows_far_out_are_told_apart() {
        let d = MANY_COLUMNS;
        for radial in ALL {
            for device in Device::available() {
                for offset in [0.0, 300.0] {
                    let points: Vec<f32> = (0..9 * d).map(|i| offset + 0.1 * number(i)).collect();
                    for (j, a) in points.chunks_exact(d).enumerate() {
                        for (i, x) in points.chunks_exact(d).enumerate() {
                            let mut out = [0.0];
                            add_radial_sums(device, radial, d, (x, a), &[1.0], &mut out);
                            let square = |(x, a): (&f32, &f32)| (f64::from(*x) - f64::from(*a)).powi(2);
                            let expected = radial.value(x.iter().zip(a).map(square).sum());
                            assert!(
                                (out[0] - expected).abs() < 2e-6,
                                "{device} {radial:?} {offset}: {i}, {j}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Nearly equal rows of the largest norm whose distances are by products, and of many columns.
    #[test]
    fn products_lose_little() {
        let d = 512;
        let length = (0.9 * NEAR / d as f32).sqrt();
        let rows: Vec<f32> =
            (0..40 * d).map(|i| length * (1.0 - 2.0 * (i % d % 2) as f32 + 0.02 * number(i))).collect();
        for (device, radial) in Device::available().into_iter().flat_map(|d| ALL.map(|radial| (d, radial))) {
            let own = &rows[..d];
            for x in rows.chunks_exact(d) {
                let mut out = [0.0];
                add_radial_sums(device, radial, d, (x, own), &[1.0], &mut out);
                let square = |(x, a): (&f32, &f32)| (f64::from(*x) - f64::from(*a)).powi(2);
                let expected = radial.value(x.iter().zip(own).map(square).sum());
                assert!((out[0] - expected).abs() < 1e-5, "{device} {radial:?}: {} {expected}", out[0]);
            }
        }
    }

    /// Rows give the same bits alone and together, and what is far away is zero.
    #[test]
    fn rows_do_not_depend_on_their_neighbours() {
        for d in [3, MANY_COLUMNS] {
            rows_are_alone(d);
        }
    }

    fn rows_are_alone(d: usize) {
        let m = 270;
        // One row and one point are far out.
        let mut x: Vec<f32> = (0..40 * d).map(number).collect();
        x[7 * d..8 * d].iter_mut().for_each(|v| *v += 9.0);
        let mut points: Vec<f32> = (0..m * d).map(|i| number(i + 1)).collect();
        points[..d].iter_mut().for_each(|v| *v += 9.0);
        let weights: Vec<f64> = (0..m).map(|i| f64::from(number(i))).collect();
        for device in Device::available() {
            let of = |x: &[f32]| {
                let mut out = vec![0.0; x.len() / d];
                add_radial_sums(device, Radial::Once, d, (x, &points), &weights, &mut out);
                out
            };
            let together = of(&x);
            let alone: Vec<f64> = x.chunks_exact(5 * d).flat_map(of).collect();
            assert_eq!(together, alone, "{device}");
            assert_eq!(of(&vec![1e3; d]), [0.0], "{device}");
        }
    }
}
