//! What a race has found, so that a killed one goes on where it was.

use crate::driver::{CheckpointPolicy, Due};
use crate::error::{Error, Result};

/// Where the outlooks of a race are kept, and how.
struct Keep<'a> {
    policy: &'a CheckpointPolicy,
    write: &'a dyn Fn(&[f64]) -> Result<()>,
    due: Due,
}

/// The outlooks of a race's trials in their order. Which trial comes next follows from these alone, so they are all that a
/// checkpoint of a race holds: a resumed one repeats the trial it was killed in, and the winner's.
pub(crate) struct Findings<'a> {
    outlooks: Vec<f64>,
    /// Trials so far, of this run.
    trials: usize,
    keep: Option<Keep<'a>>,
}

impl<'a> Findings<'a> {
    /// Nothing yet, and nothing kept.
    pub(super) fn new() -> Self {
        Self { outlooks: Vec::new(), trials: 0, keep: None }
    }

    /// What an earlier run has found; `write` is called with all there is, as often as `policy` says.
    pub(super) fn kept(
        outlooks: Vec<f64>,
        policy: &'a CheckpointPolicy,
        write: &'a dyn Fn(&[f64]) -> Result<()>,
    ) -> Self {
        Self { outlooks, trials: 0, keep: Some(Keep { policy, write, due: Due::new() }) }
    }

    /// The outlook of the next trial, where an earlier run has found it.
    pub(super) fn next(&mut self) -> Option<f64> {
        let known = self.outlooks.get(self.trials).copied();
        self.trials += usize::from(known.is_some());
        known
    }

    /// Adds the outlook of a trial that nobody has known.
    pub(super) fn add(&mut self, outlook: f64) -> Result<()> {
        self.outlooks.push(outlook);
        self.trials = self.outlooks.len();
        if let Some(Keep { policy, write, due }) = &mut self.keep {
            if due.now(policy) {
                write(&self.outlooks)?;
            }
        }
        Ok(())
    }

    /// Compares a trial that was repeated with what an earlier run has found: a user's kernel is known by its name alone.
    pub(super) fn compare(known: f64, again: f64) -> Result<()> {
        match (known - again).abs() <= 1e-3 * known.abs().max(1.0) {
            true => Ok(()),
            false => Err(Error::Checkpoint("the results of its race differ".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::time::Duration;

    #[test]
    fn what_was_found_is_known_once_and_kept_when_due() {
        let written = RefCell::new(Vec::new());
        let write = |outlooks: &[f64]| {
            written.borrow_mut().push(outlooks.to_vec());
            Ok(())
        };
        let policy = |every| CheckpointPolicy { path: "unused".into(), every };
        let often = policy(Duration::ZERO);
        let mut findings = Findings::kept(vec![0.5, 0.25], &often, &write);
        assert_eq!([findings.next(), findings.next(), findings.next()], [Some(0.5), Some(0.25), None]);
        findings.add(0.125).unwrap();
        assert_eq!(findings.next(), None);
        assert_eq!(*written.borrow(), [[0.5, 0.25, 0.125]]);
        let seldom = policy(Duration::from_secs(3_600));
        Findings::kept(Vec::new(), &seldom, &write).add(1.0).unwrap();
        assert_eq!(written.borrow().len(), 1);
    }

    #[test]
    fn a_repeated_trial_agrees_to_rounding() {
        Findings::compare(-3.0, -3.0001).unwrap();
        let message = Findings::compare(-3.0, -3.1).unwrap_err().to_string();
        assert!(message.contains("race differ"), "{message}");
    }
}
