//! What has a file.

use super::Container;
use crate::error::{Error, Result};
use std::path::Path;

/// A model or a checkpoint: whoever says how it becomes a [`Container`], and comes out of one again, has files and bytes.
///
/// Equal values give equal bytes: no clock, host or number of threads is in them.
///
/// ```
/// use riesz::model::{Container, Stored};
/// use riesz::Result;
///
/// #[derive(Debug, PartialEq)]
/// struct Line { slope: f64 }
///
/// impl Stored for Line {
///     const KIND: &'static str = "model";
///
///     fn store(&self, container: &mut Container) -> Result<()> {
///         container.insert("slope", vec![], vec![self.slope])
///     }
///
///     fn restore(container: &mut Container) -> Result<Self> {
///         Ok(Self { slope: container.take_f64s("slope", &[])?[0] })
///     }
/// }
///
/// let line = Line { slope: 0.5 };
/// assert_eq!(Line::from_bytes(&line.to_bytes()?)?, line);
/// # Ok::<(), riesz::Error>(())
/// ```
pub trait Stored: Sized {
    /// The kind of file, as its header says; `model/header.rs` has the list of kinds.
    const KIND: &'static str;

    /// Adds fields and tensors to an empty container.
    fn store(&self, container: &mut Container) -> Result<()>;

    /// Takes out what [`Stored::store`] put in. Whatever it refuses is reported as a fault of the file.
    fn restore(container: &mut Container) -> Result<Self>;

    /// The container, to whose header a caller may add fields of its own.
    fn to_container(&self) -> Result<Container> {
        let mut container = Container::new(Self::KIND);
        self.store(&mut container)?;
        Ok(container)
    }

    /// Reads a container of this kind.
    fn from_container(mut container: Container) -> Result<Self> {
        container.expect_kind(Self::KIND)?;
        Self::restore(&mut container).map_err(in_file)
    }

    /// The bytes of the file.
    fn to_bytes(&self) -> Result<Vec<u8>> {
        self.to_container()?.to_bytes()
    }

    /// Reads the bytes of a file.
    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::from_container(Container::from_bytes(bytes)?)
    }

    /// Writes the file, all of it or nothing.
    fn save(&self, path: &Path) -> Result<()> {
        self.to_container()?.save(path)
    }

    /// Reads the file.
    fn load(path: &Path) -> Result<Self> {
        Self::from_container(Container::load(path)?)
    }
}

/// A value that is refused is a fault of the file it was read from.
fn in_file(error: Error) -> Error {
    match error {
        Error::Format(_) | Error::KernelMissing { .. } | Error::Checkpoint(_) => error,
        refused => Error::Format(refused.to_string()),
    }
}
