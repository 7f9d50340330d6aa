//! Points x at which a value function is looked at, and the points that follow.

use super::log::{Log, Successors};
use crate::data::{Rows, TILE};
use crate::driver::Batches;
use crate::error::{in_range, Error, Result};
use crate::operator::{Likely, Transitions};
use crate::random::{uniform_open, Address, BlockIndex, Permutation, Seed, Stream};
use crate::solver::{Samples, Solver};
use std::ops::Range;

/// What a value is a function of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// V(s).
    State,
    /// Q(s, a), a one of so many.
    OneOf(usize),
    /// Q(s, a), a of so many columns.
    Action(usize),
}

impl Arguments {
    /// What a log allows to be learnt.
    pub(super) fn of(log: &Log<'_>) -> Result<Self> {
        Ok(match (log.successors, log.actions) {
            (Successors::Unknown, _) | (_, None) => Self::State,
            (Successors::Probabilities(_, count), Some(actions)) => {
                check_actions("actions", actions, count)?;
                Self::OneOf(count)
            }
            (Successors::Actions(_), Some(actions)) => Self::Action(actions.columns()),
        })
    }

    /// Columns of x, for so many of s.
    pub(super) fn columns(self, states: usize) -> usize {
        match self {
            Self::State => states,
            Self::OneOf(_) => states + 1,
            Self::Action(columns) => states.saturating_add(columns),
        }
    }
}

fn check_actions(name: &'static str, actions: Rows<'_>, count: usize) -> Result<()> {
    for i in 0..actions.len() {
        let a = actions.value(i, 0);
        let inside = a >= 0.0 && a.fract() == 0.0 && a < count as f64;
        in_range(
            name,
            a,
            inside,
            "the whole numbers from 0 up to the number of columns of the probabilities",
        )?;
    }
    Ok(())
}

/// Rows x and the probability of each.
pub(super) struct Branch {
    pub rows: Vec<f32>,
    /// One for each row; none where it is one.
    pub probabilities: Option<Vec<f32>>,
}

/// (s, a) for every action that may be taken at `states`.
pub(super) fn branches(
    arguments: Arguments,
    states: Rows<'_>,
    policy: Successors<'_>,
) -> Result<Vec<Branch>> {
    let n = states.len();
    match (arguments, policy) {
        (Arguments::State, Successors::Unknown) => {
            Ok(vec![Branch { rows: beside(states, |_, _| {}), probabilities: None }])
        }
        (Arguments::Action(columns), Successors::Actions(actions)) => {
            crate::error::same_columns(columns, actions.columns())?;
            crate::error::same_rows("actions", n, actions.len())?;
            Ok(vec![with_actions(states, actions)])
        }
        (Arguments::OneOf(count), Successors::Actions(actions)) => {
            crate::error::same_columns(1, actions.columns())?;
            crate::error::same_rows("actions", n, actions.len())?;
            check_actions("actions", actions, count)?;
            Ok(vec![with_actions(states, actions)])
        }
        (Arguments::OneOf(count), Successors::Probabilities(p, found)) => {
            crate::error::same_columns(count, found)?;
            crate::error::same_rows("probabilities", n, p.len() / count)?;
            let branch = |a: usize| Branch {
                rows: beside(states, |_, row| row.push(a as f32)),
                probabilities: Some(p.iter().skip(a).step_by(count).copied().collect()),
            };
            Ok((0..count).map(branch).collect())
        }
        (Arguments::State, _) => Err(Error::Conflict("a value of states was learnt: give no actions".into())),
        (_, Successors::Unknown) => Err(Error::Conflict(
            "values of actions were learnt: say which actions the policy takes at these states, or how probable they are".into(),
        )),
        (Arguments::Action(_), Successors::Probabilities(..)) => {
            Err(Error::Conflict("actions are numbers here: give the actions themselves".into()))
        }
    }
}

/// Rows of s, each with what `more` appends.
fn beside(states: Rows<'_>, more: impl Fn(usize, &mut Vec<f32>)) -> Vec<f32> {
    let (d, mut buffer, mut out) = (states.columns(), Vec::new(), Vec::new());
    for tile in crate::data::tiles(states.len()) {
        let first = tile.start;
        for (i, row) in states.tile(tile, &mut buffer).chunks_exact(d).enumerate() {
            out.extend_from_slice(row);
            more(first + i, &mut out);
        }
    }
    out
}

fn with_actions(states: Rows<'_>, actions: Rows<'_>) -> Branch {
    let append =
        |i: usize, row: &mut Vec<f32>| row.extend((0..actions.columns()).map(|k| actions.value(i, k) as f32));
    Branch { rows: beside(states, append), probabilities: None }
}

/// Transitions between points.
pub(super) struct Prepared<'a> {
    pub arguments: Arguments,
    /// Columns of x.
    pub columns: usize,
    pub given: Vec<f32>,
    pub next: Vec<Branch>,
    pub log: &'a Log<'a>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(log: &'a Log<'a>) -> Result<Self> {
        let arguments = Arguments::of(log)?;
        let taken = log.actions.map_or(Successors::Unknown, Successors::Actions);
        let taken = if arguments == Arguments::State { Successors::Unknown } else { taken };
        let mut given = branches(arguments, log.states, taken)?;
        let next = branches(arguments, log.next_states, log.successors)?;
        let given = given.pop().map_or_else(Vec::new, |branch| branch.rows);
        Ok(Self { arguments, columns: arguments.columns(log.states.columns()), given, next, log })
    }

    /// What `work` makes of all transitions.
    pub(super) fn with_transitions<R>(&self, work: impl FnOnce(Transitions<'_>) -> Result<R>) -> Result<R> {
        let rows = |values| Rows::single(values, self.columns);
        let likely: Vec<Likely<'_>> = self
            .next
            .iter()
            .filter_map(|branch| branch.probabilities.as_ref().map(|p| (branch, p)))
            .map(|(branch, probabilities)| Ok(Likely { rows: rows(&branch.rows)?, probabilities }))
            .collect::<Result<_>>()?;
        let (given, log) = (rows(&self.given)?, self.log);
        let transitions = match (&self.next[..], &likely[..]) {
            ([one], []) => Transitions::new(given, log.rewards, rows(&one.rows)?, log.terminals)?,
            _ => Transitions::expected(given, log.rewards, &likely, log.terminals)?,
        };
        let transitions = match log.discounts {
            Some(discounts) => transitions.discounted(discounts)?,
            None => transitions,
        };
        work(match (self.arguments, log.ratios) {
            (Arguments::State, Some(ratios)) => transitions.weighted(ratios)?,
            // Q(s, a) is asked for at the action that was taken: nothing is to be weighted.
            _ => transitions,
        })
    }

    /// One of the points that may follow each transition, drawn by its probability.
    fn drawn(&self, seed: Seed) -> Vec<f32> {
        let d = self.columns;
        if let [one] = &self.next[..] {
            return one.rows.clone();
        }
        let draw = |i: usize| {
            let words = Address::new(seed, Stream::Successor, BlockIndex(i as u64), 0).words(0);
            let (mut left, mut chosen) = (uniform_open(words[0]), 0);
            for (a, branch) in self.next.iter().enumerate() {
                let p = branch.probabilities.as_ref().map_or(1.0, |p| f64::from(p[i]));
                if p > 0.0 {
                    chosen = a;
                }
                left -= p;
                if left <= 0.0 {
                    break;
                }
            }
            chosen
        };
        (0..self.log.states.len())
            .flat_map(|i| &self.next[draw(i)].rows[i * d..(i + 1) * d])
            .copied()
            .collect()
    }

    /// Some of the transitions, as ones to learn from.
    pub(super) fn sample(&self, most: usize, seed: Seed) -> Sampled {
        let n = self.log.states.len();
        let order = Permutation::new(seed, Stream::Subsample, BlockIndex(0), n);
        let mut some = order.indices()[..most.min(n)].to_vec();
        some.sort_unstable();
        let next = self.drawn(seed);
        let mut sampled = Sampled { columns: self.columns, ..Sampled::default() };
        sampled.take(&self.given, &next, self.log, self.arguments, &some);
        sampled
    }
}

/// Transitions with one successor each, gathered.
#[derive(Default)]
pub(super) struct Sampled {
    pub columns: usize,
    pub given: Vec<f32>,
    next: Vec<f32>,
    rewards: Vec<f32>,
    terminals: Vec<bool>,
    discounts: Option<Vec<f32>>,
    ratios: Option<Vec<f32>>,
    zeros: Vec<f32>,
    ones: Vec<f32>,
}

impl Sampled {
    fn take(&mut self, given: &[f32], next: &[f32], log: &Log<'_>, arguments: Arguments, some: &[u32]) {
        let d = self.columns;
        let row = |from: &[f32], into: &mut Vec<f32>| {
            into.clear();
            some.iter().for_each(|&i| into.extend_from_slice(&from[i as usize * d..][..d]));
        };
        row(given, &mut self.given);
        row(next, &mut self.next);
        self.rewards = some.iter().map(|&i| log.rewards[i as usize]).collect();
        self.terminals = some.iter().map(|&i| log.terminals[i as usize]).collect();
        let gathered = |values: &[f32]| some.iter().map(|&i| values[i as usize]).collect();
        self.discounts = log.discounts.map(gathered);
        self.ratios = log.ratios.filter(|_| arguments == Arguments::State).map(gathered);
        self.zeros.resize(some.len(), 0.0);
        self.ones.resize(some.len(), 1.0);
    }

    /// Targets of the residual: zero.
    pub(super) fn targets(&self) -> &[f32] {
        &self.zeros
    }

    pub(super) fn transitions(&self) -> Result<Transitions<'_>> {
        let rows = |values| Rows::single(values, self.columns);
        let mut transitions =
            Transitions::new(rows(&self.given)?, &self.rewards, rows(&self.next)?, &self.terminals)?;
        if let Some(discounts) = &self.discounts {
            transitions = transitions.discounted(discounts)?;
        }
        if let Some(ratios) = &self.ratios {
            transitions = transitions.weighted(ratios)?;
        }
        Ok(transitions)
    }
}

/// Transitions a batch at a time, in a new random order in every pass, with rewards of their own.
pub(super) struct TransitionBatches<'a> {
    prepared: &'a Prepared<'a>,
    rewards: Vec<f32>,
    next: Vec<f32>,
    size: usize,
    seed: Seed,
    order: Vec<u32>,
    pass: u64,
    at: Range<usize>,
    batch: Sampled,
}

impl<'a> TransitionBatches<'a> {
    pub(super) fn new(prepared: &'a Prepared<'a>, rewards: Vec<f32>, size: usize, seed: Seed) -> Self {
        let n = prepared.log.states.len();
        let batch = Sampled { columns: prepared.columns, ..Sampled::default() };
        let next = prepared.drawn(seed);
        let (size, order) = (size.min(n), Vec::new());
        let mut batches = Self { prepared, rewards, next, size, seed, order, pass: 0, at: 0..n, batch };
        batches.draw_order();
        batches
    }

    /// Batches of a pass.
    pub(super) fn len(&self) -> usize {
        self.order.len().div_ceil(self.size)
    }

    /// Goes on after so many batches.
    pub(super) fn seek(&mut self, batches: u64) {
        self.pass = batches / self.len() as u64;
        self.draw_order();
        self.at.start = batches as usize % self.len() * self.size;
    }

    fn draw_order(&mut self) {
        let n = self.prepared.log.states.len();
        self.order =
            Permutation::new(self.seed, Stream::Shuffle, BlockIndex(self.pass), n).indices().to_vec();
        self.at = 0..n;
    }
}

impl<S> Batches<S> for TransitionBatches<'_>
where
    S: for<'b> Solver<Batch<'b> = Samples<'b, Transitions<'b>>>,
{
    fn next(&mut self) -> Result<Option<Samples<'_, Transitions<'_>>>> {
        if self.at.is_empty() {
            return Ok(None);
        }
        let end = (self.at.start + self.size).min(self.at.end);
        let some = &self.order[self.at.start..end];
        self.at.start = end;
        let Prepared { given, log, arguments, .. } = self.prepared;
        let log = Log { rewards: &self.rewards, ..**log };
        self.batch.take(given, &self.next, &log, *arguments, some);
        let Sampled { zeros, ones, .. } = &self.batch;
        let (targets, weights) = (&zeros[..some.len()], &ones[..some.len()]);
        Ok(Some(Samples { batch: self.batch.transitions()?, targets, weights }))
    }

    fn rewind(&mut self) -> Result<()> {
        self.pass += 1;
        self.draw_order();
        Ok(())
    }
}

/// Rows evaluated at a time.
pub(super) const CHUNK: usize = 8 * TILE;
