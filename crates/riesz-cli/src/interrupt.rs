//! Ctrl-C.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Remembers that the user asked to stop; asked a second time, the program ends at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on, Ctrl-C and a polite kill are answered at the next convenient moment.
    pub(crate) fn listen() -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the second signal finds the flag set and ends the program. Where the system
            // refuses a handler, the signal keeps its default meaning.
            if flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked)).is_ok() {
                let _ = flag::register(signal, Arc::clone(&asked));
            }
        }
        Self(asked)
    }

    /// Whether the user has asked to stop.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
