//! The world of plain queues: disk, node, clients, and the model that watches them.

mod check_events;
mod corruption;
mod restarts;
mod work;

use crate::client::{self, Client, Doing, Expect, Read};
use crate::harness::{Connected, FIRST, Harness};
use crate::model::{Binding, Exchange, Fact, Kind, Lasting, LinkKey, Model, Target};
use crate::node::{Node, NodeOptions, PATIENCE, journal_operations_max, some_durability};
use broker::{Broker, Clock, Session, StreamDurability};
use meta::QueueVersion;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use testing::Random;
use testing::run::{Trace, expect_ok, fail};

/// Turns of queues of version 1 before a commit: everything they have to sync is done then.
const OLDER_STEPS_MAX: usize = 50;

pub(crate) struct PlainQueues {
    pub(crate) harness: Harness,
    clients: BTreeMap<usize, Client>,
    model: Model,
    n_messages: u64,
    n_tags: u64,
    /// Queues get more than is taken.
    is_deep: bool,
    /// The least share of publishes that go to several durable queues, percent.
    spread_percent: usize,
    /// Queues that had version 1 lately, or were on their way to it or from it: what is
    /// confirmed need not be in the log.
    v1_lately: BTreeSet<String>,
    alarm: bool,
    clock_ms: u64,
    replies: work::Replies,
    /// The commit that is being told about made everything durable.
    just_synced: bool,
}

impl PlainQueues {
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let segment_bytes = random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536);
        let allowance_bytes = random.choose(&[0, 500, 4_000, 12_000, 4 << 20]).unwrap_or(0);
        let is_deep = random.percent(50);
        let spread_percent = random.choose(&[0, 50]).unwrap_or(0);
        let durability = some_durability(&mut random);
        let embed_below_bytes = random.choose(&[0, 10, 2_000, 4_096, 1 << 20]).unwrap_or(0);
        let options = NodeOptions {
            segment_bytes,
            durability,
            allowance_bytes,
            embed_below_bytes,
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::Ticks,
            stream_durability: StreamDurability::Write,
        };
        Self {
            harness: Harness::new(random, vec![options], trace),
            clients: BTreeMap::new(),
            model: Model::new(),
            n_messages: 0,
            n_tags: 0,
            is_deep,
            spread_percent,
            v1_lately: BTreeSet::new(),
            alarm: false,
            clock_ms: 0,
            replies: work::Replies::default(),
            just_synced: false,
        }
    }

    fn broker(&self) -> &Arc<Broker> {
        &self.harness.host(FIRST).running().broker
    }

    fn has_failed(&self) -> bool {
        self.harness
            .host(FIRST)
            .node
            .as_ref()
            .is_some_and(|node| node.failed.load(Ordering::SeqCst))
    }

    fn connect(&mut self) -> usize {
        let Connected { client, recorder, session, limit } = self.harness.connect(FIRST);
        self.harness.note(format!("client {client} connects, outbox {limit}"));
        let client_state = Client {
            recorder,
            session: Some(session),
            task: None,
            doing: Doing::default(),
            channels: BTreeMap::new(),
            blocked: false,
        };
        self.clients.insert(client, client_state);
        client
    }

    fn client(&mut self, client: usize) -> &mut Client {
        self.clients.get_mut(&client).expect("the client is connected")
    }

    /// Hands a read to the session. It may stay in it until the log is committed.
    fn submit(&mut self, client: usize, read: Read, doing: Doing) {
        let broker = Arc::clone(self.broker());
        let state = self.client(client);
        let session = state.session.take().expect("only idle clients ask");
        state.task = Some(client::submit(session, read, broker));
        self.begin(client, doing);
    }

    fn lose(&mut self, client: usize) {
        self.harness.note(format!("client {client} is lost"));
        let state = self.client(client);
        let session = state.session.take().expect("only idle clients are lost");
        state.task = Some(client::lose(session));
        self.begin(client, Doing { last: true, ..Doing::default() });
    }

    fn begin(&mut self, client: usize, doing: Doing) {
        self.note_v1();
        let facts = self.model.facts(true);
        let closes = self.closes(client, &doing);
        self.model.closing.extend(closes.iter().map(|channel| (client, *channel)));
        self.client(client).doing = doing;
        self.poll(client);
        if self.alarm && self.client_is_held(client) {
            self.set_alarm(false);
            self.poll(client);
        }
        self.touch(&facts);
        // A message that is on disk only is waited for. A page that cannot be written is found out
        // by the commit.
        for n in 0.. {
            if !self.gets(client) || self.has_failed() {
                break;
            }
            if n > PATIENCE {
                fail("a message is waited for that nobody reads from disk");
            }
            self.page();
            self.poll(client);
            if n % 10 == 9 {
                self.step();
            }
        }
        // So is a queue whose files are being made.
        while self.any_loading() && !self.has_failed() {
            self.step_v1();
            self.poll(client);
            let has_failed = |node: &Node| node.steppers.v1.has_failed();
            if self.harness.host(FIRST).node.as_ref().is_some_and(has_failed) {
                // The log finds out.
                self.step();
                break;
            }
        }
        // What is being closed is seen through, so that the model need not guess for long.
        while !closes.is_empty() && !self.has_failed() {
            let busy = self.clients.get(&client).is_some_and(|client| client.task.is_some());
            if !busy {
                break;
            }
            self.step();
        }
    }

    /// Whether a client has published during an alarm: nothing of it has happened.
    fn client_is_held(&self, client: usize) -> bool {
        self.clients.get(&client).is_some_and(|state| state.blocked && state.task.is_some())
    }

    /// Whether a client waits for a message it gets.
    fn gets(&self, client: usize) -> bool {
        self.clients.get(&client).is_some_and(|state| {
            state.task.is_some()
                && !state.doing.answered
                && matches!(state.doing.expect, Expect::Got(_))
        })
    }

    /// The pager does something.
    fn page(&mut self) {
        let what = self.harness.random.below(13);
        if what >= 9 {
            self.step_v1();
            return;
        }
        let Some(node) = &mut self.harness.host_mut(FIRST).node else { return };
        let pager = &mut node.steppers.pager;
        let (name, stepped) = match what {
            0..4 => ("page jobs", pager.step_jobs()),
            4..7 => ("page sync", pager.step_sync()),
            7 => ("names in pages", pager.step_names()),
            _ => ("reclaim", pager.step_reclaim()),
        };
        if stepped {
            self.harness.note(name);
            self.check_events();
        }
    }

    /// The pager does all it can, but for reclaiming.
    fn page_all(&mut self) {
        let Some(node) = &mut self.harness.host_mut(FIRST).node else { return };
        let pager = &mut node.steppers.pager;
        while pager.step_jobs() || pager.step_sync() || pager.step_names() {}
        self.check_events();
    }

    /// Queues of version 1 have a turn; false if there was nothing to do.
    fn step_v1(&mut self) -> bool {
        self.note_v1();
        let Some(node) = &mut self.harness.host_mut(FIRST).node else { return false };
        let stepped = node.steppers.v1.step();
        self.note_v1();
        if stepped {
            self.harness.note("older form");
        }
        self.check_events();
        stepped
    }

    fn note_v1(&mut self) {
        let Some(node) = &self.harness.host(FIRST).node else { return };
        let view = node.broker.view();
        let is_v1 = |queue: &&broker::QueueRef| {
            let stat = queue.local_stat();
            stat.version == QueueVersion::V1 || stat.conversion.is_some()
        };
        let names = view.queues().filter(is_v1).map(|queue| queue.def().name.to_string());
        self.v1_lately.extend(names);
    }

    fn any_loading(&self) -> bool {
        let view = self.harness.host(FIRST).node.as_ref().map(|node| node.broker.view());
        view.is_some_and(|view| view.queues().any(|queue| queue.is_loading()))
    }

    /// Whether a message is durable wherever it has to be. A queue's own journal is synced when it
    /// likes: there the word of the broker is taken, and has to hold after a crash.
    fn is_durable(&mut self, id: u64) -> bool {
        self.model.believe(id, &self.v1_lately);
        self.model.is_synced(id)
    }

    fn touch(&mut self, before: &BTreeSet<Fact>) {
        let after = self.model.facts(true);
        self.model.touched.extend(before.symmetric_difference(&after).cloned());
    }

    /// The channels that are closed by what a client does.
    fn closes(&self, client: usize, doing: &Doing) -> BTreeSet<u16> {
        let all = || {
            let state = self.clients.get(&client);
            state.map(|state| state.channels.keys().copied().chain([0]).collect())
        };
        match doing.expect {
            Expect::ChannelClosed | Expect::ChannelFails(_) => BTreeSet::from([doing.channel]),
            Expect::ConnectionClosed | Expect::ConnectionFails(_) => all().unwrap_or_default(),
            Expect::Nothing if doing.last => all().unwrap_or_default(),
            Expect::Nothing
            | Expect::Done
            | Expect::ChannelOpened
            | Expect::Declared { .. }
            | Expect::Purged(_)
            | Expect::Deleted(_)
            | Expect::Consuming
            | Expect::Cancelled
            | Expect::Got(_)
            | Expect::GetEmpty => BTreeSet::new(),
        }
    }

    /// Lets a session go on as far as it can.
    fn poll(&mut self, client: usize) {
        let Some(task) = self.clients.get_mut(&client).and_then(|one| one.task.as_mut()) else {
            return;
        };
        let polled = client::poll_on(task.as_mut());
        self.check_events();
        if let Poll::Ready(session) = polled {
            self.end(client, session);
        }
    }

    /// A request is through.
    fn end(&mut self, client: usize, session: Option<Session>) {
        let failed = self.has_failed();
        let facts = self.model.facts(true);
        let state = self.client(client);
        state.task = None;
        let over = session.is_none();
        state.session = session;
        let doing = std::mem::take(&mut state.doing);
        if !failed {
            if !doing.answered && doing.expect != Expect::Nothing {
                fail(format!("client {client} is not told {:?}", doing.expect));
            }
            if !doing.returned.is_empty() {
                fail(format!("not returned: {:?}", doing.returned));
            }
            for id in &doing.committed {
                if !self.is_durable(*id) {
                    fail(format!("the commit of m{id} was answered before it was durable"));
                }
            }
            let expects_end = doing.last
                || matches!(doing.expect, Expect::ConnectionClosed | Expect::ConnectionFails(_));
            if over != expects_end {
                fail(format!("client {client} is over: {over}"));
            }
        }
        self.model.closing.retain(|(of, channel)| *of != client || *channel != doing.channel);
        if over {
            self.model.end_client(client);
            self.replies.consumers.retain(|(of, _), _| *of != client);
            self.model.closing.retain(|(of, _)| *of != client);
            self.clients.remove(&client);
        }
        self.touch(&facts);
    }

    /// The commit thread runs once.
    fn step(&mut self) {
        for _ in 0..self.harness.random.below(4) {
            self.page();
        }
        for _ in 0..OLDER_STEPS_MAX {
            if !self.step_v1() {
                break;
            }
        }
        let Some(node) = &mut self.harness.host_mut(FIRST).node else { return };
        let was_well = !node.failed.load(Ordering::SeqCst);
        let appended_upto = node.broker.figures().log().appended_upto;
        let stepped = node.steppers.log.step();
        // The log may fail after it has synced everything, while it frees segments.
        let durable_upto = node.broker.figures().log().durable_upto;
        let is_written = !node.steppers.v1.has_failed();
        self.just_synced = was_well && is_written && durable_upto >= appended_upto;
        self.harness.note(if stepped { "commit" } else { "nothing to commit" });
        if self.just_synced {
            self.model.synced();
            self.v1_lately.clear();
        }
        let facts = self.model.facts(true);
        self.check_events();
        if !self.has_failed() {
            self.check_confirmed();
        }
        let busy: Vec<usize> = self.clients.keys().copied().collect();
        for client in busy {
            self.poll(client);
        }
        if !self.just_synced {
            // What a client takes with it when its channel fails may be back, too, if the log has failed.
            self.touch(&facts);
        }
        self.just_synced = false;
    }

    /// After a commit nobody waits for a confirm any more.
    fn check_confirmed(&self) {
        for (id, client) in &self.clients {
            for (number, channel) in &client.channels {
                if self.model.closing.contains(&(*id, *number)) {
                    continue;
                }
                if let Some((sequence, message)) = channel.unconfirmed.first_key_value() {
                    fail(format!(
                        "m{message}, {sequence} on channel {number} of client {id}, is not confirmed"
                    ));
                }
            }
        }
    }

    /// Checks the invariants between two operations.
    fn check(&self) {
        if self.has_failed() || !self.model.closing.is_empty() {
            return;
        }
        if let Some(untold) = self.model.to_be_told.first() {
            fail(format!("a consumer of a deleted queue is not told: {untold:?}"));
        }
        let expected = self.model.facts(false);
        let actual = facts(self.broker());
        if let Some(fact) = expected.difference(&actual).next() {
            fail(format!("a definition is missing: {fact:?}"));
        }
        if let Some(fact) = actual.difference(&expected).next() {
            fail(format!("a definition is left: {fact:?}"));
        }
        let view = self.broker().view();
        let (mut bytes, mut is_exact) = (0, true);
        for (name, queue) in &self.model.queues {
            let Some(found) = view.queue("/", name) else { continue };
            let Some(classic) = found.as_classic() else { continue };
            let stat = found.local_stat();
            let actual = (stat.n_ready, stat.n_unacked, stat.message_bytes, stat.n_consumers);
            let (ready, unacked, of_messages) = self.model.counts(name);
            bytes += of_messages;
            // What went while it was on disk only was not looked at.
            let is_in_memory = classic.inspect().pages_on_disk() == 0;
            is_exact &= is_in_memory;
            let of_messages = if is_in_memory { of_messages } else { actual.2 };
            let expected = (ready, unacked, of_messages, self.model.n_consumers(name));
            if actual != expected {
                fail(format!("{name} counts {actual:?} instead of {expected:?}"));
            }
            if found.def().durable != queue.durable {
                fail(format!("{name} is not as durable as declared"));
            }
            expect_ok(
                self.model
                    .check_queue(name, classic.inspect().waits_for_page(), |key| self.is_full(key)),
            );
        }
        if is_exact && bytes != self.broker().figures().message_bytes() {
            let actual = self.broker().figures().message_bytes();
            fail(format!("{actual} bytes in memory instead of {bytes}"));
        }
    }

    fn is_full(&self, key: LinkKey) -> bool {
        self.clients.get(&key.client).is_some_and(|client| client.recorder.is_full(key.link))
    }
}

/// Everything that is defined, in the model's words.
fn facts(broker: &Broker) -> BTreeSet<Fact> {
    let view = broker.view();
    let mut facts = BTreeSet::new();
    let Some(vhost) = view.meta.vhost("/") else { return facts };
    for exchange in vhost.exchanges().filter(|exchange| !exchange.is_predeclared()) {
        let mut kinds = Kind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.name() == exchange.kind.as_str());
        let known = Exchange {
            kind: kind.expect("clients declare no others"),
            durable: exchange.durable,
            auto_delete: exchange.auto_delete,
            internal: exchange.internal,
            predeclared: false,
            alternate: exchange.alternate().map(str::to_owned),
        };
        facts.insert(Fact::Exchange(exchange.name.to_string(), known));
    }
    for queue in vhost.queues() {
        let lasting = Lasting { durable: queue.durable, auto_delete: queue.auto_delete };
        let (name, is_exclusive) = (queue.name.to_string(), queue.exclusive_owner.is_some());
        facts.insert(Fact::Queue { name, lasting, is_exclusive });
    }
    for binding in vhost.routes.bindings() {
        let target = match &binding.destination {
            routing::Destination::Queue(id) => match view.queue_by_id(*id) {
                Some(queue) => Target::Queue(queue.def().name.to_string()),
                None => continue,
            },
            routing::Destination::Exchange(name) => Target::Exchange(name.to_string()),
        };
        let header = binding.arguments.get(b"h").and_then(|value| value.as_str());
        facts.insert(Fact::Binding(Binding {
            source: binding.source.to_string(),
            target,
            key: String::from_utf8_lossy(&binding.key).into_owned(),
            header: header.map(str::to_owned),
        }));
    }
    facts
}
