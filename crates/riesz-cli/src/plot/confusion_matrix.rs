//! Which class was taken for which.

use super::canvas::{Area, Canvas, Type};
use super::style::{
    hex, mix, shorten, text_width, CHARACTER, GRID, INK, LABEL_SIZE, MUTED, PAPER, TICK_SIZE,
};

/// How often each class was taken for each other: true classes in rows, predicted ones in columns.
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    title: String,
    classes: Vec<String>,
    pub(super) counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// A matrix of zeros.
    pub fn new<S: Into<String>>(title: impl Into<String>, classes: impl IntoIterator<Item = S>) -> Self {
        let classes: Vec<String> = classes.into_iter().map(Into::into).collect();
        let counts = vec![0; classes.len() * classes.len()];
        Self { title: title.into(), classes, counts }
    }

    /// Counts one prediction after the other; a class that does not exist is left out.
    pub fn pairs(mut self, pairs: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let size = self.classes.len();
        for (truth, predicted) in pairs.into_iter().filter(|pair| pair.0 < size && pair.1 < size) {
            self.counts[truth * size + predicted] += 1;
        }
        self
    }

    /// The picture.
    pub fn to_svg(&self) -> String {
        let size = self.classes.len();
        let names: Vec<String> = self.classes.iter().map(|name| shorten(name, 18)).collect();
        let widest = names.iter().map(|name| text_width(name, TICK_SIZE)).fold(0.0, f64::max);
        // Cells grow to hold a name each where there is room for it; else the names are turned.
        let room = 520.0 / size.max(1) as f64;
        let wanted = if widest + 10.0 <= room { widest + 10.0 } else { 0.0 };
        let cell = room.clamp(26.0, wanted.max(64.0));
        let turned = widest > cell - 6.0;
        let (left, side) = (56.0 + widest, cell * size as f64);
        let lean = if turned { widest * 0.72 } else { 0.0 };
        let total = (left + side + 30.0 + lean).max(340.0);
        let mut canvas = Canvas::default();
        let title_bottom = canvas.title(&self.title, total);
        let style = Type { size: LABEL_SIZE, anchor: "middle", fill: MUTED, ..Type::default() };
        canvas.text((total / 2.0, title_bottom + 14.0), &self.summary(), style);
        canvas.text((left + side / 2.0, title_bottom + 46.0), "predicted", Type { fill: INK, ..style });
        let top = title_bottom + 79.0 + lean;
        canvas.text((20.0, top + side / 2.0), "true", Type { fill: INK, turn: -90.0, ..style });
        canvas.area = Area { left, top, width: side, height: side };
        self.draw_names(&mut canvas, &names, cell, turned);
        for row in 0..size {
            self.draw_row(&mut canvas, row, cell);
        }
        canvas.outline((left, top, side, side), MUTED, 1.0);
        canvas.finish(&self.title, total, top + side + 24.0)
    }

    pub(super) fn summary(&self) -> String {
        let size = self.classes.len();
        let total: u64 = self.counts.iter().sum();
        let right: u64 = (0..size).map(|class| self.counts[class * size + class]).sum();
        if total == 0 {
            return "no predictions".to_owned();
        }
        format!("{right} of {total} right ({:.1} %)", 100.0 * right as f64 / total as f64)
    }

    fn draw_names(&self, canvas: &mut Canvas, names: &[String], cell: f64, turned: bool) {
        let Area { left, top, .. } = canvas.area;
        let style = Type { size: TICK_SIZE, fill: INK, ..Type::default() };
        for (i, name) in names.iter().enumerate() {
            let middle = (i as f64 + 0.5) * cell;
            canvas.text((left - 9.0, top + middle + 4.5), name, Type { anchor: "end", ..style });
            let (place, style) = if turned {
                ((left + middle + 2.0, top - 9.0), Type { turn: -45.0, ..style })
            } else {
                ((left + middle, top - 9.0), Type { anchor: "middle", ..style })
            };
            canvas.text(place, name, style);
        }
    }

    /// The cells of one true class: blue where right, red where wrong, the darker the larger their share.
    fn draw_row(&self, canvas: &mut Canvas, row: usize, cell: f64) {
        let size = self.classes.len();
        let counts = &self.counts[row * size..(row + 1) * size];
        let sum = counts.iter().sum::<u64>().max(1) as f64;
        let longest = self.counts.iter().max().map_or(1, |count| count.to_string().len());
        let font = ((cell - 5.0) / (longest as f64 * CHARACTER)).min(15.0);
        let Area { left, top, .. } = canvas.area;
        let y = top + row as f64 * cell;
        for (column, &count) in counts.iter().enumerate() {
            let x = left + column as f64 * cell;
            let share = count as f64 / sum;
            let (color, depth) = match row == column {
                true => (0x0a_5a_a6, 0.15 + 0.85 * share),
                false => (0xd6_3a_22, 0.85 * share.sqrt()),
            };
            let depth = if count == 0 { 0.0 } else { depth };
            canvas.rect((x, y, cell, cell), &hex(mix(0xff_ff_ff, color, depth)));
            canvas.outline((x, y, cell, cell), GRID, 1.0);
            let text = count.to_string();
            let fill = match depth {
                _ if count == 0 => "#b3bcc6",
                depth if depth > 0.5 => PAPER,
                _ => INK,
            };
            if font >= 7.0 && (count > 0 || cell > 30.0) {
                let style = Type { size: font, anchor: "middle", fill, ..Type::default() };
                canvas.text((x + cell / 2.0, y + cell / 2.0 + 0.36 * style.size), &text, style);
            }
        }
    }
}
