//! Counts that Leveret has of what it handed to the system and read of streams, asked for over the control
//! socket of a broker on this machine. The system's count of a process is of pages made dirty: where a page
//! is written little by little, as that of a log is, it counts many times over.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// A file that the broker has open in its data directory as long as it runs.
const LOCK_FILE: &str = "leveret.lock";
/// The control socket beside it.
const SOCKET: &str = "ctl.sock";
/// The longest answer that is read: `status` is a few thousand bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// The longest wait for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The counts of a broker, since its start or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Bytes written to files of the data directory.
    pub(crate) written_bytes: f64,
    /// Writes to sockets.
    pub(crate) socket_writes: f64,
    /// Reads of the files of streams.
    pub(crate) file_reads: f64,
    /// Bytes they brought.
    pub(crate) file_read_bytes: f64,
    /// Chunks that consumers were given.
    pub(crate) chunks_read: f64,
    /// Of these, chunks that came with a read for an earlier one.
    pub(crate) chunks_read_ahead: f64,
}

impl Counts {
    fn read(status: &Value) -> Option<Self> {
        let of = |path: &str| status.pointer(path)?.as_f64();
        let reads = |name: &str| of(&format!("/stream_reads/{name}")).unwrap_or(0.0);
        Some(Self {
            written_bytes: of("/file_io/total/write_bytes")?,
            socket_writes: of("/socket_writes").unwrap_or(0.0),
            file_reads: reads("file_reads"),
            file_read_bytes: reads("file_read_bytes"),
            chunks_read: reads("chunks_read"),
            chunks_read_ahead: reads("chunks_read_ahead"),
        })
    }

    /// The counts after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            written_bytes: self.written_bytes - before.written_bytes,
            socket_writes: self.socket_writes - before.socket_writes,
            file_reads: self.file_reads - before.file_reads,
            file_read_bytes: self.file_read_bytes - before.file_read_bytes,
            chunks_read: self.chunks_read - before.chunks_read,
            chunks_read_ahead: self.chunks_read_ahead - before.chunks_read_ahead,
        }
    }
}

/// The data directory of a running broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnCount {
    data_dir: PathBuf,
}

impl OwnCount {
    /// That of the broker with this process; `None` if it cannot be found, or does not tell.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let targets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        let mut locks = targets.filter(|target| target.ends_with(LOCK_FILE));
        // Seen as the broker sees it, which may be in a container.
        let of_lock = |lock: PathBuf| {
            let inside = lock.parent()?.strip_prefix("/").ok()?.to_owned();
            Some(Self { data_dir: PathBuf::from(format!("/proc/{pid}/root")).join(inside) })
        };
        locks.find_map(|lock| of_lock(lock).filter(|own| own.counts().is_some()))
    }

    /// Its counts since its start.
    pub(crate) fn counts(&self) -> Option<Counts> {
        Counts::read(&self.status().ok()?)
    }

    fn status(&self) -> std::io::Result<Value> {
        // The path of the socket may be too long for its address.
        let directory = File::open(&self.data_dir)?;
        let address = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
        let mut stream = UnixStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"GET /api/leveret/status HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok(serde_json::from_str(body)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Answers one request.
    fn serve(listener: &UnixListener, answer: &str) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 200];
        let n = stream.read(&mut request).unwrap();
        assert!(request[..n].starts_with(b"GET /api/leveret/status HTTP/1.0\r\n"));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
    }

    #[test]
    fn a_broker_is_found_by_its_lock_and_asked_on_the_socket_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120));
        fs::create_dir(&deep).unwrap();
        let _lock = File::create(deep.join(LOCK_FILE)).unwrap();
        let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        // Its name is too long to be bound to.
        fs::rename(dir.path().join(SOCKET), deep.join(SOCKET)).unwrap();
        let told = r#"{"file_io": {"total": {"write_bytes": 7}}, "socket_writes": 4,
            "stream_reads": {"file_reads": 2, "chunks_read": 6}}"#;
        let answers = [told, "{}"];
        let server = std::thread::spawn(move || {
            for answer in [answers[0], answers[0], answers[1], answers[1]] {
                serve(&listener, answer);
            }
        });
        let own = OwnCount::of(std::process::id()).unwrap();
        let counts = own.counts().unwrap();
        assert_eq!((counts.written_bytes, counts.socket_writes), (7.0, 4.0));
        assert_eq!((counts.file_reads, counts.chunks_read), (2.0, 6.0));
        assert_eq!(counts.since(counts), Counts::default());
        assert_eq!(own.counts(), None);
        assert_eq!(OwnCount::of(std::process::id()), None, "it does not tell");
        server.join().unwrap();
        assert_eq!(own.counts(), None);
        assert_eq!(OwnCount::of(u32::MAX), None);
    }
}
