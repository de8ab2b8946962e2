//! Log lines as RabbitMQ writes them, one per event: `2026-11-21 08:00:00.123456+00:00 [info] text`.

mod exchange;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{Event, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Level, Logging};
use exchange::ToExchange;

pub(crate) use exchange::{Lines, LogExchange};

/// Starts logging for the whole process; once. Relative paths are inside `data_dir`. Returns where lines for
/// the log's exchange wait, if there is to be one.
///
/// # Errors
/// The log file and why it cannot be opened.
pub(crate) fn start(
    logging: &Logging,
    data_dir: &Path,
) -> Result<Option<Arc<Lines>>, (PathBuf, io::Error)> {
    let console = logging.console.map(|level| {
        tracing_subscriber::fmt::layer()
            .event_format(Line)
            .with_writer(io::stderr)
            .with_filter(filter(level))
    });
    let file = match &logging.file {
        None => None,
        Some((path, level)) => {
            let path = data_dir.join(path);
            let file = open(&path).map_err(|error| (path, error))?;
            let layer = tracing_subscriber::fmt::layer()
                .event_format(Line)
                .with_ansi(false)
                .with_writer(Mutex::new(file))
                .with_filter(filter(*level));
            Some(layer)
        }
    };
    let lines = logging.exchange.map(|_| Arc::new(Lines::default()));
    let exchange = lines.clone().zip(logging.exchange).map(|(lines, level)| {
        tracing_subscriber::fmt::layer()
            .event_format(Line)
            .with_ansi(false)
            .with_writer(ToExchange(lines))
            .with_filter(filter(level))
    });
    tracing_subscriber::registry().with(console).with(file).with(exchange).init();
    Ok(lines)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

const fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Debug => LevelFilter::DEBUG,
        Level::Info | Level::Notice => LevelFilter::INFO,
        Level::Warning => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
        Level::Nothing => LevelFilter::OFF,
    }
}

struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        write_time(&mut writer, since_1970.as_secs(), since_1970.subsec_micros())?;
        write!(writer, " [{}] ", name(*event.metadata().level()))?;
        let mut text = String::new();
        context.format_fields(Writer::new(&mut text), event)?;
        write_on_one_line(&mut writer, &text)?;
        writer.write_char('\n')
    }
}

fn name(level: tracing::Level) -> &'static str {
    match level {
        tracing::Level::ERROR => "error",
        tracing::Level::WARN => "warning",
        tracing::Level::INFO => "info",
        tracing::Level::DEBUG | tracing::Level::TRACE => "debug",
    }
}

/// Names come from clients: a line break in one must not look like a log line of its own.
fn write_on_one_line(out: &mut impl fmt::Write, text: &str) -> fmt::Result {
    for c in text.chars() {
        if c.is_control() { write!(out, "{}", c.escape_default())? } else { out.write_char(c)? }
    }
    Ok(())
}

/// Writes the UTC time `seconds` after 1970 as `2026-11-21 08:00:00.123456+00:00`.
fn write_time(out: &mut impl fmt::Write, seconds: u64, micros: u32) -> fmt::Result {
    let (year, month, day) = stdx::civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}+00:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: u64, micros: u32) -> String {
        let mut out = String::new();
        write_time(&mut out, seconds, micros).unwrap();
        out
    }

    #[test]
    fn times_are_dates_in_utc() {
        assert_eq!(time(0, 0), "1970-01-01 00:00:00.000000+00:00");
        assert_eq!(time(951_827_696, 7), "2000-02-29 12:34:56.000007+00:00");
        assert_eq!(time(1_709_164_799, 999_999), "2024-02-28 23:59:59.999999+00:00");
        assert_eq!(time(1_709_251_200, 0), "2024-03-01 00:00:00.000000+00:00");
        assert_eq!(time(4_107_542_399, 0), "2100-02-28 23:59:59.000000+00:00");
        assert_eq!(time(4_107_542_400, 0), "2100-03-01 00:00:00.000000+00:00");
    }

    #[test]
    fn control_characters_do_not_break_the_line() {
        let mut out = String::new();
        write_on_one_line(&mut out, "queue 'a\r\n[error] é\u{1b}[31m'").unwrap();
        assert_eq!(out, "queue 'a\\r\\n[error] é\\u{1b}[31m'");
    }
}
