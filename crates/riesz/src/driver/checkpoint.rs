//! Checkpoints: a model container that also holds where the fit stands.

use crate::data::Rows;
use crate::error::{Error, Result};
use crate::model::prepare;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where and how often a running fit is written to disk.
#[derive(Clone, Debug)]
pub struct CheckpointPolicy {
    /// The file; written atomically, removed when the fit has finished.
    pub path: PathBuf,
    /// Least time between two writes.
    pub every: Duration,
}

impl CheckpointPolicy {
    /// Makes the folder of the file where there is none, and sees that it can be written to: a fit should not find out
    /// after an hour.
    pub fn prepare(&self) -> Result<()> {
        prepare(&self.path).map_err(|source| Error::Io { path: self.path.clone(), source })
    }

    /// Removes the file of a fit that has finished.
    pub(crate) fn discard(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(Error::Io { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }
}

/// The clock of a [`CheckpointPolicy`].
#[derive(Debug)]
pub(crate) struct Due {
    last: Instant,
}

impl Due {
    pub(crate) fn new() -> Self {
        Self { last: Instant::now() }
    }

    /// Whether it is time to write again; if so the clock starts anew.
    pub(crate) fn now(&mut self, policy: &CheckpointPolicy) -> bool {
        let due = self.last.elapsed() >= policy.every;
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// A 64-bit fingerprint (FNV-1a over the words) of the data a fit runs on, to refuse a checkpoint of another fit.
/// A sparse matrix has that of the dense one.
pub fn fingerprint(rows: Rows<'_>, targets: &[f32], weights: &[f32]) -> u64 {
    let mut hash = Fnv::new();
    hash.word(rows.len() as u64);
    hash.word(rows.columns() as u64);
    rows.for_each_word(|word| hash.word(word));
    targets.iter().chain(weights).for_each(|v| hash.word(u64::from(v.to_bits())));
    hash.0
}

/// The fingerprint of words.
pub(crate) fn fingerprint_of(words: impl Iterator<Item = u64>) -> u64 {
    let mut hash = Fnv::new();
    words.for_each(|word| hash.word(word));
    hash.0
}

/// FNV-1a on 64-bit words.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
