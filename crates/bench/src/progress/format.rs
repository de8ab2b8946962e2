//! Numbers for people: three digits and a unit that fits.

use crate::result::{Metric, Unit};

/// A value with its unit.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    match metric.unit() {
        Unit::PerSecond => format!("{}/s", count(value)),
        Unit::PerCpuSecond => format!("{}/CPU-s", count(value)),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
        Unit::Bytes => bytes(value),
        Unit::Microseconds if value >= 1e6 => format!("{} s", digits(value / 1e6)),
        Unit::Microseconds if value >= 1e3 => format!("{} ms", digits(value / 1e3)),
        Unit::Microseconds => format!("{} µs", digits(value)),
        Unit::Seconds => duration(value),
        Unit::Count => digits(value),
        Unit::Times => format!("x{}", digits(value)),
    }
}

/// A number with k, M or G.
fn count(value: f64) -> String {
    scaled(value, 1e3, &["", " k", " M", " G"])
}

fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB"])
}

/// A time: `0.5 s`, `3 min`, `1 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 100.0 {
        return format!("{} s", digits(seconds));
    }
    let minutes = (seconds / 60.0).round();
    if minutes < 60.0 {
        return format!("{minutes} min");
    }
    format!("{} h {} min", (minutes / 60.0).floor(), minutes % 60.0)
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value, 0);
    while value.abs() >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    format!("{}{}", digits(value), units.get(at).copied().unwrap_or_default())
}

/// Three digits that count.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size > 0.0 => 3,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit() {
        let cases = [
            (Metric::Rate, 5_612_345.0, "5.61 M/s"),
            (Metric::Rate, 12.0, "12.0/s"),
            (Metric::PerCpuSecond, 67_000.0, "67.0 k/CPU-s"),
            (Metric::ByteRate, 1024.0 * 1024.0 * 300.0, "300 MiB/s"),
            (Metric::Memory, 0.0, "0 B"),
            (Metric::CpuPerMessage, 0.178, "0.178 µs"),
            (Metric::LatencyMedian, 1500.0, "1.50 ms"),
            (Metric::LatencyMedian, 2e6, "2.00 s"),
            (Metric::Duration, 360.0, "6 min"),
            (Metric::Duration, 3_900.0, "1 h 5 min"),
            (Metric::Relative, 0.5, "x0.500"),
        ];
        for (metric, number, text) in cases {
            assert_eq!(value(metric, number), text);
        }
    }
}
