//! A node from start to stop. The order of start: configuration, data directory, log, sockets; each
//! step fails with one line that says what to do something about, before anything is written.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use log::{DataDir, RealDisk};
use net::Listener;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ServerArgs;
use crate::config::{self, Config, ConfigError};
use crate::logging;

/// How long tasks may take to end once the node stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a node until it is told to stop.
///
/// # Errors
/// Why the node could not start, or had to stop. Its alternate display is one line.
pub(crate) fn run(args: &ServerArgs, started: Instant) -> anyhow::Result<()> {
    let (config, warnings) = config::load(&args.config, &args.set)?;
    let data_dir = open_data_dir(&args.data_dir)?;
    logging::start(&config.logging, &args.data_dir).map_err(|(path, error)| {
        anyhow::Error::new(error).context(format!("cannot open the log {}", path.display()))
    })?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let ended = runtime.block_on(serve(&config, args, started));
    runtime.shutdown_timeout(STOP_TIMEOUT);
    // Nothing of this node writes any more: another may have the directory.
    drop(data_dir);
    ended
}

/// Whether the error lies in how the program was called.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(ConfigError::is_usage)
}

/// Makes the directory if need be and takes it for this process until the value is dropped.
fn open_data_dir(path: &Path) -> anyhow::Result<DataDir> {
    let disk = RealDisk::new(path)
        .with_context(|| format!("cannot make the data directory {}", path.display()))?;
    // The error already names the place and ends with its cause.
    DataDir::open(Arc::new(disk)).map_err(|error| anyhow::Error::msg(error.to_string()))
}

async fn serve(config: &Config, args: &ServerArgs, started: Instant) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let listeners = listen(config)?;
    announce(&listeners, &args.data_dir, started)?;
    let reason = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    tracing::info!("stopping on {reason}");
    drop(listeners);
    tracing::info!("stopped");
    Ok(())
}

fn listen(config: &Config) -> anyhow::Result<Vec<Listener>> {
    let listeners = &config.listeners;
    let bind = |address| {
        Listener::bind(address, listeners.backlog)
            .with_context(|| format!("cannot listen on {address}"))
    };
    listeners.tcp.iter().copied().map(bind).collect()
}

/// The one line on standard output that says the node can be used.
fn announce(listeners: &[Listener], data_dir: &Path, started: Instant) -> anyhow::Result<()> {
    let addresses: Vec<String> =
        listeners.iter().map(|listener| listener.address().to_string()).collect();
    let addresses = if addresses.is_empty() { "no port".to_owned() } else { addresses.join(", ") };
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let line = format!(
        "leveret {} ready on {addresses}, data in {}, {} ms",
        env!("CARGO_PKG_VERSION"),
        data_dir.display(),
        started.elapsed().as_millis(),
    );
    tracing::info!("{line}");
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}
