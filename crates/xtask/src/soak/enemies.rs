//! Clients that mean harm, for the soak: strangers at the ports of the HTTP API and of Prometheus, a client
//! of the stream protocol that lies, slow readers; and a bystander, whose worst wait is measured.
//! Knows sockets and bytes. Never whether messages were lost.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Connections that a stranger holds at a time.
const SOCKETS: usize = 200;
/// Requests that a stranger sends without reading an answer.
const PIPELINED: usize = 300;
/// Names in the question of the client that lies.
const NAMES: usize = 50_000;
/// Time for which connections are held before they are dropped.
const HELD: Duration = Duration::from_secs(5);
/// Pause of a slow reader between two reads, and of the bystander between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// Patience of every client with a node that is not there.
const PATIENCE: Duration = Duration::from_secs(30);

/// The ports of a node that are attacked.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) http: u16,
    pub(super) prometheus: u16,
    pub(super) stream: u16,
}

/// An attack on a port, which is repeated.
type Attack = fn(u16) -> std::io::Result<()>;

/// The enemies at work, until [`Enemies::end`].
pub(super) struct Enemies {
    goes_on: Arc<AtomicBool>,
    worst_wait_ms: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Enemies {
    pub(super) fn start(ports: Ports) -> Self {
        let goes_on = Arc::new(AtomicBool::new(true));
        let worst_wait_ms = Arc::<AtomicU64>::default();
        let worst = Arc::clone(&worst_wait_ms);
        let attacks: [(u16, Attack); 5] = [
            (ports.http, unread),
            (ports.prometheus, unread),
            (ports.prometheus, compiles),
            (ports.prometheus, reads_slowly),
            (ports.stream, lies),
        ];
        let mut threads = Vec::new();
        for (port, attack) in attacks {
            threads.push(repeat(&goes_on, move || drop(attack(port))));
        }
        threads.push(repeat(&goes_on, move || {
            let asked = Instant::now();
            // A node that was killed answers nobody: that is no wait.
            if is_healthy(ports.http).is_ok_and(|is_healthy| is_healthy) {
                let waited = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                worst.fetch_max(waited, Ordering::Relaxed);
            }
        }));
        Self { goes_on, worst_wait_ms, threads }
    }

    /// Ends them; the bystander's worst wait, milliseconds.
    pub(super) fn end(self) -> u64 {
        self.goes_on.store(false, Ordering::Relaxed);
        for thread in self.threads {
            drop(thread.join());
        }
        self.worst_wait_ms.load(Ordering::Relaxed)
    }
}

fn repeat(goes_on: &Arc<AtomicBool>, attack: impl Fn() + Send + 'static) -> JoinHandle<()> {
    let goes_on = Arc::clone(goes_on);
    spawn(move || {
        while goes_on.load(Ordering::Relaxed) {
            attack();
            sleep(PAUSE);
        }
    })
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(HELD))?;
    Ok(socket)
}

/// Asks for the same page over and over and reads no answer.
fn unread(port: u16) -> std::io::Result<()> {
    let requests = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(PIPELINED);
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        let mut socket = connect(port)?;
        socket.set_nonblocking(true)?;
        // What does not fit is not sent.
        drop(socket.write(&requests));
        sockets.push(socket);
    }
    sleep(HELD);
    Ok(())
}

/// Asks with an expression that is dear to compile.
fn compiles(port: u16) -> std::io::Result<()> {
    let expression = "%5CpL".repeat(300);
    let head = format!(
        "GET /metrics/detailed?family=queue_coarse_metrics&queue=(?i){expression} HTTP/1.1\r\nHost: x\r\n\
         Connection: close\r\n\r\n"
    );
    let mut socket = connect(port)?;
    socket.write_all(head.as_bytes())?;
    socket.read_to_end(&mut Vec::new()).map(drop)
}

/// Reads long answers a few bytes at a time.
fn reads_slowly(port: u16) -> std::io::Result<()> {
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS / 4 {
        let mut socket = connect(port)?;
        socket.write_all(b"GET /metrics/per-object HTTP/1.1\r\nHost: x\r\n\r\n")?;
        socket.set_read_timeout(Some(Duration::from_millis(1)))?;
        sockets.push(socket);
    }
    let began = Instant::now();
    while began.elapsed() < 3 * HELD {
        for socket in &mut sockets {
            drop(socket.read(&mut [0; 64]));
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// A frame of the stream protocol.
fn frame(key: u16, fields: &[u8]) -> Vec<u8> {
    let n_bytes = u32::try_from(fields.len() + 4).unwrap_or(u32::MAX);
    let head = [&n_bytes.to_be_bytes()[..], &key.to_be_bytes(), &1_u16.to_be_bytes()];
    [&head.concat(), fields].concat()
}

fn text(text: &str) -> Vec<u8> {
    let n_bytes = u16::try_from(text.len()).unwrap_or(u16::MAX);
    [&n_bytes.to_be_bytes()[..], text.as_bytes()].concat()
}

/// Logs in over the stream protocol, asks for very many streams, and then says what is not true: counts that
/// do not fit, a command that does not exist, a length that is not there.
fn lies(port: u16) -> std::io::Result<()> {
    const PASSWORD: &[u8] = b"\0guest\0guest";
    let mut socket = connect(port)?;
    let correlation = 1_u32.to_be_bytes();
    let password_bytes = u32::try_from(PASSWORD.len()).unwrap_or_default().to_be_bytes();
    socket.write_all(&frame(17, &[&correlation[..], &[0; 4]].concat()))?;
    let login = [&correlation[..], &text("PLAIN"), &password_bytes, PASSWORD].concat();
    socket.write_all(&frame(19, &login))?;
    socket.write_all(&frame(20, &[&1_048_576_u32.to_be_bytes()[..], &[0; 4]].concat()))?;
    socket.write_all(&frame(21, &[&correlation[..], &text("/")].concat()))?;
    let n_names = u32::try_from(NAMES).unwrap_or_default().to_be_bytes();
    let names: Vec<u8> = (0..NAMES).flat_map(|number| text(&format!("no-{number}"))).collect();
    socket.write_all(&frame(15, &[&correlation[..], &n_names, &names].concat()))?;
    drop(socket.read(&mut [0; 4096]));
    for lie in [
        frame(15, &[&correlation[..], &u32::MAX.to_be_bytes()].concat()),
        frame(2, &[&[1][..], &u32::MAX.to_be_bytes()].concat()),
        frame(0x7ffe, &correlation),
        [&u32::MAX.to_be_bytes()[..], &[0; 64]].concat(),
    ] {
        socket.write_all(&lie)?;
    }
    socket.read_to_end(&mut Vec::new()).map(drop)
}

/// Whether the node says that it is in good health.
fn is_healthy(port: u16) -> std::io::Result<bool> {
    let mut socket = connect(port)?;
    socket.write_all(
        b"GET /api/health/checks/virtual-hosts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
          Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n",
    )?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}
