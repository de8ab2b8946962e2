//! Lines to systemd's journal, in its own protocol: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.

use super::record::{Record, name, severity};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The journal's socket.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// The fields of an entry where nothing else is said.
pub(super) const FIELDS: &str = "SYSLOG_IDENTIFIER=\"leveret\" priority RABBITMQ_DOMAIN=domain";

/// The journal of this machine, and the fields that it is given.
#[derive(Debug)]
pub(super) struct Journal(UnixDatagram, Vec<(String, Value)>);

#[derive(Debug)]
enum Value {
    Text(String),
    /// The name of a value of the line.
    Of(String),
}

impl Journal {
    pub(super) fn open(path: &Path, fields: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self(socket, parse(fields)))
    }

    /// Sends a line. One that the journal does not take is lost.
    pub(super) fn send(&self, record: &Record) {
        // No field has a line break.
        let mut entry = format!("MESSAGE={}\n", record.text());
        for (name, value) in &self.1 {
            let value = match value {
                Value::Text(text) => Some(text.clone()),
                Value::Of(what) => of(record, what),
            };
            value.into_iter().for_each(|value| entry.extend([name, "=", &*value, "\n"]));
        }
        let _lost = self.0.send(entry.as_bytes());
    }
}

/// A value of a line, by its name.
fn of(record: &Record, what: &str) -> Option<String> {
    Some(match what {
        "priority" => severity(record.level).to_string(),
        "level" => name(record.level).to_owned(),
        "domain" => record.category.as_str().to_owned(),
        "time" | "syslog_timestamp" => record.time(' '),
        "pid" | "os_pid" | "syslog_pid" => std::process::id().to_string(),
        _ => return record.field(what),
    })
}

/// Parses the fields of the journal. COMPAT: RabbitMQ writes fields as `NAME="text"`, `NAME=what` or `what`.
fn parse(fields: &str) -> Vec<(String, Value)> {
    let is_end = |c: char| c == '=' || c.is_whitespace();
    let (mut parsed, mut rest) = (Vec::new(), fields.trim_start());
    while !rest.is_empty() {
        let (name, behind) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        let (value, behind) = match behind.strip_prefix('=') {
            None => (Value::Of(name.to_lowercase()), behind),
            Some(behind) => match behind.strip_prefix('"') {
                Some(quoted) => {
                    let (text, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
                    (Value::Text(text.to_owned()), behind)
                }
                None => {
                    let (what, behind) =
                        behind.split_once(char::is_whitespace).unwrap_or((behind, ""));
                    (Value::Of(what.to_lowercase()), behind)
                }
            },
        };
        parsed.push((name.to_uppercase(), value));
        rest = behind.trim_start();
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::record::tests::record;

    #[test]
    fn the_journal_is_given_fields() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(Journal::open(&path, FIELDS).is_err());
        let socket = UnixDatagram::bind(&path).unwrap();
        let told = |fields: &str| {
            Journal::open(&path, fields).unwrap().send(&record("closed"));
            let mut bytes = [0; 256];
            let n_bytes = socket.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..n_bytes]).into_owned()
        };
        assert_eq!(
            told(FIELDS),
            "MESSAGE=closed user=a\\nb\nSYSLOG_IDENTIFIER=leveret\nPRIORITY=4\n\
             RABBITMQ_DOMAIN=rabbitmq.connection\n"
        );
        let pid = std::process::id();
        assert_eq!(
            told("A=\"one two\"  level WHO=user ERL_PID=pid CODE_FILE=file nothing"),
            format!(
                "MESSAGE=closed user=a\\nb\nA=one two\nLEVEL=warning\nWHO=a\\nb\nERL_PID={pid}\n"
            )
        );
    }
}
