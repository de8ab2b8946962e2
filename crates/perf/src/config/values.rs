//! Values with an inner form: lists, keys with values, steps.

use std::str::FromStr;

use amqp091::{ShortString, Table, Value};
use rustls::pki_types::{DnsName, ServerName};

use crate::clock::{MILLISECOND, SECOND, from_seconds};
use crate::options::{Given, Usage};
use crate::rate::Schedule;

/// The number given for an option, or `default`.
pub(crate) fn number<T: FromStr>(given: &Given, long: &str, default: T) -> Result<T, Usage> {
    Ok(optional(given, long)?.unwrap_or(default))
}

/// The number given for an option, if it was.
pub(crate) fn optional<T: FromStr>(given: &Given, long: &str) -> Result<Option<T>, Usage> {
    given.last(long).map(|text| text.trim().parse().map_err(|_| invalid(long, text))).transpose()
}

/// A number of messages after which something ends, if there is one: 0 is none.
pub(crate) fn limit(given: &Given, long: &str) -> Result<Option<u64>, Usage> {
    Ok(optional(given, long)?.filter(|limit| *limit > 0))
}

/// The value of the word given for an option, among these; `default` if it was not given.
pub(crate) fn choice<T: Copy>(
    given: &Given,
    long: &str,
    default: T,
    known: &[(&str, T)],
) -> Result<T, Usage> {
    let Some(text) = given.last(long) else { return Ok(default) };
    let found = known.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| invalid(long, text))
}

/// The one name that a server is asked for with TLS, if there is one.
pub(crate) fn server_name(given: &Given) -> Result<Option<ServerName<'static>>, Usage> {
    let names = list(given, "server-name-indication");
    let dns = |name: &String| DnsName::try_from(name.clone()).map(ServerName::DnsName).ok();
    match names.as_slice() {
        [] => Ok(None),
        // PerfTest takes a list, but TLS has room for one name of that kind.
        [name] if dns(name).is_some() => Ok(dns(name)),
        [_, ..] => Err(invalid("server-name-indication", &names.join(","))),
    }
}

/// `true` or `false`, however it is written, or `default`.
pub(crate) fn truth(given: &Given, long: &str, default: bool) -> Result<bool, Usage> {
    let read =
        |text: &str| text.trim().to_ascii_lowercase().parse().map_err(|_| invalid(long, text));
    given.last(long).map_or(Ok(default), read)
}

/// Values separated by commas; none if the option was not given.
pub(crate) fn list(given: &Given, long: &str) -> Vec<String> {
    let parts = given.last(long).unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// `key=value,...` as PerfTest reads it: numbers and truth values become such, a key alone has the
/// empty text.
pub(crate) fn table(given: &Given, long: &str) -> Result<Table, Usage> {
    let mut table = Table::new();
    for text in given.all(long) {
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = ShortString::new(key).map_err(|_| invalid(long, text))?;
            let value = match (key, value) {
                ("x-dead-letter-exchange", "amq.default") => Value::from(""),
                ("x-single-active-consumer", text) => Value::Bool(text == "true"),
                (_, text) => value_of(text),
            };
            table.insert(name, value);
        }
    }
    Ok(table)
}

/// The value of a word of an argument list: a number, a boolean, or a string.
pub(crate) fn value_of(word: &str) -> Value {
    match (word.parse::<i64>(), word) {
        (Ok(number), _) => Value::I64(number),
        (Err(_), "true") => Value::Bool(true),
        (Err(_), "false") => Value::Bool(false),
        (Err(_), text) => Value::LongString(text.as_bytes().to_vec()),
    }
}

/// Seconds, in nanoseconds; less than 0 is 0.
pub(crate) fn seconds(given: &Given, long: &str, default: f64) -> Result<u64, Usage> {
    let seconds: f64 = number(given, long, default)?;
    if seconds.is_nan() { Err(invalid(long, "nan")) } else { Ok(from_seconds(seconds)) }
}

/// `30` or `30-60` seconds, in nanoseconds.
pub(crate) fn seconds_range(given: &Given, long: &str, default: f64) -> Result<(u64, u64), Usage> {
    let Some(text) = given.last(long) else {
        return Ok((from_seconds(default), from_seconds(default)));
    };
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let ns = |text: &str| text.trim().parse().map(from_seconds).map_err(|_| invalid(long, text));
    let (least, most) = (ns(least)?, ns(most)?);
    if least > most { Err(invalid(long, text)) } else { Ok((least, most)) }
}

/// Bytes, also as `5gb`: decimal units, as PerfTest has them.
pub(crate) fn byte_capacity(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..)? {
        "" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(factor).filter(|bytes| *bytes >= 0)
}

/// A duration such as `1m30s`, `5 ms` or `0`, in nanoseconds.
pub(crate) fn duration_ns(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 6] = [
        ("h", 3_600 * SECOND),
        ("ms", MILLISECOND),
        ("m", 60 * SECOND),
        ("us", 1_000),
        ("ns", 1),
        ("s", SECOND),
    ];
    let text = text.replace(' ', "");
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut total) = (text.as_str(), 0_u64);
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, ns) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        total = total.checked_add(digits.parse::<u64>().ok()?.checked_mul(*ns)?)?;
        rest = after.strip_prefix(unit)?;
    }
    (!text.is_empty()).then_some(total)
}

/// The offset at which a consumer of a stream begins.
pub(crate) fn stream_offset(text: &str) -> Option<Value> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "first" | "last" | "next" => Some(Value::from(lower.as_str())),
        _ => text.parse().map(Value::I64).ok().or_else(|| moment_s(text).map(Value::Timestamp)),
    }
}

/// A moment such as `2022-06-03T07:45:54Z` or with `+02:00`, in seconds since 1970; fractions of a
/// second are left out.
pub(crate) fn moment_s(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let zone_at = time.find(['Z', '+', '-'])?;
    let (time, zone) = time.split_at_checked(zone_at)?;
    let offset_s = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        ("+", zone) => hours_minutes_s(zone)?,
        ("-", zone) => -hours_minutes_s(zone)?,
        (_, _) => return None,
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.split_once('.').map_or(time, |(time, _)| time), ':')?;
    let is_sound =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    u64::try_from(seconds - offset_s).ok().filter(|_| is_sound)
}

fn hours_minutes_s(zone: &str) -> Option<i64> {
    let [hours, minutes] = numbers(zone, ':')?;
    Some(hours * 3_600 + minutes * 60)
}

/// `N` numbers of at most four digits.
fn numbers<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let number = |part: &str| part.parse::<u16>().ok().filter(|n| *n <= 9999).map(i64::from);
    let numbers: Option<Vec<i64>> = text.split(separator).map(number).collect();
    numbers?.try_into().ok()
}

/// Years are counted from March, so that a leap day is a year's last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    const DAYS_TO_1970: i64 = 719_469;
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - DAYS_TO_1970
}

/// `value:seconds`, once per step.
pub(crate) fn schedule(given: &Given, long: &str) -> Result<Option<Schedule>, Usage> {
    let mut steps = Vec::new();
    for text in given.all(long) {
        let step = text.split_once(':').and_then(|(value, seconds)| {
            Some((value.trim().parse().ok()?, seconds.trim().parse().ok()?))
        });
        steps.push(step.ok_or_else(|| invalid(long, text))?);
    }
    if steps.is_empty() {
        return Ok(None);
    }
    Schedule::of(&steps).map(Some).ok_or_else(|| Usage(format!("--{long}: a step has no length")))
}

/// A value that is not accepted.
pub(crate) fn invalid(long: &str, value: &str) -> Usage {
    Usage(format!("invalid value '{value}' for --{long}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_have_decimal_units() {
        let cases = [("7", 7), ("5kb", 5_000), ("2Gb", 2_000_000_000), ("1tb", 1_000_000_000_000)];
        for (text, bytes) in cases {
            assert_eq!(byte_capacity(text), Some(bytes), "{text}");
        }
        for text in ["", "gb", "5 gb", "5kib", "-1", "9999999999tb"] {
            assert_eq!(byte_capacity(text), None, "{text}");
        }
    }

    #[test]
    fn moments_and_durations_in_iso_8601() {
        assert_eq!(moment_s("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(moment_s("2000-02-29T12:34:56.789Z"), Some(951_827_696));
        assert_eq!(moment_s("2022-06-03T09:45:54+02:00"), Some(1_654_242_354));
        for text in ["2022-06-03", "2022-06-03T07:45Z", "2022-13-03T07:45:54Z", "nonsense"] {
            assert_eq!(moment_s(text), None, "{text}");
        }
    }

    #[test]
    fn offsets_are_words_numbers_or_moments() {
        assert_eq!(stream_offset("First"), Some(Value::from("first")));
        assert_eq!(stream_offset("7"), Some(Value::I64(7)));
        assert_eq!(stream_offset("1970-01-01T00:00:09Z"), Some(Value::Timestamp(9)));
        assert_eq!(stream_offset("soon"), None);
    }
}
