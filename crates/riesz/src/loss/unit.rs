//! Units of targets.

use serde::{Deserialize, Serialize};

/// A unit for the targets y of one column and for the outputs u that are compared with them:
/// y = centre + scale·y', u = offset + factor·u'.
///
/// Numbers are measured by their centre and spread, with u as y. For rates, ℓ(u, y) = m ℓ(u − log m, y/m) with the
/// Poisson loss: y is divided by the mean m and u shifted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// What is subtracted from a target …
    pub centre: f64,
    /// … before it is divided by this, not 0.
    pub scale: f64,
    /// The output of u' = 0.
    pub offset: f64,
    /// The output of u' = 1, less that of 0.
    pub factor: f64,
}

/// The interquartile range of a standard normal variable.
const NORMAL_RANGE: f64 = 1.349;

impl Unit {
    /// Targets and outputs as they are.
    pub const IDENTITY: Self = Self { centre: 0.0, scale: 1.0, offset: 0.0, factor: 1.0 };

    /// Outputs in the unit of the targets; a spread of zero gets the unit one.
    pub fn of_numbers(centre: f64, spread: f64) -> Self {
        let scale = if spread > 0.0 { spread } else { 1.0 };
        Self { centre, scale, offset: centre, factor: scale }
    }

    /// Weighted mean and standard deviation.
    pub fn by_moments(column: &[(f32, f32)]) -> Self {
        let (mean, deviation) = moments(column);
        Self::of_numbers(mean, deviation)
    }

    /// Weighted median, and the deviation of a normal variable with the same interquartile range.
    pub fn by_quartiles(column: &[(f32, f32)]) -> Self {
        let (median, spread) = quartiles(column);
        Self::of_numbers(median, spread)
    }

    /// y' in this unit.
    pub fn scaled(&self, y: f32) -> f32 {
        ((f64::from(y) - self.centre) / self.scale) as f32
    }

    /// u' of u.
    pub fn inverse(&self, u: f64) -> f64 {
        (u - self.offset) / self.factor
    }

    /// u of u'.
    pub fn output(&self, u: f64) -> f64 {
        self.offset + self.factor * u
    }
}

/// Mean and standard deviation of weighted numbers, 0 for a constant to rounding.
pub(super) fn moments(column: &[(f32, f32)]) -> (f64, f64) {
    let total: f64 = column.iter().map(|(_, w)| f64::from(*w)).sum();
    let mean_of = |f: &dyn Fn(f64) -> f64| {
        column.iter().map(|(y, w)| f64::from(*w) * f(f64::from(*y))).sum::<f64>() / total
    };
    let mean = mean_of(&|y| y);
    let deviation = mean_of(&|y| (y - mean).powi(2)).sqrt();
    (mean, if deviation > 1e-12 * mean.abs() { deviation } else { 0.0 })
}

/// Median and scaled interquartile range of weighted numbers; their deviation where half of them are equal.
pub(super) fn quartiles(column: &[(f32, f32)]) -> (f64, f64) {
    let mut column: Vec<_> = column.iter().copied().filter(|(_, w)| *w > 0.0).collect();
    column.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = column.iter().map(|(_, w)| f64::from(*w)).sum();
    let quantile = |level: f64| {
        let mut mass = 0.0;
        let reaches = |(_, w): &&(f32, f32)| {
            mass += f64::from(*w);
            mass >= level * total
        };
        f64::from(column.iter().find(reaches).or(column.last()).map_or(0.0, |(y, _)| *y))
    };
    let (median, range) = (quantile(0.5), quantile(0.75) - quantile(0.25));
    let scale = if range > 1e-12 * median.abs() { range / NORMAL_RANGE } else { moments(&column).1 };
    (median, scale)
}

#[cfg(test)]
mod tests {
    use super::super::{Absolute, Loss, Poisson, Quantile, Square};
    use super::*;

    fn column(targets: &[f32]) -> Vec<(f32, f32)> {
        targets.iter().map(|&y| (y, 1.0)).collect()
    }

    /// An outlier moves neither the centre nor the scale that a robust loss sees, and a weight is a repetition.
    #[test]
    fn outliers_do_not_set_the_unit_of_robust_losses() {
        let mut targets: Vec<f32> = (0..101).map(|i| 3.0 + i as f32).collect();
        let unit = |targets: &[f32]| Absolute.unit(&column(targets));
        let clean = unit(&targets);
        assert!((clean.centre - 53.0).abs() < 1e-6 && (clean.scale - 50.0 / NORMAL_RANGE).abs() < 1e-6);
        targets[100] = 1e9;
        assert_eq!(unit(&targets), clean);
        assert_eq!(Absolute.unit(&[(1.0, 1.0), (2.0, 0.0), (3.0, 3.0)]), unit(&[1.0, 3.0, 3.0, 3.0]));
        // Half of the targets equal: the deviation instead of a range of zero. All equal: one, or little for quantiles.
        assert!((unit(&[0.0, 0.0, 0.0, 4.0]).scale - 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(unit(&[7.0; 5]), Unit::of_numbers(7.0, 1.0));
        let of = |y: f32| Quantile { level: 0.1 }.unit(&column(&[y; 5]));
        assert_eq!((of(-7.0), of(0.0)), (Unit::of_numbers(-7.0, 7e-6), Unit::of_numbers(0.0, 1e-12)));
    }

    #[test]
    fn the_unit_of_squares_is_the_deviation() {
        let unit = Square { outputs: 1 }.unit(&[(1.0, 1.0), (5.0, 3.0), (99.0, 0.0)]);
        assert!((unit.centre - 4.0).abs() < 1e-9 && (unit.scale - 3f64.sqrt()).abs() < 1e-9);
        assert!((unit.output(f64::from(unit.scaled(1.5))) - 1.5).abs() < 1e-6);
    }

    /// ℓ(u, y) = m ℓ(u', y'): the unit of rates changes nothing but a factor.
    #[test]
    fn the_unit_of_rates_is_their_mean() {
        for size in [1e-6, 1.0, 1e6] {
            let (y, rest) = (0.5 * size, 2.5 * size);
            let unit = Poisson.unit(&column(&[y, rest]));
            assert!((unit.scale / f64::from(1.5 * size) - 1.0).abs() < 1e-6);
            let u = unit.output(0.7) as f32;
            let (plain, scaled) = (Poisson.value(&[u], &[y]), Poisson.value(&[0.7], &[unit.scaled(y)]));
            assert!((plain / (unit.scale * scaled) - 1.0).abs() < 1e-4, "{size}: {plain} vs {scaled}");
        }
        assert_eq!(Poisson.unit(&column(&[0.0; 3])), Unit::IDENTITY);
    }
}
