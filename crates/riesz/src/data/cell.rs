//! Numbers in text, and what is wrong with a cell that holds none.

/// What is wrong with a cell that should have held a number.
pub(super) fn cell_reason(name: &str, cell: &[u8]) -> String {
    let text = String::from_utf8_lossy(cell);
    let shown: String = text.chars().take(40).collect();
    if is_missing(&text) {
        return format!("column {name:?} has a missing value ({shown:?}); remove or impute such rows first");
    }
    match text.parse::<f64>() {
        Ok(_) => format!("column {name:?} holds {shown}, beyond single precision; rescale or remove it"),
        Err(_) if text.replace(',', ".").parse::<f64>().is_ok() => {
            format!("column {name:?} holds {shown:?}; write numbers with a decimal point and no thousands separator")
        }
        Err(_) => format!(
            "column {name:?} holds the text {shown:?}; encode the column as numbers, drop it, or name it as the target"
        ),
    }
}

/// Whether a cell stands for a value nobody knows.
pub fn is_missing(cell: &str) -> bool {
    const MARKS: [&str; 6] = ["?", "nan", "na", "n/a", "null", "-nan"];
    cell.is_empty() || MARKS.iter().any(|mark| cell.eq_ignore_ascii_case(mark))
}

/// A number in text, correctly rounded; infinite beyond single precision.
pub(super) fn parse_f32(cell: &[u8]) -> Option<f32> {
    match leading_decimal(cell) {
        Some((value, length)) if length == cell.len() => Some(value),
        _ => std::str::from_utf8(cell).ok()?.parse().ok(),
    }
}

/// The fast path of [`parse_f32`]: the number `bytes` begins with and its length, where it is a plain decimal
/// that double precision gets right in one division and whose second rounding cannot meet a tie.
#[inline]
pub(super) fn leading_decimal(bytes: &[u8]) -> Option<(f32, usize)> {
    const POWERS: [f64; 20] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19,
    ];
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    let mut mantissa = 0;
    let whole = leading_digits(bytes, start, &mut mantissa);
    let (mut end, mut decimals) = (whole, 0);
    if bytes.get(whole) == Some(&b'.') {
        end = leading_digits(bytes, whole + 1, &mut mantissa);
        decimals = end - whole - 1;
    }
    // Nineteen digits fit into 64 bits; of more the caller looks again.
    if !(1..=19).contains(&(whole - start + decimals)) || mantissa > 1 << 53 {
        return None;
    }
    let value = if decimals == 0 { mantissa as f64 } else { mantissa as f64 / POWERS[decimals] };
    // The 29 bits single precision lacks: if they are a half give or take one, the digits must decide.
    let lost = value.to_bits() & 0x1FFF_FFFF;
    if decimals > 0 && lost.abs_diff(0x1000_0000) <= 1 {
        return None;
    }
    Some((if negative { -value } else { value } as f32, end))
}

/// Appends the digits from `place` on to `mantissa` and returns the place behind them; beyond 19 digits the number is another.
#[inline]
fn leading_digits(bytes: &[u8], mut place: usize, mantissa: &mut u64) -> usize {
    const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    // Eight bytes at a time: the digits among them are pushed to the end of eight, zeros before them, and added up in pairs.
    while let Some(word) = bytes.get(place..).and_then(|rest| rest.first_chunk()) {
        let digits = u64::from_le_bytes(*word) ^ 0x3030_3030_3030_3030;
        let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
        let count = others.trailing_zeros() as usize / 8;
        if count == 0 {
            return place;
        }
        let pairs = digits << (64 - 8 * count);
        let pairs = pairs.wrapping_mul(10).wrapping_add(pairs >> 8);
        let low = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
        let high = (pairs >> 16 & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
        let value = low.wrapping_add(high) >> 32;
        *mantissa = mantissa.wrapping_mul(POWERS[count]).wrapping_add(value);
        place += count;
        if count < 8 {
            return place;
        }
    }
    while let Some(digit) = bytes.get(place).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit <= 9) {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        place += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parses_numbers_as_the_standard_library_does(text in "[-+]?[0-9]{0,9}[.]?[0-9]{0,9}(e[-+]?[0-9]{1,2})?") {
            let expected = text.parse::<f32>().ok().map(f32::to_bits);
            prop_assert_eq!(parse_f32(text.as_bytes()).map(f32::to_bits), expected, "{}", text);
        }

        #[test]
        fn rounds_once_next_to_a_tie(
            mantissa in 0_u32..1 << 23, exponent in 127_u32..150, ulps in -1_i64..2, digits in 15..17
        ) {
            let single = f32::from_bits(exponent << 23 | mantissa);
            let tie = (f64::from(single) + f64::from(f32::from_bits(single.to_bits() + 1))) / 2.0;
            let near = f64::from_bits(tie.to_bits().wrapping_add_signed(ulps));
            let decimals = (digits - 1 - tie.log10().floor() as i32) as usize;
            let text = format!("{near:.decimals$}");
            prop_assert_eq!(parse_f32(text.as_bytes()), text.parse::<f32>().ok(), "{}", text);
        }

        /// However many digits there are, and whatever follows them.
        #[test]
        fn digits_are_read_eight_at_a_time(text in "-?[0-9]{1,24}[.]?[0-9]{0,24}", behind in "[,;a-z\\n ]{0,9}") {
            let whole = format!("{text}{behind}");
            let found = leading_decimal(whole.as_bytes());
            if let Some((value, length)) = found {
                prop_assert_eq!(length, text.len());
                prop_assert_eq!(Some(value), text.parse::<f32>().ok());
            }
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            prop_assert!(found.is_some() || digits > 15 || text.contains('.'), "{}", text);
        }

        #[test]
        fn parses_nothing_but_numbers(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let expected = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<f32>().ok());
            prop_assert_eq!(parse_f32(&bytes).map(f32::to_bits), expected.map(f32::to_bits));
        }
    }
}
