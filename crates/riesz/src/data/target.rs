//! The target of a data file: text first, numbers or classes when the task is known.

use super::cell::is_missing;
use super::source::parse_error;
use super::spellings::Spellings;
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Integer targets with at most this many distinct values are taken for classes by [`RawTarget::guess`].
const MAX_GUESSED_CLASSES: usize = 20;

/// The target as the file spells it. The task decides what it means: [`numbers`](Self::numbers) for
/// regression, [`labels`](Self::labels) for classification, [`guess`](Self::guess) where nobody said.
#[derive(Clone, Debug)]
pub struct RawTarget {
    name: String,
    path: PathBuf,
    pub(super) cells: Cells,
    not_a_number: Option<(usize, usize)>,
}

/// The cells of a target.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    /// As text.
    Text { text: String, ends: Vec<usize> },
    /// As numbers, all finite, of a file that holds no text; `single` where it holds single precision.
    Numbers { values: Vec<f64>, single: bool },
}

/// A number as the shortest text that stands for it in its precision.
pub(super) fn spelt(value: f64, single: bool) -> String {
    if single {
        (value as f32).to_string()
    } else {
        value.to_string()
    }
}

/// What a label is compared by: numbers by their value, so that `1`, `1.0` and `+1` are one class, anything else as text.
///
/// ```
/// use riesz::data::reader::label_key;
///
/// for spelling in ["1", "1.0", "+1", "01", "1e0", "1."] {
///     assert_eq!(label_key(spelling), "1");
/// }
/// assert_eq!([label_key("-0.50"), label_key("-0"), label_key("v1.0")], ["-0.5", "0", "v1.0"]);
/// // Decimals are compared digit by digit, not as far as a float goes.
/// assert_ne!(label_key("9007199254740993"), label_key("9007199254740992"));
/// ```
pub fn label_key(label: &str) -> Cow<'_, str> {
    let unsigned = label.strip_prefix(['-', '+']).unwrap_or(label);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() == 0 || !digits.clone().all(|byte| byte.is_ascii_digit()) {
        return match label.parse::<f64>() {
            // Written without an exponent.
            Ok(value) if value.is_finite() => Cow::Owned(label_key(&value.to_string()).into_owned()),
            _ => Cow::Borrowed(label),
        };
    }
    let sign = if label.starts_with('-') && digits.clone().any(|byte| byte != b'0') { "-" } else { "" };
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let (whole, point) =
        (if whole.is_empty() { "0" } else { whole }, if fraction.is_empty() { "" } else { "." });
    Cow::Owned([sign, whole, point, fraction].concat())
}

/// A target with a meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// For regression.
    Numbers(Vec<f64>),
    /// For classification.
    Labels(Labels),
}

/// Classes with their names, and the class of each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Distinct labels as the file spells them first, in numerical order if all are numbers, else alphabetical.
    pub classes: Vec<String>,
    /// Position in `classes` of each row's label.
    pub indices: Vec<u32>,
}

impl Labels {
    /// The position of every row's label among `known` classes, compared by [`label_key`]; the label that is none of them.
    pub fn positions(&self, known: &[String]) -> Result<Vec<f32>, &str> {
        let places: HashMap<_, _> =
            known.iter().enumerate().map(|(place, name)| (label_key(name), place as f32)).collect();
        let place_of = |label: &'_ String| places.get(&label_key(label)).copied();
        let own: Vec<_> = self.classes.iter().map(place_of).collect();
        self.indices.iter().map(|&i| own[i as usize].ok_or(self.classes[i as usize].as_str())).collect()
    }
}

impl RawTarget {
    pub(super) fn new(name: impl Into<String>, path: &Path) -> Self {
        Self {
            name: name.into(),
            path: path.to_path_buf(),
            cells: Cells::Text { text: String::new(), ends: Vec::new() },
            not_a_number: None,
        }
    }

    /// A target of numbers, all finite.
    pub(super) fn of_numbers(name: impl Into<String>, path: &Path, values: Vec<f64>, single: bool) -> Self {
        Self { cells: Cells::Numbers { values, single }, ..Self::new(name, path) }
    }

    /// Adds the target of the next row, found on `line`.
    pub(super) fn push(&mut self, cell: &str, line: usize) -> Result<()> {
        let number = cell.parse::<f64>();
        if is_missing(cell) || number.as_ref().is_ok_and(|value| !value.is_finite()) {
            return Err(self.error(line, &format!("is {cell:?}; remove such rows first")));
        }
        if self.not_a_number.is_none() && number.is_err() {
            self.not_a_number = Some((self.len(), line));
        }
        match &mut self.cells {
            Cells::Text { text, ends } => {
                text.push_str(cell);
                ends.push(text.len());
            }
            Cells::Numbers { values, .. } => values.extend(number),
        }
        Ok(())
    }

    /// Adds a finite number to a target of numbers.
    pub(super) fn push_number(&mut self, value: f64) {
        if let Cells::Numbers { values, .. } = &mut self.cells {
            values.push(value);
        }
    }

    /// The rows there are, which are taken out.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self::new(self.name.clone(), &self.path);
        std::mem::replace(self, empty)
    }

    /// The error of a row whose target has this `fault`.
    pub(super) fn error(&self, line: usize, fault: &str) -> Error {
        parse_error(&self.path, line, format!("the target {:?} {fault}", self.name))
    }

    /// The name of the target column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the numbers of rows that are all numbers.
    pub(super) fn append_numbers(&self, out: &mut Vec<f64>) {
        match &self.cells {
            Cells::Numbers { values, .. } => out.extend_from_slice(values),
            Cells::Text { .. } => out.extend(self.iter().filter_map(|cell| cell.parse::<f64>().ok())),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match &self.cells {
            Cells::Text { ends, .. } => ends.len(),
            Cells::Numbers { values, .. } => values.len(),
        }
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of each row.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, str>> {
        (0..self.len()).map(|row| match &self.cells {
            Cells::Text { text, ends } => {
                let start = row.checked_sub(1).map_or(0, |before| ends[before]);
                Cow::Borrowed(text.get(start..ends[row]).unwrap_or_default())
            }
            Cells::Numbers { values, single } => Cow::Owned(spelt(values[row], *single)),
        })
    }

    /// Whether every row is a number.
    pub fn is_numeric(&self) -> bool {
        self.not_a_number.is_none()
    }

    /// The target of a regression; an error names the first line that is not a number.
    pub fn numbers(&self) -> Result<Vec<f64>> {
        if let Some((line, fault)) = self.fault() {
            return Err(self.error(line, &fault));
        }
        let mut numbers = Vec::with_capacity(self.len());
        self.append_numbers(&mut numbers);
        Ok(numbers)
    }

    /// The target of a classification. Labels are compared by [`label_key`]: `1` and `1.0` are one class.
    pub fn labels(&self) -> Labels {
        let mut spellings = Spellings::default();
        let codes = spellings.codes(self, usize::MAX).unwrap_or_default();
        spellings.labels(&codes, self.is_numeric())
    }

    /// Text is classes; so are whole numbers with at most 20 distinct values, each taken twice on average.
    /// Anything else is a quantity. Say which it was: a guess should be seen.
    pub fn guess(&self) -> Result<Target> {
        match self.is_numeric() {
            true => guess(self.numbers()?, || Ok(self.labels())),
            false => Ok(Target::Labels(self.labels())),
        }
    }

    /// The first line that is not a number, and why it is refused.
    pub(super) fn fault(&self) -> Option<(usize, String)> {
        let (row, line) = self.not_a_number?;
        let text = self.iter().nth(row).unwrap_or_default();
        Some((line, format!("is {text:?}, not a number; correct it, or fit a classifier if it is a class")))
    }
}

/// What numbers are, where nobody said.
pub(super) fn guess(numbers: Vec<f64>, labels: impl FnOnce() -> Result<Labels>) -> Result<Target> {
    match few_whole_numbers(&numbers) {
        true => labels().map(Target::Labels),
        false => Ok(Target::Numbers(numbers)),
    }
}

/// Whether the values look like the numbers of classes.
fn few_whole_numbers(numbers: &[f64]) -> bool {
    let mut distinct: Vec<f64> = Vec::new();
    for &number in numbers {
        if number.fract() != 0.0 {
            return false;
        }
        if !distinct.contains(&number) {
            distinct.push(number);
        }
        if distinct.len() > MAX_GUESSED_CLASSES {
            return false;
        }
    }
    2 * distinct.len() <= numbers.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(cells: &[&str]) -> RawTarget {
        let mut target = RawTarget::new("y", Path::new("t.csv"));
        for (row, cell) in cells.iter().enumerate() {
            target.push(cell, row + 1).unwrap();
        }
        target
    }

    #[test]
    fn sorts_classes_as_numbers_or_as_text() {
        let labels = target(&["10", "9", "-1", "10"]).labels();
        assert_eq!(labels.classes, ["-1", "9", "10"]);
        assert_eq!(labels.indices, [2, 1, 0, 2]);
        assert_eq!(target(&["10", "9", "b"]).labels().classes, ["10", "9", "b"]);
    }

    #[test]
    fn numbers_are_one_class_however_they_are_spelt() {
        let labels = target(&["1.0", "+1", "-1", "1", "-1.00", "0.1e1"]).labels();
        assert_eq!(labels.classes, ["-1", "1.0"]);
        assert_eq!(labels.indices, [1, 1, 0, 1, 0, 1]);
        assert_eq!(target(&["1", "one", "1.0"]).labels().classes, ["1", "one"]);
    }

    #[test]
    fn guesses_classes_from_text_and_few_whole_numbers() {
        let is_labels = |cells: &[&str]| matches!(target(cells).guess().unwrap(), Target::Labels(_));
        assert!(is_labels(&["a", "1"]));
        assert!(is_labels(&["0", "1", "1", "0"]));
        assert!(is_labels(&["0.0", "1.0", "1.0", "0.0"]));
        assert!(!is_labels(&["1", "2", "3", "4"]), "each value once");
        assert!(!is_labels(&["0.5", "0.5", "0.5"]));
        let many: Vec<String> = (0..100).map(|i| (i % 21).to_string()).collect();
        assert!(!is_labels(&many.iter().map(String::as_str).collect::<Vec<_>>()), "21 values");
    }

    #[test]
    fn a_target_that_is_text_names_its_first_line() {
        let error = target(&["1", "2", "red", "blue"]).numbers().unwrap_err().to_string();
        assert!(error.starts_with("t.csv, line 3: the target \"y\" is \"red\", not a number"), "{error}");
    }
}
