//! Pictures as SVG text, for the demonstration and the experiments: one builder per picture, no dependency.
//!
//! [`LineChart`], [`Scatter`] and [`HeatMap`] share one frame (title, legend, axes, ticks); [`ImageGrid`] and
//! [`ConfusionMatrix`] lay out cells. Every picture paints its own background, so that it reads on a dark page
//! as well, and leaves out values it cannot place (NaN, infinities, what is not positive on a logarithmic axis).

mod axis;
mod canvas;
mod cells;
mod confusion_matrix;
mod frame;
mod heat_map;
mod image_grid;
mod line_chart;
mod mark;
mod scatter;
mod style;

#[cfg(test)]
mod tests;

pub use confusion_matrix::ConfusionMatrix;
pub use heat_map::HeatMap;
pub use image_grid::ImageGrid;
pub use line_chart::LineChart;
pub use scatter::Scatter;

macro_rules! labels {
    ($($picture:ty),*) => {$(
        impl $picture {
            /// The text below the horizontal axis.
            pub fn x_label(mut self, label: impl Into<String>) -> Self {
                self.frame.x.label = label.into();
                self
            }

            /// The text beside the vertical axis.
            pub fn y_label(mut self, label: impl Into<String>) -> Self {
                self.frame.y.label = label.into();
                self
            }
        }
    )*};
}

labels!(LineChart, Scatter, HeatMap);
