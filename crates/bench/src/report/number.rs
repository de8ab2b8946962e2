//! Numbers as people read them: few digits, grouped by thousands, with a unit.

use crate::result::Unit;

/// Between groups of digits, and between a number and its unit: a narrow space that breaks no line.
pub(crate) const SPACE: char = '\u{202f}';

/// Multiples of a microsecond.
const TIMES: [(f64, &str); 4] = [(1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s")];
/// Multiples of a byte.
const SIZES: [(f64, &str); 4] =
    [(1.0, "B"), (1024.0, "KiB"), (1024.0 * 1024.0, "MiB"), (1024.0 * 1024.0 * 1024.0, "GiB")];

/// A value with its unit, in that unit's multiple that fits it.
pub(crate) fn text(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerCpuSecond | Unit::Count => short(value),
        Unit::PerSecond => format!("{}/s", short(value)),
        Unit::Times => ratio(value),
        Unit::Microseconds => in_multiples(value, &TIMES),
        Unit::Seconds => in_multiples(value * 1e6, &TIMES),
        Unit::Bytes => in_multiples(value, &SIZES),
        Unit::BytesPerSecond => format!("{}/s", in_multiples(value, &SIZES)),
    }
}

/// A value in the multiple of its unit that `beside` is shown in: a goal next to the value reached.
pub(crate) fn text_beside(value: f64, beside: f64, unit: Unit) -> String {
    let in_multiples = |value: f64, beside: f64, multiples: &[(f64, &'static str)]| {
        let (base, name) = multiple(beside, multiples);
        format!("{}{SPACE}{name}", short(value / base))
    };
    match unit {
        Unit::PerCpuSecond | Unit::PerSecond => {
            let suffix = if unit == Unit::PerSecond { "/s" } else { "" };
            match (beside >= 999.5e3, value >= 999.5e3) {
                (true, false) => format!("{}{SPACE}M{suffix}", significant(value / 1e6)),
                (false, true) => format!("{}{suffix}", grouped(&format!("{value:.0}"))),
                _ => text(value, unit),
            }
        }
        Unit::Microseconds => in_multiples(value, beside, &TIMES),
        Unit::Seconds => in_multiples(value * 1e6, beside * 1e6, &TIMES),
        Unit::Bytes => in_multiples(value, beside, &SIZES),
        Unit::BytesPerSecond => format!("{}/s", in_multiples(value, beside, &SIZES)),
        Unit::Count | Unit::Times => text(value, unit),
    }
}

/// The text at a tick of an axis whose title says that it counts per second.
pub(crate) fn tick_text(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond | Unit::Count => short(value),
        Unit::BytesPerSecond => text(value, Unit::Bytes),
        Unit::PerCpuSecond | Unit::Microseconds | Unit::Seconds | Unit::Bytes | Unit::Times => {
            text(value, unit)
        }
    }
}

/// The value with three digits that count: for labels, where the next ones would be noise.
pub(crate) fn rounded(value: f64) -> f64 {
    let step = 10_f64.powf(value.abs().log10().floor() - 2.0);
    let rounded = (value / step).round() * step;
    if rounded.is_finite() { rounded } else { value }
}

/// As short as it gets, without a unit of time: `92.3 k`, `1.04 M`.
pub(crate) fn compact(value: f64, unit: Unit) -> String {
    let value = rounded(value);
    let is_count = matches!(unit, Unit::PerSecond | Unit::PerCpuSecond);
    match is_count && (1e3..1e6).contains(&value) {
        true => format!("{}{SPACE}k", significant(value / 1e3)),
        false => tick_text(value, unit),
    }
}

/// In which steps an axis counts whose values are about as large as `value`.
pub(crate) fn step_base(value: f64, unit: Unit) -> f64 {
    match unit {
        Unit::Bytes | Unit::BytesPerSecond => multiple(value, &SIZES).0,
        Unit::PerSecond | Unit::PerCpuSecond | Unit::Microseconds | Unit::Seconds => 1.0,
        Unit::Count | Unit::Times => 1.0,
    }
}

fn in_multiples(value: f64, multiples: &[(f64, &str)]) -> String {
    let (base, name) = multiple(value, multiples);
    match value == 0.0 {
        true => "0".to_owned(),
        false => format!("{}{SPACE}{name}", short(value / base)),
    }
}

/// The largest one of which `value`, rounded as it will be shown, is at least one.
fn multiple<'a>(value: f64, multiples: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fitting = multiples.iter().rev().find(|(base, _)| value.abs() >= base * 0.999_5);
    fitting.or_else(|| multiples.first()).copied().unwrap_or((1.0, ""))
}

/// Three digits that count, more only left of the decimal point: `0.178`, `5.6`, `12 345`, `1.25 M`.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 999.5e6 {
        format!("{}{SPACE}G", significant(value / 1e9))
    } else if size >= 999.5e3 {
        format!("{}{SPACE}M", significant(value / 1e6))
    } else if size >= 99.95 {
        grouped(&format!("{value:.0}"))
    } else {
        significant(value)
    }
}

/// A ratio: `48×`, `3.1×`, `1.24×`, `0.83×`.
pub(crate) fn ratio(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value >= 999.5 {
        format!("{}×", grouped(&format!("{value:.0}")))
    } else if value >= 9.95 {
        format!("{value:.0}×")
    } else if value >= 1.995 {
        format!("{value:.1}×")
    } else if value >= 0.1 {
        format!("{value:.2}×")
    } else {
        format!("{}×", significant(value))
    }
}

/// A share of 1 of a length, as CSS and SVG want it.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{}%", trimmed(&text))
}

/// At most three digits, none of them a zero at the end behind the decimal point.
fn significant(value: f64) -> String {
    let size = value.abs();
    let text = if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.999_5 {
        format!("{value:.2}")
    } else if size >= 0.000_5 {
        format!("{value:.3}")
    } else {
        format!("{value:.6}")
    };
    let text = trimmed(&text);
    if text == "-0" { "0".to_owned() } else { grouped(text) }
}

fn trimmed(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// Puts a space between thousands. Figures behind a decimal point stay together.
fn grouped(text: &str) -> String {
    let whole = text.find('.').unwrap_or(text.len());
    let mut out = String::with_capacity(text.len() + 8);
    for (at, character) in text.chars().enumerate() {
        let left = whole.saturating_sub(at);
        if at > 0 && left > 0 && left.is_multiple_of(3) && !out.ends_with('-') {
            out.push(SPACE);
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(SPACE, " ")
    }

    #[test]
    fn numbers_have_few_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0004, "0.0004"),
            (0.178_4, "0.178"),
            (5.0, "5"),
            (9.999, "10"),
            (67.123, "67.1"),
            (999.7, "1 000"),
            (12_345.4, "12 345"),
            (-12_345.4, "-12 345"),
            (-123.0, "-123"),
            (999_499.0, "999 499"),
            (1_000_000.0, "1 M"),
            (1_249_999.0, "1.25 M"),
            (149_910_000.0, "150 M"),
            (2.5e9, "2.5 G"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(plain(&short(value)), text);
        }
    }

    #[test]
    fn units_follow_the_size() {
        let mib = 1024.0 * 1024.0;
        for (value, unit, expected) in [
            (5_612_345.0, Unit::PerSecond, "5.61 M/s"),
            (5_612_345.0, Unit::PerCpuSecond, "5.61 M"),
            (0.0, Unit::Microseconds, "0"),
            (0.18, Unit::Microseconds, "180 ns"),
            (174.0, Unit::Microseconds, "174 µs"),
            (999.7, Unit::Microseconds, "1 ms"),
            (2_060.0, Unit::Microseconds, "2.06 ms"),
            (1_500_000.0, Unit::Microseconds, "1.5 s"),
            (0.2, Unit::Seconds, "200 ms"),
            (330.0, Unit::Seconds, "330 s"),
            (12.0, Unit::Bytes, "12 B"),
            (5.5 * mib, Unit::Bytes, "5.5 MiB"),
            (1024.0 * mib, Unit::Bytes, "1 GiB"),
            (45.0 * mib, Unit::BytesPerSecond, "45 MiB/s"),
            (0.5, Unit::Times, "0.50×"),
        ] {
            assert_eq!(plain(&text(value, unit)), expected);
        }
        assert_eq!(plain(&text_beside(950.0, 1_150.0, Unit::Microseconds)), "0.95 ms");
        assert_eq!(plain(&text_beside(1_150.0, 950.0, Unit::Microseconds)), "1 150 µs");
        assert_eq!(plain(&text_beside(962_000.0, 1.2e6, Unit::PerCpuSecond)), "0.962 M");
        assert_eq!(plain(&text_beside(6e6, 144_129.0, Unit::PerSecond)), "6 000 000/s");
        assert_eq!(plain(&text_beside(mib / 4.0, 2.0 * mib, Unit::Bytes)), "0.25 MiB");
        assert_eq!(plain(&tick_text(45.0 * mib, Unit::BytesPerSecond)), "45 MiB");
        assert_eq!(plain(&compact(92_261.0, Unit::PerSecond)), "92.3 k");
        assert_eq!(plain(&compact(1_043_000.0, Unit::PerSecond)), "1.04 M");
        assert_eq!(plain(&text(rounded(962_447.0), Unit::PerCpuSecond)), "962 000");
        assert_eq!(rounded(0.0), 0.0);
    }

    #[test]
    fn ratios_say_no_more_than_they_know() {
        for (value, text) in [
            (12_345.0, "12 345×"),
            (120.2, "120×"),
            (48.4, "48×"),
            (9.96, "10×"),
            (3.12, "3.1×"),
            (1.996, "2.0×"),
            (1.0, "1.00×"),
            (0.834, "0.83×"),
            (0.012, "0.012×"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(&ratio(value)), text);
        }
    }

    #[test]
    fn shares_become_percent() {
        assert_eq!([percent(0.5), percent(0.123_456), percent(0.0)], ["50%", "12.35%", "0%"]);
    }
}
