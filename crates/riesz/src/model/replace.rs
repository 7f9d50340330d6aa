//! A file that is replaced as a whole.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Most symbolic links from a name to its file, as of the operating system itself.
const MOST_LINKS: usize = 40;

/// Writes the file at `path`, all of it or nothing: into a new file beside it, which is brought to disk and given the name.
/// On failure nothing is left of that, and a file already there is as it was.
///
/// A file that is replaced leaves its permissions to the new one and, where the system allows it, its owner. A symbolic link
/// stays one: what it points to is replaced. What is no file, a pipe or a device, is written to.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let before = match fs::metadata(path) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if before.as_ref().is_some_and(|before| !before.is_file() && !before.is_dir()) {
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    let path = &followed(path)?;
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    let folder = folder_of(path);
    #[cfg(unix)]
    let opened = File::open(folder)?;
    let (temporary, mut file) = create_temporary(folder)?;
    let written = write(&mut file)
        .and_then(|()| before.map_or(Ok(()), |before| inherit(&file, &before)))
        .and_then(|()| file.sync_all());
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
    let path = followed(path)?;
    let folder = folder_of(&path);
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

/// Where symbolic links lead, whether there is a file or not.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // Not a link, or nothing at all.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other(format!("more than {MOST_LINKS} symbolic links")))
}

/// Gives a new file what it replaces: permissions always, owner and group where that is allowed.
fn inherit(file: &File, before: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{fchown, MetadataExt};
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
            // Only the superuser may give files away; others keep what they write.
            let _ = fchown(file, Some(before.uid()), Some(before.gid()));
        }
    }
    file.set_permissions(before.permissions())
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
