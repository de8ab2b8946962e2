//! A node from start to stop. The order of start: configuration, data directory, log, sockets; each
//! step fails with one line that says what to do something about, before anything is written.

mod cluster;
mod components;
mod formation;
mod http;
mod joining;
mod listeners;
mod management;
mod means;
mod peer_host;
mod peers;
mod questions;
mod remote_sessions;
mod seat;
mod tunnel;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use admission::{Admission, Descriptors};
use anyhow::Context as _;
use broker::{Broker, FILE_KINDS};
use ctl::environment;
use log::DataDir;
use mgmt::{ListenerInfo, NodeEnd, Resources as _};
use net::peer::PeerService;
use net::{Clock, Listener, Server, ServerSettings, Timers};
use segments::{RealDisk, ReservedDisk};
use session::ClientTotals;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::cli::ServerArgs;
use crate::config::{self, Config, ConfigError};
use crate::definitions;
use crate::descriptors;
use crate::logging::{self, Log};
use crate::notify::Notify;
use crate::resources::ResourceMonitor;
use crate::signals::{self, StopSignals};
use crate::welcome;
use cluster::ClusterRun;
use formation::{Formation, Formed, FormingSeat};
use listeners::ClientListeners;
use management::{Control, NodeFacts, RuntimeHandles};
use means::PeerMeans;
use seat::NodeSeat;

/// Interval at which memory and disk are looked at: until then publishers may use as much as comes in.
const RESOURCE_TICK: Duration = Duration::from_millis(100);
/// Resource ticks for each tick of the broker, which comes every second.
const TICK_EVERY: u32 = 10;
/// Time that clients have to take the close of a stopping node.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which the files of certificates are looked at.
const CERTIFICATES_TICK: Duration = Duration::from_secs(5);
/// Time that tasks have to end once the node stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a node until it is told to stop, and again from its data directory when it is told to start again.
///
/// # Errors
/// Why the node could not start, or had to stop. Its alternate display is one line.
pub(crate) fn run(args: &ServerArgs, started: Instant) -> anyhow::Result<()> {
    let (config, warnings) = config::load(args.sources())?;
    let mut storage = open_data_dir(&args.data_dir)?;
    let log = logging::start(&config.logging, &args.data_dir).map_err(|(path, error)| {
        anyhow::Error::new(error).context(format!("cannot open the log {}", path.display()))
    })?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    meta::Pattern::tell_when_out_of_steps(|pattern| {
        tracing::warn!(
            "pattern '{pattern}' exceeds the step limit for a name, so it does not match"
        );
    });
    let (log, mut started) = (Arc::new(log), started);
    loop {
        let ended = run_once(&config, args, &storage, started, &log);
        // Another process may take the data directory now: this node writes nothing more to it.
        drop(storage);
        if ended? == NodeEnd::Stop {
            return Ok(());
        }
        started = Instant::now();
        storage = open_data_dir(&args.data_dir)?;
    }
}

/// Runs a node until it is told to stop or to start again, with threads of its own.
fn run_once(
    config: &Config,
    args: &ServerArgs,
    storage: &OpenDirectory,
    started: Instant,
    log: &Arc<Log>,
) -> anyhow::Result<NodeEnd> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let ended = runtime.block_on(serve(config, args, storage, started, Arc::clone(log)));
    runtime.shutdown_timeout(STOP_TIMEOUT);
    log.flush();
    ended
}

/// Whether the error lies in how the program was called.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(ConfigError::is_usage)
}

/// The certificates, keys and other files, and addresses, with which a node of this configuration would not
/// start, and warnings of others. Nothing is made.
pub(crate) fn wrong_files(config: &Config, data_dir: &Path) -> (Vec<anyhow::Error>, Vec<String>) {
    let listeners = &config.listeners;
    let has_tls = !listeners.ssl.is_empty() || !listeners.stream_ssl.is_empty();
    let shared = &listeners.tls.shared;
    let shares = has_tls || shared.has_identity() || http::shares_certificates(config);
    let of_tls = shares.then_some(shared).into_iter().chain(http::own_tls(config));
    let of_tls = of_tls.chain(&listeners.distribution.tls);
    let (mut wrong, mut warnings) = (Vec::<anyhow::Error>::new(), Vec::new());
    for options in of_tls {
        warnings.extend(options.unknown());
        match tls::Context::new(options.clone()) {
            Ok(context) => {
                warnings.extend(context.current().warnings.iter().map(ToString::to_string));
            }
            Err(tls::Errors(errors)) => wrong.extend(errors.into_iter().map(Into::into)),
        }
    }
    wrong.extend(http::wrong_addresses(config));
    wrong.extend(peers::address(&listeners.distribution).err());
    wrong.extend(logging::check(&config.logging, data_dir));
    let imported = config.definitions.imported.as_ref();
    wrong.extend(imported.and_then(|it| definitions::check(it, config.access.hashing).err()));
    (wrong, warnings)
}

/// The node's data directory, taken for this process until the value is dropped.
struct OpenDirectory {
    data_dir: DataDir,
    disk: ReservedDisk,
}

/// Makes the directory if need be and takes it.
fn open_data_dir(path: &Path) -> anyhow::Result<OpenDirectory> {
    let disk = RealDisk::new(path)
        .with_context(|| format!("cannot make the data directory {}", path.display()))?;
    let disk = ReservedDisk::new(Arc::new(disk), FILE_KINDS);
    Ok(OpenDirectory { data_dir: DataDir::open(Arc::new(disk.clone()))?, disk })
}

/// The sockets of a node, before anybody is accepted.
struct Sockets {
    listeners: Vec<Listener>,
    http: http::Listeners,
    peer_port: Option<peers::DistributionPort>,
    /// The certificates of all of them.
    tls: Vec<Arc<tls::Context>>,
}

impl Sockets {
    fn bind(config: &Config, args: &ServerArgs, totals: &ClientTotals) -> anyhow::Result<Self> {
        let (listeners, tls) = listeners::listen(config, totals)?;
        let http = http::Listeners::bind(config, tls.as_ref())?;
        let peer_port = peers::listen(config, &args.data_dir)?;
        let of_peers = peer_port.as_ref().and_then(|port| port.secrets.tls.clone());
        let tls = tls.into_iter().chain(http.own_tls.clone()).chain(of_peers).collect();
        Ok(Self { listeners, http, peer_port, tls })
    }
}

async fn serve(
    config: &Config,
    args: &ServerArgs,
    OpenDirectory { data_dir, disk }: &OpenDirectory,
    started: Instant,
    log: Arc<Log>,
) -> anyhow::Result<NodeEnd> {
    let mut stop_signals = StopSignals::handle()?;
    let (manager, client_totals) = (Arc::new(Notify::from_environment()), ClientTotals::default());
    signals::handle_others(Arc::clone(&log), Arc::clone(&manager))?;
    let descriptors = Arc::new(Descriptors::new(descriptors::raise_limit()));
    let Sockets { listeners, http, peer_port, tls } = Sockets::bind(config, args, &client_totals)?;
    let (failed, mut failures) = mpsc::unbounded_channel();
    let monitor =
        Arc::new(ResourceMonitor::new(&config.resources, disk.clone(), Arc::clone(&descriptors)));
    let underway = joining::resume(data_dir.disk().as_ref())?;
    let forming =
        formation::begin(data_dir.disk().as_ref(), &config.listeners.distribution.discovery)?;
    let (broker, node) = components::open_broker(config, data_dir, disk, &monitor, failed)?;
    monitor.watch_disk(&broker);
    let clock = components::clock();
    let timers = Timers::start().context("cannot start threads")?;
    let suspended = watch::Sender::new(false);
    let server = server(config, &broker, Admission::new(descriptors), clock, timers.clone());
    let means = PeerMeans::of(config, args, data_dir.disk(), &timers);
    let seated = (&underway, forming.map(FormingSeat::new));
    let cluster = peer_port.map(|port| peer_host::start(port, seated, &broker, &server, &means));
    let (cluster, peers) = cluster.transpose()?.unzip();
    let seat = Arc::new(NodeSeat::new(&broker, means, cluster));
    let handles = RuntimeHandles {
        monitor: &monitor,
        log: Arc::clone(&log),
        tls: tls.clone(),
        suspended: suspended.clone(),
        client_totals,
        throttle: server.throttle(),
        clock,
        seat: Arc::clone(&seat),
    };
    tokio::spawn(watch_certificates(tls, timers.clone()));
    let infos = listener_infos(&listeners, &http);
    let facts = NodeFacts { config, args, id: node, listeners: &infos, started };
    let control = Control::start(facts, &broker, handles)?;
    let _registration = register(&args.data_dir, infos.first().map(|info| info.address));
    tokio::spawn(keep_time(Arc::clone(&broker), clock, timers, monitor, Arc::clone(&manager)));
    let mut http = Some(http);
    let mut http_ending = serve_http(seat.waits(), &mut http, &control, &server);
    let listeners = ClientListeners::new(listeners, seat.waits());
    let mut ended = tokio::select! {
        defined = Box::pin(define(&seat, &broker, config)) => defined?.map(|end| (end, None)),
        ended = wait_for_end(&mut stop_signals, &seat, &mut failures) => Some(ended),
    };
    let (mut log_exchange, mut _pid_file) = (None, None);
    if ended.is_none() {
        components::tell_events(config, &broker).await?;
        log_exchange = components::publish_log(config, &log, &broker).await?;
        let listeners = listeners.open()?;
        let first = broker.is_new().then_some(config);
        seat.started();
        control.started();
        http_ending = http_ending.or_else(|| serve_http(true, &mut http, &control, &server));
        let ready = announce(&infos, &args.data_dir, started, first);
        accept(&server, listeners, &suspended);
        manager.ready(&ready);
        _pid_file = PidFile::write();
        ended = Some(wait_for_end(&mut stop_signals, &seat, &mut failures).await);
    }
    let (end, failure) = ended.unwrap_or((NodeEnd::Stop, None));
    tracing::info!("stopping");
    (end == NodeEnd::Stop).then(|| manager.stopping());
    http_ending.iter().for_each(|ending| ending.notify_waiters());
    stop_serving(control, &server, peers).await;
    log.end_exchange(log_exchange);
    disk.end_waiting();
    stop_broker(&broker, failure).map(|()| end)
}

fn stop_broker(broker: &Broker, failure: Option<String>) -> anyhow::Result<()> {
    if let Some(failure) = failure {
        anyhow::bail!("the log has failed: {failure}");
    }
    broker.stop().context("cannot stop in good order")?;
    tracing::info!("stopped");
    Ok(())
}

/// Waits until the node is to stop or to start again, or its log has failed; returns why it has.
async fn wait_for_end(
    stop_signals: &mut StopSignals,
    seat: &NodeSeat,
    failures: &mut mpsc::UnboundedReceiver<String>,
) -> (NodeEnd, Option<String>) {
    tokio::select! {
        signal = stop_signals.received() => {
            tracing::info!("{signal} received - shutting down");
            (NodeEnd::Stop, None)
        }
        end = seat.end_wanted() => (end, None),
        failure = failures.recv() => (NodeEnd::Stop, failure),
    }
}

/// Ends the control socket, the connections of clients, then those with other nodes.
async fn stop_serving(control: Control, server: &Server, peers: Option<PeerService>) {
    control.end().await;
    server.stop(GOODBYE_TIMEOUT).await;
    if let Some(peers) = peers {
        peers.stop().await;
    }
}

/// Begins to accept clients. The control socket has reported the node as started before they can connect.
fn accept(server: &Arc<Server>, listeners: Vec<Listener>, suspended: &watch::Sender<bool>) {
    for listener in listeners {
        tokio::spawn(Arc::clone(server).accept(listener, suspended.subscribe()));
    }
}

/// Makes the definitions that the configuration asks for; a member of a cluster waits for those that there
/// are, and a node that forms one becomes a member. Returns the end of the run if the node starts again.
async fn define(
    seat: &NodeSeat,
    broker: &Broker,
    config: &Config,
) -> anyhow::Result<Option<NodeEnd>> {
    let cluster = seat.cluster();
    if let Some(cluster) = cluster.filter(|cluster| cluster.is_member()) {
        cluster.ready().await;
        return cluster.discard().await.map(|()| None);
    }
    if let Some(forming) = cluster.and_then(ClusterRun::forming)
        && Formation::run(forming, seat.moved()).await? == Formed::Added
    {
        return Ok(Some(NodeEnd::Restart));
    }
    match &config.definitions.imported {
        Some(source) => definitions::load(broker, source, config.access.hashing).await?,
        None => components::create_defaults(broker, config).await?,
    }
    components::name_cluster(broker, config).await?;
    if let Some(cluster) = cluster {
        cluster.formed().await?;
    }
    Ok(None)
}

/// Registers the node's control socket for tools. If that fails, tools need `--data-dir`.
fn register(data_dir: &Path, address: Option<SocketAddr>) -> Option<ctl::Registration> {
    let node = ctl::RunningNode {
        name: environment::node_name(&environment::of_process),
        data_dir: data_dir.canonicalize().ok()?,
        pid: std::process::id(),
        address: address.map(|address| address.to_string()).unwrap_or_default(),
    };
    ctl::register(&node)
        .inspect_err(|error| tracing::info!("tools need --data-dir to find this node: {error}"))
        .ok()
}

/// The file that names the node's process while the node can be used; removed when dropped.
struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file that `RABBITMQ_PID_FILE` names, if it is set.
    fn write() -> Option<Self> {
        let path = PathBuf::from(environment::of_process("RABBITMQ_PID_FILE")?);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        match written.and_then(|()| std::fs::write(&path, format!("{}\n", std::process::id()))) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                tracing::warn!("cannot write the process id to {}: {error}", path.display());
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The file may be gone already.
        drop(std::fs::remove_file(&self.0));
    }
}

/// The listeners as listings show them.
fn listener_infos(listeners: &[Listener], http: &http::Listeners) -> Vec<ListenerInfo> {
    let of_clients = listeners.iter().map(|listener| ListenerInfo {
        protocol: listener.service.listener_name(),
        purpose: listener.service.purpose(),
        address: listener.address,
    });
    of_clients.chain(http.infos()).collect()
}

/// Tells the broker the time and looks at memory and disk, over and over.
async fn keep_time(
    broker: Arc<Broker>,
    clock: Clock,
    timers: Timers,
    monitor: Arc<ResourceMonitor>,
    manager: Arc<Notify>,
) {
    let mut ticks = timers.interval(RESOURCE_TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in (0..TICK_EVERY).cycle() {
        ticks.tick().await;
        monitor.look(&broker);
        if number == 0 {
            broker.tick(clock.now());
            // A thread that serves clients runs, and the broker's locks are not stuck.
            manager.alive();
        }
    }
}

/// Reads certificates again when their files have changed.
async fn watch_certificates(tls: Vec<Arc<tls::Context>>, timers: Timers) {
    let mut ticks = timers.interval(CERTIFICATES_TICK);
    while !tls.is_empty() {
        ticks.tick().await;
        let tls = tls.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let outdated = tls.iter().filter(|tls| tls.is_outdated());
            // Errors are in the log already, once for each change of the files.
            outdated.filter(|tls| mgmt::reload_certificates(tls).is_ok()).count()
        });
        let _has_changed = looked.await.is_ok();
    }
}

/// Serves clients, as soon as it is given listeners.
fn server(
    config: &Config,
    broker: &Arc<Broker>,
    admission: Arc<Admission>,
    clock: Clock,
    timers: Timers,
) -> Arc<Server> {
    let settings = ServerSettings {
        nodelay: config.listeners.nodelay,
        keepalive: config.listeners.keepalive,
        proxy_protocol: config.listeners.proxy_protocol,
        tls_handshake_timeout_ms: config.listeners.tls_handshake_timeout_ms,
        cert_login: config.access.cert_login,
        send_buffer_bytes: config.listeners.buffers.send,
        receive_buffer_bytes: config.listeners.buffers.receive,
        max_connections: config.connection.max_connections,
        admission,
    };
    let auth = components::authenticator(config);
    let server = Server::new(Arc::clone(broker), auth, settings, clock, timers);
    if config.access.track_auth_attempt_source {
        server.throttle().track_sources();
    }
    server
}

fn tls_context(options: &tls::Options) -> anyhow::Result<Arc<tls::Context>> {
    options.unknown().iter().for_each(|what| tracing::warn!("{what}"));
    let context = tls::Context::new(options.clone())?;
    context.current().warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(Arc::new(context))
}

/// Serves HTTP if it is time, once. Requests to a node that has to wait for others are told so; to one that
/// need not, they wait the moment until it has started.
fn serve_http(
    is_time: bool,
    http: &mut Option<http::Listeners>,
    control: &Control,
    server: &Arc<Server>,
) -> Option<Arc<tokio::sync::Notify>> {
    let http = http.take_if(|_| is_time)?;
    Some(http.start(control.api(), server))
}

/// Tells that the node is ready, and at the first start how to connect; returns the line. It is printed at
/// the first start of the process.
fn announce(
    listeners: &[ListenerInfo],
    data_dir: &Path,
    started: Instant,
    first: Option<&Config>,
) -> String {
    static IS_PRINTED: AtomicBool = AtomicBool::new(false);
    let ui = listeners.iter().find(|info| ["http", "https"].contains(&info.protocol));
    let addresses: Vec<String> = listeners.iter().map(|info| info.address.to_string()).collect();
    let addresses = if addresses.is_empty() { "no port".to_owned() } else { addresses.join(", ") };
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let line = format!(
        "leveret {} ready on {addresses}, data in {}, {} ms",
        env!("CARGO_PKG_VERSION"),
        data_dir.display(),
        started.elapsed().as_millis(),
    );
    tracing::info!(target: logging::NOT_TO_CONSOLE, "{line}");
    if IS_PRINTED.swap(true, Ordering::Relaxed) {
        return line;
    }
    let address = listeners.iter().find(|info| info.protocol == "amqp").map(|info| info.address);
    let how =
        first.map(|config| welcome::lines(config, address, ui, &data_dir)).unwrap_or_default();
    // A single write: the reader of the first line may close the pipe then.
    let text = format!("{line}\n{how}");
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        tracing::warn!("cannot write to stdout: {error}");
    }
    line
}
