//! A Python dictionary of settings as the options of a fit.

use crate::errors::{to_py, InvalidInput};
use crate::kernel::kernel_of;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::distributions::models::lda::LdaOptions;
use riesz::distributions::models::sparse_gp::SparseProcessOptions;
use riesz::distributions::{AdaptiveOptions, PaperOptions, Renewal, Strategy};
use riesz::driver::CheckpointPolicy;
use riesz::functions::{
    Bandwidth, DensityRatioOptions, GaussianProcessOptions, NoveltyOptions, Options, Task,
};
use riesz::kernel::Projection;
use riesz::loss::LossSpec;
use riesz::random::Seed;
use riesz::solver::Schedule;
use riesz::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Least time between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);

/// The settings a user passed to an estimator, by name.
pub struct Settings<'a, 'py>(pub &'a Bound<'py, PyDict>);

impl<'py> Settings<'_, 'py> {
    /// All settings of a fit; `classes` is absent for regression on `targets` numbers a row.
    pub fn options(&self, targets: usize) -> PyResult<Options> {
        let classes = self.whole::<usize>("classes")?;
        let task = classes.map_or(Task::Regression(targets), Task::Classification);
        let mut options = Options::new(task, Seed(self.whole("random_state")?.unwrap_or_default()));
        options.loss = self.loss()?;
        options.kernel = kernel_of(&self.kernel()?)?;
        options.bandwidth = self.bandwidth()?;
        options.scaling = named(&self.text("scaling")?)?;
        options.solver = named(&self.text("solver")?)?;
        options.ridge = self.get("ridge", "a number or None")?;
        options.damping = self.get("damping", "a number or None")?;
        options.block_size = self.whole("block_size")?;
        options.max_blocks = self.whole("max_blocks")?;
        options.sweeps = self.whole("sweeps")?.unwrap_or(options.sweeps);
        options.early_stopping = self.get("early_stopping", "True or False")?;
        options.max_time = self.get("max_time", "a number of seconds or None")?;
        options.batch_size = self.whole("batch_size")?.unwrap_or(options.batch_size);
        options.projection = self.projection()?;
        options.check().map_err(to_py)?;
        Ok(options)
    }

    /// All settings of adaptive particle mirror descent.
    pub fn adaptive(&self) -> PyResult<AdaptiveOptions> {
        let mut options = AdaptiveOptions::new(Seed(self.whole("random_state")?.unwrap_or_default()));
        options.particles = self.whole("n_particles")?.unwrap_or(options.particles);
        options.islands = self.whole("n_islands")?.unwrap_or(options.islands);
        options.batch = self.whole("batch_size")?.unwrap_or(options.batch);
        options.growth = self.get("growth", "a number")?;
        options.effective = self.get("effective", "a number")?;
        options.defensive = self.get("defensive", "a number")?;
        options.renewal = match self.text("renewal")?.as_str() {
            "auto" => Renewal::Auto,
            "draws" => Renewal::Draws,
            "moves" => Renewal::Moves,
            other => {
                let value = other.to_owned();
                return Err(to_py(Error::Unknown { name: "renewal", value, expected: "auto, draws, moves" }));
            }
        };
        options.final_stage = self.get("final_stage", "True or False")?;
        options.max_time = self.get("max_time", "a number of seconds or None")?;
        Ok(options)
    }

    /// All settings of particle mirror descent as published.
    pub fn paper(&self, observations: usize) -> PyResult<PaperOptions> {
        let density_steps: Option<usize> = self.whole("density_steps")?;
        let strategy = match self.text("strategy")?.as_str() {
            "particles" => Strategy::Particles,
            "density" => Strategy::Density,
            "density_then_particles" => Strategy::DensityThenParticles(density_steps.unwrap_or(50)),
            other => {
                let value = other.to_owned();
                let expected = "particles, density, density_then_particles";
                return Err(to_py(Error::Unknown { name: "strategy", value, expected }));
            }
        };
        let seed = Seed(self.whole("random_state")?.unwrap_or_default());
        let mut options = PaperOptions::new(strategy, observations, seed);
        options.particles = self.whole("n_particles")?.unwrap_or(options.particles);
        options.batch = self.whole("batch_size")?.unwrap_or(options.batch);
        let pass = observations.div_ceil(options.batch.max(1));
        options.steps = self.whole("n_steps")?.unwrap_or(pass);
        options.step = self.get("step", "a number")?;
        options.delay = self.get("delay", "a number")?;
        options.decay = self.get("decay", "a number")?;
        options.bandwidth = self.get("bandwidth", "a number")?;
        options.smoothness = self.get("smoothness", "a number")?;
        options.max_time = self.get("max_time", "a number of seconds or None")?;
        Ok(options)
    }

    /// All settings of a Gaussian process.
    pub fn process(&self) -> PyResult<GaussianProcessOptions> {
        let mut options = GaussianProcessOptions::new(Seed(self.whole("random_state")?.unwrap_or_default()));
        options.signal = self.get("signal", "a number or None")?;
        options.noise = self.get("noise", "a number or None")?;
        options.length_scales = self.get("length_scales", "one number per column or None")?;
        options.learning_rows = self.whole("learning_rows")?.unwrap_or(options.learning_rows);
        options.approximation = named(&self.text("approximation")?)?;
        options.inducing = self.whole("inducing")?.unwrap_or(options.inducing);
        options.neighbours = self.whole("neighbours")?.unwrap_or(options.neighbours);
        options.check().map_err(to_py)?;
        Ok(options)
    }

    /// All settings of a sparse Gaussian process.
    pub fn sparse_process(&self) -> PyResult<SparseProcessOptions> {
        let mut options = SparseProcessOptions::new(Seed(self.whole("random_state")?.unwrap_or_default()));
        options.inducing = self.whole("n_inducing")?.unwrap_or(options.inducing);
        options.particles = self.whole("n_particles")?.unwrap_or(options.particles);
        options.batch_size = self.whole("batch_size")?.unwrap_or(options.batch_size);
        options.kernel = named(&self.text("kernel")?)?;
        options.signal = self.get("signal", "a number or 'auto'")?;
        options.noise = self.get("noise", "a number or 'auto'")?;
        options.length_scales = self.get("length_scale", "one number per column or 'auto'")?;
        options.learning_rows = self.whole("learning_rows")?.unwrap_or(options.learning_rows);
        options.mode = named(&self.text("mode")?)?;
        options.passes = self.whole("n_passes")?.unwrap_or(options.passes);
        let (theta, delay) = (self.get("step", "a number")?, self.get("delay", "a number")?);
        options.schedule = Schedule::Inverse { theta, delay };
        options.max_time = self.get("max_time", "a number of seconds or None")?;
        options.check().map_err(to_py)?;
        Ok(options)
    }

    /// All settings of a novelty detector.
    pub fn novelty(&self) -> PyResult<NoveltyOptions> {
        let mut options = NoveltyOptions::new(Seed(self.whole("random_state")?.unwrap_or_default()));
        options.kernel = named(&self.text("kernel")?)?;
        options.bandwidth = self.bandwidth()?;
        options.scaling = named(&self.text("scaling")?)?;
        options.nu = self.get("nu", "a number")?;
        options.contamination = self.get("contamination", "a number or None")?;
        options.features = self.whole("n_components")?.unwrap_or(options.features);
        options.check().map_err(to_py)?;
        Ok(options)
    }

    /// All settings of a density ratio.
    pub fn ratio(&self) -> PyResult<DensityRatioOptions> {
        let mut options = DensityRatioOptions::new(Seed(self.whole("random_state")?.unwrap_or_default()));
        options.loss = named(&self.text("loss")?)?;
        options.kernel = named(&self.text("kernel")?)?;
        options.bandwidth = self.bandwidth()?;
        options.scaling = named(&self.text("scaling")?)?;
        options.damping = self.get("damping", "a number or None")?;
        options.block_size = self.whole("block_size")?;
        options.max_blocks = self.whole("max_blocks")?.unwrap_or(options.max_blocks);
        options.max_time = self.get("max_time", "a number of seconds or None")?;
        options.check().map_err(to_py)?;
        Ok(options)
    }

    /// All settings of a topic model.
    pub fn topics(&self) -> PyResult<LdaOptions> {
        let topics = self.whole("n_components")?.unwrap_or_default();
        let mut options = LdaOptions::new(topics, Seed(self.whole("random_state")?.unwrap_or_default()));
        options.mode = named(&self.text("mode")?)?;
        options.doc_topic_prior = self.numbers("doc_topic_prior")?;
        options.topic_word_prior = self.get("topic_word_prior", "a number or None")?;
        options.learn_priors = self.get("learn_priors", "True or False")?;
        options.passes = self.whole("max_iter")?.unwrap_or(options.passes);
        options.batch_size = self.whole("batch_size")?;
        options.learning_decay = self.get("learning_decay", "a number")?;
        options.learning_offset = self.get("learning_offset", "a number")?;
        options.total_documents = self.get("total_samples", "a number or None")?;
        let every = self.get::<Option<i64>>("evaluate_every", "a whole number")?.unwrap_or_default();
        options.evaluate_every = usize::try_from(every).ok().filter(|&every| every > 0);
        options.perplexity_tolerance = self.get("perp_tol", "a number")?;
        options.document_tolerance = self.get("mean_change_tol", "a number")?;
        options.max_sweeps = self.whole("max_doc_update_iter")?.unwrap_or(options.max_sweeps);
        options.particles = self.whole("particles")?.unwrap_or(options.particles);
        options.check().map_err(to_py)?;
        Ok(options)
    }

    /// A number, several numbers or `None`.
    fn numbers(&self, name: &str) -> PyResult<Option<Vec<f64>>> {
        let value = self.0.as_any().get_item(name)?;
        if let Ok(number) = value.extract::<f64>() {
            return Ok(Some(vec![number]));
        }
        extract(&value, name, "a number, one number per topic or None")
    }

    /// Where to write checkpoints, if anywhere.
    pub fn checkpoint(&self) -> PyResult<Option<CheckpointPolicy>> {
        let path: Option<PathBuf> = self.get("checkpoint", "a path or None")?;
        Ok(path.map(|path| CheckpointPolicy { path, every: CHECKPOINT_EVERY }))
    }

    /// The loss by its name; its parameter comes by its own name, from the estimators that have it.
    fn loss(&self) -> PyResult<Option<LossSpec>> {
        let name = self.text("loss")?;
        if name == "auto" {
            return Ok(None);
        }
        let spec: LossSpec = named(&name)?;
        let values = match LossSpec::parameter(&name) {
            Some(list) if spec.is_list() && self.has(list)? => self.get(list, "a list of numbers")?,
            _ if spec.is_list() => {
                return Err(InvalidInput::new_err("quantiles are for KernelQuantileRegressor"))
            }
            Some(parameter) if self.has(parameter)? => vec![self.get(parameter, "a number")?],
            _ => return Ok(Some(spec)),
        };
        LossSpec::new(&name, Some(&values)).map(Some).map_err(to_py)
    }

    /// The kernel as the user gave it.
    pub fn kernel(&self) -> PyResult<Bound<'py, PyAny>> {
        self.0.as_any().get_item("kernel")
    }

    fn has(&self, name: &str) -> PyResult<bool> {
        self.0.contains(name)
    }

    fn bandwidth(&self) -> PyResult<Bandwidth> {
        bandwidth_of(&self.0.as_any().get_item("bandwidth")?)
    }

    fn projection(&self) -> PyResult<Option<Projection>> {
        match self.get::<Option<String>>("projection", "a name or None")?.as_deref() {
            None => Ok(None),
            Some("dense") => Ok(Some(Projection::Dense)),
            Some("structured") => Ok(Some(Projection::Structured)),
            Some(name) => {
                let (value, expected) = (name.to_owned(), "dense, structured");
                Err(to_py(Error::Unknown { name: "projection", value, expected }))
            }
        }
    }

    pub fn text(&self, name: &str) -> PyResult<String> {
        self.get(name, "a name")
    }

    /// A whole number or `None`; one that does not fit its type is refused.
    fn whole<T: TryFrom<i128>>(&self, name: &'static str) -> PyResult<Option<T>> {
        let Some(value) = self.get::<Option<i128>>(name, "a whole number")? else { return Ok(None) };
        let refuse = |_| to_py(Error::OutOfRange { name, value: value as f64, range: "[0, 2^64)" });
        T::try_from(value).map(Some).map_err(refuse)
    }

    fn get<T: for<'a> FromPyObject<'a, 'py>>(&self, name: &str, wanted: &str) -> PyResult<T> {
        extract(&self.0.as_any().get_item(name)?, name, wanted)
    }
}

/// A value of the wanted type, or an error that names the setting.
fn extract<'py, T: for<'a> FromPyObject<'a, 'py>>(
    value: &Bound<'py, PyAny>,
    name: &str,
    wanted: &str,
) -> PyResult<T> {
    let refuse = |_| match value.repr() {
        Ok(found) => InvalidInput::new_err(format!("{name} = {found} should be {wanted}")),
        Err(error) => error,
    };
    value.extract().map_err(refuse)
}

/// A bandwidth as users give it.
pub fn bandwidth_of(value: &Bound<'_, PyAny>) -> PyResult<Bandwidth> {
    let wanted = "a positive number, 'auto', 'median' or 'scale'";
    match value.extract::<f64>() {
        Ok(value) => Ok(Bandwidth::Value(value)),
        Err(_) => named(&extract::<String>(value, "bandwidth", wanted)?),
    }
}

/// The setting a name stands for, or the names there are.
pub fn named<T: FromStr<Err = Error>>(text: &str) -> PyResult<T> {
    text.parse().map_err(to_py)
}
