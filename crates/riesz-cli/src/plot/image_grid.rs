//! Small images side by side.

use super::canvas::{Area, Canvas, Type};
use super::cells::draw_cells;
use super::style::{mix, shorten, text_width, INK, TICK_SIZE, WRONG};

/// Small grey images with a caption each; those marked wrong are red.
#[derive(Clone, Debug)]
pub struct ImageGrid {
    title: String,
    width: usize,
    height: usize,
    columns: Option<usize>,
    images: Vec<Image>,
}

#[derive(Clone, Debug)]
struct Image {
    pixels: Vec<f32>,
    caption: String,
    wrong: bool,
}

impl ImageGrid {
    /// Grey levels an image is drawn in.
    const LEVELS: usize = 32;

    /// An empty grid for images of `width` × `height` pixels.
    pub fn new(title: impl Into<String>, width: usize, height: usize) -> Self {
        Self { title: title.into(), width, height, columns: None, images: Vec::new() }
    }

    /// Images side by side; found from their number if not given.
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = Some(columns.max(1));
        self
    }

    /// Adds an image, its pixels row by row from the top; large values are dark.
    pub fn image(mut self, pixels: &[f32], caption: impl Into<String>, wrong: bool) -> Self {
        self.images.push(Image { pixels: pixels.to_vec(), caption: caption.into(), wrong });
        self
    }

    /// The picture.
    pub fn to_svg(&self) -> String {
        let scale = (84.0 / self.width.max(self.height).max(1) as f64).round().max(1.0);
        let (width, height) = (self.width as f64 * scale, self.height as f64 * scale);
        let widest = self.images.iter().map(|image| text_width(&shorten(&image.caption, 24), TICK_SIZE));
        let cell = (widest.fold(width, f64::max) + 16.0, height + 38.0);
        let count = self.images.len().max(1);
        let columns = self.columns.unwrap_or_else(|| even_columns(count)).min(count);
        let total = (columns as f64 * cell.0 + 32.0).max(260.0);
        let mut canvas = Canvas::default();
        let top = canvas.title(&self.title, total) + 8.0;
        let margin = (total - columns as f64 * cell.0) / 2.0;
        for (i, image) in self.images.iter().enumerate() {
            let left = margin + (i % columns) as f64 * cell.0 + (cell.0 - width) / 2.0;
            canvas.area = Area { left, top: top + (i / columns) as f64 * cell.1, width, height };
            self.draw(&mut canvas, image);
        }
        canvas.finish(&self.title, total, top + count.div_ceil(columns) as f64 * cell.1 + 8.0)
    }

    fn draw(&self, canvas: &mut Canvas, image: &Image) {
        let Area { left, top, width, height } = canvas.area;
        let (low, high) = self.range();
        let shade = |&pixel: &f32| {
            let level = (pixel - low) / (high - low) * (Self::LEVELS - 1) as f32;
            level.is_finite().then_some(level.round() as usize).filter(|&level| level > 0)
        };
        // Cells are drawn from the bottom up.
        let rows = image.pixels.chunks_exact(self.width.max(1)).take(self.height).rev();
        let shades: Vec<_> = rows.flatten().map(shade).collect();
        canvas.rect((left, top, width, height), "#fbfbfa");
        let color = |level| mix(0xfb_fb_fa, 0x14_1b_24, level as f64 / (Self::LEVELS - 1) as f64);
        draw_cells(canvas, &shades, self.width, color);
        let (stroke, thickness) = if image.wrong { (WRONG, 2.5) } else { ("#c3cad2", 1.0) };
        canvas.outline((left, top, width, height), stroke, thickness);
        let fill = if image.wrong { WRONG } else { INK };
        let style = Type { size: TICK_SIZE, anchor: "middle", fill, bold: image.wrong, ..Type::default() };
        canvas.text((left + width / 2.0, top + height + 18.0), &shorten(&image.caption, 24), style);
    }

    /// The least and the largest pixel of all images.
    fn range(&self) -> (f32, f32) {
        let pixels = self.images.iter().flat_map(|image| &image.pixels).filter(|pixel| pixel.is_finite());
        pixels
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &pixel| (low.min(pixel), high.max(pixel)))
    }
}

/// Columns that make a wide grid of `count` cells with the fewest left over in its last row.
pub(super) fn even_columns(count: usize) -> usize {
    let ideal = ((count as f64 * 1.6).sqrt().ceil() as usize).min(10);
    let candidates = ideal.saturating_sub(2).max(1)..=(ideal + 3).min(10);
    let left_over = |columns: usize| count.div_ceil(columns) * columns - count;
    candidates.min_by_key(|&columns| (left_over(columns), columns.abs_diff(ideal))).unwrap_or(ideal)
}
