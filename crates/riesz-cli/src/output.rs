//! Text for people, and files.

use crate::failure::{Failure, Outcome};
use riesz::data::coding::Coding;
use riesz::model::{replace, Columns};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Text that a terminal shows as it is: control characters and those that turn the direction of writing are escaped, but
/// for the ends of lines. Names and labels come from files of unknown origin.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(c.escape_unicode());
            }
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Writes to the standard output; what goes to a terminal is made [`printable`], what goes to a file or a program is not
/// changed. A reader that has gone away is no error.
pub(crate) fn print(text: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    let escaped = out.is_terminal().then(|| printable(text));
    let text = escaped.as_deref().unwrap_or(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::io(Path::new("stdout"), error)),
        _ => Ok(()),
    }
}

/// Writes a file, all of it or nothing.
pub(crate) fn write(path: &Path, text: &str) -> Outcome<()> {
    replace(path, |file| file.write_all(text.as_bytes())).map_err(|error| Failure::io(path, error))
}

/// Writes a file from parts that come one after the other, all of it or nothing.
pub(crate) fn write_parts(
    path: &Path,
    work: impl FnOnce(&mut dyn FnMut(&str) -> Outcome<()>) -> Outcome<()>,
) -> Outcome<()> {
    let mut failure = None;
    let written = replace(path, |file| {
        let mut out = BufWriter::new(file);
        let mut put = |text: &str| out.write_all(text.as_bytes()).map_err(|error| Failure::io(path, error));
        match work(&mut put) {
            Ok(()) => out.flush(),
            Err(reason) => {
                failure = Some(reason);
                Err(ErrorKind::Interrupted.into())
            }
        }
    });
    match failure {
        Some(failure) => Err(failure),
        None => written.map_err(|error| Failure::io(path, error)),
    }
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path) -> Outcome<()> {
    std::fs::create_dir_all(path).map_err(|error| Failure::io(path, error))
}

/// Refuses early, before hours of work, a file whose folder does not exist.
pub(crate) fn check_folder_of(path: &Path) -> Outcome<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            let message = format!("{}: there is no folder {}", path.display(), folder.display());
            Err(Failure::bad_input(message).hint("make the folder first"))
        }
        _ if path.is_dir() => Err(Failure::bad_input(format!("{} is a folder, not a file", path.display()))),
        _ => Ok(()),
    }
}

/// Refuses a file to write that is one of those to read.
pub(crate) fn refuse_overwriting<'a>(
    out: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Outcome<()> {
    let Ok(place) = out.canonicalize() else { return Ok(()) };
    match inputs.into_iter().find(|input| input.canonicalize().is_ok_and(|input| input == place)) {
        Some(_) => {
            let message = format!("{} would be read and overwritten", out.display());
            Err(Failure::bad_input(message).hint("give the result another name"))
        }
        None => Ok(()),
    }
}

/// Labels and values, one pair a line, the values aligned.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<(&'static str, String)>);

impl Lines {
    pub(crate) fn add(&mut self, label: &'static str, value: impl Into<String>) {
        // One line each, whatever the value is.
        self.0.push((label, printable(&value.into()).replace('\n', "\\n")));
    }
}

impl std::fmt::Display for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.0.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        self.0.iter().try_for_each(|(label, value)| writeln!(f, "{label:width$}  {value}"))
    }
}

/// A count with its thousands apart.
pub(crate) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A duration in the unit that suits it.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 60.0 => format!("{seconds:.1} s"),
        seconds if seconds < 3600.0 => {
            format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0)
        }
        seconds => format!("{:.0} h {:02.0} min", (seconds / 3600.0).floor(), seconds % 3600.0 / 60.0),
    }
}

/// A share as "2.01 % (12 of 597)".
pub(crate) fn share(part: usize, whole: usize) -> String {
    format!("{:.2} % ({} of {})", 100.0 * part as f64 / whole.max(1) as f64, grouped(part), grouped(whole))
}

/// A number with four digits that matter.
pub(crate) fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.3e}"),
        size => format!("{value:.*}", (3 - size.log10().floor() as i32).max(0) as usize),
    }
}

/// The first names of a list.
pub(crate) fn listed<'a>(mut names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let shown: Vec<&str> = names.by_ref().take(8).collect();
    format!("{}{}", shown.join(", "), if count > shown.len() { ", …" } else { "" })
}

/// Which columns are categories, and which may be missing.
pub(crate) fn describe_codings(columns: &Columns, lines: &mut Lines) {
    let (mut categories, mut filled) = (Vec::new(), Vec::new());
    for (place, coding) in columns.codings.iter().enumerate() {
        let name =
            columns.features.get(place).map_or_else(|| format!("x{place}"), |column| column.name.clone());
        match coding {
            Some(Coding::Category { values, others, .. }) => {
                let more = if *others { " and others" } else { "" };
                categories.push(format!("{name} ({}{more})", values.len()));
            }
            Some(Coding::Filled { .. }) => filled.push(name),
            None => {}
        }
    }
    for (what, names) in [("categories", categories), ("may be missing", filled)] {
        if !names.is_empty() {
            lines.add(what, listed(names.iter().map(String::as_str)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_steered() {
        assert_eq!(printable("plain é ✓\nnext"), "plain é ✓\nnext");
        assert_eq!(
            printable("\u{1b}[2J\r\t\u{7f}\u{9b}1m\u{202e}"),
            "\\u{1b}[2J\\r\\t\\u{7f}\\u{9b}1m\\u{202e}"
        );
        let mut lines = Lines::default();
        lines.add("target", "a\nforged  line");
        assert_eq!(lines.to_string(), "target  a\\nforged  line\n");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_000, 1_048_576].map(grouped), ["0", "999", "1,000", "1,048,576"]);
        assert_eq!(
            [0.012, 3.21, 75.0, 7384.0].map(|s| duration(Duration::from_secs_f64(s))),
            ["12 ms", "3.2 s", "1 min 15 s", "2 h 03 min"]
        );
        assert_eq!(share(12, 597), "2.01 % (12 of 597)");
        assert_eq!(
            [0.0, 0.012345, 12.345, 123_456.0, 1e-9].map(significant),
            ["0", "0.01235", "12.35", "123456", "1.000e-9"]
        );
    }
}
