//! A fresh node forms a cluster with the nodes that its configuration names, before it serves anybody.
//!
//! The node is fresh as long as the note of its promise is there and it is no member. The first of the
//! cluster is as a node alone until then, with the definitions of a first start; the others join it by the
//! steps of `joining`.

use super::components;
use super::joining::{Move, read_frame};
use super::means::{address_of, random, tunnel_hello};
use super::peers::DISTRIBUTION_PORT;
use crate::config::Discovery;
use anyhow::{Context as _, bail};
use forming::{
    Forming, FormingAnswer, FormingAsk, FormingSettings, FormingStep, MakerPromise, NAMES_MAX,
};
use log::{NodeIdentity, NodeNote};
use net::Timers;
use net::peer::PeerTransport;
use peer::{HANDSHAKE_MS, PeerAddress, PeerFrame};
use segments::Disk;
use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::MonotonicMs;
use tokio::io::AsyncWriteExt as _;
use tokio::net::lookup_host;
use tokio::sync::{mpsc, oneshot};

/// The time that an ask of a fresh node may take.
const ASK_TIMEOUT: Duration = Duration::from_millis(2 * HANDSHAKE_MS);

/// The way in which a fresh node has become one of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formed {
    /// The node is to be the first member.
    First,
    /// The node has been added, and is to start again.
    Added,
}

/// The promise of a node that forms a cluster; none if the node does not. A node whose data directory is
/// empty begins to, if its configuration names others.
pub(super) fn begin(
    disk: &dyn Disk,
    discovery: &Discovery,
) -> anyhow::Result<Option<Option<MakerPromise>>> {
    if !discovery.is_on() {
        NodeNote::Promise.remove(disk)?;
        return Ok(None);
    }
    if let Some(bytes) = NodeNote::Promise.read(disk)? {
        let promise = MakerPromise::decode(&bytes);
        return promise.map(Some).context("leveret-promise is damaged: empty the data directory");
    }
    let has_log = disk.list("").is_ok_and(|names| names.iter().any(|name| name == "wal"));
    if has_log || NodeIdentity::read(disk)?.is_some() {
        return Ok(None);
    }
    NodeNote::Promise.write(disk, &MakerPromise::encode(None))?;
    Ok(Some(None))
}

/// An event for a node that forms a cluster.
#[derive(Debug)]
enum FormingEvent {
    Asked(FormingAsk, oneshot::Sender<FormingAnswer>),
    /// The node at an address has told its name, and answered.
    Answered(PeerAddress, String, FormingAnswer),
    /// The addresses of a host were found.
    Found(Vec<IpAddr>),
}

/// The seat of a node that forms a cluster, for those that ask it.
#[derive(Debug)]
pub(super) struct FormingSeat {
    promise: Option<MakerPromise>,
    events: mpsc::UnboundedSender<FormingEvent>,
    taken: Mutex<Option<mpsc::UnboundedReceiver<FormingEvent>>>,
    is_open: AtomicBool,
}

impl FormingSeat {
    pub(super) fn new(promise: Option<MakerPromise>) -> Self {
        let (events, taken) = mpsc::unbounded_channel();
        Self { promise, events, taken: Mutex::new(Some(taken)), is_open: AtomicBool::new(true) }
    }

    /// Whether the node is still fresh.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Notes durably that the node is a member.
    pub(super) fn close(&self, disk: &dyn Disk) -> segments::Result<()> {
        NodeNote::Promise.remove(disk)?;
        self.is_open.store(false, Ordering::Release);
        Ok(())
    }

    /// Answers a fresh node, unless this one is about to start again.
    pub(super) async fn answer(&self, ask: FormingAsk) -> Option<FormingAnswer> {
        let (answer, answered) = oneshot::channel();
        self.events.send(FormingEvent::Asked(ask, answer)).ok()?;
        answered.await.ok()
    }
}

/// A node that may be one of those that form the cluster.
struct Contact {
    /// The name that the node has told; until then the one that it is configured with.
    name: String,
    address: PeerAddress,
}

/// A node that forms a cluster.
pub(super) struct Formation<'n> {
    moved: Move<'n>,
    transport: PeerTransport,
    forming: Forming,
    contacts: Vec<Contact>,
    events: mpsc::UnboundedSender<FormingEvent>,
    steps: Vec<FormingStep>,
    /// The last reason for which the node could not join.
    refused: String,
}

impl<'n> Formation<'n> {
    /// Has a fresh node become the first of a cluster, or be added to one.
    pub(super) async fn run(seat: &FormingSeat, moved: Move<'n>) -> anyhow::Result<Formed> {
        let taken = stdx::lock(&seat.taken).take();
        let mut taken = taken.context("the node forms a cluster already")?;
        let (means, me) = (moved.means, moved.broker.figures().identity().name.clone());
        let discovery = &means.settings.discovery;
        let own = means.settings.port.unwrap_or(DISTRIBUTION_PORT);
        let contact = |given: &str| Contact {
            name: plain(given).to_owned(),
            address: address_of(given, own),
        };
        let contacts: Vec<_> = discovery.names().take(NAMES_MAX - 1).map(contact).collect();
        let mut names = names(&contacts, &me, discovery.target_size);
        // A node that has not looked them up yet is not alone.
        names.extend(discovery.host().map(|host| format!("the nodes at {host}")));
        let settings = FormingSettings {
            names,
            me,
            retry_interval_ms: discovery.retry_interval_ms,
            retry_limit: discovery.retry_limit.map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        };
        let listed: Vec<_> = settings.names.iter().cloned().collect();
        tracing::info!("this node is new: it forms a cluster of {}", listed.join(", "));
        let forming = Forming::new(settings, seat.promise.clone(), random(), now());
        let (transport, events) = (means.transport()?, seat.events.clone());
        if let Some(host) = discovery.host() {
            let every = Duration::from_millis(discovery.retry_interval_ms);
            tokio::spawn(look_up(host.to_owned(), every, means.timers.clone(), events.clone()));
        }
        let (steps, refused) = (Vec::new(), String::new());
        let mut it = Self { moved, transport, forming, contacts, events, steps, refused };
        loop {
            if it.forming.due() <= now() {
                it.forming.tick(now(), &mut it.steps);
            }
            if let Some(formed) = it.take_steps().await? {
                return Ok(formed);
            }
            let due = Duration::from_millis(it.forming.due().since(now()));
            tokio::select! {
                event = taken.recv() => event.into_iter().for_each(|event| it.take(event)),
                () = means.timers.sleep(due) => {}
            }
        }
    }

    fn take(&mut self, event: FormingEvent) {
        match event {
            FormingEvent::Asked(ask, answer) => {
                let told = self.forming.asked(ask, now(), &mut self.steps);
                // The one that asked may have gone.
                let _is_told = answer.send(told).is_ok();
            }
            FormingEvent::Answered(address, name, answer) => {
                let contact = self.contacts.iter_mut().find(|contact| contact.address == address);
                if let Some(contact) = contact.filter(|contact| contact.name != name) {
                    contact.name = name;
                    self.names_changed();
                }
                self.forming.answered(answer, now(), &mut self.steps);
            }
            FormingEvent::Found(ips) if ips.is_empty() => {}
            FormingEvent::Found(ips) => self.found(&ips),
        }
    }

    /// Takes the addresses of all nodes.
    fn found(&mut self, ips: &[IpAddr]) {
        let means = self.moved.means;
        let port = means.settings.port.unwrap_or(DISTRIBUTION_PORT);
        let me = &self.moved.broker.figures().identity().name;
        let old = std::mem::take(&mut self.contacts);
        for ip in ips.iter().take(NAMES_MAX - 1) {
            let address = PeerAddress { host: ip.to_string(), port };
            let told = old.iter().find(|contact| contact.address == address);
            let name = told.map_or_else(|| placeholder(me, *ip), |it| it.name.clone());
            self.contacts.push(Contact { name, address });
        }
        self.names_changed();
    }

    fn names_changed(&mut self) {
        let me = &self.moved.broker.figures().identity().name;
        let target_size = self.moved.means.settings.discovery.target_size;
        self.forming.set_names(names(&self.contacts, me, target_size));
    }

    /// Does what is to be done; returns the end of it.
    async fn take_steps(&mut self) -> anyhow::Result<Option<Formed>> {
        while !self.steps.is_empty() {
            match self.steps.remove(0) {
                FormingStep::Ask { to, ask } => self.ask(&to, &ask),
                FormingStep::WritePromise(promise) => {
                    let bytes = MakerPromise::encode(promise.as_ref());
                    NodeNote::Promise.write(self.moved.means.disk.as_ref(), &bytes)?;
                    self.forming.promise_durable(now(), &mut self.steps);
                }
                FormingStep::Make => return Ok(Some(Formed::First)),
                FormingStep::Join { via, .. } => {
                    if self.join(&via).await {
                        return Ok(Some(Formed::Added));
                    }
                    self.forming.resume(now());
                }
                FormingStep::Report(wait) => tracing::warn!("{wait}"),
                FormingStep::GiveUp(wait) => {
                    bail!("{wait}: given up, as `cluster_formation.discovery_retry_limit` says")
                }
            }
        }
        Ok(None)
    }

    /// Joins the cluster of a member; returns whether that is done.
    async fn join(&mut self, via: &str) -> bool {
        let to = self.address(via).unwrap_or_else(|| address_of(via, DISTRIBUTION_PORT));
        tracing::info!("joining the cluster of {via}");
        let Err(text) = self.moved.join_at(&to, false).await else { return true };
        if self.refused != text {
            tracing::warn!("cannot join the cluster of {via}, trying again: {text}");
            self.refused = text;
        }
        false
    }

    /// The address of a node; none while only its existence is known.
    fn address(&self, name: &str) -> Option<PeerAddress> {
        let contact = self.contacts.iter().find(|contact| contact.name == name);
        let own = self.moved.means.settings.port.unwrap_or(DISTRIBUTION_PORT);
        let unlisted = || name.contains('@').then(|| address_of(name, own));
        contact.map(|contact| contact.address.clone()).or_else(unlisted)
    }

    /// Asks a node. One that does not answer is asked again.
    fn ask(&self, to: &str, ask: &FormingAsk) {
        let Some(address) = self.address(to) else { return };
        let (transport, events) = (self.transport.clone(), self.events.clone());
        let hello = tunnel_hello(self.moved.broker.figures().identity());
        let mut bytes = Vec::new();
        ask.encode(&mut bytes);
        let (timers, to) = (self.moved.means.timers.clone(), to.to_owned());
        tokio::spawn(async move {
            let asking = async {
                let (peer, mut tunnel) = transport.open_tunnel(&address, hello).await?;
                tunnel.write_all(&bytes).await?;
                let take = |frame: PeerFrame<'_>| {
                    FormingAnswer::decode(frame.kind, &frame.body.into_bytes()).ok().flatten()
                };
                let answer = read_frame(&mut tunnel, take).await?;
                let answer = answer.context("the answer cannot be read: check both versions")?;
                let name = peer.identity.name;
                // The node may have formed its cluster meanwhile.
                let _is_taken = events.send(FormingEvent::Answered(address, name, answer)).is_ok();
                anyhow::Ok(())
            };
            if let Ok(Err(error)) = timers.timeout(ASK_TIMEOUT, asking).await {
                tracing::debug!("{to} does not answer: {error:#}");
            }
        });
    }
}

fn now() -> MonotonicMs {
    components::clock().now().monotonic_ms
}

/// A node's name without the port that may follow it.
fn plain(name: &str) -> &str {
    let (front, port) = name.rsplit_once(':').unwrap_or((name, ""));
    if port.parse::<u16>().is_ok() { front } else { name }
}

/// The names of all nodes; those that are yet to be found have a number.
fn names(contacts: &[Contact], me: &str, target_size: usize) -> BTreeSet<String> {
    let known = contacts.iter().map(|contact| contact.name.clone());
    let mut names: BTreeSet<_> = known.chain(std::iter::once(me.to_owned())).collect();
    for n in names.len() + 1..=target_size {
        names.insert(format!("node {n} of {target_size}"));
    }
    names
}

/// The names of the nodes that are to form a cluster, that of this node among them; none if none are named.
/// **Blocks** while a host name is looked up.
pub(super) fn discovered(discovery: &Discovery, me: &str) -> Vec<String> {
    let found = discovery.host().and_then(|host| (host, 0).to_socket_addrs().ok());
    let found = found.into_iter().flatten().map(|address| placeholder(me, address.ip()));
    let mut names: BTreeSet<String> = discovery.names().map(plain).map(str::to_owned).collect();
    names.extend(found);
    if discovery.is_on() {
        names.insert(me.to_owned());
    }
    names.into_iter().collect()
}

/// The name of a node of which only the address is known.
fn placeholder(me: &str, ip: IpAddr) -> String {
    let kind = me.split_once('@').map_or("rabbit", |(kind, _)| kind);
    format!("{kind}@{ip}")
}

/// Looks for a host's addresses, over and over, until nobody wants them any more.
async fn look_up(
    host: String,
    every: Duration,
    timers: Timers,
    events: mpsc::UnboundedSender<FormingEvent>,
) {
    let mut failed = String::new();
    while !events.is_closed() {
        match lookup_host((host.as_str(), 0)).await {
            Ok(found) => {
                let ips: BTreeSet<IpAddr> = found.map(|address| address.ip()).collect();
                let _is_taken = events.send(FormingEvent::Found(ips.into_iter().collect())).is_ok();
            }
            Err(error) if failed != error.to_string() => {
                failed = error.to_string();
                tracing::warn!("cannot look up {host}, trying again: {failed}");
            }
            Err(_) => {}
        }
        timers.sleep(every).await;
    }
}
