//! Large scratch memory on huge pages.
//!
//! The Gram kernels walk tens of megabytes with large strides. On four-kilobyte pages, and more so inside a virtual
//! machine, address translation then costs several times the arithmetic (measured: 3×).

use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Size and alignment of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Those of a plain page, of which processors translate a few dozen at no cost.
const PAGE: usize = 4 << 10;
/// Most bytes on plain pages: to clear a huge one costs a small fit more than all the rest.
const FEW: usize = 64 * PAGE;

/// Numbers for which all bits zero is zero.
pub(crate) trait Number: Copy + Send + Sync + 'static {}
impl Number for f32 {}
impl Number for f64 {}
impl Number for u16 {}

/// A resizable slice of numbers, aligned to huge pages unless it is small; growing it forgets its contents.
pub(crate) struct Buffer<T: Number> {
    start: NonNull<T>,
    len: usize,
    bytes: usize,
}

// SAFETY: a buffer owns its memory and hands it out only through & and &mut of itself.
unsafe impl<T: Number> Send for Buffer<T> {}
// SAFETY: as above; shared access is read-only.
unsafe impl<T: Number> Sync for Buffer<T> {}

impl<T: Number> Default for Buffer<T> {
    fn default() -> Self {
        Self { start: NonNull::dangling(), len: 0, bytes: 0 }
    }
}

impl<T: Number> Buffer<T> {
    /// Makes the length `len`; new memory is zero, old contents stay unless the memory has to grow.
    pub(crate) fn resize(&mut self, len: usize) {
        let needed = len * size_of::<T>();
        let needed = needed.next_multiple_of(page(needed));
        if needed > self.bytes {
            // The old memory goes first: two of these need not fit at once.
            *self = Self::default();
            self.allocate(needed);
        }
        self.len = len;
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, page(bytes)).ok()
    }

    fn allocate(&mut self, bytes: usize) {
        let Some(layout) = Self::layout(bytes) else { return };
        // SAFETY: the layout is not empty; the memory is advised before its first touch, then zeroed in full.
        unsafe {
            let Some(start) = NonNull::new(alloc(layout)) else { handle_alloc_error(layout) };
            #[cfg(all(target_os = "linux", not(miri)))]
            if page(bytes) == HUGE_PAGE {
                libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
            }
            start.as_ptr().write_bytes(0, bytes);
            self.start = start.cast();
        }
        self.bytes = bytes;
    }
}

/// Size of the pages for so many bytes; rounded up to pages, they have the same.
fn page(bytes: usize) -> usize {
    if bytes > FEW {
        HUGE_PAGE
    } else {
        PAGE
    }
}

impl<T: Number> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.bytes).filter(|_| self.bytes > 0) {
            // SAFETY: allocated with this layout by `allocate`.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl<T: Number> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` numbers were zeroed at allocation, and any bits are a number.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Number> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the buffer is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_zeroed_and_keeps_its_contents_otherwise() {
        let mut buffer = Buffer::<f32>::default();
        assert!(buffer.is_empty());
        buffer.resize(10);
        assert_eq!(&*buffer, &[0.0; 10]);
        buffer[9] = 3.0;
        buffer.resize(5);
        buffer.resize(10);
        assert_eq!(buffer[9], 3.0);
        buffer.resize(HUGE_PAGE);
        assert!(buffer.iter().all(|&v| v == 0.0) && buffer.len() == HUGE_PAGE);
    }

    #[test]
    fn pages_are_huge_where_they_are_many() {
        for (bytes, held, alignment) in [
            (1, PAGE, PAGE),
            (FEW - 1, FEW, PAGE),
            (FEW, FEW, PAGE),
            (FEW + 1, HUGE_PAGE, HUGE_PAGE),
            (HUGE_PAGE + 1, 2 * HUGE_PAGE, HUGE_PAGE),
        ] {
            let mut buffer = Buffer::<u16>::default();
            buffer.resize(bytes.div_ceil(2));
            assert_eq!(buffer.bytes, held);
            assert!(buffer.start.as_ptr().addr().is_multiple_of(alignment));
        }
    }
}
