//! Maximisation of a smooth function on a box by limited-memory quasi-Newton steps.

use super::dot;
use crate::error::Result;

/// Pairs of steps and gradient differences remembered.
const MEMORY: usize = 8;
/// Longest step in any coordinate: hyper-parameters are logarithms, so a factor of e.
const LONGEST: f64 = 1.0;
/// Share of the promised increase that makes a step acceptable (Armijo).
const SHARE: f64 = 1e-4;
/// Steps whose gain decides whether there are more: a single one may be unlucky.
const PATIENCE: usize = 4;
/// Most halvings of a step.
const HALVINGS: usize = 12;

/// A step and the fall of the gradient along it.
type Pair = (Vec<f64>, Vec<f64>);

/// Where an ascent ended, and what it knows of the curvature there.
#[derive(Clone, Debug)]
pub(crate) struct Summit {
    pub(crate) at: Vec<f64>,
    pub(crate) value: f64,
    pairs: Vec<Pair>,
}

impl Summit {
    /// Where the next ascent begins, and how curved its function is there relative to this one.
    pub(crate) fn start(self, curvature: f64) -> Start {
        let scaled = |(step, change): Pair| (step, change.iter().map(|c| curvature * c).collect());
        Start { at: self.at, pairs: self.pairs.into_iter().map(scaled).collect() }
    }
}

/// Where an ascent begins.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    at: Vec<f64>,
    pairs: Vec<Pair>,
}

impl From<Vec<f64>> for Start {
    fn from(at: Vec<f64>) -> Self {
        Self { at, pairs: Vec::new() }
    }
}

/// A function at a point: its value is needed at every point tried, its gradient at those taken.
pub(crate) trait Height {
    /// The value, finite.
    fn value(&self) -> f64;
    /// The gradient; `None` where it is not finite.
    fn gradient(&self) -> Option<Vec<f64>>;
}

/// The box and when to stop.
pub(crate) struct Ascent {
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
    /// Most steps.
    pub(crate) steps: usize,
    /// A few steps that together gain less than this are the last ones.
    pub(crate) tolerance: f64,
}

impl Ascent {
    /// Climbs from `start`. `objective` returns `None` outside its domain; a start outside it is returned as it is
    /// with value −∞, so that the caller can compare starts.
    pub(crate) fn climb<H: Height>(
        &self,
        start: Start,
        mut objective: impl FnMut(&[f64]) -> Result<Option<H>>,
    ) -> Result<Summit> {
        let (mut at, mut pairs) = (self.clip(&start.at), start.pairs);
        let height = objective(&at)?;
        let Some((mut value, mut gradient)) = height.and_then(|h| Some((h.value(), h.gradient()?))) else {
            return Ok(Summit { at, value: f64::NEG_INFINITY, pairs });
        };
        let mut heights = vec![value];
        for _ in 0..self.steps {
            let free = self.free(&at, &gradient);
            let Some(direction) = direction(&free, &pairs) else { break };
            let Some((next, higher, new)) = self.search(&at, value, &free, &direction, &mut objective)?
            else {
                if pairs.is_empty() {
                    break;
                }
                // The curvature remembered misled: once more along the gradient.
                pairs.clear();
                continue;
            };
            let step: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
            let change: Vec<f64> = gradient.iter().zip(&new).map(|(old, new)| old - new).collect();
            if dot(&step, &change) > 1e-10 * dot(&change, &change) {
                pairs.push((step, change));
                pairs.drain(..pairs.len().saturating_sub(MEMORY));
            }
            (at, value, gradient) = (next, higher, new);
            heights.push(value);
            if heights.len() > PATIENCE && value - heights[heights.len() - 1 - PATIENCE] < self.tolerance {
                break;
            }
        }
        Ok(Summit { at, value, pairs })
    }

    fn clip(&self, at: &[f64]) -> Vec<f64> {
        at.iter().zip(&self.lower).zip(&self.upper).map(|((v, l), u)| v.clamp(*l, *u)).collect()
    }

    /// The gradient with zeros where it points out of the box.
    fn free(&self, at: &[f64], gradient: &[f64]) -> Vec<f64> {
        let held =
            |i: usize, g: f64| (at[i] <= self.lower[i] && g < 0.0) || (at[i] >= self.upper[i] && g > 0.0);
        gradient.iter().enumerate().map(|(i, &g)| if held(i, g) { 0.0 } else { g }).collect()
    }

    /// The first of the points at + direction, at + ½ direction, … that is high enough.
    #[allow(clippy::type_complexity)]
    fn search<H: Height>(
        &self,
        at: &[f64],
        value: f64,
        gradient: &[f64],
        direction: &[f64],
        objective: &mut impl FnMut(&[f64]) -> Result<Option<H>>,
    ) -> Result<Option<(Vec<f64>, f64, Vec<f64>)>> {
        let mut length = 1.0;
        for _ in 0..HALVINGS {
            let moved: Vec<f64> = at.iter().zip(direction).map(|(a, d)| a + length * d).collect();
            let next = self.clip(&moved);
            let promised: f64 = (0..at.len()).map(|i| gradient[i] * (next[i] - at[i])).sum();
            if let Some(height) = objective(&next)? {
                let higher = height.value();
                if higher >= value + SHARE * promised && higher > value {
                    if let Some(new) = height.gradient() {
                        return Ok(Some((next, higher, new)));
                    }
                }
            }
            length *= 0.5;
        }
        Ok(None)
    }
}

/// The quasi-Newton direction of ascent by the two-loop recursion, at most [`LONGEST`] in any coordinate.
fn direction(gradient: &[f64], pairs: &[Pair]) -> Option<Vec<f64>> {
    let mut q = gradient.to_vec();
    let mut weights = Vec::with_capacity(pairs.len());
    for (step, change) in pairs.iter().rev() {
        let weight = dot(step, &q) / dot(step, change);
        q.iter_mut().zip(change).for_each(|(q, c)| *q -= weight * c);
        weights.push(weight);
    }
    if let Some((step, change)) = pairs.last() {
        let scale = dot(step, change) / dot(change, change);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((step, change), weight) in pairs.iter().zip(weights.iter().rev()) {
        let correction = weight - dot(change, &q) / dot(step, change);
        q.iter_mut().zip(step).for_each(|(q, s)| *q += correction * s);
    }
    // What is held stays, and the direction must go up.
    q.iter_mut().zip(gradient).for_each(|(q, g)| *q = if *g == 0.0 { 0.0 } else { *q });
    if dot(&q, gradient) <= 0.0 {
        q.copy_from_slice(gradient);
    }
    let longest = q.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
    if longest == 0.0 || !longest.is_finite() {
        return None;
    }
    let factor = if longest > LONGEST || pairs.is_empty() { LONGEST / longest } else { 1.0 };
    q.iter_mut().for_each(|q| *q *= factor);
    Some(q)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// −(100(y − x²)² + (1 − x)²), highest at (1, 1).
    struct Valley([f64; 2]);

    impl Height for Valley {
        fn value(&self) -> f64 {
            let [x, y] = self.0;
            -(100.0 * (y - x * x).powi(2) + (1.0 - x).powi(2))
        }

        fn gradient(&self) -> Option<Vec<f64>> {
            let [x, y] = self.0;
            let bend = y - x * x;
            Some(vec![400.0 * bend * x + 2.0 * (1.0 - x), -200.0 * bend])
        }
    }

    fn valley(p: &[f64]) -> Result<Option<Valley>> {
        Ok(Some(Valley([p[0], p[1]])))
    }

    fn ascent(upper: f64) -> Ascent {
        Ascent { lower: vec![-3.0; 2], upper: vec![upper; 2], steps: 200, tolerance: 1e-14 }
    }

    #[test]
    fn climbs_a_curved_valley() {
        let summit = ascent(3.0).climb(vec![-1.2, 1.0].into(), valley).unwrap();
        assert!((summit.at[0] - 1.0).abs() < 1e-4 && (summit.at[1] - 1.0).abs() < 1e-4, "{summit:?}");
    }

    /// On the box x, y ≤ ½ the best point is x = ½, y = ¼.
    #[test]
    fn stays_in_its_box() {
        let summit = ascent(0.5).climb(vec![-1.2, 1.0].into(), valley).unwrap();
        assert!((summit.at[0] - 0.5).abs() < 1e-3 && (summit.at[1] - 0.25).abs() < 1e-3, "{summit:?}");
    }

    /// With the curvature of the first ascent the second needs fewer steps than from scratch.
    #[test]
    fn curvature_is_carried_over() {
        let first = ascent(3.0).climb(vec![-1.2, 1.0].into(), valley).unwrap();
        let from = vec![0.9, 0.82];
        let tries = |start: Start| {
            let mut count = 0;
            let objective = |p: &[f64]| {
                count += 1;
                valley(p)
            };
            assert!(ascent(3.0).climb(start, objective).unwrap().value > -1e-8);
            count
        };
        let warm = Start { at: from.clone(), ..first.start(1.0) };
        let (warm, cold) = (tries(warm), tries(from.into()));
        assert!(warm < cold, "{warm} and {cold}");
    }

    #[test]
    fn a_start_outside_the_domain_is_worth_nothing() {
        let summit = ascent(1.0).climb(vec![0.0, 0.0].into(), |_| Ok(None::<Valley>)).unwrap();
        assert_eq!(summit.value, f64::NEG_INFINITY);
    }
}
