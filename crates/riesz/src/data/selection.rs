//! Which columns of a file become features, and in which order.

use super::reader::ReadOptions;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::path::Path;

/// What becomes of the columns of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// Where each feature of the file belongs; none where the order of the file is right.
    order: Option<Vec<usize>>,
    /// The column that is read over.
    pub(super) unread: Option<usize>,
}

impl Selection {
    /// Compares the columns of a file, of which one may be the target, with those that are wanted. A file without names is
    /// taken as it is: its columns are told by their number alone.
    pub(super) fn new(
        found: &[String],
        target: Option<usize>,
        options: &ReadOptions,
        path: &Path,
    ) -> Result<Self> {
        let named = |name: &String| options.unread.as_ref() == Some(name);
        let wanted: HashMap<&str, usize> =
            options.names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let others = || found.iter().enumerate().filter(|(column, _)| Some(*column) != target);
        if wanted.is_empty() || found.is_empty() {
            let unread = others().find(|(_, name)| named(name)).map(|(column, _)| column);
            return Ok(Self { order: None, unread });
        }
        let (mut order, mut extra, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        let (mut there, mut unread) = (vec![false; options.names.len()], None);
        for (column, name) in others() {
            match wanted.get(name.as_str()) {
                Some(&place) if there[place] => repeated.push(name.clone()),
                Some(&place) => {
                    there[place] = true;
                    order.push(place);
                }
                None if named(name) && unread.is_none() => unread = Some(column),
                None => extra.push(name.clone()),
            }
        }
        let missing: Vec<_> = options
            .names
            .iter()
            .zip(&there)
            .filter(|(_, &there)| !there)
            .map(|(name, _)| name.clone())
            .collect();
        if !(missing.is_empty() && extra.is_empty() && repeated.is_empty()) {
            return Err(Error::ColumnNames { path: path.to_path_buf(), missing, extra, repeated });
        }
        let sorted = order.iter().enumerate().all(|(column, &place)| column == place);
        Ok(Self { order: (!sorted).then_some(order), unread })
    }

    /// Where a feature of the file belongs.
    pub(super) fn place(&self, feature: usize) -> usize {
        self.order.as_ref().map_or(feature, |order| order[feature])
    }

    /// Brings the columns of every row into their order: of values, or of the one row of their names.
    pub(super) fn arrange<T: Clone + Default>(&self, values: &mut [T]) {
        let Some(order) = &self.order else { return };
        let mut row = vec![T::default(); order.len()];
        for values in values.chunks_exact_mut(order.len().max(1)) {
            row.clone_from_slice(values);
            order.iter().zip(&row).for_each(|(&place, value)| values[place] = value.clone());
        }
    }
}

/// Whether these are the names of columns: every wanted name is among them, though they may all look like numbers.
pub(super) fn names_columns<'a>(
    mut cells: impl Iterator<Item = std::borrow::Cow<'a, str>>,
    wanted: &[String],
) -> bool {
    let mut missing: std::collections::HashSet<&str> = wanted.iter().map(String::as_str).collect();
    !wanted.is_empty() && cells.any(|cell| missing.remove(&*cell) && missing.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(found: &[&str], target: Option<usize>, names: &[&str]) -> Result<Selection> {
        let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let options = ReadOptions { names: text(names), unread: Some("y".into()), ..ReadOptions::default() };
        Selection::new(&text(found), target, &options, Path::new("t.csv"))
    }

    #[test]
    fn columns_are_brought_into_their_order() {
        let selection = select(&["c", "y", "a", "b"], None, &["a", "b", "c"]).unwrap();
        assert_eq!(selection, Selection { order: Some(vec![2, 0, 1]), unread: Some(1) });
        let mut values = [3.0, 1.0, 2.0, 30.0, 10.0, 20.0];
        selection.arrange(&mut values);
        assert_eq!(values, [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
        assert_eq!(select(&["a", "y"], Some(1), &["a"]).unwrap(), Selection::default());
        assert_eq!(select(&["b", "a"], None, &[]).unwrap(), Selection::default());
        assert_eq!(select(&[], None, &["a"]).unwrap(), Selection::default());
        // A name that is wanted is not left out.
        assert_eq!(select(&["y"], None, &["y"]).unwrap(), Selection::default());
    }

    #[test]
    fn other_columns_are_named() {
        let error = select(&["a", "z", "a"], None, &["a", "b\n"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "t.csv: the columns are not those the model was fitted on: \"b\\n\" missing, \"z\" unknown, \"a\" there twice"
        );
    }

    #[test]
    fn names_may_look_like_numbers() {
        let cells = |text: &'static str| text.split(',').map(std::borrow::Cow::Borrowed);
        let wanted = ["1".to_owned(), "2".to_owned()];
        assert!(names_columns(cells("2,9,1"), &wanted));
        assert!(!names_columns(cells("2,2"), &wanted) && !names_columns(cells("2"), &[]));
    }
}
