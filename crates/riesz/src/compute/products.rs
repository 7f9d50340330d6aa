//! What is done with the features of sixteen rows while they are in cache.
//!
//! Features arrive *feature-major*: feature j of the sixteen rows is one vector at `phi + j·stride`.

use super::lanes::{load_all, Lanes, LANES};

/// Features `offset..offset + count` of one lane group.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    /// First vector.
    pub phi: *const f32,
    /// Distance between the vectors of two features, in numbers.
    pub stride: usize,
    /// Index of the first feature within its block.
    pub offset: usize,
    /// Number of features.
    pub count: usize,
}

/// Consumer of feature groups. A sink sees the features of a lane group in order, then `finish`.
pub(crate) trait Sink {
    /// Takes the features of the lane group whose first row is `row` (within the tile).
    ///
    /// # Safety
    /// `group` points to `count` vectors; the machine has the instructions of `L`.
    unsafe fn take<L: Lanes>(&mut self, row: usize, group: Group);
    /// All features of the lane group starting at `row`, of which `valid` rows exist, have been seen.
    ///
    /// # Safety
    /// As for `take`.
    unsafe fn finish<L: Lanes>(&mut self, row: usize, valid: usize);
}

/// Calls a kernel for the widest register block that fits the remaining outputs, and advances.
macro_rules! by_width {
    ($left:expr, $c:ident, |$W:ident| $call:expr) => {
        match $left {
            10.. => {
                const $W: usize = 10;
                $call;
                $c += $W;
            }
            5..=9 => {
                const $W: usize = 5;
                $call;
                $c += $W;
            }
            3..=4 => {
                const $W: usize = 3;
                $call;
                $c += $W;
            }
            2 => {
                const $W: usize = 2;
                $call;
                $c += $W;
            }
            _ => {
                const $W: usize = 1;
                $call;
                $c += $W;
            }
        }
    };
}

/// F += Φ A: A is m×C row-major, F is rows×C row-major.
pub(crate) struct Apply<'a> {
    coefficients: &'a [f32],
    outputs: usize,
    out: &'a mut [f32],
    sums: Vec<f32>,
}

impl<'a> Apply<'a> {
    pub(crate) fn new(coefficients: &'a [f32], outputs: usize, out: &'a mut [f32]) -> Self {
        Self { coefficients, outputs, out, sums: vec![0.0; outputs * LANES] }
    }

    #[inline(always)]
    unsafe fn block<L: Lanes, const W: usize>(&mut self, group: Group, c: usize) {
        // SAFETY: c + W ≤ C, and A has a row for every feature of the group.
        unsafe {
            let sums = self.sums.as_mut_ptr().add(c * LANES);
            let mut acc = load_all::<L, W>(sums, LANES);
            let mut a = self.coefficients.as_ptr().add(group.offset * self.outputs + c);
            let mut phi = group.phi;
            for _ in 0..group.count {
                let value = L::load(phi);
                for (k, sum) in acc.iter_mut().enumerate() {
                    *sum = value.mul_add(L::splat(*a.add(k)), *sum);
                }
                a = a.add(self.outputs);
                phi = phi.add(group.stride);
            }
            for (k, sum) in acc.iter().enumerate() {
                sum.store(sums.add(k * LANES));
            }
        }
    }
}

impl Sink for Apply<'_> {
    #[inline(always)]
    unsafe fn take<L: Lanes>(&mut self, _: usize, group: Group) {
        let mut c = 0;
        while c < self.outputs {
            // SAFETY: c + width ≤ C.
            unsafe { by_width!(self.outputs - c, c, |W| self.block::<L, W>(group, c)) }
        }
    }

    #[inline(always)]
    unsafe fn finish<L: Lanes>(&mut self, row: usize, valid: usize) {
        for lane in 0..valid {
            for c in 0..self.outputs {
                self.out[(row + lane) * self.outputs + c] += self.sums[c * LANES + lane];
            }
        }
        self.sums.fill(0.0);
    }
}

/// G += Φᵀ R: R is rows×C row-major, G is C×m (column-major Φᵀ R).
pub(crate) struct Adjoint<'a> {
    residual: &'a [f32],
    outputs: usize,
    features: usize,
    out: &'a mut [f32],
}

impl<'a> Adjoint<'a> {
    pub(crate) fn new(residual: &'a [f32], outputs: usize, features: usize, out: &'a mut [f32]) -> Self {
        Self { residual, outputs, features, out }
    }

    /// Sixteen features (rows of `phi` after transposition) times W outputs.
    #[inline(always)]
    unsafe fn block<L: Lanes, const W: usize>(
        &mut self,
        phi: &[L; LANES],
        row: usize,
        feature: usize,
        c: usize,
    ) {
        let rows = (self.residual.len() / self.outputs - row).min(LANES);
        // SAFETY: c + W ≤ C, row + rows is within R, feature + 16 ≤ m.
        unsafe {
            let out = self.out.as_mut_ptr().add(c * self.features + feature);
            let mut acc = load_all::<L, W>(out, self.features);
            let r = self.residual.as_ptr().add(row * self.outputs + c);
            for (i, value) in phi.iter().enumerate().take(rows) {
                for (k, sum) in acc.iter_mut().enumerate() {
                    *sum = value.mul_add(L::splat(*r.add(i * self.outputs + k)), *sum);
                }
            }
            for (k, sum) in acc.iter().enumerate() {
                sum.store(out.add(k * self.features));
            }
        }
    }
}

impl Sink for Adjoint<'_> {
    #[inline(always)]
    unsafe fn take<L: Lanes>(&mut self, row: usize, group: Group) {
        for j in (0..group.count).step_by(LANES) {
            // SAFETY: blocks hold a multiple of sixteen features.
            unsafe {
                let mut phi = load_all::<L, LANES>(group.phi.add(j * group.stride), group.stride);
                L::transpose(&mut phi);
                let feature = group.offset + j;
                let mut c = 0;
                while c < self.outputs {
                    by_width!(self.outputs - c, c, |W| self.block::<L, W>(&phi, row, feature, c));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish<L: Lanes>(&mut self, _: usize, _: usize) {}
}

/// Lane groups of a logical tile that enter a Gram matrix; the others are passed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection(pub u64);

impl Selection {
    /// Every lane group.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// The row the group at `row` is packed to, if it is selected.
    #[inline(always)]
    pub(crate) fn packed_row(self, row: usize) -> Option<usize> {
        let bit = 1_u64 << (row / LANES);
        (self.0 & bit != 0).then(|| (self.0 & (bit - 1)).count_ones() as usize * LANES)
    }
}

/// Writes diag(√w) Φ row-major, selected rows only.
pub(crate) struct Materialise<'a> {
    features: usize,
    roots: Option<&'a [f32]>,
    selection: Selection,
    out: &'a mut [f32],
}

impl<'a> Materialise<'a> {
    pub(crate) fn new(features: usize, out: &'a mut [f32]) -> Self {
        Self { features, roots: None, selection: Selection::ALL, out }
    }

    pub(crate) fn weighted(
        features: usize,
        roots: &'a [f32],
        selection: Selection,
        out: &'a mut [f32],
    ) -> Self {
        Self { features, roots: Some(roots), selection, out }
    }
}

impl Sink for Materialise<'_> {
    #[inline(always)]
    unsafe fn take<L: Lanes>(&mut self, row: usize, group: Group) {
        let Some(packed) = self.selection.packed_row(row) else { return };
        let rows = (self.out.len() / self.features - packed).min(LANES);
        let rows = self.roots.map_or(rows, |roots| rows.min(roots.len() - row));
        for j in (0..group.count).step_by(LANES) {
            // SAFETY: blocks hold a multiple of sixteen features, and `rows` rows of `out` exist.
            unsafe {
                let mut phi = load_all::<L, LANES>(group.phi.add(j * group.stride), group.stride);
                L::transpose(&mut phi);
                for (i, value) in phi.iter().enumerate().take(rows) {
                    let to = self.out.as_mut_ptr().add((packed + i) * self.features + group.offset + j);
                    match self.roots {
                        Some(roots) => value.mul(L::splat(roots[row + i])).store(to),
                        None => value.store(to),
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish<L: Lanes>(&mut self, _: usize, _: usize) {}
}

/// Two sinks on the same features.
pub(crate) struct Both<A, B>(pub A, pub B);

impl<A: Sink, B: Sink> Sink for Both<A, B> {
    #[inline(always)]
    unsafe fn take<L: Lanes>(&mut self, row: usize, group: Group) {
        // SAFETY: passed on unchanged.
        unsafe {
            self.0.take::<L>(row, group);
            self.1.take::<L>(row, group);
        }
    }

    #[inline(always)]
    unsafe fn finish<L: Lanes>(&mut self, row: usize, valid: usize) {
        // SAFETY: passed on unchanged.
        unsafe {
            self.0.finish::<L>(row, valid);
            self.1.finish::<L>(row, valid);
        }
    }
}
