//! Durations as text.

/// An ISO 8601 duration in whole seconds, more than 0. COMPAT: a year has 365 days and a month 30.
#[must_use]
pub fn duration_s(text: &str) -> Option<u64> {
    let (mut total, mut digits, mut is_time) = (0_u64, String::new(), false);
    for letter in text.strip_prefix('P')?.chars() {
        let unit = match (letter, is_time) {
            ('0'..='9', _) => {
                digits.push(letter);
                continue;
            }
            ('T', false) => {
                is_time = true;
                continue;
            }
            ('Y', false) => 365 * 86_400,
            ('M', false) => 30 * 86_400,
            ('D', false) => 86_400,
            ('H', true) => 3_600,
            ('M', true) => 60,
            ('S', true) => 1,
            (_, _) => return None,
        };
        total = total.checked_add(digits.parse::<u64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    (digits.is_empty() && total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(duration_s("P1DT2H3S"), Some(93_603));
        assert_eq!(duration_s("P1Y2M"), Some(425 * 86_400));
        let bad = ["PT0S", "5m", "PT5", "P1H", "PT99999999999999999999S", ""];
        assert_eq!(bad.map(duration_s), [None; 6]);
    }
}
