//! Expected hitting times and the stationary distribution of a finite chain.

use crate::data::Rows;
use crate::error::{in_range, Error, Result};
use crate::linalg::lu;
use crate::memory::room;
use crate::model::{Container, Stored};
use crate::operator::{Bellman, Discount, Transitions};
use crate::solver::SaddleClosedForm;
use crate::space::Basis;
use faer::Mat;
use serde::{Deserialize, Serialize};

/// Expected hitting times h(s, t) of a finite, irreducible chain: the mean number of steps, one at least, until t is reached
/// from s (thesis 5.6). They solve
///
/// ```text
/// E[ h(s, t) − 1[s' ≠ t] h(s', t) | s ] = 1        for every s and t,
/// ```
///
/// for each t the Bellman equation with reward one, discount one and an end at t; and π(t) = 1/h(t, t) is the stationary
/// distribution. Both spaces are tables, where the saddle point is the solution for the chain P with the observed shares of
/// transitions, and one matrix gives the solutions for all t (Kemeny and Snell): with Z = (I − P + 1πᵀ)⁻¹,
///
/// ```text
/// h(s, t) = ( 1[s = t] − Z_st + Z_tt ) / π_t.
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HittingTime {
    header: Header,
    /// h, S×S row-major.
    times: Vec<f64>,
    /// π.
    stationary: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    states: usize,
    transitions: usize,
}

impl HittingTime {
    /// Transitions between states 0, 1, …, S − 1, each of them seen. The chain must lead from every state to every other.
    pub fn fit(states: &[u32], next_states: &[u32]) -> Result<Self> {
        crate::error::same_rows("next_states", states.len(), next_states.len())?;
        let Some(&most) = states.iter().chain(next_states).max() else {
            return Err(Error::Empty { what: "states", needed: "one transition" });
        };
        let count = most as usize + 1;
        in_range("states", f64::from(most), count <= 1 << 14, "the whole numbers from 0 to 2^14 - 1")?;
        room("the times between all states", "the number of states", &[6, count, count], 8)?;
        let p = shares(states, next_states, count)?;
        check_irreducible(&p)?;
        // πᵀ(I − P) = 0 and Σπ = 1: in place of the last equation, which follows from the others.
        let system = Mat::from_fn(count, count, |i, j| {
            if i + 1 == count {
                1.0
            } else {
                f64::from(u8::from(i == j)) - p[(j, i)]
            }
        });
        let right = Mat::from_fn(count, 1, |i, _| f64::from(u8::from(i + 1 == count)));
        let pi = lu::solve(system, right);
        let fundamental =
            Mat::from_fn(count, count, |i, j| f64::from(u8::from(i == j)) - p[(i, j)] + pi[(j, 0)]);
        let z = lu::solve(fundamental, Mat::identity(count, count));
        let time = |i: usize, j: usize| (f64::from(u8::from(i == j)) - z[(i, j)] + z[(j, j)]) / pi[(j, 0)];
        let times: Vec<f64> = (0..count * count).map(|k| time(k / count, k % count)).collect();
        if times.iter().any(|time| !time.is_finite() || *time < 1.0 - 1e-6) {
            return Err(Error::NotPositiveDefinite {
                block: 0,
                size: count,
                raise: "the number of transitions",
            });
        }
        let stationary = (0..count).map(|t| 1.0 / times[t * count + t]).collect();
        Ok(Self { header: Header { states: count, transitions: states.len() }, times, stationary })
    }

    /// Number S of states.
    pub fn states(&self) -> usize {
        self.header.states
    }

    /// Transitions that were learnt from.
    pub fn transitions(&self) -> usize {
        self.header.transitions
    }

    /// h(s, t).
    pub fn expected(&self, from: u32, to: u32) -> Result<f64> {
        let count = self.header.states;
        for state in [from, to] {
            in_range("state", f64::from(state), (state as usize) < count, "the states that were seen")?;
        }
        Ok(self.times[from as usize * count + to as usize])
    }

    /// h, S×S row-major.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// π(s) = 1/h(s, s).
    pub fn stationary(&self) -> &[f64] {
        &self.stationary
    }
}

/// P: the share of transitions from each state to each other, from the moments of the saddle point on two tables, G = diag(n_s)
/// and B = E[φ(s)(φ(s') − φ(s))ᵀ].
fn shares(states: &[u32], next_states: &[u32], count: usize) -> Result<Mat<f64>> {
    let single = |states: &[u32]| -> Vec<f32> { states.iter().map(|&s| s as f32).collect() };
    let (from, to) = (single(states), single(next_states));
    let (ones, going_on) = (vec![1.0; from.len()], vec![false; from.len()]);
    let table = Basis::table(count)?;
    let saddle = SaddleClosedForm {
        operator: Bellman { discount: Discount::try_from(1.0)? },
        primal: table.clone(),
        dual: table,
    };
    let transitions = Transitions::new(Rows::single(&from, 1)?, &ones, Rows::single(&to, 1)?, &going_on)?;
    let moments = saddle.moments(transitions, &vec![0.0; from.len()])?;
    let p = moments.transition_matrix();
    match (0..count).find(|&s| !p[(s, s)].is_finite()) {
        None => Ok(p),
        Some(state) => Err(Error::Conflict(format!(
            "no transition leaves state {state}: the chain ends there, and cannot be irreducible"
        ))),
    }
}

/// From state 0 every other must be reached, forwards and backwards.
fn check_irreducible(p: &Mat<f64>) -> Result<()> {
    let count = p.nrows();
    let missed = |edge: &dyn Fn(usize, usize) -> bool| {
        let (mut seen, mut open) = (vec![false; count], vec![0]);
        seen[0] = true;
        while let Some(s) = open.pop() {
            for t in (0..count).filter(|&t| edge(s, t)) {
                if !std::mem::replace(&mut seen[t], true) {
                    open.push(t);
                }
            }
        }
        seen.iter().position(|seen| !seen)
    };
    let pair = match (missed(&|s, t| p[(s, t)] > 0.0), missed(&|s, t| p[(t, s)] > 0.0)) {
        (None, None) => return Ok(()),
        (Some(t), _) => (0, t),
        (None, Some(s)) => (s, 0),
    };
    Err(Error::Conflict(format!(
        "the chain is not irreducible: nothing leads from state {} to state {}, and the time between them is infinite; leave out states \
         that are not visited again and again",
        pair.0, pair.1
    )))
}

impl Stored for HittingTime {
    const KIND: &'static str = "hitting_time";

    fn store(&self, container: &mut Container) -> Result<()> {
        let count = self.header.states;
        container.set_field("hitting_time", &self.header)?;
        container.insert("times", vec![count, count], self.times.clone())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("hitting_time")?;
        let count = header.states;
        if count == 0 || count > 1 << 14 {
            return Err(Error::Format(format!("a chain of {count} states")));
        }
        let times = container.take_f64s("times", &[count, count])?;
        if times.iter().any(|time| *time < 1.0 - 1e-6) {
            return Err(Error::Format("a state is reached in less than a step".into()));
        }
        let stationary = (0..count).map(|t| 1.0 / times[t * count + t]).collect();
        Ok(Self { header, times, stationary })
    }
}
