//! The most memory a thread holds beyond what it held at some time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator of the system, which is counted.
pub struct Counted;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    /// Where the thread is, to be told of a request that no machine can meet.
    pub static CASE: Cell<(&'static str, u64)> = const { Cell::new(("", 0)) };
}

/// Requests from here on are told of before they are made: the process may not outlive them.
const TOLD: usize = 1 << 33;

fn count(change: isize) {
    LIVE.with(|live| {
        live.set(live.get() + change);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn tell(size: usize) {
    if size >= TOLD {
        let (name, execution) = CASE.get();
        eprintln!("{name}, execution {execution}: {size} bytes at once");
    }
}

// SAFETY: every call is handed to the allocator of the system as it is.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        tell(layout.size());
        count(layout.size() as isize);
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        tell(layout.size());
        count(layout.size() as isize);
        System.alloc_zeroed(layout)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        tell(size);
        count(size as isize - layout.size() as isize);
        System.realloc(pointer, layout, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        System.dealloc(pointer, layout);
    }
}

/// What `work` returns, and the most bytes that it held at a time.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before).max(0) as usize)
}
