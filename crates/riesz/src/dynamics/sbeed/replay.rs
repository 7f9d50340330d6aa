//! Steps that were taken, the newest of them.

use super::{After, Running};
use crate::error::{finite, in_range, positive, same_rows, Error, Result};
use crate::memory::room;
use crate::model::Container;

/// One step in each of several environments, row by row.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    /// Which environment each row belongs to.
    pub lanes: &'a [usize],
    /// s, n×d.
    pub states: &'a [f32],
    /// a, in the units of the policy: n×p, or n numbers of actions.
    pub actions: &'a [f64],
    /// log β(a|s) of the policy that took them; `None` where it is not known.
    pub log_behaviour: Option<&'a [f64]>,
    /// R.
    pub rewards: &'a [f64],
    /// s', n×d.
    pub next_states: &'a [f32],
    /// What follows.
    pub after: &'a [After],
}

/// The steps of one environment, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Lane {
    states: Vec<f32>,
    actions: Vec<f64>,
    log_behaviour: Vec<f64>,
    rewards: Vec<f64>,
    next_states: Vec<f32>,
    after: Vec<After>,
}

/// Steps of several environments, of which the oldest are forgotten when there are more than fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    columns: usize,
    action_columns: usize,
    capacity: usize,
    lanes: Vec<Lane>,
}

/// All steps, lane after lane; where a lane breaks off, what follows is unseen.
pub(super) struct Gathered {
    pub(super) states: Vec<f32>,
    /// States that follow where that is not the state of the next step: after unseen ends.
    pub(super) beyond: Vec<f32>,
    pub(super) actions: Vec<f64>,
    pub(super) log_behaviour: Vec<f64>,
    pub(super) rewards: Vec<f64>,
    pub(super) after: Vec<After>,
}

/// Most environments side by side.
const MOST_LANES: usize = 1 << 12;

impl Replay {
    /// Room for `capacity` steps of `lanes` environments.
    pub fn new(columns: usize, action_columns: usize, lanes: usize, capacity: usize) -> Result<Self> {
        positive("columns of observations", columns as f64)?;
        positive("columns of actions", action_columns as f64)?;
        in_range("n_envs", lanes as f64, (1..=MOST_LANES).contains(&lanes), "[1, 2^12]")?;
        in_range("buffer_size", capacity as f64, capacity >= lanes, "at least a step of each environment")?;
        room("steps", "buffer_size", &[capacity, 2 * columns + action_columns + 4], 8)?;
        Ok(Self { columns, action_columns, capacity, lanes: vec![Lane::default(); lanes] })
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.rewards.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of environments.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Adds steps, after checking their shapes and numbers.
    pub fn push(&mut self, steps: &Steps<'_>) -> Result<()> {
        let (d, p, n) = (self.columns, self.action_columns, steps.lanes.len());
        for (what, numbers, width) in [
            ("observations", steps.states.len(), d),
            ("next observations", steps.next_states.len(), d),
            ("actions", steps.actions.len(), p),
            ("rewards", steps.rewards.len(), 1),
            ("log_probabilities", steps.log_behaviour.map_or(n, <[f64]>::len), 1),
            ("ends", steps.after.len(), 1),
        ] {
            if numbers != n * width {
                return Err(Error::Length { what, expected: format!("{n} rows of {width}"), found: numbers });
            }
        }
        finite("observations", steps.states, d)?;
        finite("next observations", steps.next_states, d)?;
        finite("actions", steps.actions, p)?;
        finite("rewards", steps.rewards, 1)?;
        finite("log_probabilities", steps.log_behaviour.unwrap_or_default(), 1)?;
        for (i, &lane) in steps.lanes.iter().enumerate() {
            let count = self.lanes.len();
            in_range("environment", lane as f64, lane < count, "the environments there are")?;
            let lane = &mut self.lanes[lane];
            lane.states.extend_from_slice(&steps.states[i * d..(i + 1) * d]);
            lane.next_states.extend_from_slice(&steps.next_states[i * d..(i + 1) * d]);
            lane.actions.extend_from_slice(&steps.actions[i * p..(i + 1) * p]);
            lane.log_behaviour.push(steps.log_behaviour.map_or(f64::NAN, |log| log[i]));
            lane.rewards.push(steps.rewards[i]);
            lane.after.push(steps.after[i]);
        }
        Ok(())
    }

    /// Forgets the oldest steps of lanes that have more than their share of the capacity.
    pub(super) fn forget(&mut self) {
        let (d, p, most) = (self.columns, self.action_columns, self.capacity / self.lanes.len());
        for lane in &mut self.lanes {
            let over = lane.rewards.len().saturating_sub(most);
            lane.states.drain(..over * d);
            lane.next_states.drain(..over * d);
            lane.actions.drain(..over * p);
            lane.log_behaviour.drain(..over);
            lane.rewards.drain(..over);
            lane.after.drain(..over);
        }
    }

    /// All actions.
    pub(super) fn actions(&self) -> impl Iterator<Item = &f64> {
        self.lanes.iter().flat_map(|lane| &lane.actions)
    }

    /// Breaks every episode off where it stands: the environments begin anew.
    pub(super) fn break_off(&mut self) {
        for last in self.lanes.iter_mut().filter_map(|lane| lane.after.last_mut()) {
            if *last == After::Step {
                *last = After::Unseen;
            }
        }
    }

    /// Every step, with observations as `scaling` makes them.
    pub(super) fn gather(&self, scaling: &Running) -> Gathered {
        let mut all = Gathered {
            states: Vec::new(),
            beyond: Vec::new(),
            actions: Vec::new(),
            log_behaviour: Vec::new(),
            rewards: Vec::new(),
            after: Vec::new(),
        };
        let d = self.columns;
        for lane in self.lanes.iter().filter(|lane| !lane.rewards.is_empty()) {
            let first = all.after.len();
            all.states.extend(scaling.standardise(&lane.states));
            all.actions.extend_from_slice(&lane.actions);
            all.log_behaviour.extend_from_slice(&lane.log_behaviour);
            all.rewards.extend_from_slice(&lane.rewards);
            all.after.extend_from_slice(&lane.after);
            if let Some(last @ After::Step) = all.after.last_mut() {
                *last = After::Unseen;
            }
            for (t, after) in all.after[first..].iter().enumerate() {
                if *after == After::Unseen {
                    all.beyond.extend(scaling.standardise(&lane.next_states[t * d..(t + 1) * d]));
                }
            }
        }
        all
    }

    pub(super) fn store(&self, container: &mut Container) -> Result<()> {
        let counts: Vec<u64> = self.lanes.iter().map(|lane| lane.rewards.len() as u64).collect();
        container.set_field("replay", &(self.lanes.len(), self.capacity))?;
        container.insert("replay.counts", vec![counts.len()], counts)?;
        let n = self.len();
        let singles =
            |of: fn(&Lane) -> &Vec<f32>| self.lanes.iter().flat_map(of).copied().collect::<Vec<_>>();
        let doubles =
            |of: fn(&Lane) -> &Vec<f64>| self.lanes.iter().flat_map(of).copied().collect::<Vec<_>>();
        container.insert("replay.states", vec![n, self.columns], singles(|lane| &lane.states))?;
        container.insert("replay.next_states", vec![n, self.columns], singles(|lane| &lane.next_states))?;
        container.insert("replay.actions", vec![n, self.action_columns], doubles(|lane| &lane.actions))?;
        // Zero is a density as well: whether it is known is a field of its own.
        let log = doubles(|lane| &lane.log_behaviour);
        let known: Vec<u8> = log.iter().map(|log| u8::from(!log.is_nan())).collect();
        let log: Vec<f64> = log.into_iter().map(|log| if log.is_nan() { 0.0 } else { log }).collect();
        container.insert("replay.known", vec![n], known)?;
        container.insert("replay.log_behaviour", vec![n], log)?;
        container.insert("replay.rewards", vec![n], doubles(|lane| &lane.rewards))?;
        let after: Vec<u8> =
            self.lanes.iter().flat_map(|lane| &lane.after).map(|&after| after as u8).collect();
        container.insert("replay.after", vec![n], after)
    }

    pub(super) fn restore(container: &mut Container, columns: usize, action_columns: usize) -> Result<Self> {
        let (lanes, capacity): (usize, usize) = container.field("replay")?;
        let found = container.u64s("replay.counts")?.1.len();
        same_rows("replay.counts", lanes, found)?;
        let mut replay = Self::new(columns, action_columns, lanes, capacity)?;
        let counts = container.take_u64s("replay.counts", &[lanes])?;
        let n = container.u8s("replay.after")?.1.len();
        if counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count)) != Some(n as u64) {
            return Err(Error::Format("the steps of a replay do not add up".into()));
        }
        let states = container.take_f32s("replay.states", &[n, columns])?;
        let next_states = container.take_f32s("replay.next_states", &[n, columns])?;
        let actions = container.take_f64s("replay.actions", &[n, action_columns])?;
        let known = container.take_u8s("replay.known", &[n])?;
        let log = container.take_f64s("replay.log_behaviour", &[n])?;
        let rewards = container.take_f64s("replay.rewards", &[n])?;
        let kind = |code: &u8| match code {
            0 => Ok(After::Step),
            1 => Ok(After::End),
            2 => Ok(After::Unseen),
            _ => Err(Error::Format(format!("{code} is no way to go on after a step"))),
        };
        let after: Vec<After> =
            container.take_u8s("replay.after", &[n])?.iter().map(kind).collect::<Result<_>>()?;
        let mut first = 0;
        for (lane, &count) in replay.lanes.iter_mut().zip(&counts) {
            let own = first..first + count as usize;
            let wide = |width: usize| own.start * width..own.end * width;
            lane.states = states[wide(columns)].to_vec();
            lane.next_states = next_states[wide(columns)].to_vec();
            lane.actions = actions[wide(action_columns)].to_vec();
            let density = |i: usize| if known[i] == 1 { log[i] } else { f64::NAN };
            lane.log_behaviour = own.clone().map(density).collect();
            lane.rewards = rewards[own.clone()].to_vec();
            lane.after = after[own.clone()].to_vec();
            first = own.end;
        }
        Ok(replay)
    }
}
