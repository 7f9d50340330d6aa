//! A file that is replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file beside `path`, brings it to disk and gives it the name; on failure nothing is left of it.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    let folder = folder_of(path);
    #[cfg(unix)]
    let opened = File::open(folder)?;
    let (temporary, mut file) = create_temporary(folder)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    drop(file);
    if let Err(error) = written.and_then(|()| fs::rename(&temporary, path)) {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    // Some file systems have no such thing as bringing a folder to disk, and say so.
    #[cfg(unix)]
    opened.sync_all().or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    })?;
    Ok(())
}

/// Makes the folder of `path` where there is none, and sees that a file there can be replaced.
pub(crate) fn prepare(path: &Path) -> io::Result<()> {
    if path.is_dir() || path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "a folder, not the name of a file"));
    }
    let folder = folder_of(path);
    if folder.exists() && !folder.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    fs::create_dir_all(folder)?;
    let (temporary, file) = create_temporary(folder)?;
    drop(file);
    fs::remove_file(temporary)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A new file with a name nobody uses: other processes and other threads may save at the same time.
fn create_temporary(folder: &Path) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    let mut attempt = 0_u32;
    loop {
        let path = folder.join(format!(".riesz-{process}-{attempt}.tmp"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1_000 => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}
