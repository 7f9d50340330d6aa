//! Which functions V is a combination of.

use super::options::{EvaluationOptions, Functions};
use super::points::{Arguments, Prepared};
use crate::data::Rows;
use crate::dynamics::bandwidth;
use crate::error::{Error, Result};
use crate::functions::geometry::{median_distance, Moments};
use crate::functions::Bandwidth;
use crate::kernel::{ClosedForm, FeatureMap, KernelSpec, Scaling};
use crate::operator::{Bellman, Discount};
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use crate::solver::SaddleClosedForm;
use crate::space::Basis;

/// Features, unless their number is given.
const FEATURES: usize = 512;
/// Features that a step draws where they grow, and the most there are unless given.
const BLOCK: usize = 64;
const GROWN: usize = 1_024;
/// Units of a hidden layer, unless given.
const WIDTH: usize = 64;
/// Transitions that say how long steps may be where functions are not fixed.
const PROBED: usize = 4_096;

/// What a basis is made from, but for the bandwidth.
struct Ground<'a> {
    options: &'a EvaluationOptions,
    prepared: &'a Prepared<'a>,
    /// Columns that enter a kernel: those of s, and of a where it is a number of columns or one more column of a space.
    columns: usize,
    scaling: Scaling,
    median: f64,
}

/// The basis of a value function, and its bandwidth where it has one.
pub(super) fn choose(options: &EvaluationOptions, prepared: &Prepared<'_>) -> Result<(Basis, Option<f64>)> {
    let d = prepared.log.states.columns();
    match options.features {
        Functions::Table => {
            let count = states(prepared)?.max(options.n_features.unwrap_or(0));
            return Ok((per_action(Basis::table(count)?, prepared.arguments)?, None));
        }
        Functions::Linear => {
            let columns = match prepared.arguments {
                Arguments::Action(more) => d + more,
                Arguments::State | Arguments::OneOf(_) => d,
            };
            return Ok((per_action(Basis::columns_of(columns)?.with_intercept(), prepared.arguments)?, None));
        }
        Functions::Random | Functions::Atoms | Functions::Growing | Functions::Network => {}
    }
    let ground = Ground::new(options, prepared)?;
    let bandwidth = ground.bandwidth()?;
    Ok((ground.basis(options.kernel.clone(), bandwidth, options.seed, ground.features())?, Some(bandwidth)))
}

/// What a space is made from that is no combination of fixed functions: for V and for its dual.
pub(super) enum InSpace {
    Growing { maps: [FeatureMap; 2], blocks: usize, unit: f64, bandwidth: f64 },
    Network { scaling: Scaling, width: usize, seeds: [Seed; 2] },
}

/// The space of a value function.
pub(super) fn space(options: &EvaluationOptions, prepared: &Prepared<'_>) -> Result<InSpace> {
    let ground = Ground::new(options, prepared)?;
    let seeds = [options.seed, Seed(options.seed.0 ^ 2)];
    if options.features == Functions::Network {
        let width = options.n_features.unwrap_or(WIDTH);
        return Ok(InSpace::Network { scaling: ground.scaling, width, seeds });
    }
    let bandwidth = ground.bandwidth()?;
    let map = |seed: Seed, features: usize| {
        FeatureMap::new(options.kernel.clone(), bandwidth, features, seed, ground.scaling.clone())
    };
    let blocks = options.n_features.unwrap_or(GROWN).div_ceil(BLOCK);
    let maps = [map(seeds[0], BLOCK)?, map(seeds[1], BLOCK)?];
    let probe = Basis::features(map(options.seed, FEATURES)?)?;
    let sampled = prepared.sample(PROBED, options.seed);
    let operator = Bellman { discount: Discount::try_from(options.discount)? };
    let saddle = SaddleClosedForm { operator, primal: probe.clone(), dual: probe };
    let moments = saddle.moments(sampled.transitions()?, sampled.targets())?;
    let all: Vec<usize> = (0..FEATURES).collect();
    let unit = 1.0 / moments.curvature(&all, options.batch_size);
    Ok(InSpace::Growing { maps, blocks, unit, bandwidth })
}

fn per_action(basis: Basis, arguments: Arguments) -> Result<Basis> {
    match arguments {
        Arguments::OneOf(count) => basis.per_action(count),
        Arguments::State | Arguments::Action(_) => Ok(basis),
    }
}

/// One more than the largest state.
fn states(prepared: &Prepared<'_>) -> Result<usize> {
    let log = prepared.log;
    crate::error::same_columns(1, log.states.columns())?;
    if matches!(prepared.arguments, Arguments::Action(_)) {
        return Err(Error::Conflict(
            "a table has a value for each state and action: give next_action_probabilities, or other features".into(),
        ));
    }
    let mut most = 0.0_f64;
    for rows in [log.states, log.next_states] {
        for i in 0..rows.len() {
            let state = rows.value(i, 0);
            let inside = state >= 0.0 && state.fract() == 0.0 && state < f64::from(1 << 20);
            crate::error::in_range(
                "states",
                state,
                inside,
                "whole numbers from 0 to 2^20 - 1, for features = table",
            )?;
            most = most.max(state);
        }
    }
    Ok(most as usize + 1)
}

impl<'a> Ground<'a> {
    fn new(options: &'a EvaluationOptions, prepared: &'a Prepared<'a>) -> Result<Self> {
        let d = prepared.columns;
        let in_space = matches!(options.features, Functions::Growing | Functions::Network);
        let columns = if matches!(prepared.arguments, Arguments::OneOf(_)) && !in_space { d - 1 } else { d };
        let x: Vec<f32> = prepared.given.chunks_exact(d).flat_map(|row| &row[..columns]).copied().collect();
        let (rows, weights) = (Rows::single(&x, columns)?, vec![1.0; x.len() / columns]);
        options.kernel.check_domain(rows)?;
        let moments = Moments::of(rows, &weights);
        let scaling = match options.kernel.has_bandwidth() {
            true => moments.standard(),
            false => moments.unscaled(&options.kernel),
        };
        let median = match options.kernel.has_bandwidth() {
            true => median_distance(rows, &weights, &scaling, &options.kernel, options.seed),
            false => 1.0,
        };
        Ok(Self { options, prepared, columns, scaling, median })
    }

    /// Functions for each action.
    fn features(&self) -> usize {
        let n = self.prepared.log.states.len();
        let all = self.options.n_features.unwrap_or_else(|| (n / 8).next_power_of_two().clamp(64, FEATURES));
        match self.prepared.arguments {
            Arguments::OneOf(count) => all.div_ceil(count),
            Arguments::State | Arguments::Action(_) => all,
        }
    }

    fn bandwidth(&self) -> Result<f64> {
        let n = self.prepared.log.states.len();
        match self.options.bandwidth {
            _ if !self.options.kernel.has_bandwidth() => Ok(1.0),
            Bandwidth::Value(value) => Ok(value),
            Bandwidth::Auto if n >= bandwidth::LEAST => self.race(),
            Bandwidth::Auto | Bandwidth::Median => Ok(self.median),
            // Columns are standardised: their variance is one.
            Bandwidth::Scale => Ok((0.5 * self.columns as f64).sqrt()),
        }
    }

    /// The bandwidth of the least held-out error.
    fn race(&self) -> Result<f64> {
        let Self { options, prepared, .. } = self;
        let sampled = prepared.sample(bandwidth::RACED, options.seed);
        let all_lengths = KernelSpec::RationalQuadratic(1.0);
        let judge =
            self.basis(all_lengths, 0.25 * self.median, Seed(options.seed.0 ^ 1), bandwidth::JUDGES)?;
        let operator = Bellman { discount: Discount::try_from(options.discount)? };
        let features = self.features().min(bandwidth::SOME);
        let primal = |bandwidth: f64| self.basis(options.kernel.clone(), bandwidth, options.seed, features);
        bandwidth::best(operator, (sampled.transitions()?, sampled.targets()), &judge, self.median, primal)
    }

    fn basis(&self, kernel: KernelSpec, bandwidth: f64, seed: Seed, features: usize) -> Result<Basis> {
        let basis = match self.options.features {
            Functions::Atoms => {
                let d = self.prepared.columns;
                let n = self.prepared.given.len() / d;
                let order = Permutation::new(seed, Stream::Inducing, BlockIndex(0), n);
                let mut points: Vec<&[f32]> = order
                    .indices()
                    .iter()
                    .map(|&i| &self.prepared.given[i as usize * d..][..self.columns])
                    .collect();
                points.truncate(features);
                let points: Vec<f32> = points.concat();
                Basis::atoms(ClosedForm::new(kernel, bandwidth, self.scaling.clone())?, &points)?
            }
            _ => {
                let features = features.next_multiple_of(64);
                Basis::features(FeatureMap::new(kernel, bandwidth, features, seed, self.scaling.clone())?)?
            }
        };
        let from_zero = self.options.method.is_stochastic() && !self.options.centred;
        let basis = if from_zero { basis } else { basis.with_intercept() };
        match self.columns == self.prepared.columns {
            true => Ok(basis),
            false => per_action(basis, self.prepared.arguments),
        }
    }
}
