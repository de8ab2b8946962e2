//! How often a log file is moved away, in the words of newsyslog as RabbitMQ has them.

const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 24 * HOUR_S;

/// A span of time that a file is for: hours, days, weeks or months, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    /// An hour, from this minute on.
    Hour(u64),
    /// A day, from this hour on.
    Day(u64),
    /// A week, from this hour of this day on, 0 being Sunday.
    Week(u64, u64),
    /// A month, from this hour of this day on.
    Month(u64, u64),
}

impl Period {
    /// Reads `$H30`, `$D23`, `$W0D23` or `$M1D0`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str, max: u64| text.parse().ok().filter(|number| *number <= max);
        let (kind, rest) = text.strip_prefix('$')?.split_at_checked(1)?;
        let day_and_hour = |max| {
            let (day, hour) = rest.split_once('D').unwrap_or((rest, "0"));
            Some((number(day, max)?, number(hour, 23)?))
        };
        Some(match kind {
            "H" => Self::Hour(number(rest, 59)?),
            "D" => Self::Day(if rest.is_empty() { 0 } else { number(rest, 23)? }),
            "W" => day_and_hour(6).map(|(day, hour)| Self::Week(day, hour))?,
            // Every month has so many days.
            "M" => {
                let (day, hour) = day_and_hour(28).filter(|(day, _)| *day > 0)?;
                Self::Month(day, hour)
            }
            _ => return None,
        })
    }

    /// Reads a period as [`Self::parse`] does; an empty text is none.
    pub(super) fn parse_any(text: &str) -> Option<Option<Self>> {
        if text.is_empty() { Some(None) } else { Self::parse(text).map(Some) }
    }

    /// The number of the period that a time belongs to.
    pub(crate) fn of(&self, unix_s: u64) -> u64 {
        match self {
            Self::Hour(minute) => unix_s.saturating_sub(minute * 60) / HOUR_S,
            Self::Day(hour) => unix_s.saturating_sub(hour * HOUR_S) / DAY_S,
            // 1970 began on a Thursday.
            Self::Week(day, hour) => {
                unix_s.saturating_sub((*day + 3) % 7 * DAY_S + hour * HOUR_S) / (7 * DAY_S)
            }
            Self::Month(day, hour) => {
                let begun_s = unix_s.saturating_sub((*day - 1) * DAY_S + hour * HOUR_S);
                let stdx::Date { year, month, .. } = stdx::Civil::at(begun_s).date;
                year * 12 + month
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unix seconds of 2026-11-`day` at `hour`:`minute`; the 22nd is a Sunday.
    fn at(day: u64, hour: u64, minute: u64) -> u64 {
        1_793_491_200 + (day - 1) * DAY_S + hour * HOUR_S + minute * 60
    }

    #[test]
    fn a_period_begins_at_its_moment() {
        let begins = |text: &str, moment: u64| {
            let period = Period::parse(text).unwrap();
            assert_eq!(period.of(moment - 1) + 1, period.of(moment), "{text}");
            assert_eq!(period.of(moment), period.of(moment + HOUR_S / 2), "{text}");
        };
        begins("$H30", at(3, 4, 30));
        begins("$D", at(3, 0, 0));
        begins("$D23", at(3, 23, 0));
        begins("$W0D5", at(22, 5, 0));
        begins("$W6", at(28, 0, 0));
        begins("$M1D0", at(1, 0, 0));
        begins("$M15D7", at(15, 7, 0));
    }

    #[test]
    fn nonsense_is_no_period() {
        for text in
            ["", "$", "D0", "$X", "$D24", "$H60", "$H", "$W7", "$W0D", "$M0", "$M29", "$M1D24"]
        {
            assert_eq!(Period::parse(text), None, "{text}");
        }
    }
}
