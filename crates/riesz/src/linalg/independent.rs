//! Rows of a kernel matrix that are no combination of the ones before.

use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, Par};

/// Candidates that are looked at together.
const BLOCK: usize = 64;

/// The places i_1 < i_2 < … whose functions k(x_i, ·) are independent of those chosen before, and the factor of their matrix, K = LLᵀ.
///
/// A candidate is passed over where the square of its distance from their span, k(x, x) − ‖L⁻¹k‖², is below `tolerance` · k(x, x): what it
/// adds to the span would be the rounding of the entries, magnified.
pub(crate) fn independent(
    m: usize,
    tolerance: f64,
    entry: impl Fn(usize, usize) -> f64,
) -> (Vec<usize>, Mat<f64>) {
    let (mut chosen, mut lower): (Vec<usize>, _) = (Vec::new(), Mat::<f64>::zeros(m, m));
    for first in (0..m).step_by(BLOCK) {
        let (b, r) = (BLOCK.min(m - first), chosen.len());
        let mut known = Mat::from_fn(r, b, |i, j| entry(chosen[i], first + j));
        solve_lower_triangular_in_place(lower.submatrix(0, 0, r, r), known.as_mut(), Par::Seq);
        let mut rest = Mat::from_fn(b, b, |i, j| entry(first + i, first + j));
        matmul(rest.as_mut(), Accum::Add, known.transpose(), known.as_ref(), -1.0, Par::Seq);
        for j in 0..b {
            let left = rest[(j, j)];
            // Not `<`: what is no number is passed over too.
            if !(left >= tolerance * entry(first + j, first + j) && left > 0.0) {
                continue;
            }
            let (own, root) = (chosen.len(), left.sqrt());
            (0..r).for_each(|i| lower[(own, i)] = known[(i, j)]);
            // `rest` keeps, below what is left, the rows of the factor within the block.
            let within: Vec<usize> = chosen[r..].iter().map(|place| place - first).collect();
            within.iter().enumerate().for_each(|(i, &k)| lower[(own, r + i)] = rest[(j, k)]);
            lower[(own, own)] = root;
            chosen.push(first + j);
            for i in j + 1..b {
                rest[(i, j)] /= root;
            }
            for k in j + 1..b {
                for i in k..b {
                    let product = rest[(i, j)] * rest[(k, j)];
                    rest[(i, k)] -= product;
                }
            }
        }
    }
    let r = chosen.len();
    (chosen, lower.submatrix(0, 0, r, r).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LLᵀ is the matrix of the chosen, which are as many as the rank where there is one, across blocks; duplicates are passed over.
    #[test]
    fn combinations_of_others_are_passed_over() {
        // Rank 5: points repeat after five.
        let point = |i: usize| (i % 5) as f64;
        let kernel = |x: f64, y: f64| (-0.5 * (x - y).powi(2)).exp();
        let (chosen, lower) = independent(150, 1e-8, |i, j| kernel(point(i), point(j)));
        assert_eq!(chosen, [0, 1, 2, 3, 4]);
        // Full rank over more than two blocks; every third is a duplicate of the one before.
        let point = |i: usize| 3.0 * (i - usize::from(i % 3 == 2)) as f64;
        let (many, factor) = independent(150, 1e-8, |i, j| kernel(point(i), point(j)));
        assert_eq!(many, (0..150).filter(|i| i % 3 != 2).collect::<Vec<_>>());
        for (chosen, lower, point) in
            [(chosen, lower, &(|i: usize| i as f64) as &dyn Fn(usize) -> f64), (many, factor, &point)]
        {
            let again = lower.as_ref() * lower.transpose();
            for (a, &i) in chosen.iter().enumerate() {
                for (b, &j) in chosen.iter().enumerate() {
                    assert!((again[(a, b)] - kernel(point(i), point(j))).abs() < 1e-12, "{a} {b}");
                }
            }
        }
    }
}
