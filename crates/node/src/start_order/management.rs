//! The control socket of a node, from start to stop.

use super::components;
use super::seat::NodeSeat;
use crate::cli::ServerArgs;
use crate::config::{Config, Logging};
use crate::logging::Log;
use crate::otel::{self, Exporter};
use crate::resources::ResourceMonitor;
use anyhow::Context as _;
use auth::LoginThrottle;
use broker::Broker;
use ctl::environment;
use http::{Api, PeerAnswers};
use mgmt::{ControlSocket, ListenerInfo, Management, NodeInfo};
use net::Clock;
use session::ClientTotals;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// Time that requests may still take once the node stops.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The parts of a running node, besides the broker, that an operator may change.
pub(crate) struct RuntimeHandles<'s> {
    pub(crate) monitor: &'s Arc<ResourceMonitor>,
    pub(crate) log: Arc<Log>,
    pub(crate) tls: Vec<Arc<tls::Context>>,
    /// Told whether listeners are suspended.
    pub(crate) suspended: watch::Sender<bool>,
    pub(crate) client_totals: ClientTotals,
    pub(crate) throttle: Arc<LoginThrottle>,
    pub(crate) clock: Clock,
    pub(crate) seat: Arc<NodeSeat>,
}

/// Facts of a node that do not change while it runs.
pub(crate) struct NodeFacts<'s> {
    pub(crate) config: &'s Config,
    pub(crate) args: &'s ServerArgs,
    pub(crate) id: log::NodeId,
    pub(crate) listeners: &'s [ListenerInfo],
    pub(crate) started: Instant,
}

/// The control socket while it is served.
pub(crate) struct Control {
    management: Arc<Management>,
    api: Arc<Api>,
    /// Held as long as other nodes are answered.
    _peer_answers: Arc<PeerAnswers>,
    ending: Arc<Notify>,
    task: JoinHandle<std::io::Result<()>>,
    /// Sends figures and spans to a collector until told to end.
    exporter: Option<(Arc<Notify>, JoinHandle<()>)>,
}

impl Control {
    /// Serves the control socket; the node counts as starting until [`Control::started`].
    pub(crate) fn start(
        facts: NodeFacts<'_>,
        broker: &Arc<Broker>,
        handles: RuntimeHandles<'_>,
    ) -> anyhow::Result<Self> {
        let (config, args) = (facts.config, facts.args);
        let socket = ControlSocket::bind(&args.data_dir)
            .with_context(|| format!("cannot make a socket in {}", args.data_dir.display()))?;
        let mut settings = config.http.settings.clone();
        if !facts.listeners.iter().any(|listener| listener.protocol == "http") {
            settings.expect_tls();
        }
        let management = Arc::new(Management {
            broker: Arc::clone(broker),
            authenticator: components::authenticator(config),
            client_totals: handles.client_totals,
            password_rule: components::password_rule(config)?,
            hashing: config.access.hashing,
            node_info: node_info(facts),
            resources: Arc::clone(handles.monitor) as Arc<dyn mgmt::Resources>,
            log: handles.log,
            tls: handles.tls,
            suspended: handles.suspended,
            running: AtomicBool::new(false),
            control: Arc::clone(&handles.seat) as Arc<dyn mgmt::NodeControl>,
        });
        let connections_max = config.connection.max_connections;
        let (throttle, clock) = (handles.throttle, handles.clock);
        let clock = Box::new(move || clock.now());
        let api = Api::new(Arc::clone(&management), throttle, settings, connections_max, clock);
        let peer_answers = PeerAnswers::new(Arc::clone(&api));
        handles.seat.answer_by(&peer_answers);
        let ending = Arc::new(Notify::new());
        let until = Arc::clone(&ending);
        let until = async move { until.notified().await };
        let task = tokio::spawn(http::serve_local(socket, Arc::clone(&api), until));
        let exporter = export(config, &management, &api)?;
        Ok(Self { management, api, _peer_answers: peer_answers, ending, task, exporter })
    }

    /// The API that it serves.
    pub(crate) fn api(&self) -> Arc<Api> {
        Arc::clone(&self.api)
    }

    /// Clients can connect from now on.
    pub(crate) fn started(&self) {
        self.management.running.store(true, Ordering::Relaxed);
    }

    /// Answers what was asked, and nothing more.
    pub(crate) async fn end(self) {
        self.management.running.store(false, Ordering::Relaxed);
        self.api.end();
        self.ending.notify_one();
        if let Some((ending, task)) = self.exporter {
            ending.notify_one();
            let _late = tokio::time::timeout(ANSWER_TIMEOUT, task).await;
        }
        match tokio::time::timeout(ANSWER_TIMEOUT, self.task).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!("the control socket failed: {error}"),
            Ok(Err(error)) => tracing::warn!("the control socket's task failed: {error}"),
            Err(_) => tracing::warn!("a request on the control socket was not answered"),
        }
    }
}

/// Begins to send figures and spans, if there is a collector.
fn export(
    config: &Config,
    management: &Management,
    api: &Arc<Api>,
) -> anyhow::Result<Option<(Arc<Notify>, JoinHandle<()>)>> {
    let Some(endpoint) = &config.messages.otel.endpoint else { return Ok(None) };
    let spans = management.broker.firehose().start_spans(Box::new(otel::now_ns));
    let exporter = Exporter::new(endpoint, management.node_info.name.clone(), spans)?;
    let ending = Arc::new(Notify::new());
    let every_s = config.messages.otel.interval_s;
    let running = exporter.run(Arc::clone(api), every_s, Arc::clone(&ending));
    Ok(Some((ending, tokio::spawn(running))))
}

fn node_info(facts: NodeFacts<'_>) -> NodeInfo {
    let NodeFacts { config, args, id, listeners, started } = facts;
    let data_dir = args.data_dir.canonicalize().unwrap_or_else(|_| args.data_dir.clone());
    let Logging { file, console, journald, syslog, .. } = &config.logging;
    let log_file = file.as_ref().map(|(path, _)| data_dir.join(path));
    // COMPAT: places that are no files have names all the same.
    let others = [
        console.as_ref().map(|_| "<stderr>"),
        journald.as_ref().map(|_| "<journald>"),
        syslog.as_ref().map(|_| "<syslog>"),
    ];
    NodeInfo {
        name: environment::node_name(&environment::of_process),
        // COMPAT: the words before it.
        cluster_id: format!("rabbitmq-cluster-id-{id}"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rabbitmq_version: stdx::RABBITMQ_VERSION.to_owned(),
        trace_dir: data_dir.join(&config.http.trace_dir),
        data_dir,
        config_files: args.config.clone(),
        log_files: log_file
            .into_iter()
            .chain(others.into_iter().flatten().map(PathBuf::from))
            .collect(),
        listeners: listeners.to_vec(),
        settings: config.settings.clone(),
        permits: config.limits.permits.clone(),
        started,
    }
}
