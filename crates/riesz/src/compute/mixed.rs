//! Features in single precision, coefficients in double: products of the two.

use super::lanes::{on_device, Kernel, Lanes};
use super::Device;

/// Partial sums of a dot product, in lanes that are added at the end.
const WIDTH: usize = 32;

/// Σ_j ψ_j θ_j.
pub(crate) fn mixed_dot(device: Device, psi: &[f32], theta: &[f64]) -> f64 {
    debug_assert_eq!(psi.len(), theta.len());
    on_device(device, Dot { psi, theta })
}

struct Dot<'a> {
    psi: &'a [f32],
    theta: &'a [f64],
}

impl Kernel for Dot<'_> {
    type Output = f64;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> f64 {
        dot(self.psi, self.theta)
    }
}

#[inline(always)]
fn dot(psi: &[f32], theta: &[f64]) -> f64 {
    let (psi, psi_end) = psi.as_chunks::<WIDTH>();
    let (theta, theta_end) = theta.as_chunks::<WIDTH>();
    let mut sums = [0.0; WIDTH];
    for (psi, theta) in psi.iter().zip(theta) {
        for l in 0..WIDTH {
            sums[l] += f64::from(psi[l]) * theta[l];
        }
    }
    let end: f64 = psi_end.iter().zip(theta_end).map(|(psi, theta)| f64::from(*psi) * theta).sum();
    sums.iter().sum::<f64>() + end
}

/// θ ← θ + w ψ.
pub(crate) fn mixed_add(device: Device, weight: f64, psi: &[f32], theta: &mut [f64]) {
    debug_assert_eq!(psi.len(), theta.len());
    on_device(device, Add { weight, psi, theta });
}

struct Add<'a> {
    weight: f64,
    psi: &'a [f32],
    theta: &'a mut [f64],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (theta, psi) in self.theta.iter_mut().zip(self.psi) {
            *theta += self.weight * f64::from(*psi);
        }
    }
}

/// The lower triangle of an m×m matrix in single precision, column after column: column j has rows j, …, m − 1.
#[derive(Clone, Debug)]
pub(crate) struct Triangle {
    m: usize,
    columns: Vec<f32>,
}

/// Columns that a product takes at once, so that the vector it adds to is loaded and stored for all of them.
const TOGETHER: usize = 4;

impl Triangle {
    /// The triangle with these entries.
    pub(crate) fn new(m: usize, entry: impl Fn(usize, usize) -> f32) -> Self {
        Self {
            m,
            columns: (0..m).flat_map(|j| (j..m).map(move |i| (i, j))).map(|(i, j)| entry(i, j)).collect(),
        }
    }

    /// Number of rows, and of columns.
    pub(crate) fn len(&self) -> usize {
        self.m
    }

    /// Where column j begins.
    fn start(&self, j: usize) -> usize {
        j * self.m - j * j.saturating_sub(1) / 2
    }

    /// Column j from row `first` ≥ j on.
    #[inline(always)]
    fn tail(&self, j: usize, first: usize) -> &[f32] {
        let start = self.start(j);
        &self.columns[start + first - j..start + self.m - j]
    }

    /// out = A x.
    pub(crate) fn apply(&self, device: Device, x: &[f64], out: &mut [f64]) {
        debug_assert_eq!((x.len(), out.len()), (self.m, self.m));
        on_device(device, Apply { a: self, x, out });
    }

    /// out = Aᵀ x.
    pub(crate) fn apply_transposed(&self, device: Device, x: &[f64], out: &mut [f64]) {
        debug_assert_eq!((x.len(), out.len()), (self.m, self.m));
        on_device(device, ApplyTransposed { a: self, x, out });
    }
}

struct Apply<'a> {
    a: &'a Triangle,
    x: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for Apply<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Self { a, x, out } = self;
        out.fill(0.0);
        for first in (0..a.m).step_by(TOGETHER) {
            let end = (first + TOGETHER).min(a.m);
            for (j, x) in (first..end).zip(&x[first..end]) {
                let corner = out[j..end].iter_mut().zip(a.tail(j, j));
                corner.for_each(|(out, a)| *out += x * f64::from(*a));
            }
            if end - first < TOGETHER {
                return;
            }
            let [c0, c1, c2, c3] = [0, 1, 2, 3].map(|k| a.tail(first + k, end));
            let [x0, x1, x2, x3] = [0, 1, 2, 3].map(|k| x[first + k]);
            let out = &mut out[end..];
            let (c1, c2, c3) = (&c1[..c0.len()], &c2[..c0.len()], &c3[..c0.len()]);
            for (i, out) in out[..c0.len()].iter_mut().enumerate() {
                let near = x0 * f64::from(c0[i]) + x1 * f64::from(c1[i]);
                let far = x2 * f64::from(c2[i]) + x3 * f64::from(c3[i]);
                *out += near + far;
            }
        }
    }
}

struct ApplyTransposed<'a> {
    a: &'a Triangle,
    x: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for ApplyTransposed<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (j, out) in self.out.iter_mut().enumerate() {
            *out = dot(self.a.tail(j, j), &self.x[j..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both against plain loops, on every path and at lengths around the width of the lanes.
    #[test]
    fn products_are_those_of_plain_loops() {
        for device in Device::available() {
            for m in [0, 1, 31, 32, 33, 513] {
                let psi: Vec<f32> = (0..m).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
                let mut theta: Vec<f64> = (0..m).map(|i| ((i * 53 + 7) % 89) as f64 / 44.0 - 1.0).collect();
                let expected: f64 = psi.iter().zip(&theta).map(|(p, t)| f64::from(*p) * t).sum();
                let found = mixed_dot(device, &psi, &theta);
                // Rounding of m products below one.
                assert!((found - expected).abs() <= 1e-15 * m as f64, "{device}, {m}: {found} {expected}");
                let sums: Vec<f64> = theta.iter().zip(&psi).map(|(t, p)| t - 0.3 * f64::from(*p)).collect();
                mixed_add(device, -0.3, &psi, &mut theta);
                let close = theta.iter().zip(&sums).all(|(found, sum)| (found - sum).abs() < 1e-15);
                assert!(close, "{device}, {m}");
            }
        }
    }

    /// Ax and Aᵀx against sums over the triangle, at sizes around the number of columns taken together.
    #[test]
    fn triangles_are_multiplied() {
        for device in Device::available() {
            for m in [1, 3, 4, 5, 37, 64] {
                let entry = |i: usize, j: usize| ((i * 31 + j * 17 + 5) % 23) as f32 / 11.0 - 1.0;
                let (a, x) =
                    (Triangle::new(m, entry), (0..m).map(|i| (i % 7) as f64 - 3.0).collect::<Vec<_>>());
                let [mut found, mut transposed] = [vec![f64::NAN; m], vec![f64::NAN; m]];
                a.apply(device, &x, &mut found);
                a.apply_transposed(device, &x, &mut transposed);
                for k in 0..m {
                    let row: f64 = (0..=k).map(|j| f64::from(entry(k, j)) * x[j]).sum();
                    let column: f64 = (k..m).map(|i| f64::from(entry(i, k)) * x[i]).sum();
                    // Rounding of m products below three.
                    let tolerance = 3e-15 * m as f64;
                    assert!((found[k] - row).abs() < tolerance, "{device}, {m}: {} {row}", found[k]);
                    assert!((transposed[k] - column).abs() < tolerance, "{device}, {m}");
                }
            }
        }
    }
}
