//! A learnt metric of the columns: distances ‖Lᵀ(x − x')‖, M = LLᵀ, L of as many columns as directions count.

use crate::data::{tiles, Rows, TILE};
use crate::error::{Error, Result};
use crate::kernel::Scaling;
use crate::linalg::Eigen;
use crate::model::Container;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Which metrics of the columns compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSpec {
    /// None, diagonal and full ones, whichever does best on rows it was not learnt from.
    Auto,
    /// Columns count as their scaling says.
    None,
    /// Weights of the columns, or none.
    Diagonal,
    /// Weights of directions, or none.
    Full,
}

impl FromStr for MetricSpec {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "diagonal" => Ok(Self::Diagonal),
            "full" => Ok(Self::Full),
            _ => {
                let expected = "auto, none, diagonal, full";
                Err(Error::Unknown { name: "metric", value: text.into(), expected })
            }
        }
    }
}

impl MetricSpec {
    /// The forms that compete for rows of `columns` columns; full ones up to a number of them.
    pub(super) fn forms(self, columns: usize) -> Vec<Form> {
        const DIAGONAL: [Form; 2] = [Form::Diagonal, Form::DiagonalRoot];
        const FULL: [Form; 2] = [Form::Full, Form::FullRoot];
        match self {
            _ if columns > MOST_COLUMNS => Vec::new(),
            Self::None => Vec::new(),
            Self::Full => FULL.to_vec(),
            Self::Auto if columns <= MOST_FULL => [DIAGONAL, FULL].concat(),
            Self::Auto | Self::Diagonal => DIAGONAL.to_vec(),
        }
    }
}

/// Columns up to which a metric is learnt.
const MOST_COLUMNS: usize = 1_024;
/// Columns up to which a full metric is learnt unless asked for: it has d² numbers.
const MOST_FULL: usize = 128;

/// Rows that are mapped at a time before a function is evaluated.
const MAPPED_ROWS: usize = 8_192;

/// What is made of the average M of gradient outer products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// diag M.
    Diagonal,
    /// (diag M)^½.
    DiagonalRoot,
    /// M.
    Full,
    /// M^½.
    FullRoot,
    /// Nothing: the leading directions of the rows count as they are, the others not at all.
    Unit,
}

impl Form {
    /// The symmetric root L of the metric, tr LLᵀ = d; `None` where M is zero or not finite.
    pub(super) fn root(self, products: &Mat<f64>) -> Option<Mat<f64>> {
        let d = products.nrows();
        let power = if matches!(self, Self::Diagonal | Self::Full) { 0.5 } else { 0.25 };
        let mut root = match self {
            Self::Diagonal | Self::DiagonalRoot => {
                Mat::from_fn(d, d, |i, j| if i == j { products[(i, i)].powf(power) } else { 0.0 })
            }
            Self::Full | Self::FullRoot => Eigen::of(products.as_ref())?.map(|v| v.max(0.0).powf(power)),
            Self::Unit => Mat::identity(d, d),
        };
        let trace = root.squared_norm_l2();
        (trace > 0.0 && trace.is_finite()).then(|| {
            root *= faer::Scale((d as f64 / trace).sqrt());
            root
        })
    }
}

/// Rows enter the kernel as (x − shift) L.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    form: Form,
    shift: Vec<f32>,
    /// L, d×r row-major: the scaling of the columns and the root of the metric learnt on scaled ones.
    root: Vec<f32>,
    /// r ≤ d.
    directions: usize,
    /// The diagonal of M in units of the columns' deviations, as shares of its sum.
    importances: Vec<f32>,
}

impl Metric {
    /// The metric of root L, d×r, on columns that are scaled first and have the `variance` given.
    pub(super) fn new(form: Form, scaling: &Scaling, root: &Mat<f64>, variance: &[f64]) -> Self {
        let (d, r) = (variance.len(), root.ncols());
        let scaled = |i: usize| f64::from(scaling.scale[i / r]) * root[(i / r, i % r)];
        let own = |i: usize| variance[i] * (0..r).map(|j| scaled(i * r + j).powi(2)).sum::<f64>();
        let own: Vec<f64> = (0..d).map(own).collect();
        let total = own.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        Self {
            form,
            shift: scaling.shift.clone(),
            root: (0..d * r).map(|i| scaled(i) as f32).collect(),
            directions: r,
            importances: own.iter().map(|v| (v / total) as f32).collect(),
        }
    }

    /// What the metric is made of.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Number d of columns.
    pub fn columns(&self) -> usize {
        self.shift.len()
    }

    /// Number r of the columns of mapped rows.
    pub fn directions(&self) -> usize {
        self.directions
    }

    /// M = LLᵀ, d×d row-major: squared distances of rows are (x − x')ᵀ M (x − x').
    pub fn matrix(&self) -> Vec<f64> {
        let (d, r) = (self.columns(), self.directions);
        let row = |i: usize| &self.root[i * r..(i + 1) * r];
        let dot = |(a, b): (&f32, &f32)| f64::from(*a) * f64::from(*b);
        (0..d * d).map(|k| row(k / d).iter().zip(row(k % d)).map(dot).sum()).collect()
    }

    /// How much each column counts: the diagonal of M times the columns' variances, as shares of the sum.
    pub fn importances(&self) -> &[f32] {
        &self.importances
    }

    /// (x − shift) L for all rows, row-major.
    pub(crate) fn map(&self, rows: Rows<'_>) -> Vec<f32> {
        let (d, r) = (self.columns(), self.directions);
        let mut out = vec![0.0; rows.len() * r];
        let parts: Vec<_> = tiles(rows.len()).zip(out.chunks_mut(TILE * r)).collect();
        parts.into_par_iter().for_each_init(
            || (Vec::new(), Vec::new()),
            |(buffer, centred), (tile, out)| {
                let n = tile.len();
                centred.clear();
                for row in rows.tile(tile, buffer).chunks_exact(d) {
                    centred.extend(row.iter().zip(&self.shift).map(|(x, s)| x - s));
                }
                let x = MatRef::from_row_major_slice(centred, n, d);
                let root = MatRef::from_row_major_slice(&self.root, d, r);
                let out = MatMut::from_row_major_slice_mut(out, n, r);
                matmul(out, Accum::Replace, x, root, 1.0, Par::Seq);
            },
        );
        out
    }

    /// What `evaluate` writes for rows that are mapped first, some thousand at a time; `out` has `outputs` numbers a row.
    pub(crate) fn evaluate(
        &self,
        rows: Rows<'_>,
        outputs: usize,
        out: &mut [f32],
        evaluate: impl Fn(Rows<'_>, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let (expected, found) = (self.columns(), rows.columns());
        if expected != found {
            return Err(Error::Columns { expected, found });
        }
        for (part, out) in out.chunks_mut(MAPPED_ROWS * outputs).enumerate() {
            let from = part * MAPPED_ROWS;
            let x = self.map(rows.slice(from..from + out.len() / outputs));
            evaluate(Rows::single(&x, self.directions)?, out)?;
        }
        rows.fault()
    }

    pub(crate) fn store(&self, container: &mut Container) -> Result<()> {
        let d = self.columns();
        container.set_field("metric", &self.form)?;
        container.insert("metric.shift", vec![d], self.shift.clone())?;
        container.insert("metric.root", vec![d, self.directions], self.root.clone())?;
        container.insert("metric.importances", vec![d], self.importances.clone())
    }

    /// Takes out what [`Metric::store`] added: a metric of this many directions.
    pub(crate) fn restore(container: &mut Container, directions: usize) -> Result<Self> {
        let form = container.field("metric")?;
        let columns = container.tensors.get("metric.shift").map_or(0, |shift| shift.shape.iter().product());
        if !(directions..=MOST_COLUMNS).contains(&columns) {
            return Err(Error::Format(format!("a metric of {directions} directions of {columns} columns")));
        }
        let shift = container.take_f32s("metric.shift", &[columns])?;
        let root = container.take_f32s("metric.root", &[columns, directions])?;
        let importances = container.take_f32s("metric.importances", &[columns])?;
        Ok(Self { form, shift, root, directions, importances })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_the_trace_of_the_identity() {
        let products = Mat::from_fn(2, 2, |i, j| [[4.0, 2.0], [2.0, 9.0]][i][j]);
        for form in [Form::Diagonal, Form::DiagonalRoot, Form::Full, Form::FullRoot] {
            let root = form.root(&products).unwrap();
            assert!((root.squared_norm_l2() - 2.0).abs() < 1e-12, "{form:?}");
            assert!(form.root(&Mat::zeros(2, 2)).is_none());
        }
        let root = Form::Full.root(&products).unwrap();
        let metric = &root * &root;
        assert!((metric[(0, 1)] / metric[(0, 0)] - 0.5).abs() < 1e-12);
        let root = Form::DiagonalRoot.root(&products).unwrap();
        assert!((root[(1, 1)].powi(2) / root[(0, 0)].powi(2) - 1.5).abs() < 1e-12);
    }

    /// Distances of mapped rows are those of the metric, and a file brings back the same.
    #[test]
    fn rows_are_mapped_and_metrics_stored() {
        let scaling = Scaling { shift: vec![1.0, -1.0], scale: vec![2.0, 0.5] };
        let root = Mat::from_fn(2, 2, |i, j| [[1.0, 0.5], [0.5, 2.0]][i][j]);
        let metric = Metric::new(Form::Full, &scaling, &root, &[1.0, 4.0]);
        let x = [0.0, 0.0, 1.0, 3.0];
        let z = metric.map(Rows::single(&x, 2).unwrap());
        let m = metric.matrix();
        let expected = m[0] + 2.0 * 3.0 * m[1] + 9.0 * m[3];
        let found = f64::from((z[0] - z[2]).powi(2) + (z[1] - z[3]).powi(2));
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        assert!((metric.importances().iter().sum::<f32>() - 1.0).abs() < 1e-6);
        let mut container = Container::new("model");
        metric.store(&mut container).unwrap();
        assert_eq!(Metric::restore(&mut container, 2).unwrap(), metric);
    }

    /// One direction of two columns: rows become numbers, and a file of more directions than columns is refused.
    #[test]
    fn directions_may_be_fewer_than_columns() {
        let scaling = Scaling { shift: vec![1.0, -1.0], scale: vec![2.0, 0.5] };
        let metric =
            Metric::new(Form::Unit, &scaling, &Mat::from_fn(2, 1, |i, _| [0.6, 0.8][i]), &[1.0, 4.0]);
        assert_eq!((metric.columns(), metric.directions()), (2, 1));
        let x = [0.0, 0.0, 1.0, 3.0];
        let z = metric.map(Rows::single(&x, 2).unwrap());
        assert!((z[0] + 1.2 - 0.4).abs() < 1e-6 && (z[1] - 1.6).abs() < 1e-6, "{z:?}");
        let expected = [1.44, 0.48, 0.48, 0.16];
        metric.matrix().iter().zip(expected).for_each(|(m, e)| assert!((m - e).abs() < 1e-6, "{m} {e}"));
        let mut container = Container::new("model");
        metric.store(&mut container).unwrap();
        assert_eq!(Metric::restore(&mut container.clone(), 1).unwrap(), metric);
        let error = Metric::restore(&mut container, 3).unwrap_err().to_string();
        assert!(error.contains("3 directions of 2 columns"), "{error}");
    }

    #[test]
    fn a_metric_that_is_not_one_is_refused() {
        let error = "mahalanobis".parse::<MetricSpec>().unwrap_err().to_string();
        assert!(error.contains("metric") && error.contains("diagonal"), "{error}");
    }
}
