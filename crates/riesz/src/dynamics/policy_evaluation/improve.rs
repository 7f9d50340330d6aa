//! Better policies from a log: policy iteration with values of actions (thesis Algorithm 9).

use super::{Arguments, EvaluationOptions, Log, PolicyEvaluation, Successors};
use crate::data::Rows;
use crate::driver::{Control, Phase, Progress};
use crate::error::{in_range, Error, Result};
use crate::functions::Bandwidth;
use crate::memory::room;
use serde::{Deserialize, Serialize};

/// How a policy is improved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Improvement {
    /// Number A of actions.
    pub actions: usize,
    /// ε: how often the policy takes an action at random, whichever is best.
    pub exploration: f64,
    /// Most evaluations.
    pub rounds: usize,
    /// It ends where the best action has changed after at most this share of the transitions.
    pub tolerance: f64,
}

impl Improvement {
    /// Every setting is in its domain.
    pub fn check(&self) -> Result<()> {
        let Self { actions, exploration, rounds, tolerance } = *self;
        in_range("n_actions", actions as f64, (1..=1 << 10).contains(&actions), "[1, 2^10]")?;
        in_range("exploration", exploration, (0.0..=1.0).contains(&exploration), "[0, 1]")?;
        in_range("max_iter", rounds as f64, (1..=10_000).contains(&rounds), "[1, 10000]")?;
        in_range("tol", tolerance, (0.0..=1.0).contains(&tolerance), "[0, 1]")?;
        Ok(())
    }
}

/// A policy that was improved: greedy for Q but for exploration, among the actions that the log has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Improved {
    pub settings: Improvement,
    /// Whether the log has an action.
    pub known: Vec<bool>,
    /// After each evaluation: the share of transitions after which another action is best than before it.
    pub changes: Vec<f64>,
}

impl Improved {
    /// π(a | s), n×A: one for the best of the known actions, but for ε, which all of them share.
    fn probabilities(&self, best: &[usize]) -> Vec<f32> {
        let (count, epsilon) = (self.settings.actions, self.settings.exploration);
        let known = self.known.iter().filter(|known| **known).count();
        let mut p = vec![0.0; best.len() * count];
        for (p, &best) in p.chunks_exact_mut(count).zip(best) {
            for (a, p) in p.iter_mut().enumerate().filter(|(a, _)| self.known[*a]) {
                let share = epsilon / known as f64;
                *p = (share + if a == best { 1.0 - epsilon } else { 0.0 }) as f32;
            }
        }
        p
    }

    /// The best known action of each row of n×A values; the first of several.
    fn best(&self, values: &[f64]) -> Vec<usize> {
        let best = |values: &[f64]| {
            let known = (0..values.len()).filter(|a| self.known[*a]);
            known.reduce(|best, a| if values[a] > values[best] { a } else { best }).unwrap_or(0)
        };
        values.chunks_exact(self.settings.actions).map(best).collect()
    }
}

impl PolicyEvaluation {
    /// Policy iteration (thesis Algorithm 9): Q of a policy is learnt from the log, the policy becomes ε-greedy for it,
    ///
    /// ```text
    /// Q_i = Q of π_i,      π_{i+1}(a | s) = (1 − ε) 1[a = argmax Q_i(s, ·)] + ε/A′,
    /// ```
    ///
    /// over the A′ actions that the log has, again and again until it changes no more. Q does not ask who made the log: no ratios are needed, and all rounds learn from
    /// the same transitions, where the text draws new ones. π_1 takes every action alike. The
    /// bandwidth is that of the second round: Q of a policy that chooses has edges that Q of π_1 has not.
    pub fn improve(
        options: &EvaluationOptions,
        improvement: Improvement,
        log: &Log<'_>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        improvement.check()?;
        if !options.method.is_closed() {
            return Err(Error::Conflict(format!(
                "a policy is improved by closed forms: method = dual_embedding, lstd, kernel_mdp or fitted_q, not {:?}",
                options.method
            )));
        }
        let mut improved =
            Improved { settings: improvement, known: known(log, improvement.actions)?, changes: Vec::new() };
        let (mut options, n) = (options.clone(), log.states.len());
        // A copy of what follows for every action, and the probability of each.
        let columns = log.states.columns().saturating_add(3);
        room("what may follow every transition", "n_actions", &[n, improvement.actions, columns], 4)?;
        let every = improved.known.iter().filter(|known| **known).count() as f32;
        let uniform = improved.known.iter().map(|known| f32::from(u8::from(*known)) / every);
        let mut p: Vec<f32> = uniform.collect::<Vec<_>>().repeat(n);
        let mut best: Option<Vec<usize>> = None;
        loop {
            let successors = Successors::Probabilities(&p, improvement.actions);
            let mut evaluation = Self::fit(&options, &Log { successors, ..*log }, control)?;
            if best.is_some() {
                options.bandwidth = evaluation.header.bandwidth.map_or(options.bandwidth, Bandwidth::Value);
            }
            let next = improved.best(&evaluation.action_values(log.next_states, improvement.actions)?);
            let changed = best.as_ref().map_or(1.0, |best| share_changed(best, &next, log.terminals));
            improved.changes.push(changed);
            let round = improved.changes.len();
            control.report(Progress::new(Phase::Ridge, round, improvement.rounds, changed))?;
            if round == improvement.rounds || changed <= improvement.tolerance {
                evaluation.header.improved = Some(improved);
                return Ok(evaluation);
            }
            p = improved.probabilities(&next);
            best = Some(next);
        }
    }

    /// Q(s, a) of A actions, n×A.
    pub fn action_values(&self, states: Rows<'_>, actions: usize) -> Result<Vec<f64>> {
        let n = states.len();
        if self.header.arguments != Arguments::OneOf(actions) {
            return Err(Error::Conflict(format!(
                "values of {actions} actions that are numbered were not learnt"
            )));
        }
        room("values of all actions", "the number of states", &[n, actions], 8)?;
        let mut values = vec![0.0; n * actions];
        for a in 0..actions {
            let taken = vec![a as f32; n];
            let own = self.value(states, Successors::Actions(Rows::single(&taken, 1)?))?;
            values.iter_mut().skip(a).step_by(actions).zip(own).for_each(|(value, own)| *value = own);
        }
        Ok(values)
    }

    /// π(a | s) of the policy that was found, n×A.
    pub fn improved_policy(&self, states: Rows<'_>) -> Result<Vec<f32>> {
        let improved = self.improved()?;
        let values = self.action_values(states, improved.settings.actions)?;
        Ok(improved.probabilities(&improved.best(&values)))
    }

    /// The actions that are best for Q, those that the log has.
    pub fn best_actions(&self, states: Rows<'_>) -> Result<Vec<usize>> {
        let improved = self.improved()?;
        Ok(improved.best(&self.action_values(states, improved.settings.actions)?))
    }

    fn improved(&self) -> Result<&Improved> {
        let none = || Error::Conflict("a policy was evaluated here and none was sought".into());
        self.header.improved.as_ref().ok_or_else(none)
    }

    /// What a file says of an improved policy fits the value function.
    pub(super) fn check_improved(&self) -> Result<()> {
        let Some(improved) = &self.header.improved else { return Ok(()) };
        improved.settings.check()?;
        let count = improved.settings.actions;
        let shares = |changes: &[f64]| changes.iter().all(|share| (0.0..=1.0).contains(share));
        let fits = self.header.arguments == Arguments::OneOf(count)
            && self.header.options.method.is_closed()
            && improved.known.len() == count
            && improved.known.contains(&true)
            && (1..=improved.settings.rounds).contains(&improved.changes.len())
            && shares(&improved.changes);
        match fits {
            true => Ok(()),
            false => Err(Error::Format("the policy does not fit its values of actions".into())),
        }
    }
}

/// Whether the log has each of A actions.
fn known(log: &Log<'_>, count: usize) -> Result<Vec<bool>> {
    let needed = || Error::Empty { what: "actions", needed: "those that were taken" };
    let actions = log.actions.ok_or_else(needed)?;
    crate::error::same_columns(1, actions.columns())?;
    crate::error::same_rows("actions", log.states.len(), actions.len())?;
    for i in 0..actions.len() {
        let a = actions.value(i, 0);
        let inside = a >= 0.0 && a.fract() == 0.0 && a < count as f64;
        in_range("actions", a, inside, "the whole numbers from 0 to n_actions - 1")?;
    }
    let mut known = vec![false; count];
    (0..actions.len()).for_each(|i| known[actions.value(i, 0) as usize] = true);
    Ok(known)
}

/// The share of transitions that go on after which another action is best.
fn share_changed(before: &[usize], after: &[usize], terminals: &[bool]) -> f64 {
    let going_on = || before.iter().zip(after).zip(terminals).filter(|(_, end)| !**end);
    let changed = going_on().filter(|((before, after), _)| before != after).count();
    changed as f64 / (going_on().count() as f64).max(1.0)
}
