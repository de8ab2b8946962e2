//! Times as values, and dates.

/// A time on the node's monotonic clock, in milliseconds since the node's start. It never goes back, and
/// means nothing to another node or after a restart: for time-outs and rates. The node's
/// [`Clock`](crate::Clock) owns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MonotonicMs(u64);

/// A time of day, in milliseconds since 1970-01-01T00:00:00Z. The machine's clock owns it, which may be set
/// and so jump: for timestamps that people or peers see, and for times that are written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct UnixMs(u64);

/// Operations of a time. The result that no number can hold is the nearest one.
macro_rules! time_operations {
    ($Time:ident) => {
        impl $Time {
            /// A time that never comes.
            pub const NEVER: Self = Self(u64::MAX);

            /// The time that `get` made this number of, or that is written as it.
            #[must_use]
            pub const fn from_raw(ms: u64) -> Self {
                Self(ms)
            }

            /// The number of milliseconds since the clock's origin, to be written or shown.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The time `span_ms` later.
            #[must_use]
            pub const fn plus(self, span_ms: u64) -> Self {
                Self(self.0.saturating_add(span_ms))
            }

            /// The time `span_ms` earlier.
            #[must_use]
            pub const fn minus(self, span_ms: u64) -> Self {
                Self(self.0.saturating_sub(span_ms))
            }

            /// The milliseconds since `earlier`; 0 if that is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }

            /// The first time from here on that is a multiple of `step_ms`, which is not 0, after the origin.
            #[must_use]
            pub const fn round_up(self, step_ms: u64) -> Self {
                match self.0.checked_next_multiple_of(step_ms) {
                    Some(ms) => Self(ms),
                    None => Self::NEVER,
                }
            }
        }
    };
}
time_operations!(MonotonicMs);
time_operations!(UnixMs);

/// The time a command is applied at. Pure code never reads a clock: it is handed this value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// The time on the node's own clock.
    pub monotonic_ms: MonotonicMs,
    /// The time of day.
    pub unix_ms: UnixMs,
}

impl Now {
    /// The time `ms` after the origins of both clocks, as simulated nodes count it.
    #[must_use]
    pub const fn at_ms(ms: u64) -> Self {
        Self { monotonic_ms: MonotonicMs(ms), unix_ms: UnixMs(ms) }
    }

    /// The time `span_ms` later.
    #[must_use]
    pub const fn plus(self, span_ms: u64) -> Self {
        let Self { monotonic_ms, unix_ms } = self;
        Self { monotonic_ms: monotonic_ms.plus(span_ms), unix_ms: unix_ms.plus(span_ms) }
    }
}

/// A day of the Gregorian calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Years since the year 0.
    pub year: u64,
    /// 1 for January.
    pub month: u64,
    /// 1 for the month's first.
    pub day: u64,
}

/// A date and time of day, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The day.
    pub date: Date,
    /// Hour, minute and second.
    pub time: (u64, u64, u64),
}

impl Civil {
    /// The one `seconds` after 1970 began.
    #[must_use]
    pub const fn at(seconds: u64) -> Self {
        let time = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        Self { date: civil_date(seconds / 86_400), time }
    }
}

/// `2026-11-26T15:22:53.123+00:00`, in UTC, with this between date and time.
#[must_use]
pub fn date_time(at: UnixMs, between: char) -> String {
    let Civil { date: Date { year, month, day }, time: (hour, minute, second) } =
        Civil::at(at.0 / 1_000);
    let ms = at.0 % 1_000;
    format!("{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

/// The date `days` days after 1970-01-01. Counts years from March, so that a leap day is a
/// year's last.
const fn civil_date(days: u64) -> Date {
    const DAYS_PER_400_YEARS: u64 = 146_097;
    const DAYS_FROM_0000_03_01_TO_1970: u64 = 719_468;
    let days = days + DAYS_FROM_0000_03_01_TO_1970;
    let era = days / DAYS_PER_400_YEARS;
    let day_of_era = days % DAYS_PER_400_YEARS;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    Date { year, month, day }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let date = |year, month, day| Date { year, month, day };
        assert_eq!(civil_date(0), date(1970, 1, 1));
        assert_eq!(civil_date(11_016), date(2000, 2, 29));
        assert_eq!(civil_date(20_778), date(2026, 11, 21));
        let noon = Civil { date: date(2000, 2, 29), time: (12, 34, 56) };
        assert_eq!(Civil::at(951_827_696), noon);
        assert_eq!(date_time(UnixMs(951_827_696_007), ' '), "2000-02-29 12:34:56.007+00:00");
    }
}
