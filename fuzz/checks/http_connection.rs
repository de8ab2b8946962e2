//! What must hold for any bytes of a client of the HTTP API, between its socket and the broker. Shared by the
//! fuzz target and by an ordinary test of the crate, which needs no fuzzer.

use admission::{Admission, Descriptors};
use auth::{Authenticator, Rules};
use broker::{Broker, FileTraffic};
use http::{Api, Limits, Settings, Socketless};
use log::WalOptions;
use meta::{Command, PasswordHash};
use mgmt::{FileDescriptors, LogLine, Management, NodeInfo, ResourceLimits, Resources, Threshold};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stdx::{Now, Ring};
use testing::MemoryDisk;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::timeout;

/// Bytes of a pipe, in either direction.
const PIPE_BYTES: usize = 16 * 1024;
/// Longest input.
const INPUT_BYTES_MAX: usize = 256 * 1024;
/// Answers that are read, bytes.
const ANSWERS_BYTES_MAX: usize = 4 << 20;
/// Shortest head of a request: `A / HTTP/1.0` and two ends of lines.
const HEAD_BYTES_MIN: usize = 14;
/// Time that the node waits for the rest of a request, milliseconds.
const PATIENCE_MS: u64 = 20;
/// Silence after which a client goes away.
const SILENCE: Duration = Duration::from_millis(500);
/// Time after which nothing is expected to happen any more.
const DEADLINE: Duration = Duration::from_secs(60);

/// A node in memory and the thread that serves it, for all inputs. The user `fuzz` looks, and changes nothing.
static NODE: LazyLock<Mutex<(Runtime, Arc<Socketless>)>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let node = runtime.block_on(node());
    Mutex::new((runtime, node))
});

#[derive(Debug)]
struct Nothing(ResourceLimits, Ring<LogLine>);

impl Resources for Nothing {
    fn limits(&self) -> &ResourceLimits {
        &self.0
    }

    fn look(&self, _: &Broker) {}

    fn descriptors(&self) -> FileDescriptors {
        FileDescriptors { total_used: None, total_limit: 1024, is_alarm_on: false }
    }

    fn traffic(&self) -> Vec<FileTraffic> {
        Vec::new()
    }
}

impl mgmt::Log for Nothing {
    fn set_level(&self, _: &str) -> bool {
        false
    }

    fn reopen(&self) -> io::Result<()> {
        Ok(())
    }

    fn n_dropped(&self) -> u64 {
        0
    }

    fn last_lines(&self) -> &Ring<LogLine> {
        &self.1
    }

    fn level(&self) -> &'static str {
        "info"
    }
}

async fn node() -> Arc<Socketless> {
    let options = WalOptions { segment_bytes: 1 << 20, ..WalOptions::default() };
    let broker = Broker::open(Arc::new(MemoryDisk::new()), options).expect("an empty disk");
    let password = PasswordHash::new(Default::default(), "fuzz");
    let (vhost, user) = ("/", "fuzz");
    for command in [
        Command::CreateVhost { vhost: vhost.into(), metadata: Default::default() },
        Command::CreateUser { user: user.into(), password, tags: vec!["monitoring".into()] },
        Command::SetPermissions {
            user: user.into(),
            vhost: vhost.into(),
            configure: "^$".into(),
            write: "^$".into(),
            read: "^$".into(),
        },
    ] {
        broker.apply_definition(command).await.expect("a definition");
    }
    let bytes = Threshold::Bytes(1 << 30);
    let nothing =
        Arc::new(Nothing(ResourceLimits::new(1 << 30, bytes, bytes), Ring::new(4, 1_000)));
    let management = Arc::new(Management {
        broker,
        authenticator: Authenticator::new(Rules { loopback_users: Vec::new(), anonymous: None }),
        password_rule: mgmt::PasswordRule::Anything,
        hashing: meta::HashAlgorithm::default(),
        node_info: node_info(),
        resources: Arc::clone(&nothing) as Arc<dyn Resources>,
        client_totals: session::ClientTotals::default(),
        log: nothing,
        tls: Vec::new(),
        suspended: watch::Sender::new(false),
        running: AtomicBool::new(true),
        control: Arc::new(mgmt::NotedControl::default()),
    });
    let mut settings = Settings::default();
    (settings.body_bytes_max, settings.logs_access) = (64 * 1024, true);
    let api = Api::new(management, Arc::default(), settings, None, Box::new(Now::default));
    Arc::new(Socketless::new(&api, Admission::new(Arc::new(Descriptors::new(1024)))))
}

#[expect(clippy::disallowed_methods, reason = "a node has a start")]
fn node_info() -> NodeInfo {
    NodeInfo {
        name: "rabbit@fuzz".to_owned(),
        version: "0.1.0".to_owned(),
        rabbitmq_version: "4.3.6".to_owned(),
        data_dir: PathBuf::from("/nonexistent"),
        trace_dir: PathBuf::from("/nonexistent"),
        config_files: Vec::new(),
        log_files: Vec::new(),
        listeners: Vec::new(),
        settings: Vec::new(),
        permits: Default::default(),
        started: Instant::now(),
        cluster_id: String::new(),
    }
}

/// The first byte cuts the others into pieces. Whatever the client says, it is sent whole answers and nothing
/// else, not more of them than it can have asked for; the connection ends once the client is gone; and the next
/// client is served.
pub(crate) fn connection(input: &[u8]) {
    let Some((&size, bytes)) = input.split_first() else { return };
    if bytes.len() > INPUT_BYTES_MAX {
        return;
    }
    let node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let (runtime, node) = &*node;
    let patience = Limits {
        request_timeout_ms: PATIENCE_MS,
        idle_timeout_ms: PATIENCE_MS,
        ..Limits::default()
    };
    let answers = runtime.block_on(conversation(node, patience, bytes, usize::from(size) + 1));
    // One more: bytes that are no request are answered too.
    assert!(n_answers(&answers) <= bytes.len() / HEAD_BYTES_MIN + 1);
    let good = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = runtime.block_on(conversation(node, Limits::default(), good, good.len()));
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

/// What the node answers to these bytes.
async fn conversation(
    node: &Arc<Socketless>,
    limits: Limits,
    bytes: &[u8],
    size: usize,
) -> Vec<u8> {
    let (client, served) = duplex(PIPE_BYTES);
    let serving = tokio::spawn({
        let node = Arc::clone(node);
        async move { node.serve(served, limits).await }
    });
    let answers = ask(client, bytes, (size, limits.idle_timeout_ms > PATIENCE_MS)).await;
    let ended = timeout(DEADLINE, serving).await.expect("the connection ends with its client");
    ended.expect("nothing panics");
    answers
}

async fn ask(client: DuplexStream, bytes: &[u8], (size, is_patient): (usize, bool)) -> Vec<u8> {
    let (mut reader, mut writer) = split(client);
    let says = async {
        for piece in bytes.chunks(size) {
            if writer.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    let hears = async {
        let (mut answers, mut piece) = (Vec::new(), vec![0; PIPE_BYTES]);
        let silence = if is_patient { DEADLINE } else { SILENCE };
        while answers.len() < ANSWERS_BYTES_MAX {
            match timeout(silence, reader.read(&mut piece)).await {
                Ok(Ok(n)) if n > 0 => answers.extend(piece.iter().take(n)),
                Ok(_) | Err(_) => break,
            }
        }
        answers
    };
    // Whoever hears nothing any more says nothing any more.
    tokio::pin!(hears);
    tokio::select! {
        answers = &mut hears => answers,
        () = says => hears.await,
    }
}

/// The number of final answers, each of which begins as one does. The last may have been cut off.
fn n_answers(mut rest: &[u8]) -> usize {
    let mut n_answers = 0;
    while let Some((head, after)) = split_at(rest, b"\r\n\r\n") {
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        let status = head.strip_prefix("http/1.1 ").or_else(|| head.strip_prefix("http/1.0 "));
        let status = status.and_then(|it| it.get(..3)?.parse::<u16>().ok());
        let status = status.unwrap_or_else(|| panic!("no answer: {head}"));
        assert!((100..600).contains(&status) && status != 500, "{head}");
        n_answers += usize::from(status >= 200);
        // One to HEAD says how long it would be.
        rest = if after.starts_with(b"HTTP/1.") { after } else { after_body(&head, after) };
    }
    assert!(b"HTTP/1.".starts_with(rest) || rest.starts_with(b"HTTP/1."), "no answer: {rest:?}");
    n_answers
}

fn after_body<'b>(head: &str, mut rest: &'b [u8]) -> &'b [u8] {
    let header =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if let Some(length) = header("content-length") {
        return rest.get(length.parse().expect("a length")..).unwrap_or_default();
    }
    if header("transfer-encoding").is_none() {
        return rest;
    }
    while let Some((size, after)) = split_at(rest, b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(size), 16).expect("a size");
        rest = after.get(size + 2..).unwrap_or_default();
        if size == 0 {
            return rest;
        }
    }
    &[]
}

/// What stands before and after a separator.
fn split_at<'b>(bytes: &'b [u8], separator: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let at = bytes.windows(separator.len()).position(|it| it == separator)?;
    Some((bytes.get(..at)?, bytes.get(at + separator.len()..)?))
}
