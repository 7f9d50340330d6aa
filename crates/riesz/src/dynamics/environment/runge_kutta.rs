//! Ordinary differential equations.

/// s(time) of ds/dt = f(s) from s(0), in equal `parts` by the classical Runge–Kutta method of order four:
///
/// ```text
/// k₁ = f(s),  k₂ = f(s + ½h k₁),  k₃ = f(s + ½h k₂),  k₄ = f(s + h k₃),   s ← s + (h/6)(k₁ + 2k₂ + 2k₃ + k₄)
/// ```
pub(super) fn runge_kutta<const N: usize>(
    mut state: [f64; N],
    time: f64,
    parts: usize,
    derivative: impl Fn([f64; N]) -> [f64; N],
) -> [f64; N] {
    let h = time / parts as f64;
    for _ in 0..parts {
        let from = |k: [f64; N], step: f64| derivative(std::array::from_fn(|i| state[i] + step * k[i]));
        let k1 = derivative(state);
        let k2 = from(k1, 0.5 * h);
        let k3 = from(k2, 0.5 * h);
        let k4 = from(k3, h);
        state = std::array::from_fn(|i| state[i] + h / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]));
    }
    state
}
