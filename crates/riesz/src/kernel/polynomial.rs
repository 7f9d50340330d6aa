//! Polynomial kernels by TensorSketch.

use super::FeatureMap;
use crate::compute::{ExplicitBlock, FeatureBlock};
use crate::error::Result;
use crate::random::{Address, BlockIndex, Stream};
use std::f64::consts::TAU;

/// k(x, x') = (⟨x, x'⟩ + c)ᵖ, c ≥ 0.
pub(super) fn evaluate(degree: u32, constant: f64, x: &[f64], other: &[f64]) -> f64 {
    (x.iter().zip(other).map(|(a, b)| a * b).sum::<f64>() + constant).powi(degree as i32)
}

/// p independent count sketches of (x, √c): column j goes to cell `hash` with a sign.
struct Sketches {
    size: usize,
    cells: Vec<(u32, f32)>,
}

/// The convolution of p count sketches of (x, √c), computed by Fourier transform. Its plain inner product is k; a block
/// holds as many independent sketches as its largest power of two allows, and is scaled so that their mean is k.
pub(super) fn draw(map: &FeatureMap, degree: u32, constant: f64, index: BlockIndex) -> Result<FeatureBlock> {
    let (d, m) = (map.columns(), map.block_size);
    let size = 1 << m.trailing_zeros();
    let cell = |copy: usize, power: u32, j: usize| {
        let place = (copy as u32) << 8 | power;
        let words = Address::new(map.seed, Stream::Sketch, index, place).words(j as u32);
        (words[0] % size as u32, if words[1] & 1 == 0 { 1.0 } else { -1.0 })
    };
    let sketches: Vec<Sketches> = (0..m / size)
        .map(|copy| {
            let cells = (0..degree).flat_map(|p| (0..=d).map(move |j| cell(copy, p, j))).collect();
            Sketches { size, cells }
        })
        .collect();
    let scale = (size as f64).sqrt();
    let (map, root) = (map.clone(), constant.sqrt() as f32);
    ExplicitBlock::by_rows(d, m, move |x, out| {
        let mut x = map.scaled(x);
        x.push(root);
        for (sketches, out) in sketches.iter().zip(out.chunks_exact_mut(size)) {
            let product = sketches.convolve(&x);
            out.iter_mut().zip(product).for_each(|(out, (re, _))| *out = (scale * re) as f32);
        }
    })
}

type Complex = (f64, f64);

fn multiply(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

impl Sketches {
    fn convolve(&self, x: &[f32]) -> Vec<Complex> {
        let mut product = vec![(1.0, 0.0); self.size];
        for cells in self.cells.chunks_exact(x.len()) {
            let mut sketch = vec![(0.0, 0.0); self.size];
            for (&(cell, sign), &v) in cells.iter().zip(x) {
                sketch[cell as usize].0 += f64::from(sign * v);
            }
            fourier(&mut sketch, -1.0);
            product.iter_mut().zip(sketch).for_each(|(p, s)| *p = multiply(*p, s));
        }
        fourier(&mut product, 1.0);
        let n = self.size as f64;
        product.iter_mut().for_each(|p| *p = (p.0 / n, p.1 / n));
        product
    }
}

/// Σ_j z_j exp(sign · 2πi jk/n) in place; n is a power of two.
fn fourier(z: &mut [Complex], sign: f64) {
    let n = z.len();
    if n < 2 {
        return;
    }
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - n.trailing_zeros());
        if i < j {
            z.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let angle = sign * TAU / (2 * half) as f64;
        for start in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (sin, cos) = (angle * k as f64).sin_cos();
                let (a, b) = (z[start + k], multiply(z[start + k + half], (cos, sin)));
                z[start + k] = (a.0 + b.0, a.1 + b.1);
                z[start + k + half] = (a.0 - b.0, a.1 - b.1);
            }
        }
        half *= 2;
    }
}
