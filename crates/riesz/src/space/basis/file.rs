//! Bases in files.

use super::{Basis, Kind, MOST_PARTS};
use crate::error::{Error, Result};
use crate::kernel::{ClosedForm, FeatureForm, FeatureMap, KernelSpec, Projection, Scaling};
use crate::model::Container;
use crate::random::Seed;
use faer::Mat;
use serde::{Deserialize, Serialize};

/// What a file says of a basis; points and scales are tensors.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Spec {
    Features {
        kernel: KernelSpec,
        bandwidth: f64,
        projection: Projection,
        form: FeatureForm,
        features: usize,
        seed: Seed,
    },
    Atoms {
        kernel: KernelSpec,
        bandwidth: f64,
    },
    Table {
        states: usize,
    },
    Columns {
        columns: usize,
    },
    PerAction {
        actions: usize,
    },
    Joined {
        parts: usize,
    },
}

impl Basis {
    /// Adds the basis to a container under `name`.
    pub(crate) fn store(&self, container: &mut Container, name: &str) -> Result<()> {
        let tensor = |part: &str| format!("{name}.{part}");
        let mut scaling = |Scaling { shift, scale }: &Scaling| {
            container.insert(&tensor("shift"), vec![shift.len()], shift.clone())?;
            container.insert(&tensor("scale"), vec![scale.len()], scale.clone())
        };
        let spec = match &*self.kind {
            Kind::Features { map, .. } => {
                scaling(&map.scaling)?;
                Spec::Features {
                    kernel: map.kernel.clone(),
                    bandwidth: map.bandwidth,
                    projection: map.projection,
                    form: map.form,
                    features: map.block_size,
                    seed: map.seed,
                }
            }
            Kind::Atoms { kernel, points, inverse, .. } => {
                scaling(kernel.scaling())?;
                let m = inverse.nrows();
                container.insert(&tensor("points"), vec![m, kernel.columns()], points.clone())?;
                let rows: Vec<f32> = (0..m * m).map(|i| inverse[(i / m, i % m)]).collect();
                container.insert(&tensor("inverse"), vec![m, m], rows)?;
                Spec::Atoms { kernel: kernel.kernel().clone(), bandwidth: kernel.bandwidth() }
            }
            Kind::Table { states } => Spec::Table { states: *states },
            Kind::Columns { columns } => Spec::Columns { columns: *columns },
            Kind::PerAction { states, actions } => {
                states.store(container, &tensor("states"))?;
                Spec::PerAction { actions: *actions }
            }
            Kind::Joined(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    part.store(container, &tensor(&i.to_string()))?;
                }
                Spec::Joined { parts: parts.len() }
            }
        };
        container.set_field(name, &(spec, self.intercept))
    }

    /// Takes out what [`Basis::store`] added.
    pub(crate) fn restore(container: &mut Container, name: &str) -> Result<Self> {
        Self::restore_within(container, name, 4)
    }

    fn restore_within(container: &mut Container, name: &str, depth: usize) -> Result<Self> {
        let (spec, intercept): (Spec, bool) = container.field(name)?;
        let tensor = |part: &str| format!("{name}.{part}");
        let scaling = |container: &mut Container| -> Result<Scaling> {
            let columns = container.f32s(&tensor("shift"))?.1.len();
            let shift = container.take_f32s(&tensor("shift"), &[columns])?;
            Ok(Scaling { shift, scale: container.take_f32s(&tensor("scale"), &[columns])? })
        };
        let basis = match spec {
            Spec::Features { kernel, bandwidth, projection, form, features, seed } => {
                let scaling = scaling(container)?;
                let map =
                    FeatureMap { kernel, bandwidth, projection, form, block_size: features, seed, scaling };
                map.check()?;
                Self::features(map)?
            }
            Spec::Atoms { kernel, bandwidth } => {
                let kernel = ClosedForm::new(kernel, bandwidth, scaling(container)?)?;
                let d = kernel.columns();
                let m = container.f32s(&tensor("points"))?.1.len() / d.max(1);
                if m == 0 || d == 0 {
                    return Err(Error::Format("a basis without atoms".into()));
                }
                let points = container.take_f32s(&tensor("points"), &[m, d])?;
                let inverse = container.take_f32s(&tensor("inverse"), &[m, m])?;
                // A triangle: what stands above the diagonal is nothing.
                let inverse = Mat::from_fn(m, m, |i, j| if i >= j { inverse[i * m + j] } else { 0.0 });
                Self::of(Kind::atoms(kernel, points, inverse))
            }
            Spec::Table { states } => Self::table(states)?,
            Spec::Columns { columns } => Self::columns_of(columns)?,
            Spec::PerAction { .. } | Spec::Joined { .. } if depth == 0 => {
                return Err(Error::Format("a basis within bases".into()))
            }
            Spec::PerAction { actions } => {
                Self::restore_within(container, &tensor("states"), depth - 1)?.per_action(actions)?
            }
            Spec::Joined { parts } => {
                let part = |i: usize| Self::restore_within(container, &tensor(&i.to_string()), depth - 1);
                Self::joined((0..parts.min(MOST_PARTS + 1)).map(part).collect::<Result<_>>()?)?
            }
        };
        Ok(Self { intercept, ..basis })
    }
}
