//! Checkpoints: a model container that also holds where the fit stands.

use crate::data::Rows;
use crate::error::{Error, Result};
use crate::model::prepare;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
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

/// What a fit runs on, part by part, each by a number that tells it from another: a checkpoint of another fit is refused by
/// the names of the parts that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// With one more part, whose numbers are `words`.
    pub fn with(self, part: &str, words: impl IntoIterator<Item = u64>) -> Self {
        let mut hash = Hash::new();
        words.into_iter().for_each(|word| hash.word(word));
        self.with_text(part, format!("{:016x}", hash.0))
    }

    /// With one more part, whose number is known as text.
    pub fn with_text(mut self, part: &str, text: String) -> Self {
        self.0.insert(part.to_owned(), text);
        self
    }

    /// Rows, targets and weights. Sparse rows are those of the dense matrix.
    pub fn of_rows(rows: Rows<'_>, targets: &[f32], weights: &[f32]) -> Self {
        let mut hash = Hash::new();
        hash.word(rows.len() as u64);
        hash.word(rows.columns() as u64);
        rows.for_each_word(|word| hash.word(word));
        let words = |values: &[f32]| values.iter().map(|v| u64::from(v.to_bits())).collect::<Vec<_>>();
        Self::default().with("X", [hash.0]).with("y", words(targets)).with("sample_weight", words(weights))
    }

    /// Refuses a fit that differs from the one that wrote a checkpoint.
    pub(crate) fn same(&self, given: &Self) -> Result<()> {
        let names = self.0.keys().chain(given.0.keys().filter(|name| !self.0.contains_key(*name)));
        let differing: Vec<&str> =
            names.filter(|name| self.0.get(*name) != given.0.get(*name)).map(String::as_str).collect();
        if differing.is_empty() {
            return Ok(());
        }
        Err(Error::Checkpoint(format!("these parts differ: {}", differing.join(", "))))
    }
}

/// h ← mix(h ⊕ word), mix the finalisation of SplitMix64. Mixing is a bijection, so two sequences that differ in one word
/// never have the same hash, and every bit of a word reaches every bit of it.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn word(&mut self, word: u64) {
        let mut z = (self.0 ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = z ^ (z >> 31);
    }
}

/// Refuses a checkpoint whose settings differ, by the names of those that do. `names` are pairs of a field and what
/// users call it.
pub(crate) fn same_settings<T: Serialize>(stored: &T, given: &T, names: &[(&str, &str)]) -> Result<()> {
    let fields = |settings: &T| match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) | Err(_) => Err(Error::Checkpoint("its settings have no names".into())),
    };
    let (stored, given) = (fields(stored)?, fields(given)?);
    let known =
        |field: &str| names.iter().find(|(own, _)| *own == field).map_or(field, |(_, name)| name).to_owned();
    let unequal = stored.iter().filter(|(field, value)| given.get(*field) != Some(value));
    let differing: Vec<String> = unequal.map(|(field, _)| known(field)).collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(Error::Checkpoint(format!("its settings differ: {}", differing.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two sign bits that change, as of any two bits, the second does not undo the first.
    #[test]
    fn two_changes_do_not_cancel() {
        let words: Vec<u64> = (0..64).map(|i| f64::from(i + 1).to_bits()).collect();
        let print = |words: &[u64]| Fingerprint::default().with("X", words.iter().copied());
        let own = print(&words);
        for (i, j) in (0..64).flat_map(|i| (0..64).map(move |j| (i, j))) {
            for (a, b) in [(63, 63), (0, 0), (63, 0), (52, 51)] {
                let mut changed = words.clone();
                changed[i] ^= 1 << a;
                changed[j] ^= 1 << b;
                assert!(changed == words || print(&changed).same(&own).is_err(), "{i} {j}");
            }
        }
    }

    #[test]
    fn parts_that_differ_are_named() {
        let own = Fingerprint::default().with("X", [1, 2]).with("y", [3]);
        assert!(own.same(&own.clone()).is_ok());
        let others = [own.clone().with("y", [4]), own.clone().with("y", [4]).with("prior", [])];
        let said = others.map(|other| own.same(&other).unwrap_err().to_string());
        assert!(said[0].contains("these parts differ: y;"), "{said:?}");
        assert!(said[1].contains("these parts differ: y, prior;"), "{said:?}");
    }

    #[test]
    fn settings_that_differ_are_named() {
        #[derive(Serialize)]
        struct Settings {
            particles: usize,
            growth: f64,
        }
        let (a, b) = (Settings { particles: 5, growth: 2.0 }, Settings { particles: 6, growth: 2.0 });
        assert!(same_settings(&a, &a, &[]).is_ok());
        let error = same_settings(&a, &b, &[("particles", "n_particles")]).unwrap_err().to_string();
        assert!(error.contains("its settings differ: n_particles;"), "{error}");
    }
}
