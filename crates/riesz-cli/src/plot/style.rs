//! Colours and type.

pub(super) const PAPER: &str = "#ffffff";
pub(super) const INK: &str = "#1f2933";
pub(super) const MUTED: &str = "#52606d";
pub(super) const GRID: &str = "#e4e8ed";
pub(super) const WRONG: &str = "#c8102e";
pub(super) const FONT: &str = "'Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif";

/// Ten colours that colour-blind readers can tell apart (after Okabe and Ito).
const PALETTE: [u32; 10] = [
    0x00_72_b2, 0xd5_5e_00, 0x00_9e_73, 0xb4_52_8e, 0xe6_9f_00, 0x3b_a3_dc, 0x7a_4f_a3, 0x8a_62_3c,
    0x5f_6b_76, 0x9a_a8_1c,
];

/// Stops of the sequential colour map, dark to light (after Viridis).
const SEQUENTIAL: [u32; 7] =
    [0x44_01_54, 0x44_3a_83, 0x31_68_8e, 0x21_90_8c, 0x35_b7_79, 0x8f_d7_44, 0xfd_e7_25];
/// Shades a heat map is drawn in.
pub(super) const SHADES: usize = 64;

pub(super) const TITLE_SIZE: f64 = 18.0;
pub(super) const LABEL_SIZE: f64 = 14.0;
pub(super) const TICK_SIZE: f64 = 13.0;
/// Mean width of a character, in units of the font size; generous, so that nothing is cut off.
pub(super) const CHARACTER: f64 = 0.6;

/// The text, or its beginning if it is long.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The room a text takes, a little generous.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// The colour of the mark of this number.
pub(super) fn palette(index: usize) -> u32 {
    PALETTE[index % PALETTE.len()]
}

/// A shade of the sequential colour map.
pub(super) fn sequential(shade: usize) -> u32 {
    let place = shade as f64 / (SHADES - 1) as f64 * (SEQUENTIAL.len() - 1) as f64;
    let stop = (place as usize).min(SEQUENTIAL.len() - 2);
    mix(SEQUENTIAL[stop], SEQUENTIAL[stop + 1], place - stop as f64)
}

/// The colour on the way from `from` to `to`.
pub(super) fn mix(from: u32, to: u32, share: f64) -> u32 {
    let channel = |shift: u32| {
        let [from, to] = [from, to].map(|color| f64::from(color >> shift & 0xff));
        ((from + (to - from) * share.clamp(0.0, 1.0)).round() as u32) << shift
    };
    channel(16) | channel(8) | channel(0)
}

/// A colour as SVG writes it.
pub(super) fn hex(color: u32) -> String {
    format!("#{color:06x}")
}
