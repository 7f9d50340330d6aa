//! The elements of a picture, as text.

use super::style::{CHARACTER, FONT, INK, LABEL_SIZE, PAPER, TITLE_SIZE};

/// A rectangle of the picture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// How a text is set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub(super) size: f64,
    pub(super) anchor: &'static str,
    pub(super) fill: &'static str,
    pub(super) bold: bool,
    /// Degrees, clockwise.
    pub(super) turn: f64,
}

impl Default for Type {
    fn default() -> Self {
        Self { size: LABEL_SIZE, anchor: "start", fill: INK, bold: false, turn: 0.0 }
    }
}

/// The elements of a picture in the order they are painted.
#[derive(Clone, Debug, Default)]
pub(super) struct Canvas {
    body: String,
    pub(super) area: Area,
}

impl Canvas {
    pub(super) fn push(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    pub(super) fn rect(&mut self, (x, y, width, height): (f64, f64, f64, f64), fill: &str) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        self.push(&format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>"#));
    }

    pub(super) fn outline(
        &mut self,
        (x, y, width, height): (f64, f64, f64, f64),
        stroke: &str,
        thickness: f64,
    ) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        self.push(&format!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="{stroke}" stroke-width="{thickness}"/>"#
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.push(&format!(r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{stroke}"/>"#));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), text: &str, style: Type) {
        if text.is_empty() {
            return;
        }
        let (x, y, size) = (number(x), number(y), number(style.size));
        let weight = if style.bold { r#" font-weight="bold""# } else { "" };
        let turn = if style.turn == 0.0 {
            String::new()
        } else {
            format!(r#" transform="rotate({} {x} {y})""#, style.turn)
        };
        self.push(&format!(
            r#"<text x="{x}" y="{y}" font-size="{size}" text-anchor="{}" fill="{}"{weight}{turn}>{}</text>"#,
            style.anchor,
            style.fill,
            escape(text)
        ));
    }

    /// The title in as many lines as it needs; returns where it ends.
    pub(super) fn title(&mut self, title: &str, width: f64) -> f64 {
        let mut bottom = 14.0;
        for line in wrap(title, ((width - 32.0) / (TITLE_SIZE * CHARACTER)) as usize) {
            let style = Type { size: TITLE_SIZE, anchor: "middle", bold: true, ..Type::default() };
            self.text((width / 2.0, bottom + TITLE_SIZE), &line, style);
            bottom += TITLE_SIZE + 8.0;
        }
        bottom + 4.0
    }

    pub(super) fn finish(self, title: &str, width: f64, height: f64) -> String {
        let (width, height, body) = (number(width.ceil()), number(height.ceil()), self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONT}\">\n<title>{}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>\n{body}</svg>\n",
            escape(title)
        )
    }
}

/// A coordinate to a hundredth.
pub(super) fn number(value: f64) -> String {
    decimal(value, 2)
}

/// A scale factor.
pub(super) fn precise(value: f64) -> String {
    decimal(value, 6)
}

fn decimal(value: f64, decimals: usize) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// Text as XML may hold it.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

/// Cuts at blanks into lines of at most `most` characters, a longer word aside.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
