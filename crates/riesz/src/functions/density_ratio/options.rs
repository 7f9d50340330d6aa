//! What a user can say about a density ratio; everything has a default.

use crate::error::{Error, Result};
use crate::functions::{Bandwidth, ColumnScaling, MetricSpec, Options, Task};
use crate::kernel::KernelSpec;
use crate::loss::{DensityRatioKl, DensityRatioSquare, Logistic, Loss};
use crate::random::Seed;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The objective whose minimiser over all functions is the ratio p/q, or its logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DensityRatioLoss {
    /// E_p log(1 + e^{−f}) + E_q log(1 + e^f), f = log p/q. Both terms are curved and neither outruns a line, so that
    /// rows where p/q is extreme do not decide the fit: the default.
    Logistic,
    /// E_q e^f − E_p f, f = log p/q (spec 2.2). The objective is 1 − KL(p‖q) at its minimum.
    Kl,
    /// ½E_q f² − E_p f, f = p/q (spec 2.2). The objective is −½ − ½E_q (p/q − 1)² at its minimum.
    LeastSquares,
}

impl DensityRatioLoss {
    /// The loss of one row, target +1 for the numerator and −1 for the denominator.
    pub(super) fn build(self) -> Box<dyn Loss> {
        match self {
            Self::Logistic => Box::new(Logistic),
            Self::Kl => Box::new(DensityRatioKl),
            Self::LeastSquares => Box::new(DensityRatioSquare),
        }
    }

    /// The function of p = q.
    pub(super) fn offset(self) -> f32 {
        self.build().start(&[1.0, -1.0], &[1.0, 1.0])[0]
    }

    /// The mean curvature over both samples where p = q.
    pub(super) fn curvature(self) -> f64 {
        let (loss, u) = (self.build(), [self.offset()]);
        [1.0, -1.0].iter().map(|y| 0.5 * f64::from(loss.local_curvature(&u, &[*y]))).sum()
    }
}

impl FromStr for DensityRatioLoss {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "logistic" => Ok(Self::Logistic),
            "kl" => Ok(Self::Kl),
            "least_squares" => Ok(Self::LeastSquares),
            _ => {
                let expected = "logistic, kl, least_squares";
                Err(Error::Unknown { name: "loss", value: text.into(), expected })
            }
        }
    }
}

/// Settings of a [`super::DensityRatio`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "DensityRatioOptions::unset")]
pub struct DensityRatioOptions {
    /// The objective.
    pub loss: DensityRatioLoss,
    /// Kernel family.
    pub kernel: KernelSpec,
    /// σ; automatic: by held-out loss.
    pub bandwidth: Bandwidth,
    /// Which learnt metrics of the columns compete.
    pub metric: MetricSpec,
    /// What is done to the columns first.
    pub scaling: ColumnScaling,
    /// ρ of block descent; `None`: by loss and number of rows.
    pub damping: Option<f64>,
    /// Features per block; `None`: by the number of rows.
    pub block_size: Option<usize>,
    /// Most blocks; how many there are is decided by held-out loss.
    pub max_blocks: usize,
    /// Most seconds; the choice of bandwidth and blocks gets half of them.
    pub max_time: Option<f64>,
    /// Seed of everything.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

impl DensityRatioOptions {
    /// The defaults.
    pub fn new(seed: Seed) -> Self {
        Self {
            loss: DensityRatioLoss::Logistic,
            kernel: KernelSpec::Gaussian,
            bandwidth: Bandwidth::Auto,
            metric: MetricSpec::Auto,
            scaling: ColumnScaling::Auto,
            damping: None,
            block_size: None,
            max_blocks: 64,
            max_time: None,
            seed,
        }
    }

    /// What is filled in for a setting that is not given.
    fn unset() -> Self {
        Self::new(Seed(0))
    }

    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        self.machine().check()
    }

    /// The same settings as those of a kernel machine.
    pub(super) fn machine(&self) -> Options {
        Options {
            kernel: Some(self.kernel.clone()),
            bandwidth: self.bandwidth,
            metric: self.metric,
            scaling: self.scaling,
            damping: self.damping,
            block_size: self.block_size,
            max_blocks: Some(self.max_blocks),
            max_time: self.max_time,
            ..Options::new(Task::Regression(1), self.seed)
        }
    }
}
