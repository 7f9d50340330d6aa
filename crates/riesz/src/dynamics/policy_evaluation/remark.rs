//! What a user should know of an evaluation that its numbers do not say.

use super::log::Log;
use super::options::{EvaluationOptions, Functions, Method};
use crate::error::{non_negative, Result};
use crate::solver::Moments;
use faer::Mat;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// A reason to doubt an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remark {
    /// So many of the episodes were cut short while what follows still counts, and the method takes rewards that were logged alone.
    CutShort {
        /// Episodes that were cut short.
        episodes: usize,
        /// Episodes in all.
        of: usize,
    },
    /// Steps ended this far from the solution of the same equations.
    Unconverged {
        /// √(E[(V − V₀)²]/Var V₀) of the V by steps and the solution V₀.
        distance: f64,
    },
    /// States of a table that transitions lead to and none leaves, while the process goes on there.
    NeverLeft {
        /// The first of them.
        state: usize,
        /// How many.
        count: usize,
    },
}

/// A share of what is earned that is worth a remark, γ^t after t steps.
const WORTH: f64 = 0.01;
/// A distance from the solution that is worth one, in deviations of its values over the states.
const FAR: f64 = 0.5;
/// The same in squares of standard errors.
const BEYOND: f64 = 4.0;

impl Remark {
    /// The remarks about a log, before anything is learnt from it.
    pub(super) fn about(
        options: &EvaluationOptions,
        log: &Log<'_>,
        episodes: &[Range<usize>],
    ) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        if options.method.needs_episodes() && options.method != Method::DoublyRobust {
            let goes_on = |episode: &Range<usize>| !log.terminals[episode.end - 1];
            let counts = |episode: &Range<usize>| options.discount.powi(episode.len() as i32) > WORTH;
            let cut = episodes.iter().filter(|episode| goes_on(episode) && counts(episode)).count();
            if cut > 0 {
                found.push(Self::CutShort { episodes: cut, of: episodes.len() });
            }
        }
        if options.features == Functions::Table && options.method.has_function() && log.states.columns() == 1
        {
            found.extend(never_left(log));
        }
        Ok(found)
    }

    /// A remark about steps that ended at θ, far from the solution θ₀ of the same equations: by half the deviation of V₀, and by more than
    /// the standard errors of V, whose squares are sums over the `influences` of groups, J×M.
    pub(super) fn about_steps(
        moments: &Moments,
        (theta, solved, one): (&Mat<f64>, &Mat<f64>, Option<Vec<f64>>),
        influences: &[f64],
    ) -> Option<Self> {
        let m = solved.nrows();
        let columns = |values: &[f64]| Mat::from_fn(m, values.len() / m, |i, j| values[j * m + i]);
        let square = |a: &Mat<f64>| moments.product(a, a).max(0.0);
        let (difference, spread, noise) =
            (square(&(theta - solved)), square(solved), square(&columns(influences)));
        // E[V₀], where the function one is known.
        let mean = one.map_or(0.0, |one| moments.product(&columns(&one), solved));
        let variance = (spread - mean * mean).max(f64::MIN_POSITIVE);
        let far = difference > FAR * FAR * variance + BEYOND * noise;
        far.then(|| Self::Unconverged { distance: (difference / variance).sqrt() })
    }

    /// Refuses what no evaluation says.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Unconverged { distance } => non_negative("distance", *distance).map(drop),
            Self::CutShort { .. } | Self::NeverLeft { .. } => Ok(()),
        }
    }

    /// Its kind in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CutShort { .. } => "cut_short",
            Self::Unconverged { .. } => "unconverged",
            Self::NeverLeft { .. } => "never_left",
        }
    }
}

/// The states that go on without a transition of their own.
fn never_left(log: &Log<'_>) -> Option<Remark> {
    let n = log.states.len();
    let left: std::collections::HashSet<u64> = (0..n).map(|i| log.states.value(i, 0) as u64).collect();
    let entered = (0..n).filter(|&i| !log.terminals[i]).map(|i| log.next_states.value(i, 0) as u64);
    let never: std::collections::BTreeSet<u64> = entered.filter(|state| !left.contains(state)).collect();
    never.first().map(|&state| Remark::NeverLeft { state: state as usize, count: never.len() })
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutShort { episodes, of } => write!(
                f,
                "{episodes} of {of} episodes were cut short, and this method counts nothing of what they would have earned \
                 afterwards: use doubly_robust, dual_embedding or another method that learns a value"
            ),
            Self::Unconverged { distance } => write!(
                f,
                "the steps ended far from the solution of the same equations: the values differ by {distance:.1} of their \
                 standard deviation. Raise n_passes, or use dual_embedding, which solves them"
            ),
            Self::NeverLeft { state, count } => write!(
                f,
                "transitions lead to state {state}{} and none leaves it, though terminals does not say that the process ends \
                 there: its value, and those of states before it, cannot be told. If it ends there, say so by terminals",
                match count {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                }
            ),
        }
    }
}
