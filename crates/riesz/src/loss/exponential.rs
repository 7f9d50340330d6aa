//! The exponential, within the range of single precision.

/// Where the exponential is continued by its tangent: e⁸⁰ ≈ 5.5·10³⁴ is still a single-precision number.
pub(super) const CAP: f64 = 80.0;

/// e^u for u ≤ 80, e⁸⁰(1 + u − 80) beyond: convex, and finite for every u.
pub(super) fn exponential(u: f32) -> f64 {
    let u = f64::from(u);
    let rise = u.min(CAP).exp();
    rise * (1.0 + (u - CAP).max(0.0))
}

/// The derivative of [`exponential`], e^{min(u, 80)}; up to there the second derivative too.
pub(super) fn slope(u: f32) -> f32 {
    f64::from(u).min(CAP).exp() as f32
}
