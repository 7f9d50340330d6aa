//! Losses by name.

use super::exponential::slope;
use super::logistic::{log_sigmoid, sigmoid};
use super::softmax::softmax_in_place;
use super::{
    Absolute, CrammerSinger, EpsilonInsensitive, Hinge, Huber, Logistic, Loss, Poisson, Quantile, Separable,
    Softmax, Square, SquaredHinge,
};
use crate::error::{non_negative, positive, Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The loss a user named, matched once per fit. Lengths (δ, ε) are in the units of the targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossSpec {
    /// [`Square`], for regression.
    Square,
    /// [`Huber`], for regression.
    Huber {
        /// δ > 0, from where on residuals count in proportion.
        delta: f64,
    },
    /// [`EpsilonInsensitive`], for regression.
    EpsilonInsensitive {
        /// ε ≥ 0, half the width of the tube that costs nothing.
        epsilon: f64,
    },
    /// [`Absolute`], for regression.
    Absolute,
    /// [`Quantile`], for regression: one target, an output per level.
    Quantile {
        /// Levels τ between 0 and 1, increasing.
        levels: Vec<f64>,
    },
    /// [`Poisson`], for counts and rates: the mean is e^u.
    Poisson,
    /// [`Logistic`], one versus rest for more than two classes.
    Logistic,
    /// [`Softmax`]; [`Logistic`] for two classes, the same model with half the outputs.
    Softmax,
    /// [`Hinge`], one versus rest for more than two classes.
    Hinge,
    /// [`SquaredHinge`], one versus rest for more than two classes.
    SquaredHinge,
    /// [`CrammerSinger`]; [`Hinge`] for two classes, the same model with half the outputs.
    CrammerSinger,
}

/// δ unless given: with normal noise of standard deviation one, 95 % as efficient as least squares.
const DELTA: f64 = 1.35;
/// ε unless given.
const EPSILON: f64 = 0.1;
/// Levels unless given: nine tenths of the distribution, and its middle.
const LEVELS: [f64; 3] = [0.05, 0.5, 0.95];

/// `loss` itself for two classes, one versus rest for more.
fn by_classes<L: Loss + Clone + 'static>(loss: L, classes: usize) -> Box<dyn Loss> {
    match classes {
        2 => Box::new(loss),
        _ => Box::new(Separable::one_versus_rest(loss, classes)),
    }
}

/// The loss of a single target itself, one for each of several.
fn by_targets<L: Loss + Clone + 'static>(losses: Vec<L>) -> Box<dyn Loss> {
    if let [loss] = &losses[..] {
        return Box::new(loss.clone());
    }
    Box::new(Separable::each(losses))
}

impl LossSpec {
    /// The names users type.
    pub const NAMES: &'static str = "square, huber, epsilon_insensitive, absolute, quantile, poisson, \
                                     logistic, softmax, hinge, squared_hinge, crammer_singer";

    /// The name users type.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Square => "square",
            Self::Huber { .. } => "huber",
            Self::EpsilonInsensitive { .. } => "epsilon_insensitive",
            Self::Absolute => "absolute",
            Self::Quantile { .. } => "quantile",
            Self::Poisson => "poisson",
            Self::Logistic => "logistic",
            Self::Softmax => "softmax",
            Self::Hinge => "hinge",
            Self::SquaredHinge => "squared_hinge",
            Self::CrammerSinger => "crammer_singer",
        }
    }

    /// Whether targets are classes rather than numbers.
    pub fn is_classification(&self) -> bool {
        match self {
            Self::Square | Self::Absolute | Self::Poisson => false,
            Self::Huber { .. } | Self::EpsilonInsensitive { .. } | Self::Quantile { .. } => false,
            Self::Logistic | Self::Softmax | Self::Hinge | Self::SquaredHinge | Self::CrammerSinger => true,
        }
    }

    /// Whether the loss is one of regression that grows in proportion to large residuals, not to their square.
    pub fn is_linear(&self) -> bool {
        !self.is_classification() && !matches!(self, Self::Square | Self::Poisson)
    }

    /// Whether outputs are margins, not log-odds: they become probabilities by calibration.
    pub fn is_margin(&self) -> bool {
        matches!(self, Self::Hinge | Self::SquaredHinge | Self::CrammerSinger)
    }

    /// Refuses parameters outside their domain.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Huber { delta } => positive("delta", *delta).map(|_| ()),
            Self::EpsilonInsensitive { epsilon } => non_negative("epsilon", *epsilon).map(|_| ()),
            Self::Quantile { levels } => check_levels(levels),
            _ => Ok(()),
        }
    }

    /// Refuses targets outside the domain of the loss by row: n×`per_row` numbers.
    pub fn check_targets(&self, targets: &[f32], per_row: usize) -> Result<()> {
        let (Self::Poisson, Some(i)) = (self, targets.iter().position(|&y| y < 0.0)) else { return Ok(()) };
        let (loss, value, row) = (self.name(), f64::from(targets[i]), i / per_row.max(1));
        Err(Error::Target { loss, value, row, expected: "counts and rates are not negative" })
    }

    /// Outputs of the loss [`LossSpec::build`] makes: one for two classes, else their number; one per level.
    pub fn outputs(&self, outputs: usize) -> usize {
        match self {
            Self::Quantile { levels } => levels.len(),
            _ if outputs == 2 && self.is_classification() => 1,
            _ => outputs,
        }
    }

    /// The loss for `outputs` regression targets (at least one) or classes (at least two).
    pub fn build(&self, outputs: usize) -> Result<Box<dyn Loss>> {
        self.build_in(&vec![1.0; outputs])
    }

    /// The loss for targets that were divided by `units`, one for each target; for classes their number counts.
    pub fn build_in(&self, units: &[f64]) -> Result<Box<dyn Loss>> {
        let outputs = units.len();
        let (name, fewest, range) = match self.is_classification() {
            true => ("number of classes", 2, "[2, inf)"),
            false => ("number of targets", 1, "[1, inf)"),
        };
        if outputs < fewest {
            return Err(Error::OutOfRange { name, value: outputs as f64, range });
        }
        self.check()?;
        let in_units = |length: f64| units.iter().map(move |unit| (length / unit) as f32);
        Ok(match self {
            Self::Square => Box::new(Square { outputs }),
            // A length that leaves single precision is as good as the smallest that does not.
            Self::Huber { delta } => {
                let part = |delta: f32| Huber::scaled(delta.max(f32::MIN_POSITIVE));
                by_targets(in_units(*delta).map(part).collect())
            }
            Self::EpsilonInsensitive { epsilon } => {
                by_targets(in_units(*epsilon).map(|epsilon| EpsilonInsensitive { epsilon }).collect())
            }
            Self::Absolute => by_targets(vec![Absolute; outputs]),
            Self::Quantile { levels } => {
                let part = |&level: &f64| Quantile { level: level as f32 };
                Box::new(Separable::shared(levels.iter().map(part).collect()))
            }
            Self::Poisson => by_targets(vec![Poisson; outputs]),
            Self::Softmax if outputs > 2 => Box::new(Softmax { classes: outputs }),
            Self::Logistic | Self::Softmax => by_classes(Logistic, outputs),
            Self::CrammerSinger if outputs > 2 => Box::new(CrammerSinger { classes: outputs }),
            Self::Hinge | Self::CrammerSinger => by_classes(Hinge, outputs),
            Self::SquaredHinge => by_classes(SquaredHinge, outputs),
        })
    }

    /// The target of class `label` out of `classes`: −1 or +1 for labels 0 and 1 where one output decides
    /// between two classes, otherwise the label itself (exact below 2²⁴).
    pub fn encode(&self, classes: usize, label: usize) -> f32 {
        match label {
            0 if classes == 2 && self.is_classification() => -1.0,
            _ => label as f32,
        }
    }

    /// From a row of outputs u to predictions in the units of the targets, in place: the mean e^u for Poisson, and for
    /// quantiles u in increasing order. Such a rearrangement is never farther from the true quantiles (Chernozhukov,
    /// Fernández-Val and Galichon 2010).
    pub fn predict(&self, u: &mut [f32]) {
        match self {
            Self::Poisson => u.iter_mut().for_each(|u| *u = slope(*u)),
            Self::Quantile { .. } => u.sort_by(f32::total_cmp),
            _ => {}
        }
    }

    /// Class probabilities of one row of outputs u, written to `out` (one number per class):
    /// (σ(−u), σ(u)) for one output, softmax(u), or for one versus rest σ(u_c) / Σ σ(u).
    ///
    /// `None`, with `out` untouched, where the outputs determine no probabilities: margin losses (calibrate
    /// them instead) and regression.
    #[must_use]
    pub fn probabilities(&self, u: &[f32], out: &mut [f32]) -> Option<()> {
        match (self, u) {
            _ if self.is_margin() || !self.is_classification() => return None,
            (_, &[u]) => out.copy_from_slice(&[sigmoid(-u), sigmoid(u)]),
            (Self::Logistic, u) => normalized_sigmoids(u, out),
            (_, u) => {
                out.copy_from_slice(u);
                softmax_in_place(out, 1.0);
            }
        }
        Some(())
    }
}

/// Levels increase strictly from above 0 to below 1, also in single precision, and there is at least one.
fn check_levels(levels: &[f64]) -> Result<()> {
    if levels.is_empty() {
        return Err(Error::Empty { what: "quantiles", needed: "one level" });
    }
    let mut last = 0.0;
    for &level in levels {
        let single = level as f32;
        if !(single > 0.0 && single < 1.0) {
            let range = "(0, 1); divide percentages by 100";
            return Err(Error::OutOfRange { name: "quantiles", value: level, range });
        }
        if single <= last {
            return Err(Error::Conflict(format!("quantiles should increase, but {level} follows {last}")));
        }
        last = single;
    }
    Ok(())
}

/// σ(u_c) / Σ σ(u), as the softmax of log σ so that very negative rows do not become 0/0.
fn normalized_sigmoids(u: &[f32], out: &mut [f32]) {
    for (p, &u) in out.iter_mut().zip(u) {
        *p = log_sigmoid(u);
    }
    softmax_in_place(out, 1.0);
}

/// The name, and where there are parameters `=` and their values: what [`LossSpec::from_str`] reads.
impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Huber { delta } => f.pad(&format!("huber={delta}")),
            Self::EpsilonInsensitive { epsilon } => f.pad(&format!("epsilon_insensitive={epsilon}")),
            Self::Quantile { levels } => {
                let levels: Vec<String> = levels.iter().map(f64::to_string).collect();
                f.pad(&format!("quantile={}", levels.join(",")))
            }
            _ => f.pad(self.name()),
        }
    }
}

/// Numbers separated by commas; `None` for anything else.
fn numbers(text: &str) -> Option<Vec<f64>> {
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

impl FromStr for LossSpec {
    type Err = Error;

    /// A name, with parameters after `=` where there are any: `huber=2`, `quantile=0.1,0.9`.
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::Unknown { name: "loss", value: text.to_owned(), expected: Self::NAMES };
        let (name, given) = match text.split_once('=') {
            Some((name, values)) => (name, Some(numbers(values).ok_or_else(unknown)?)),
            None => (text, None),
        };
        let spec = match (name, given.as_deref()) {
            ("huber", None) => Self::Huber { delta: DELTA },
            ("huber", Some(&[delta])) => Self::Huber { delta },
            ("epsilon_insensitive", None) => Self::EpsilonInsensitive { epsilon: EPSILON },
            ("epsilon_insensitive", Some(&[epsilon])) => Self::EpsilonInsensitive { epsilon },
            ("quantile", None) => Self::Quantile { levels: LEVELS.to_vec() },
            ("quantile", Some(levels)) => Self::Quantile { levels: levels.to_vec() },
            ("square", None) => Self::Square,
            ("absolute", None) => Self::Absolute,
            ("poisson", None) => Self::Poisson,
            ("logistic", None) => Self::Logistic,
            ("softmax", None) => Self::Softmax,
            ("hinge", None) => Self::Hinge,
            ("squared_hinge", None) => Self::SquaredHinge,
            ("crammer_singer", None) => Self::CrammerSinger,
            _ => return Err(unknown()),
        };
        spec.check()?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<LossSpec> {
        LossSpec::NAMES.split(", ").map(|name| name.parse().unwrap()).collect()
    }

    fn classifiers() -> impl Iterator<Item = LossSpec> {
        all().into_iter().filter(LossSpec::is_classification)
    }

    #[test]
    fn names_round_trip_through_text_and_serde() {
        for (spec, name) in all().into_iter().zip(LossSpec::NAMES.split(", ")) {
            assert_eq!(spec.name(), name);
            assert_eq!(spec.to_string().parse::<LossSpec>().unwrap(), spec);
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<LossSpec>(&text).unwrap(), spec);
            assert!(text.starts_with(&format!("{name:?}")) || text.starts_with(&format!("{{{name:?}:")));
        }
        let spec: LossSpec = "quantile=0.1, 0.9".parse().unwrap();
        assert_eq!(spec, LossSpec::Quantile { levels: vec![0.1, 0.9] });
        assert_eq!(serde_json::to_string(&spec).unwrap(), r#"{"quantile":{"levels":[0.1,0.9]}}"#);
    }

    /// What earlier models have in their header.
    #[test]
    fn bare_names_are_read() {
        for name in ["square", "logistic", "softmax", "hinge", "squared_hinge"] {
            assert_eq!(serde_json::from_str::<LossSpec>(&format!("{name:?}")).unwrap().name(), name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let names =
            ["", "Hinge", "hinge ", "squared-hinge", "crossentropy", "hinge=1", "huber=wide", "huber=1,2"];
        for name in names {
            let error = name.parse::<LossSpec>().unwrap_err();
            let Error::Unknown { name: "loss", value, expected } = error else { panic!("{error}") };
            assert_eq!((value.as_str(), expected), (name, LossSpec::NAMES));
        }
    }

    #[test]
    fn parameters_outside_their_domain_are_refused_by_name() {
        for (text, name) in [
            ("huber=0", "delta"),
            ("huber=nan", "delta"),
            ("epsilon_insensitive=-1", "epsilon"),
            ("quantile=0", "quantiles"),
            ("quantile=0.5,1", "quantiles"),
            ("quantile=0.5,0.5", "quantiles"),
            ("quantile=0.9,0.1", "quantiles"),
            ("quantile=nan", "quantiles"),
        ] {
            assert!(text.parse::<LossSpec>().unwrap_err().to_string().contains(name), "{text}");
        }
        assert!(LossSpec::Quantile { levels: Vec::new() }.build(1).is_err());
    }

    /// A length δ among targets y is δ/unit among targets y/unit: the loss of a residual is the same but for a factor.
    #[test]
    fn lengths_follow_the_units_of_each_target() {
        let spec = LossSpec::Huber { delta: 3.0 };
        let (plain, scaled) = (spec.build(2).unwrap(), spec.build_in(&[2.5, 0.5]).unwrap());
        for r in [1.0f32, 2.9, 3.1, 20.0] {
            for (k, unit) in [(0, 2.5f32), (1, 0.5)] {
                let at = |size: f32| [0, 1].map(|c| if c == k { size } else { 0.0 });
                let value = scaled.value(&at(r / unit), &[0.0; 2]) * f64::from(unit * unit);
                assert!((value - plain.value(&at(r), &[0.0; 2])).abs() < 1e-4, "{r} in {unit}");
            }
        }
        let tube = LossSpec::EpsilonInsensitive { epsilon: 1.0 }.build_in(&[4.0]).unwrap();
        assert_eq!((tube.value(&[0.25], &[0.0]), tube.value(&[1.25], &[0.0])), (0.0, 1.0));
    }

    #[test]
    fn predictions_are_in_the_units_of_the_targets() {
        let mut u = [2.0, -1.0, 0.5];
        LossSpec::Square.predict(&mut u);
        assert_eq!(u, [2.0, -1.0, 0.5]);
        "quantile".parse::<LossSpec>().unwrap().predict(&mut u);
        assert_eq!(u, [-1.0, 0.5, 2.0]);
        LossSpec::Poisson.predict(&mut u);
        assert!(u.iter().zip([-1.0f32, 0.5, 2.0]).all(|(e, u)| (e - u.exp()).abs() < 1e-6 * e));
    }

    #[test]
    fn negative_counts_are_refused_by_row() {
        let error = LossSpec::Poisson.check_targets(&[0.0, 1.0, 2.5, -1.0], 2).unwrap_err();
        assert!(matches!(error, Error::Target { row: 1, value: -1.0, .. }), "{error}");
        assert!(LossSpec::Square.check_targets(&[-1.0], 1).is_ok());
    }

    #[test]
    fn two_classes_need_one_output_and_more_need_one_each() {
        for spec in classifiers() {
            for classes in [2, 3, 7] {
                let loss = spec.build(classes).unwrap();
                assert_eq!(loss.outputs(), spec.outputs(classes));
                assert_eq!(loss.outputs(), if classes == 2 { 1 } else { classes });
                assert_eq!(loss.targets(), 1);
                let expected = match (&spec, classes) {
                    (LossSpec::Softmax, 2) => "logistic",
                    (LossSpec::CrammerSinger, 2) => "hinge",
                    _ => spec.name(),
                };
                assert_eq!(loss.name(), expected);
            }
            assert_eq!([0, 1].map(|label| spec.encode(2, label)), [-1.0, 1.0]);
            assert_eq!([0, 1, 2].map(|label| spec.encode(3, label)), [0.0, 1.0, 2.0]);
        }
    }

    #[test]
    fn numbers_need_one_output_each_and_quantiles_one_per_level() {
        for spec in all().into_iter().filter(|spec| !spec.is_classification()) {
            let shape = match spec {
                LossSpec::Quantile { .. } => (3, 1),
                _ => (2, 2),
            };
            let loss = spec.build(2).unwrap();
            assert_eq!((loss.outputs(), loss.targets(), loss.name()), (shape.0, shape.1, spec.name()));
            assert_eq!(spec.outputs(2), shape.0);
        }
    }

    #[test]
    fn too_few_outputs_are_refused() {
        for spec in all() {
            let outputs = usize::from(spec.is_classification());
            assert!(matches!(spec.build(outputs), Err(Error::OutOfRange { .. })), "{spec}");
        }
    }

    #[test]
    fn the_likeliest_class_is_the_one_with_the_smallest_loss() {
        for (spec, classes) in [(LossSpec::Logistic, 2), (LossSpec::Logistic, 4), (LossSpec::Softmax, 4)] {
            let (loss, u) = (spec.build(classes).unwrap(), [1.5, -0.5, 2.5, 0.0]);
            let (u, mut p) = (&u[..loss.outputs()], vec![0.0; classes]);
            spec.probabilities(u, &mut p).unwrap();
            let value = |label| loss.value(u, &[spec.encode(classes, label)]);
            let order = |a: &usize, b: &usize| p[*a].total_cmp(&p[*b]);
            let reverse = |a: &usize, b: &usize| value(*b).total_cmp(&value(*a));
            assert_eq!((0..classes).max_by(order), (0..classes).max_by(reverse), "{spec}");
        }
    }

    #[test]
    fn probabilities_are_on_the_simplex_even_far_out() {
        let rows: [&[f32]; 4] =
            [&[-200.0, -201.0, -200.0], &[300.0; 3], &[80.0, -80.0, 0.0], &[0.5, 0.1, 2.0]];
        for (spec, u) in rows.into_iter().flat_map(|u| [(LossSpec::Logistic, u), (LossSpec::Softmax, u)]) {
            let mut p = [0.0; 3];
            spec.probabilities(u, &mut p).unwrap();
            assert!((p.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{spec} {u:?} {p:?}");
            assert!(p.iter().all(|p| (0.0..=1.0).contains(p)));
        }
        let mut p = [0.0; 2];
        LossSpec::Softmax.probabilities(&[2.0], &mut p).unwrap();
        assert!((p[1] - 0.880_797).abs() < 1e-6 && (p[0] + p[1] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn sigmoids_are_normalized() {
        let (u, mut p) = ([0.5, -1.0, 2.0], [0.0; 3]);
        LossSpec::Logistic.probabilities(&u, &mut p).unwrap();
        let sum: f32 = u.iter().map(|&u| sigmoid(u)).sum();
        assert!(u.iter().zip(p).all(|(&u, p)| (sigmoid(u) / sum - p).abs() < 1e-6));
    }

    #[test]
    fn margins_are_not_probabilities() {
        for spec in [LossSpec::Square, LossSpec::Hinge, LossSpec::SquaredHinge, LossSpec::CrammerSinger] {
            assert!(spec.probabilities(&[1.0], &mut [0.0; 2]).is_none());
        }
    }
}
