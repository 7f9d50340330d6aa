//! Categories and missing numbers as columns of numbers.
//!
//! A category becomes a column of indicators for each of its values. A number that is missing in some rows becomes two columns: the
//! number, with its mean in those rows, and an indicator of them.

use super::cell::{cell_reason, is_missing};
use super::csv;
use super::reader::{Format, ReadOptions, TargetColumn};
use super::source::{parse_error, Source};
use super::table::column_name;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Values of a category that have a column of their own; rarer ones share one.
pub const MOST_VALUES: usize = 254;
/// Values of a category that are counted.
const MOST_COUNTED: usize = 1 << 16;

/// What becomes of a column that is not numbers alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Coding {
    /// A number that may be missing, and whether it is.
    Filled {
        /// What stands where it is missing.
        mean: f32,
    },
    /// An indicator for each value, zeros for one that is not known.
    Category {
        /// The values, in ascending order.
        values: Vec<String>,
        /// Whether values beyond these share an indicator.
        others: bool,
        /// Whether there is an indicator for none.
        missing: bool,
    },
}

impl Coding {
    /// How many columns it makes.
    pub fn width(&self) -> usize {
        match self {
            Self::Filled { .. } => 2,
            Self::Category { values, others, missing } => {
                values.len() + usize::from(*others) + usize::from(*missing)
            }
        }
    }

    /// The number that stands for the text of a cell until columns are expanded, NaN for a missing one; none where the text should have
    /// been a number.
    pub(super) fn code(&self, cell: &str) -> Option<f32> {
        let Self::Category { values, others, missing } = self else {
            let number = || cell.parse().ok().filter(|value: &f32| value.is_finite());
            return if is_missing(cell) { Some(f32::NAN) } else { number() };
        };
        let known = |text: &str| values.binary_search_by(|value| value.as_str().cmp(text)).ok();
        // Whole numbers, which some programs write with a decimal point.
        let whole = || cell.parse::<f64>().ok().filter(|v| v.fract() == 0.0 && v.abs() < 1e15);
        let place = match is_missing(cell) {
            true => missing.then_some(values.len() + usize::from(*others)),
            false => known(cell)
                .or_else(|| whole().and_then(|value| known(&format!("{value:.0}"))))
                .or_else(|| others.then_some(values.len())),
        };
        Some(place.map_or(-1.0, |place| place as f32))
    }

    fn expand(&self, code: f32, out: &mut [f32]) {
        match self {
            Self::Filled { mean } if code.is_nan() => (out[0], out[1]) = (*mean, 1.0),
            Self::Filled { .. } => out[0] = code,
            Self::Category { .. } if code >= 0.0 => out[code as usize] = 1.0,
            Self::Category { .. } => {}
        }
    }

    fn check(&self) -> Result<()> {
        let right = match self {
            Self::Filled { mean } => mean.is_finite(),
            Self::Category { values, .. } => values.is_sorted_by(|a, b| a < b) && self.width() > 0,
        };
        match right {
            true => Ok(()),
            false => Err(Error::Format("values of a category, or the mean of a column".into())),
        }
    }
}

/// How many columns all make, which are numbers as they are where there is no coding.
pub fn width(codings: &[Option<Coding>]) -> usize {
    codings.iter().map(|coding| coding.as_ref().map_or(1, Coding::width)).sum()
}

/// Refuses what a file may have made up.
pub fn check(codings: &[Option<Coding>]) -> Result<()> {
    codings.iter().flatten().try_for_each(Coding::check)
}

/// Rows of codes as rows of numbers.
pub(super) fn expand(codings: &[Option<Coding>], codes: &[f32]) -> Vec<f32> {
    let width = width(codings);
    let mut out = vec![0.0; codes.len() / codings.len() * width];
    for (codes, mut out) in codes.chunks_exact(codings.len()).zip(out.chunks_exact_mut(width)) {
        for (coding, &code) in codings.iter().zip(codes) {
            let (own, rest) = out.split_at_mut(coding.as_ref().map_or(1, Coding::width));
            match coding {
                Some(coding) => coding.expand(code, own),
                None => own[0] = code,
            }
            out = rest;
        }
    }
    out
}

/// What the cells of a column are.
#[derive(Default)]
struct Seen {
    numbers: u64,
    sum: f64,
    missing: u64,
    texts: u64,
    /// Whether values are counted: of a column whose first known cell is text, or that turned out to be one.
    is_text: bool,
    counts: HashMap<String, u64>,
    /// The first cell of text, its file and its line.
    text: Option<(PathBuf, usize, String)>,
    /// Whether text would be a number with a point for its comma.
    has_commas: bool,
}

impl Seen {
    fn add(&mut self, cell: &str, path: &Path, line: usize) {
        if is_missing(cell) {
            self.missing += 1;
            return;
        }
        match cell.parse::<f64>() {
            Ok(number) => (self.numbers, self.sum) = (self.numbers + 1, self.sum + number),
            Err(_) => {
                self.is_text |= self.numbers + self.texts == 0;
                self.texts += 1;
                self.has_commas |= cell.replace(',', ".").parse::<f64>().is_ok();
                self.text.get_or_insert_with(|| (path.to_path_buf(), line, cell.to_owned()));
            }
        }
        if self.is_text && (self.counts.len() < MOST_COUNTED || self.counts.contains_key(cell)) {
            *self.counts.entry(cell.to_owned()).or_default() += 1;
        }
    }

    /// Text where it is at least half of what is known: less are mistakes among numbers, and so are decimal commas.
    fn is_category(&self) -> bool {
        self.texts > 0 && self.texts >= self.numbers && !self.has_commas
    }

    fn coding(self) -> Option<Coding> {
        if !self.is_category() {
            let mean = self.sum / (self.numbers as f64).max(1.0);
            return (self.missing > 0).then_some(Coding::Filled { mean: mean as f32 });
        }
        let mut counts: Vec<(String, u64)> = self.counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let others = counts.len() > MOST_VALUES;
        counts.truncate(MOST_VALUES);
        let mut values: Vec<String> = counts.into_iter().map(|(value, _)| value).collect();
        values.sort();
        Some(Coding::Category { values, others, missing: self.missing > 0 })
    }
}

/// Looks through delimited text for columns of text and missing numbers, in the order of the first file; nothing where all columns are
/// numbers, or the files are of another format. Refuses text among numbers.
pub fn survey(files: &[PathBuf], options: &ReadOptions) -> Result<Vec<Option<Coding>>> {
    let mut text = Vec::new();
    loop {
        let (seen, names) = look(files, options, &text)?;
        let found: Vec<bool> = seen.iter().map(Seen::is_category).collect();
        for (column, seen) in seen.iter().enumerate().filter(|(_, seen)| !seen.is_category()) {
            if let Some((path, line, cell)) = &seen.text {
                let reason = cell_reason(&column_name(&names, 0, column), cell.as_bytes());
                return Err(parse_error(path, *line, reason));
            }
        }
        if seen.iter().zip(&found).all(|(seen, &is)| seen.is_text == is) {
            let codings: Vec<_> = seen.into_iter().map(Seen::coding).collect();
            return Ok(if codings.iter().all(Option::is_none) { Vec::new() } else { codings });
        }
        text = found;
    }
}

/// One look through the files, where values of columns known to be text are counted.
fn look(files: &[PathBuf], options: &ReadOptions, text: &[bool]) -> Result<(Vec<Seen>, Vec<String>)> {
    let (mut options, mut seen) = (options.clone(), Vec::new());
    for path in files {
        if !matches!(options.format_of(path)?, Format::Text | Format::Tabs) {
            return Ok((Vec::new(), Vec::new()));
        }
        let target = csv::for_each_cell(Source::open(path)?, &mut options, &mut |feature, cell, line| {
            if feature >= seen.len() {
                let is_text = |column| Seen { is_text: text.get(column) == Some(&true), ..Seen::default() };
                seen.extend((seen.len()..=feature).map(is_text));
            }
            seen[feature].add(cell, path, line);
        })?;
        if let (Some(target), false) = (target, options.names.is_empty()) {
            options.target = TargetColumn::NamedOr(target, Box::new(options.target));
        }
    }
    Ok((seen, options.names))
}

#[cfg(test)]
mod tests {
    use super::super::reader::{read_bytes, Values};
    use super::*;
    use proptest::prelude::*;

    fn category(values: &[&str], others: bool, missing: bool) -> Coding {
        Coding::Category { values: values.iter().map(|&value| value.to_owned()).collect(), others, missing }
    }

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("riesz-coding-{}-{name}.csv", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    fn surveyed(name: &str, text: &str) -> Result<Vec<Option<Coding>>> {
        let path = file(name, text);
        let options = ReadOptions { target: TargetColumn::Last, ..ReadOptions::default() };
        let found = survey(std::slice::from_ref(&path), &options);
        std::fs::remove_file(path).unwrap();
        found
    }

    #[test]
    fn columns_are_told_by_what_they_hold() {
        let text = "x,colour,n,y\n1,red,7,0\n,blue,8,1\n3,NA,9,1\n5,red,9,0\n";
        let codings = surveyed("kinds", text).unwrap();
        let colour = category(&["blue", "red"], false, true);
        assert_eq!(codings, [Some(Coding::Filled { mean: 3.0 }), Some(colour), None]);
        assert_eq!(width(&codings), 6);
        let options = ReadOptions { target: TargetColumn::Last, codings, ..ReadOptions::default() };
        let table = read_bytes("t.csv", text.as_bytes(), &options).unwrap().features;
        let rows = [
            [1.0, 0.0, 0.0, 1.0, 0.0, 7.0],
            [3.0, 1.0, 1.0, 0.0, 0.0, 8.0],
            [3.0, 0.0, 0.0, 0.0, 1.0, 9.0],
            [5.0, 0.0, 0.0, 1.0, 0.0, 9.0],
        ];
        assert_eq!((table.values, table.columns), (Values::Dense(rows.concat()), 6));
        assert!(surveyed("numbers", "x,y\n1,2\n3,4\n").unwrap().is_empty());
    }

    /// A column of text may begin with numbers: it is looked at once more, so that these are counted too.
    #[test]
    fn text_is_found_wherever_it_begins() {
        let codings = surveyed("late", "x,y\n1,2\n1,3\nb,4\nc,4\nd,4\n").unwrap();
        assert_eq!(codings, [Some(category(&["1", "b", "c", "d"], false, false))]);
    }

    #[test]
    fn mistakes_among_numbers_are_no_categories() {
        let error = surveyed("typo", "x,y\n1,2\n3,3\n4O,4\n").unwrap_err().to_string();
        assert!(error.contains("line 4") && error.contains("\"4O\""), "{error}");
        let error = surveyed("comma", "x;y\n1,5;2\n3,5;3\n").unwrap_err().to_string();
        assert!(error.contains("decimal point"), "{error}");
    }

    #[test]
    fn the_columns_of_several_files_may_have_another_order() {
        let [one, two] = [("one", "a,b,y\n1,u,0\n"), ("two", "y,b,a\n1,v,\n")].map(|(n, t)| file(n, t));
        let options = ReadOptions { target: TargetColumn::Name("y".into()), ..ReadOptions::default() };
        let codings = survey(&[one.clone(), two.clone()], &options).unwrap();
        assert_eq!(codings, [Some(Coding::Filled { mean: 1.0 }), Some(category(&["u", "v"], false, false))]);
        std::fs::remove_file(one).unwrap();
        std::fs::remove_file(two).unwrap();
    }

    #[test]
    fn values_nobody_knows_have_no_indicator() {
        let plain = category(&["1", "a"], false, false);
        assert_eq!(
            ["1", "1.0", "a", "b", "", "1.5"].map(|cell| plain.code(cell).unwrap()),
            [0.0, 0.0, 1.0, -1.0, -1.0, -1.0]
        );
        let both = category(&["1", "a"], true, true);
        assert_eq!(["b", "NA"].map(|cell| both.code(cell).unwrap()), [2.0, 3.0]);
        let mean = Coding::Filled { mean: 2.0 };
        assert!(
            mean.code("?").unwrap().is_nan() && mean.code("text").is_none() && mean.code("inf").is_none()
        );
    }

    #[test]
    fn what_a_file_made_up_is_refused() {
        for coding in [category(&["b", "a"], false, false), category(&["a", "a"], true, true)] {
            assert!(check(&[None, Some(coding)]).is_err());
        }
        assert!(check(&[Some(category(&[], false, false))]).is_err());
        assert!(check(&[Some(Coding::Filled { mean: f32::NAN })]).is_err());
    }

    proptest! {
        /// Every row has one indicator of a category whose values are all known, and its place is that of the value.
        #[test]
        fn one_indicator_is_set(cells in prop::collection::vec("[a-d]{0,2}", 1..40)) {
            let text = cells.iter().fold("c,y\n".to_owned(), |text, cell| text + cell + ",1\n");
            prop_assume!(cells.iter().any(|cell| !is_missing(cell)));
            let codings = surveyed("law", &text).unwrap();
            let Some(Some(Coding::Category { values, .. })) = codings.first() else { panic!("{codings:?}") };
            let options = ReadOptions { target: TargetColumn::Last, codings: codings.clone(), ..ReadOptions::default() };
            let table = read_bytes("t.csv", text.as_bytes(), &options).unwrap().features;
            let Values::Dense(rows) = &table.values else { panic!() };
            for (row, cell) in rows.chunks_exact(table.columns).zip(&cells) {
                prop_assert_eq!(row.iter().sum::<f32>(), 1.0);
                let place = row.iter().position(|&v| v == 1.0).unwrap();
                prop_assert_eq!(values.get(place).map_or("", String::as_str), cell);
            }
        }
    }
}
