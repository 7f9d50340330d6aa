//! Pictures as SVG text, for the demonstration and the experiments: one builder per picture, no dependency.
//!
//! [`LineChart`], [`Scatter`] and [`HeatMap`] share one frame (title, legend, axes, ticks); [`ImageGrid`] and
//! [`ConfusionMatrix`] lay out cells. Every picture paints its own background, so that it reads on a dark page
//! as well, and leaves out values it cannot place (NaN, infinities, what is not positive on a logarithmic axis).

use std::collections::BTreeMap;

const PAPER: &str = "#ffffff";
const INK: &str = "#1f2933";
const MUTED: &str = "#52606d";
const GRID: &str = "#e4e8ed";
const WRONG: &str = "#c8102e";
const FONT: &str = "'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif";

/// Ten colours that colour-blind readers can tell apart (after Okabe and Ito).
const PALETTE: [u32; 10] = [
    0x00_72_b2, 0xd5_5e_00, 0x00_9e_73, 0xb4_52_8e, 0xe6_9f_00, 0x3b_a3_dc, 0x7a_4f_a3, 0x8a_62_3c,
    0x5f_6b_76, 0x9a_a8_1c,
];

/// Stops of the sequential colour map, dark to light (after Viridis).
const SEQUENTIAL: [u32; 7] =
    [0x44_01_54, 0x44_3a_83, 0x31_68_8e, 0x21_90_8c, 0x35_b7_79, 0x8f_d7_44, 0xfd_e7_25];
/// Shades a heat map is drawn in.
const SHADES: usize = 64;

const TITLE_SIZE: f64 = 18.0;
const LABEL_SIZE: f64 = 14.0;
const TICK_SIZE: f64 = 13.0;
/// Mean width of a character, in units of the font size; generous, so that nothing is cut off.
const CHARACTER: f64 = 0.6;
/// Values beyond this cannot be placed: their differences would overflow.
const LARGEST: f64 = 1e150;

// ---------------------------------------------------------------------------------------------- charts

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
    frame: Frame,
    marks: Vec<Mark>,
}

/// Clouds of points over a common pair of axes.
#[derive(Clone, Debug)]
pub struct Scatter {
    frame: Frame,
    marks: Vec<Mark>,
}

/// A function or a decision on a rectangle of the plane, with points on top.
#[derive(Clone, Debug)]
pub struct HeatMap {
    frame: Frame,
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

/// How the points of a mark are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Line,
    Dashed,
    Band,
    Dots,
}

/// One entry of a chart.
#[derive(Clone, Debug)]
struct Mark {
    name: String,
    points: Vec<(f64, f64)>,
    style: Style,
    color: u32,
}

impl Mark {
    fn new(name: String, points: &[(f64, f64)], style: Style, before: &[Mark]) -> Self {
        let colored = before.iter().filter(|mark| matches!(mark.style, Style::Line | Style::Dots)).count();
        let color = if style == Style::Dashed { 0x33_40_4d } else { palette(colored) };
        Self { name, points: points.to_vec(), style, color }
    }

    fn draw(&self, canvas: &mut Canvas, place: impl Fn((f64, f64)) -> Option<(f64, f64)>, outlined: bool) {
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
    fn draw_key(&self, canvas: &mut Canvas, x: f64, y: f64) {
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
fn path_through(points: &[(f64, f64)], place: impl Fn((f64, f64)) -> Option<(f64, f64)>) -> String {
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

/// The shades of a rectangle of cells, as one path a shade.
fn draw_cells(canvas: &mut Canvas, shades: &[Option<usize>], columns: usize, color: impl Fn(usize) -> u32) {
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
fn runs(shades: &[Option<usize>], columns: usize) -> BTreeMap<usize, String> {
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

// ---------------------------------------------------------------------------------------------- the frame

/// What the charts share: title, legend, axes.
#[derive(Clone, Debug)]
struct Frame {
    title: String,
    x: Axis,
    y: Axis,
    /// Size of the area inside the axes.
    inner: (f64, f64),
    /// Room to the right of the area.
    right: f64,
    grid: bool,
}

impl Frame {
    fn new(title: String, width: f64, height: f64) -> Self {
        let (x, y) = (Axis::default(), Axis::default());
        Self { title, x, y, inner: (width, height), right: 26.0, grid: true }
    }

    fn fit(&mut self, marks: &[Mark]) {
        let points = || marks.iter().flat_map(|mark| &mark.points).copied();
        // A point counts where both of its coordinates can be placed.
        let (x, y) = (self.x.clone(), self.y.clone());
        let usable = |&(a, b): &(f64, f64)| x.coordinate(a).is_some() && y.coordinate(b).is_some();
        self.x.fit(points().filter(usable).map(|point| point.0), 0.03);
        self.y.fit(points().filter(usable).map(|point| point.1), 0.05);
    }

    /// Draws background, field, axes and marks. `field` draws what lies beneath the marks.
    fn to_svg(&self, marks: &[Mark], field: impl FnOnce(&mut Canvas)) -> String {
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

/// One axis; `low` and `high` are logarithms to base ten if it is logarithmic.
#[derive(Clone, Debug)]
struct Axis {
    label: String,
    log: bool,
    low: f64,
    high: f64,
}

/// A labelled place on an axis, from 0 to 1.
#[derive(Clone, Debug)]
struct Tick {
    place: f64,
    label: String,
}

impl Default for Axis {
    fn default() -> Self {
        Self { label: String::new(), log: false, low: 0.0, high: 1.0 }
    }
}

impl Axis {
    /// The coordinate of a value, where it has one.
    fn coordinate(&self, value: f64) -> Option<f64> {
        let usable = if self.log { value >= 1.0 / LARGEST } else { true };
        (usable && value.abs() <= LARGEST).then(|| if self.log { value.log10() } else { value })
    }

    /// Covers the values and a margin, given as a fraction of their range.
    fn fit(&mut self, values: impl Iterator<Item = f64>, margin: f64) {
        let ends = values.filter_map(|value| self.coordinate(value)).fold(
            None,
            |ends: Option<(f64, f64)>, value| {
                let (low, high) = ends.unwrap_or((value, value));
                Some((low.min(value), high.max(value)))
            },
        );
        let Some((low, high)) = ends else { return };
        let size = low.abs().max(high.abs());
        let pad = if high - low > 1e-9 * size { margin * (high - low) } else { (0.1 * size).max(0.5) };
        (self.low, self.high) = (low - pad, high + pad);
    }

    /// Where a value lies, from 0 to 1, if on the axis.
    fn place(&self, value: f64) -> Option<f64> {
        let place = (self.coordinate(value)? - self.low) / (self.high - self.low);
        (-1e-9..=1.0 + 1e-9).contains(&place).then(|| place.clamp(0.0, 1.0))
    }

    fn ticks(&self, wanted: usize) -> Vec<Tick> {
        if self.log {
            let ticks = self.log_ticks(wanted);
            if ticks.len() >= 3 {
                return ticks;
            }
        }
        let (low, high) =
            if self.log { (10_f64.powf(self.low), 10_f64.powf(self.high)) } else { (self.low, self.high) };
        let step = nice_step((high - low) / wanted as f64);
        let first = (low / step - 1e-9).ceil();
        let values = (0..=2 * wanted)
            .map(|i| (first + i as f64) * step)
            .take_while(|&value| value <= high + 1e-9 * step);
        let label = |value: f64| linear_label(value, step, low.abs().max(high.abs()));
        values.filter_map(|value| Some(Tick { place: self.place(value)?, label: label(value) })).collect()
    }

    /// Whole decades, every few of them if there are many; 1, 2 and 5 of each if there are few.
    fn log_ticks(&self, wanted: usize) -> Vec<Tick> {
        let (first, last) = (self.low.ceil() as i32, self.high.floor() as i32);
        let decades = (last - first + 1).max(0);
        let stride = (decades as usize).div_ceil(wanted + 2).max(1);
        let digits: &[i32] = if decades <= 2 { &[1, 2, 5] } else { &[1] };
        let plain = first >= -3 && last <= 4;
        let mut ticks = Vec::new();
        for exponent in (first - 1..=last).filter(|exponent| exponent.rem_euclid(stride as i32) == 0) {
            for &digit in digits {
                if let Some(place) = self.place(f64::from(digit) * 10_f64.powi(exponent)) {
                    ticks.push(Tick { place, label: log_label(digit, exponent, plain) });
                }
            }
        }
        ticks
    }

    /// The unlabelled marks at 2, …, 9 of each decade.
    fn minor_ticks(&self) -> Vec<f64> {
        if !self.log || self.high - self.low > 8.0 {
            return Vec::new();
        }
        let decades = self.low.floor() as i32..=self.high.floor() as i32;
        let values =
            decades.flat_map(|exponent| (2..10).map(move |digit| f64::from(digit) * 10_f64.powi(exponent)));
        values.filter_map(|value| self.place(value)).collect()
    }
}

/// The nearest to `rough` of 1, 2 and 5 times a power of ten.
fn nice_step(rough: f64) -> f64 {
    let rough = rough.max(1.0 / LARGEST);
    let power = 10_f64.powf(rough.log10().floor());
    let multiple = match rough / power {
        ratio if ratio < 1.5 => 1.0,
        ratio if ratio < 3.5 => 2.0,
        ratio if ratio < 7.5 => 5.0,
        _ => 10.0,
    };
    multiple * power
}

/// A number on a linear axis, with the digits the step calls for.
fn linear_label(value: f64, step: f64, largest: f64) -> String {
    let (unit, suffix) = match largest {
        _ if !(1e-3..1e15).contains(&largest) => (10_f64.powf(largest.log10().floor()), None),
        _ if largest >= 1e12 => (1e12, Some("T")),
        _ if largest >= 1e9 => (1e9, Some("G")),
        _ if largest >= 1e6 => (1e6, Some("M")),
        _ if largest >= 1e4 => (1e3, Some("k")),
        _ => (1.0, Some("")),
    };
    if value.abs() < step * 1e-6 {
        return "0".to_owned();
    }
    let decimals = (-(step / unit).log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
    let digits = format!("{:.decimals$}", value / unit).replace('-', "−");
    match suffix {
        Some(suffix) => digits + suffix,
        None => format!("{digits}·10{}", superscript(unit.log10().round() as i32)),
    }
}

/// `digit` · 10^`exponent` on a logarithmic axis.
fn log_label(digit: i32, exponent: i32, plain: bool) -> String {
    if plain {
        return format!("{:.*}", (-exponent).max(0) as usize, f64::from(digit) * 10_f64.powi(exponent));
    }
    let factor = if digit == 1 { String::new() } else { format!("{digit}·") };
    format!("{factor}10{}", superscript(exponent))
}

fn superscript(exponent: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise = |character: char| character.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    exponent.to_string().chars().map(raise).collect()
}

// ---------------------------------------------------------------------------------------------- cells

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
fn even_columns(count: usize) -> usize {
    let ideal = ((count as f64 * 1.6).sqrt().ceil() as usize).min(10);
    let candidates = ideal.saturating_sub(2).max(1)..=(ideal + 3).min(10);
    let left_over = |columns: usize| count.div_ceil(columns) * columns - count;
    candidates.min_by_key(|&columns| (left_over(columns), columns.abs_diff(ideal))).unwrap_or(ideal)
}

/// How often each class was taken for each other: true classes in rows, predicted ones in columns.
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    title: String,
    classes: Vec<String>,
    counts: Vec<u64>,
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

    fn summary(&self) -> String {
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

// ---------------------------------------------------------------------------------------------- drawing

/// A rectangle of the picture.
#[derive(Clone, Copy, Debug, Default)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// How a text is set.
#[derive(Clone, Copy, Debug)]
struct Type {
    size: f64,
    anchor: &'static str,
    fill: &'static str,
    bold: bool,
    /// Degrees, clockwise.
    turn: f64,
}

impl Default for Type {
    fn default() -> Self {
        Self { size: LABEL_SIZE, anchor: "start", fill: INK, bold: false, turn: 0.0 }
    }
}

/// The elements of a picture in the order they are painted.
#[derive(Clone, Debug, Default)]
struct Canvas {
    body: String,
    area: Area,
}

impl Canvas {
    fn push(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    fn rect(&mut self, (x, y, width, height): (f64, f64, f64, f64), fill: &str) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        self.push(&format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>"#));
    }

    fn outline(&mut self, (x, y, width, height): (f64, f64, f64, f64), stroke: &str, thickness: f64) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        self.push(&format!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="{stroke}" stroke-width="{thickness}"/>"#
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.push(&format!(r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{stroke}"/>"#));
    }

    fn text(&mut self, (x, y): (f64, f64), text: &str, style: Type) {
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
    fn title(&mut self, title: &str, width: f64) -> f64 {
        let mut bottom = 14.0;
        for line in wrap(title, ((width - 32.0) / (TITLE_SIZE * CHARACTER)) as usize) {
            let style = Type { size: TITLE_SIZE, anchor: "middle", bold: true, ..Type::default() };
            self.text((width / 2.0, bottom + TITLE_SIZE), &line, style);
            bottom += TITLE_SIZE + 8.0;
        }
        bottom + 4.0
    }

    fn finish(self, title: &str, width: f64, height: f64) -> String {
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
fn number(value: f64) -> String {
    decimal(value, 2)
}

/// A scale factor.
fn precise(value: f64) -> String {
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

/// The text, or its beginning if it is long.
fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The room a text takes, a little generous.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

fn palette(index: usize) -> u32 {
    PALETTE[index % PALETTE.len()]
}

/// A shade of the sequential colour map.
fn sequential(shade: usize) -> u32 {
    let place = shade as f64 / (SHADES - 1) as f64 * (SEQUENTIAL.len() - 1) as f64;
    let stop = (place as usize).min(SEQUENTIAL.len() - 2);
    mix(SEQUENTIAL[stop], SEQUENTIAL[stop + 1], place - stop as f64)
}

/// The colour on the way from `from` to `to`.
fn mix(from: u32, to: u32, share: f64) -> u32 {
    let channel = |shift: u32| {
        let [from, to] = [from, to].map(|color| f64::from(color >> shift & 0xff));
        ((from + (to - from) * share.clamp(0.0, 1.0)).round() as u32) << shift
    };
    channel(16) | channel(8) | channel(0)
}

fn hex(color: u32) -> String {
    format!("#{color:06x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str = "a <b> & \"c\" 'd'\u{1}";

    /// Panics unless tags balance, attributes are quoted and no number in them is out of bounds.
    fn check(svg: &str) {
        let mut open: Vec<String> = Vec::new();
        for (i, piece) in svg.split('<').enumerate().skip(1) {
            let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("tag {i} has no end: {piece}"));
            assert!(!text.contains('>'), "{piece}");
            for entity in text.split('&').skip(1) {
                let name = entity.split(';').next().unwrap();
                assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "{entity}");
            }
            assert!(text.chars().all(|character| character >= ' ' || character == '\n'), "{text:?}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
                continue;
            }
            check_attributes(tag);
            if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap().to_owned());
            }
        }
        assert_eq!(open, Vec::<String>::new());
    }

    fn check_attributes(tag: &str) {
        let parts: Vec<&str> = tag.split('"').collect();
        assert!(parts.len() % 2 == 1, "{tag}");
        for pair in parts.chunks_exact(2) {
            let name = pair[0].trim_start_matches(|c: char| c != ' ').trim();
            assert!(name.ends_with('=') || pair[0].ends_with('='), "{tag}");
            if ["fill", "stroke", "font-family", "xmlns", "role", "text-anchor"]
                .iter()
                .any(|n| pair[0].contains(n))
            {
                continue;
            }
            for token in
                pair[1].split(|c: char| !(c.is_ascii_digit() || ".-eE".contains(c) || c.is_alphabetic()))
            {
                assert!(!["NaN", "inf", "-inf"].contains(&token), "{tag}");
                if let Ok(value) = token.parse::<f64>() {
                    assert!(value.abs() < 1e4, "{tag}");
                }
            }
        }
    }

    #[test]
    fn the_checker_can_fail() {
        for broken in
            ["<a><b></a></b>", "<a", "<a>", "<a x=\"NaN\"/>", "<a x=\"1e9\"/>", "<a>x & y</a>", "<a x=1/\">"]
        {
            assert!(std::panic::catch_unwind(|| check(broken)).is_err(), "{broken}");
        }
    }

    /// Values that cannot be placed, next to some that can.
    fn awkward() -> Vec<(f64, f64)> {
        let odd = [
            f64::NAN,
            f64::INFINITY,
            -f64::INFINITY,
            0.0,
            -1.0,
            1.0,
            f64::MAX,
            f64::MIN_POSITIVE,
            1e-200,
            1e149,
        ];
        odd.iter().flat_map(|&x| odd.map(|y| (x, y))).collect()
    }

    fn sets() -> Vec<Vec<(f64, f64)>> {
        let tiny = vec![(1.0, 1.0), (1.0 + 1e-15, 1.0 - 1e-15)];
        let wide = vec![(-1e149, -1e149), (1e149, 1e149)];
        vec![
            Vec::new(),
            vec![(2.0, 3.0)],
            vec![(0.0, 0.0)],
            tiny,
            wide,
            vec![(1e-300, 1e-300), (5.0, 1e9)],
            awkward(),
        ]
    }

    #[test]
    fn charts_are_well_formed_whatever_the_numbers() {
        for points in sets() {
            let band: Vec<_> = points.iter().map(|&(x, y)| (x, y, y)).collect();
            let chart = LineChart::new(NASTY).x_label(NASTY).y_label(NASTY);
            let chart =
                chart.line(NASTY, &points).dashed("", &points).dots(NASTY, &points).band(NASTY, &band);
            check(&chart.to_svg());
            check(&chart.clone().log_x().to_svg());
            check(&chart.log_x().log_y().to_svg());
            check(&Scatter::new(NASTY).points(NASTY, &points).diagonal(NASTY).to_svg());
            let values: Vec<f64> = points.iter().map(|point| point.1).collect();
            let map = HeatMap::new(NASTY, (0.0, 1.0), (f64::NAN, 2.0)).points(NASTY, &points);
            check(&map.clone().values(2, &values).to_svg());
            check(&map.clone().values(0, &values).to_svg());
            check(&map.classes(3, &[0, 1, u32::MAX, 7]).to_svg());
        }
    }

    #[test]
    fn cells_are_well_formed_whatever_their_number() {
        for (width, height) in [(0, 0), (2, 2), (3, 1), (28, 28)] {
            let grid = ImageGrid::new(NASTY, width, height);
            check(&grid.to_svg());
            let grid = grid.image(&[0.0, f32::NAN, 1.0, f32::INFINITY], NASTY, true).image(&[], "", false);
            check(&grid.columns(0).to_svg());
        }
        for size in [0, 1, 2, 26, 60] {
            let matrix = ConfusionMatrix::new(NASTY, vec![NASTY; size]);
            check(&matrix.to_svg());
            check(&matrix.pairs((0..1000).map(|i| (i % 7, i % 5))).to_svg());
        }
    }

    #[test]
    fn text_is_escaped() {
        let svg = LineChart::new(NASTY).to_svg();
        assert!(svg.contains("<title>a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\u{fffd}</title>"), "{svg}");
    }

    fn labels(low: f64, high: f64, log: bool) -> Vec<String> {
        let mut axis = Axis { log, ..Axis::default() };
        axis.fit([low, high].into_iter(), 0.0);
        axis.ticks(5).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(0.0, 1.0, false), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(-3.0, 2.0, false), ["−3", "−2", "−1", "0", "1", "2"]);
        assert_eq!(labels(0.0, 2.5e6, false), ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]);
        assert_eq!(labels(0.0, 4e-5, false), ["0", "1·10⁻⁵", "2·10⁻⁵", "3·10⁻⁵", "4·10⁻⁵"]);
        assert_eq!(labels(1.0, 1e4, true), ["1", "10", "100", "1000", "10000"]);
        assert_eq!(labels(1e-8, 1.0, true), ["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "10⁰"]);
        assert_eq!(labels(0.5, 20.0, true), ["0.5", "1", "2", "5", "10", "20"]);
        assert_eq!(labels(3.1, 3.3, true), ["3.10", "3.15", "3.20", "3.25", "3.30"]);
    }

    #[test]
    fn values_land_where_they_belong() {
        let mut frame = Frame::new(String::new(), 100.0, 50.0);
        let marks = [Mark::new(String::new(), &[(0.0, 0.0), (10.0, f64::NAN), (4.0, 8.0)], Style::Line, &[])];
        frame.fit(&marks);
        assert!(frame.x.high < 5.0, "a point without a height does not widen the axis");
        let near = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} {b}");
        near(frame.x.place(2.0), 0.5);
        near(frame.y.place(8.0), 1.05 / 1.1);
        let log = Axis { log: true, low: -1.0, high: 3.0, ..Axis::default() };
        near(log.place(10.0), 0.5);
        assert_eq!(log.place(0.0), None);
        assert_eq!(path_through(&marks[0].points, |(x, y)| y.is_finite().then_some((x, y))), "M0 0M4 8");
    }

    #[test]
    fn cells_side_by_side_become_one_run() {
        let paths = runs(&[Some(1), Some(1), None, Some(2), Some(1), Some(1)], 3);
        assert_eq!(paths[&1], "M0 0h2v1h-2zM1 1h2v1h-2z");
        assert_eq!(paths[&2], "M0 1h1v1h-1z");
    }

    #[test]
    fn a_matrix_counts_what_is_right() {
        let matrix = ConfusionMatrix::new("", ["a", "b"]).pairs([(0, 0), (1, 0), (1, 1), (2, 0)]);
        assert_eq!(matrix.counts, [1, 0, 1, 1]);
        assert_eq!(matrix.summary(), "2 of 3 right (66.7 %)");
    }

    #[test]
    fn grids_leave_few_holes() {
        assert_eq!([1, 2, 10, 30, 100].map(even_columns), [1, 2, 5, 6, 10]);
    }
}
