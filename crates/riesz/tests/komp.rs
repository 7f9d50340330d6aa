//! KOMP against direct solves: the error is within its budget, the weights are those of the projection, the atom that goes
//! is the cheapest one.

#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::data::Rows;
use riesz::kernel::{ClosedForm, KernelSpec, Scaling};
use riesz::space::{Budget, Dictionary, Function, Parsimony, Space, Terms};

/// A generator of test cases: SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// f as its points and weights, C of them a point.
#[derive(Clone)]
struct Expansion {
    points: Vec<Vec<f32>>,
    weights: Vec<Vec<f64>>,
}

impl Expansion {
    fn of(f: &Dictionary) -> Self {
        let (d, c) = (f.columns(), f.outputs());
        Self {
            points: f.points().chunks_exact(d).map(<[f32]>::to_vec).collect(),
            weights: f.weights().chunks_exact(c).map(<[f64]>::to_vec).collect(),
        }
    }

    /// ‖self − other‖² in the norm of the space.
    fn squared_distance(&self, other: &Self) -> f64 {
        let points: Vec<&Vec<f32>> = self.points.iter().chain(&other.points).collect();
        let minus = other.weights.iter().map(|w| w.iter().map(|w| -w).collect());
        let weights: Vec<Vec<f64>> = self.weights.iter().cloned().chain(minus).collect();
        let mut total = 0.0;
        for (x, v) in points.iter().zip(&weights) {
            for (a, w) in points.iter().zip(&weights) {
                total += kernel(x, a) * v.iter().zip(w).map(|(v, w)| v * w).sum::<f64>();
            }
        }
        total.max(0.0)
    }

    /// The projection on the span of all atoms but j: K_DD w = K_DD̃ w̃ by elimination.
    fn without(&self, j: usize) -> Self {
        let kept: Vec<&Vec<f32>> =
            self.points.iter().enumerate().filter(|(i, _)| *i != j).map(|(_, x)| x).collect();
        let right = |c: usize| -> Vec<f64> {
            let value =
                |x: &&Vec<f32>| self.points.iter().zip(&self.weights).map(|(a, w)| kernel(x, a) * w[c]).sum();
            kept.iter().map(value).collect()
        };
        let gram: Vec<Vec<f64>> = kept.iter().map(|x| kept.iter().map(|a| kernel(x, a)).collect()).collect();
        let outputs = self.weights.first().map_or(0, Vec::len);
        let solved: Vec<Vec<f64>> = (0..outputs).map(|c| solve(gram.clone(), right(c))).collect();
        Self {
            points: kept.into_iter().cloned().collect(),
            weights: (0..gram.len()).map(|i| solved.iter().map(|w| w[i]).collect()).collect(),
        }
    }
}

fn kernel(x: &[f32], a: &[f32]) -> f64 {
    let square: f64 = x.iter().zip(a).map(|(x, a)| (f64::from(*x) - f64::from(*a)).powi(2)).sum();
    (-0.5 * square).exp()
}

/// Gaussian elimination with pivots.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).unwrap();
        a.swap(k, pivot);
        b.swap(k, pivot);
        for i in k + 1..n {
            let factor = a[i][k] / a[k][k];
            let (above, below) = a.split_at_mut(i);
            below[0][k..].iter_mut().zip(&above[k][k..]).for_each(|(low, high)| *low -= factor * high);
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        let tail: f64 = (k + 1..n).map(|i| a[k][i] * b[i]).sum();
        b[k] = (b[k] - tail) / a[k][k];
    }
    b
}

fn dictionary(columns: usize, outputs: usize, parsimony: f64, most: usize) -> Dictionary {
    let kernel = ClosedForm::new(KernelSpec::Gaussian, 1.0, Scaling::identity(columns)).unwrap();
    Dictionary::new(kernel, vec![0.0; outputs], Budget::Komp { error: Parsimony::Square(parsimony), most })
}

/// One step of size 1, so that ε = P, with the shrinkage 1 − ν; returns what f would be without KOMP.
fn step(f: &mut Dictionary, ridge: f64, points: &[Vec<f32>], weights: &[Vec<f64>]) -> Expansion {
    let mut whole = Expansion::of(f);
    whole.weights.iter_mut().flatten().for_each(|w| *w *= 1.0 - ridge);
    whole.points.extend_from_slice(points);
    let single: Vec<f32> = weights.iter().flatten().map(|&w| w as f32).collect();
    whole.weights.extend(single.chunks_exact(f.outputs()).map(|w| w.iter().map(|&w| w.into()).collect()));
    let x = points.concat();
    let rows = Rows::single(&x, f.columns()).unwrap();
    f.step(1.0, ridge, &[Terms::new(rows, &single)]).unwrap();
    whole
}

/// A new point: anywhere, one that was there before, or one very close to it.
fn point(dice: &mut Dice, d: usize, before: &[Vec<f32>]) -> Vec<f32> {
    if before.is_empty() || dice.unit() < 0.6 {
        return (0..d).map(|_| (4.0 * dice.unit() - 2.0) as f32).collect();
    }
    let mut x = before[dice.below(before.len())].clone();
    if dice.unit() < 0.5 {
        let apart = 10_f64.powf(-1.0 - 6.0 * dice.unit()) as f32;
        x.iter_mut().for_each(|x| *x += apart);
    }
    x
}

/// 10,000 steps of dictionaries of all shapes, with duplicates and near-duplicates among the points: never beyond ε.
#[test]
fn never_exceeds_its_budget() {
    let mut dice = Dice(7);
    let mut removed = 0;
    for case in 0..1_000 {
        let (d, c) = (1 + dice.below(4), 1 + dice.below(3));
        let epsilon = 10_f64.powf(-2.5 + 2.0 * dice.unit());
        let mut f = dictionary(d, c, epsilon, usize::MAX);
        let mut seen = Vec::new();
        for _ in 0..10 {
            let new = 1 + dice.below(3);
            let points: Vec<Vec<f32>> = (0..new).map(|_| point(&mut dice, d, &seen)).collect();
            let weights: Vec<Vec<f64>> =
                (0..new).map(|_| (0..c).map(|_| dice.unit() - 0.5).collect()).collect();
            let whole = step(&mut f, 0.01, &points, &weights);
            removed += whole.points.len() - f.len();
            let error = whole.squared_distance(&Expansion::of(&f)).sqrt();
            // The reference adds up some hundred terms of about one: its own square is uncertain by 1e-14.
            assert!(error <= epsilon + 1e-7, "case {case}: {error} for {epsilon}");
            seen.extend(points);
        }
    }
    assert!(removed > 5_000, "{removed} removals are no test");
}

/// Points closer than 10⁻³ to the span of the others are not told apart: a budget below that is exceeded by no more than that.
#[test]
fn a_tiny_budget_is_kept_to_the_resolution() {
    let mut dice = Dice(11);
    for case in 0..200 {
        let mut f = dictionary(2, 1, 1e-9, usize::MAX);
        let mut seen = Vec::new();
        for _ in 0..10 {
            let (x, w) = (point(&mut dice, 2, &seen), vec![dice.unit() - 0.5]);
            let whole = step(&mut f, 0.0, std::slice::from_ref(&x), std::slice::from_ref(&w));
            let error = whole.squared_distance(&Expansion::of(&f)).sqrt();
            // The atom that goes may be an older one.
            let largest = whole.weights.iter().flatten().fold(0.0_f64, |a, w| a.max(w.abs()));
            assert!(error <= 1.1e-3 * largest + 1e-7, "case {case}: {error} for weights up to {largest}");
            seen.push(x);
        }
    }
}

/// A single removal takes the atom whose direct removal costs least, and leaves the weights of a direct solve.
#[test]
fn takes_the_cheapest_atom_and_projects() {
    let mut dice = Dice(8);
    for case in 0..300 {
        let (d, c, m) = (2 + dice.below(3), 1 + dice.below(2), 2 + dice.below(6));
        let mut f = dictionary(d, c, 0.0, m);
        let points: Vec<Vec<f32>> =
            (0..=m).map(|_| (0..d).map(|_| (8.0 * dice.unit() - 4.0) as f32).collect()).collect();
        let weights: Vec<Vec<f64>> = (0..=m).map(|_| (0..c).map(|_| dice.unit() - 0.5).collect()).collect();
        step(&mut f, 0.0, &points[..m], &weights[..m]);
        assert_eq!(f.len(), m);
        let whole = step(&mut f, 0.0, &points[m..], &weights[m..]);
        let found = Expansion::of(&f);
        let errors: Vec<f64> = (0..=m).map(|j| whole.squared_distance(&whole.without(j))).collect();
        let best = (0..=m).min_by(|&i, &j| errors[i].total_cmp(&errors[j])).unwrap();
        let error = whole.squared_distance(&found);
        assert!(error <= errors[best] * (1.0 + 1e-5) + 1e-12, "case {case}: {error} {errors:?}");
        let gone = (0..=m).find(|&j| !found.points.contains(&whole.points[j])).unwrap();
        let direct = whole.without(gone);
        for (x, w) in found.points.iter().zip(&found.weights) {
            let place = direct.points.iter().position(|a| a == x).unwrap();
            for (found, direct) in w.iter().zip(&direct.weights[place]) {
                assert!(
                    (found - direct).abs() < 1e-5 * (1.0 + direct.abs()),
                    "case {case}: {found} {direct}"
                );
            }
        }
    }
}

/// Without a budget for errors every point that is not a combination of others stays, with its own weight.
#[test]
fn no_budget_removes_nothing_but_duplicates() {
    let mut f = dictionary(2, 1, 0.0, usize::MAX);
    let points: Vec<Vec<f32>> = (0..9).map(|i| vec![(i % 3) as f32, (i / 3) as f32]).collect();
    let weights: Vec<Vec<f64>> = (0..9).map(|i| vec![0.5 + f64::from(i)]).collect();
    step(&mut f, 0.0, &points, &weights);
    assert_eq!(f.weights(), weights.concat());
    step(&mut f, 0.0, &points, &weights);
    assert_eq!(f.len(), 9);
    for (found, weight) in f.weights().iter().zip(weights.concat()) {
        assert!((found - 2.0 * weight).abs() < 1e-12 * weight, "{found} {weight}");
    }
}

/// A smooth kernel in one dimension has room for few atoms: the rest are combinations of them, and learning goes on.
#[test]
fn a_nearly_singular_gram_matrix_does_no_harm() {
    let mut f = dictionary(1, 1, 0.0, 1_000);
    let mut dice = Dice(12);
    let target = |x: f32| (2.0 * x).sin();
    for _ in 0..20_000 {
        let x = [(6.0 * dice.unit() - 3.0) as f32];
        let (rows, mut value) = (Rows::single(&x, 1).unwrap(), [0.0]);
        f.evaluate(rows, &mut value).unwrap();
        f.step(0.2, 0.0, &[Terms::new(rows, &[target(x[0]) - value[0]])]).unwrap();
    }
    let worst = (-28..=28).map(|i| {
        let (x, mut value) = ([i as f32 / 10.0], [0.0]);
        f.evaluate(Rows::single(&x, 1).unwrap(), &mut value).unwrap();
        (value[0] - target(x[0])).abs()
    });
    let worst = worst.fold(0.0, f32::max);
    assert!(worst < 0.02 && f.len() < 20, "{worst}, {} atoms", f.len());
    assert!(f.drift().unwrap().worst < 1e-6, "{:?}", f.drift());
}

/// Constant steps on an endless stream: the number of atoms settles, the inverse stays what it is, and other kernels do too.
#[test]
fn a_long_stream_keeps_atoms_and_inverse() {
    for name in ["gaussian", "matern(1.5)", "polynomial(2, 1)"] {
        let spec: KernelSpec = name.parse().unwrap();
        let kernel = ClosedForm::new(spec, 0.5, Scaling::identity(2)).unwrap();
        let mut f =
            Dictionary::new(kernel, vec![0.0], Budget::Komp { error: Parsimony::Square(5.0), most: 1_000 });
        let (mut dice, mut half) = (Dice(9), 0);
        for t in 0..8_000 {
            let x = [(2.0 * dice.unit() - 1.0) as f32, (2.0 * dice.unit() - 1.0) as f32];
            let rows = Rows::single(&x, 2).unwrap();
            let mut value = [0.0];
            f.evaluate(rows, &mut value).unwrap();
            let residual = [(3.0 * x[0]).sin() * x[1] + 0.1 * (dice.unit() - 0.5) as f32 - value[0]];
            f.step(0.05, 1e-4, &[Terms::new(rows, &residual)]).unwrap();
            if t == 4_000 {
                half = f.len();
            }
        }
        let drift = f.drift().unwrap();
        assert!(f.len() <= half + half / 4 + 2 && f.len() < 200, "{name}: {half}, then {}", f.len());
        let residual = f.inverse_residual().unwrap().unwrap();
        assert!(residual < 1e-6 && drift.worst < 1e-6, "{name}: {residual} {drift:?}");
    }
}
