//! What an online machine keeps: atoms at rows seen, or coefficients of random features.

use super::classes::Widening;
use super::features::DrawnFeatures;
use super::OnlineOptions;
use crate::data::Rows;
use crate::error::{non_negative, positive, Error, Result};
use crate::kernel::{ClosedForm, FeatureMap, Scaling};
use crate::model::Container;
use crate::space::{Budget, Dictionary, Drift, Function, Raw, Space, Terms};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What f is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Kernel atoms at rows seen ([`Dictionary`]), as many as the [`Budget`] allows.
    Dictionary(Budget),
    /// Coefficients of so many random features of the kernel, a multiple of 64: the memory is constant, no row is kept.
    Features(usize),
}

impl Memory {
    /// Most atoms unless the user says otherwise.
    pub const ATOMS: usize = 1_000;
    /// Features unless the user says otherwise.
    pub const FEATURES: usize = 1_024;

    /// At least `least` features.
    pub fn features(least: usize) -> Self {
        Self::Features(least.checked_next_multiple_of(64).unwrap_or(least))
    }

    /// Refuses a budget of nothing.
    pub(super) fn check(self) -> Result<()> {
        let most = match self {
            Self::Features(m) => m,
            Self::Dictionary(budget) => {
                if let Budget::Komp { error, .. } = budget {
                    non_negative("parsimony", error.value())?;
                }
                budget.most()
            }
        };
        positive("budget", most as f64).map(drop)
    }

    /// Whether atoms are removed by KOMP.
    pub(super) fn is_komp(self) -> bool {
        matches!(self, Self::Dictionary(Budget::Komp { .. }))
    }
}

/// A function that is learnt row by row.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Atoms(Box<Dictionary>),
    Features(Box<DrawnFeatures>),
}

/// Some rows as a [`Kept`] function looks at them.
pub(super) enum Looked<'a> {
    Rows(Rows<'a>),
    /// Their features, row-major.
    Features(Vec<f32>, usize),
}

impl Kept {
    /// The constant function `offset`.
    pub(super) fn new(
        options: &OnlineOptions,
        bandwidth: f64,
        scaling: Scaling,
        offset: Vec<f32>,
    ) -> Result<Self> {
        let kernel = options.kernel.clone();
        Ok(match options.memory {
            Memory::Dictionary(budget) => Self::Atoms(Box::new(Dictionary::new(
                ClosedForm::new(kernel, bandwidth, scaling)?,
                offset,
                budget,
            ))),
            Memory::Features(m) => {
                let map = FeatureMap::new(kernel, bandwidth, m, options.seed, scaling)?;
                Self::Features(Box::new(DrawnFeatures::new(map, offset)?))
            }
        })
    }

    pub(super) fn offset(&self) -> &[f32] {
        match self {
            Self::Atoms(f) => f.offset(),
            Self::Features(f) => &f.offset,
        }
    }

    fn scaling(&self) -> &Scaling {
        match self {
            Self::Atoms(f) => f.kernel().scaling(),
            Self::Features(f) => &f.map.scaling,
        }
    }

    /// Looks at some rows; what needs no function is done for all of them at once.
    pub(super) fn look<'a>(&self, rows: Rows<'a>) -> Result<Looked<'a>> {
        Ok(match self {
            Self::Atoms(_) => Looked::Rows(rows),
            Self::Features(f) => {
                let mut buffer = Vec::new();
                Looked::Features(f.features(rows.tile(0..rows.len(), &mut buffer))?, f.map.block_size)
            }
        })
    }

    /// f at row `i`.
    pub(super) fn values(&self, looked: &Looked<'_>, i: usize, out: &mut [f32]) -> Result<()> {
        match (self, looked) {
            (Self::Features(f), Looked::Features(phi, m)) => f.values(&phi[i * m..(i + 1) * m], out),
            (Self::Atoms(f), Looked::Rows(rows)) => f.evaluate(rows.slice(i..i + 1), out)?,
            _ => {}
        }
        Ok(())
    }

    /// f ← (1 − γν) f + γ Σ_c w_c k(x, ·) e_c at row `i`.
    pub(super) fn step_at(
        &mut self,
        (looked, i): (&Looked<'_>, usize),
        size: f64,
        ridge: f64,
        weights: &[f32],
    ) -> Result<()> {
        match (self, looked) {
            (Self::Features(f), Looked::Features(phi, m)) => {
                f.step(size, ridge, &phi[i * m..(i + 1) * m], weights)
            }
            (Self::Atoms(f), Looked::Rows(rows)) => {
                f.step(size, ridge, &[Terms { rows: rows.slice(i..i + 1), weights: Cow::Borrowed(weights) }])?
            }
            _ => {}
        }
        Ok(())
    }

    /// The same function with further outputs.
    pub(super) fn widened(self, widening: &Widening) -> Result<Self> {
        let offset = widening.of_rows(self.offset());
        Ok(match self {
            Self::Atoms(f) => {
                let raw = f.raw();
                let raw = Raw { weights: widening.of_rows(&raw.weights), ..raw };
                Self::Atoms(Box::new(Dictionary::from_raw(
                    f.kernel().clone(),
                    offset,
                    f.budget(),
                    f.points().to_vec(),
                    raw,
                )?))
            }
            Self::Features(f) => {
                let DrawnFeatures { coefficients, map, scale, .. } = *f;
                let raw = (widening.of_columns(&coefficients, map.block_size), scale);
                Self::Features(Box::new(DrawnFeatures::from_raw(map, offset, raw)?))
            }
        })
    }

    pub(super) fn store(&self, container: &mut Container) -> Result<()> {
        let Scaling { shift, scale } = self.scaling().clone();
        container.insert("shift", vec![shift.len()], shift)?;
        container.insert("scale", vec![scale.len()], scale)?;
        container.insert("offset", vec![self.outputs()], self.offset().to_vec())?;
        match self {
            Self::Atoms(f) => {
                let raw = f.raw();
                container.set_field("running_scale", &raw.scale)?;
                container.insert("points", vec![f.len(), f.columns()], f.points().to_vec())?;
                if let Some((rows, drift)) = raw.inverse {
                    container.set_field("drift", &drift)?;
                    container.insert("inverse", vec![rows.len()], rows)?;
                }
                container.insert("weights", vec![f.len(), f.outputs()], raw.weights)
            }
            Self::Features(f) => {
                container.set_field("running_scale", &f.scale)?;
                let shape = vec![f.outputs(), f.map.block_size];
                container.insert("coefficients", shape, f.coefficients.clone())
            }
        }
    }

    /// Takes out what [`Kept::store`] added: a function of `outputs` outputs.
    pub(super) fn restore(
        container: &mut Container,
        options: &OnlineOptions,
        bandwidth: f64,
        outputs: usize,
    ) -> Result<Self> {
        let columns = container.f32s("shift")?.1.len();
        if columns == 0 || outputs == 0 {
            return Err(Error::Format("a model needs at least one column and one output".into()));
        }
        let (shift, scale) =
            (container.take_f32s("shift", &[columns])?, container.take_f32s("scale", &[columns])?);
        let offset = container.take_f32s("offset", &[outputs])?;
        let (scaling, running) = (Scaling { shift, scale }, container.field("running_scale")?);
        let kernel = options.kernel.clone();
        let budget = match options.memory {
            Memory::Dictionary(budget) => budget,
            Memory::Features(m) => {
                let map = FeatureMap::new(kernel, bandwidth, m, options.seed, scaling)?;
                let raw = (container.take_f32s("coefficients", &[outputs, m])?, running);
                return Ok(Self::Features(Box::new(DrawnFeatures::from_raw(map, offset, raw)?)));
            }
        };
        let atoms = container.f32s("points")?.0.first().copied().unwrap_or(0);
        if atoms > budget.most() {
            return Err(Error::Format("there are more atoms than the budget allows".into()));
        }
        let points = container.take_f32s("points", &[atoms, columns])?;
        let weights = container.take_f64s("weights", &[atoms, outputs])?;
        let inverse = match container.field::<Option<Drift>>("drift")? {
            Some(drift) => Some((container.take_f64s("inverse", &[atoms * (atoms + 1) / 2])?, drift)),
            None if options.memory.is_komp() && atoms > 0 => {
                return Err(Error::Format("the inverse of the Gram matrix is missing".into()))
            }
            None => None,
        };
        let (kernel, raw) =
            (ClosedForm::new(kernel, bandwidth, scaling)?, Raw { weights, scale: running, inverse });
        Ok(Self::Atoms(Box::new(Dictionary::from_raw(kernel, offset, budget, points, raw)?)))
    }
}

impl Function for Kept {
    fn columns(&self) -> usize {
        self.scaling().shift.len()
    }

    fn outputs(&self) -> usize {
        self.offset().len()
    }

    fn evaluate(&self, rows: Rows<'_>, out: &mut [f32]) -> Result<()> {
        match self {
            Self::Atoms(f) => f.evaluate(rows, out),
            Self::Features(f) => f.evaluate(rows, out),
        }
    }
}

impl Space for Kept {
    fn step(&mut self, size: f64, ridge: f64, terms: &[Terms<'_>]) -> Result<()> {
        match self {
            Self::Atoms(f) => f.step(size, ridge, terms),
            Self::Features(f) => f.step_terms(size, ridge, terms),
        }
    }
}
