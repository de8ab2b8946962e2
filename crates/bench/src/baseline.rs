//! The machine's own limits, measured without a broker: bytes through a process that only passes them
//! on, and the disk's fdatasync.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use amqp091::content::encode_content;
use amqp091::method::BasicPublish;
use amqp091::{Method, PropertiesRef};
use anyhow::Context as _;
use perf::process;

use crate::load::Tools;
use crate::measurement::Measurement;
use crate::plan::{Baseline, BaselineKind};
use crate::queueless::{self, Hub};
use crate::result::Metric;
use crate::stats::{median, ratio};

/// The relay's read buffer.
const RELAY_BYTES: usize = 64 * 1024;
/// A file that is sent over and over, which the page cache has room for.
const FILE_BYTES: usize = 64 << 20;
/// A frame of the stream protocol that gives credit for one chunk.
const CREDIT_BYTES: usize = 11;
/// The buffers of source and sink.
const END_BYTES: usize = 256 * 1024;
/// Frames of a body are at most that long.
const FRAME_MAX: u32 = 131_072;
/// Bytes written before each fdatasync: a block of a file that has its blocks already.
const SYNC_BYTES: usize = 4096;
const SYNC_BLOCKS: u64 = 256;
/// As long as the load generator's.
const ROUTING_KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Measures it.
pub(crate) fn measure(
    tools: &Tools,
    baseline: Baseline,
    disk: &Path,
) -> anyhow::Result<Measurement> {
    let time = Duration::from_secs_f64(baseline.seconds);
    match baseline.kind {
        BaselineKind::Relay { n_pairs, size } => relay(tools, n_pairs, &publish(size), false, time),
        BaselineKind::Sink { size } => relay(tools, 1, &publish(size), true, time),
        BaselineKind::Bytes { of_message } => relay(tools, 1, &message(of_message), false, time),
        BaselineKind::OneByOne { of_message } => one_by_one(tools, &message(of_message), time),
        BaselineKind::Window { of_message, credits } => window(tools, of_message, credits, time),
        BaselineKind::SendFile { of_message } => send_file(tools, of_message, time),
        BaselineKind::Sync => sync(disk, time),
    }
}

/// The process that does the least a broker can do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Floor {
    /// Passes bytes on to the connection after it.
    Pass,
    /// Drops them.
    Drop,
    /// Sends a file to it, over and over.
    SendFile,
    /// Sends it a message for each frame of credit.
    Window,
    /// Answers AMQP 0-9-1.
    Amqp,
}

/// Runs that process, until its standard input ends.
///
/// # Errors
/// No port to listen on.
pub(crate) fn serve(floor: Floor) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let mut out = io::stdout();
    writeln!(out, "{port}")?;
    out.flush()?;
    std::thread::spawn(move || accept(&listener, floor));
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

/// Every connection is a client; where bytes are passed on, every second is the sink of the one before.
fn accept(listener: &TcpListener, floor: Floor) {
    let hub = Arc::new(Hub::default());
    let mut sockets = listener.incoming().map_while(Result::ok);
    while let Some(client) = sockets.next() {
        let sink = if floor == Floor::Pass { sockets.next() } else { None };
        let hub = Arc::clone(&hub);
        std::thread::spawn(move || match floor {
            Floor::Pass | Floor::Drop => pass(client, sink),
            // An error is an end: the client sees it.
            Floor::SendFile => drop(give_file(client)),
            Floor::Window => drop(give_messages(client)),
            Floor::Amqp => drop(queueless::serve(client, &hub)),
        });
    }
}

/// A file of [`FILE_BYTES`], over and over.
fn give_file(mut client: TcpStream) -> anyhow::Result<()> {
    let Scratch(mut file) = Scratch::new(&std::env::temp_dir())?;
    file.write_all(&vec![0x5a; FILE_BYTES])?;
    loop {
        file.rewind()?;
        io::copy(&mut file, &mut client)?;
    }
}

/// A message for each frame of credit, as long as the first four bytes say.
fn give_messages(mut client: TcpStream) -> io::Result<()> {
    let mut size = [0; 4];
    client.read_exact(&mut size)?;
    let message = message(u32::from_be_bytes(size));
    let (mut buffer, mut n_bytes) = (vec![0; RELAY_BYTES], 0);
    loop {
        let n @ 1.. = client.read(&mut buffer)? else { return Ok(()) };
        n_bytes += n;
        client.write_all(&message.repeat(n_bytes / CREDIT_BYTES))?;
        n_bytes %= CREDIT_BYTES;
    }
}

/// Until the source ends. An error is an end as well: the other side sees it.
fn pass(mut source: TcpStream, mut sink: Option<TcpStream>) {
    let mut buffer = vec![0; RELAY_BYTES];
    while let Ok(n @ 1..) = source.read(&mut buffer) {
        let read = buffer.get(..n).unwrap_or_default();
        if sink.as_mut().is_some_and(|sink| sink.write_all(read).is_err()) {
            return;
        }
    }
}

/// The relay as a child process. It ends when this is dropped.
pub(crate) struct Relay {
    child: Child,
    pub(crate) port: u16,
}

impl Relay {
    pub(crate) fn start(tools: &Tools, what: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(&tools.program);
        command.args(&tools.bench).args(["--relay", what]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the relay does not start")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let port = line.trim().parse().context("the relay does not tell its port")?;
        Ok(Self { child, port })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpStream::connect(("127.0.0.1", self.port))?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    fn cpu_s(&self) -> f64 {
        process::usage(self.child.id()).map_or(0.0, |usage| usage.cpu_s)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The bytes of a message, whatever they are.
fn message(bytes: u32) -> Vec<u8> {
    vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)]
}

/// A message through the relay, over and over: the time it takes.
fn one_by_one(tools: &Tools, message: &[u8], time: Duration) -> anyhow::Result<Measurement> {
    let relay = Relay::start(tools, "pass")?;
    let (mut source, mut sink) = (relay.connect()?, relay.connect()?);
    let (before, began) = (relay.cpu_s(), Instant::now());
    let (mut times_us, mut read) = (Vec::new(), message.to_vec());
    while began.elapsed() < time {
        let sent = Instant::now();
        source.write_all(message)?;
        sink.read_exact(&mut read)?;
        times_us.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    Ok(one_at_a_time(&times_us, began, relay.cpu_s() - before))
}

/// Messages of which each was awaited before the next, since a moment.
pub(crate) fn one_at_a_time(times_us: &[f64], began: Instant, cpu_s: f64) -> Measurement {
    let mut measurement = passed(times_us.len() as f64, began, cpu_s);
    measurement.set(Metric::LatencyMedian, median(times_us).unwrap_or(0.0));
    measurement
}

/// So many messages since a moment.
fn passed(n: f64, began: Instant, cpu_s: f64) -> Measurement {
    let seconds = began.elapsed().as_secs_f64();
    let mut measurement = Measurement { seconds, ..Measurement::default() };
    measurement.set(Metric::Duration, seconds);
    measurement.set(Metric::Rate, n / seconds.max(f64::EPSILON));
    measurement.set_cpu(Metric::CpuPerMessage, cpu_s, n);
    let each = measurement.values.get(&Metric::CpuPerMessage);
    if let Some(rate) = each.and_then(|us| ratio(1e6, *us)) {
        measurement.set(Metric::PerCpuSecond, rate);
    }
    measurement
}

/// Messages for credit, of which each that comes gives one more, in a frame of its own.
fn window(
    tools: &Tools,
    of_message: u32,
    credits: u32,
    time: Duration,
) -> anyhow::Result<Measurement> {
    let relay = Relay::start(tools, "window")?;
    let mut socket = relay.connect()?;
    let credit = |n: usize| vec![0; n * CREDIT_BYTES];
    let (before, began) = (relay.cpu_s(), Instant::now());
    socket.write_all(&of_message.to_be_bytes())?;
    socket.write_all(&credit(usize::try_from(credits)?))?;
    let (mut buffer, mut n_bytes) = (vec![0; END_BYTES], 0);
    let (mut n_messages, size) = (0, usize::try_from(of_message)?);
    while began.elapsed() < time {
        n_bytes += socket.read(&mut buffer)?;
        socket.write_all(&credit(n_bytes / size))?;
        n_messages += n_bytes / size;
        n_bytes %= size;
    }
    Ok(passed(n_messages as f64, began, relay.cpu_s() - before))
}

/// A file that is sent by the system.
fn send_file(tools: &Tools, of_message: u32, time: Duration) -> anyhow::Result<Measurement> {
    let relay = Relay::start(tools, "send-file")?;
    let mut socket = relay.connect()?;
    let mut buffer = vec![0; END_BYTES];
    // The file is there.
    socket.read_exact(&mut buffer)?;
    let (before, began, mut n_bytes) = (relay.cpu_s(), Instant::now(), 0);
    while began.elapsed() < time {
        n_bytes += socket.read(&mut buffer)?;
    }
    Ok(passed(n_bytes as f64 / f64::from(of_message), began, relay.cpu_s() - before))
}

/// Messages from `n_pairs` sources through the relay to as many sinks.
fn relay(
    tools: &Tools,
    n_pairs: u32,
    message: &[u8],
    drops: bool,
    time: Duration,
) -> anyhow::Result<Measurement> {
    let relay = Relay::start(tools, if drops { "drop" } else { "pass" })?;
    let mut sources = Vec::new();
    let mut sinks = Vec::new();
    for _ in 0..n_pairs {
        sources.push(relay.connect()?);
        if !drops {
            sinks.push(relay.connect()?);
        }
    }
    let batch = message.repeat((END_BYTES / message.len()).max(1));
    let before = relay.cpu_s();
    let began = Instant::now();
    let n_bytes: u64 = std::thread::scope(|scope| {
        let batch = batch.as_slice();
        let until = began + time;
        let sources = sources.into_iter();
        let sources: Vec<_> =
            sources.map(|socket| scope.spawn(move || send(socket, batch, until))).collect();
        let sinks: Vec<_> =
            sinks.into_iter().map(|socket| scope.spawn(move || receive(socket))).collect();
        let sent: u64 = sources.into_iter().filter_map(|thread| thread.join().ok()).sum();
        let received: u64 = sinks.into_iter().filter_map(|thread| thread.join().ok()).sum();
        if drops { sent } else { received }
    });
    Ok(passed(n_bytes as f64 / message.len() as f64, began, relay.cpu_s() - before))
}

/// The bytes of one publish, with names as long as the load generator's.
fn publish(size: u32) -> Vec<u8> {
    let publish =
        BasicPublish { exchange: b"direct", routing_key: ROUTING_KEY, ..BasicPublish::default() };
    let mut bytes = Vec::new();
    Method::from(publish).encode_frame(1, &mut bytes);
    let body = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    encode_content(1, PropertiesRef::default(), &body, FRAME_MAX, &mut bytes);
    bytes
}

/// Writes until the time is over; how many bytes.
fn send(mut socket: TcpStream, batch: &[u8], until: Instant) -> u64 {
    let mut n = 0;
    while Instant::now() < until && socket.write_all(batch).is_ok() {
        n += u64::try_from(batch.len()).unwrap_or(0);
    }
    // The other side has gone if this fails.
    drop(socket.shutdown(Shutdown::Write));
    n
}

/// Reads until the end; how many bytes.
fn receive(mut socket: TcpStream) -> u64 {
    let mut buffer = vec![0; END_BYTES];
    let mut all = 0;
    while let Ok(n @ 1..) = socket.read(&mut buffer) {
        all += u64::try_from(n).unwrap_or(0);
    }
    all
}

/// Writes a block and waits for the disk, over and over, in a file that has its blocks.
fn sync(disk: &Path, time: Duration) -> anyhow::Result<Measurement> {
    let file = Scratch::new(disk)?;
    let block = vec![0x5a; SYNC_BYTES];
    let offset = |at: u64| at % SYNC_BLOCKS * u64::try_from(SYNC_BYTES).unwrap_or(0);
    for at in 0..SYNC_BLOCKS {
        file.0.write_all_at(&block, offset(at))?;
    }
    file.0.sync_all()?;
    let began = Instant::now();
    let mut times_us = Vec::new();
    for at in 0.. {
        let before = Instant::now();
        file.0.write_all_at(&block, offset(at))?;
        file.0.sync_data()?;
        times_us.push(before.elapsed().as_secs_f64() * 1e6);
        if began.elapsed() >= time {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut measurement = Measurement { seconds, ..Measurement::default() };
    measurement.set(Metric::Duration, seconds);
    measurement.set(Metric::Rate, times_us.len() as f64 / seconds.max(f64::EPSILON));
    measurement.set(Metric::ConfirmMedian, median(&times_us).unwrap_or(0.0));
    Ok(measurement)
}

/// The median time of one fdatasync, microseconds.
///
/// # Errors
/// The folder cannot be written to.
pub(crate) fn sync_us(disk: &Path, time: Duration) -> anyhow::Result<f64> {
    let measurement = sync(disk, time)?;
    measurement.values.get(&Metric::ConfirmMedian).copied().context("nothing was timed")
}

/// A file that is gone as soon as nobody has it open.
struct Scratch(File);

impl Scratch {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(format!(".leveret-bench-{}", std::process::id()));
        let open = || {
            let file =
                File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            std::fs::remove_file(&path)?;
            io::Result::Ok(file)
        };
        open().map(Self).with_context(|| format!("no file in {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publish_is_as_long_as_the_load_generators() {
        let bytes = publish(12);
        assert_eq!(&bytes[bytes.len() - 20..bytes.len() - 16], [3, 0, 1, 0]);
        assert_eq!(publish(0).len(), bytes.len() - 20);
        // Larger bodies than a frame come in several.
        assert_eq!(publish(200_000).len(), publish(0).len() + 200_000 + 2 * 8);
    }

    #[test]
    fn the_relay_passes_all_of_it_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let relay = std::thread::spawn(move || {
            let (source, _) = listener.accept().unwrap();
            let (sink, _) = listener.accept().unwrap();
            pass(source, Some(sink));
        });
        let source = TcpStream::connect(address).unwrap();
        let sink = TcpStream::connect(address).unwrap();
        let batch = publish(1500).repeat(100);
        let length = u64::try_from(batch.len()).unwrap();
        let received = std::thread::spawn(move || receive(sink));
        let until = Instant::now() + Duration::from_millis(50);
        let sent = send(source, &batch, until);
        relay.join().unwrap();
        assert_eq!(received.join().unwrap(), sent);
        assert!(sent.is_multiple_of(length));
    }

    #[test]
    fn a_frame_of_credit_gives_a_message_and_a_file_comes_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let floor = std::thread::spawn(move || {
            give_messages(listener.accept().unwrap().0).unwrap();
            give_file(listener.accept().unwrap().0).unwrap_err();
        });
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&7_u32.to_be_bytes()).unwrap();
        client.write_all(&[0; 3 * CREDIT_BYTES + 1]).unwrap();
        client.read_exact(&mut [1; 3 * 7]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(receive(client), 0, "a part of a frame gives nothing");
        let mut client = TcpStream::connect(address).unwrap();
        let mut file = vec![0; FILE_BYTES + 1];
        client.read_exact(&mut file).unwrap();
        assert!(file.iter().all(|byte| *byte == 0x5a));
        drop(client);
        floor.join().unwrap();
    }

    #[test]
    fn fdatasync_takes_some_time_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(sync_us(folder.path(), Duration::from_millis(1)).unwrap() > 0.0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(sync_us(&folder.path().join("none"), Duration::from_millis(1)).is_err());
    }
}
