//! The class `ParticlePosterior`: the posterior of a model in Python or of one of those shipped.

use crate::attend::{attended, detached};
use crate::errors::{to_py, FitError, InvalidInput};
use crate::files::stored;
use crate::settings::Settings;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::distributions::models::{Family, GeneralisedLinear};
use riesz::distributions::{adaptive, paper, weights, Model, Particles, Posterior};
use riesz::driver::Fingerprint;
use riesz::random::{Address, BlockIndex, Seed, Stream};
use riesz::{Error, Result};
use std::collections::BTreeMap;

/// Weighted particles that stand for a posterior.
#[pyclass(module = "riesz._riesz")]
pub struct ParticlePosterior(Posterior);

/// A Python object with the methods `sample_prior(count, seed)`, `log_prior(theta)` and `log_likelihood(theta, batch)`,
/// each vectorised over rows of θ.
struct PythonModel {
    object: Py<PyAny>,
    dimension: usize,
    observations: usize,
}

impl PythonModel {
    /// Calls a method that returns one number per particle.
    fn values(
        &self,
        what: &'static str,
        method: &str,
        particles: Particles<'_>,
        batch: Option<&[u32]>,
        out: &mut [f64],
    ) -> Result<()> {
        let call = |py: Python<'_>| -> PyResult<()> {
            let theta = particles.positions().to_pyarray(py).reshape([particles.len(), self.dimension])?;
            let object = self.object.bind(py);
            let answer = match batch {
                Some(batch) => {
                    let indices: Vec<i64> = batch.iter().map(|&n| i64::from(n)).collect();
                    object.call_method1(method, (theta, indices.into_pyarray(py)))?
                }
                None => object.call_method1(method, (theta,))?,
            };
            let answer: PyReadonlyArray1<'_, f64> = answer.extract()?;
            out.copy_from_slice(answer.as_slice()?);
            Ok(())
        };
        Python::attach(call).map_err(|error| Error::UserModel { what, source: Box::new(error) })
    }
}

impl Model for PythonModel {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn observations(&self) -> usize {
        self.observations
    }

    fn draw_prior(&self, address: Address, theta: &mut [f64]) -> Result<()> {
        let [a, b, ..] = address.words(0);
        let seed = Seed(u64::from(a) << 32 | u64::from(b));
        theta.copy_from_slice(&self.sample_prior(seed, BlockIndex(0), 1)?);
        Ok(())
    }

    fn sample_prior(&self, seed: Seed, block: BlockIndex, count: usize) -> Result<Vec<f64>> {
        let [a, b, ..] = Address::new(seed, Stream::Particle, block, 0).words(0);
        let call = |py: Python<'_>| -> PyResult<Vec<f64>> {
            let seed = u64::from(a) << 32 | u64::from(b);
            let drawn = self.object.bind(py).call_method1("sample_prior", (count, seed))?;
            let drawn: PyReadonlyArray2<'_, f64> = drawn.extract()?;
            Ok(drawn.as_slice()?.to_vec())
        };
        Python::attach(call)
            .map_err(|error| Error::UserModel { what: "sampler of the prior", source: Box::new(error) })
    }

    fn log_prior(&self, particles: Particles<'_>, out: &mut [f64]) -> Result<()> {
        self.values("log-prior", "log_prior", particles, None, out)
    }

    fn log_likelihood(&self, particles: Particles<'_>, batch: &[u32], out: &mut [f64]) -> Result<()> {
        self.values("log-likelihood", "log_likelihood", particles, Some(batch), out)
    }

    /// What the object's `fingerprint()` tells: text by the name of a part.
    fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        let call = |py: Python<'_>| -> PyResult<BTreeMap<String, String>> {
            self.object.bind(py).call_method0("fingerprint")?.extract()
        };
        let parts = Python::attach(call).map_err(|error| Error::UserModel {
            what: "fingerprint of the model",
            source: Box::new(error),
        })?;
        let add = |known: Fingerprint, (part, text): (String, String)| known.with_text(&part, text);
        Ok(Some(parts.into_iter().fold(Fingerprint::default(), add)))
    }

    /// The interpreter is one, and a vectorised function wants all particles at once.
    fn parallel(&self) -> bool {
        false
    }
}

/// Fits a model with the settings of either mode.
fn fit_model(
    py: Python<'_>,
    model: &(dyn Model + Send + Sync),
    settings: &Bound<'_, PyDict>,
    n_jobs: Option<isize>,
    observer: Option<&Py<PyAny>>,
) -> PyResult<ParticlePosterior> {
    let settings = Settings::new(settings)?;
    let checkpoint = settings.checkpoint()?;
    let mode = settings.take_text("mode")?;
    // What is no setting at all is refused in either mode.
    let (options, published) = (settings.adaptive()?, settings.paper(model.observations())?);
    let posterior = if mode.as_deref() == Some("paper") {
        attended(py, n_jobs, observer, |control| paper(model, &published, control))?
    } else {
        attended(py, n_jobs, observer, |control| {
            control.checkpoint = checkpoint;
            adaptive(model, &options, control)
        })?
    };
    Ok(ParticlePosterior(posterior))
}

#[pymethods]
impl ParticlePosterior {
    /// The posterior of a Python model.
    #[staticmethod]
    #[pyo3(signature = (model, dimension, observations, *, settings, n_jobs=None, observer=None))]
    fn fit(
        py: Python<'_>,
        model: Py<PyAny>,
        dimension: usize,
        observations: usize,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let model = PythonModel { object: model, dimension, observations };
        fit_model(py, &model, settings, n_jobs, observer.as_ref())
    }

    /// The posterior of a generalised linear model; `classes` is that of softmax.
    #[staticmethod]
    #[pyo3(signature = (x, y, *, family, classes, prior_scale, settings, n_jobs=None, observer=None))]
    #[allow(clippy::too_many_arguments)]
    fn fit_linear(
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f64>,
        y: PyReadonlyArray1<'_, f64>,
        family: &str,
        classes: usize,
        prior_scale: f64,
        settings: &Bound<'_, PyDict>,
        n_jobs: Option<isize>,
        observer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let family = match family {
            "gaussian" => Family::Gaussian,
            "logistic" => Family::Logistic,
            "probit" => Family::Probit,
            "softmax" => Family::Softmax(classes),
            other => {
                return Err(InvalidInput::new_err(format!(
                    "family = {other:?} is unknown; expected one of gaussian, logistic, probit, softmax"
                )))
            }
        };
        let columns = x.as_array().ncols();
        let model = GeneralisedLinear::new(family, x.as_slice()?, columns, y.as_slice()?, prior_scale);
        fit_model(py, &model.map_err(to_py)?, settings, n_jobs, observer.as_ref())
    }

    /// The particles.
    fn positions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.0.positions().to_pyarray(py).reshape([self.0.len(), self.0.dimension()])
    }

    /// Logarithms of their weights, which sum to one.
    fn log_weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.0.log_weights().to_pyarray(py)
    }

    /// Diagnostics, evidence and history, as a dictionary.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(self.0.report()).map_err(|e| FitError::new_err(e.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// What speaks against using it.
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// The log-density at rows of points.
    #[pyo3(signature = (points, *, n_jobs=None))]
    fn log_density<'py>(
        &self,
        py: Python<'py>,
        points: PyReadonlyArray2<'_, f64>,
        n_jobs: Option<isize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let points = points.as_slice()?;
        Ok(detached(py, n_jobs, || self.0.log_density(points))?.into_pyarray(py))
    }

    /// Draws from the density.
    fn draw<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let drawn = detached(py, None, || self.0.draw(count, Seed(seed)))?;
        drawn.into_pyarray(py).reshape([count, self.0.dimension()])
    }

    /// Indices of particles by systematic resampling.
    fn resample<'py>(&self, py: Python<'py>, count: usize, seed: u64) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let chosen = self.0.resample(count, Seed(seed)).map_err(to_py)?;
        Ok(chosen.into_iter().map(|i| i as i64).collect::<Vec<_>>().into_pyarray(py))
    }

    /// Share, mean and covariance (by rows) of every group.
    #[allow(clippy::type_complexity)]
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<(f64, Vec<f64>, Vec<f64>)>> {
        detached(py, None, || Ok(self.0.groups()))
    }
}

stored!(ParticlePosterior, Posterior);

/// Leave-one-out log predictive densities, and the Pareto shape of each, from log-weights of particles and pointwise
/// log-likelihoods (particles × observations).
#[pyfunction]
#[pyo3(signature = (log_weights, pointwise, *, n_jobs=None))]
#[allow(clippy::type_complexity)]
pub fn leave_one_out<'py>(
    py: Python<'py>,
    log_weights: PyReadonlyArray1<'_, f64>,
    pointwise: PyReadonlyArray2<'_, f64>,
    n_jobs: Option<isize>,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
    let (weights_of, values) = (log_weights.as_slice()?, pointwise.as_slice()?);
    let found = detached(py, n_jobs, || Ok(weights::leave_one_out(weights_of, values)))?;
    let (scores, shapes): (Vec<f64>, Vec<f64>) = found.into_iter().unzip();
    Ok((scores.into_pyarray(py), shapes.into_pyarray(py)))
}
