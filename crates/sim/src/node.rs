//! A broker in one process over a simulated disk, whose storage works when it is told to.

use crate::client::{control, short};
use broker::{
    Broker, BrokerOptions, Clock, Identity, PagerOptions, Session, Steppers, StorageOptions,
    StreamDurability, StreamOptions,
};
use log::{Durability, WalOptions};
use meta::{ApplyTo, Command, Json, PolicyScope, PolicySpec, QueueVersion};
use segments::Disk;
use session::{Attachment, Op, Outbox, ProtocolKind, Table};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use testing::MemoryDisk;
use testing::Random;
use testing::outbox::{Given, Recorder, Space, Transcript, What};

/// Steps after which something must have happened.
pub(crate) const PATIENCE: usize = 1_000;
/// Turns of everything after which there is nothing left to do.
const DRY_STEPS_MAX: usize = 5_000;

/// A running broker whose storage works on demand.
pub(crate) struct Node {
    pub(crate) broker: Arc<Broker>,
    pub(crate) steppers: Steppers,
    /// Gone with the node, if nothing of it is left behind.
    pub(crate) disk: Weak<dyn Disk>,
    /// The log has failed.
    pub(crate) failed: Arc<AtomicBool>,
}

/// The options of a node's start.
#[derive(Clone, Debug)]
pub(crate) struct NodeOptions {
    pub(crate) segment_bytes: u64,
    /// The promise of durability: with [`Durability::Write`], what a crash of the process leaves.
    pub(crate) durability: Durability,
    /// Bytes of messages a queue may have in memory.
    pub(crate) allowance_bytes: usize,
    /// Smaller bodies are never stored apart.
    pub(crate) embed_below_bytes: usize,
    /// A journal of more is flushed to its segments.
    pub(crate) journal_operations_max: u64,
    /// The form of queues no policy is about.
    pub(crate) default_version: QueueVersion,
    pub(crate) clock: Clock,
    /// The event that publishes to streams are confirmed upon.
    pub(crate) stream_durability: StreamDurability,
}

/// Half of the runs flush their journals often.
pub(crate) const fn journal_operations_max(seed: u64) -> u64 {
    if (seed / 8).is_multiple_of(2) { 32_768 } else { 12 }
}

impl Node {
    pub(crate) fn open(disk: &MemoryDisk, options: &NodeOptions) -> Result<Self, String> {
        let failed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&failed);
        let wal_options = WalOptions {
            segment_bytes: options.segment_bytes,
            durability: options.durability,
            // Steps say when it is time, not the clock.
            lazy_sync: Duration::MAX,
            sync_here_max: Duration::MAX,
            unsynced_bytes_max: 64 << 10,
            given: log::Identities { salt: 7, node: log::NodeId(7), cluster: log::ClusterId(7) },
            on_failure: Some(Box::new(move |_| seen.store(true, Ordering::SeqCst))),
            ..WalOptions::default()
        };
        let pager = PagerOptions {
            budget_bytes: 5 * options.allowance_bytes,
            allowance_bytes_min: options.allowance_bytes,
            allowance_bytes_max: options.allowance_bytes,
            excess_bytes_max: 40_000,
            unsynced_bytes_max: 30_000,
            stored_at_once_bytes_min: 0,
        };
        let storage = StorageOptions {
            clock: options.clock,
            pager,
            embed_below_bytes: options.embed_below_bytes,
            journal_operations_max: options.journal_operations_max,
            page_file_bytes: 40_000,
            body_file_bytes: 20_000,
            default_version: options.default_version,
            is_short: false,
        };
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let weak = Arc::downgrade(&disk);
        let streams =
            StreamOptions { durability: options.stream_durability, ..StreamOptions::default() };
        let settings = BrokerOptions { streams, ..storage.into() };
        let opened = Broker::open_stepped(disk, wal_options, settings);
        let (broker, steppers) = opened.map_err(|error| error.to_string())?;
        Ok(Self { broker, steppers, disk: weak, failed })
    }

    /// As [`Node::open`], and has it load the queues of version 1.
    pub(crate) fn open_loaded(disk: &MemoryDisk, options: &NodeOptions) -> Result<Self, String> {
        let mut node = Self::open(disk, options)?;
        for _ in 0..PATIENCE {
            if node.steppers.v1.has_failed() {
                return Err("simulated power loss while queues were loaded".to_owned());
            }
            if !node.broker.view().queues().any(|queue| queue.is_loading()) {
                return Ok(node);
            }
            node.steppers.v1.step();
            node.steppers.pager.step_jobs();
            node.steppers.pager.step_sync();
        }
        Err("queues are not loaded".to_owned())
    }

    pub(crate) fn add_first_user(&mut self) {
        let broker = Arc::clone(&self.broker);
        for command in testing::first_user() {
            let changed = block_on(broker.apply_definition(command), || {
                self.step();
            });
            assert!(
                changed.is_some_and(|changed| changed.is_ok()),
                "a new node takes its first user"
            );
        }
    }

    /// Everything has a turn; false if there was nothing to do.
    pub(crate) fn step(&mut self) -> bool {
        let Steppers { log, pager, v1, rules, streams } = &mut self.steppers;
        let mut stepped = rules.step();
        stepped |= v1.step();
        stepped |= pager.step_jobs();
        stepped |= pager.step_sync();
        stepped |= pager.step_names();
        stepped |= streams.step();
        stepped | log.step()
    }

    /// Does everything there is to do; false if there is no end to it.
    pub(crate) fn step_all(&mut self) -> bool {
        (0..DRY_STEPS_MAX).any(|_| !self.step())
    }

    /// Looks at what is left of the storage of a node whose queues are all empty; false when the disk
    /// fails meanwhile.
    pub(crate) fn frees_all(&mut self) -> Result<bool, String> {
        // Queues may still be on their way into another form, which is a definition.
        self.step_all();
        if self.broker.snapshot_definitions().is_err() {
            return Ok(false);
        }
        self.step_all();
        if self.has_failed() {
            return Ok(false);
        }
        let (durable, volatile) = self.broker.figures().pages();
        if durable.live_blobs + volatile.live_blobs > 0 {
            return Err(format!("pages are not freed: {durable:?}, {volatile:?}"));
        }
        for (vhost, bodies) in self.broker.figures().bodies() {
            if bodies.live_blobs > 0 {
                return Err(format!("bodies of {vhost} are not freed: {bodies:?}"));
            }
        }
        if self.broker.figures().losses().of_queues.n_messages > 0 {
            return Err("messages are lost by damage that was never done".to_owned());
        }
        let stats = self.broker.figures().log();
        // Of each queue that says so, the entry stays that says which version its files have.
        let view = self.broker.view();
        let n_versions =
            view.classic_queues().filter(|queue| queue.files_version.is_logged()).count() as u64;
        let live = stats.oldest.map_or(0, |oldest| oldest.live);
        if live > n_versions || (n_versions == 0 && stats.segments > 1) {
            return Err(format!("the log is not freed: {stats:?}"));
        }
        Ok(true)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

/// Has a policy say that of some queues.
pub(crate) fn set_policy(name: &str, pattern: &str, definition: &str) -> Command {
    let policy = PolicySpec {
        name: name.into(),
        pattern: pattern.to_owned(),
        apply_to: ApplyTo::Queues,
        definition: Json::parse(definition).expect("it is JSON"),
        priority: 0,
    };
    Command::SetPolicy { scope: PolicyScope::User, vhost: "/".into(), policy }
}

/// As [`set_policy`], an operator's.
pub(crate) fn set_operator_policy(name: &str, pattern: &str, definition: &str) -> Command {
    let mut command = set_policy(name, pattern, definition);
    if let Command::SetPolicy { scope, .. } = &mut command {
        *scope = PolicyScope::Operator;
    }
    command
}

/// The durability of most nodes' logs.
pub(crate) fn some_durability(random: &mut Random) -> Durability {
    if random.percent(15) { Durability::Write } else { Durability::Sync }
}

pub(crate) fn open_session(
    broker: &Arc<Broker>,
    outbox: Arc<dyn Outbox>,
    protocol: ProtocolKind,
) -> Result<Session, String> {
    let identity = Identity {
        user: "guest".to_owned(),
        vhost: "/".to_owned(),
        name: "simulated".to_owned(),
        protocol,
        ..Identity::default()
    };
    Session::open(Arc::clone(broker), identity, outbox).map_err(|error| error.to_string())
}

/// Polls a future, stepping in between; `None` when it never ends.
pub(crate) fn block_on<T>(future: impl Future<Output = T>, mut step: impl FnMut()) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..PATIENCE {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        step();
    }
    None
}

/// The only client of a node that is looked into.
pub(crate) struct SingleClient {
    pub(crate) node: Node,
    session: Session,
    recorder: Arc<Recorder>,
    transcript: Transcript,
}

impl SingleClient {
    pub(crate) fn new(node: Node) -> Result<Self, String> {
        let transcript = Transcript::default();
        let recorder = Recorder::new(0, &transcript, Space::Deliveries(usize::MAX));
        let session =
            open_session(&node.broker, Arc::<Recorder>::clone(&recorder), ProtocolKind::Amqp091)?;
        let mut client = Self { node, session, recorder, transcript };
        client.ask(Op::OpenChannel)?;
        Ok(client)
    }

    fn ask(&mut self, op: Op) -> Result<Vec<What>, String> {
        let mut requests = vec![control(1, op)];
        let node = &mut self.node;
        let done = block_on(self.session.submit(&session::ReadInput::NONE, &mut requests), || {
            node.step();
        });
        done.and_then(Result::ok).ok_or("the peeking client is thrown out")?;
        let heard = std::mem::take(&mut *stdx::lock(&self.transcript));
        Ok(heard.into_iter().map(|(_, what)| what).collect())
    }

    /// All messages of a stream, in order, as a consumer from the first one on is given them.
    pub(crate) fn read_stream(&mut self, queue: &str) -> Result<Vec<Given>, String> {
        let mut arguments = Table::default();
        arguments.push(short("x-stream-offset"), "first");
        self.read(queue, arguments)
    }

    /// The messages that a consumer of a queue is given; it holds them, and is cancelled.
    pub(crate) fn read_queue(&mut self, queue: &str) -> Result<Vec<Given>, String> {
        let given = self.read(queue, Table::default())?;
        self.ask(Op::Detach { consumer_tag: short(queue) })?;
        Ok(given)
    }

    fn read(&mut self, queue: &str, arguments: Table) -> Result<Vec<Given>, String> {
        self.ask(Op::SetPrefetch { prefetch_count: u16::MAX, global: false })?;
        let (consumer_tag, no_ack, exclusive) = (short(queue), false, false);
        let queue = short(queue);
        let mut told = self.ask(Op::Attach(Attachment {
            queue,
            consumer_tag,
            no_ack,
            source: None,
            exclusive,
            arguments,
        }))?;
        for _ in 0..PATIENCE {
            let stepped = self.node.step();
            self.session.resume(&self.recorder.read_all());
            let more = std::mem::take(&mut *stdx::lock(&self.transcript));
            if !stepped && more.is_empty() {
                break;
            }
            told.extend(more.into_iter().map(|(_, what)| what));
        }
        let given = told.into_iter().filter_map(|what| {
            if let What::Deliver { given, .. } = what { Some(given) } else { None }
        });
        Ok(given.collect())
    }

    pub(crate) fn get(&mut self, queue: &str) -> Result<Option<Given>, String> {
        let op = Op::Get { queue: short(queue), no_ack: false };
        let mut told = self.ask(op)?;
        match (told.pop(), told.is_empty()) {
            (Some(What::GetEmpty), true) => Ok(None),
            (Some(What::Got { given, .. }), true) => Ok(Some(given)),
            other => Err(format!("peeking gave {other:?}, {told:?}")),
        }
    }
}
