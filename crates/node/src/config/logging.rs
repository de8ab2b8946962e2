//! The settings of the log.

use super::rotation::Period;
use super::units::Level;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The log: its lines, levels and destinations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Logging {
    /// The place of lines to standard error, if they go there.
    pub(crate) console: Option<LogPlace>,
    /// The file, and its place; a relative path is inside the data directory.
    pub(crate) file: Option<(PathBuf, LogPlace)>,
    pub(crate) rotation: Rotation,
    /// The file of requests by HTTP, if there is to be one.
    pub(crate) access: Option<PathBuf>,
    /// The place of lines to an exchange, if they go there.
    pub(crate) exchange: Option<LogPlace>,
    pub(crate) syslog: Option<(SyslogSettings, LogPlace)>,
    /// `log.journald.fields`, if it is set, and the journal's place.
    pub(crate) journald: Option<(Option<String>, LogPlace)>,
    pub(crate) default_level: Level,
    pub(crate) categories: BTreeMap<Category, Level>,
}

/// A place that lines of the log go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPlace {
    /// The place's level; `None` for that of each line's category.
    pub(crate) level: Option<Level>,
    pub(crate) formatter: Formatter,
}

/// The forms of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Formatter {
    /// `2026-11-21 08:00:00.123456+00:00 [info] text`.
    #[default]
    Plain,
    /// An object. COMPAT: with RabbitMQ's keys.
    Json,
    /// The text alone.
    Bare,
}

stdx::named! {
    /// COMPAT: RabbitMQ's categories, as far as there is something to say in them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Category {
        Connection = "rabbitmq.connection",
        Channel = "rabbitmq.channel",
        Queue = "rabbitmq.queue",
        Default = "rabbitmq",
    }
}

/// COMPAT: the name of the file of requests by HTTP.
const ACCESS_FILE: &str = "access.log";
/// Old files kept where nothing else is said.
const KEPT_FILES: u64 = 10;

/// When a file is moved away, and what becomes of it. COMPAT: RabbitMQ's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// Length from which on the file is moved away, bytes; 0 for any.
    pub(crate) bytes: u64,
    pub(crate) period: Option<Period>,
    /// Old files that are kept.
    pub(crate) count: u64,
    /// Whether old files are compressed.
    pub(crate) compress: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { bytes: 0, period: None, count: KEPT_FILES, compress: false }
    }
}

/// Facilities by their numbers (RFC 5424, 6.2.1).
pub(crate) const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// A server, and how it is spoken to. COMPAT: RabbitMQ's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyslogSettings {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    /// Whether messages follow RFC 5424; otherwise RFC 3164.
    pub(crate) is_rfc5424: bool,
    pub(crate) facility: usize,
    pub(crate) identity: String,
    pub(crate) tls: tls::Options,
}

stdx::named! {
    /// The ways to a syslog server.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum Transport {
        #[default]
        Udp = "udp",
        Tcp = "tcp",
        Tls = "tls",
    }
}

/// A place, and whether lines go there.
#[derive(Debug, Default)]
pub(super) struct PlaceDraft {
    pub(super) is_on: bool,
    pub(super) place: LogPlace,
}

/// The journal.
#[derive(Debug, Default)]
pub(super) struct JournalDraft {
    pub(super) target: PlaceDraft,
    pub(super) fields: Option<String>,
}

impl PlaceDraft {
    const fn finish(&self) -> Option<LogPlace> {
        if self.is_on { Some(self.place) } else { None }
    }
}

/// The log's settings as they are read.
#[derive(Debug, Default)]
pub(super) struct LogDraft {
    pub(super) console: PlaceDraft,
    /// The file or none, if something was said of it.
    pub(super) path: Option<Option<PathBuf>>,
    pub(super) dir: Option<PathBuf>,
    pub(super) access_dir: Option<PathBuf>,
    pub(super) file: LogPlace,
    pub(super) rotation: Rotation,
    pub(super) exchange: PlaceDraft,
    pub(super) syslog: PlaceDraft,
    pub(super) syslog_settings: SyslogSettings,
    pub(super) journald: JournalDraft,
    pub(super) default_level: Level,
    pub(super) categories: BTreeMap<Category, Level>,
}

impl LogDraft {
    pub(super) fn finish(self, tls: tls::Options) -> Logging {
        let node = || ctl::environment::node_name(&ctl::environment::of_process);
        let name = || PathBuf::from(format!("{}.log", node()));
        let path = match (self.dir, self.path) {
            (None, path) => path.flatten(),
            (Some(_), Some(None)) => None,
            (Some(dir), path) => Some(dir.join(path.flatten().unwrap_or_else(name))),
        };
        Logging {
            console: self.console.finish(),
            file: path.map(|path| (path, self.file)),
            rotation: self.rotation,
            access: self.access_dir.map(|dir| dir.join(ACCESS_FILE)),
            exchange: self.exchange.finish(),
            syslog: self
                .syslog
                .finish()
                .map(|it| (SyslogSettings { tls, ..self.syslog_settings }, it)),
            journald: self.journald.target.finish().map(|it| (self.journald.fields, it)),
            default_level: self.default_level,
            categories: self.categories,
        }
    }
}
