//! A run from the first connection to the last line.

mod meter;
mod monitor;
mod progress;
mod reconnect;
mod stop_reason;

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;

use crate::clock;
use crate::config::{self, Config, Format};
use crate::connection::Phase;
use crate::message::Random;
use crate::process;
use crate::report::{Printer, Shown, Summary};
use crate::setup::{self, Recipe, parts};
use crate::shared::{Broken, News, Shared};
use crate::topology::{self, Routes};
use crate::verify::{Guarantee, Ledger, Verdict};
use crate::worker::{Driven, Worker};
use client::Client;
use monitor::Queues;
pub(crate) use monitor::Run;
use reconnect::Reconnector;
pub(crate) use stop_reason::Limits;

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
    allow_files(config.publishing.n_connections + config.consuming.n_connections, &config.run)?;
    let mut client = setup::dial_configuration(config, &id)?;
    let seed = clock::now() ^ u64::from(std::process::id()) << 40;
    let mut routes = Routes::new(config, &mut Random(seed));
    topology::declare(&mut client, &config.topology, &mut routes)?;
    let broker_pid = broker_pid(&config.run, client.is_local(), uri.port);
    let recipe = Recipe::new(config, &routes, &id, seed)?;
    let in_millis = config.message.use_millis;
    let printer =
        Printer { id: id.clone(), format: config.run.format, shown: shown(config), in_millis };
    announce(&printer, config, &client, broker_pid)?;
    let (summary, is_complete) = load(&recipe, &mut client, &printer, broker_pid)?;
    client.close();
    conclude(&printer, &summary, is_complete)?;
    Ok(end(config, &id, &summary, is_complete))
}

/// Lets this process open as many files as a run needs.
///
/// # Errors
/// The system allows fewer.
pub(crate) fn allow_files(n_connections: usize, run: &config::Run) -> anyhow::Result<()> {
    // A thread has one to wait with and one to be woken by.
    process::allow_files(u64::try_from(n_connections + 2 * run.n_threads + FILES_BESIDES)?)
}

/// The process whose CPU time is the broker's: that of the options, or who listens on this machine.
pub(crate) fn broker_pid(run: &config::Run, is_local: bool, port: u16) -> Option<u32> {
    run.broker_pid.or_else(|| is_local.then(|| process::listening_on(port)).flatten())
}

/// Prints the end of a run.
pub(crate) fn conclude(
    printer: &Printer,
    summary: &Summary,
    is_complete: bool,
) -> anyhow::Result<()> {
    say(&printer.summary(summary))?;
    if !is_complete {
        crate::complain(&summary.reason);
    }
    Ok(())
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
        returns: config.publishing.n_connections > 0 && config.publishing.mandatory
            || confirms && config.links.targets.is_some(),
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
    let Config { publishing, run, .. } = recipe.config;
    let parts = parts(recipe.config);
    let guarantee = if publishing.resend { Guarantee::AtLeastOnce } else { Guarantee::Once };
    let n_queues = recipe.routes.queues.len();
    let mut shared = Shared::new(parts.len(), run)?;
    shared.ledger = run.verify.then(|| Ledger::new(publishing.n_publishers(), n_queues, guarantee));
    shared.owes_unconfirmed = run.verify && publishing.confirm_window.is_none();
    shared.confirm_timeout_ns = publishing.confirm_timeout_ns;
    let shared = Arc::new(shared);
    let reconnect = |interval_ns, broken: &Receiver<Broken>, news| {
        let (parts, shared) = (parts.as_slice(), &*shared);
        let random = Random(clock::now());
        Reconnector { recipe, parts, shared, news, interval_ns, random }.run(broken);
    };
    let recovery = run.recovery_ns.map(|interval_ns| {
        move |broken: Receiver<Broken>, news| reconnect(interval_ns, &broken, news)
    });
    drive(
        &parts,
        &shared,
        |part| recipe.connect(part),
        recovery,
        |news| {
            let run = Run::new(run, recipe.config.limits(), &shared, printer, news);
            run.with_queues(Queues { recipe, client }).monitor(broker_pid)
        },
    )
}

/// Starts a thread for each list of parts, which connects and drives them, and one that makes lost
/// connections again, if anything does; ends them when the monitor is done.
pub(crate) fn drive<P: Copy + Sync, C: Driven>(
    parts: &[Vec<P>],
    shared: &Arc<Shared>,
    connect: impl Fn(P) -> anyhow::Result<C> + Sync,
    recovery: Option<impl FnOnce(Receiver<Broken>, Sender<News>) + Send>,
    monitor: impl FnOnce(Receiver<News>) -> anyhow::Result<(Summary, bool)>,
) -> anyhow::Result<(Summary, bool)> {
    let (tell, news) = channel();
    let (break_, broken) = channel();
    std::thread::scope(|scope| {
        let reconnect = recovery.is_some().then_some(break_);
        for (number, parts) in parts.iter().enumerate() {
            let (shared, tell, reconnect) = (Arc::clone(shared), tell.clone(), reconnect.clone());
            let connect = &connect;
            scope.spawn(move || {
                let connect = |part: &P| {
                    let connection = connect(*part)?;
                    // That nobody listens any more shows later.
                    drop(tell.send(News::Connected));
                    Ok(connection)
                };
                let connections: anyhow::Result<Vec<C>> = parts.iter().map(connect).collect();
                let new = |all| Worker::new(number, shared, tell.clone(), reconnect, all);
                match connections.and_then(new) {
                    Ok(worker) => worker.run(),
                    // Nobody listens any more when the run has failed elsewhere.
                    Err(error) => drop(tell.send(News::Failed(error))),
                }
            });
        }
        drop(reconnect);
        if let Some(recovery) = recovery {
            let tell = tell.clone();
            scope.spawn(move || recovery(broken, tell));
        }
        drop(tell);
        let summary = monitor(news);
        shared.enter(Phase::Stop);
        summary
    })
}
