//! From values to places, and round numbers between.

/// Values beyond this cannot be placed: their differences would overflow.
const LARGEST: f64 = 1e150;

/// One axis; `low` and `high` are logarithms to base ten if it is logarithmic.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) log: bool,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A labelled place on an axis, from 0 to 1.
#[derive(Clone, Debug)]
pub(super) struct Tick {
    pub(super) place: f64,
    pub(super) label: String,
}

impl Default for Axis {
    fn default() -> Self {
        Self { label: String::new(), log: false, low: 0.0, high: 1.0 }
    }
}

impl Axis {
    /// The coordinate of a value, where it has one.
    pub(super) fn coordinate(&self, value: f64) -> Option<f64> {
        let usable = if self.log { value >= 1.0 / LARGEST } else { true };
        (usable && value.abs() <= LARGEST).then(|| if self.log { value.log10() } else { value })
    }

    /// Covers the values and a margin, given as a fraction of their range.
    pub(super) fn fit(&mut self, values: impl Iterator<Item = f64>, margin: f64) {
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
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = (self.coordinate(value)? - self.low) / (self.high - self.low);
        (-1e-9..=1.0 + 1e-9).contains(&place).then(|| place.clamp(0.0, 1.0))
    }

    pub(super) fn ticks(&self, wanted: usize) -> Vec<Tick> {
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
    pub(super) fn minor_ticks(&self) -> Vec<f64> {
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
