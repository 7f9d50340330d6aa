//! The arc-cosine kernels.

use super::FeatureMap;
use crate::compute::{Activation, DenseBlock, FeatureBlock, Input};
use crate::error::Result;
use crate::linalg::dot;
use crate::random::{normals, Address, BlockIndex, Stream};
use std::f64::consts::PI;

/// k(x, x') = π⁻¹ ‖x‖ⁿ ‖x'‖ⁿ J_n(θ), θ the angle between x and x', with J₀ = π − θ, J₁ = sin θ + (π − θ) cos θ and
/// J₂ = 3 sin θ cos θ + (π − θ)(1 + 2 cos² θ): what an infinite layer of step, ramp or squared-ramp units computes.
pub(super) fn evaluate(order: u32, x: &[f64], other: &[f64]) -> f64 {
    let norms = (dot(x, x) * dot(other, other)).sqrt();
    let cos = if norms > 0.0 { (dot(x, other) / norms).clamp(-1.0, 1.0) } else { 0.0 };
    let (theta, sin) = (cos.acos(), (1.0 - cos * cos).sqrt());
    let angular = match order {
        0 => PI - theta,
        1 => sin + (PI - theta) * cos,
        _ => 3.0 * sin * cos + (PI - theta) * (1.0 + 2.0 * cos * cos),
    };
    // Nothing lies on the positive side of a plane through a point at the origin.
    if norms == 0.0 {
        return 0.0;
    }
    norms.powi(order as i32) * angular / PI
}

/// φ_ω(x) = √2 1[ωᵀx > 0] (ωᵀx)ⁿ, ω ~ N(0, I).
pub(super) fn draw(map: &FeatureMap, order: u32, index: BlockIndex) -> Result<FeatureBlock> {
    let d = map.columns();
    let mut frequencies = vec![0.0; map.block_size * d];
    let mut omega = vec![0.0; d];
    for (j, out) in frequencies.chunks_exact_mut(d).enumerate() {
        normals(Address::new(map.seed, Stream::Frequency, index, j as u32), &mut omega);
        for (i, out) in out.iter_mut().enumerate() {
            *out = (omega[i] * f64::from(map.scaling.scale[i]) / map.bandwidth) as f32;
        }
    }
    DenseBlock {
        shift: map.scaling.shift.clone(),
        input: Input::Plain,
        frequencies,
        phase: vec![0.0; map.block_size],
        activation: Activation::Ramp { power: order },
    }
    .build()
}
