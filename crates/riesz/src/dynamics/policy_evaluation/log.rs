//! Logged transitions.

use crate::data::Rows;
use crate::error::{finite, same_columns, same_rows, Error, Result};
use std::ops::Range;

/// What is known of the actions that the policy would take.
#[derive(Clone, Copy, Debug)]
pub enum Successors<'a> {
    /// Nothing: V is learnt, from the actions that were taken.
    Unknown,
    /// An action of the policy after every transition, n×k: Q is learnt.
    Actions(Rows<'a>),
    /// The probabilities of each of A actions after every transition, n×A: Q is learnt, without noise of the action.
    Probabilities(&'a [f32], usize),
}

/// Transitions in the order of time, as they were logged under some policy.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    /// s, n×d.
    pub states: Rows<'a>,
    /// a, n×k; needed where Q is learnt.
    pub actions: Option<Rows<'a>>,
    /// r.
    pub rewards: &'a [f32],
    /// s'.
    pub next_states: Rows<'a>,
    /// Whether the process ended with the transition.
    pub terminals: &'a [bool],
    /// Whether the episode was cut short after the transition, while the process went on.
    pub truncations: Option<&'a [bool]>,
    /// A discount of its own for each transition, which multiplies γ.
    pub discounts: Option<&'a [f32]>,
    /// π(a | s)/π_b(a | s) where the log is of another policy π_b.
    pub ratios: Option<&'a [f32]>,
    /// The actions of the policy afterwards.
    pub successors: Successors<'a>,
}

impl<'a> Log<'a> {
    /// Everything is finite, of one length, and possible.
    pub fn check(&self) -> Result<()> {
        let n = self.states.len();
        if n == 0 {
            return Err(Error::Empty { what: "states", needed: "one transition" });
        }
        for (what, found) in [
            ("actions", self.actions.map_or(n, |rows| rows.len())),
            ("rewards", self.rewards.len()),
            ("next_states", self.next_states.len()),
            ("terminals", self.terminals.len()),
            ("truncations", self.truncations.map_or(n, <[bool]>::len)),
            ("discounts", self.discounts.map_or(n, <[f32]>::len)),
            ("weights", self.ratios.map_or(n, <[f32]>::len)),
        ] {
            same_rows(what, n, found)?;
        }
        same_columns(self.states.columns(), self.next_states.columns())?;
        self.states.check_finite("states")?;
        self.next_states.check_finite("next_states")?;
        finite("rewards", self.rewards, 1)?;
        finite("discounts", self.discounts.unwrap_or_default(), 1)?;
        if let Some(actions) = self.actions {
            actions.check_finite("actions")?;
        }
        self.check_ratios()?;
        self.check_successors()
    }

    fn check_ratios(&self) -> Result<()> {
        let Some(ratios) = self.ratios else { return Ok(()) };
        if let Some(row) = ratios.iter().position(|ratio| !ratio.is_finite() || *ratio < 0.0) {
            return Err(Error::Conflict(format!(
                "weights has {} at row {row}: a ratio π(a|s)/π_b(a|s) is a number from 0 up; it is infinite where the logged policy \
                 could not take the action, and such transitions say nothing about this policy",
                ratios[row]
            )));
        }
        if ratios.iter().all(|&ratio| ratio == 0.0) {
            return Err(Error::Conflict(
                "weights are all zero: the policy never takes a logged action".into(),
            ));
        }
        Ok(())
    }

    fn check_successors(&self) -> Result<()> {
        let (n, actions) = (self.states.len(), self.actions);
        let needed =
            || Error::Empty { what: "actions", needed: "those that were taken, to learn values of actions" };
        match self.successors {
            Successors::Unknown => Ok(()),
            Successors::Actions(next) => {
                same_rows("next_actions", n, next.len())?;
                next.check_finite("next_actions")?;
                same_columns(actions.ok_or_else(needed)?.columns(), next.columns())
            }
            Successors::Probabilities(p, count) => {
                same_rows("next_action_probabilities", n, p.len() / count.max(1))?;
                same_columns(1, actions.ok_or_else(needed)?.columns())?;
                finite("next_action_probabilities", p, count)?;
                let off =
                    |p: &[f32]| p.iter().any(|p| *p < 0.0) || (p.iter().sum::<f32>() - 1.0).abs() > 1e-3;
                match p.chunks_exact(count).position(off) {
                    None => Ok(()),
                    Some(row) => Err(Error::Conflict(format!(
                        "row {row} of next_action_probabilities is no distribution: {:?}",
                        &p[row * count..(row + 1) * count]
                    ))),
                }
            }
        }
    }

    /// Refuses a policy that goes on with an action which the log does not have: nothing is known of it.
    pub(super) fn check_support(&self) -> Result<()> {
        let (Successors::Probabilities(p, count), Some(actions)) = (self.successors, self.actions) else {
            return Ok(());
        };
        let mut logged = vec![false; count];
        (0..actions.len()).for_each(|i| logged[actions.value(i, 0) as usize] = true);
        let unknown = |p: &[f32]| p.iter().zip(&logged).position(|(p, logged)| *p > 0.0 && !logged);
        let rows = p.chunks_exact(count).zip(self.terminals).enumerate();
        match rows.filter(|(_, (_, end))| !**end).find_map(|(row, (p, _))| Some((row, unknown(p)?))) {
            None => Ok(()),
            Some((row, action)) => Err(Error::Conflict(format!(
                "the policy takes action {action} after row {row}, which no transition of the log has: its value cannot be told"
            ))),
        }
    }

    /// γ' of a transition: zero where the process ended.
    fn discount(&self, discount: f64, i: usize) -> f64 {
        match (self.terminals[i], self.discounts) {
            (true, _) => 0.0,
            (false, None) => discount,
            (false, Some(own)) => discount * f64::from(own[i]),
        }
    }

    /// The constant c with E[ρ(r + γ'c − c)] = 0, which is E[r]/(1 − γ) where nothing ends; zero where there is none.
    pub(super) fn constant(&self, discount: f64) -> f64 {
        let mut sums = [0.0; 2];
        for (i, &r) in self.rewards.iter().enumerate() {
            let ratio = self.ratios.map_or(1.0, |ratios| f64::from(ratios[i]));
            sums[0] += ratio * f64::from(r);
            sums[1] += ratio * (1.0 - self.discount(discount, i));
        }
        let found = sums[0] / sums[1];
        if found.is_finite() {
            found
        } else {
            0.0
        }
    }

    /// Rewards of what V is beside a constant: V = c + f where f has the rewards r + (γ' − 1)c.
    pub(super) fn rewards_beside(&self, discount: f64, constant: f64) -> Vec<f32> {
        let reward =
            |(i, r): (usize, &f32)| (f64::from(*r) + (self.discount(discount, i) - 1.0) * constant) as f32;
        self.rewards.iter().enumerate().map(reward).collect()
    }

    /// The rows of each episode. Where nothing says that an episode ends, every transition is one of its own.
    pub fn episodes(&self) -> Vec<Range<usize>> {
        let n = self.states.len();
        let ends = |i: usize| self.terminals[i] || self.truncations.is_some_and(|cut| cut[i]);
        if !(0..n).any(ends) {
            return (0..n).map(|i| i..i + 1).collect();
        }
        let mut start = 0;
        let mut episodes = Vec::new();
        for i in 0..n {
            if ends(i) || i + 1 == n {
                episodes.push(start..i + 1);
                start = i + 1;
            }
        }
        episodes
    }
}

/// At most `most` groups of whole episodes that follow each other, of about the same number of rows.
pub(super) fn groups(episodes: &[Range<usize>], most: usize) -> Vec<Range<usize>> {
    let n = episodes.last().map_or(0, |last| last.end);
    let size = n.div_ceil(most.max(1));
    let mut groups: Vec<Range<usize>> = Vec::new();
    for episode in episodes {
        match groups.last_mut() {
            Some(group) if episodes.len() > most && group.len() + episode.len() <= size => {
                group.end = episode.end
            }
            _ => groups.push(episode.clone()),
        }
    }
    groups
}
