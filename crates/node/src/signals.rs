//! The process's signals. Knows signals; never how a node stops.

use crate::logging::Log;
use crate::notify::Notify;
use anyhow::Context as _;
use mgmt::Log as _;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop a node.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Handles SIGTERM and SIGINT from now on.
    pub(crate) fn handle() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: listen_for(SignalKind::terminate(), "SIGTERM")?,
            interrupt: listen_for(SignalKind::interrupt(), "SIGINT")?,
        })
    }

    /// The name of the signal that stops the node, once it has come.
    pub(crate) async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Has SIGHUP open the log file again from now on, which `manager` is told, and SIGUSR1 and SIGUSR2 do
/// nothing: the system would end the process otherwise.
pub(crate) fn handle_others(log: Arc<Log>, manager: Arc<Notify>) -> anyhow::Result<()> {
    // A signal that was handled once stays handled, whether or not anybody waits for it.
    drop(listen_for(SignalKind::user_defined1(), "SIGUSR1")?);
    drop(listen_for(SignalKind::user_defined2(), "SIGUSR2")?);
    let mut hangups = listen_for(SignalKind::hangup(), "SIGHUP")?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            manager.reload(|| reload(&log));
        }
    });
    Ok(())
}

/// Opens again what an operator may have replaced: the log file. Certificates belong here too.
fn reload(log: &Log) {
    match log.reopen() {
        Ok(()) => tracing::info!("SIGHUP received: reopened the log file"),
        Err(error) => tracing::error!("SIGHUP received: cannot reopen the log file: {error}"),
    }
}

fn listen_for(kind: SignalKind, name: &str) -> anyhow::Result<Signal> {
    signal(kind).with_context(|| format!("cannot handle {name}"))
}
