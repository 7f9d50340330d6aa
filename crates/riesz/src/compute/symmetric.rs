//! Symmetric matrices in double precision: the rows of the lower triangle follow each other, row i begins at i(i + 1)/2.

use super::lanes::{on_device, Kernel, Lanes};
use super::Device;

/// Numbers in the lower triangle of an m×m matrix, its diagonal included; also where row m would begin.
pub(crate) fn packed(m: usize) -> usize {
    m * (m + 1) / 2
}

/// out = A v.
pub(crate) fn symmetric_product(device: Device, a: &[f64], v: &[f64], out: &mut [f64]) {
    debug_assert_eq!((a.len(), out.len()), (packed(v.len()), v.len()));
    on_device(device, Product { a, v, out });
}

struct Product<'a> {
    a: &'a [f64],
    v: &'a [f64],
    out: &'a mut [f64],
}

/// Partial sums of a dot product, in lanes that are added at the end.
const WIDTH: usize = 8;

impl Kernel for Product<'_> {
    type Output = ();

    /// One pass: row i gives out_i its dot product with v, and the earlier outputs v_i times itself.
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        self.out.fill(0.0);
        for (i, &own) in self.v.iter().enumerate() {
            let Some((diagonal, row)) = self.a[packed(i)..packed(i + 1)].split_last() else { return };
            let (v, (out, rest)) = (&self.v[..i], self.out.split_at_mut(i));
            let (row, row_end) = row.as_chunks::<WIDTH>();
            let (v, v_end) = v.as_chunks::<WIDTH>();
            let (out, out_end) = out.as_chunks_mut::<WIDTH>();
            let mut sums = [0.0; WIDTH];
            for ((row, v), out) in row.iter().zip(v).zip(out) {
                for l in 0..WIDTH {
                    sums[l] += row[l] * v[l];
                    out[l] += own * row[l];
                }
            }
            let mut sum: f64 = sums.iter().sum();
            for ((row, v), out) in row_end.iter().zip(v_end).zip(out_end) {
                sum += row * v;
                *out += own * row;
            }
            rest[0] = sum + diagonal * own;
        }
    }
}

/// A ← A + Σ factor u uᵀ over the terms; then row and column `without` go, if one is given. The vectors have the length of
/// A before.
pub(crate) fn symmetric_update(
    device: Device,
    a: &mut Vec<f64>,
    terms: &[(f64, &[f64])],
    without: Option<usize>,
) {
    let Some((_, u)) = terms.first() else { return };
    let m = u.len();
    debug_assert_eq!(a.len(), packed(m));
    on_device(device, Update { a, terms, m, without });
    a.truncate(packed(m - usize::from(without.is_some())));
}

struct Update<'a> {
    a: &'a mut [f64],
    terms: &'a [(f64, &'a [f64])],
    m: usize,
    without: Option<usize>,
}

impl Kernel for Update<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { a, terms, m, without } = self;
        let j = without.unwrap_or(m);
        for i in 0..m {
            let (from, to) = (packed(i), packed(i - usize::from(i > j)));
            if i == j {
                continue;
            }
            // What is before column j keeps its place in the row, what is after it moves up; rows only ever move forward.
            let head = j.min(i + 1);
            a.copy_within(from..from + head, to);
            add(&mut a[to..to + head], terms, i, 0);
            if i > j {
                let tail = i - j;
                a.copy_within(from + j + 1..from + i + 1, to + j);
                add(&mut a[to + j..to + j + tail], terms, i, j + 1);
            }
        }
    }
}

/// row_k += Σ factor u_i u_{first + k}.
#[inline(always)]
fn add(row: &mut [f64], terms: &[(f64, &[f64])], i: usize, first: usize) {
    for (factor, u) in terms {
        let scale = factor * u[i];
        for (a, u) in row.iter_mut().zip(&u[first..]) {
            *a += scale * u;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(i: usize) -> f64 {
        ((i * 7_919 + 13) % 101) as f64 / 50.0 - 1.0
    }

    /// Both against plain loops over the whole matrix, on every path and at lengths around the width of the lanes.
    #[test]
    fn packed_rows_are_a_symmetric_matrix() {
        for device in Device::available() {
            for m in [1, 2, 7, 8, 9, 33] {
                let a: Vec<f64> = (0..packed(m)).map(number).collect();
                let full = |a: &[f64], i: usize, k: usize| a[packed(i.max(k)) + i.min(k)];
                let [u, v] = [3, 5].map(|s| (0..m).map(|i| number(s * i + s)).collect::<Vec<_>>());
                let mut out = vec![0.0; m];
                symmetric_product(device, &a, &v, &mut out);
                for (i, out) in out.iter().enumerate() {
                    let expected: f64 = (0..m).map(|k| full(&a, i, k) * v[k]).sum();
                    assert!((out - expected).abs() < 1e-13, "{device}, {m}: {out} {expected}");
                }
                for without in [None, Some(0), Some(m / 2), Some(m - 1)] {
                    let mut changed = a.clone();
                    symmetric_update(device, &mut changed, &[(0.5, &u), (-2.0, &v)], without);
                    let kept: Vec<usize> = (0..m).filter(|i| Some(*i) != without).collect();
                    assert_eq!(changed.len(), packed(kept.len()));
                    for (i, &from) in kept.iter().enumerate() {
                        for (k, &column) in kept.iter().enumerate() {
                            let expected = full(&a, from, column) + 0.5 * u[from] * u[column]
                                - 2.0 * v[from] * v[column];
                            assert!(
                                (full(&changed, i, k) - expected).abs() < 1e-14,
                                "{device}, {m}, {without:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}
