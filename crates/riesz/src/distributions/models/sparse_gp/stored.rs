//! Sparse Gaussian processes in files.

use super::inducing::Ball;
use super::natural::Natural;
use super::options::{Mode, SparseProcessOptions};
use super::particle::{Particle, Precision, Setting};
use super::process::SparseProcess;
use super::weighting::Weighting;
use crate::error::{Error, Result};
use crate::gaussian::Hyperparameters;
use crate::model::{Container, Stored};
use faer::Mat;
use serde::{Deserialize, Serialize};

/// Everything about a process that is not a tensor.
#[derive(Serialize, Deserialize)]
struct Header {
    options: SparseProcessOptions,
    signal: f64,
    noise: f64,
    mean: f64,
    exponent: f64,
    scale: f64,
    single: bool,
    seen: usize,
    particles: usize,
}

/// The file holds hyper-parameters, and of every particle its inputs, Λ, h and c; what follows from them is computed when
/// it is read.
impl Stored for SparseProcess {
    const KIND: &'static str = "sparse_gaussian_process";

    fn store(&self, container: &mut Container) -> Result<()> {
        let (hyper, d) = (self.hyperparameters(), self.columns());
        container.set_field(
            "process",
            &Header {
                options: self.options.clone(),
                signal: hyper.signal,
                noise: hyper.noise,
                mean: self.mean,
                exponent: self.weighting.exponent,
                scale: self.weighting.scale,
                single: self.precision == Precision::Single,
                seen: self.seen,
                particles: self.particles.len(),
            },
        )?;
        container.insert("length_scales", vec![d], hyper.length_scales.clone())?;
        container.insert("shift", vec![d], self.setting.shift.clone())?;
        let constants: Vec<f64> = self.particles.iter().map(|particle| particle.natural.constant).collect();
        container.insert("constant", vec![constants.len()], constants)?;
        for (j, particle) in self.particles.iter().enumerate() {
            let Natural { precision, shift, .. } = &particle.natural;
            let m = shift.len();
            let lower: Vec<f64> = (0..m).flat_map(|i| &precision.col_as_slice(i)[i..]).copied().collect();
            container.insert(&format!("inducing.{j}"), vec![m, d], particle.rows.clone())?;
            container.insert(&format!("shift.{j}"), vec![m], shift.clone())?;
            let Ball { centre, squared_radius } = &particle.ball;
            container.insert(&format!("reach.{j}"), vec![d + 1], [&**centre, &[*squared_radius]].concat())?;
            container.insert(&format!("precision.{j}"), vec![lower.len()], lower)?;
        }
        Ok(())
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("process")?;
        header.options.check()?;
        let d = match *container.f64s("shift")?.0 {
            [d] if d > 0 => d,
            ref shape => return Err(Error::Format(format!("shift has shape {shape:?}"))),
        };
        let hyper = Hyperparameters {
            signal: header.signal,
            noise: header.noise,
            length_scales: container.take_f64s("length_scales", &[d])?,
        };
        hyper.check(d)?;
        let shift = container.take_f64s("shift", &[d])?;
        if header.exponent < 0.0 || header.scale <= 0.0 {
            return Err(Error::Format("the weighting of a sparse process is out of range".into()));
        }
        let setting = Setting { kernel: header.options.kernel, hyper, shift };
        let precision = if header.single { Precision::Single } else { Precision::Double };
        let constants = container.take_f64s("constant", &[header.particles])?;
        if constants.is_empty() {
            return Err(Error::Format("a sparse process needs particles".into()));
        }
        let log_prior = -(constants.len() as f64).ln();
        let mut particles = Vec::new();
        for (j, constant) in constants.into_iter().enumerate() {
            let mut particle = particle(container, &setting, precision, j, log_prior)?;
            particle.natural.constant = constant;
            particles.push(particle);
        }
        let weighting = match header.options.mode {
            Mode::Paper => Weighting::mixture(particles.len()),
            Mode::Adaptive => {
                Weighting { scale: header.scale, ..Weighting::equal(particles.len(), header.exponent) }
            }
        };
        let (options, mean, seen) = (header.options, header.mean, header.seen);
        let mut this = Self { options, setting, mean, precision, particles, weighting, seen };
        this.factorise()?;
        Ok(this)
    }
}

fn particle(
    container: &mut Container,
    setting: &Setting,
    precision: Precision,
    j: usize,
    log_prior: f64,
) -> Result<Particle> {
    let (name, d) = (format!("inducing.{j}"), setting.shift.len());
    let m = match *container.f64s(&name)?.0 {
        [m, columns] if m > 0 && columns == d => m,
        ref shape => return Err(Error::Format(format!("{name} has shape {shape:?}"))),
    };
    let rows = container.take_f64s(&name, &[m, d])?;
    let shift = container.take_f64s(&format!("shift.{j}"), &[m])?;
    // A radius may be infinite; its place is behind the centre, which may not.
    let mut centre = container.take_f64s_where(&format!("reach.{j}"), &[d + 1], |v| !v.is_nan())?;
    let squared_radius = centre.pop().unwrap_or(f64::INFINITY);
    if centre.iter().any(|v| !v.is_finite()) {
        return Err(Error::Format(format!("the centre of reach.{j} is no point")));
    }
    let ball = Ball { centre, squared_radius };
    let size = m.checked_mul(m + 1).ok_or_else(|| Error::Format(format!("{name} has too many rows")))? / 2;
    let lower = container.take_f64s(&format!("precision.{j}"), &[size])?;
    let mut particle = Particle::new(setting, precision, rows, ball, log_prior)?;
    let mut values = lower.into_iter();
    let mut matrix = Mat::<f64>::zeros(m, m);
    for i in 0..m {
        matrix.col_as_slice_mut(i)[i..].iter_mut().zip(&mut values).for_each(|(out, v)| *out = v);
    }
    particle.natural = Natural { precision: matrix, shift, ..particle.natural };
    Ok(particle)
}
