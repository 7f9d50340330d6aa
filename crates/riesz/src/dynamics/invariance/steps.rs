//! Classes by stochastic steps with the logistic loss.

use super::{InvarianceOptions, Virtual};
use crate::data::Rows;
use crate::driver::{Control, Phase, Progress};
use crate::error::Result;
use crate::loss::Softmax;
use crate::operator::{ConditionalMean, Sampled};
use crate::random::{BlockIndex, Permutation, Stream};
use crate::solver::{DualForm, EmbeddingSgdConfig, Moments, SaddleState, Samples, Schedule, Solver};
use crate::space::{Averaged, Averaging, Basis, Linear};
use faer::Mat;

/// Rows of a step.
const BATCH: usize = 50;

/// Log-odds for a share p of the square loss, about ½: log p/(1 − p) has this slope there.
const SLOPE: f64 = 4.0;

/// The averaged iterate of f for min E ℓ_y(E[f(z) | x]), ℓ the logistic loss of C classes, by Embedding-SGD with u = ∇ℓ_y(v(x)).
/// It starts from f = 4 θᵀψ and v = E[f | x] in the span of φ, θ of the square loss, M×C. Steps of both functions are half of what the
/// curvature of the dual's functions allows, that of ℓ being ½.
pub(super) fn descend(
    options: &InvarianceOptions,
    data: &Virtual<'_>,
    (primal, dual, moments): (Basis, Basis, &Moments),
    (theta, dual_ridge): (&Mat<f64>, f64),
    control: &mut Control<'_>,
) -> Result<Linear> {
    let n = data.rows.len();
    let (c, size) = (data.targets.len() / n, BATCH.min(n));
    let places: Vec<usize> = (0..dual.len()).collect();
    let curvature = moments.curvature(&places, size);
    let config = EmbeddingSgdConfig {
        primal: Schedule::Constant { step: 1.0 / curvature },
        dual: Schedule::Constant { step: 0.5 / curvature },
        primal_ridge: 0.0,
        dual_ridge: 0.0,
        form: DualForm::Shifted,
    };
    let softmax = Softmax { classes: c };
    let solver = config.build(ConditionalMean, &softmax)?;
    let steps = options.passes.saturating_mul(n.div_ceil(size));
    let start = theta * faer::Scale(SLOPE);
    let v = Linear::with_coefficients(dual, row_major(&moments.regressed(dual_ridge, &start)?))?;
    let f = Linear::with_coefficients(primal, row_major(&start))?;
    let mut state = SaddleState::new(f.averaging(Averaging::LastHalf(steps as u64)), v);
    for pass in 0..options.passes {
        let order = Permutation::new(options.seed, Stream::Shuffle, BlockIndex(pass as u64), n);
        for some in order.indices().chunks(size) {
            let rows = |values| Rows::single(values, data.rows.columns());
            let x = data.rows.gather(some);
            let z: Vec<Vec<f32>> = data.samples.iter().map(|z| z.gather(some)).collect();
            let z: Vec<Rows<'_>> = z.iter().map(|z| rows(z)).collect::<Result<_>>()?;
            let targets: Vec<f32> =
                some.iter().map(|&i| label(&data.targets[i as usize * c..][..c])).collect();
            let (batch, weights) = (Sampled::new(rows(&x)?, &z)?, &vec![1.0; some.len()]);
            let info = solver.step(&mut state, Samples { batch, targets: &targets, weights })?;
            control.report(Progress::new(Phase::Fit, state.step as usize, steps, info.value))?;
        }
    }
    Ok(state.f.average())
}

fn row_major(a: &Mat<f64>) -> Vec<f64> {
    a.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect()
}

/// The class whose target is the largest.
fn label(targets: &[f32]) -> f32 {
    let largest = targets.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    largest.map_or(0, |(class, _)| class) as f32
}
