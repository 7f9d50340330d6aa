//! Panics that are caught and say nothing.

use std::cell::Cell;
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

thread_local! {
    /// Whether a panic of this thread is expected.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// Reports a panic to `before`, unless it is expected.
fn report<P>(panic: P, before: impl Fn(P)) {
    if !EXPECTED.get() {
        before(panic);
    }
}

/// Does `work` and catches its panic, of which nothing is written to the standard error. Panics of other threads are reported as
/// before.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| report(panic, &before)));
    });
    EXPECTED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    EXPECTED.set(false);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_panics_are_caught_and_not_reported() {
        let reports = || {
            let count = Cell::new(0);
            report((), |()| count.set(count.get() + 1));
            count.get()
        };
        assert_eq!(reports(), 1);
        assert_eq!(caught(reports).unwrap(), 0);
        assert!(caught(|| panic!("nobody should read this")).is_err());
        // Afterwards, and in other threads meanwhile, panics are reported.
        assert_eq!(reports(), 1);
        assert_eq!(caught(|| thread::scope(|scope| scope.spawn(reports).join().unwrap())).unwrap(), 1);
    }
}
