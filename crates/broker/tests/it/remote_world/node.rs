//! A node: a broker over a disk in memory, both sides of its sessions with others, and its runtime.

use crate::client::{Client, control, short};
use crate::leftovers::durable_queue;
use broker::{Broker, BrokerOptions, HomeLinks, QueueHomes, RemoteSessions, Steppers};
use bytes::Bytes;
use log::{ClusterId, Identities, NodeId, NodeIdentity, NodeNumber, WalOptions};
use meta::{
    BindingSpec, Command, DestinationName, ExchangeDeclare, ExchangeKind, Name, QueueHome,
    RoutingKey,
};
use peer::{ConnectionNumber, LinkLimits, PeerLink, SessionFrame};
use remote::Homes;
use session::{Op, ReadInput, Table};
use std::sync::Arc;
use std::time::Duration;
use testing::{CrashOutcome, MemoryDisk, first_user};
use tokio::runtime::Runtime;

const LIMITS: LinkLimits = LinkLimits { room_bytes: 8 << 20, bytes_max: 64 << 20 };

/// The names of the nodes; a queue's home is the node that its name begins with.
pub(super) const NODES: [&str; 3] = ["a", "b", "c"];
/// The kinds of queues: `q` for anything that is settled, `n` also for consumers that settle nothing, `s` has
/// its rejected messages sent to the queue `d` of the next node.
pub(super) const USES: [&str; 4] = ["q", "n", "s", "d"];
/// The exchange whose messages go to the queues `q` of all nodes.
pub(super) const FANOUT: &str = "fan";

/// The links of a node by the index of the other.
#[derive(Debug)]
struct Links(Vec<Arc<PeerLink>>);

impl HomeLinks for Links {
    fn link(&self, node: NodeNumber) -> Option<Arc<PeerLink>> {
        self.0.get(usize::from(node.0) - 1).cloned()
    }
}

/// The part of a node that a crash ends.
pub(super) struct Running {
    pub(super) runtime: Runtime,
    pub(super) broker: Arc<Broker>,
    pub(super) served: RemoteSessions,
    steppers: Steppers,
    links: Arc<Links>,
}

/// A node, which may be down.
pub(super) struct Node {
    at: usize,
    disk: MemoryDisk,
    pub(super) running: Option<Running>,
}

impl Node {
    pub(super) fn number(at: usize) -> NodeNumber {
        NodeNumber(u16::try_from(at + 1).unwrap())
    }

    /// A new node among `n`, with all queues.
    pub(super) fn new(at: usize, n: usize) -> Self {
        let disk = MemoryDisk::new();
        let (cluster, name) = (ClusterId(7), NODES[at].to_owned());
        let identity = NodeIdentity { cluster, epoch: 0, number: Self::number(at), boot: 0, name };
        identity.create(&disk).unwrap();
        let mut node = Self { at, disk, running: None };
        node.start(n);
        let running = node.running.as_mut().unwrap();
        let broker = Arc::clone(&running.broker);
        for command in first_user().into_iter().chain(definitions(n)) {
            let mut applied = Box::pin(broker.apply_definition(command));
            while poll_once(applied.as_mut()).is_none() {
                running.steppers.log.step();
            }
        }
        while running.step(None) {}
        node
    }

    pub(super) fn start(&mut self, n: usize) {
        let homes = QueueHomes::by_rule(|me, _, def| {
            let home = usize::from(def.home.node) - 1;
            (def.home.node != me.0).then(|| Name::from(NODES[home]))
        });
        let node = NodeId(self.at as u64 + 1);
        let options = WalOptions {
            lazy_sync: Duration::MAX,
            sync_here_max: Duration::MAX,
            given: Identities { salt: 7, node, cluster: ClusterId(7) },
            ..WalOptions::default()
        };
        let settings = BrokerOptions { homes, ..BrokerOptions::default() };
        let opened = Broker::open_stepped(Arc::new(self.disk.clone()), options, settings);
        let (broker, steppers) = opened.unwrap();
        let links = Arc::new(Links((0..n).map(|_| Arc::new(PeerLink::new(LIMITS))).collect()));
        broker::other_homes(&broker.control_plane).connect(links.clone());
        let served = RemoteSessions::new(Arc::clone(&broker));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        self.running = Some(Running { runtime, broker, served, steppers, links });
    }

    /// The node loses power; its sessions are gone already.
    pub(super) fn crash(&mut self, outcome: CrashOutcome) {
        self.disk = self.disk.survive(outcome);
        self.running = None;
    }
}

impl Running {
    pub(super) fn link(&self, other: usize) -> &Arc<PeerLink> {
        &self.links.0[other]
    }

    pub(super) fn homes(&self) -> &Arc<Homes> {
        broker::other_homes(&self.broker.control_plane)
    }

    pub(super) fn receive(
        &self,
        from: usize,
        number: ConnectionNumber,
        frame: SessionFrame,
        body: Bytes,
    ) {
        let node = Node::number(from);
        let taken = match frame {
            SessionFrame::Put | SessionFrame::Command | SessionFrame::Request => {
                self.served.receive(node, number, self.link(from), [(frame, body)])
            }
            SessionFrame::Response
            | SessionFrame::Answers
            | SessionFrame::Deliver
            | SessionFrame::Event => self.homes().receive(node, number, frame, &body),
        };
        taken.unwrap();
    }

    /// Gets a message, which may have to be read.
    pub(super) fn get(&mut self, client: &mut Client, queue: &str) -> Vec<String> {
        let mut requests = vec![control(Op::Get { queue: short(queue), no_ack: false })];
        let mut submit = Box::pin(client.session().submit(&ReadInput::NONE, &mut requests));
        while poll_once(submit.as_mut()).is_none() {
            self.step(None);
        }
        drop(submit);
        client.heard()
    }

    /// Some part of the node has its turn, or each of them.
    pub(super) fn step(&mut self, part: Option<usize>) -> bool {
        self.runtime.block_on(async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
        let _in_runtime = self.runtime.enter();
        let Steppers { log, pager, v1, rules, .. } = &mut self.steppers;
        match part {
            Some(0) => log.step(),
            Some(1) => rules.step(),
            Some(_) => pager.step_jobs() | pager.step_sync() | v1.step(),
            None => {
                let stepped = rules.step() | v1.step() | pager.step_jobs() | pager.step_sync();
                stepped | pager.step_names() | log.step()
            }
        }
    }
}

/// Polls a future once.
pub(super) fn poll_once<T>(
    future: std::pin::Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(it) => Some(it),
        std::task::Poll::Pending => None,
    }
}

fn definitions(n: usize) -> Vec<Command> {
    let vhost = || Name::from("/");
    let mut commands = vec![Command::DeclareExchange(ExchangeDeclare {
        vhost: vhost(),
        name: FANOUT.into(),
        kind: ExchangeKind::Fanout,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::new(),
    })];
    for (at, node) in NODES.iter().enumerate().take(n) {
        for of in USES {
            let mut arguments = Table::new();
            if of == "s" {
                arguments.push(short("x-dead-letter-exchange"), "");
                let letters = letters_of(&format!("{node}.s"), n).unwrap();
                arguments.push(short("x-dead-letter-routing-key"), &*letters);
            }
            let home = QueueHome { node: Node::number(at).0, boot: 0 };
            commands.push(durable_queue(&format!("{node}.{of}"), arguments, home));
        }
        commands.push(Command::Bind(BindingSpec {
            vhost: vhost(),
            source: FANOUT.into(),
            destination: DestinationName::Queue(Name::from(&*format!("{node}.q"))),
            key: RoutingKey::default(),
            arguments: Table::new(),
            by: None,
        }));
    }
    commands
}

/// The index of the node that has a queue.
pub(super) fn home_of(queue: &str) -> usize {
    NODES.iter().position(|node| queue.starts_with(node)).unwrap()
}

/// The queue that a queue's rejected messages go to.
pub(super) fn letters_of(queue: &str, n: usize) -> Option<String> {
    let next = NODES[(home_of(queue) + 1) % n];
    queue.ends_with(".s").then(|| format!("{next}.d"))
}
