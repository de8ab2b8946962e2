//! Units of memory and disk space.

/// The units that `status` shows sizes in, with their bytes.
pub(crate) const UNITS: &[(&str, f64)] = &[
    ("bytes", 1.0),
    ("k", 1e3),
    ("kb", 1e3),
    ("ki", 1024.0),
    ("kib", 1024.0),
    ("m", 1e6),
    ("mb", 1e6),
    ("mi", 1_048_576.0),
    ("mib", 1_048_576.0),
    ("g", 1e9),
    ("gb", 1e9),
    ("gi", 1_073_741_824.0),
    ("gib", 1_073_741_824.0),
    ("t", 1e12),
    ("tb", 1e12),
    ("ti", 1_099_511_627_776.0),
    ("tib", 1_099_511_627_776.0),
];

/// The bytes of a whole number and its unit, as in `500MB`; without one it is bytes.
pub(crate) fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let unit = if unit.is_empty() { "bytes" } else { unit };
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and positive"
    )]
    number.checked_mul(*factor as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_or_are_bytes() {
        let sizes = [
            ("0", Some(0)),
            ("15165638246", Some(15_165_638_246)),
            ("500MB", Some(500_000_000)),
            ("8GiB", Some(8 << 30)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551615kB", None),
            ("", None),
            ("-1", None),
            ("1.5GB", None),
            ("5 parsecs", None),
        ];
        for (text, expected) in sizes {
            assert_eq!(bytes_of(text), expected, "{text}");
        }
    }
}
