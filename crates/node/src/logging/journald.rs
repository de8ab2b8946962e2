//! Lines to systemd's journal, in its own protocol: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.

use super::record::{Record, severity};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// The journal's socket.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// The journal of this machine.
#[derive(Debug)]
pub(super) struct Journal(UnixDatagram);

impl Journal {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self(socket))
    }

    /// Sends a line. One that the journal does not take is lost.
    pub(super) fn send(&self, record: &Record) {
        // No field has a line break.
        let fields = format!(
            "MESSAGE={}\nPRIORITY={}\nSYSLOG_IDENTIFIER=leveret\nRABBITMQ_DOMAIN={}\n",
            record.text(),
            severity(record.level),
            record.category.domain(),
        );
        let _lost = self.0.send(fields.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::record::tests::record;

    #[test]
    fn the_journal_is_given_fields() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        assert!(Journal::open(&path).is_err());
        let socket = UnixDatagram::bind(&path).unwrap();
        Journal::open(&path).unwrap().send(&record("closed"));
        let mut bytes = [0; 256];
        let n_bytes = socket.recv(&mut bytes).unwrap();
        assert_eq!(
            std::str::from_utf8(&bytes[..n_bytes]).unwrap(),
            "MESSAGE=closed user=a\\nb\nPRIORITY=4\nSYSLOG_IDENTIFIER=leveret\n\
             RABBITMQ_DOMAIN=rabbitmq.connection\n"
        );
    }
}
