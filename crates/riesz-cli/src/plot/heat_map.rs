//! A function or a decision on the plane.

use super::axis::Axis;
use super::canvas::{Area, Canvas, Type};
use super::cells::draw_cells;
use super::frame::Frame;
use super::mark::{Mark, Style};
use super::style::{hex, mix, palette, sequential, text_width, MUTED, SHADES, TICK_SIZE};

/// A function or a decision on a rectangle of the plane, with points on top.
#[derive(Clone, Debug)]
pub struct HeatMap {
    pub(super) frame: Frame,
    field: Field,
    columns: usize,
    marks: Vec<Mark>,
}

/// What a heat map shows in its cells.
#[derive(Clone, Debug)]
enum Field {
    Values(Vec<f64>),
    Classes(Vec<u32>),
}

impl HeatMap {
    /// An empty map of the rectangle `x` × `y`, each given as (low, high).
    pub fn new(title: impl Into<String>, x: (f64, f64), y: (f64, f64)) -> Self {
        let mut frame = Frame::new(title.into(), 480.0, 440.0);
        frame.x.fit([x.0, x.1].into_iter(), 0.0);
        frame.y.fit([y.0, y.1].into_iter(), 0.0);
        frame.grid = false;
        Self { frame, field: Field::Classes(Vec::new()), columns: 0, marks: Vec::new() }
    }

    /// Shows a function: rows of `columns` values, the row of the lowest y first.
    pub fn values(mut self, columns: usize, values: &[f64]) -> Self {
        (self.columns, self.field) = (columns, Field::Values(values.to_vec()));
        self
    }

    /// Shows a decision: rows of `columns` classes, the row of the lowest y first. Class k has the pale colour
    /// of the k-th cloud of points.
    pub fn classes(mut self, columns: usize, classes: &[u32]) -> Self {
        (self.columns, self.field) = (columns, Field::Classes(classes.to_vec()));
        self
    }

    /// Adds a cloud of points in a colour of its own.
    pub fn points(mut self, name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        let mark = Mark::new(name.into(), points, Style::Dots, &self.marks);
        self.marks.push(mark);
        self
    }

    /// The picture.
    pub fn to_svg(&self) -> String {
        let mut frame = self.frame.clone();
        let bar = match &self.field {
            Field::Values(values) => Some(ColorBar::of(values)),
            Field::Classes(_) => None,
        };
        frame.right = bar.as_ref().map_or(frame.right, ColorBar::width);
        frame.to_svg(&self.marks, |canvas| {
            let shades: Vec<Option<usize>> = match (&self.field, &bar) {
                (Field::Values(values), Some(bar)) => values.iter().map(|&value| bar.shade(value)).collect(),
                (Field::Classes(classes), _) => classes.iter().map(|&class| Some(class as usize)).collect(),
                (Field::Values(_), None) => Vec::new(),
            };
            let color =
                |shade| if bar.is_some() { sequential(shade) } else { mix(palette(shade), 0xff_ff_ff, 0.68) };
            draw_cells(canvas, &shades, self.columns, color);
            if let Some(bar) = &bar {
                bar.draw(canvas);
            }
        })
    }
}

/// The key to the colours of a heat map.
struct ColorBar {
    axis: Axis,
}

impl ColorBar {
    fn of(values: &[f64]) -> Self {
        let mut axis = Axis::default();
        axis.fit(values.iter().copied(), 0.0);
        Self { axis }
    }

    fn shade(&self, value: f64) -> Option<usize> {
        let place = self.axis.place(value)?;
        Some(((place * SHADES as f64) as usize).min(SHADES - 1))
    }

    /// The room it takes to the right of the picture.
    fn width(&self) -> f64 {
        let longest =
            self.axis.ticks(5).into_iter().map(|tick| text_width(&tick.label, TICK_SIZE)).fold(0.0, f64::max);
        46.0 + longest + 14.0
    }

    fn draw(&self, canvas: &mut Canvas) {
        let Area { left, top, width, height } = canvas.area;
        let x = left + width + 20.0;
        let step = height / SHADES as f64;
        canvas.push(r#"<g shape-rendering="crispEdges">"#);
        for shade in 0..SHADES {
            let y = top + height - (shade + 1) as f64 * step;
            canvas.rect((x, y, 16.0, step + 0.5), &hex(sequential(shade)));
        }
        canvas.push("</g>");
        for tick in self.axis.ticks(5) {
            let y = top + height * (1.0 - tick.place);
            canvas.line((x + 16.0, y), (x + 21.0, y), MUTED);
            canvas.text(
                (x + 26.0, y + 4.5),
                &tick.label,
                Type { size: TICK_SIZE, fill: MUTED, ..Type::default() },
            );
        }
    }
}
