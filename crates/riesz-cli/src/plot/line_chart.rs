//! Curves.

use super::frame::Frame;
use super::mark::{Mark, Style};

/// Curves over a common pair of axes, with bands and dots where they help.
///
/// ```
/// # use riesz_cli::plot::LineChart;
/// let svg = LineChart::new("Test error")
///     .x_label("step")
///     .y_label("error")
///     .log_y()
///     .line("stream", &[(1.0, 0.5), (2.0, 0.25)])
///     .to_svg();
/// assert!(svg.starts_with("<svg"));
/// ```
#[derive(Clone, Debug)]
pub struct LineChart {
    pub(super) frame: Frame,
    marks: Vec<Mark>,
}

impl LineChart {
    /// An empty chart.
    pub fn new(title: impl Into<String>) -> Self {
        Self { frame: Frame::new(title.into(), 620.0, 340.0), marks: Vec::new() }
    }

    /// Makes the horizontal axis logarithmic.
    pub fn log_x(mut self) -> Self {
        self.frame.x.log = true;
        self
    }

    /// Makes the vertical axis logarithmic.
    pub fn log_y(mut self) -> Self {
        self.frame.y.log = true;
        self
    }

    /// Adds a curve.
    pub fn line(self, name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        self.mark(name, points, Style::Line)
    }

    /// Adds a dashed curve, for a reference such as a rate or a bound. It takes no colour of the palette.
    pub fn dashed(self, name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        self.mark(name, points, Style::Dashed)
    }

    /// Adds points without a curve.
    pub fn dots(self, name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        self.mark(name, points, Style::Dots)
    }

    /// Adds the area between two curves, given as (x, low, high), in the colour of the next curve.
    pub fn band(self, name: impl Into<String>, points: &[(f64, f64, f64)]) -> Self {
        let low = points.iter().map(|&(x, low, _)| (x, low));
        let high = points.iter().rev().map(|&(x, _, high)| (x, high));
        let outline: Vec<_> = low.chain(high).collect();
        self.mark(name, &outline, Style::Band)
    }

    fn mark(mut self, name: impl Into<String>, points: &[(f64, f64)], style: Style) -> Self {
        let mark = Mark::new(name.into(), points, style, &self.marks);
        self.marks.push(mark);
        self
    }

    /// The picture.
    pub fn to_svg(&self) -> String {
        let mut frame = self.frame.clone();
        frame.fit(&self.marks);
        frame.to_svg(&self.marks, |_| ())
    }
}
