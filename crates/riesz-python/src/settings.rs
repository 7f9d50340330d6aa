//! A Python dictionary of settings as the options of a fit.
//!
//! Options are read by serde: a key of the dictionary is the name, or an alias, of a field in Rust, so that a setting is
//! declared once there and once in Python. What does not fit is refused by the name the user knows.

use crate::errors::{to_py, InvalidInput};
use crate::kernel::kernel_of;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use riesz::distributions::{AdaptiveOptions, PaperOptions};
use riesz::driver::CheckpointPolicy;
use riesz::functions::{Bandwidth, Options, Task};
use riesz::loss::LossSpec;
use riesz::Error;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

mod value;
use value::{read_fields, Value};

/// The variable of the environment with the least seconds between two checkpoints, and what they are without it.
const CHECKPOINT_SECONDS: &str = "RIESZ_CHECKPOINT_SECONDS";
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);

/// The settings a user passed to an estimator, by name.
pub struct Settings<'py>(Bound<'py, PyDict>);

impl<'py> Settings<'py> {
    pub fn new(settings: &Bound<'py, PyDict>) -> PyResult<Self> {
        settings.copy().map(Self)
    }

    /// All of them; a name that the options do not have is refused.
    pub fn read<T: DeserializeOwned>(&self) -> PyResult<T> {
        read_fields(&self.0, true)
    }

    /// Takes out a setting that options do not have, or have in another form; `None` where there is none.
    pub fn take(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.0.get_item(name)?;
        if value.is_some() {
            self.0.del_item(name)?;
        }
        Ok(value.filter(|value| !value.is_none()))
    }

    /// Takes out a setting that is text.
    pub fn take_text(&self, name: &str) -> PyResult<Option<String>> {
        self.take(name)?.map(|value| Value::new(name, value).read()).transpose()
    }

    /// Takes out a setting that is a number.
    pub fn take_real(&self, name: &str) -> PyResult<Option<f64>> {
        self.take(name)?.map(|value| Value::new(name, value).read()).transpose()
    }

    /// Takes out a setting that is a number, or "auto" where it is not given.
    pub fn take_unless_auto<T: DeserializeOwned>(&self, name: &str) -> PyResult<Option<T>> {
        let given = self.take(name)?.filter(|value| !value.eq("auto").unwrap_or(false));
        given.map(|value| Value::new(name, value).read()).transpose()
    }

    /// Whether a setting is given, and not None.
    pub fn contains(&self, name: &str) -> PyResult<bool> {
        Ok(self.0.get_item(name)?.is_some_and(|value| !value.is_none()))
    }

    /// Takes out a setting that is the name of something.
    pub fn take_named<T: FromStr<Err = Error>>(&self, name: &str) -> PyResult<Option<T>> {
        self.take_text(name)?.map(|text| named(&text)).transpose()
    }

    /// Those of a kernel machine; `classes` is absent for regression on `targets` numbers a row.
    pub fn machine(&self, targets: usize) -> PyResult<Options> {
        let classes = self.take("classes")?.map(|value| value.extract()).transpose()?;
        let kernel = self.take("kernel")?.filter(|value| !value.eq("auto").unwrap_or(false));
        let kernel = kernel.map(|value| kernel_of(&value)).transpose()?;
        let loss = self.loss()?;
        let mut options: Options = self.read()?;
        options.task = classes.map_or(Task::Regression(targets), Task::Classification);
        options.kernel = kernel;
        options.loss = loss;
        options.check().map_err(to_py)?;
        Ok(options)
    }

    /// The loss by its name; its parameter comes by its own name, from the estimators that have it.
    pub fn loss(&self) -> PyResult<Option<LossSpec>> {
        let name = self.take_text("loss")?.filter(|name| name != "auto");
        let mut given = HashMap::new();
        for parameter in [false, true].into_iter().flat_map(LossSpec::names).filter_map(LossSpec::parameter) {
            if let Some(value) = self.take(parameter)? {
                given.insert(parameter, Value::new(parameter, value).read::<Vec<f64>>()?);
            }
        }
        let Some(name) = name else { return Ok(None) };
        let spec: LossSpec = named(&name)?;
        match LossSpec::parameter(&name).and_then(|parameter| given.remove_entry(parameter)) {
            Some((_, values)) => LossSpec::new(&name, Some(&values)).map(Some).map_err(to_py),
            None if spec.is_list() => Err(InvalidInput::new_err("quantiles are for KernelQuantileRegressor")),
            None => Ok(Some(spec)),
        }
    }

    /// Those of adaptive particle mirror descent among those of both modes.
    pub fn adaptive(&self) -> PyResult<AdaptiveOptions> {
        read_fields(&self.0, false)
    }

    /// Those of particle mirror descent as published, among those of both modes.
    pub fn paper(&self, observations: usize) -> PyResult<PaperOptions> {
        let mut options: PaperOptions = read_fields(&self.0, false)?;
        if !self.0.contains("batch_size")? {
            options.batch = options.batch.min(observations.max(1));
        }
        if !self.0.contains("n_steps")? {
            options.steps = observations.div_ceil(options.batch.max(1));
        }
        Ok(options)
    }

    /// Where to write checkpoints, if anywhere.
    pub fn checkpoint(&self) -> PyResult<Option<CheckpointPolicy>> {
        let Some(value) = self.take("checkpoint")? else { return Ok(None) };
        let Ok(path) = value.extract::<PathBuf>() else {
            let found = value.repr()?;
            return Err(InvalidInput::new_err(format!("checkpoint = {found} should be a path or None")));
        };
        Ok(Some(CheckpointPolicy { path, every: checkpoint_interval()? }))
    }
}

/// Least time between two checkpoints: what the environment says, or 30 seconds.
fn checkpoint_interval() -> PyResult<Duration> {
    let Ok(text) = std::env::var(CHECKPOINT_SECONDS) else { return Ok(CHECKPOINT_EVERY) };
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| {
        InvalidInput::new_err(format!("{CHECKPOINT_SECONDS} = {text:?} should be a number of seconds"))
    })
}

/// A bandwidth as users give it.
pub fn bandwidth_of(value: &Bound<'_, PyAny>) -> PyResult<Bandwidth> {
    Value::new("bandwidth", value.clone()).read()
}

/// The setting a name stands for, or the names there are.
pub fn named<T: FromStr<Err = Error>>(text: &str) -> PyResult<T> {
    text.parse().map_err(to_py)
}
