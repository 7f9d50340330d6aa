//! Constraints G(f) = E g(f(x), y) ≤ 0, which hold in expectation while f is learnt (slides; spec 3.4).
//!
//! A [`Constraint`] gives g and its derivatives at a sample. Risk measures have an auxiliary scalar a, learnt jointly with f:
//! G(f) = min_a E g(f(x), y; a). One that is about a single number of a prediction, how much too large or too late it is, is
//! made from a [`Quantity`].

mod chance;
mod cvar;
mod mean;
mod quantity;
mod spec;
mod units;

pub use chance::{Chance, Generator};
pub use cvar::Cvar;
pub use mean::Mean;
pub use quantity::{LossAbove, Quantity, UserQuantity};
pub use spec::{ConstraintSpec, QuantitySpec};
pub use units::InUnits;

use crate::error::Result;

/// A constraint E g(f(x), y; a) ≤ 0.
pub trait Constraint: Send + Sync {
    /// Where the auxiliary scalar begins; zero where there is none.
    fn start(&self) -> f64 {
        0.0
    }

    /// Brings the auxiliary scalar to its domain.
    fn project(&self, auxiliary: f64) -> f64 {
        auxiliary
    }

    /// g(u, y; a) and ∂g/∂a, which is zero where there is none; ∂g/∂u is written to `slope`.
    fn sample(&self, u: &[f32], y: &[f32], auxiliary: f64, slope: &mut [f32]) -> Result<Sample>;
}

/// What a constraint says of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// g.
    pub value: f64,
    /// ∂g/∂a.
    pub auxiliary: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Loss, LossSpec, Unit};

    /// The square loss as a quantity that is bad above ½.
    struct Square;

    impl Quantity for Square {
        fn value(&self, u: &[f32], y: &[f32], slope: &mut [f32]) -> Result<f64> {
            slope[0] = u[0] - y[0];
            Ok(0.5 * f64::from(u[0] - y[0]).powi(2) - 0.5)
        }
    }

    fn square() -> Box<dyn Loss> {
        LossSpec::Square.build(1).unwrap()
    }

    fn all() -> Vec<(&'static str, Box<dyn Constraint>)> {
        let unit = Unit { centre: 0.3, scale: 2.0, offset: 0.3, factor: 2.0 };
        let chance = |generator| Box::new(Chance::new(Square, 0.1, generator).unwrap());
        vec![
            ("cvar", Box::new(Cvar::new(square(), 0.9, 0.7).unwrap())),
            ("in units", Box::new(InUnits::new(Cvar::new(square(), 0.9, 0.7).unwrap(), vec![unit], 4.0))),
            ("mean", Box::new(Mean(Square))),
            ("hinge", chance(Generator::Hinge)),
            ("square", chance(Generator::Square)),
            ("exponential", chance(Generator::Exponential)),
        ]
    }

    /// Derivatives with respect to u and a are those of finite differences, away from kinks.
    #[test]
    fn derivatives_agree_with_finite_differences() {
        for (name, constraint) in all() {
            for u in [-2.0_f32, -0.4, 0.3, 1.1, 2.5] {
                for a in [0.35, 0.9, 2.0] {
                    let mut slope = [0.0];
                    let mut at = |u: f32, a: f64| constraint.sample(&[u], &[0.1], a, &mut slope).unwrap();
                    let (found, h) = (at(u, a), 1e-3);
                    let by_a = (at(u, a + h).value - at(u, a - h).value) / (2.0 * h);
                    let by_u = (at(u + 1e-2, a).value - at(u - 1e-2, a).value) / 2e-2;
                    constraint.sample(&[u], &[0.1], a, &mut slope).unwrap();
                    assert!((found.auxiliary - by_a).abs() < 1e-2 * (1.0 + by_a.abs()), "{name} {u} {a}: a");
                    let error = (f64::from(slope[0]) - by_u).abs();
                    assert!(error < 2e-2 * (1.0 + by_u.abs()), "{name} {u} {a}: {} {by_u}", slope[0]);
                }
            }
        }
    }

    /// min_z E z + [ℓ − z]₊/(1 − α) is the mean of the worst share 1 − α of the losses.
    #[test]
    fn cvar_is_the_mean_of_the_worst() {
        let constraint = Cvar::new(square(), 0.9, 0.0).unwrap();
        let u: Vec<f32> = (0..100).map(|i| ((i * 37) % 100) as f32 / 10.0).collect();
        let mut losses: Vec<f64> = u.iter().map(|u| 0.5 * f64::from(*u).powi(2)).collect();
        losses.sort_by(f64::total_cmp);
        let expected = losses[90..].iter().sum::<f64>() / 10.0;
        let mean = |z: f64| {
            let value = |u: &f32| constraint.sample(&[*u], &[0.0], z, &mut [0.0]).unwrap().value;
            u.iter().map(value).sum::<f64>() / 100.0
        };
        let least = losses.iter().map(|&z| mean(z)).fold(f64::INFINITY, f64::min);
        assert!((least - expected).abs() < 1e-9, "{least} {expected}");
    }

    /// Every convex form is an upper bound: E tφ(g/t) − tγ ≤ 0 implies P(g > 0) ≤ γ, since tφ(g/t) ≥ t·1[g > 0].
    #[test]
    fn chance_constraints_are_conservative() {
        for generator in [Generator::Hinge, Generator::Square, Generator::Exponential] {
            let constraint = Chance::new(Square, 0.1, generator).unwrap();
            for i in 0..400 {
                let (u, t) = (i as f32 / 100.0 - 2.0, 0.05 + f64::from(i % 7));
                let mut slope = [0.0];
                let value = constraint.sample(&[u], &[0.0], t, &mut slope).unwrap().value;
                let bad = if Square.value(&[u], &[0.0], &mut slope).unwrap() > 0.0 { 1.0 } else { 0.0 };
                assert!(value >= t * (bad - 0.1) - 1e-12, "{generator:?} {u} {t}: {value}");
            }
        }
    }

    #[test]
    fn levels_outside_their_range_are_refused() {
        for level in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(Cvar::new(square(), level, 1.0).err().unwrap().to_string().contains("level"));
            let chance = Chance::new(Square, level, Generator::Hinge);
            assert!(chance.err().unwrap().to_string().contains("probability"));
        }
        assert!(Cvar::new(square(), 0.5, f64::INFINITY).err().unwrap().to_string().contains("bound"));
    }
}
