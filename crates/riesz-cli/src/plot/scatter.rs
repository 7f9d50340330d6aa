//! Clouds of points.

use super::frame::Frame;
use super::mark::{Mark, Style};

/// Clouds of points over a common pair of axes.
#[derive(Clone, Debug)]
pub struct Scatter {
    pub(super) frame: Frame,
    marks: Vec<Mark>,
}

impl Scatter {
    /// An empty chart.
    pub fn new(title: impl Into<String>) -> Self {
        Self { frame: Frame::new(title.into(), 480.0, 400.0), marks: Vec::new() }
    }

    /// Adds a cloud of points in a colour of its own.
    pub fn points(mut self, name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        let mark = Mark::new(name.into(), points, Style::Dots, &self.marks);
        self.marks.push(mark);
        self
    }

    /// Adds the line y = x through what is there so far, for predictions against truth.
    pub fn diagonal(mut self, name: impl Into<String>) -> Self {
        let (mut x, mut y) = (self.frame.x.clone(), self.frame.y.clone());
        x.fit(self.marks.iter().flat_map(|mark| &mark.points).map(|point| point.0), 0.0);
        y.fit(self.marks.iter().flat_map(|mark| &mark.points).map(|point| point.1), 0.0);
        let (low, high) = (x.low.max(y.low), x.high.min(y.high));
        let mark = Mark::new(name.into(), &[(low, low), (high, high)], Style::Dashed, &self.marks);
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
