//! The node's log, as operators see and change it.

use std::io;
use std::sync::Arc;
use stdx::Ring;

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// The line's time, milliseconds since 1970.
    pub unix_ms: u64,
    /// RabbitMQ's name of the line's level.
    pub level: &'static str,
    /// RabbitMQ's name of the line's category.
    pub category: &'static str,
    /// The line's text, on one line.
    pub text: Arc<str>,
}

/// The node's log.
pub trait Log: std::fmt::Debug + Send + Sync {
    /// Changes what is logged, wherever the log goes, by RabbitMQ's name of the least level. False for a
    /// name that there is not.
    fn set_level(&self, level: &str) -> bool;

    /// Opens its file anew: whoever rotates logs has moved it away.
    ///
    /// # Errors
    /// It cannot be opened; what was open stays in use.
    fn reopen(&self) -> io::Result<()>;

    /// Lines that were dropped because too many waited to be written.
    fn n_dropped(&self) -> u64;

    /// The last lines of the log, wherever they were written.
    fn last_lines(&self) -> &Ring<LogLine>;

    /// RabbitMQ's name of the least level that is logged.
    fn level(&self) -> &'static str;
}
