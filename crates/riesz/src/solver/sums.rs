//! Sums over rows that do not depend on how the rows are shared out.
//!
//! Addition in floating point is not associative, so its order must not follow the shards. Rows are cut into *leaves* of
//! a number of rows that follows from the whole problem; a leaf is summed from zero in the order of its rows, and leaves are
//! added as a binary tree over their numbers: a node is the sum of its two halves, whoever adds them. Shards that begin at
//! multiples of a leaf then give the same bits as one.

use crate::error::{Error, Result};
use std::ops::Range;

/// What is summed over rows.
pub trait Addend {
    /// Adds the sums of other rows.
    fn add(&mut self, other: &Self);
}

/// What some rows say about a step: nodes of the tree over the leaves, at most two per level.
pub struct Sums<P> {
    nodes: Vec<Node<P>>,
    /// Leaves of the whole problem.
    leaves: usize,
}

/// The sum of the leaves index·2^level, …, (index + 1)·2^level − 1.
struct Node<P> {
    level: u32,
    index: usize,
    part: P,
}

impl<P> Node<P> {
    fn leaves(&self) -> Range<usize> {
        self.index << self.level..(self.index + 1) << self.level
    }
}

impl<P> Default for Sums<P> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<P> Sums<P> {
    pub(super) fn new(leaves: usize) -> Self {
        Self { nodes: Vec::new(), leaves }
    }
}

impl<P: Addend> Sums<P> {
    /// Adds the sums of other rows.
    pub fn add(&mut self, other: Self) {
        self.leaves = self.leaves.max(other.leaves);
        other.nodes.into_iter().for_each(|node| self.insert(node, &mut Vec::new()));
    }

    /// Adds leaf number `index`; what is no longer needed goes to `spare`.
    pub(super) fn add_leaf(&mut self, index: usize, part: P, spare: &mut Vec<P>) {
        self.insert(Node { level: 0, index, part }, spare);
    }

    /// Halves of the same node become one, as often as that is possible.
    fn insert(&mut self, mut node: Node<P>, spare: &mut Vec<P>) {
        loop {
            let place = self.nodes.partition_point(|other| other.leaves().start < node.leaves().start);
            let beside = if node.index.is_multiple_of(2) { Some(place) } else { place.checked_sub(1) };
            let is_half = |other: &Node<P>| other.level == node.level && other.index == node.index ^ 1;
            let Some(at) = beside.filter(|&at| self.nodes.get(at).is_some_and(is_half)) else {
                return self.nodes.insert(place, node);
            };
            let other = self.nodes.remove(at);
            let (mut left, right) = if at < place { (other, node) } else { (node, other) };
            left.part.add(&right.part);
            spare.push(right.part);
            node = Node { level: left.level + 1, index: left.index / 2, part: left.part };
        }
    }

    /// The sum over all leaves, each of which must be there once.
    pub fn total(self, spare: &mut Vec<P>) -> Result<P> {
        let mut sum: Option<P> = None;
        let mut end = 0;
        for node in self.nodes {
            let leaves = node.leaves();
            if leaves.start != end {
                return Err(Error::Shards { leaf: end.min(leaves.start), leaves: self.leaves });
            }
            end = leaves.end;
            match &mut sum {
                None => sum = Some(node.part),
                Some(sum) => {
                    sum.add(&node.part);
                    spare.push(node.part);
                }
            }
        }
        sum.filter(|_| end == self.leaves).ok_or(Error::Shards { leaf: end, leaves: self.leaves })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Part {
        loss: f64,
        mass: f64,
    }

    impl Addend for Part {
        fn add(&mut self, other: &Self) {
            self.loss += other.loss;
            self.mass += other.mass;
        }
    }

    fn leaf(value: f64) -> Part {
        Part { loss: value, mass: 1.0 }
    }

    fn sums(leaves: usize, of: impl Iterator<Item = usize>) -> Sums<Part> {
        let mut sums = Sums::new(leaves);
        of.for_each(|i| {
            sums.add_leaf(i, leaf(0.1 + (i as f64).sqrt() * 1e3_f64.powi(i as i32 % 5)), &mut Vec::new())
        });
        sums
    }

    /// Whatever the order of the leaves and the split: the same bits, and few nodes on the way.
    #[test]
    fn the_order_of_addition_does_not_depend_on_the_split() {
        for leaves in [1, 2, 3, 7, 8, 13, 64, 100] {
            let whole = sums(leaves, 0..leaves);
            assert!(whole.nodes.len() <= 8);
            let expected = whole.total(&mut Vec::new()).unwrap();
            assert_eq!(expected.mass, leaves as f64);
            for cut in 0..=leaves {
                let mut right = sums(leaves, cut..leaves);
                assert!(right.nodes.len() <= 14);
                right.add(sums(leaves, (0..cut).rev()));
                let found = right.total(&mut Vec::new()).unwrap();
                assert_eq!(found.loss.to_bits(), expected.loss.to_bits(), "{cut} of {leaves}");
            }
        }
    }

    #[test]
    fn missing_and_repeated_leaves_are_refused() {
        let error = |of: &[usize]| {
            let error = sums(5, of.iter().copied()).total(&mut Vec::new()).err().unwrap();
            matches!(error, Error::Shards { leaves: 5, .. }).then(|| error.to_string()).unwrap()
        };
        assert!(error(&[]).contains("leaf 0 of 5"));
        assert!(error(&[0, 1, 3, 4]).contains("leaf 2 of 5"));
        assert!(error(&[0, 1, 2, 3]).contains("leaf 4 of 5"));
        assert!(error(&[0, 1, 1, 2, 3, 4]).contains("leaf 1 of 5"));
    }
}
