//! The log: what is said on the way is put together where it is said, and written by a thread of its own
//! (`writer`), to standard error, a file, an exchange, a syslog server and the journal. The last lines of all
//! that stay in memory.

mod category;
mod exchange;
mod file;
mod journald;
mod record;
mod syslog;
mod writer;

pub(crate) use exchange::LogExchange;

use crate::config::{Category, Formatter, LEVELS, Level, LogPlace, Logging};
use category::Levels;
use ctl::environment;
use exchange::Lines;
use file::LogFile;
use journald::Journal;
use mgmt::LogLine;
use record::Record;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use stdx::Ring;
use syslog::Syslog;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, reload};
use writer::{Destination, Output, Queue};

/// The target of events that the console shows anyway: they go to the other places only.
pub(crate) const NOT_TO_CONSOLE: &str = "not_to_console";

/// Lines that are kept in memory, and bytes of them.
const KEPT_LINES_MAX: usize = 2_000;
const KEPT_BYTES_MAX: usize = 512 << 10;

/// The log of this process, once it has started.
pub(crate) struct Log {
    shared: Arc<Shared>,
    /// Changes the least level of all.
    lowest: reload::Handle<LevelFilter, Registry>,
    files: Vec<Arc<LogFile>>,
    lines: Option<Arc<Lines>>,
    kept: Arc<Ring<LogLine>>,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    levels: RwLock<Levels>,
    /// The places that are the console, a bit each.
    console: u8,
    /// The place of requests by HTTP, which go to no other; no other line goes there.
    access: u8,
    /// The place in memory, for lines that go to any place but that of requests.
    memory: u8,
}

/// Puts events into the queue.
struct ToQueue(Arc<Shared>);

impl<S: Subscriber> Layer<S> for ToQueue {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let Shared { queue, levels, console, access, memory } = &*self.0;
        let metadata = event.metadata();
        let category = Category::of(metadata.target());
        let levels = levels.read().unwrap_or_else(PoisonError::into_inner);
        let mut places = levels.places(category, *metadata.level());
        drop(levels);
        if places & !access != 0 {
            places |= memory;
        }
        match metadata.target() {
            http::ACCESS => places = *access,
            NOT_TO_CONSOLE => places &= !(console | access),
            _ => places &= !access,
        }
        if places != 0 {
            queue.put(Record::of(event, category), places);
        }
    }
}

/// Starts logging for the whole process; once. Relative paths are inside `data_dir`.
///
/// # Errors
/// The file or socket that cannot be opened, and why.
pub(crate) fn start(logging: &Logging, data_dir: &Path) -> Result<Log, (PathBuf, io::Error)> {
    let mut places = Vec::new();
    places.extend(logging.console.map(|place| (place, Output::Console)));
    let console = places.len();
    let access = LogPlace { level: Some(Level::Info), formatter: Formatter::Bare };
    let access = logging.access.as_ref().map(|path| (path, access));
    let mut files = Vec::new();
    for (path, place) in logging.file.iter().map(|(path, place)| (path, *place)).chain(access) {
        let path = data_dir.join(path);
        let opened = LogFile::open(path.clone(), logging.rotation.clone());
        let opened = Arc::new(opened.map_err(|error| (path, error))?);
        places.push((place, Output::File(Arc::clone(&opened))));
        files.push(opened);
    }
    let access = access.map_or(0, |_| 1 << (places.len() - 1));
    let lines = logging.exchange.as_ref().map(|place| {
        let lines = Arc::<Lines>::default();
        places.push((*place, Output::Exchange(Arc::clone(&lines))));
        lines
    });
    if let Some((settings, place)) = &logging.syslog {
        let node = environment::node_name(&environment::of_process);
        let host = node.split_once('@').map_or("-", |(_, host)| host).to_owned();
        let syslog = Syslog::new(settings.clone(), host);
        let syslog = syslog.map_err(|error| ("syslog".into(), io::Error::other(error)))?;
        places.push((*place, Output::Syslog(Box::new(syslog))));
    }
    if let Some((fields, place)) = &logging.journald {
        let socket = Path::new(journald::SOCKET);
        let fields = fields.as_deref().unwrap_or(journald::FIELDS);
        let journal = Journal::open(socket, fields).map_err(|error| (socket.to_owned(), error))?;
        places.push((*place, Output::Journal(journal)));
    }
    let mut levels: Vec<_> = places.iter().map(|(place, _)| place.level).collect();
    let memory = 1 << places.len();
    if memory - 1 == access {
        // Memory has the lines of the other places; without any, it has the levels of the categories.
        levels.push(None);
    }
    let kept = Arc::new(Ring::new(KEPT_LINES_MAX, KEPT_BYTES_MAX));
    places.push((LogPlace::default(), Output::Memory(Arc::clone(&kept))));
    let levels = Levels::new(logging, levels);
    let (filter, lowest) = reload::Layer::new(levels.lowest());
    let console = (1 << console) - 1;
    let (queue, levels) = (Queue::default(), RwLock::new(levels));
    let shared = Arc::new(Shared { queue, levels, console, access, memory });
    let destination =
        |(place, output): (LogPlace, Output)| Destination { output, formatter: place.formatter };
    let outputs = places.into_iter().map(destination).collect();
    let writer = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || writer.queue.write_all(outputs))
        .map_err(|error| (PathBuf::new(), error))?;
    tracing_subscriber::registry().with(filter).with(ToQueue(Arc::clone(&shared))).init();
    Ok(Log { shared, lowest, files, lines, kept })
}

/// The errors of files and of a syslog server that the log could not use; nothing is created.
pub(crate) fn check(logging: &Logging, data_dir: &Path) -> Vec<anyhow::Error> {
    let files = logging.file.iter().map(|(path, _)| path).chain(&logging.access);
    let cannot_be_written = |path: &PathBuf| {
        let path = data_dir.join(path);
        // A missing file or directory is created in the nearest directory that exists.
        let nearest = path.ancestors().find(|it| it.exists())?;
        let needed =
            Access::WRITE_OK | if nearest.is_dir() { Access::EXEC_OK } else { Access::empty() };
        let error = match access(nearest, needed) {
            Ok(()) if nearest == path && path.is_dir() => Errno::ISDIR,
            Ok(()) if nearest != path && !nearest.is_dir() => Errno::NOTDIR,
            checked => checked.err()?,
        };
        let error = anyhow::Error::new(io::Error::from(error));
        Some(error.context(format!("cannot open the log {}", path.display())))
    };
    let mut wrong: Vec<anyhow::Error> = files.filter_map(cannot_be_written).collect();
    let syslog = logging.syslog.as_ref().map(|(settings, _)| settings.clone());
    let syslog = syslog.and_then(|settings| Syslog::new(settings, "-".to_owned()).err());
    let syslog = syslog.map(|tls::Errors(errors)| errors).unwrap_or_default();
    wrong.extend(syslog.into_iter().map(Into::into));
    wrong
}

impl Log {
    /// The lines that wait for the log's exchange, if the log has one.
    pub(crate) fn lines(&self) -> Option<Arc<Lines>> {
        self.lines.clone()
    }

    /// Publishes the lines logged until now, and ends the exchange's thread.
    pub(crate) fn end_exchange(&self, exchange: Option<LogExchange>) {
        self.flush();
        exchange.into_iter().for_each(LogExchange::end);
    }

    /// Waits until all lines logged until now are written.
    pub(crate) fn flush(&self) {
        self.shared.queue.flush();
    }
}

stdx::debug_of!(|it: Log| files = it.files);

impl mgmt::Log for Log {
    fn set_level(&self, level: &str) -> bool {
        let Some((_, level)) = LEVELS.iter().find(|(word, _)| *word == level) else { return false };
        let mut levels = self.shared.levels.write().unwrap_or_else(PoisonError::into_inner);
        levels.set(*level);
        let lowest = levels.lowest();
        // Requests by HTTP are logged at every level.
        let lowest = if self.shared.access == 0 { lowest } else { lowest.max(LevelFilter::INFO) };
        drop(levels);
        // An error means that the log is gone, so no line could report it.
        drop(self.lowest.reload(lowest));
        true
    }

    fn reopen(&self) -> io::Result<()> {
        // Lines logged before the reopening belong into the old file.
        self.flush();
        self.files.iter().try_for_each(|file| file.reopen())
    }

    fn n_dropped(&self) -> u64 {
        self.shared.queue.n_dropped()
    }

    fn last_lines(&self) -> &Ring<LogLine> {
        &self.kept
    }

    fn level(&self) -> &'static str {
        let levels = self.shared.levels.read().unwrap_or_else(PoisonError::into_inner);
        levels.in_force(self.shared.access).into_level().map_or("none", record::name)
    }
}
