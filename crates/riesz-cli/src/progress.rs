//! The progress bar of a fit.

use indicatif::{ProgressBar, ProgressStyle};
use riesz::driver::{Phase, Progress};
use std::fmt::Write;
use std::time::Duration;

/// A bar on the terminal; nothing where there is no terminal or none is wanted.
pub(crate) struct Bar {
    bar: ProgressBar,
    phase: Option<Phase>,
}

impl Bar {
    /// A bar that has not begun.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(1) };
        let template = "{prefix:9} [{bar:32}] {pos}/{len} {elapsed:>4} {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar, phase: None }
    }

    /// Shows where a fit stands.
    pub(crate) fn show(&mut self, progress: &Progress) {
        if self.phase != Some(progress.phase) {
            self.phase = Some(progress.phase);
            self.bar.set_prefix(name(progress.phase));
        }
        self.bar.set_length(progress.most as u64);
        self.bar.set_position(progress.done as u64);
        self.bar.set_message(message(progress));
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Race => "bandwidth",
        Phase::Fit => "blocks",
        Phase::Absorb => "all rows",
        Phase::Ridge => "ridge",
        Phase::Stream => "stream",
        Phase::Posterior => "posterior",
        Phase::Hyperparameters => "hyper-parameters",
    }
}

fn message(progress: &Progress) -> String {
    let mut text = match progress.phase {
        Phase::Ridge => format!("residual {:.2e}", progress.loss),
        _ => format!("loss {:.4}", progress.loss),
    };
    if let Some(loss) = progress.held_out_loss {
        // Writing to a string cannot fail.
        let _ = write!(text, "  held-out loss {loss:.4}");
    }
    if let Some(error) = progress.held_out_error {
        let _ = write!(text, "  error {:.2} %", 100.0 * error);
    }
    text
}
