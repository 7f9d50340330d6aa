//! How good predictions are, in words.

use crate::failure::Outcome;
use crate::output::{share, significant};
use riesz::data::Rows;
use riesz::functions::{KernelMachine, Task};
use riesz::loss::LossSpec;

/// What a model says of rows.
pub(crate) enum Answers {
    /// The classes decided for.
    Classes(Vec<u32>),
    /// Predictions of a regression.
    Numbers(Vec<f32>),
}

/// Asks a model.
pub(crate) fn answers(machine: &KernelMachine, rows: Rows<'_>) -> Outcome<Answers> {
    Ok(match machine.summary().task {
        Task::Classification(_) => Answers::Classes(machine.classes_of(rows)?),
        Task::Regression(_) => Answers::Numbers(machine.predict(rows)?),
    })
}

/// The test error of a model.
pub(crate) fn test_error(machine: &KernelMachine, rows: Rows<'_>, targets: &[f32]) -> Outcome<String> {
    Ok(error_of(&machine.summary().loss, &answers(machine, rows)?, targets))
}

/// The error of answers: wrong classes, shares of rows below their quantiles, or root mean square error and explained
/// variance.
pub(crate) fn error_of(loss: &LossSpec, answers: &Answers, targets: &[f32]) -> String {
    let predictions = match answers {
        Answers::Classes(classes) => {
            return format!("{} wrong", share(mistakes(classes, targets), targets.len()));
        }
        Answers::Numbers(predictions) => predictions,
    };
    if let LossSpec::Quantile { levels } = loss {
        let below = |(k, level): (usize, &f64)| {
            let quantiles = predictions.iter().skip(k).step_by(levels.len());
            let count = quantiles.zip(targets).filter(|(quantile, target)| target <= quantile).count();
            format!("{} below quantile {level}", share(count, targets.len()))
        };
        return levels.iter().enumerate().map(below).collect::<Vec<_>>().join(", ");
    }
    let (rmse, explained) = accuracy(predictions, targets);
    format!("root mean square error {}, R² {explained:.4}", significant(rmse))
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
