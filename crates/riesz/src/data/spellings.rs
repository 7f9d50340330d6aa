//! The different texts of a target, and the target of more rows than text should be kept of.

use super::source::parse_error;
use super::target::{guess, label_key, spelt, Cells, Labels, RawTarget, Target};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

/// Different texts up to which a target may be classes.
const MOST_TEXTS: usize = 1 << 16;

/// The different texts of a target, in the order in which they come up.
#[derive(Clone, Debug, Default)]
pub(super) struct Spellings {
    pub(super) texts: Vec<String>,
    of_text: HashMap<String, u32>,
    of_number: HashMap<u64, u32>,
}

impl Spellings {
    fn code(&mut self, cell: &str) -> u32 {
        if let Some(&code) = self.of_text.get(cell) {
            return code;
        }
        let code = self.texts.len() as u32;
        self.texts.push(cell.to_owned());
        self.of_text.insert(cell.to_owned(), code);
        code
    }

    /// The number of each row's text among the texts; `None` where there would be more than `most` texts.
    pub(super) fn codes(&mut self, target: &RawTarget, most: usize) -> Option<Vec<u32>> {
        let mut codes = Vec::with_capacity(target.len());
        let mut add = |code: u32| {
            codes.push(code);
            (code as usize) < most
        };
        let within = match &target.cells {
            Cells::Text { .. } => target.iter().all(|cell| add(self.code(&cell))),
            Cells::Numbers { values, single } => values.iter().all(|&value| {
                let known = self.of_number.get(&value.to_bits()).copied();
                add(known.unwrap_or_else(|| {
                    let code = self.code(&spelt(value, *single));
                    self.of_number.insert(value.to_bits(), code);
                    code
                }))
            }),
        };
        within.then_some(codes)
    }

    /// The classes of rows whose texts have these numbers.
    pub(super) fn labels(&self, codes: &[u32], numeric: bool) -> Labels {
        let mut classes: HashMap<Cow<'_, str>, u32> = HashMap::new();
        let mut order: Vec<(&str, u32)> = Vec::new();
        // Each spelling has its key made once.
        let class_of = self.texts.iter().map(|text| {
            *classes.entry(label_key(text)).or_insert_with(|| {
                order.push((text, order.len() as u32));
                order.len() as u32 - 1
            })
        });
        let class_of: Vec<u32> = class_of.collect();
        if numeric {
            let number = |cell: &str| cell.parse().unwrap_or(f64::NAN);
            order.sort_by(|a, b| number(a.0).total_cmp(&number(b.0)).then(a.0.cmp(b.0)));
        } else {
            order.sort_unstable();
        }
        let mut rank = vec![0; order.len()];
        for (position, &(_, index)) in order.iter().enumerate() {
            rank[index as usize] = position as u32;
        }
        let indices = codes.iter().map(|&code| rank[class_of[code as usize] as usize]).collect();
        Labels { classes: order.into_iter().map(|(cell, _)| cell.to_owned()).collect(), indices }
    }
}

/// The target of the rows of many files, in at most twelve bytes a row: numbers as long as all are, and the number of each
/// text as long as there are at most 65,536 different ones.
#[derive(Clone, Debug)]
pub struct WholeTarget {
    name: String,
    rows: usize,
    /// The numbers; none once a row is no number.
    pub(super) numbers: Option<Vec<f64>>,
    /// The first row that is no number: its file, its line and why it is refused.
    fault: Option<(PathBuf, usize, String)>,
    pub(super) codes: Option<(Spellings, Vec<u32>)>,
}

impl WholeTarget {
    pub(super) fn new(name: &str) -> Self {
        let codes = Some((Spellings::default(), Vec::new()));
        Self { name: name.to_owned(), rows: 0, numbers: Some(Vec::new()), fault: None, codes }
    }

    /// The target whose parts were kept: numbers where all are, texts and the number of each row's text where they are few.
    pub(super) fn of_parts(
        name: String,
        numbers: Option<Vec<f64>>,
        codes: Option<(Vec<String>, Vec<u32>)>,
    ) -> Self {
        let codes = codes.map(|(texts, codes)| (Spellings { texts, ..Spellings::default() }, codes));
        let rows = numbers.as_ref().map_or_else(|| codes.as_ref().map_or(0, |codes| codes.1.len()), Vec::len);
        Self { name, rows, numbers, fault: None, codes }
    }

    /// Adds rows; they may be neither numbers nor few different texts.
    pub(super) fn append(&mut self, raw: &RawTarget) -> Result<()> {
        if let (Some((line, fault)), true) = (raw.fault(), self.numbers.is_some()) {
            self.fault = Some((raw.path().to_path_buf(), line, fault));
            self.numbers = None;
        }
        if let Some(numbers) = &mut self.numbers {
            raw.append_numbers(numbers);
        }
        if let Some((spellings, codes)) = &mut self.codes {
            match spellings.codes(raw, MOST_TEXTS) {
                Some(more) => codes.extend(more),
                None => self.codes = None,
            }
        }
        self.rows += raw.len();
        match (&self.numbers, &self.codes) {
            (None, None) => {
                let fault =
                    format!("has more than {MOST_TEXTS} different texts; it is neither a number nor a class");
                Err(raw.error(1, &fault))
            }
            _ => Ok(()),
        }
    }

    /// The name of the target column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether every row is a number.
    pub fn is_numeric(&self) -> bool {
        self.numbers.is_some()
    }

    /// The target of a regression; an error names the first line that is not a number.
    pub fn numbers(&self) -> Result<&[f64]> {
        match (&self.numbers, &self.fault) {
            (Some(numbers), _) => Ok(numbers),
            (None, Some((path, line, fault))) => {
                Err(parse_error(path, *line, format!("the target {:?} {fault}", self.name)))
            }
            (None, None) => Err(Error::Conflict(format!(
                "the target {:?} is not all numbers; fit a classifier if it is a class",
                self.name
            ))),
        }
    }

    /// The target of a classification. Labels are compared by [`label_key`]: `1` and `1.0` are one class.
    pub fn labels(&self) -> Result<Labels> {
        match &self.codes {
            Some((spellings, codes)) => Ok(spellings.labels(codes, self.is_numeric())),
            None => Err(Error::Conflict(format!(
                "the target {:?} has more than {MOST_TEXTS} different values; classes are fewer",
                self.name
            ))),
        }
    }

    /// Classes or numbers, as [`RawTarget::guess`] does.
    pub fn guess(&self) -> Result<Target> {
        match self.is_numeric() {
            true => guess(self.numbers()?.to_vec(), || self.labels()),
            false => self.labels().map(Target::Labels),
        }
    }
}
