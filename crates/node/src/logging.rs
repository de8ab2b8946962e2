//! Log lines as RabbitMQ writes them, one per event: `2026-11-21 08:00:00.123456+00:00 [info] text`.

mod exchange;
mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stdx::Civil;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{Filtered, LevelFilter};
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::writer::MakeWriterExt as _;
use tracing_subscriber::fmt::{self, FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, reload};

use crate::config::{LEVELS, Level, Logging};
use exchange::{Lines, ToExchange};
use file::LogFile;

pub(crate) use exchange::LogExchange;

/// The text of a line takes no more bytes than this: what peers say stands in it.
const LINE_BYTES_MAX: usize = 4096;

/// The target of events that the console shows anyway: they go to the other places only.
pub(crate) const NOT_TO_CONSOLE: &str = "not_to_console";

/// The log of this process, once it has started.
pub(crate) struct Log {
    /// Changes the least level of each place that is logged to.
    levels: Vec<SetLevel>,
    file: Option<Arc<LogFile>>,
    lines: Option<Arc<Lines>>,
}

type SetLevel = Box<dyn Fn(LevelFilter) + Send + Sync>;

/// A place that is logged to: its layer, and how to change its level.
type Place<S, W> =
    (Filtered<fmt::Layer<S, DefaultFields, Line, W>, reload::Layer<LevelFilter, S>, S>, SetLevel);

/// Starts logging for the whole process; once. Relative paths are inside `data_dir`.
///
/// # Errors
/// The log file and why it cannot be opened.
pub(crate) fn start(logging: &Logging, data_dir: &Path) -> Result<Log, (PathBuf, io::Error)> {
    let stderr = (io::stderr as fn() -> io::Stderr)
        .with_filter(|event: &tracing::Metadata<'_>| event.target() != NOT_TO_CONSOLE);
    let (console, console_level) = logging.console.map(|level| place(stderr, level, true)).unzip();
    let file = match &logging.file {
        None => None,
        Some((path, level)) => {
            let path = data_dir.join(path);
            let file = LogFile::open(path.clone()).map_err(|error| (path, error))?;
            Some((Arc::new(file), *level))
        }
    };
    let (to_file, file_level) = file.clone().map(|(file, level)| place(file, level, false)).unzip();
    let lines = logging.exchange.map(|level| (Arc::new(Lines::default()), level));
    let (to_exchange, exchange_level) =
        lines.clone().map(|(lines, level)| place(ToExchange(lines), level, false)).unzip();
    tracing_subscriber::registry().with(console).with(to_file).with(to_exchange).init();
    let levels = [console_level, file_level, exchange_level].into_iter().flatten().collect();
    Ok(Log { levels, file: file.map(|(file, _)| file), lines: lines.map(|(lines, _)| lines) })
}

fn place<S, W>(writer: W, level: Level, ansi: bool) -> Place<S, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + 'static,
{
    let (filter, handle) = reload::Layer::new(filter(level));
    let layer = fmt::layer().event_format(Line).with_writer(writer);
    let layer = if ansi { layer } else { layer.with_ansi(false) };
    // There is nobody to tell of an error: it says that the log is gone.
    let set_level = move |level| drop(handle.reload(level));
    (layer.with_filter(filter), Box::new(set_level))
}

impl Log {
    /// The lines that wait for the log's exchange, if there is to be one.
    pub(crate) fn lines(&self) -> Option<Arc<Lines>> {
        self.lines.clone()
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("file", &self.file).finish_non_exhaustive()
    }
}

impl mgmt::Log for Log {
    fn set_level(&self, level: &str) -> bool {
        let Some((_, level)) = LEVELS.iter().find(|(word, _)| *word == level) else { return false };
        self.levels.iter().for_each(|set| set(filter(*level)));
        true
    }

    fn reopen(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.reopen())
    }
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
    ) -> std::fmt::Result {
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

/// Names come from clients: a line break in one must not look like a log line of its own, and a long one is
/// cut.
fn write_on_one_line(out: &mut impl std::fmt::Write, text: &str) -> std::fmt::Result {
    let mut n_bytes = 0;
    for (at, c) in text.char_indices() {
        n_bytes += if c.is_control() { c.escape_default().len() } else { c.len_utf8() };
        if n_bytes > LINE_BYTES_MAX {
            return write!(out, "... ({} bytes are left out)", text.len() - at);
        }
        if c.is_control() { write!(out, "{}", c.escape_default())? } else { out.write_char(c)? }
    }
    Ok(())
}

/// Writes the UTC time `seconds` after 1970 as `2026-11-21 08:00:00.123456+00:00`.
fn write_time(out: &mut impl std::fmt::Write, seconds: u64, micros: u32) -> std::fmt::Result {
    let Civil { date: (year, month, day), time: (hour, minute, second) } = Civil::at(seconds);
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

    #[test]
    fn long_lines_are_cut() {
        let mut out = String::new();
        write_on_one_line(&mut out, &"\u{1}".repeat(8_000)).unwrap();
        let n_whole = LINE_BYTES_MAX / "\\u{1}".len();
        let rest = format!("... ({} bytes are left out)", 8_000 - n_whole);
        assert_eq!(out, "\\u{1}".repeat(n_whole) + &rest);
        out.clear();
        let longest = "x".repeat(LINE_BYTES_MAX);
        write_on_one_line(&mut out, &longest).unwrap();
        assert_eq!(out, longest);
    }
}
