//! What can go wrong, with the data needed to say what to do next.

use std::path::PathBuf;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error carries data; its message says what was found, what was expected and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting outside its domain.
    #[error("{name} = {value} is outside {range}")]
    OutOfRange {
        /// The name the user typed.
        name: &'static str,
        /// What was given.
        value: f64,
        /// The admissible set, in words or as an interval.
        range: &'static str,
    },
    /// A name that is not one of the known ones.
    #[error("{name} = {value:?} is unknown; expected one of {expected}")]
    Unknown {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// The admissible names.
        expected: &'static str,
    },
    /// Two settings that exclude each other.
    #[error("{0}")]
    Conflict(String),
    /// Instructions that this machine does not have.
    #[error("this machine has no {wanted} instructions; the best it has are {best}")]
    Instructions {
        /// What was asked for.
        wanted: String,
        /// The best there is.
        best: String,
    },
    /// An array that does not fit the others it is computed with.
    #[error("{what} has {found} numbers, expected {expected}")]
    Length {
        /// The array at fault.
        what: &'static str,
        /// Numbers it should have, in words.
        expected: String,
        /// Numbers it has.
        found: usize,
    },
    /// A shard of the rows that cuts a leaf of their sums in two.
    #[error("a shard has rows {first} to {end} of {rows}; shards begin and end at multiples of {multiple} rows, the last at the end")]
    ShardEnds {
        /// Its first row …
        first: usize,
        /// … and the one after its last.
        end: usize,
        /// Rows of all shards.
        rows: usize,
        /// What its ends should be multiples of.
        multiple: usize,
    },
    /// Sums over shards that are not all rows once.
    #[error("leaf {leaf} of {leaves} is missing from the sums or in them twice; add every shard once")]
    Shards {
        /// The first leaf at fault.
        leaf: usize,
        /// Leaves of all rows.
        leaves: usize,
    },
    /// A matrix with the wrong number of columns.
    #[error("expected {expected} columns, found {found}")]
    Columns {
        /// Columns of the data the model was fitted on.
        expected: usize,
        /// Columns of the data at hand.
        found: usize,
    },
    /// A data file whose columns have other names than those the model was fitted on.
    #[error("{}: the columns are not those the model was fitted on: {}", path.display(),
        [(missing, "missing"), (extra, "unknown"), (repeated, "there twice")].into_iter()
            .filter(|(names, _)| !names.is_empty()).map(|(names, what)| format!("{} {what}", some(names)))
            .collect::<Vec<_>>().join(", "))]
    ColumnNames {
        /// The file.
        path: PathBuf,
        /// Columns of the model that it lacks.
        missing: Vec<String>,
        /// Columns that the model does not know.
        extra: Vec<String>,
        /// Columns of the model that it has more than once.
        repeated: Vec<String>,
    },
    /// Two arrays that should have the same number of rows.
    #[error("{what} has {found} rows, expected {expected}")]
    RowCount {
        /// The array at fault.
        what: &'static str,
        /// Rows it should have.
        expected: usize,
        /// Rows it has.
        found: usize,
    },
    /// A sparse matrix whose arrays contradict each other.
    #[error("X is not a sparse matrix by rows: {0}")]
    Sparse(String),
    /// An array that a user sized and for which there is no memory.
    #[error("{what} need {} of memory, {}; lower {lower}", readable(*needed),
        available.map_or_else(|| "which the system does not give".to_owned(),
            |bytes| format!("of which {} are available", readable(bytes))))]
    Memory {
        /// What it holds, in words.
        what: &'static str,
        /// The setting that sized it.
        lower: &'static str,
        /// Bytes it takes.
        needed: f64,
        /// Bytes there are, where the system says.
        available: Option<f64>,
    },
    /// No rows or no columns.
    #[error("{what} is empty; at least {needed} needed")]
    Empty {
        /// The array at fault.
        what: &'static str,
        /// What would be enough, in words.
        needed: &'static str,
    },
    /// NaN or infinity in the input.
    #[error("{what} contains {value} at row {row}, column {column}; remove or impute such rows first")]
    NotFinite {
        /// The array at fault.
        what: &'static str,
        /// `NaN`, `inf` or `-inf`.
        value: f64,
        /// Row of the first offence.
        row: usize,
        /// Column of the first offence.
        column: usize,
    },
    /// A value outside the domain of the kernel.
    #[error("column {column} has {value} at row {row}, outside the domain of the {kernel} kernel: at least {least}{}",
        if *included { "" } else { " (excluded)" })]
    Domain {
        /// The kernel.
        kernel: String,
        /// The value.
        value: f64,
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
        /// The lower end of the domain …
        least: f64,
        /// … and whether it belongs to it.
        included: bool,
    },
    /// A log-density that is no number.
    #[error("the {what} of particle {particle} is {value}{}, at θ = {theta:?}; it must be a number, or -inf where the density is zero",
        batch.map_or_else(String::new, |(rows, first)| format!(" for the batch of {rows} observations that begins with observation {first}")))]
    Density {
        /// Log-likelihood or log-prior.
        what: &'static str,
        /// `NaN` or `inf`.
        value: f64,
        /// The first particle at fault …
        particle: usize,
        /// … and where it is.
        theta: Vec<f64>,
        /// Number of observations in the batch and the first of them.
        batch: Option<(usize, usize)>,
    },
    /// A user's model failed.
    #[error("the {what} failed: {source}")]
    UserModel {
        /// Log-likelihood, log-prior or sampler of the prior.
        what: &'static str,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No particle is possible.
    #[error("no particle of {particles} has a density above zero after {observations} observations; prior and likelihood exclude each other, or n_particles is too small")]
    Impossible {
        /// How many there were.
        particles: usize,
        /// How many observations were looked at.
        observations: usize,
    },
    /// A user's kernel failed.
    #[error("the kernel {kernel} failed: {source}")]
    User {
        /// Its name.
        kernel: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A user's kernel gave a feature that is no number.
    #[error("the kernel {kernel} gave {value} as feature {feature}; features must be finite")]
    FeatureNotFinite {
        /// Its name.
        kernel: String,
        /// `NaN`, `inf` or `-inf`.
        value: f64,
        /// Position of the first offence among the features of a block.
        feature: usize,
    },
    /// A model file whose kernel is a function, of which a file holds the name alone.
    #[error("the kernel {kernel} is a function, which no file holds; give it to KernelMachine::load_with_kernel, or pickle the estimator in Python")]
    KernelMissing {
        /// Its name.
        kernel: String,
    },
    /// A user's function in a constraint failed.
    #[error("the constraint {name} failed: {source}")]
    Constraint {
        /// Its name.
        name: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A user's function in a constraint gave no number.
    #[error("the constraint {name} gave a value or a slope that is not finite")]
    ConstraintNotFinite {
        /// Its name.
        name: String,
    },
    /// A model file whose constraint is a function, of which a file holds the name alone.
    #[error("the constraint {name} is a function, which no file holds; give the constraints again before learning goes on, or pickle the estimator in Python")]
    ConstraintMissing {
        /// Its name.
        name: String,
    },
    /// A multiplier that grows without end.
    #[error("the multiplier of constraint {constraint} reached {multiplier:.3e} at step {step}, where the mean of the constraint is {value:.3e} above its bound: f cannot meet it at these settings; raise the bound, lower step or ridge, or raise multiplier_limit if such a multiplier is expected")]
    Multiplier {
        /// The constraint, counted from one.
        constraint: usize,
        /// μ.
        multiplier: f64,
        /// The step.
        step: u64,
        /// A running mean of g.
        value: f64,
    },
    /// A target outside the domain of the loss.
    #[error("target {value} at row {row} is not admissible for the {loss} loss: {expected}")]
    Target {
        /// Name of the loss.
        loss: &'static str,
        /// The offending value.
        value: f64,
        /// Its row.
        row: usize,
        /// The domain in words.
        expected: &'static str,
    },
    /// A count that is none.
    #[error("{}X contains {value} at row {row}, column {column}; counts must be {expected}",
        if *value < 0.0 { "Negative values in data: " } else { "" })]
    Count {
        /// The value.
        value: f64,
        /// Its row: the document.
        row: usize,
        /// Its column: the word.
        column: usize,
        /// The admissible numbers, in words.
        expected: &'static str,
    },
    /// A classifier needs two classes.
    #[error("only one class in the data ({0}); a classifier needs at least two")]
    OneClass(String),
    /// The iterate left the finite numbers.
    #[error("the fit diverged at step {step} (objective {objective}); lower {lower}")]
    Diverged {
        /// Step or block at which it happened.
        step: usize,
        /// Last objective seen.
        objective: f64,
        /// Settings to lower.
        lower: &'static str,
    },
    /// A matrix that should be positive definite was not.
    #[error("the {size}×{size} system of block {block} is not positive definite; raise {raise}")]
    NotPositiveDefinite {
        /// Block at which it happened.
        block: usize,
        /// Size of the system.
        size: usize,
        /// Setting to raise.
        raise: &'static str,
    },
    /// The coefficients of a function are so large that nothing is left of it in single precision.
    #[error("coefficients are so large that kernels in single precision round the function away; raise {raise} or lower {lower}")]
    RoundedAway {
        /// Setting to raise.
        raise: &'static str,
        /// Setting to lower.
        lower: &'static str,
    },
    /// An iterative method stopped before its tolerance.
    #[error("{method} stopped after {iterations} iterations at relative residual {residual:.2e}; wanted {wanted:.0e}")]
    NotConverged {
        /// The method.
        method: &'static str,
        /// Iterations spent.
        iterations: usize,
        /// Residual reached.
        residual: f64,
        /// Residual wanted.
        wanted: f64,
    },
    /// The user asked to stop.
    #[error("cancelled after {blocks} blocks")]
    Cancelled {
        /// Blocks finished by then.
        blocks: usize,
    },
    /// A file that is not what it should be.
    #[error("not a valid riesz file: {0}")]
    Format(String),
    /// A riesz file of another kind than the one asked for.
    #[error("the file holds {found}, expected {expected}; riesz.load in Python reads every kind of model")]
    Kind {
        /// What the file holds, with its article.
        found: &'static str,
        /// What was asked for.
        expected: &'static str,
    },
    /// A checkpoint that belongs to another fit.
    #[error("the checkpoint does not belong to this fit: {0}; delete it or fit with the settings and data that wrote it")]
    Checkpoint(String),
    /// A data file that could not be read.
    #[error("{path}, line {line}: {reason}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, counted from one.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

/// Checks that a setting is where it should be.
pub(crate) fn in_range(name: &'static str, value: f64, inside: bool, range: &'static str) -> Result<f64> {
    match inside {
        true => Ok(value),
        false => Err(Error::OutOfRange { name, value, range }),
    }
}

/// The first names of a list, quoted and escaped.
fn some(names: &[String]) -> String {
    const MOST: usize = 8;
    let shown: Vec<_> = names.iter().take(MOST).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(MOST);
    format!("{}{}", shown.join(", "), if more > 0 { format!(" and {more} more") } else { String::new() })
}

/// Checks that a setting is finite and strictly positive.
pub(crate) fn positive(name: &'static str, value: f64) -> Result<f64> {
    in_range(name, value, value.is_finite() && value > 0.0, "(0, inf)")
}

/// Checks that a setting is finite and not negative.
pub(crate) fn non_negative(name: &'static str, value: f64) -> Result<f64> {
    in_range(name, value, value.is_finite() && value >= 0.0, "[0, inf)")
}

/// Checks that rows have as many columns as a model.
pub(crate) fn same_columns(expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(Error::Columns { expected, found }),
    }
}

/// Checks that an array has as many rows as another.
pub(crate) fn same_rows(what: &'static str, expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(Error::RowCount { what, expected, found }),
    }
}

/// Checks that n×`columns` numbers are finite.
pub(crate) fn finite<T: Copy + Into<f64>>(what: &'static str, values: &[T], columns: usize) -> Result<()> {
    match values.iter().position(|&v| !v.into().is_finite()) {
        Some(i) => {
            Err(Error::NotFinite { what, value: values[i].into(), row: i / columns, column: i % columns })
        }
        None => Ok(()),
    }
}

/// Checks that sample weights count `n` rows: that many, finite and not negative.
pub(crate) fn check_weights<T: Copy + Into<f64>>(weights: &[T], n: usize) -> Result<()> {
    same_rows("sample_weight", n, weights.len())?;
    finite("sample_weight", weights, 1)?;
    weights.iter().try_for_each(|&w| non_negative("sample_weight", w.into()).map(drop))
}

/// Checks that not all sample weights are zero.
pub(crate) fn check_mass(total: f64) -> Result<()> {
    match total == 0.0 {
        true => Err(Error::Empty { what: "sample_weight (all zero)", needed: "one positive weight" }),
        false => Ok(()),
    }
}

/// A number of bytes as people read it.
fn readable(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let power = ((bytes.max(1.0).log2() / 10.0) as usize).min(units.len() - 1);
    format!("{:.1} {}", bytes / 1024_f64.powi(power as i32), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(readable(0.0), "0.0 bytes");
        assert_eq!(readable(1536.0), "1.5 KiB");
        assert_eq!(readable(3.2e9), "3.0 GiB");
        assert_eq!(readable(1e300), format!("{:.1} TiB", 1e300 / 1024_f64.powi(4)));
    }
}
