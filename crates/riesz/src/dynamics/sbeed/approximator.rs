//! Functions f_θ of states: linear in features, or networks.

use crate::data::Rows;
use crate::error::{Error, Result};
use crate::kernel::Scaling;
use crate::linalg::Cholesky;
use crate::model::Container;
use crate::solver::{solve, FeatureMatrix};
use crate::space::{Basis, Function, Linear, Network, NetworkParts, Space, Terms};
use std::borrow::Cow;

/// A function f_θ with C outputs, with what is needed to move along its parameters: values, changes J d of the values along a
/// direction d of θ, and sums Jᵀw, where J is the derivative of the values by θ.
#[derive(Clone, Debug)]
pub enum Approximator {
    /// f = θᵀψ on a finite basis.
    Features(Linear),
    /// A network.
    Network(Network),
}

/// Rows at which a function is evaluated again and again, with its features there if it has any.
pub struct Inputs {
    rows: Vec<f32>,
    columns: usize,
    features: Option<FeatureMatrix>,
}

impl Inputs {
    /// The rows.
    pub fn rows(&self) -> Result<Rows<'_>> {
        Rows::single(&self.rows, self.columns)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len() / self.columns
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Features, where the function is linear in them.
    pub(super) fn features(&self) -> Option<&FeatureMatrix> {
        self.features.as_ref()
    }
}

impl Approximator {
    /// The function zero on a basis.
    pub fn zero(basis: Basis, outputs: usize) -> Self {
        Self::Features(Linear::new(basis, outputs))
    }

    /// d.
    pub fn columns(&self) -> usize {
        match self {
            Self::Features(f) => f.columns(),
            Self::Network(f) => f.columns(),
        }
    }

    /// C.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Features(f) => f.outputs(),
            Self::Network(f) => f.outputs(),
        }
    }

    /// Rows, row-major, prepared for this function.
    pub fn prepare(&self, rows: Vec<f32>) -> Result<Inputs> {
        let columns = self.columns();
        let features = match self {
            Self::Features(f) => Some(FeatureMatrix::of(f.basis(), Rows::single(&rows, columns)?)?),
            Self::Network(_) => None,
        };
        Ok(Inputs { rows, columns, features })
    }

    /// f(x) of prepared rows, n×C row-major.
    pub fn values(&self, inputs: &Inputs) -> Result<Vec<f64>> {
        match (self, &inputs.features) {
            (Self::Features(f), Some(phi)) => Ok(applied(phi, f.coefficients(), f.outputs())),
            (Self::Network(f), _) => {
                let mut out = vec![0.0_f32; inputs.len() * f.outputs()];
                f.evaluate(inputs.rows()?, &mut out)?;
                Ok(out.into_iter().map(f64::from).collect())
            }
            (Self::Features(_), None) => Err(unprepared()),
        }
    }

    /// J d, n×C.
    pub fn tangent(&self, inputs: &Inputs, direction: &[f64]) -> Result<Vec<f64>> {
        match (self, &inputs.features) {
            (Self::Features(f), Some(phi)) => Ok(applied(phi, direction, f.outputs())),
            (Self::Network(f), _) => {
                let direction: Vec<f32> = direction.iter().map(|&d| d as f32).collect();
                Ok(f.tangent(inputs.rows()?, &direction)?.into_iter().map(f64::from).collect())
            }
            (Self::Features(_), None) => Err(unprepared()),
        }
    }

    /// Jᵀw of n×C weights.
    pub fn adjoint(&self, inputs: &Inputs, weights: &[f64]) -> Result<Vec<f64>> {
        let single: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
        match (self, &inputs.features) {
            (Self::Features(f), Some(phi)) => Ok(phi.adjoint(&single, f.outputs())),
            (Self::Network(f), _) => f.gradient(&[Terms::new(inputs.rows()?, &single)]),
            (Self::Features(_), None) => Err(unprepared()),
        }
    }

    /// f_{θ + size·d}.
    pub fn moved(&self, size: f64, direction: &[f64]) -> Result<Self> {
        match self {
            Self::Features(f) => {
                let moved = f.coefficients().iter().zip(direction).map(|(a, d)| a + size * d).collect();
                Linear::with_coefficients(f.basis().clone(), moved).map(Self::Features)
            }
            Self::Network(f) => {
                let mut parts = f.parts();
                parts.parameters.iter_mut().zip(direction).for_each(|(a, d)| *a += (size * d) as f32);
                Network::from_parts(f.scaling().clone(), f.offset().to_vec(), parts).map(Self::Network)
            }
        }
    }

    /// Puts other coefficients in the place of those of a function that is linear in features.
    pub(super) fn replace(&mut self, coefficients: Vec<f64>) -> Result<()> {
        if let Self::Features(f) = self {
            *f = Linear::with_coefficients(f.basis().clone(), coefficients)?;
        }
        Ok(())
    }

    /// θ ← θ + the step of the space along Jᵀw, of one or several sets of rows: Adam's where it is a network.
    pub fn step(&mut self, size: f64, parts: &[(&Inputs, &[f64])]) -> Result<()> {
        let single = |weights: &[f64]| Cow::Owned(weights.iter().map(|&w| w as f32).collect::<Vec<_>>());
        let terms = parts
            .iter()
            .map(|(inputs, weights)| Ok(Terms { rows: inputs.rows()?, weights: single(weights) }));
        let terms: Vec<_> = terms.collect::<Result<_>>()?;
        match self {
            Self::Features(f) => f.step(size, 0.0, &terms),
            Self::Network(f) => f.step(size, 0.0, &terms),
        }
    }

    /// Adds the function to a container under `name`.
    pub(super) fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        match self {
            Self::Features(f) => {
                f.basis().store(container, name)?;
                container.insert(
                    &format!("{name}.coefficients"),
                    vec![f.coefficients().len()],
                    f.coefficients().to_vec(),
                )
            }
            Self::Network(f) => {
                let parts = f.parts();
                container.set_field(&format!("{name}.network"), &(&parts, f.columns(), f.outputs()))?;
                container.insert(
                    &format!("{name}.parameters"),
                    vec![parts.parameters.len()],
                    parts.parameters,
                )?;
                container.insert(&format!("{name}.moments"), vec![parts.moments.len()], parts.moments)
            }
        }
    }

    /// Takes out what [`Approximator::store`] added.
    pub(super) fn restore(container: &mut Container, name: &str) -> Result<Self> {
        let tensor = |part: &str| format!("{name}.{part}");
        let stored: Option<(NetworkParts, usize, usize)> = container.field(&tensor("network"))?;
        let Some((mut parts, columns, outputs)) = stored else {
            let basis = Basis::restore(container, name)?;
            let length = container.f64s(&tensor("coefficients"))?.1.len();
            let coefficients = container.take_f64s(&tensor("coefficients"), &[length])?;
            return Linear::with_coefficients(basis, coefficients).map(Self::Features);
        };
        let length = container.f32s(&tensor("parameters"))?.1.len();
        if columns.max(outputs) > length {
            return Err(Error::Format(format!("{length} parameters of a network of {columns} columns")));
        }
        parts.parameters = container.take_f32s(&tensor("parameters"), &[length])?;
        let length = container.f32s(&tensor("moments"))?.1.len();
        parts.moments = container.take_f32s(&tensor("moments"), &[length])?;
        Network::from_parts(Scaling::identity(columns), vec![0.0; outputs], parts).map(Self::Network)
    }
}

/// Φ A for the m×C row-major A.
fn applied(phi: &FeatureMatrix, a: &[f64], outputs: usize) -> Vec<f64> {
    let single: Vec<f32> = a.iter().map(|&a| a as f32).collect();
    phi.apply(&single, outputs).into_iter().map(f64::from).collect()
}

fn unprepared() -> Error {
    Error::Conflict("the rows were prepared for another function".into())
}

/// Ridge regressions on the same rows, whose matrix is factorised once: θ = (ΦᵀΦ/n + νI)⁻¹ Φᵀy/n.
pub(super) struct Regression {
    factor: Cholesky,
}

impl Regression {
    /// The system of the first `n` of some prepared rows.
    pub(super) fn new(phi: &FeatureMatrix, n: usize, ridge: f64) -> Result<Self> {
        Ok(Self { factor: phi.factor(n, ridge)? })
    }

    /// θ for the n×C targets, of as many columns as they have.
    pub(super) fn solve(&self, phi: &FeatureMatrix, targets: &[f64], outputs: usize) -> Vec<f64> {
        let n = (targets.len() / outputs) as f64;
        let single: Vec<f32> = targets.iter().map(|&y| y as f32).collect();
        let right: Vec<f64> = phi.adjoint(&single, outputs).iter().map(|sum| sum / n).collect();
        solve(&self.factor, &right, outputs)
    }
}
