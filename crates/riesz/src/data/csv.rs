//! Delimited text. The delimiter and the header are found by looking at the first records.
//!
//! Lines of plain fields are parsed in the buffer they were read into (benchmarks/files/reading.py: 350 to 430 MB/s per
//! core of a busy machine, polars beside it 115 to 150). The csv crate copies every field before it is parsed, and has no
//! delimiter of any run of blanks.

use super::cell::{cell_reason, is_missing, leading_decimal, parse_f32};
use super::coding::Coding;
use super::reader::{Format, InParts, ReadOptions};
use super::records::{is_comment, strip, text, unquoted, Fields, Quote, Records};
use super::selection::{names_columns, Selection};
use super::source::{parse_error, Source};
use super::table::{column_name, Dataset, Table, Values};
use super::target::RawTarget;
use crate::error::{Error, Result};
use std::io::{Cursor, Read};
use std::path::PathBuf;

/// Candidates in order of preference; a blank stands for any run of blanks and tabs.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b' '];

/// Bytes and records the delimiter is judged by.
const SAMPLE_BYTES: u64 = 1 << 20;
const SAMPLE_RECORDS: usize = 10;

/// Reads delimited text; `delimiter` is found by looking if not given.
pub(super) fn read(source: Source, options: &ReadOptions, delimiter: Option<u8>) -> Result<Dataset> {
    let mut reader = Reader::open(source, options, delimiter)?;
    reader.fill(usize::MAX)?;
    reader.builder.restore_first_label()?;
    reader.builder.finish()
}

/// Hands every cell of a feature to `look`, with the place of the feature and the line. Notes the names of the columns in `options` and
/// returns the name of the target.
pub(super) fn for_each_cell(
    source: Source,
    options: &mut ReadOptions,
    look: &mut dyn FnMut(usize, &str, usize),
) -> Result<Option<String>> {
    let delimiter = (options.format_of(&source.path)? == Format::Tabs).then_some(b'\t');
    let Reader { mut records, first, mut record, mut builder } = Reader::open(source, options, delimiter)?;
    let mut cells = |record: &[u8], line: usize| {
        let count = Fields::of(record, builder.delimiter).count();
        if count != builder.fields {
            return Err(builder.ragged(count, line));
        }
        let fields = Fields::of(record, builder.delimiter).enumerate();
        let features = fields.filter(|(column, _)| !builder.is_special(*column));
        features
            .enumerate()
            .for_each(|(place, (_, field))| look(builder.selection.place(place), &text(field), line));
        Ok(())
    };
    first.iter().try_for_each(|(record, line)| cells(record, *line))?;
    while let Some(line) = records.next(&mut record)? {
        cells(&record, line)?;
    }
    if options.names.is_empty() {
        options.names = builder.take().features.names;
    }
    Ok(builder.target.map(|target| target.name().to_owned()))
}

/// Delimited text that is read a number of rows at a time.
pub(super) struct Reader {
    records: Records,
    /// The first records that are rows, and their lines: they were read to find the header.
    first: Vec<(Vec<u8>, usize)>,
    record: Vec<u8>,
    builder: Builder,
}

impl Reader {
    /// Looks at the first records; `delimiter` is found by looking if not given.
    pub(super) fn open(mut source: Source, options: &ReadOptions, delimiter: Option<u8>) -> Result<Self> {
        let delimiter = match delimiter {
            Some(delimiter) => delimiter,
            None => sniff(&peek(&mut source)?),
        };
        let mut records = Records::new(source, delimiter);
        let (mut record, mut second) = (Vec::new(), Vec::new());
        let Some(line) = records.next(&mut record)? else {
            return Err(records.source.parse_error(1, "the file holds no data"));
        };
        let second_line = records.next(&mut second)?;
        let header = is_header(&record, second_line.map(|_| second.as_slice()), delimiter)
            || names_columns(Fields::of(&record, delimiter).map(text), &options.names);
        let builder = Builder::new(&records.source, &record, line, delimiter, header, options)?;
        let first =
            (!header).then_some((record, line)).into_iter().chain(second_line.map(|line| (second, line)));
        Ok(Self { records, first: first.collect(), record: Vec::new(), builder })
    }

    /// Reads records until there are `rows` rows, or to the end.
    fn fill(&mut self, rows: usize) -> Result<()> {
        for (record, line) in std::mem::take(&mut self.first) {
            self.builder.push(&record, line)?;
        }
        while self.builder.rows < rows {
            let builder = &mut self.builder;
            self.records.at_hand(|bytes, line| builder.push_plain(bytes, line, rows))?;
            if self.builder.rows == rows {
                break;
            }
            // A line that is not plain, or of which a part is at hand only.
            let Some(line) = self.records.next(&mut self.record)? else { break };
            self.builder.push(&self.record, line)?;
        }
        Ok(())
    }
}

impl InParts for Reader {
    fn columns(&self) -> usize {
        self.builder.fields
    }

    fn next(&mut self, rows: usize) -> Result<Option<Dataset>> {
        self.fill(rows)?;
        match self.builder.rows {
            0 => Ok(None),
            _ => Ok(Some(self.builder.take())),
        }
    }
}

/// Looks at the first bytes and puts them back.
fn peek(source: &mut Source) -> Result<Vec<u8>> {
    let mut sample = Vec::new();
    if let Err(error) = source.input.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample) {
        return Err(source.io_error(error));
    }
    let rest = std::mem::replace(&mut source.input, Box::new(std::io::empty()));
    source.input = Box::new(Cursor::new(sample.clone()).chain(rest));
    Ok(sample)
}

/// The delimiter that cuts the first records into equally many fields, and into the most; blanks only where
/// nothing else does, since they also stand around the others.
pub(super) fn sniff(sample: &[u8]) -> u8 {
    let (mut best, mut chosen) = ((false, false, 1), b',');
    for delimiter in DELIMITERS {
        let counts = field_counts(sample, delimiter);
        let fields = counts.first().copied().unwrap_or(0);
        let consistent = fields > 1 && counts.iter().all(|&count| count == fields);
        let merit = (consistent, fields > 1 && delimiter != b' ', fields);
        if merit > best {
            (best, chosen) = (merit, delimiter);
        }
    }
    chosen
}

/// Fields of each of the first records.
fn field_counts(sample: &[u8], delimiter: u8) -> Vec<usize> {
    let mut counts = Vec::new();
    let (mut quote, mut start, mut offset) = (Quote::Start, 0, 0);
    for line in sample.split_inclusive(|&byte| byte == b'\n') {
        offset += line.len();
        quote = quote.after(line, delimiter);
        if quote == Quote::Open {
            continue;
        }
        let record = strip(&sample[start..offset]);
        (quote, start) = (Quote::Start, offset);
        // The sample may end in the middle of a record.
        let cut = offset == sample.len() && sample.len() as u64 == SAMPLE_BYTES;
        if !(record.trim_ascii().is_empty() || is_comment(record) || cut && !counts.is_empty()) {
            counts.push(Fields::of(record, delimiter).count());
        }
        if counts.len() == SAMPLE_RECORDS {
            break;
        }
    }
    counts
}

/// What a field can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Missing,
    Text,
}

fn kind(field: &[u8]) -> Kind {
    let text = text(field);
    if is_missing(&text) {
        return Kind::Missing;
    }
    if text.parse::<f64>().is_ok() {
        Kind::Number
    } else {
        Kind::Text
    }
}

/// Whether the first record names the columns: a column turns from text into numbers, or there is not a
/// single number in either record. A text label in both records does not make a header of the first.
pub(super) fn is_header(first: &[u8], second: Option<&[u8]>, delimiter: u8) -> bool {
    let kinds = |record| Fields::of(record, delimiter).map(kind);
    let numberless = |record| kinds(record).all(|kind| kind != Kind::Number);
    let Some(second) = second else { return numberless(first) };
    let turns = kinds(first).zip(kinds(second)).any(|pair| pair == (Kind::Text, Kind::Number));
    turns || numberless(first) && numberless(second)
}

/// A data set in the making.
struct Builder {
    path: PathBuf,
    delimiter: u8,
    /// Fields of every record.
    fields: usize,
    /// Names of every field, the target's too; none without a header.
    names: Vec<String>,
    target_column: Option<usize>,
    target: Option<RawTarget>,
    selection: Selection,
    /// What becomes of each field, where some are not numbers alone.
    codings: Vec<Option<Coding>>,
    values: Vec<f32>,
    /// Rows in `values`.
    rows: usize,
}

impl Builder {
    fn new(
        source: &Source,
        first: &[u8],
        line: usize,
        delimiter: u8,
        header: bool,
        options: &ReadOptions,
    ) -> Result<Self> {
        let fields = Fields::of(first, delimiter).count();
        let names: Vec<String> = if header {
            Fields::of(first, delimiter).map(|field| text(field).into_owned()).collect()
        } else {
            Vec::new()
        };
        let target_column =
            options.target.resolve(&names, fields).map_err(|reason| source.parse_error(line, reason))?;
        let target = target_column.map(|column| RawTarget::new(column_name(&names, 0, column), &source.path));
        let selection = Selection::new(&names, target_column, options, &source.path)?;
        let path = source.path.clone();
        let mut feature = 0;
        let coding = |column: usize| {
            if Some(column) == target_column || Some(column) == selection.unread {
                return None;
            }
            feature += 1;
            options.codings.get(selection.place(feature - 1)).cloned().flatten()
        };
        let coded = if options.codings.is_empty() { 0 } else { fields };
        let codings = (0..coded).map(coding).collect();
        Ok(Self {
            path,
            delimiter,
            fields,
            names,
            target_column,
            target,
            selection,
            codings,
            values: Vec::new(),
            rows: 0,
        })
    }

    /// Adds lines of plain fields, the most of most files, where they lie, until there are `rows` rows or a line is not
    /// plain; `before` is the number of the line before them. Returns bytes and lines that were read.
    fn push_plain(&mut self, bytes: &[u8], before: usize, rows: usize) -> (usize, usize) {
        let (mut used, mut lines) = (0, 0);
        // Any run of blanks may be a delimiter, and cells may be no numbers: such lines are looked at as a whole.
        while self.rows < rows && self.delimiter != b' ' && self.codings.is_empty() {
            let start = self.values.len();
            let Some(length) = self.push_plain_line(&bytes[used..], before + lines + 1) else {
                self.values.truncate(start);
                break;
            };
            (used, lines, self.rows) = (used + length, lines + 1, self.rows + 1);
        }
        (used, lines)
    }

    /// Adds a line of as many plain fields as there should be and returns its length; nothing where it is not one, or cut off.
    #[inline]
    fn push_plain_line(&mut self, bytes: &[u8], line: usize) -> Option<usize> {
        let (delimiter, mut place, mut label) = (self.delimiter, 0, None);
        let ends = |byte: u8| byte == delimiter || byte == b'\n' || byte == b'\r';
        for column in 0..self.fields {
            let rest = &bytes[place..];
            if Some(column) == self.target_column || Some(column) == self.selection.unread {
                let length = rest.iter().position(|&byte| ends(byte))?;
                if rest[..length].contains(&b'"') {
                    return None;
                }
                if Some(column) == self.target_column {
                    label = Some(place..place + length);
                }
                place += length;
            } else {
                let (value, length) = match leading_decimal(rest) {
                    Some((value, length)) if rest.get(length).is_some_and(|&byte| ends(byte)) => {
                        (value, length)
                    }
                    _ => {
                        let length = rest.iter().position(|&byte| ends(byte))?;
                        (parse_f32(&rest[..length]).filter(|value| value.is_finite())?, length)
                    }
                };
                self.values.push(value);
                place += length;
            }
            let last = column + 1 == self.fields;
            if last && bytes.get(place) == Some(&b'\r') {
                place += 1;
            }
            if *bytes.get(place)? != if last { b'\n' } else { delimiter } {
                return None;
            }
            place += 1;
        }
        if let (Some(target), Some(label)) = (&mut self.target, label) {
            // What is wrong with it is said when the line is looked at as a whole.
            push_target(target, bytes[label].trim_ascii(), line).ok()?;
        }
        Some(place)
    }

    /// Adds one record.
    fn push(&mut self, record: &[u8], line: usize) -> Result<()> {
        let mut fields = Fields::of(record, self.delimiter);
        let mut count = 0;
        loop {
            let special = self.is_special(count) || self.coding(count).is_some();
            match if special { None } else { fields.next_decimal() } {
                Some(value) => self.values.push(value),
                None => match fields.next() {
                    Some(field) => self.push_field(record, count, field, line)?,
                    None => break,
                },
            }
            count += 1;
        }
        if count != self.fields {
            return Err(self.ragged(count, line));
        }
        self.rows += 1;
        Ok(())
    }

    /// Whether a field is the target, or read over.
    fn is_special(&self, column: usize) -> bool {
        [self.target_column, self.selection.unread].contains(&Some(column))
    }

    fn coding(&self, column: usize) -> Option<&Coding> {
        self.codings.get(column).and_then(Option::as_ref)
    }

    /// Adds a field that is the target, read over or no plain decimal.
    fn push_field(&mut self, record: &[u8], column: usize, field: &[u8], line: usize) -> Result<()> {
        match &mut self.target {
            Some(target) if self.target_column == Some(column) => push_target(target, field, line),
            _ if self.selection.unread == Some(column) => Ok(()),
            _ => {
                let number = || parse_f32(unquoted(field)).filter(|value| value.is_finite());
                let value = match self.codings.get(column) {
                    Some(Some(coding)) => coding.code(&text(field)),
                    _ => number(),
                };
                self.values.push(value.ok_or_else(|| self.refuse(record, column, field, line))?);
                Ok(())
            }
        }
    }

    /// Why a cell is refused: the record has too many fields or too few, or the cell is no number.
    fn refuse(&self, record: &[u8], column: usize, field: &[u8], line: usize) -> Error {
        let found = Fields::of(record, self.delimiter).count();
        if found != self.fields {
            return self.ragged(found, line);
        }
        let name = column_name(&self.names, 0, column);
        parse_error(&self.path, line, cell_reason(&name, unquoted(field)))
    }

    fn ragged(&self, found: usize, line: usize) -> Error {
        let (expected, delimiter) = (self.fields, char::from(self.delimiter));
        let reason = format!(
            "{found} fields where the first record has {expected} (delimiter {delimiter:?}); complete or remove the line"
        );
        parse_error(&self.path, line, reason)
    }

    /// The rows there are, all of the file.
    fn finish(mut self) -> Result<Dataset> {
        if self.rows == 0 {
            return Err(parse_error(&self.path, 1, "the file holds a header but no rows"));
        }
        self.values.shrink_to_fit();
        Ok(self.take())
    }

    /// The rows there are, which are taken out.
    fn take(&mut self) -> Dataset {
        let mut names = self.names.clone();
        let mut columns = self.fields;
        let unread = self.selection.unread.and_then(|column| names.get(column).cloned());
        let mut others = [self.target_column, self.selection.unread];
        others.sort_unstable();
        for column in others.into_iter().flatten().rev() {
            columns -= 1;
            if !names.is_empty() {
                names.remove(column);
            }
        }
        let mut values = std::mem::take(&mut self.values);
        self.rows = 0;
        self.selection.arrange(&mut names);
        self.selection.arrange(&mut values);
        let features = Table { values: Values::Dense(values), columns, names, first_index: 0 };
        Dataset { features, target: self.target.as_mut().map(RawTarget::take), unread }
    }

    /// In a file of nothing but labels the first looks like a header; it is one only if it does not recur.
    fn restore_first_label(&mut self) -> Result<()> {
        let (Some(target), [name]) = (&self.target, self.names.as_slice()) else { return Ok(()) };
        if target.iter().all(|label| label != *name) {
            return Ok(());
        }
        let mut whole = RawTarget::new(column_name(&[], 0, 0), &self.path);
        whole.push(name, 1)?;
        target.iter().try_for_each(|label| whole.push(&label, 1))?;
        (self.target, self.rows) = (Some(whole), self.rows + 1);
        Ok(())
    }
}

/// Adds a label, which must be text this program can write again.
fn push_target(target: &mut RawTarget, field: &[u8], line: usize) -> Result<()> {
    if std::str::from_utf8(field).is_err() {
        return Err(target.error(line, "is not UTF-8 text; convert the file to UTF-8"));
    }
    target.push(&text(field), line)
}

#[cfg(test)]
mod tests {
    use super::super::table::TargetColumn;
    use super::super::target::Target;
    use super::*;
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn parse(text: impl AsRef<[u8]>, target: TargetColumn) -> Result<Dataset> {
        let options = ReadOptions { target, ..ReadOptions::default() };
        read(Source::of_bytes("t.csv", text.as_ref(), true), &options, None)
    }

    fn values(text: &str) -> Vec<f32> {
        parse(text, TargetColumn::None).unwrap().features.dense()
    }

    fn message(text: &str, target: TargetColumn) -> String {
        parse(text, target).unwrap_err().to_string()
    }

    #[test]
    fn reads_every_delimiter_with_and_without_header() {
        let expected = [1.0, -2.5, 3e4, 4.0, 5.0, 6.0];
        for delimiter in [",", ";", "\t", " ", " , ", "   ", " \t "] {
            let body = "1|-2.5|3e4\r\n4|5|6\n".replace('|', delimiter);
            assert_eq!(values(&body), expected, "{delimiter:?}");
            let headed = format!("{}\n{body}", "a|b c|d".replace(" c", "").replace('|', delimiter));
            let dataset = parse(&headed, TargetColumn::None).unwrap();
            assert_eq!((dataset.features.dense().as_slice(), dataset.features.columns), (&expected[..], 3));
            assert_eq!(dataset.features.names, ["a", "b", "d"]);
        }
    }

    #[test]
    fn keeps_the_text_of_the_target() {
        let text = "5.1,3.5,Iris-setosa\n4.9,3.0,Iris-virginica\n4.7,3.2,Iris-setosa";
        let dataset = parse(text, TargetColumn::Last).unwrap();
        assert_eq!(dataset.features.dense(), [5.1, 3.5, 4.9, 3.0, 4.7, 3.2]);
        let target = dataset.target.unwrap();
        assert_eq!(target.iter().collect::<Vec<_>>(), ["Iris-setosa", "Iris-virginica", "Iris-setosa"]);
        assert!(target.numbers().unwrap_err().to_string().contains("line 1"), "{:?}", target.numbers());
        let Target::Labels(labels) = target.guess().unwrap() else { panic!("text is classes") };
        assert_eq!((labels.classes.len(), labels.indices), (2, vec![0, 1, 0]));
    }

    #[test]
    fn finds_the_target_by_name_number_and_place() {
        let text = "\u{feff}a,\"the, target\",b\n1,2,3\n4,5,6\n";
        for target in [
            TargetColumn::Name("the, target".into()),
            TargetColumn::IfNamed("the, target".into()),
            TargetColumn::Index(1),
        ] {
            let dataset = parse(text, target).unwrap();
            assert_eq!(dataset.features.dense(), [1.0, 3.0, 4.0, 6.0]);
            assert_eq!(dataset.features.names, ["a", "b"]);
            assert_eq!(dataset.target.unwrap().numbers().unwrap(), [2.0, 5.0]);
        }
        assert!(parse(text, TargetColumn::IfNamed("z".into())).unwrap().target.is_none());
        assert_eq!(
            message(text, TargetColumn::Name("z".into())),
            "t.csv, line 1: no column is named \"z\"; the columns are a, the, target, b"
        );
        assert!(message(text, TargetColumn::Index(3)).contains("no column 3"));
        assert!(message("a,a,b\n1,2,3\n", TargetColumn::Name("a".into())).contains("two columns"));
    }

    #[test]
    fn reads_quotes_that_hold_delimiters_quotes_and_line_ends() {
        let text = "x,y\n\"1\",\"a \"\"b\"\", c\"\n2,\"line\nbreak\"\n3,plain\n";
        let target = parse(text, TargetColumn::Last).unwrap().target.unwrap();
        assert_eq!(target.iter().collect::<Vec<_>>(), ["a \"b\", c", "line\nbreak", "plain"]);
        let late = format!("{text}4,oops,5\n");
        assert!(message(&late, TargetColumn::Last).contains("line 6: 3 fields where the first record has 2"));
        assert!(message("x,y\n1,\"a\n", TargetColumn::Last).contains("line 2: a quote opened here"));
        let inches = parse("1,5\" pipe\n2,6\" pipe\n", TargetColumn::Last).unwrap();
        assert_eq!(inches.features.dense(), [1.0, 2.0]);
    }

    #[test]
    fn names_the_line_and_column_of_what_it_refuses() {
        let none = || TargetColumn::None;
        for (cell, reason) in [
            ("", "has a missing value (\"\"); remove or impute"),
            ("?", "has a missing value (\"?\")"),
            ("NaN", "has a missing value (\"NaN\")"),
            ("red", "holds the text \"red\"; encode"),
            ("inf", "beyond single precision"),
            ("1e39", "beyond single precision"),
        ] {
            let found = message(&format!("size,colour\n1,2\n\n3,{cell}\n"), none());
            assert!(found.starts_with("t.csv, line 4: column \"colour\" "), "{found}");
            assert!(found.contains(reason), "{found}");
        }
        assert!(message("a;b\n1;2\n1;2,5\n", none()).contains("decimal point"));
        assert!(message("1,2\n3\n", none()).contains("line 2: 1 fields"), "{}", message("1,2\n3\n", none()));
        assert!(message("1,2\n3,4,5\n", none()).contains("line 2: 3 fields"));
        assert!(message("", none()).contains("no data"));
        assert!(message("\n \n# a\n", none()).contains("no data"));
        assert!(message("a,b\n", none()).contains("no rows"));
        assert!(message("a,y\n1,?\n", TargetColumn::Last).contains("line 2: the target \"y\" is \"?\""));
        assert!(parse(b"a,y\n1,\xff\n", TargetColumn::Last).unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn a_column_of_labels_may_lack_a_header() {
        let labels = |text| {
            let target = parse(text, TargetColumn::Last).unwrap().target.unwrap();
            target.iter().map(Cow::into_owned).collect::<Vec<_>>()
        };
        assert_eq!(labels("species\ncat\ndog\n"), ["cat", "dog"]);
        assert_eq!(labels("cat\ndog\ncat\n"), ["cat", "dog", "cat"]);
    }

    #[test]
    fn comments_stand_in_front_of_the_data_only() {
        assert_eq!(values("# made by hand\n#\n1,2\n3,4\n"), [1.0, 2.0, 3.0, 4.0]);
        let target = parse("1,a\n#2,b\n", TargetColumn::First).unwrap_err();
        assert!(target.to_string().contains("line 1"), "{target}");
    }

    #[test]
    fn rows_longer_than_the_sample_are_read() {
        let row = vec!["1234567"; 200_000].join(";");
        let dataset = parse(format!("{row}\n{row}\n"), TargetColumn::None).unwrap();
        assert_eq!((dataset.features.columns, dataset.features.len()), (200_000, 2));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes, TargetColumn::Last);
        }

        #[test]
        fn never_panics_near_the_format(text in "[01.,;\"\n\t #ea-]{0,80}", column in 0_usize..3) {
            for target in [TargetColumn::None, TargetColumn::First, TargetColumn::Index(column)] {
                if let Ok(dataset) = parse(&text, target) {
                    let (values, columns) = (dataset.features.dense(), dataset.features.columns);
                    prop_assert!(values.iter().all(|value| value.is_finite()));
                    let rows = dataset.target.as_ref().map_or(values.len() / columns.max(1), RawTarget::len);
                    prop_assert_eq!(rows * columns, values.len());
                }
            }
        }

        #[test]
        fn reads_back_what_was_written(
            rows in prop::collection::vec(prop::array::uniform3(-1e30_f32..1e30), 1..20), header: bool
        ) {
            let mut text = if header { "a,b,c\n".to_owned() } else { String::new() };
            for [a, b, c] in &rows {
                text += &format!("{a},{b:e},\"{c}\"\n");
            }
            prop_assert_eq!(values(&text), rows.concat());
        }
    }
}
