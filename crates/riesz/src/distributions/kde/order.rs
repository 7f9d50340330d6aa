//! Points in the order of a k-d tree, so that neighbours in memory are neighbours in space.

use std::ops::Range;

/// The smallest box with sides along the axes that holds some points.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub low: Vec<f64>,
    pub high: Vec<f64>,
}

impl Extent {
    /// The box of rows of `columns` numbers.
    pub(super) fn of<'a>(mut rows: impl Iterator<Item = &'a [f64]>, columns: usize) -> Self {
        let first = rows.next().map_or_else(|| vec![0.0; columns], <[f64]>::to_vec);
        let (mut low, mut high) = (first.clone(), first);
        for row in rows {
            for ((x, low), high) in row.iter().zip(&mut low).zip(&mut high) {
                *low = low.min(*x);
                *high = high.max(*x);
            }
        }
        Self { low, high }
    }

    /// Its centre.
    pub(super) fn middle(&self) -> Vec<f64> {
        self.low.iter().zip(&self.high).map(|(l, h)| 0.5 * (l + h)).collect()
    }

    /// The widest axis and half its width.
    pub(super) fn widest(&self) -> (usize, f64) {
        let widths = self.low.iter().zip(&self.high).map(|(l, h)| 0.5 * (h - l)).enumerate();
        widths.fold((0, 0.0), |most, axis| if axis.1 > most.1 { axis } else { most })
    }

    /// Half the length of its diagonal.
    pub(super) fn radius(&self) -> f64 {
        0.5 * self.low.iter().zip(&self.high).map(|(l, h)| (h - l) * (h - l)).sum::<f64>().sqrt()
    }

    /// The squares of the least and of the largest distance between points of two boxes.
    pub(super) fn squared_distances(&self, other: &Self) -> (f64, f64) {
        let (mut least, mut most) = (0.0, 0.0);
        for k in 0..self.low.len() {
            let gap = (other.low[k] - self.high[k]).max(self.low[k] - other.high[k]).max(0.0);
            let span = (other.high[k] - self.low[k]).max(self.high[k] - other.low[k]);
            least += gap * gap;
            most += span * span;
        }
        (least, most)
    }
}

/// Points of one leaf: a range of the order, and its box.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub range: Range<usize>,
    pub extent: Extent,
}

/// How far a tree is divided.
pub(super) trait Leaves: Sync {
    /// Whether so many points in such a box are a leaf; one point always is.
    fn is_leaf(&self, count: usize, extent: &Extent) -> bool;
    /// The left half of a division is a multiple of it, where it can be.
    fn multiple(&self) -> usize;
}

/// An order of the points and its leaves: boxes are divided at the median of their widest axis.
pub(super) fn order(points: &[f64], columns: usize, leaves: &impl Leaves) -> (Vec<u32>, Vec<Leaf>) {
    let count = points.len() / columns;
    let mut indices: Vec<u32> = (0..count as u32).collect();
    let mut found = Vec::new();
    let mut open: Vec<_> = std::iter::once(0..count).collect();
    while let Some(range) = open.pop() {
        let part = &mut indices[range.clone()];
        let row = |&i: &u32| &points[i as usize * columns..(i as usize + 1) * columns];
        let extent = Extent::of(part.iter().map(row), columns);
        if part.len() <= 1 || leaves.is_leaf(part.len(), &extent) {
            found.push(Leaf { range, extent });
            continue;
        }
        let half = part.len().div_ceil(2).next_multiple_of(leaves.multiple());
        let half = if half < part.len() { half } else { part.len() / 2 };
        let (axis, _) = extent.widest();
        part.select_nth_unstable_by(half, |a, b| row(a)[axis].total_cmp(&row(b)[axis]).then(a.cmp(b)));
        let middle = range.start + half;
        open.push(middle..range.end);
        open.push(range.start..middle);
    }
    (indices, found)
}
