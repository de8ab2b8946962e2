//! The value formats of `rabbitmq.conf`: numbers with units, addresses, levels.

use std::net::{IpAddr, SocketAddr};

use net::ListenAddress;

/// Log levels, by RabbitMQ's names. Each level includes those after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    #[default]
    Info,
    /// RabbitMQ has this between info and warning; shown as info.
    Notice,
    Warning,
    /// Errors; `critical`, `alert` and `emergency` mean the same here.
    Error,
    Nothing,
}

/// The names `Level` is written with.
pub(crate) const LEVELS: &[(&str, Level)] = &[
    ("debug", Level::Debug),
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warning", Level::Warning),
    ("error", Level::Error),
    ("critical", Level::Error),
    ("alert", Level::Error),
    ("emergency", Level::Error),
    ("none", Level::Nothing),
];

/// A plain number.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// A size such as `131072` or `128KB`.
// COMPAT: in options of this kind kB, MB and GB are powers of 1024, unlike in `memory`.
pub(crate) fn byte_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" => 1 << 10,
        "mb" => 1 << 20,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// A time such as `60000` (milliseconds), `60s` or `1h`.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// An amount of memory or disk such as `2GB` (10^9) or `2GiB`, `2G` (2^30).
pub(crate) fn memory(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let unit = unit.to_ascii_lowercase();
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => return Some(number),
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return None,
    };
    let base: u64 = match letters.as_str() {
        "b" => 1000,
        "" | "i" | "ib" => 1024,
        _ => return None,
    };
    number.checked_mul(base.pow(power))
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// A share such as `0.6` or `60%`: positive and finite.
pub(crate) fn ratio(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (value.is_finite() && value > 0.0).then_some(value)
}

/// `true` or `false`.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// `5672`, `127.0.0.1:5672`, `[::1]:5672` or `::1:5672`.
pub(crate) fn listen_address(text: &str) -> Option<ListenAddress> {
    let Some((host, port)) = text.rsplit_once(':') else {
        return port(text).map(ListenAddress::Every);
    };
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let host: IpAddr = host.parse().ok()?;
    Some(ListenAddress::One(SocketAddr::new(host, self::port(port)?)))
}

fn port(text: &str) -> Option<u16> {
    integer(text).and_then(|number| u16::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_units_of_their_kind() {
        assert_eq!(byte_size("131072"), Some(131_072));
        assert_eq!(byte_size("128KB"), Some(131_072));
        assert_eq!(byte_size("2mb"), Some(2 << 20));
        assert_eq!(byte_size("1 GB"), Some(1 << 30));
        assert_eq!(memory("10000000000"), Some(10_000_000_000));
        assert_eq!(memory("50MB"), Some(50_000_000));
        assert_eq!(memory("500kB"), Some(500_000));
        assert_eq!(memory("2GiB"), Some(2 << 30));
        assert_eq!(memory("4Gi"), Some(4 << 30));
        assert_eq!(memory("4g"), Some(4 << 30));
        assert_eq!(memory("1TiB"), Some(1 << 40));
        for wrong in ["", "x", "-1", "1.5", "1 XB", "1KBB", "99999999999999999999", "99999PiB"] {
            assert_eq!((byte_size(wrong), memory(wrong)), (None, None), "{wrong}");
        }
    }

    #[test]
    fn ratios_are_positive_shares() {
        assert_eq!(ratio("0.6"), Some(0.6));
        assert_eq!(ratio("60%"), Some(0.6));
        assert_eq!(ratio("2"), Some(2.0));
        for wrong in ["0", "-1", "inf", "NaN", "a", "%"] {
            assert_eq!(ratio(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn addresses_are_ports_or_ip_and_port() {
        let one = |text: &str| Some(ListenAddress::One(text.parse().unwrap()));
        assert_eq!(listen_address("5672"), Some(ListenAddress::Every(5672)));
        assert_eq!(listen_address("127.0.0.1:5673"), one("127.0.0.1:5673"));
        assert_eq!(listen_address("[::1]:5672"), one("[::1]:5672"));
        assert_eq!(listen_address("::1:5672"), one("[::1]:5672"));
        assert_eq!(listen_address("::5672"), None);
        for wrong in ["", "65536", "localhost:5672", "127.0.0.1:", "127.0.0.1", ":5672", "+5"] {
            assert_eq!(listen_address(wrong), None, "{wrong}");
        }
    }
}
