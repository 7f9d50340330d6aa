//! SBEED on finite processes, where V, π and ρ are tables and the optimum can be computed.

use super::{Horizon, Smoothing};
use crate::error::{in_range, same_rows, Error, Result};
use crate::linalg::{lu, Cholesky};
use crate::memory::room;
use faer::Mat;

/// A Markov decision process with S states and A actions, and how often each pair of them is seen. Tables of pairs have the
/// actions of a state side by side: the pair (s, a) is row s·A + a.
#[derive(Clone, Debug, PartialEq)]
pub struct FiniteProcess {
    states: usize,
    actions: usize,
    /// P(s'|s, a), a row for each pair; what a row lacks to one is the chance that the task ends.
    chances: Mat<f64>,
    /// E[R|s, a].
    rewards: Vec<f64>,
    /// μ(s, a), the shares of the pairs in what is seen.
    shares: Vec<f64>,
}

/// V and log π as tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// V(s).
    pub values: Vec<f64>,
    /// log π(a|s).
    pub log_policy: Vec<f64>,
}

/// Most pairs of a process: systems of as many rows are solved.
const MOST: usize = 1 << 13;
/// Steps of Levenberg and Marquardt, and the decrease at which they end.
const STEPS: usize = 2_000;
const DECREASE: f64 = 1e-15;
/// Damping of the first step, and where it ends.
const DAMPING: (f64, f64) = (1e-3, 1e12);

impl FiniteProcess {
    /// A process from P(s'|s, a) as SA rows of S numbers, E[R|s, a] and the shares of the pairs.
    pub fn new(actions: usize, chances: &[f64], rewards: Vec<f64>, shares: &[f64]) -> Result<Self> {
        let pairs = rewards.len();
        let known = actions > 0 && pairs > 0 && pairs.is_multiple_of(actions) && pairs <= MOST;
        in_range("the number of pairs", pairs as f64, known, "multiples of the actions up to 2^13")?;
        let states = pairs / actions;
        same_rows("the chances of next states", pairs * states, chances.len())?;
        same_rows("shares", pairs, shares.len())?;
        for row in chances.chunks_exact(states) {
            let sum: f64 = row.iter().sum();
            let inside = row.iter().all(|p| (0.0..=1.0).contains(p)) && sum <= 1.0 + 1e-9;
            in_range("the chances of a pair", sum, inside, "[0, 1], each of them and their sum")?;
        }
        let total: f64 = shares.iter().sum();
        let inside = shares.iter().all(|share| *share >= 0.0) && total > 0.0 && total.is_finite();
        in_range("shares", total, inside, "(0, inf), and none of them negative")?;
        let chances = Mat::from_fn(pairs, states, |i, j| chances[i * states + j]);
        Ok(Self {
            states,
            actions,
            chances,
            rewards,
            shares: shares.iter().map(|share| share / total).collect(),
        })
    }

    /// The process of the shares of transitions that were seen; `ends` says after which of them the task ended.
    pub fn from_transitions(
        (states, actions): (usize, usize),
        pairs: &[(u32, u32)],
        rewards: &[f64],
        next_states: &[u32],
        ends: &[bool],
    ) -> Result<Self> {
        room("the chances of next states", "the number of states", &[states, actions, states], 8)?;
        for (what, found) in
            [("rewards", rewards.len()), ("next_states", next_states.len()), ("ends", ends.len())]
        {
            same_rows(what, pairs.len(), found)?;
        }
        let size = states * actions;
        let (mut counts, mut sums, mut chances) =
            (vec![0.0; size], vec![0.0; size], vec![0.0; size * states]);
        for (i, &(s, a)) in pairs.iter().enumerate() {
            for (name, value, most) in
                [("state", s, states), ("action", a, actions), ("state", next_states[i], states)]
            {
                in_range(name, f64::from(value), (value as usize) < most, "those there are")?;
            }
            let pair = s as usize * actions + a as usize;
            counts[pair] += 1.0;
            sums[pair] += rewards[i];
            if !ends[i] {
                chances[pair * states + next_states[i] as usize] += 1.0;
            }
        }
        let mean = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
        let rewards = sums.iter().zip(&counts).map(|(sum, count)| mean(*sum, *count)).collect();
        chances.iter_mut().enumerate().for_each(|(i, c)| *c = mean(*c, counts[i / states]));
        Self::new(actions, &chances, rewards, &counts)
    }

    /// The solution of (6.6) by iteration of V ← λ log Σ_a exp((R + γPV)/λ), to a change of 10⁻¹².
    pub fn solution(&self, discount: f64, temperature: f64) -> Result<Tables> {
        let horizon = Horizon { discount, steps: 1, trace: 1.0 }.check()?;
        in_range("temperature", temperature, temperature > 0.0, "(0, inf)")?;
        let mut values = vec![0.0; self.states];
        loop {
            let ahead = self.ahead(&values);
            let q: Vec<f64> =
                self.rewards.iter().zip(&ahead).map(|(r, v)| r + horizon.discount * v).collect();
            let smoothed = |q: &[f64]| {
                let most = q.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                most + temperature * q.iter().map(|q| ((q - most) / temperature).exp()).sum::<f64>().ln()
            };
            let new: Vec<f64> = q.chunks_exact(self.actions).map(smoothed).collect();
            let change = new.iter().zip(&values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            values = new;
            if change < 1e-12 {
                let log = |(i, q): (usize, &f64)| (q - values[i / self.actions]) / temperature;
                let log_policy = q.iter().enumerate().map(log).collect();
                return Ok(Tables { values, log_policy });
            }
        }
    }

    /// P V.
    fn ahead(&self, values: &[f64]) -> Vec<f64> {
        (0..self.rewards.len())
            .map(|i| (0..self.states).map(|s| self.chances[(i, s)] * values[s]).sum())
            .collect()
    }

    /// The optimum of (6.10) over all tables, for what is seen, with ρ(s₀, a₀) a table as well.
    ///
    /// The best ρ is E[δ|s, a], and what is left is
    ///
    /// ```text
    /// L(V, π) = Σ μ(s, a) [ (E[δ|s, a] − V(s))² + (1 − η) Var(δ|s, a) ]
    /// ```
    ///
    /// with E[δ|s, a] linear in V and log π, for any window and trace: R − λ log π + γP M_{K−1}, M_0 = V,
    /// M_j = (1 − ζ)V + ζE_β[R − λ log π + γP M_{j−1}], β(a|s) = μ(s, a)/μ(s). It is minimised over V and logits of π by steps of
    /// Levenberg and Marquardt. For η < 1 the variance is that of one step, γ²Var(V(s')|s, a), and K must be one.
    pub fn optimum(&self, smoothing: Smoothing, horizon: Horizon) -> Result<Tables> {
        let Smoothing { temperature, dual_weight } = smoothing.check()?;
        if dual_weight < 1.0 && horizon.check()?.steps > 1 {
            let text = "a dual_weight below one needs steps = 1 here: the variance of longer windows is not in the table";
            return Err(Error::Conflict(text.into()));
        }
        let least = Least {
            process: self,
            maps: self.expectation(temperature, horizon),
            variance: self.variance(dual_weight, horizon.discount),
        };
        least.descend()
    }

    /// E[δ|s, a] as a constant and matrices of V and of log π.
    fn expectation(&self, temperature: f64, horizon: Horizon) -> Affine {
        let (pairs, s) = (self.rewards.len(), self.states);
        let own = |next: &Affine| Affine {
            constant: lu::product(self.chances.as_ref(), next.constant.as_ref())
                * faer::Scale(horizon.discount)
                + Mat::from_fn(pairs, 1, |i, _| self.rewards[i]),
            values: lu::product(self.chances.as_ref(), next.values.as_ref()) * faer::Scale(horizon.discount),
            log_policy: lu::product(self.chances.as_ref(), next.log_policy.as_ref())
                * faer::Scale(horizon.discount)
                - Mat::<f64>::identity(pairs, pairs) * faer::Scale(temperature),
        };
        let mean = self.behaviour();
        let mut next = Affine {
            constant: Mat::zeros(s, 1),
            values: Mat::identity(s, s),
            log_policy: Mat::zeros(s, pairs),
        };
        for _ in 1..horizon.steps {
            let step = own(&next);
            let zeta = faer::Scale(horizon.trace);
            next = Affine {
                constant: lu::product(mean.as_ref(), step.constant.as_ref()) * zeta,
                values: lu::product(mean.as_ref(), step.values.as_ref()) * zeta
                    + Mat::<f64>::identity(s, s) * faer::Scale(1.0 - horizon.trace),
                log_policy: lu::product(mean.as_ref(), step.log_policy.as_ref()) * zeta,
            };
        }
        own(&next)
    }

    /// β(a|s) as a matrix from pairs to states.
    fn behaviour(&self) -> Mat<f64> {
        let a = self.actions;
        let of = |s: usize| self.shares[s * a..(s + 1) * a].iter().sum::<f64>().max(f64::MIN_POSITIVE);
        Mat::from_fn(
            self.states,
            self.rewards.len(),
            |s, i| if i / a == s { self.shares[i] / of(s) } else { 0.0 },
        )
    }

    /// (1 − η)γ² Σ μ (diag P − P Pᵀ), by which V is squared.
    fn variance(&self, dual_weight: f64, discount: f64) -> Mat<f64> {
        let factor = (1.0 - dual_weight) * discount * discount;
        let mut sum = Mat::zeros(self.states, self.states);
        for (i, share) in self.shares.iter().enumerate().filter(|_| factor > 0.0) {
            for s in 0..self.states {
                sum[(s, s)] += factor * share * self.chances[(i, s)];
                for t in 0..self.states {
                    sum[(s, t)] -= factor * share * self.chances[(i, s)] * self.chances[(i, t)];
                }
            }
        }
        sum
    }
}

/// constant + values·V + log_policy·log π.
struct Affine {
    constant: Mat<f64>,
    values: Mat<f64>,
    log_policy: Mat<f64>,
}

/// The least squares problem in x = (V, logits).
struct Least<'a> {
    process: &'a FiniteProcess,
    maps: Affine,
    variance: Mat<f64>,
}

impl Least<'_> {
    fn tables(&self, x: &[f64]) -> Tables {
        let (values, logits) = x.split_at(self.process.states);
        let log = logits.chunks_exact(self.process.actions).flat_map(|g| {
            let most = g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum = most + g.iter().map(|g| (g - most).exp()).sum::<f64>().ln();
            g.iter().map(move |g| g - sum)
        });
        Tables { values: values.to_vec(), log_policy: log.collect() }
    }

    /// √μ (E[δ|s, a] − V(s)) of every pair, and L.
    fn residuals(&self, tables: &Tables) -> (Mat<f64>, f64) {
        let column = |x: &[f64]| Mat::from_fn(x.len(), 1, |i, _| x[i]);
        let (v, log) = (column(&tables.values), column(&tables.log_policy));
        let mean = &self.maps.constant
            + lu::product(self.maps.values.as_ref(), v.as_ref())
            + lu::product(self.maps.log_policy.as_ref(), log.as_ref());
        let FiniteProcess { shares, actions, .. } = self.process;
        let r = Mat::from_fn(shares.len(), 1, |i, _| shares[i].sqrt() * (mean[(i, 0)] - v[(i / actions, 0)]));
        let quadratic = lu::product(v.transpose(), lu::product(self.variance.as_ref(), v.as_ref()).as_ref());
        let value = r.squared_norm_l2() + quadratic[(0, 0)];
        (r, value)
    }

    /// The derivative of the residuals by x.
    fn jacobian(&self, tables: &Tables) -> Mat<f64> {
        let FiniteProcess { shares, actions, states, .. } = self.process;
        let (a, s) = (*actions, *states);
        let probabilities: Vec<f64> = tables.log_policy.iter().map(|log| log.exp()).collect();
        Mat::from_fn(shares.len(), s + shares.len(), |i, j| {
            let root = shares[i].sqrt();
            match j.checked_sub(s) {
                None => root * (self.maps.values[(i, j)] - f64::from(u8::from(i / a == j))),
                Some(k) => {
                    // ∂log π(b|s)/∂logit(k) = 1[b = k] − π(k|s).
                    let first = k / a * a;
                    let sum: f64 = (first..first + a).map(|b| self.maps.log_policy[(i, b)]).sum();
                    root * (self.maps.log_policy[(i, k)] - sum * probabilities[k])
                }
            }
        })
    }

    fn descend(&self) -> Result<Tables> {
        let (s, size) = (self.process.states, self.process.states + self.process.rewards.len());
        let (mut x, mut damping) = (vec![0.0; size], DAMPING.0);
        let (mut residuals, mut value) = self.residuals(&self.tables(&x));
        for _ in 0..STEPS {
            let tables = self.tables(&x);
            let jacobian = self.jacobian(&tables);
            let mut square = lu::product(jacobian.transpose(), jacobian.as_ref());
            let mut gradient = lu::product(jacobian.transpose(), residuals.as_ref());
            for i in 0..s {
                for j in 0..s {
                    square[(i, j)] += self.variance[(i, j)];
                    gradient[(i, 0)] += self.variance[(i, j)] * tables.values[j];
                }
            }
            let right: Vec<f64> = (0..size).map(|i| -gradient[(i, 0)]).collect();
            let mut fell = None;
            while fell.is_none() && damping < DAMPING.1 {
                let mut system = square.clone();
                (0..size).for_each(|i| system[(i, i)] += damping * (square[(i, i)] + 1e-9));
                if let Some(factor) = Cholesky::new(system) {
                    let moved: Vec<f64> = x.iter().zip(factor.solve(&right)).map(|(x, d)| x + d).collect();
                    let (r, after) = self.residuals(&self.tables(&moved));
                    fell = (after <= value).then_some((moved, r, after));
                }
                damping *= if fell.is_some() { 0.2 } else { 4.0 };
            }
            let Some((moved, r, after)) = fell else { break };
            let decrease = value - after;
            (x, residuals, value) = (moved, r, after);
            damping = damping.max(1e-15);
            if decrease <= DECREASE * value || value < 1e-28 {
                break;
            }
        }
        Ok(self.tables(&x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{gamma, uniform_open, Address, BlockIndex, Seed, Stream};

    const S: usize = 10;
    const A: usize = 3;
    const GAMMA: f64 = 0.9;
    const LAMBDA: f64 = 0.1;

    fn dirichlet(words: &mut impl Iterator<Item = u32>, n: usize, shape: f64) -> Vec<f64> {
        let draws: Vec<f64> = (0..n).map(|_| gamma(words, shape).max(1e-12)).collect();
        let sum: f64 = draws.iter().sum();
        draws.iter().map(|draw| draw / sum).collect()
    }

    /// Ten states, three actions, few likely successors, rewards between zero and one, every pair seen.
    fn process(seed: u64) -> FiniteProcess {
        let mut words = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), 0).sequence();
        let chances: Vec<f64> = (0..S * A).flat_map(|_| dirichlet(&mut words, S, 0.3)).collect();
        let rewards = (0..S * A).map(|_| uniform_open(words.next().unwrap())).collect();
        let shares = dirichlet(&mut words, S * A, 5.0);
        FiniteProcess::new(A, &chances, rewards, &shares).unwrap()
    }

    fn error(found: &Tables, truth: &Tables) -> f64 {
        found.values.iter().zip(&truth.values).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    fn one_step() -> Horizon {
        Horizon { discount: GAMMA, steps: 1, trace: 1.0 }
    }

    fn smoothing(dual_weight: f64) -> Smoothing {
        Smoothing { temperature: LAMBDA, dual_weight }
    }

    /// With the dual function the optimum is the solution of (6.6); without it V is elsewhere, by the variance of V(s').
    #[test]
    fn the_dual_function_makes_the_optimum_exact() {
        for seed in 0..5 {
            let process = process(seed);
            let truth = process.solution(GAMMA, LAMBDA).unwrap();
            let with = error(&process.optimum(smoothing(1.0), one_step()).unwrap(), &truth);
            let without = error(&process.optimum(smoothing(0.0), one_step()).unwrap(), &truth);
            assert!(with < 1e-6, "{seed}: {with:e}");
            assert!(without > 0.1, "{seed}: {without}");
        }
    }

    /// ρ(s₀, a₀) is exact for any window and trace.
    #[test]
    fn longer_windows_are_exact_as_well() {
        for (steps, trace) in [(2, 1.0), (3, 1.0), (4, 0.7)] {
            let process = process(7);
            let truth = process.solution(GAMMA, LAMBDA).unwrap();
            let horizon = Horizon { steps, trace, ..one_step() };
            let found = error(&process.optimum(smoothing(1.0), horizon).unwrap(), &truth);
            assert!(found < 1e-6, "K = {steps}, ζ = {trace}: {found:e}");
        }
        assert!(process(7).optimum(smoothing(0.5), Horizon { steps: 2, ..one_step() }).is_err());
    }

    /// 200,000 transitions of pairs drawn by their shares.
    fn sampled(process: &FiniteProcess, seed: u64) -> FiniteProcess {
        let mut words = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(1), 0).sequence();
        let mut pick = |shares: &[f64]| {
            let mut u = uniform_open(words.next().unwrap());
            let reached = shares.iter().position(|share| {
                u -= share;
                u <= 0.0
            });
            reached.unwrap_or(shares.len() - 1)
        };
        let chances: Vec<Vec<f64>> =
            (0..S * A).map(|i| (0..S).map(|s| process.chances[(i, s)]).collect()).collect();
        let (mut pairs, mut rewards, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..200_000 {
            let pair = pick(&process.shares);
            let s = pick(&chances[pair]);
            pairs.push(((pair / A) as u32, (pair % A) as u32));
            rewards.push(process.rewards[pair]);
            next.push(s as u32);
        }
        FiniteProcess::from_transitions((S, A), &pairs, &rewards, &next, &vec![false; next.len()]).unwrap()
    }

    /// V from samples is within 0.03 of the solution with the dual function, and five times farther without.
    #[test]
    fn samples_lead_to_the_solution() {
        for seed in 0..5 {
            let process = process(seed);
            let truth = process.solution(GAMMA, LAMBDA).unwrap();
            let seen = sampled(&process, seed);
            let with = error(&seen.optimum(smoothing(1.0), one_step()).unwrap(), &truth);
            let without = error(&seen.optimum(smoothing(0.0), one_step()).unwrap(), &truth);
            assert!(with < 0.03 && without > 5.0 * with, "{seed}: {with} {without}");
        }
    }

    #[test]
    fn tables_that_make_no_process_are_refused() {
        let new = |chances: &[f64], shares: &[f64]| FiniteProcess::new(1, chances, vec![0.0; 2], shares);
        assert!(new(&[0.5, 0.5, 1.0, 0.0], &[1.0, 1.0]).is_ok());
        assert!(new(&[0.9, 0.5, 1.0, 0.0], &[1.0, 1.0]).unwrap_err().to_string().contains("chances"));
        assert!(new(&[0.5, 0.5, 1.0], &[1.0, 1.0]).unwrap_err().to_string().contains("chances"));
        assert!(new(&[0.5, 0.5, 1.0, 0.0], &[1.0, -1.0]).unwrap_err().to_string().contains("shares"));
        let unseen = FiniteProcess::from_transitions((2, 1), &[(2, 0)], &[0.0], &[0], &[false]);
        assert!(unseen.unwrap_err().to_string().contains("state"));
    }
}
