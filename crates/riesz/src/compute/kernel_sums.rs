//! Sums of Gaussian kernels, in blocks of centres.
//!
//! Queries q and centres c are taken relative to an origin near the queries, both times √log₂e, so that
//!
//! ```text
//! w_j exp(−½‖q − c_j‖²) = exp(−½‖q‖²) 2^(β_j + ⟨q, c_j⟩),    β_j = log₂ w_j − ½‖c_j‖² log₂e:
//! ```
//!
//! d fused multiplications and one power of two per pair. Sixteen queries lie side by side and meet one centre at a time;
//! β is computed in double precision and rounded after a whole number, the base of the block, was taken from it.

use super::exponential::exp_of_negative;
use super::lanes::{load_all, on_device, Kernel, Lanes, LANES};
use super::Device;

/// Most centres of a block: few enough that a sum in single precision loses nothing that matters.
pub(crate) const CENTRES: usize = 256;
/// Queries that are met together.
pub(crate) const QUERIES: usize = 2 * LANES;
/// Centres that are met together; blocks are filled up to a multiple of it.
const TOGETHER: usize = 8;
/// Powers of one coordinate in the moments of a block.
pub(crate) const POWERS: usize = LANES;
/// Up to so many coordinates, products are few.
const FEW: usize = 12;
/// β of a centre that is not there.
const ABSENT: f32 = -1e30;

/// A block of centres in double precision: d runs of [`CENTRES`] numbers, and the logarithms of the weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CentreBlock<'a> {
    pub values: &'a [f64],
    pub log_weights: &'a [f64],
    pub len: usize,
}

/// A block of centres relative to an origin, in single precision.
#[derive(Clone, Debug)]
pub(crate) struct PackedBlock {
    /// d runs of [`CENTRES`] numbers.
    values: Vec<f32>,
    /// β_j less the base.
    bias: [f32; CENTRES],
    squares: [f64; CENTRES],
    len: usize,
    columns: usize,
    /// The whole number next above every β_j.
    pub base: f64,
    /// The largest ‖c_j‖, before the factor √log₂e.
    pub radius: f64,
}

impl PackedBlock {
    /// Room for blocks of `columns` coordinates.
    pub(crate) fn new(columns: usize) -> Self {
        let values = vec![0.0; columns * CENTRES];
        Self {
            values,
            bias: [ABSENT; CENTRES],
            squares: [0.0; CENTRES],
            len: 0,
            columns,
            base: 0.0,
            radius: 0.0,
        }
    }

    /// Takes the place of `block` relative to `origin`.
    pub(crate) fn pack(&mut self, device: Device, block: CentreBlock<'_>, origin: &[f64]) {
        self.len = block.len.next_multiple_of(LANES);
        on_device(device, Pack { packed: self, block, origin });
    }

    /// out_i = Σ_j 2^(β_j + ⟨q_i, c_j⟩ − shift_i), β_j less the base. `queries` holds groups of [`QUERIES`] queries, d runs
    /// each.
    pub(crate) fn sums(&self, device: Device, queries: &[f32], shift: &[f32], out: &mut [f32]) {
        on_device(device, Sums { block: self, queries, shift, out });
    }

    /// out_i = max_j β_j + ⟨q_i, c_j⟩.
    pub(crate) fn maxima(&self, device: Device, queries: &[f32], out: &mut [f32]) {
        on_device(device, Maxima { block: self, queries, out });
    }

    /// out_ba += Σ_j 2^(β_j − shift) c_j1ᵃ c_j2ᵇ for a, b below [`POWERS`], b by rows; in one dimension b = 0 alone.
    pub(crate) fn add_moments(&self, device: Device, shift: f32, out: &mut [f64]) {
        on_device(device, Moments { block: self, shift, out });
    }
}

struct Pack<'a> {
    packed: &'a mut PackedBlock,
    block: CentreBlock<'a>,
    origin: &'a [f64],
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { packed, block, origin } = self;
        let scale = std::f64::consts::LOG2_E.sqrt();
        packed.squares = [0.0; CENTRES];
        let runs = block.values.chunks_exact(CENTRES).zip(packed.values.chunks_exact_mut(CENTRES));
        for ((from, to), &o) in runs.zip(origin) {
            for ((c, to), square) in from.iter().zip(to).zip(&mut packed.squares) {
                let c = c - o;
                *to = (c * scale) as f32;
                *square += c * c;
            }
        }
        let (mut most, mut farthest) = (f64::NEG_INFINITY, 0.0);
        for square in &packed.squares {
            farthest = if *square > farthest { *square } else { farthest };
        }
        packed.radius = farthest.sqrt();
        for (square, w) in packed.squares.iter_mut().zip(block.log_weights) {
            *square = (w - 0.5 * *square) * std::f64::consts::LOG2_E;
            most = if *square > most { *square } else { most };
        }
        packed.base = most.ceil();
        for (bias, beta) in packed.bias.iter_mut().zip(&packed.squares) {
            *bias = (beta - packed.base).max(f64::from(ABSENT)) as f32;
        }
    }
}

struct Sums<'a> {
    block: &'a PackedBlock,
    queries: &'a [f32],
    shift: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Sums<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let groups = self.queries.chunks_exact(QUERIES * self.block.columns);
        let results = self.shift.chunks_exact(QUERIES).zip(self.out.chunks_exact_mut(QUERIES));
        for (q, (shift, out)) in groups.zip(results) {
            // SAFETY: `q` has a run of QUERIES numbers per column, `shift` and `out` have QUERIES numbers.
            unsafe {
                if L::WIDE {
                    self.block.group_sums::<L, 2, TOGETHER>(q.as_ptr(), shift.as_ptr(), out.as_mut_ptr());
                } else {
                    for v in (0..QUERIES).step_by(LANES) {
                        let (q, shift) = (q.as_ptr().add(v), shift.as_ptr().add(v));
                        self.block.group_sums::<L, 1, 4>(q, shift, out.as_mut_ptr().add(v));
                    }
                }
            }
        }
    }
}

impl PackedBlock {
    /// V vectors of queries against all centres, C at a time.
    #[inline(always)]
    unsafe fn group_sums<L: Lanes, const V: usize, const C: usize>(
        &self,
        q: *const f32,
        shift: *const f32,
        out: *mut f32,
    ) {
        // SAFETY: `len` is a multiple of C not above CENTRES.
        unsafe {
            let shift = load_all::<L, V>(shift, LANES);
            let mut sums = [L::splat(0.0); V];
            let few = self.columns <= FEW;
            for j in (0..self.len).step_by(C) {
                let mut x = [[L::splat(0.0); V]; C];
                // Near the largest exponents products cancel β − shift. Half of it goes before many products and half after
                // them, so that they are rounded at half its size.
                self.add_biases(j, &shift, if few { 1.0 } else { 0.5 }, &mut x);
                self.add_products(q, j, &mut x);
                if !few {
                    self.add_biases(j, &shift, 0.5, &mut x);
                }
                for x in x {
                    for v in 0..V {
                        sums[v] = sums[v].add(x[v].exp2());
                    }
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                sum.store(out.add(v * LANES));
            }
        }
    }

    /// x_cv += factor (β_{j+c} − shift_v).
    #[inline(always)]
    unsafe fn add_biases<L: Lanes, const V: usize, const C: usize>(
        &self,
        j: usize,
        shift: &[L; V],
        factor: f32,
        x: &mut [[L; V]; C],
    ) {
        // SAFETY: j + C is at most CENTRES.
        unsafe {
            for (c, x) in x.iter_mut().enumerate() {
                let bias = L::splat(*self.bias.get_unchecked(j + c));
                for v in 0..V {
                    x[v] = bias.sub(shift[v]).mul_add(L::splat(factor), x[v]);
                }
            }
        }
    }

    /// x_cv += ⟨q_v, c_{j+c}⟩.
    #[inline(always)]
    unsafe fn add_products<L: Lanes, const V: usize, const C: usize>(
        &self,
        q: *const f32,
        j: usize,
        x: &mut [[L; V]; C],
    ) {
        // SAFETY: there are `columns` runs of QUERIES and of CENTRES numbers.
        unsafe {
            let centres = self.values.as_ptr().add(j);
            for k in 0..self.columns {
                let q = load_all::<L, V>(q.add(k * QUERIES), LANES);
                for (c, x) in x.iter_mut().enumerate() {
                    let centre = L::splat(*centres.add(k * CENTRES + c));
                    for v in 0..V {
                        x[v] = q[v].mul_add(centre, x[v]);
                    }
                }
            }
        }
    }
}

struct Maxima<'a> {
    block: &'a PackedBlock,
    queries: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Maxima<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let groups = self.queries.chunks_exact(QUERIES * self.block.columns);
        for (q, out) in groups.zip(self.out.chunks_exact_mut(QUERIES)) {
            for v in (0..QUERIES).step_by(LANES) {
                // SAFETY: as for `Sums`.
                unsafe {
                    let mut most = L::splat(2.0 * ABSENT);
                    for j in (0..self.block.len).step_by(TOGETHER) {
                        let mut x = [[L::splat(0.0); 1]; TOGETHER];
                        for (c, x) in x.iter_mut().enumerate() {
                            x[0] = L::splat(*self.block.bias.get_unchecked(j + c));
                        }
                        self.block.add_products(q.as_ptr().add(v), j, &mut x);
                        for x in x {
                            most = most.max(x[0]);
                        }
                    }
                    most.store(out.as_mut_ptr().add(v));
                }
            }
        }
    }
}

struct Moments<'a> {
    block: &'a PackedBlock,
    shift: f32,
    out: &'a mut [f64],
}

impl Kernel for Moments<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: `len` is a multiple of LANES not above CENTRES, and there are `columns` runs of CENTRES numbers.
        unsafe {
            let mut sums = [L::splat(0.0); POWERS];
            let mut left = [[0.0_f32; LANES]; POWERS];
            for j in (0..self.block.len).step_by(LANES) {
                let mut power = L::load(self.block.bias.as_ptr().add(j)).sub(L::splat(self.shift)).exp2();
                let x = L::load(self.block.values.as_ptr().add((self.block.columns - 1) * CENTRES + j));
                if self.block.columns == 1 {
                    for sum in &mut sums {
                        *sum = sum.add(power);
                        power = power.mul(x);
                    }
                    continue;
                }
                for left in &mut left {
                    power.store(left.as_mut_ptr());
                    power = power.mul(x);
                }
                // One vector of powers of the first coordinate per centre.
                let y = L::load(self.block.values.as_ptr().add(j));
                let mut right = [L::splat(1.0); POWERS];
                for b in 1..POWERS {
                    right[b] = right[b - 1].mul(y);
                }
                L::transpose(&mut right);
                for (i, right) in right.into_iter().enumerate() {
                    for a in 0..POWERS {
                        sums[a] = L::splat(left[a][i]).mul_add(right, sums[a]);
                    }
                }
            }
            let mut row = [0.0_f32; LANES];
            for (a, sum) in sums.into_iter().enumerate() {
                sum.store(row.as_mut_ptr());
                if self.block.columns == 1 {
                    self.out[a] += row.iter().map(|&v| f64::from(v)).sum::<f64>();
                } else {
                    let out = &mut self.out[a * POWERS..(a + 1) * POWERS];
                    out.iter_mut().zip(row).for_each(|(out, v)| *out += f64::from(v));
                }
            }
        }
    }
}

/// (m, s) in double precision: m = max_j e_j and s = Σ_j exp(e_j − m) for e_j = log w_j − ½‖q − c_j‖².
pub(crate) fn exact_log_sum(device: Device, block: CentreBlock<'_>, query: &[f64]) -> (f64, f64) {
    on_device(device, Exact { block, query })
}

struct Exact<'a> {
    block: CentreBlock<'a>,
    query: &'a [f64],
}

impl Kernel for Exact<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> (f64, f64) {
        let count = self.block.len.next_multiple_of(LANES);
        let squares = squares(self.block, self.query);
        let mut exponents = [f64::NEG_INFINITY; CENTRES];
        let mut most = f64::NEG_INFINITY;
        let terms = squares[..count].iter().zip(self.block.log_weights).zip(&mut exponents);
        for ((square, w), e) in terms {
            *e = w - 0.5 * square;
            most = if *e > most { *e } else { most };
        }
        let mut partial = [0.0; LANES];
        for part in exponents[..count].chunks_exact(LANES) {
            for (sum, e) in partial.iter_mut().zip(part) {
                let x = e - most;
                *sum += if x < -700.0 { 0.0 } else { exp_of_negative(x) };
            }
        }
        (most, partial.iter().sum())
    }
}

/// ‖q − c_j‖² of a block in double precision.
pub(crate) fn squared_distances(device: Device, block: CentreBlock<'_>, query: &[f64]) -> [f64; CENTRES] {
    on_device(device, Squares { block, query })
}

struct Squares<'a> {
    block: CentreBlock<'a>,
    query: &'a [f64],
}

impl Kernel for Squares<'_> {
    type Output = [f64; CENTRES];

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> [f64; CENTRES] {
        squares(self.block, self.query)
    }
}

/// ‖q − c_j‖² of a block, by differences.
#[inline(always)]
fn squares(block: CentreBlock<'_>, query: &[f64]) -> [f64; CENTRES] {
    // Sixteen sums at a time stay in registers.
    let mut squares = [0.0; CENTRES];
    let count = block.len.next_multiple_of(LANES);
    for (g, squares) in squares[..count].chunks_exact_mut(LANES).enumerate() {
        let mut sums = [0.0; LANES];
        for (from, q) in block.values.chunks_exact(CENTRES).zip(query) {
            for (sum, c) in sums.iter_mut().zip(&from[g * LANES..(g + 1) * LANES]) {
                *sum += (q - c) * (q - c);
            }
        }
        squares.copy_from_slice(&sums);
    }
    squares
}

/// Σ_ab M_ab x_i^a y_i^b, with the moments M divided by a! b! beforehand, b by rows; `points` has one or two numbers per
/// query.
pub(crate) fn polynomial(device: Device, moments: &[f64], points: &[f64], columns: usize, out: &mut [f64]) {
    on_device(device, Polynomial { moments, points, columns, out });
}

struct Polynomial<'a> {
    moments: &'a [f64],
    points: &'a [f64],
    columns: usize,
    out: &'a mut [f64],
}

impl Kernel for Polynomial<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // Plain loops: closures would not inherit the instructions.
        for (point, out) in self.points.chunks_exact(self.columns).zip(self.out) {
            let mut powers = [[1.0; POWERS]; 2];
            for (powers, x) in powers.iter_mut().zip(point) {
                for a in 1..POWERS {
                    powers[a] = powers[a - 1] * x;
                }
            }
            let [left, right] = powers;
            let mut rows = [0.0; POWERS];
            if self.columns == 1 {
                rows.copy_from_slice(self.moments);
            } else {
                for (row, p) in self.moments.chunks_exact(POWERS).zip(right) {
                    for (sum, m) in rows.iter_mut().zip(row) {
                        *sum += p * m;
                    }
                }
            }
            let mut sum = 0.0;
            for (row, p) in rows.iter().zip(left) {
                sum += row * p;
            }
            *out = sum;
        }
    }
}
