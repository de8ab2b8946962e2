//! The one broker node the suite talks to.

use crate::check::{Failure, Outcome};
use std::collections::VecDeque;
use std::ops::Range;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::timeout;

const READY: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(30);
const LOG_LINES_KEPT: usize = 40;
/// Below the range the kernel hands out: a client that keeps connecting to a port of that range
/// while the node is down can end up connected to itself.
const PORTS: Range<u16> = 20_000..26_000;
const STREAM_PORTS: Range<u16> = 26_000..32_000;
const EXTERNAL_STREAM_PORT: u16 = 5552;

pub struct Node {
    host: String,
    port: u16,
    pub stream_port: u16,
    credentials: String,
    own: Option<Own>,
}

/// A node whose process is ours.
struct Own {
    binary: String,
    data_dir: tempfile::TempDir,
    process: AsyncMutex<Option<Child>>,
    log: Arc<Log>,
}

type Log = Mutex<VecDeque<String>>;

impl Node {
    /// Takes the broker named by `INTEROP_URI`, or starts `LEVERET_BIN` on a fresh directory.
    pub async fn open() -> Outcome<Self> {
        if let Some(uri) = std::env::var("INTEROP_URI").ok().filter(|uri| !uri.is_empty()) {
            return Self::external(&uri);
        }
        let binary = std::env::var("LEVERET_BIN").map_err(|_| {
            Failure::new("set LEVERET_BIN (broker binary) or INTEROP_URI (running broker)")
        })?;
        let own = Own {
            binary,
            data_dir: tempfile::tempdir()?,
            process: AsyncMutex::new(None),
            log: Arc::default(),
        };
        let node = Self {
            host: "127.0.0.1".into(),
            port: free_port(PORTS).await?,
            stream_port: free_port(STREAM_PORTS).await?,
            credentials: "guest:guest".into(),
            own: Some(own),
        };
        node.start().await?;
        Ok(node)
    }

    fn external(uri: &str) -> Outcome<Self> {
        let behind_scheme = uri.split_once("://").map_or(uri, |(_, rest)| rest);
        let authority = behind_scheme.split('/').next().unwrap_or_default();
        let (credentials, address) =
            authority.rsplit_once('@').unwrap_or(("guest:guest", authority));
        let (host, port) = address.split_once(':').unwrap_or((address, "5672"));
        Ok(Self {
            host: host.into(),
            port: port.parse()?,
            stream_port: match std::env::var("INTEROP_STREAM_PORT") {
                Ok(port) => port.parse()?,
                Err(_) => EXTERNAL_STREAM_PORT,
            },
            credentials: credentials.into(),
            own: None,
        })
    }

    pub fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub fn credentials(&self) -> &str {
        &self.credentials
    }

    pub fn user(&self) -> &str {
        self.credentials.split(':').next().unwrap_or("guest")
    }

    /// False for an external broker, whose process is not ours to stop.
    pub fn restartable(&self) -> bool {
        self.own.is_some()
    }

    /// Starts the process unless it runs, and returns once it serves connections.
    pub async fn start(&self) -> Outcome {
        let Some(own) = &self.own else { return Ok(()) };
        let mut process = own.process.lock().await;
        if let Some(running) = process.as_mut()
            && running.try_wait()?.is_none()
        {
            return Ok(());
        }
        let mut child = Command::new(&own.binary)
            .arg("server")
            .arg("--data-dir")
            .arg(own.data_dir.path())
            .args(["--set", &format!("listeners.tcp.1={}:{}", self.host, self.port)])
            .args(["--set", &format!("stream.listeners.tcp.1={}:{}", self.host, self.stream_port)])
            .args(["--set", &format!("stream.advertised_host={}", self.host)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        // Of this process alone: it may say so more than once, and must not speak for the next.
        let ready = Arc::new(Notify::new());
        keep_log(child.stdout.take(), &own.log, &ready);
        keep_log(child.stderr.take(), &own.log, &ready);
        let started = Instant::now();
        loop {
            if timeout(Duration::from_millis(20), ready.notified()).await.is_ok()
                || TcpStream::connect(self.address()).await.is_ok()
            {
                *process = Some(child);
                return Ok(());
            }
            if let Some(status) = child.try_wait()? {
                return Err(Failure::new(format!("node ended with {status}\n{}", self.tail())));
            }
            if started.elapsed() > READY {
                return Err(Failure::new(format!("node not ready in time\n{}", self.tail())));
            }
        }
    }

    /// SIGKILL: nothing is flushed that was not already on disk.
    pub async fn kill9(&self) -> Outcome {
        if let Some(mut child) = self.take_process().await {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM; the process must end by itself with exit code 0.
    pub async fn stop(&self) -> Outcome {
        let Some(mut child) = self.take_process().await else { return Ok(()) };
        let pid = child.id().ok_or_else(|| Failure::new("the node had ended before"))?;
        Command::new("kill").arg("-TERM").arg(pid.to_string()).status().await?;
        let status = timeout(STOP, child.wait()).await??;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("after SIGTERM the node ended with {status}")))
    }

    /// Runs a verb of the node's command-line tool, or of the one `INTEROP_CTL` names for an external broker.
    pub async fn ctl(&self, arguments: &[&str]) -> Outcome {
        let external = std::env::var("INTEROP_CTL").unwrap_or_default();
        let mut words = external.split_whitespace();
        let mut tool = match &self.own {
            Some(own) => {
                let mut tool = Command::new(&own.binary);
                tool.arg("ctl").arg("--data-dir").arg(own.data_dir.path());
                tool
            }
            None => {
                let skipped = "the command-line tool needs a node of our own, or INTEROP_CTL";
                let mut tool = Command::new(words.next().ok_or(Failure::Skipped(skipped))?);
                tool.args(words);
                tool
            }
        };
        let said = tool.arg("-q").args(arguments).output().await?;
        if said.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&said.stderr);
        Err(Failure::new(format!("{arguments:?}: {}: {text}", said.status)))
    }

    /// False when the node has ended without being told to.
    pub async fn running(&self) -> bool {
        let Some(own) = &self.own else { return true };
        match own.process.lock().await.as_mut() {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => false,
        }
    }

    /// The last lines the node printed.
    pub fn tail(&self) -> String {
        let Some(own) = &self.own else { return String::new() };
        let lines = own.log.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("  {line}\n")).collect()
    }

    async fn take_process(&self) -> Option<Child> {
        match &self.own {
            Some(own) => own.process.lock().await.take(),
            None => None,
        }
    }
}

fn keep_log(
    source: Option<impl AsyncRead + Unpin + Send + 'static>,
    log: &Arc<Log>,
    ready: &Arc<Notify>,
) {
    let Some(source) = source else { return };
    let (log, ready) = (Arc::clone(log), Arc::clone(ready));
    tokio::spawn(async move {
        let mut lines = BufReader::new(source).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // As a word of its own: a node that cannot start may say "already".
            if line.split(|c: char| !c.is_alphanumeric()).any(|word| word == "ready") {
                ready.notify_one();
            }
            let mut kept = log.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == LOG_LINES_KEPT {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    });
}

async fn free_port(ports: Range<u16>) -> Outcome<u16> {
    let offset = u16::try_from(std::process::id() % u32::from(ports.end - ports.start))?;
    for port in (ports.start + offset..ports.end).chain(ports) {
        if TcpListener::bind(("127.0.0.1", port)).await.is_ok() {
            return Ok(port);
        }
    }
    Err(Failure::new("no free port"))
}
