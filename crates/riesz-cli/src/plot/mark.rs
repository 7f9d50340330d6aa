//! One entry of a chart: a curve, a band, a cloud of points.

use super::canvas::{number, Canvas};
use super::style::{hex, mix, palette};

/// How the points of a mark are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Line,
    Dashed,
    Band,
    Dots,
}

/// One entry of a chart.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    style: Style,
    color: u32,
}

impl Mark {
    pub(super) fn new(name: String, points: &[(f64, f64)], style: Style, before: &[Mark]) -> Self {
        let colored = before.iter().filter(|mark| matches!(mark.style, Style::Line | Style::Dots)).count();
        let color = if style == Style::Dashed { 0x33_40_4d } else { palette(colored) };
        Self { name, points: points.to_vec(), style, color }
    }

    pub(super) fn draw(
        &self,
        canvas: &mut Canvas,
        place: impl Fn((f64, f64)) -> Option<(f64, f64)>,
        outlined: bool,
    ) {
        let color = hex(self.color);
        match self.style {
            Style::Dots => self.draw_dots(canvas, place, outlined),
            Style::Band => {
                let path = path_through(&self.points, &place) + "Z";
                canvas.push(&format!(r#"<path d="{path}" fill="{color}" fill-opacity="0.18"/>"#));
            }
            Style::Line | Style::Dashed => {
                let dash = if self.style == Style::Dashed { r#" stroke-dasharray="7 5""# } else { "" };
                let path = path_through(&self.points, &place);
                canvas.push(&format!(
                    r#"<path d="{path}" fill="none" stroke="{color}" stroke-width="2.2" stroke-linejoin="round" stroke-linecap="round"{dash}/>"#
                ));
                if self.style == Style::Line && self.points.len() <= 25 {
                    self.draw_dots(canvas, place, true);
                }
            }
        }
    }

    /// The key to the mark in a legend, 22 wide and centred at height `y`.
    pub(super) fn draw_key(&self, canvas: &mut Canvas, x: f64, y: f64) {
        let color = hex(self.color);
        match self.style {
            Style::Dots => {
                canvas.push(&format!(
                    r#"<circle cx="{}" cy="{}" r="5" fill="{color}"/>"#,
                    number(x + 13.0),
                    number(y)
                ));
            }
            Style::Band => canvas.rect((x, y - 6.0, 22.0, 12.0), &hex(mix(self.color, 0xff_ff_ff, 0.8))),
            Style::Line | Style::Dashed => {
                let dash = if self.style == Style::Dashed { r#" stroke-dasharray="7 4""# } else { "" };
                let (x, y) = (number(x), number(y));
                canvas.push(&format!(r#"<path d="M{x} {y}h22" stroke="{color}" stroke-width="3"{dash}/>"#));
            }
        }
    }

    fn draw_dots(
        &self,
        canvas: &mut Canvas,
        place: impl Fn((f64, f64)) -> Option<(f64, f64)>,
        outlined: bool,
    ) {
        let many = self.points.len() > 400;
        let (radius, opacity) = if many { (2.6, 0.6) } else { (3.8, 0.9) };
        let (stroke, opacity) =
            if outlined { (r##" stroke="#ffffff" stroke-width="1""##, 1.0) } else { ("", opacity) };
        let color = hex(self.color);
        canvas.push(&format!(r#"<g fill="{color}" fill-opacity="{opacity}"{stroke}>"#));
        for (x, y) in self.points.iter().filter_map(|&point| place(point)) {
            canvas.push(&format!(r#"<circle cx="{}" cy="{}" r="{radius}"/>"#, number(x), number(y)));
        }
        canvas.push("</g>");
    }
}

/// A path through the points that can be placed, broken where one cannot.
pub(super) fn path_through(
    points: &[(f64, f64)],
    place: impl Fn((f64, f64)) -> Option<(f64, f64)>,
) -> String {
    let (mut path, mut last, mut pen) = (String::new(), String::new(), 'M');
    for &point in points {
        let Some((x, y)) = place(point) else {
            pen = 'M';
            continue;
        };
        let here = format!("{} {}", number(x), number(y));
        if pen == 'M' || here != last {
            path.push(pen);
            path.push_str(&here);
        }
        (last, pen) = (here, 'L');
    }
    if path.is_empty() {
        path.push_str("M0 0");
    }
    path
}
