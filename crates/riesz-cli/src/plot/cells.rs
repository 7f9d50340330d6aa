//! Rectangles of coloured cells.

use super::canvas::{number, precise, Area, Canvas};
use super::style::hex;
use std::collections::BTreeMap;

/// The shades of a rectangle of cells, as one path a shade.
pub(super) fn draw_cells(
    canvas: &mut Canvas,
    shades: &[Option<usize>],
    columns: usize,
    color: impl Fn(usize) -> u32,
) {
    let rows = shades.len().checked_div(columns).unwrap_or(0);
    if rows == 0 {
        return;
    }
    let Area { left, top, width, height } = canvas.area;
    canvas.push(&format!(
        r#"<g shape-rendering="crispEdges" transform="translate({} {}) scale({} {})">"#,
        number(left),
        number(top + height),
        precise(width / columns as f64),
        precise(-height / rows as f64)
    ));
    for (shade, path) in runs(shades, columns) {
        canvas.push(&format!(r#"<path d="{path}" fill="{}"/>"#, hex(color(shade))));
    }
    canvas.push("</g>");
}

/// For each shade, a path around its cells, those side by side taken together.
pub(super) fn runs(shades: &[Option<usize>], columns: usize) -> BTreeMap<usize, String> {
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for (row, cells) in shades.chunks_exact(columns.max(1)).enumerate() {
        let mut start = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            if let Some(Some(shade)) = run.first() {
                let length = run.len();
                paths.entry(*shade).or_default().push_str(&format!("M{start} {row}h{length}v1h-{length}z"));
            }
            start += run.len();
        }
    }
    paths
}
