//! Losses by name: the table, and what follows from it.

use super::Loss;
use crate::error::{in_range, Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::slice::from_ref;
use std::str::FromStr;

/// What a loss is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Targets {
    Numbers,
    Classes,
}

/// What follows the name of a loss: one number, or a list with an output for each of its members.
trait Parameter: Sized {
    const LIST: bool;
    fn read(values: &[f64]) -> Option<Self>;
    fn values(&self) -> &[f64];
}

impl Parameter for f64 {
    const LIST: bool = false;
    fn read(values: &[f64]) -> Option<Self> {
        match values {
            [value] => Some(*value),
            _ => None,
        }
    }
    fn values(&self) -> &[f64] {
        from_ref(self)
    }
}

impl Parameter for Vec<f64> {
    const LIST: bool = true;
    fn read(values: &[f64]) -> Option<Self> {
        Some(values.to_vec())
    }
    fn values(&self) -> &[f64] {
        self
    }
}

/// The first name, and each other after a comma.
macro_rules! listed {
    ($first:literal $($other:literal)*) => { concat!($first $(, ", ", $other)*) };
}

/// One line per loss: its name, its type with the parameter and its default, what it is for, and the file whose function
/// `build` makes it.
macro_rules! table {
    ($($name:literal $Loss:ident $({ $parameter:ident: $Type:ty = $default:expr })? $targets:ident $file:ident;)*) => {
        /// The losses that have a name, for use without their path.
        pub mod named {
            $(pub use super::super::$file::$Loss;)*
        }

        /// The loss a user named. Lengths (δ, ε) are in the units of the targets.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum LossSpec {
            $(
                #[doc = concat!("[`", stringify!($Loss), "`](super::", stringify!($Loss), ").")]
                #[serde(rename = $name)]
                $Loss $({
                    #[doc = concat!("See [`", stringify!($Loss), "`](super::", stringify!($Loss), ").")]
                    $parameter: $Type,
                })?,
            )*
        }

        impl LossSpec {
            /// The names users type.
            pub const NAMES: &'static str = listed!($($name)*);

            /// Names, what the losses are for, and their parameters.
            const TABLE: &'static [(&'static str, Targets, Option<&'static str>)] =
                &[$(($name, Targets::$targets, [$(Some(stringify!($parameter)),)? None][0])),*];

            /// The row of the table, the values of the parameter, and whether these are a list.
            fn entry(&self) -> (usize, &[f64], bool) {
                #[allow(clippy::enum_variant_names)]
                enum Row { $($Loss),* }
                match self {
                    $(Self::$Loss $({ $parameter })? => {
                        let parameter: (&[f64], bool) =
                            [$(($parameter.values(), <$Type>::LIST),)? (&[][..], false)][0];
                        (Row::$Loss as usize, parameter.0, parameter.1)
                    })*
                }
            }

            /// The loss of this name, with its parameter as given or by default.
            fn read(name: &str, given: Option<&[f64]>) -> Option<Self> {
                match name {
                    _ if given.is_some() && Self::parameter(name).is_none() => None,
                    $($name => Some(Self::$Loss $({
                        $parameter: given.map_or(Some($default), <$Type>::read)?,
                    })?),)*
                    _ => None,
                }
            }

            /// The loss for targets that were divided by `units`, one for each target; for classes their number counts.
            fn make(&self, units: &[f64]) -> Result<Box<dyn Loss>> {
                match self {
                    $(Self::$Loss $({ $parameter })? => super::$file::build(units $(, $parameter)?),)*
                }
            }
        }
    };
}

table! {
    "square"              Square                                               Numbers square;
    "huber"               Huber { delta: f64 = 1.35 }                          Numbers huber;
    "epsilon_insensitive" EpsilonInsensitive { epsilon: f64 = 0.1 }            Numbers epsilon_insensitive;
    "absolute"            Absolute                                             Numbers absolute;
    "quantile"            Quantile { levels: Vec<f64> = vec![0.05, 0.5, 0.95] } Numbers quantile;
    "log_cosh"            LogCosh { delta: f64 = 1.35 }                        Numbers log_cosh;
    "poisson"             Poisson                                              Numbers poisson;
    "logistic"            Logistic                                             Classes logistic;
    "softmax"             Softmax                                              Classes softmax;
    "hinge"               Hinge                                                Classes hinge;
    "squared_hinge"       SquaredHinge                                         Classes squared_hinge;
    "least_squares"       LeastSquares                                         Classes least_squares;
    "crammer_singer"      CrammerSinger                                        Classes crammer_singer;
}

impl LossSpec {
    /// The name users type.
    pub fn name(&self) -> &'static str {
        Self::TABLE[self.entry().0].0
    }

    /// The names of the losses of regression, or of classification.
    pub fn names(classification: bool) -> impl Iterator<Item = &'static str> {
        let wanted =
            move |(_, targets, _): &&(_, Targets, _)| (*targets == Targets::Classes) == classification;
        Self::TABLE.iter().filter(wanted).map(|(name, ..)| *name)
    }

    /// The name of the parameter of the loss called `name`, where it has one.
    pub fn parameter(name: &str) -> Option<&'static str> {
        Self::TABLE.iter().find(|(known, ..)| *known == name).and_then(|(.., parameter)| *parameter)
    }

    /// The loss called `name`, with its parameter as given or by default.
    pub fn new(name: &str, given: Option<&[f64]>) -> Result<Self> {
        let spec = Self::read(name, given).ok_or_else(|| unknown(name))?;
        spec.check()?;
        Ok(spec)
    }

    /// Whether targets are classes rather than numbers.
    pub fn is_classification(&self) -> bool {
        Self::TABLE[self.entry().0].1 == Targets::Classes
    }

    /// Whether the loss has an output for each member of a list, all for one target.
    pub fn is_list(&self) -> bool {
        self.entry().2
    }

    fn values(&self) -> &[f64] {
        self.entry().1
    }

    /// Refuses parameters outside their domain.
    pub fn check(&self) -> Result<()> {
        self.build(if self.is_classification() { 2 } else { 1 }).map(drop)
    }

    /// Refuses targets outside the domain of the loss by row: n×`per_row` numbers.
    pub fn check_targets(&self, targets: &[f32], per_row: usize) -> Result<()> {
        self.build(per_row)?.domain().check(self.name(), targets, per_row)
    }

    /// Outputs of the loss [`LossSpec::build`] makes: one for two classes, else their number; one per member of a list.
    pub fn outputs(&self, outputs: usize) -> usize {
        match outputs {
            _ if self.is_list() => self.values().len(),
            2 if self.is_classification() => 1,
            _ => outputs,
        }
    }

    /// The loss for `outputs` regression targets (at least one) or classes (at least two).
    pub fn build(&self, outputs: usize) -> Result<Box<dyn Loss>> {
        self.build_in(&vec![1.0; outputs])
    }

    /// The loss for targets that were divided by `units`, one for each target; for classes their number counts.
    pub fn build_in(&self, units: &[f64]) -> Result<Box<dyn Loss>> {
        let (name, fewest, range) = match self.is_classification() {
            true => ("number of classes", 2, "[2, inf)"),
            false => ("number of targets", 1, "[1, inf)"),
        };
        in_range(name, units.len() as f64, units.len() >= fewest, range)?;
        self.make(units)
    }

    /// The target of class `label` out of `classes`: −1 or +1 for labels 0 and 1 where one output decides
    /// between two classes, otherwise the label itself (exact below 2²⁴).
    pub fn encode(&self, classes: usize, label: usize) -> f32 {
        match label {
            0 if classes == 2 && self.is_classification() => -1.0,
            _ => label as f32,
        }
    }
}

/// The name, and where there are parameters `=` and their values: what [`LossSpec::from_str`] reads.
impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values().iter().map(f64::to_string).collect();
        match &values[..] {
            [] => f.pad(self.name()),
            values => f.pad(&format!("{}={}", self.name(), values.join(","))),
        }
    }
}

impl FromStr for LossSpec {
    type Err = Error;

    /// A name, with parameters after `=` where there are any: `huber=2`, `quantile=0.1,0.9`.
    fn from_str(text: &str) -> Result<Self> {
        let Some((name, values)) = text.split_once('=') else { return Self::new(text, None) };
        let numbers = values.split(',').map(|number| number.trim().parse().ok());
        let given: Vec<f64> = numbers.collect::<Option<_>>().ok_or_else(|| unknown(text))?;
        Self::new(name, Some(&given)).map_err(|error| match error {
            Error::Unknown { .. } => unknown(text),
            other => other,
        })
    }
}

fn unknown(text: &str) -> Error {
    Error::Unknown { name: "loss", value: text.to_owned(), expected: LossSpec::NAMES }
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
        let predict = |loss: &str, u: &mut [f32; 3]| {
            loss.parse::<LossSpec>().unwrap().build(3).unwrap().predict(u);
        };
        predict("square", &mut u);
        assert_eq!(u, [2.0, -1.0, 0.5]);
        predict("quantile", &mut u);
        assert_eq!(u, [-1.0, 0.5, 2.0]);
        predict("poisson", &mut u);
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
            loss.probabilities().unwrap()(u, &mut p);
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
            spec.build(3).unwrap().probabilities().unwrap()(u, &mut p);
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-15, "{spec} {u:?} {p:?}");
            assert!(p.iter().all(|p| (0.0..=1.0).contains(p)));
        }
        let mut p = [0.0; 2];
        LossSpec::Softmax.build(2).unwrap().probabilities().unwrap()(&[2.0], &mut p);
        assert!((p[1] - 0.880_797).abs() < 1e-6 && (p[0] + p[1] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn margins_are_not_probabilities() {
        for spec in [LossSpec::Square, LossSpec::Hinge, LossSpec::SquaredHinge, LossSpec::CrammerSinger] {
            assert!(spec.build(2).unwrap().probabilities().is_none());
        }
    }
}
