//! What the charts share: title, legend, axes.

use super::axis::{Axis, Tick};
use super::canvas::{Area, Canvas, Type};
use super::mark::Mark;
use super::style::{text_width, GRID, LABEL_SIZE, MUTED, TICK_SIZE};

/// What the charts share: title, legend, axes.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Size of the area inside the axes.
    inner: (f64, f64),
    /// Room to the right of the area.
    pub(super) right: f64,
    pub(super) grid: bool,
}

impl Frame {
    pub(super) fn new(title: String, width: f64, height: f64) -> Self {
        let (x, y) = (Axis::default(), Axis::default());
        Self { title, x, y, inner: (width, height), right: 26.0, grid: true }
    }

    pub(super) fn fit(&mut self, marks: &[Mark]) {
        let points = || marks.iter().flat_map(|mark| &mark.points).copied();
        // A point counts where both of its coordinates can be placed.
        let (x, y) = (self.x.clone(), self.y.clone());
        let usable = |&(a, b): &(f64, f64)| x.coordinate(a).is_some() && y.coordinate(b).is_some();
        self.x.fit(points().filter(usable).map(|point| point.0), 0.03);
        self.y.fit(points().filter(usable).map(|point| point.1), 0.05);
    }

    /// Draws background, field, axes and marks. `field` draws what lies beneath the marks.
    pub(super) fn to_svg(&self, marks: &[Mark], field: impl FnOnce(&mut Canvas)) -> String {
        let (width, height) = self.inner;
        let y_ticks = self.y.ticks(5);
        let widest = y_ticks.iter().map(|tick| text_width(&tick.label, TICK_SIZE)).fold(0.0, f64::max);
        let left = 22.0 + widest + if self.y.label.is_empty() { 0.0 } else { 26.0 };
        let total = left + width + self.right;
        let mut canvas = Canvas::default();
        let title_bottom = canvas.title(&self.title, total);
        let top = self.legend(&mut canvas, marks, (left, title_bottom), left + width) + 12.0;
        canvas.area = Area { left, top, width, height };
        field(&mut canvas);
        self.draw_axes(&mut canvas, &y_ticks);
        let place = |(x, y): (f64, f64)| {
            let (x, y) = (self.x.place(x)?, self.y.place(y)?);
            Some((left + width * x, top + height * (1.0 - y)))
        };
        for mark in marks {
            mark.draw(&mut canvas, place, !self.grid);
        }
        let bottom = top + height + if self.x.label.is_empty() { 38.0 } else { 62.0 };
        canvas.finish(&self.title, total, bottom)
    }

    /// The names of the marks in rows below the title; returns where they end.
    fn legend(&self, canvas: &mut Canvas, marks: &[Mark], (left, top): (f64, f64), right: f64) -> f64 {
        let (mut x, mut y) = (left, top);
        let named: Vec<&Mark> = marks.iter().filter(|mark| !mark.name.is_empty()).collect();
        for mark in &named {
            let width = 30.0 + text_width(&mark.name, LABEL_SIZE);
            if x > left && x + width > right {
                (x, y) = (left, y + 22.0);
            }
            mark.draw_key(canvas, x, y + 11.0);
            canvas.text((x + 29.0, y + 16.0), &mark.name, Type { size: LABEL_SIZE, ..Type::default() });
            x += width + 22.0;
        }
        if named.is_empty() {
            y
        } else {
            y + 24.0
        }
    }

    fn draw_axes(&self, canvas: &mut Canvas, y_ticks: &[Tick]) {
        let Area { left, top, width, height } = canvas.area;
        let (right, bottom) = (left + width, top + height);
        let x_ticks = self.x.ticks(5);
        for tick in x_ticks.iter().filter(|_| self.grid) {
            let x = left + width * tick.place;
            canvas.line((x, top), (x, bottom), GRID);
        }
        for tick in y_ticks.iter().filter(|_| self.grid) {
            let y = bottom - height * tick.place;
            canvas.line((left, y), (right, y), GRID);
        }
        for place in self.x.minor_ticks() {
            canvas.line((left + width * place, bottom), (left + width * place, bottom + 3.0), MUTED);
        }
        for place in self.y.minor_ticks() {
            canvas.line((left - 3.0, bottom - height * place), (left, bottom - height * place), MUTED);
        }
        self.draw_tick_labels(canvas, &x_ticks, y_ticks);
        canvas.line((left, top), (left, bottom), MUTED);
        canvas.line((left, bottom), (right, bottom), MUTED);
        let style = Type { size: LABEL_SIZE, anchor: "middle", ..Type::default() };
        canvas.text((left + width / 2.0, bottom + 44.0), &self.x.label, style);
        let turned = Type { turn: -90.0, ..style };
        canvas.text((20.0, top + height / 2.0), &self.y.label, turned);
    }

    fn draw_tick_labels(&self, canvas: &mut Canvas, x_ticks: &[Tick], y_ticks: &[Tick]) {
        let Area { left, top, width, height } = canvas.area;
        let bottom = top + height;
        let style = Type { size: TICK_SIZE, fill: MUTED, anchor: "middle", ..Type::default() };
        let mut taken = f64::NEG_INFINITY;
        for tick in x_ticks {
            let (x, half) = (left + width * tick.place, text_width(&tick.label, TICK_SIZE) / 2.0);
            canvas.line((x, bottom), (x, bottom + 5.0), MUTED);
            if x - half > taken + 4.0 {
                canvas.text((x, bottom + 21.0), &tick.label, style);
                taken = x + half;
            }
        }
        for tick in y_ticks {
            let y = bottom - height * tick.place;
            canvas.line((left - 5.0, y), (left, y), MUTED);
            canvas.text((left - 9.0, y + 4.5), &tick.label, Type { anchor: "end", ..style });
        }
    }
}
