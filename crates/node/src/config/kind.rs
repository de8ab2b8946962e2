//! The kinds of values an option can take: how each is read, and how it is described.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use meta::{Pattern, QueueKind};
use net::ListenAddress;

use super::Draft;
use super::rotation::Period;
use super::units::{self, LEVELS, Level};

/// The kinds of option: the values each takes and the setting each writes.
pub(super) enum Kind {
    /// A number of the unit.
    Integer(Range, &'static str, fn(&mut Draft, u64)),
    /// A number of the unit, or 0 for no limit.
    IntegerOrZero(Range, &'static str, fn(&mut Draft, u64)),
    IntegerOrInfinity(&'static str, fn(&mut Draft, Option<u64>)),
    ByteSize(Range, fn(&mut Draft, u64)),
    /// A number of bytes, or 0 for no limit.
    ByteSizeOrZero(Range, fn(&mut Draft, u64)),
    Memory(fn(&mut Draft, u64)),
    Ratio(fn(&mut Draft, f64)),
    Flag(fn(&mut Draft, bool)),
    NamedFlag(fn(&mut Draft, &str, bool)),
    /// A flag of a queue type.
    QueueTypeFlag(fn(&mut Draft, QueueKind, bool)),
    Text(fn(&mut Draft, &str)),
    NamedText(fn(&mut Draft, &str, &str)),
    /// Words with commas between them.
    NamedWords(fn(&mut Draft, &str, Vec<String>)),
    /// A regular expression.
    NamedPattern(fn(&mut Draft, &str, &str)),
    /// A whole number; a negative one is no limit.
    NamedLimit(fn(&mut Draft, &str, i64)),
    NamedInteger(fn(&mut Draft, &str, u64)),
    NamedByteSize(fn(&mut Draft, &str, u64)),
    NamedTime(fn(&mut Draft, &str, u64)),
    TextOrNone(fn(&mut Draft, Option<&str>)),
    Address(fn(&mut Draft, &str, ListenAddress)),
    /// An address with its port, or `none`.
    AddressOrNone(fn(&mut Draft, Option<ListenAddress>)),
    /// A word of the list.
    Word(&'static [&'static str], fn(&mut Draft, &str)),
    NamedWord(&'static [&'static str], fn(&mut Draft, &str, &str)),
    /// The word `none`.
    Nothing(fn(&mut Draft)),
    Level(fn(&mut Draft, Level)),
    /// When a log file is moved away.
    Period(fn(&mut Draft, Option<Period>)),
    FileOrFalse(fn(&mut Draft, Option<PathBuf>)),
    /// A path, or `none`.
    PathOrNone(fn(&mut Draft, Option<PathBuf>)),
    /// The source of users, at a place in the order of asking: there is one source.
    AuthBackend,
}

/// The numbers that an option takes.
type Range = RangeInclusive<u64>;

/// The node's own users, by the names RabbitMQ has for them.
const AUTH_BACKENDS: [&str; 2] = ["internal", "rabbit_auth_backend_internal"];

impl Kind {
    /// Applies `value` to the draft; `name` is the key's segment at `$x`. Returns false for a wrong value.
    #[must_use]
    pub(super) fn set(&self, draft: &mut Draft, name: &str, value: &str) -> bool {
        self.try_set(draft, name, value).is_some()
    }

    fn try_set(&self, draft: &mut Draft, name: &str, value: &str) -> Option<()> {
        match self {
            Self::Integer(range, _, set) => set(draft, within(range, units::integer(value)?)?),
            Self::IntegerOrZero(range, _, set) => {
                set(draft, zero_or(range, units::integer(value)?)?);
            }
            Self::IntegerOrInfinity(_, set) => set(draft, or_infinity(value)?),
            Self::ByteSize(range, set) => set(draft, within(range, units::byte_size(value)?)?),
            Self::ByteSizeOrZero(range, set) => {
                set(draft, zero_or(range, units::byte_size(value)?)?);
            }
            Self::Memory(set) => set(draft, units::memory(value)?),
            Self::Ratio(set) => set(draft, units::ratio(value)?),
            Self::Flag(set) => set(draft, units::boolean(value)?),
            Self::NamedFlag(set) => set(draft, name, units::boolean(value)?),
            Self::QueueTypeFlag(set) => {
                set(draft, QueueKind::of_name(name)?, units::boolean(value)?);
            }
            Self::Text(set) => set(draft, value),
            Self::NamedText(set) => set(draft, name, value),
            Self::Word(words, set) => words.contains(&value).then(|| set(draft, value))?,
            Self::NamedWord(words, set) => {
                words.contains(&value).then(|| set(draft, name, value))?;
            }
            Self::NamedWords(set) => {
                let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
                set(draft, name, words.map(str::to_owned).collect());
            }
            Self::NamedPattern(set) => {
                Pattern::new(value).ok()?;
                set(draft, name, value);
            }
            Self::NamedLimit(set) => set(draft, name, value.parse().ok()?),
            Self::NamedInteger(set) => set(draft, name, units::integer(value)?),
            Self::NamedByteSize(set) => set(draft, name, units::byte_size(value)?),
            Self::NamedTime(set) => set(draft, name, units::milliseconds(value)?),
            Self::TextOrNone(set) => set(draft, Some(value).filter(|text| *text != "none")),
            Self::Address(set) => set(draft, name, units::listen_address(value)?),
            Self::AddressOrNone(set) if value == "none" => set(draft, None),
            Self::AddressOrNone(set) => set(draft, Some(units::listen_address(value)?)),
            Self::Nothing(set) => (value == "none").then(|| set(draft))?,
            Self::Level(set) => set(draft, LEVELS.iter().find(|(word, _)| *word == value)?.1),
            Self::Period(set) => set(draft, Period::parse_any(value)?),
            Self::FileOrFalse(set) => {
                set(draft, (value != "false").then(|| PathBuf::from(value)));
            }
            Self::PathOrNone(set) => {
                set(draft, (value != "none").then(|| PathBuf::from(value)));
            }
            Self::AuthBackend => {
                let is_internal = AUTH_BACKENDS.contains(&value) && units::integer(name).is_some();
                is_internal.then_some(())?;
            }
        }
        Some(())
    }

    /// The values taken, in words that complete "expected ...".
    pub(super) fn expects(&self) -> String {
        match self {
            Self::Integer(range, "", _) => numbers("a whole number", range),
            Self::Integer(range, unit, _) => numbers(&format!("a whole number of {unit}"), range),
            Self::IntegerOrZero(range, unit, _) => {
                numbers(&format!("a whole number of {unit}"), range) + OR_ZERO
            }
            Self::IntegerOrInfinity(unit, _) => format!("a whole number of {unit}, or `infinity`"),
            Self::ByteSize(range, _) => numbers(BYTES, range),
            Self::ByteSizeOrZero(range, _) => numbers(BYTES, range) + OR_ZERO,
            Self::Memory(_) => {
                "a number of bytes, or one with a unit such as `MB`, `MiB`, `GB`, `GiB`".to_owned()
            }
            Self::Ratio(_) => "a share such as `0.6` or `60%`".to_owned(),
            Self::Flag(_) | Self::NamedFlag(_) => "`true` or `false`".to_owned(),
            Self::QueueTypeFlag(_) => {
                format!("`true` or `false`, for one of `{}`", QueueKind::NAMES.join("`, `"))
            }
            Self::Text(_) | Self::NamedText(_) => "text".to_owned(),
            Self::Word([word], _) => format!("`{word}`"),
            Self::Word(words, _) | Self::NamedWord(words, _) => {
                format!("one of `{}`", words.join("`, `"))
            }
            Self::NamedWords(_) => "words separated by commas".to_owned(),
            Self::NamedPattern(_) => "a regular expression".to_owned(),
            Self::NamedLimit(_) => "a whole number, or `-1` for no limit".to_owned(),
            Self::NamedInteger(_) => "a whole number".to_owned(),
            Self::NamedByteSize(_) => BYTES.to_owned(),
            Self::NamedTime(_) => {
                "a number of milliseconds, or one with `s`, `m`, `h`, `d`, `w`".to_owned()
            }
            Self::TextOrNone(_) => "text, or `none`".to_owned(),
            Self::Address(_) => {
                "a port, or an IP address and port as in `127.0.0.1:5672`".to_owned()
            }
            Self::AddressOrNone(_) => {
                "an IP address and port as in `127.0.0.1:15692`, or `none`".to_owned()
            }
            Self::Nothing(_) => "`none`".to_owned(),
            Self::Level(_) => {
                let names: Vec<String> =
                    LEVELS.iter().map(|(word, _)| format!("`{word}`")).collect();
                format!("one of {}", names.join(", "))
            }
            Self::Period(_) => "a time such as `$D0`, `$H30`, `$W0D23` or `$M1D0`".to_owned(),
            Self::FileOrFalse(_) => "a path, or `false`".to_owned(),
            Self::PathOrNone(_) => "a path, or `none`".to_owned(),
            Self::AuthBackend => {
                let [short, long] = AUTH_BACKENDS;
                format!("`{short}` (or `{long}`) at a numbered place: only the node's own users")
            }
        }
    }
}

/// Sizes in words.
const BYTES: &str = "a number of bytes, or one with `KB`, `MB`, `GB`";
/// The meaning of 0 where it is below the minimum.
const OR_ZERO: &str = ", or 0 for no limit";

fn within(range: &Range, number: u64) -> Option<u64> {
    range.contains(&number).then_some(number)
}

fn zero_or(range: &Range, number: u64) -> Option<u64> {
    if number == 0 { Some(0) } else { within(range, number) }
}

fn or_infinity(value: &str) -> Option<Option<u64>> {
    if value == "infinity" { Some(None) } else { units::integer(value).map(Some) }
}

fn numbers(what: &str, range: &Range) -> String {
    format!("{what}, {} to {}", range.start(), range.end())
}
