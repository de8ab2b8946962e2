//! A run from the first connection to the last line.

pub(crate) mod meter;
mod monitor;
mod progress;
mod reconnect;
mod stop_reason;

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use anyhow::Context as _;

use crate::clock;
use crate::config::{Config, Format};
use crate::connection::Phase;
use crate::message::Random;
use crate::process;
use crate::report::{Printer, Shown, Summary};
use crate::setup::{self, Part, Recipe, parts};
use crate::shared::{Broken, News, Shared};
use crate::topology::{self, Routes};
use crate::verify::{Guarantee, Ledger, Verdict};
use crate::worker::Worker;
use client::Client;
use monitor::Run;
use reconnect::Reconnector;

/// Files that are open besides those of connections and threads.
const FILES_BESIDES: usize = 32;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Good,
    /// The run did not come to its end, or verification found something.
    Bad,
    /// Connections were lost, and the broker is still gone.
    Unreachable,
}

/// Does the run.
///
/// # Errors
/// `Unreachable` without a broker, otherwise whatever kept the run from beginning.
pub(crate) fn run(config: &Config) -> anyhow::Result<End> {
    let id = config.run.id.clone().unwrap_or_else(generated_id);
    let uri = config.brokers.first().context("no broker")?;
    let n_connections = config.publishing.n_connections + config.consuming.n_connections;
    // A thread has one to wait with and one to be woken by.
    let n_files = n_connections + 2 * config.run.n_threads + FILES_BESIDES;
    process::allow_files(u64::try_from(n_files)?)?;
    let mut client = setup::dial_configuration(config, &id)?;
    let seed = clock::now() ^ u64::from(std::process::id()) << 40;
    let mut routes = Routes::new(config, &mut Random(seed));
    topology::declare(&mut client, &config.topology, &mut routes)?;
    let broker_pid = config
        .run
        .broker_pid
        .or_else(|| client.is_local().then(|| process::listening_on(uri.port)).flatten());
    let recipe = Recipe::new(config, &routes, &id, seed)?;
    let in_millis = config.message.use_millis;
    let printer =
        Printer { id: id.clone(), format: config.run.format, shown: shown(config), in_millis };
    announce(&printer, config, &client, broker_pid)?;
    let (summary, is_complete) = load(&recipe, &mut client, &printer, broker_pid)?;
    client.close();
    say(&printer.summary(&summary))?;
    if !is_complete {
        crate::complain(&summary.reason);
    }
    Ok(end(config, &id, &summary, is_complete))
}

fn end(config: &Config, id: &str, summary: &Summary, is_complete: bool) -> End {
    let is_good = summary.verdict.as_ref().is_none_or(Verdict::is_good);
    let is_down = summary.n_connections_lost > summary.n_connections_recovered;
    // Who publishes again until everything is confirmed needs no broker after that.
    let owes = !config.publishing.resend || summary.n_unconfirmed() > 0;
    if !is_complete || !is_good {
        End::Bad
    } else if is_down && owes && !setup::is_anybody_there(config, id) {
        crate::complain("connections were lost, and the broker cannot be reached");
        End::Unreachable
    } else {
        End::Good
    }
}

/// Says what begins.
fn announce(
    printer: &Printer,
    config: &Config,
    client: &Client,
    broker_pid: Option<u32>,
) -> anyhow::Result<()> {
    if printer.format == Format::Json {
        let [product, version] = ["product", "version"].map(|name| client.server_text(name));
        return say(&printer.start_json(&product, &version, broker_pid).to_string());
    }
    let Config { publishing, consuming, .. } = config;
    for (kind, n, n_channels) in [
        ("consumer", consuming.n_connections, consuming.n_channels),
        ("producer", publishing.n_connections, publishing.n_channels),
    ] {
        for at in 0..n {
            say(&printer.announcement(kind, at, n_channels))?;
        }
    }
    Ok(())
}

fn shown(config: &Config) -> Shown {
    let consumes = config.consuming.n_connections > 0;
    let confirms =
        config.publishing.n_connections > 0 && config.publishing.confirm_window.is_some();
    Shown {
        publishes: config.publishing.n_connections > 0,
        consumes,
        confirms,
        consumer_latency: consumes,
        confirm_latency: confirms,
        resends: config.publishing.n_connections > 0 && config.publishing.resend,
        returns: config.publishing.n_connections > 0 && config.publishing.mandatory,
    }
}

/// PerfTest's form: the time of day.
pub(crate) fn generated_id() -> String {
    let ms = clock::wall_ms();
    let (s, ms) = (ms / 1000, ms % 1000);
    format!("test-{:02}{:02}{:02}-{ms:03}", s / 3600 % 24, s / 60 % 60, s % 60)
}

pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// Starts the threads, follows the run, and waits for the threads to end. Gives back whether it
/// came to its end.
fn load(
    recipe: &Recipe<'_>,
    client: &mut Client,
    printer: &Printer,
    broker_pid: Option<u32>,
) -> anyhow::Result<(Summary, bool)> {
    let config = recipe.config;
    let parts = parts(config);
    let n_publishers = config.publishing.n_publishers();
    let guarantee = if config.publishing.resend { Guarantee::AtLeastOnce } else { Guarantee::Once };
    let ledger = || Ledger::new(n_publishers, recipe.routes.queues.len(), guarantee);
    let ledger = config.run.verify.then(ledger);
    let shared = Arc::new(Shared::new(parts.len(), ledger, config)?);
    let (tell, news) = channel();
    let (break_, broken) = channel();
    std::thread::scope(|scope| {
        let reconnect = config.run.recovery_ns.map(|_| break_);
        for (number, parts) in parts.iter().enumerate() {
            let (shared, tell, reconnect) = (Arc::clone(&shared), tell.clone(), reconnect.clone());
            scope.spawn(move || work(number, recipe, parts, Links { shared, tell, reconnect }));
        }
        drop(reconnect);
        if let Some(interval_ns) = config.run.recovery_ns {
            let (parts, shared, news) = (parts.as_slice(), &*shared, tell.clone());
            let random = Random(clock::now());
            let reconnect = Reconnector { recipe, parts, shared, news, interval_ns, random };
            scope.spawn(move || reconnect.run(&broken));
        }
        drop(tell);
        let mut run = Run::new(recipe, &shared, printer, news, parts.len());
        let summary = run.monitor(client, broker_pid);
        shared.enter(Phase::Stop);
        summary
    })
}

/// A thread's links to the other threads.
struct Links {
    shared: Arc<Shared>,
    tell: Sender<News>,
    reconnect: Option<Sender<Broken>>,
}

/// The life of a thread.
fn work(number: usize, recipe: &Recipe<'_>, parts: &[Part], links: Links) {
    let Links { shared, tell, reconnect } = links;
    let failed = tell.clone();
    let connect = |&part: &Part| {
        let connection = recipe.connect(part)?;
        // That nobody listens any more shows later.
        drop(tell.send(News::Connected));
        Ok(connection)
    };
    let connections: anyhow::Result<Vec<_>> = parts.iter().map(connect).collect();
    let worker = connections.and_then(|all| Worker::new(number, shared, tell, reconnect, all));
    match worker {
        Ok(worker) => worker.run(),
        // Nobody listens any more when the run has failed elsewhere.
        Err(error) => drop(failed.send(News::Failed(error))),
    }
}
