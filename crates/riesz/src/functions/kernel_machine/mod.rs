//! Kernel machines: regression, classification and quantiles from options and rows to a fitted function.

mod calibration;
mod evidence;
mod files;
mod findings;
mod fit;
mod learnt;
mod machine;
mod metric;
pub(super) mod options;
pub(super) mod race;
pub(super) mod start;
pub(super) mod stream;
pub(super) mod training;

pub use calibration::Calibration;
pub use files::FilesSeen;
pub(crate) use fit::metric_of_classes;
pub use machine::{HistoryEntry, KernelMachine, Summary};
pub use metric::{Form as MetricForm, Metric, MetricSpec};
pub use options::{Bandwidth, ColumnScaling, Options, SolverSpec, Task};
pub use training::Training;
