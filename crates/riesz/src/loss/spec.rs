//! Losses by name.

use super::logistic::{log_sigmoid, sigmoid};
use super::softmax::softmax_in_place;
use super::{Hinge, Logistic, Loss, OneVersusRest, Softmax, Square, SquaredHinge};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The loss a user named, matched once per fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossSpec {
    /// [`Square`], for regression.
    Square,
    /// [`Logistic`], one versus rest for more than two classes.
    Logistic,
    /// [`Softmax`]; [`Logistic`] for two classes, the same model with half the outputs.
    Softmax,
    /// [`Hinge`], one versus rest for more than two classes.
    Hinge,
    /// [`SquaredHinge`], one versus rest for more than two classes.
    SquaredHinge,
}

/// `loss` itself for two classes, one versus rest for more.
fn by_classes<L: Loss + 'static>(loss: L, classes: usize) -> Box<dyn Loss> {
    match classes {
        2 => Box::new(loss),
        _ => Box::new(OneVersusRest { loss, classes }),
    }
}

impl LossSpec {
    /// Every loss.
    pub const ALL: [Self; 5] = [Self::Square, Self::Logistic, Self::Softmax, Self::Hinge, Self::SquaredHinge];

    /// The name users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Square => "square",
            Self::Logistic => "logistic",
            Self::Softmax => "softmax",
            Self::Hinge => "hinge",
            Self::SquaredHinge => "squared_hinge",
        }
    }

    /// Whether targets are classes rather than numbers.
    pub fn is_classification(self) -> bool {
        self != Self::Square
    }

    /// Outputs of the loss [`LossSpec::build`] makes: one for two classes, else their number.
    pub fn outputs(self, outputs: usize) -> usize {
        match outputs {
            2 if self.is_classification() => 1,
            _ => outputs,
        }
    }

    /// The loss for `outputs` regression targets (at least one) or classes (at least two).
    pub fn build(self, outputs: usize) -> Result<Box<dyn Loss>> {
        let (name, fewest, range) = match self.is_classification() {
            true => ("number of classes", 2, "[2, inf)"),
            false => ("number of targets", 1, "[1, inf)"),
        };
        if outputs < fewest {
            return Err(Error::OutOfRange { name, value: outputs as f64, range });
        }
        Ok(match self {
            Self::Square => Box::new(Square { outputs }),
            Self::Softmax if outputs > 2 => Box::new(Softmax { classes: outputs }),
            Self::Logistic | Self::Softmax => by_classes(Logistic, outputs),
            Self::Hinge => by_classes(Hinge, outputs),
            Self::SquaredHinge => by_classes(SquaredHinge, outputs),
        })
    }

    /// The target of class `label` out of `classes`: −1 or +1 for labels 0 and 1 where one output decides
    /// between two classes, otherwise the label itself (exact below 2²⁴).
    pub fn encode(self, classes: usize, label: usize) -> f32 {
        match label {
            0 if classes == 2 && self.is_classification() => -1.0,
            _ => label as f32,
        }
    }

    /// Class probabilities of one row of outputs u, written to `out` (one number per class):
    /// (σ(−u), σ(u)) for one output, softmax(u), or for one versus rest σ(u_c) / Σ σ(u).
    ///
    /// `None`, with `out` untouched, where the outputs determine no probabilities: margin losses (calibrate
    /// them instead) and regression.
    #[must_use]
    pub fn probabilities(self, u: &[f32], out: &mut [f32]) -> Option<()> {
        match (self, u) {
            (Self::Square | Self::Hinge | Self::SquaredHinge, _) => return None,
            (_, &[u]) => out.copy_from_slice(&[sigmoid(-u), sigmoid(u)]),
            (Self::Softmax, u) => {
                out.copy_from_slice(u);
                softmax_in_place(out, 1.0);
            }
            (Self::Logistic, u) => normalized_sigmoids(u, out),
        }
        Some(())
    }
}

/// σ(u_c) / Σ σ(u), as the softmax of log σ so that very negative rows do not become 0/0.
fn normalized_sigmoids(u: &[f32], out: &mut [f32]) {
    for (p, &u) in out.iter_mut().zip(u) {
        *p = log_sigmoid(u);
    }
    softmax_in_place(out, 1.0);
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LossSpec {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|spec| spec.name() == name).ok_or_else(|| Error::Unknown {
            name: "loss",
            value: name.to_owned(),
            expected: "square, logistic, softmax, hinge, squared_hinge",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_through_text_and_serde() {
        for spec in LossSpec::ALL {
            assert_eq!(spec.to_string().parse::<LossSpec>().unwrap(), spec);
            assert_eq!(serde_json::to_string(&spec).unwrap(), format!("{:?}", spec.name()));
            assert_eq!(serde_json::from_str::<LossSpec>(&format!("{:?}", spec.name())).unwrap(), spec);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for name in ["", "Hinge", "hinge ", "squared-hinge", "crossentropy"] {
            let error = name.parse::<LossSpec>().unwrap_err();
            let Error::Unknown { name: "loss", value, expected } = error else { panic!("{error}") };
            assert_eq!(value, name);
            assert_eq!(expected, LossSpec::ALL.map(LossSpec::name).join(", "));
        }
    }

    #[test]
    fn two_classes_need_one_output_and_more_need_one_each() {
        for spec in LossSpec::ALL.into_iter().filter(|spec| spec.is_classification()) {
            for classes in [2, 3, 7] {
                let loss = spec.build(classes).unwrap();
                assert_eq!(loss.outputs(), spec.outputs(classes));
                assert_eq!(loss.outputs(), if classes == 2 { 1 } else { classes });
                assert_eq!(loss.targets(), 1);
                let expected =
                    if (spec, classes) == (LossSpec::Softmax, 2) { "logistic" } else { spec.name() };
                assert_eq!(loss.name(), expected);
            }
            assert_eq!([0, 1].map(|label| spec.encode(2, label)), [-1.0, 1.0]);
            assert_eq!([0, 1, 2].map(|label| spec.encode(3, label)), [0.0, 1.0, 2.0]);
        }
        let loss = LossSpec::Square.build(2).unwrap();
        assert_eq!((loss.outputs(), loss.targets(), loss.name()), (2, 2, "square"));
    }

    #[test]
    fn too_few_outputs_are_refused() {
        for (spec, outputs) in LossSpec::ALL.map(|spec| (spec, usize::from(spec.is_classification()))) {
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
        for spec in [LossSpec::Square, LossSpec::Hinge, LossSpec::SquaredHinge] {
            assert!(spec.probabilities(&[1.0], &mut [0.0; 2]).is_none());
        }
    }
}
