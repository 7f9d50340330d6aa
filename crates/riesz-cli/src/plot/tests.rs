//! Every picture is well-formed, whatever the numbers.

use super::axis::Axis;
use super::cells::runs;
use super::frame::Frame;
use super::image_grid::even_columns;
use super::mark::{path_through, Mark, Style};
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
        for token in pair[1].split(|c: char| !(c.is_ascii_digit() || ".-eE".contains(c) || c.is_alphabetic()))
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
    let odd =
        [f64::NAN, f64::INFINITY, -f64::INFINITY, 0.0, -1.0, 1.0, f64::MAX, f64::MIN_POSITIVE, 1e-200, 1e149];
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
        let chart = chart.line(NASTY, &points).dashed("", &points).dots(NASTY, &points).band(NASTY, &band);
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
