//! From a line to a row: delimited text or JSON.

use riesz::data::lines::{delimiter_of, fields, is_header, is_missing, number};
use riesz::data::reader::TargetColumn;
use riesz::model::Columns;
use serde_json::{Map, Value};

/// What lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// JSON where the first line begins with a brace.
    Auto,
    /// Delimited text: commas, semicolons, tabs or blanks, whichever the first line has.
    Csv,
    /// An object a line.
    Json,
}

/// Whether the first line names the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Header {
    /// Where there is no number in it.
    Auto,
    Yes,
    No,
}

/// A row: features in the order of the model, and the target if it is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub x: Vec<f32>,
    pub target: Option<String>,
}

/// How lines are read, which the first of them settles.
#[derive(Debug)]
pub(super) enum Reader {
    Text {
        delimiter: u8,
        fields: usize,
        target: Option<usize>,
        /// The field of each feature, and its name.
        places: Vec<(usize, String)>,
    },
    Json {
        target: String,
        names: Vec<String>,
    },
}

impl Reader {
    /// The reader that the first line asks for, and whether that line is a row itself. Columns that a model knows by name
    /// are found by name.
    pub(super) fn new(
        line: &[u8],
        (format, header): (Format, Header),
        target: &TargetColumn,
        known: &Columns,
    ) -> Result<(Self, bool), String> {
        let json = format == Format::Json || format == Format::Auto && line.first() == Some(&b'{');
        if json {
            return Self::json(line, target, known).map(|reader| (reader, true));
        }
        let delimiter = delimiter_of(line);
        let named = match header {
            Header::Auto => is_header(line, delimiter),
            Header::Yes => true,
            Header::No => false,
        };
        let cells: Vec<String> = fields(line, delimiter).collect();
        let names = if named { cells.clone() } else { Vec::new() };
        if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
            return Err(format!("two columns are named {:?}; rename one", twice.1));
        }
        let target = resolve(target, &names, cells.len(), known)?;
        let name = |i: usize| names.get(i).cloned().unwrap_or_else(|| i.to_string());
        let own = (0..cells.len()).filter(|i| target != Some(*i)).map(|i| (i, name(i)));
        let places = match known.features.is_empty() || names.is_empty() {
            true => own.collect(),
            false => by_name(&names, known)?,
        };
        Ok((Self::Text { delimiter, fields: cells.len(), target, places }, !named))
    }

    fn json(line: &[u8], target: &TargetColumn, known: &Columns) -> Result<Self, String> {
        let target = match (target, &known.target) {
            (TargetColumn::Name(name), _) | (TargetColumn::Last, Some(name)) => name.clone(),
            _ => {
                return Err("the members of JSON objects have names; --target gives that of the target".into())
            }
        };
        let names = match known.features.is_empty() {
            true => object(line)?.into_iter().map(|(name, _)| name).filter(|name| *name != target).collect(),
            false => known.names().map(str::to_owned).collect(),
        };
        Ok(Self::Json { target, names })
    }

    /// Names of the features, none where they have none, and that of the target.
    pub(super) fn columns(&self, header: &[u8], is_row: bool) -> Columns {
        match self {
            Self::Json { target, names } => Columns::of_numbers(names.iter().cloned(), Some(target.clone())),
            Self::Text { .. } if is_row => Columns::default(),
            Self::Text { delimiter, target, places, .. } => {
                let named = target.and_then(|target| fields(header, *delimiter).nth(target));
                Columns::of_numbers(places.iter().map(|(_, name)| name.clone()), named)
            }
        }
    }

    /// Number of features.
    pub(super) fn features(&self) -> usize {
        match self {
            Self::Text { places, .. } => places.len(),
            Self::Json { names, .. } => names.len(),
        }
    }

    /// The row of a line, or what is wrong with it.
    pub(super) fn row(&self, line: &[u8]) -> Result<Row, String> {
        match self {
            Self::Text { delimiter, fields: count, target, places } => {
                let cells: Vec<String> = fields(line, *delimiter).collect();
                if cells.len() != *count {
                    return Err(format!("{} fields where the first line has {count}", cells.len()));
                }
                let x = places.iter().map(|(place, name)| number(name, &cells[*place]));
                let target = target.map(|target| cells[target].clone()).filter(|cell| !is_missing(cell));
                Ok(Row { x: x.collect::<Result<_, _>>()?, target })
            }
            Self::Json { target, names } => {
                let members = object(line)?;
                let x = names.iter().map(|name| member(&members, name)).collect::<Result<_, _>>()?;
                let target = match members.get(target) {
                    None | Some(Value::Null) => None,
                    Some(Value::String(text)) => Some(text.clone()).filter(|text| !is_missing(text)),
                    Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
                    Some(_) => return Err(format!("the target {target:?} is neither a number nor text")),
                };
                Ok(Row { x, target })
            }
        }
    }
}

/// The field that is the target; `None` where a file that a model is to predict has none.
fn resolve(
    target: &TargetColumn,
    names: &[String],
    count: usize,
    known: &Columns,
) -> Result<Option<usize>, String> {
    let place = |name: &String| names.iter().position(|other| other == name);
    let learnt = known.target.as_ref().filter(|_| !names.is_empty());
    match (target, learnt) {
        (TargetColumn::Last, Some(name)) => Ok(place(name)),
        _ => target.resolve(names, count).map(|place| place.or(Some(count - 1))),
    }
}

fn by_name(names: &[String], known: &Columns) -> Result<Vec<(usize, String)>, String> {
    let place = |name: &str| match names.iter().position(|other| other == name) {
        Some(place) => Ok((place, name.to_owned())),
        None => Err(format!("there is no column {name:?}, which the model was fitted on")),
    };
    known.names().map(place).collect()
}

fn object(line: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("the line is no JSON object".into()),
        Err(error) => Err(format!("the line is no JSON: {error}")),
    }
}

fn member(members: &Map<String, Value>, name: &str) -> Result<f32, String> {
    match members.get(name) {
        Some(Value::Number(value)) => match value.as_f64().map(|value| value as f32) {
            Some(value) if value.is_finite() => Ok(value),
            _ => Err(format!("member {name:?} is beyond single precision")),
        },
        Some(Value::Bool(value)) => Ok(f32::from(u8::from(*value))),
        Some(Value::Null) | None => Err(format!("member {name:?} is missing")),
        Some(value) => Err(format!("member {name:?} is {value}, not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(line: &str, target: TargetColumn) -> (Reader, bool) {
        Reader::new(line.as_bytes(), (Format::Auto, Header::Auto), &target, &Columns::default()).unwrap()
    }

    #[test]
    fn lines_become_rows() {
        let (csv, is_row) = reader("a,b,label", TargetColumn::Last);
        assert!(!is_row);
        let row = csv.row(b"1,2.5,yes").unwrap();
        assert_eq!((row.x, row.target), (vec![1.0, 2.5], Some("yes".into())));
        assert_eq!(csv.row(b"1,2.5,").unwrap().target, None);
        assert!(csv.row(b"1,yes").unwrap_err().contains("2 fields where the first line has 3"));
        assert!(csv.row(b"1,no,yes").unwrap_err().contains("column \"b\" holds the text \"no\""));
        let (tabs, is_row) = reader("1\t2\t3", TargetColumn::First);
        assert!(is_row);
        assert_eq!(tabs.row(b"1\t2\t3").unwrap(), Row { x: vec![2.0, 3.0], target: Some("1".into()) });
    }

    #[test]
    fn objects_become_rows() {
        let line = r#"{"b": 2, "a": true, "y": "up"}"#;
        let (json, _) = reader(line, TargetColumn::Name("y".into()));
        assert_eq!(json.row(line.as_bytes()).unwrap(), Row { x: vec![1.0, 2.0], target: Some("up".into()) });
        assert_eq!(json.row(br#"{"a": 1, "b": 2, "y": null}"#).unwrap().target, None);
        for (line, message) in [
            (r#"{"a": 1}"#, "\"b\" is missing"),
            (r#"{"a": "x", "b": 1}"#, "not a number"),
            ("[1]", "no JSON object"),
            ("{", "no JSON"),
        ] {
            assert!(json.row(line.as_bytes()).unwrap_err().contains(message), "{line}");
        }
    }
}
