//! The laws every loss obeys: those of the table by their names, the others listed once at the end.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

type Outcome = std::result::Result<(), TestCaseError>;

/// Two points, a direction, a target and a fraction.
#[derive(Debug)]
struct Sample {
    u: Vec<f32>,
    v: Vec<f32>,
    direction: Vec<f32>,
    y: Vec<f32>,
    fraction: f32,
}

fn sample(loss: &dyn Loss) -> impl Strategy<Value = Sample> {
    let row = || vec(-6.0f32..6.0, loss.outputs());
    let signs = prop::sample::select(vec![-1.0f32, 1.0]);
    let target = match loss.domain() {
        Domain::Nothing | Domain::Real => vec(-6.0f32..6.0, loss.targets()).boxed(),
        Domain::NonNegative => vec(prop_oneof![Just(0.0f32), 0.0f32..6.0], loss.targets()).boxed(),
        Domain::Sign => vec(signs, 1).boxed(),
        Domain::Class => vec((0..loss.outputs()).prop_map(|c| c as f32), 1).boxed(),
    };
    (row(), row(), row(), target, 0.0f32..=1.0).prop_map(|(u, v, direction, y, fraction)| Sample {
        u,
        v,
        direction,
        y,
        fraction,
    })
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn between(u: &[f32], v: &[f32], fraction: f32) -> Vec<f32> {
    u.iter().zip(v).map(|(u, v)| u + fraction * (v - u)).collect()
}

fn derivative(loss: &dyn Loss, u: &[f32], y: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; u.len()];
    loss.derivative(u, y, &mut out);
    out
}

/// ℓ(v) − ℓ(u) − ⟨∇ℓ(u), v − u⟩ and ½‖v − u‖².
fn bregman(loss: &dyn Loss, u: &[f32], v: &[f32], y: &[f32]) -> (f64, f64) {
    let step: Vec<f32> = u.iter().zip(v).map(|(u, v)| v - u).collect();
    let linear = dot(&derivative(loss, u, y), &step);
    (loss.value(v, y) - loss.value(u, y) - linear, 0.5 * dot(&step, &step))
}

/// ℓ(u) + ℓ*(a) − ⟨a, u⟩ and the rounding it is subject to.
fn gap(loss: &dyn Conjugate, u: &[f32], a: &[f32], y: &[f32]) -> (f64, f64) {
    let (value, conjugate) = (loss.value(u, y), loss.conjugate(a, y));
    let terms = a.iter().zip(u).map(|(&a, &u)| f64::from(a * u).abs()).sum::<f64>();
    (value + conjugate - dot(a, u), 2e-5 * (1.0 + value.abs() + conjugate.abs() + terms))
}

/// By convexity a central difference quotient lies between the derivatives at its two ends.
fn derivative_matches_differences(loss: &dyn Loss, s: &Sample) -> Outcome {
    let step = 1.0 / 256.0;
    for c in 0..s.u.len() {
        let (mut ahead, mut behind) = (s.u.clone(), s.u.clone());
        (ahead[c], behind[c]) = (s.u[c] + step, s.u[c] - step);
        let rise = loss.value(&ahead, &s.y) - loss.value(&behind, &s.y);
        let quotient = rise / (f64::from(ahead[c]) - f64::from(behind[c]));
        let [low, here, high] = [&behind, &s.u, &ahead].map(|u| f64::from(derivative(loss, u, &s.y)[c]));
        prop_assert!(low - 1e-4 <= quotient && quotient <= high + 1e-4, "{low} {quotient} {high}");
        prop_assert!(low - 1e-6 <= here && here <= high + 1e-6, "{low} {here} {high}");
    }
    Ok(())
}

/// ℓ(u) + ℓ*(a) ≥ ⟨a, u⟩ for any a, in the domain or not.
fn fenchel_young_inequality(loss: &dyn Conjugate, s: &Sample) -> Outcome {
    let inside = derivative(loss, &s.v, &s.y);
    for a in [&inside, &s.direction] {
        let (gap, rounding) = gap(loss, &s.u, a, &s.y);
        prop_assert!(gap == f64::INFINITY || gap >= -rounding, "{gap}");
    }
    Ok(())
}

/// ℓ(u) + ℓ*(∇ℓ(u)) = ⟨∇ℓ(u), u⟩.
fn fenchel_young_equality(loss: &dyn Conjugate, s: &Sample) -> Outcome {
    let (gap, rounding) = gap(loss, &s.u, &derivative(loss, &s.u, &s.y), &s.y);
    prop_assert!(gap.is_finite() && gap.abs() <= rounding, "{gap}");
    Ok(())
}

/// u = ∇ℓ*(a) attains sup ⟨a, u⟩ − ℓ(u). The domain is convex: a lies between two derivatives.
fn conjugate_derivative_attains_supremum(loss: &dyn Conjugate, s: &Sample) -> Outcome {
    let [first, last] = [&s.u, &s.v].map(|u| derivative(loss, u, &s.y));
    let a = between(&first, &last, s.fraction);
    let mut u = vec![f32::NAN; a.len()];
    loss.conjugate_derivative(&a, &s.y, &mut u);
    let (gap, rounding) = gap(loss, &u, &a, &s.y);
    prop_assert!(gap.is_finite() && gap.abs() <= rounding, "a = {a:?}, u = {u:?}, gap {gap}");
    Ok(())
}

/// The projection Πa onto the domain of ℓ* lies in it, and ⟨a − Πa, b − Πa⟩ ≤ 0 for every b of the domain, which is what makes it
/// the nearest point; points of the domain stay where they are.
fn projection_is_the_nearest_point(loss: &dyn Conjugate, s: &Sample) -> Outcome {
    let inside = derivative(loss, &s.v, &s.y);
    let mut nearest = s.direction.clone();
    loss.project(&mut nearest, &s.y);
    prop_assert!(loss.conjugate(&nearest, &s.y).is_finite(), "{nearest:?}");
    let away: Vec<f32> = s.direction.iter().zip(&nearest).map(|(a, p)| a - p).collect();
    let inward: Vec<f32> = inside.iter().zip(&nearest).map(|(b, p)| b - p).collect();
    let size = dot(&away, &away).sqrt() * (1.0 + dot(&inward, &inward).sqrt());
    prop_assert!(dot(&away, &inward) <= 1e-5 * size, "{away:?} {inward:?}");
    let mut same = inside.clone();
    loss.project(&mut same, &s.y);
    prop_assert!(same.iter().zip(&inside).all(|(a, b)| (a - b).abs() <= 1e-6 * (1.0 + b.abs())), "{same:?}");
    Ok(())
}

/// ℓ((1 − t)u + tv) ≤ (1 − t)ℓ(u) + tℓ(v), and ℓ lies above its tangents.
fn convex_along_segments(loss: &dyn Loss, s: &Sample) -> Outcome {
    let [start, end] = [&s.u, &s.v].map(|u| loss.value(u, &s.y));
    let middle = loss.value(&between(&s.u, &s.v, s.fraction), &s.y);
    let chord = start + f64::from(s.fraction) * (end - start);
    let rounding = 1e-5 * (1.0 + start.abs() + end.abs());
    prop_assert!(middle <= chord + rounding, "{middle} above {chord}");
    let (above_tangent, _) = bregman(loss, &s.u, &s.v, &s.y);
    prop_assert!(above_tangent >= -rounding, "{above_tangent}");
    Ok(())
}

/// The default batch methods call the row methods: an override must agree with them.
fn batches_match_rows(loss: &dyn Loss, s: &Sample) -> Outcome {
    let (u, y) = ([&s.u[..], &s.v, &s.direction].concat(), [&s.y[..]; 3].concat());
    let weights = [s.fraction, 0.0, 2.5];
    let (mut residuals, mut curvatures) = (vec![f32::NAN; u.len()], [f32::NAN; 3]);
    loss.residuals(&u, &y, &weights, &mut residuals);
    loss.curvatures(&u, &y, &weights, &mut curvatures);
    let mut total = 0.0;
    for (i, u) in [&s.u, &s.v, &s.direction].into_iter().enumerate() {
        for (r, d) in residuals[i * u.len()..].iter().zip(derivative(loss, u, &s.y)) {
            prop_assert!((r + weights[i] * d).abs() <= 1e-6 * (1.0 + d.abs()));
        }
        prop_assert!((curvatures[i] - weights[i] * loss.local_curvature(u, &s.y)).abs() <= 1e-6);
        total += f64::from(weights[i]) * loss.value(u, &s.y);
    }
    prop_assert!((loss.total(&u, &y, &weights) - total).abs() <= 1e-9 * (1.0 + total.abs()));
    Ok(())
}

/// At outputs ±80, and beyond the exponentials that f32 holds, nothing overflows, and value, derivative and
/// conjugate still agree.
fn finite_far_out(loss: &dyn Conjugate, s: &Sample) -> Outcome {
    for size in [80f32, 800.0] {
        let u: Vec<f32> = s.u.iter().map(|u| size.copysign(*u)).collect();
        let slope = derivative(loss, &u, &s.y);
        prop_assert!(loss.value(&u, &s.y).is_finite());
        prop_assert!(slope.iter().all(|d| d.is_finite()));
        let bound = loss.curvature().unwrap_or(f32::MAX);
        prop_assert!((0.0..=bound).contains(&loss.local_curvature(&u, &s.y)));
        let (gap, rounding) = gap(loss, &u, &slope, &s.y);
        prop_assert!(gap.is_finite() && gap.abs() <= rounding, "{gap}");
    }
    Ok(())
}

/// ℓ(v) ≤ ℓ(u) + ⟨∇ℓ(u), v − u⟩ + ½ h ‖v − u‖².
fn curvature_majorises(loss: &dyn Loss, s: &Sample) -> Outcome {
    let bound = f64::from(loss.curvature().expect("a smooth loss"));
    let (above_tangent, half_square) = bregman(loss, &s.u, &s.v, &s.y);
    prop_assert!(above_tangent <= bound * half_square + 1e-5 * (1.0 + half_square), "{above_tangent}");
    Ok(())
}

/// Second differences along a direction of unit length are averages of second derivatives over a short
/// segment, hence at most the local curvature there, which in turn is at most the global one, where there is one.
fn local_curvature_bounds_second_differences(loss: &dyn Loss, s: &Sample) -> Outcome {
    let norm = dot(&s.direction, &s.direction).sqrt();
    if norm == 0.0 {
        return Ok(());
    }
    let [behind, ahead] = [-1.0, 1.0].map(|side| -> Vec<f32> {
        let moved = |(u, d): (&f32, &f32)| (f64::from(*u) + side * f64::from(*d) / (128.0 * norm)) as f32;
        s.u.iter().zip(&s.direction).map(moved).collect()
    });
    let step: Vec<f32> = ahead.iter().zip(&behind).map(|(a, b)| a - b).collect();
    let [low, high] = [&behind, &ahead].map(|u| dot(&derivative(loss, u, &s.y), &step));
    let second = (high - low) / dot(&step, &step);
    let bounds = [&behind, &s.u, &ahead].map(|u| loss.local_curvature(u, &s.y));
    let bound = bounds.into_iter().fold(0.0, f32::max);
    // The rounding of derivatives in proportion to the curvature, as those of exponentials are.
    let rounding = f64::from(bound * 2e-5).max(1e-3);
    prop_assert!(second <= f64::from(bound) + rounding, "{second} above {bound}");
    prop_assert!(bound <= loss.curvature().unwrap_or(f32::MAX) + 1e-6);
    Ok(())
}

/// Both curvatures of a smooth loss; that of a loss without a bound where it stands; of a kink none, but a smoothing.
fn curvatures_are_bounds(loss: &dyn Loss, s: &Sample) -> Outcome {
    match (loss.curvature(), loss.smoothed(0.1)) {
        (Some(_), _) => curvature_majorises(loss, s)?,
        (None, Some(smoothed)) => {
            prop_assert!(smoothed.curvature().is_some() && loss.local_curvature(&s.u, &s.y) == 0.0);
            return Ok(());
        }
        (None, None) => {}
    }
    local_curvature_bounds_second_differences(loss, s)
}

/// All laws on one sample.
fn every_law(loss: &dyn Conjugate, s: &Sample) -> Outcome {
    derivative_matches_differences(loss, s)?;
    fenchel_young_inequality(loss, s)?;
    fenchel_young_equality(loss, s)?;
    conjugate_derivative_attains_supremum(loss, s)?;
    projection_is_the_nearest_point(loss, s)?;
    convex_along_segments(loss, s)?;
    batches_match_rows(loss, s)?;
    finite_far_out(loss, s)?;
    curvatures_are_bounds(loss, s)
}

fn obeys(what: &str, loss: &dyn Conjugate) {
    let outcome = TestRunner::default().run(&sample(loss), |s| every_law(loss, &s));
    outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// With default parameters, for one and two targets, two and four classes.
#[test]
fn every_named_loss_obeys_the_laws() {
    for name in LossSpec::NAMES.split(", ") {
        let spec: LossSpec = name.parse().unwrap();
        for size in if spec.is_classification() { [2, 4] } else { [1, 2] } {
            let loss = spec.build(size).unwrap();
            assert_eq!(loss.domain().is_class(), spec.is_classification(), "{name}");
            obeys(&format!("{name} of {size}"), loss.as_conjugate().expect("a conjugate"));
        }
    }
}

macro_rules! laws {
    ($($name:ident: $loss:expr;)*) => {$(
        #[test]
        fn $name() {
            obeys(stringify!($name), &$loss);
        }
    )*};
}

fn smoothed_levels() -> Vec<SmoothedQuantile> {
    [0.05, 0.5, 0.9].map(|level| SmoothedQuantile { level, width: 0.5 }).to_vec()
}

laws! {
    huber_of_two: Separable::each(vec![Huber::new(0.5), Huber::new(2.0)]);
    scaled_huber: Huber::scaled(0.3);
    smoothed_absolute: Smoothed { loss: Absolute, width: 0.5 };
    smoothed_epsilon_insensitive: Smoothed { loss: EpsilonInsensitive { epsilon: 0.7 }, width: 0.5 };
    quantile: Quantile { level: 0.2 };
    smoothed_quantile: SmoothedQuantile { level: 0.2, width: 0.5 };
    smoothed_quantiles: Separable::shared(smoothed_levels());
    softmax_of_two: Softmax { classes: 2 };
    smoothed_hinge: Smoothed { loss: Hinge, width: 0.5 };
    smoothed_hinge_versus_rest: Separable::one_versus_rest(Smoothed { loss: Hinge, width: 2.0 }, 3);
    crammer_singer_of_two: CrammerSinger { classes: 2 };
    smoothed_crammer_singer: SmoothedCrammerSinger { classes: 4, width: 0.5 };
    novelty: Novelty { level: 0.5 };
    smoothed_novelty: Smoothed { loss: Novelty { level: 0.5 }, width: 0.5 };
    density_ratio_kl: DensityRatioKl;
    density_ratio_square: DensityRatioSquare;
}

/// A sum has a conjugate where its parts have, and smoothing keeps it.
#[test]
fn smoothed_sums_have_conjugates() {
    let smoothed = Separable::one_versus_rest(Hinge, 3).smoothed(0.5).unwrap();
    obeys("smoothed hinges", smoothed.as_conjugate().expect("a conjugate"));
}
