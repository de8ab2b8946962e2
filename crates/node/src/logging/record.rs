//! Events of the log, and their forms.

use crate::config::{Category, Formatter};
use crate::wall;
use serde_json::{Map, Value, json};
use std::fmt::{Debug, Write as _};
use stdx::{Civil, Date};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Longest text of a line, bytes: it may quote what peers send.
const LINE_BYTES_MAX: usize = 4096;

/// An event of the log.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) level: Level,
    pub(super) category: Category,
    pub(super) unix_micros: u64,
    /// The event's text, with the values that were given beside it.
    text: String,
    /// The values that were given beside the text, by name.
    fields: Vec<(&'static str, String)>,
    /// Bytes of the text without those values.
    message_bytes: usize,
}

impl Record {
    pub(super) fn of(event: &Event<'_>, category: Category) -> Self {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { mut message, others } = fields;
        let message_bytes = message.len();
        for (name, value) in &others {
            let space = if message.is_empty() { "" } else { " " };
            // Writing to a string never fails.
            let _ok = write!(message, "{space}{name}={value}");
        }
        let unix_micros = u64::try_from(wall::since_1970().as_micros()).unwrap_or(u64::MAX);
        let level = *event.metadata().level();
        Self { level, category, unix_micros, text: message, fields: others, message_bytes }
    }

    /// A value that was given beside the text.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let (_, value) = self.fields.iter().find(|(known, _)| *known == name)?;
        Some(on_one_line(value))
    }

    /// Memory of the record, bytes.
    pub(super) fn n_bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(_, value)| value.len() + size_of::<(&str, String)>());
        size_of::<Self>() + self.text.len() + fields.sum::<usize>()
    }

    /// The event's text, on one line of limited length.
    pub(super) fn text(&self) -> String {
        on_one_line(&self.text)
    }

    /// The event as a line, without a line break at its end.
    pub(super) fn line(&self, formatter: Formatter) -> String {
        match formatter {
            Formatter::Plain => {
                format!("{} [{}] {}", self.time(' '), name(self.level), self.text())
            }
            Formatter::Json => self.json().to_string(),
            Formatter::Bare => self.text(),
        }
    }

    /// The time as `2026-11-21 08:00:00.123456+00:00`, in UTC, with `between` between date and time.
    pub(super) fn time(&self, between: char) -> String {
        let Civil { date: Date { year, month, day }, time: (hour, minute, second) } =
            Civil::at(self.unix_micros / 1_000_000);
        let micros = self.unix_micros % 1_000_000;
        format!(
            "{year:04}-{month:02}-{day:02}{between}{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00"
        )
    }

    fn json(&self) -> Value {
        let message = self.text.get(..self.message_bytes).unwrap_or_default();
        let mut object = Map::new();
        for (name, value) in &self.fields {
            object.insert((*name).to_owned(), json!(on_one_line(value)));
        }
        object.insert("time".to_owned(), json!(self.time(' ')));
        object.insert("level".to_owned(), json!(name(self.level)));
        object.insert("domain".to_owned(), json!(self.category.as_str()));
        object.insert("msg".to_owned(), json!(on_one_line(message)));
        Value::Object(object)
    }
}

/// RabbitMQ's name of a level.
pub(super) const fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    }
}

/// The severity of a level (RFC 5424, 6.2.1).
pub(super) const fn severity(level: Level) -> usize {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ok = write!(self.message, "{value:?}");
        } else {
            self.others.push((field.name(), format!("{value:?}")));
        }
    }
}

/// Puts a text on one line of limited length. Names come from clients: a line break in one must not look like
/// a log line of its own.
fn on_one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LINE_BYTES_MAX));
    for (at, c) in text.char_indices() {
        let n_bytes = if c.is_control() { c.escape_default().len() } else { c.len_utf8() };
        if out.len() + n_bytes > LINE_BYTES_MAX {
            out.push_str(&format!("... ({} bytes are left out)", text.len() - at));
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::logging) fn record(text: &str) -> Record {
        Record {
            level: Level::WARN,
            category: Category::Connection,
            unix_micros: 951_827_696_000_007,
            text: format!("{text} user=a\nb"),
            fields: vec![("user", "a\nb".to_owned())],
            message_bytes: text.len(),
        }
    }

    #[test]
    fn a_line_has_time_level_and_text() {
        let line = "2000-02-29 12:34:56.000007+00:00 [warning] closed user=a\\nb";
        assert_eq!(record("closed").line(Formatter::Plain), line);
        let object: Value = serde_json::from_str(&record("closed").line(Formatter::Json)).unwrap();
        let expected = json!({
            "time": "2000-02-29 12:34:56.000007+00:00", "level": "warning", "msg": "closed",
            "domain": "rabbitmq.connection", "user": "a\\nb",
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn control_characters_do_not_break_the_line() {
        assert_eq!(
            on_one_line("queue 'a\r\n[error] é\u{1b}[31m'"),
            "queue 'a\\r\\n[error] é\\u{1b}[31m'"
        );
    }

    #[test]
    fn long_lines_are_cut() {
        let n_whole = LINE_BYTES_MAX / "\\u{1}".len();
        let rest = format!("... ({} bytes are left out)", 8_000 - n_whole);
        assert_eq!(on_one_line(&"\u{1}".repeat(8_000)), "\\u{1}".repeat(n_whole) + &rest);
        let longest = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(on_one_line(&longest), longest);
    }
}
