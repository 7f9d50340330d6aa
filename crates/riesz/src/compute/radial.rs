//! Kernels of the distance alone: values, slopes, and sums over many points.
//!
//! Sixteen rows lie side by side and meet one point at a time. Distances are sums of squared differences, so that nothing cancels
//! between points that are close; those of many columns are ‖x‖² + ‖a‖² − 2⟨x, a⟩, half the work, for smooth kernels and where norms are so
//! small that little cancels (‖·‖² ≤ [`NEAR`] in units of the kernel); of bfloat16 numbers they are multiplied on AMX tiles where there are any. Values are in single, weights and sums in double precision, since the weights of
//! a wide kernel are large and cancel (of many outputs, sums of eight terms are in single precision). Sums run in the order of the points: how rows are shared among threads changes no digit.

use super::exponential::exp_of_negative;
use super::inner_products::{product_on, OnTiles, Product};
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

/// Rows x (n×d) and points a (m×d) in the units of the kernel, row-major.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<'a> {
    /// d.
    pub columns: usize,
    pub x: &'a [f32],
    pub points: &'a [f32],
    /// Whether all numbers are bfloat16. It is said and not looked for, so that a row's bits do not depend on the others.
    pub rounded: bool,
}

/// out_ic += Σ_j w_jc k(‖x_i − a_j‖²) for weights w (m×C), row-major.
pub(crate) fn add_radial_sums(
    device: Device,
    radial: Radial,
    pairs: Pairs<'_>,
    weights: &[f64],
    out: &mut [f64],
) {
    let m = pairs.points.len() / pairs.columns.max(1);
    if pairs.columns == 0 || m == 0 || pairs.x.is_empty() {
        return;
    }
    let outputs = weights.len() / m;
    debug_assert!(weights.len() == m * outputs && out.len() * pairs.columns == pairs.x.len() * outputs);
    let product = product_on(device).filter(|_| pairs.rounded);
    on_device(device, Sums { radial, pairs, product, outputs, weights, out });
}

struct Sums<'a> {
    radial: Radial,
    pairs: Pairs<'a>,
    /// How tiles are multiplied, where products are on tiles.
    product: Option<Product>,
    outputs: usize,
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

/// Values of a tile of points, aligned as lanes and tiles want them.
#[repr(align(64))]
struct TileOfValues([[f32; LANES]; POINTS]);

impl Sums<'_> {
    #[inline(always)]
    unsafe fn all<L: Lanes, P: Profile>(self) {
        let (Pairs { columns: d, x, points, .. }, c) = (self.pairs, self.outputs);
        let lanes = side_by_side(x, d);
        let by_products = P::SMOOTH && d >= MANY_COLUMNS;
        let norm_columns = if by_products { d } else { 0 };
        // SAFETY: the instructions are those of L.
        let row_norms = unsafe { squared_norms::<L>(x, norm_columns) };
        let mut on_tiles =
            self.product.filter(|_| by_products).map(|product| OnTiles::new(product, d, &lanes));
        let (mut values, mut short) = (TileOfValues([[0.0; LANES]; POINTS]), Vec::new());
        let mut sums = vec![[0.0; LANES]; c];
        for (points, weights) in points.chunks(POINTS * d).zip(self.weights.chunks(POINTS * c)) {
            let count = points.len() / d;
            // SAFETY: as above.
            let point_norms = unsafe { squared_norms::<L>(points, norm_columns) };
            let far = point_norms.iter().any(is_large);
            if let Some(on_tiles) = &mut on_tiles {
                on_tiles.take(points);
            }
            if c >= MANY_OUTPUTS {
                short.resize(c * count, 0.0);
                transpose(weights, c, &mut short);
            }
            let rows = lanes.chunks_exact(LANES * d).zip(self.out.chunks_mut(LANES * c)).enumerate();
            for (group, (x, out)) in rows {
                // SAFETY: `x` has d runs of lanes, `points` has `count` ≤ POINTS rows of d numbers, `values` a run for each.
                unsafe {
                    if by_products {
                        let own = &row_norms[group * LANES..row_norms.len().min((group + 1) * LANES)];
                        let norms = (own, &point_norms[..]);
                        match &on_tiles {
                            Some(on_tiles) => {
                                on_tiles.multiply(group, &mut values.0);
                                finish_products::<L, P>(norms, &mut values.0[..count]);
                            }
                            None => fill::<L, P, Products>(x, points, norms, &mut values.0[..count]),
                        }
                        if far || own.iter().any(is_large) {
                            fill_again::<L, P>(x, points, norms, &mut values.0[..count]);
                        }
                    } else {
                        fill::<L, P, Differences>(x, points, (&[], &[]), &mut values.0[..count]);
                    }
                }
                match c {
                    // SAFETY: the instructions are those of L.
                    MANY_OUTPUTS.. => unsafe {
                        add_weighted_shortly::<L>(&values.0[..count], &short, &mut sums, out);
                    },
                    _ => add_weighted(&values.0[..count], weights, c, out),
                }
            }
        }
    }
}

/// Weights m×C in single precision, as C×m.
#[inline(always)]
fn transpose(weights: &[f64], outputs: usize, short: &mut [f32]) {
    let m = short.len() / outputs;
    for (j, weights) in weights.chunks_exact(outputs).enumerate() {
        short[j..].iter_mut().step_by(m).zip(weights).for_each(|(short, w)| *short = *w as f32);
    }
}

/// Columns of sixteen rows after each other; rows that are not there are zeros.
#[inline(always)]
fn side_by_side(x: &[f32], d: usize) -> Vec<f32> {
    let mut lanes = vec![0.0_f32; (x.len() / d).div_ceil(LANES) * LANES * d];
    for (i, row) in x.chunks_exact(d).enumerate() {
        let group = &mut lanes[i / LANES * LANES * d..];
        row.iter().enumerate().for_each(|(j, x)| group[j * LANES + i % LANES] = *x);
    }
    lanes
}

/// ‖x‖² of rows of d columns, in sixteen sums in double precision; nothing for d = 0.
#[inline(always)]
unsafe fn squared_norms<L: Lanes>(rows: &[f32], d: usize) -> Vec<f32> {
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
fn is_large(norm: &f32) -> bool {
    norm.is_nan() || *norm > NEAR
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

/// The same for C outputs, by weights C×m: sums of [`SHORT`] terms in single precision, whose rounding is that of the values, are added in double
/// precision, in `sums`.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn add_weighted_shortly<L: Lanes>(
    values: &[[f32; LANES]],
    weights: &[f32],
    sums: &mut [[f64; LANES]],
    out: &mut [f64],
) {
    let (m, c) = (values.len(), sums.len());
    sums.fill([0.0; LANES]);
    for (part, values) in values.chunks(SHORT).enumerate() {
        let mut k = 0;
        while k < c {
            let (weights, sums) = (&weights[k * m + part * SHORT..], &mut sums[k..]);
            // SAFETY: there are weights of these values for as many outputs as are taken together.
            k += unsafe {
                match c - k {
                    4.. => add_terms::<L, 4>(values, weights, m, sums),
                    2 | 3 => add_terms::<L, 2>(values, weights, m, sums),
                    _ => add_terms::<L, 1>(values, weights, m, sums),
                }
            };
        }
    }
    for (i, out) in out.chunks_exact_mut(c).enumerate() {
        out.iter_mut().zip(&*sums).for_each(|(out, sum)| *out += sum[i]);
    }
}

/// Adds a few terms to N sums of sixteen, whose weights are m apart; N.
///
/// # Safety
/// As [`Lanes`]; there are N runs of weights, the last as long as `values`, and as many sums.
#[inline(always)]
unsafe fn add_terms<L: Lanes, const N: usize>(
    values: &[[f32; LANES]],
    weights: &[f32],
    m: usize,
    sums: &mut [[f64; LANES]],
) -> usize {
    debug_assert!(weights.len() >= (N - 1) * m + values.len() && sums.len() >= N);
    // SAFETY: as the caller says.
    unsafe {
        let mut short = [L::splat(0.0); N];
        for (j, value) in values.iter().enumerate() {
            let value = L::load(value.as_ptr());
            for (k, short) in short.iter_mut().enumerate() {
                *short = value.mul_add(L::splat(*weights.as_ptr().add(k * m + j)), *short);
            }
        }
        for (short, sums) in short.iter().zip(sums) {
            short.add_to(sums.as_mut_ptr());
        }
    }
    N
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
unsafe fn finish_products<L: Lanes, P: Profile>((own, norms): (&[f32], &[f32]), values: &mut [[f32; LANES]]) {
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
unsafe fn fill_again<L: Lanes, P: Profile>(
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
unsafe fn fill<L: Lanes, P: Profile, S: Squares>(
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
    use super::super::inner_products::tests::emulated;
    use super::super::to_bf16;
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

    /// Sums of numbers that are not rounded.
    fn add_sums(
        device: Device,
        radial: Radial,
        columns: usize,
        (x, points): (&[f32], &[f32]),
        weights: &[f64],
        out: &mut [f64],
    ) {
        let pairs = Pairs { columns, x, points, rounded: false };
        add_radial_sums(device, radial, pairs, weights, out);
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
                    add_sums(device, radial, d, (&x, &points), &weights, &mut out);
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
                            add_sums(device, radial, d, (x, a), &[1.0], &mut out);
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
                add_sums(device, radial, d, (x, own), &[1.0], &mut out);
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
                add_sums(device, Radial::Once, d, (x, &points), &weights, &mut out);
                out
            };
            let together = of(&x);
            let alone: Vec<f64> = x.chunks_exact(5 * d).flat_map(of).collect();
            assert_eq!(together, alone, "{device}");
            assert_eq!(of(&vec![1e3; d]), [0.0], "{device}");
        }
    }

    /// Rounded numbers on every path, and by tiles that are emulated, where sizes are around those of tiles; one row and one point are far out.
    #[test]
    fn sums_of_rounded_numbers_are_those_of_the_formula() {
        for d in [32, 33, 88, 100] {
            for m in [1, 5, 16, 255, 256, 257, 600] {
                for n in [1, 15, 16, 33] {
                    let mut x: Vec<f32> = (0..n * d).map(|i| to_bf16(0.3 * number(i))).collect();
                    let mut points: Vec<f32> = (0..m * d).map(|i| to_bf16(0.3 * number(i + 5))).collect();
                    x[(n - 1) * d..].iter_mut().for_each(|v| *v = to_bf16(*v + 3.0));
                    points[..d].iter_mut().for_each(|v| *v = to_bf16(*v + 3.0));
                    for radial in [Radial::Gaussian, Radial::Once, Radial::Twice] {
                        rounded_sums_are_right(
                            radial,
                            Pairs { columns: d, x: &x, points: &points, rounded: true },
                        );
                    }
                }
            }
        }
    }

    fn rounded_sums_are_right(radial: Radial, pairs: Pairs<'_>) {
        let Pairs { columns: d, x, points, .. } = pairs;
        let (n, m) = (x.len() / d, points.len() / d);
        let square = |(x, a): (&f32, &f32)| (f64::from(*x) - f64::from(*a)).powi(2);
        let value = |x: &[f32], a: &[f32]| radial.value(x.iter().zip(a).map(square).sum());
        let k: Vec<f64> =
            x.chunks_exact(d).flat_map(|x| points.chunks_exact(d).map(move |a| value(x, a))).collect();
        for outputs in [1, 3, 4, 10] {
            let weights: Vec<f64> = (0..m * outputs).map(|i| f64::from(number(i + 3))).collect();
            let right = |name: &str, out: &[f64]| {
                for (i, found) in out.iter().enumerate() {
                    let (row, output) = (i / outputs, i % outputs);
                    let terms = (0..m).map(|j| weights[j * outputs + output] * k[row * m + j]);
                    let (expected, size) = terms.fold((1.0, 1.0), |(sum, size), t| (sum + t, size + t.abs()));
                    assert!(
                        (found - expected).abs() < 5e-6 * size,
                        "{name} {radial:?} {d}, {m}, {n}, {outputs}: {found} {expected}"
                    );
                }
            };
            for device in Device::available() {
                let mut out = vec![1.0; n * outputs];
                add_radial_sums(device, radial, pairs, &weights, &mut out);
                right(&device.to_string(), &out);
                let (product, mut out) = (Some(emulated as Product), vec![1.0; n * outputs]);
                let weights = &weights;
                on_device(device, Sums { radial, pairs, product, outputs, weights, out: &mut out });
                right("emulated", &out);
            }
        }
    }
}
