//! The headers of an event, and events that are kept.

use amqp091::table::{put_array, put_name, put_table, put_text};
use amqp091::{ShortString, Table, TableRef, Value, ValueRef};
use meta::{ConnectionId, Name};
use session::ChannelId;
use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use stdx::UnixMs;

/// The largest buffer that a thread keeps for its next event.
const BUFFER_BYTES_MAX: usize = 4 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A process of RabbitMQ's that a header names.
#[derive(Clone, Copy, Debug)]
pub enum Process {
    /// A connection.
    Connection(ConnectionId),
    /// A channel of a connection.
    Channel(ConnectionId, ChannelId),
}

/// The headers of an event, encoded: few of them are ever read.
#[derive(Debug)]
pub struct EventHeaders {
    bytes: Vec<u8>,
    /// Headers for listeners alone, which are not kept: passwords may stand in them.
    unkept: Vec<u8>,
}

impl Default for EventHeaders {
    fn default() -> Self {
        Self { bytes: BUFFER.take(), unkept: Vec::new() }
    }
}

impl EventHeaders {
    fn put(mut self, name: &'static str, value: ValueRef<'_>) -> Self {
        put_name(&mut self.bytes, name.as_bytes());
        value.encode(&mut self.bytes);
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, name: &'static str, text: &str) -> Self {
        self.put(name, ValueRef::LongString(text.as_bytes()))
    }

    /// Adds a text that is written.
    #[must_use]
    pub fn written(mut self, name: &'static str, text: fmt::Arguments<'_>) -> Self {
        put_name(&mut self.bytes, name.as_bytes());
        // Writing to memory never fails.
        put_text(&mut self.bytes, |out| drop(out.write_fmt(text)));
        self
    }

    /// COMPAT: the name of a process as in listings, so that tools can match both.
    #[must_use]
    pub fn pid(self, name: &'static str, node: &str, process: Process) -> Self {
        let (kind, connection, part) = match process {
            Process::Connection(connection) => (1, connection, ChannelId(0)),
            Process::Channel(connection, channel) => (2, connection, channel),
        };
        let (connection, part) = (connection.0, part.0);
        self.written(name, format_args!("<{node}.{kind}.{connection}.{part}>"))
    }

    /// Adds a flag.
    #[must_use]
    pub fn flag(self, name: &'static str, flag: bool) -> Self {
        self.put(name, ValueRef::Bool(flag))
    }

    /// Adds a number.
    #[must_use]
    pub fn number(self, name: &'static str, number: impl Into<i64>) -> Self {
        self.put(name, ValueRef::I64(number.into()))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(mut self, name: &'static str, table: &Table) -> Self {
        put_name(&mut self.bytes, name.as_bytes());
        put_table(&mut self.bytes, |out| {
            for (name, value) in table {
                put_name(out, name.as_bytes());
                value.encode(out);
            }
        });
        self
    }

    /// Adds a list of names.
    #[must_use]
    pub fn names(mut self, name: &'static str, names: &[Name]) -> Self {
        put_name(&mut self.bytes, name.as_bytes());
        put_array(&mut self.bytes, |out| {
            names.iter().for_each(|name| ValueRef::LongString(name.as_bytes()).encode(out));
        });
        self
    }

    /// A text that is not kept.
    pub(super) fn unkept(mut self, name: &'static str, text: &str) -> Self {
        put_name(&mut self.unkept, name.as_bytes());
        ValueRef::LongString(text.as_bytes()).encode(&mut self.unkept);
        self
    }

    /// Adds the user who caused the event.
    #[must_use]
    pub fn by(self, user: &str) -> Self {
        self.text("user_who_performed_action", user)
    }

    /// All headers, in the form in which listeners get them.
    pub(super) fn told(&self, in_ms: i64) -> Table {
        let bytes = [&self.bytes[..], &self.unkept[..]].concat();
        let told = Self { bytes, unkept: Vec::new() }.number("timestamp_in_ms", in_ms);
        table(&told.bytes)
    }

    /// The encoded headers that are kept.
    pub(super) fn kept(mut self) -> Arc<[u8]> {
        let kept = Arc::from(&*self.bytes);
        if self.bytes.capacity() <= BUFFER_BYTES_MAX {
            self.bytes.clear();
            BUFFER.set(self.bytes);
        }
        kept
    }
}

/// Encoded headers as a table. A value that is nested too deeply to be read is nothing.
fn table(bytes: &[u8]) -> Table {
    let entries = TableRef::trusted(bytes).iter().filter_map(|(name, value)| {
        Some((ShortString::new(name).ok()?, value.to_owned().unwrap_or(Value::Void)))
    });
    entries.collect()
}

/// An event that is kept.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its time, milliseconds since 1970.
    pub unix_ms: UnixMs,
    /// The routing key under which it is published, where it is.
    pub name: &'static str,
    pub(super) headers: Arc<[u8]>,
}

impl Event {
    /// The headers that the event is published with, except for the time and values of parameters.
    #[must_use]
    pub fn headers(&self) -> Table {
        table(&self.headers)
    }
}
