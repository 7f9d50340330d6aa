//! Numbers of which the oldest go first.

use std::ops::{Deref, DerefMut, Range};

/// A vector whose first numbers are removed without moving the others: that is put off until there are as many gone as left.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue<T> {
    values: Vec<T>,
    gone: usize,
}

impl<T: Copy> Queue<T> {
    /// Removes the numbers at these places.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        if range.start > 0 {
            self.values.drain(self.gone + range.start..self.gone + range.end);
            return;
        }
        self.gone += range.len();
        if 2 * self.gone >= self.values.len() {
            self.values.drain(..self.gone);
            self.gone = 0;
        }
    }
}

impl<T> From<Vec<T>> for Queue<T> {
    fn from(values: Vec<T>) -> Self {
        Self { values, gone: 0 }
    }
}

impl<T> Extend<T> for Queue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

impl<T> Deref for Queue<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[self.gone..]
    }
}

impl<T> DerefMut for Queue<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.gone..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_stay_in_their_order() {
        let (mut queue, mut plain) = (Queue::default(), Vec::new());
        for i in 0..200 {
            queue.extend([i, -i]);
            plain.extend([i, -i]);
            let place = if i % 5 == 4 { (i % 3) as usize } else { 0 };
            if i > 20 {
                queue.remove(place..place + 2);
                plain.drain(place..place + 2);
            }
            assert_eq!(&queue[..], plain, "{i}");
        }
        assert!(queue.values.len() < 2 * plain.len() + 2);
    }
}
