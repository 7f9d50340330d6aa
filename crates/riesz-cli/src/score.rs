//! How good predictions are, in words.

use crate::failure::Outcome;
use crate::output::{share, significant};
use riesz::data::Rows;
use riesz::functions::KernelMachine;
use riesz::loss::LossSpec;

/// The test error of a model: wrong classes, shares of rows below their quantiles, or root mean square error and
/// explained variance.
pub(crate) fn test_error(
    machine: &KernelMachine,
    rows: Rows<'_>,
    targets: &[f32],
    classes: bool,
) -> Outcome<String> {
    if classes {
        return Ok(format!("{} wrong", share(mistakes(&machine.classes_of(rows)?, targets), targets.len())));
    }
    let predictions = machine.predict(rows)?;
    if let LossSpec::Quantile { levels } = machine.summary().loss {
        let below = |(k, level): (usize, &f64)| {
            let quantiles = predictions.iter().skip(k).step_by(levels.len());
            let count = quantiles.zip(targets).filter(|(quantile, target)| target <= quantile).count();
            format!("{} below quantile {level}", share(count, targets.len()))
        };
        return Ok(levels.iter().enumerate().map(below).collect::<Vec<_>>().join(", "));
    }
    let (rmse, explained) = accuracy(&predictions, targets);
    Ok(format!("root mean square error {}, R² {explained:.4}", significant(rmse)))
}

/// Rows whose class is not the true one.
pub(crate) fn mistakes(classes: &[u32], targets: &[f32]) -> usize {
    classes.iter().zip(targets).filter(|(&class, &target)| class as f32 != target).count()
}

/// Root mean square error, and the share R² of the variance it explains.
pub(crate) fn accuracy(predictions: &[f32], targets: &[f32]) -> (f64, f64) {
    let n = targets.len().max(1) as f64;
    let mean = targets.iter().map(|&y| f64::from(y)).sum::<f64>() / n;
    let square = |difference: f64| difference * difference;
    let residual: f64 =
        predictions.iter().zip(targets).map(|(&p, &y)| square(f64::from(p) - f64::from(y))).sum();
    let total: f64 = targets.iter().map(|&y| square(f64::from(y) - mean)).sum();
    ((residual / n).sqrt(), 1.0 - residual / total)
}
