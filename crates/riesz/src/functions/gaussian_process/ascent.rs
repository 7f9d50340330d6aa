//! Maximisation of a smooth function on a box by limited-memory quasi-Newton steps.

use super::factor::dot;
use crate::error::Result;

/// Pairs of steps and gradient differences remembered.
const MEMORY: usize = 8;
/// Longest step in any coordinate: hyper-parameters are logarithms, so a factor of e.
const LONGEST: f64 = 1.0;
/// Share of the promised increase that makes a step acceptable (Armijo).
const SHARE: f64 = 1e-4;
/// Most halvings of a step.
const HALVINGS: usize = 12;

/// Where an ascent ended.
#[derive(Clone, Debug)]
pub(super) struct Summit {
    pub(super) at: Vec<f64>,
    pub(super) value: f64,
}

/// The box and when to stop.
pub(super) struct Ascent {
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
    /// Most steps.
    pub(super) steps: usize,
    /// A step that gains less than this is the last.
    pub(super) tolerance: f64,
}

impl Ascent {
    /// Climbs from `start`. `objective` returns value and gradient, `None` outside its domain; a start outside it is
    /// returned as it is with value −∞, so that the caller can compare starts.
    pub(super) fn climb(
        &self,
        start: &[f64],
        mut objective: impl FnMut(&[f64]) -> Result<Option<(f64, Vec<f64>)>>,
    ) -> Result<Summit> {
        let mut at = self.clip(start);
        let Some((mut value, mut gradient)) = objective(&at)? else {
            return Ok(Summit { at, value: f64::NEG_INFINITY });
        };
        let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
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
            let gain = higher - value;
            (at, value, gradient) = (next, higher, new);
            if gain < self.tolerance {
                break;
            }
        }
        Ok(Summit { at, value })
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
    fn search(
        &self,
        at: &[f64],
        value: f64,
        gradient: &[f64],
        direction: &[f64],
        objective: &mut impl FnMut(&[f64]) -> Result<Option<(f64, Vec<f64>)>>,
    ) -> Result<Option<(Vec<f64>, f64, Vec<f64>)>> {
        let mut length = 1.0;
        for _ in 0..HALVINGS {
            let moved: Vec<f64> = at.iter().zip(direction).map(|(a, d)| a + length * d).collect();
            let next = self.clip(&moved);
            let promised: f64 = (0..at.len()).map(|i| gradient[i] * (next[i] - at[i])).sum();
            if let Some((higher, new)) = objective(&next)? {
                if higher >= value + SHARE * promised && higher > value {
                    return Ok(Some((next, higher, new)));
                }
            }
            length *= 0.5;
        }
        Ok(None)
    }
}

/// The quasi-Newton direction of ascent by the two-loop recursion, at most [`LONGEST`] in any coordinate.
fn direction(gradient: &[f64], pairs: &[(Vec<f64>, Vec<f64>)]) -> Option<Vec<f64>> {
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
    fn valley(p: &[f64]) -> Result<Option<(f64, Vec<f64>)>> {
        let (x, y) = (p[0], p[1]);
        let bend = y - x * x;
        Ok(Some((
            -(100.0 * bend * bend + (1.0 - x).powi(2)),
            vec![400.0 * bend * x + 2.0 * (1.0 - x), -200.0 * bend],
        )))
    }

    fn ascent(upper: f64) -> Ascent {
        Ascent { lower: vec![-3.0; 2], upper: vec![upper; 2], steps: 200, tolerance: 1e-14 }
    }

    #[test]
    fn climbs_a_curved_valley() {
        let summit = ascent(3.0).climb(&[-1.2, 1.0], valley).unwrap();
        assert!((summit.at[0] - 1.0).abs() < 1e-4 && (summit.at[1] - 1.0).abs() < 1e-4, "{summit:?}");
    }

    /// On the box x, y ≤ ½ the best point is x = ½, y = ¼.
    #[test]
    fn stays_in_its_box() {
        let summit = ascent(0.5).climb(&[-1.2, 1.0], valley).unwrap();
        assert!((summit.at[0] - 0.5).abs() < 1e-3 && (summit.at[1] - 0.25).abs() < 1e-3, "{summit:?}");
    }

    #[test]
    fn a_start_outside_the_domain_is_worth_nothing() {
        let summit = ascent(1.0).climb(&[0.0, 0.0], |_| Ok(None)).unwrap();
        assert_eq!(summit.value, f64::NEG_INFINITY);
    }
}
