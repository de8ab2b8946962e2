//! Clients of a node whose storage works when it is told to, beside the model.

use crate::confirms::heard::{Given, Heard};
use crate::confirms::model::{Holder, Model, N_QUEUES, Name, On, Sent, Spec};
use broker::{Broker, BrokerOptions, Diagnosis, Identity, Session, Steppers};
use log::WalOptions;
use segments::Disk;
use session::{
    Attachment, ChannelId, Content, Control, Flag, LinkId, MethodTag, Op, Outbox, Outcome, Publish,
    QueueBinding, QueueDeclaration, Request, Settle, ShortString, Span, Table,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use testing::outbox::{Recorder, Space, Transcript};
use testing::{CrashOutcome, MemoryDisk, first_user};

pub(crate) const N_PEERS: usize = 3;
/// Channels of each: two with confirms, one with transactions, one with neither.
pub(crate) const CHANNELS: std::ops::RangeInclusive<u16> = 1..=4;
const TX: u16 = 3;
const PLAIN: u16 = 4;
/// Steps after which there must be nothing left to do.
const STEPS_MAX: usize = 10_000;

const fn is_confirming(channel: u16) -> bool {
    channel < TX
}

fn short(text: &str) -> ShortString {
    ShortString::new(text.as_bytes()).unwrap()
}

fn name_of(queue: usize) -> String {
    format!("q{queue}")
}

struct Node {
    broker: Arc<Broker>,
    steppers: Steppers,
}

impl Node {
    fn open(disk: MemoryDisk) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let opened = Broker::open_stepped(disk, WalOptions::default(), BrokerOptions::default());
        let (broker, steppers) = opened.unwrap();
        Self { broker, steppers }
    }

    /// A node that has its first user.
    fn start() -> Self {
        static DISK: OnceLock<MemoryDisk> = OnceLock::new();
        let disk = DISK.get_or_init(|| {
            let disk = MemoryDisk::new();
            let mut node = Self::open(disk.clone());
            for command in first_user() {
                let broker = Arc::clone(&node.broker);
                node.block_on(broker.apply_definition(command)).unwrap();
            }
            disk
        });
        Self::open(disk.survive(CrashOutcome::Everything))
    }

    fn step(&mut self) -> bool {
        let Steppers { log, pager, v1, rules, .. } = &mut self.steppers;
        let stepped = [rules.step(), v1.step(), pager.step_jobs(), pager.step_sync()];
        stepped.contains(&true) | log.step()
    }

    /// Does all there is to do.
    fn dry(&mut self) {
        assert!((0..STEPS_MAX).any(|_| !self.step()), "there is no end to what there is to do");
    }

    fn block_on<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..STEPS_MAX {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            self.step();
        }
        panic!("a client waits for ever");
    }
}

/// A consumer, or the gets of a channel from a queue.
#[derive(Clone, Debug)]
struct Link {
    queue: usize,
    channel: u16,
    no_ack: bool,
    is_got: bool,
    /// Of a consumer that has not ended.
    tag: Option<String>,
}

/// A client.
struct Peer {
    session: Option<Session>,
    recorder: Arc<Recorder>,
    transcript: Transcript,
    links: BTreeMap<LinkId, Link>,
    /// Links of channels that have ended, which may have been given something on their way out.
    ended: BTreeMap<LinkId, Link>,
    /// By channel and number of the publish.
    published: BTreeMap<(u16, u64), u64>,
    n_published: BTreeMap<u16, u64>,
    /// Publishes and settlements its transaction has gathered.
    tx_publishes: Vec<Sent>,
    tx_settles: Vec<(usize, Name, Outcome)>,
    /// From where it is told of what it gets.
    gets_from: Option<Link>,
}

/// A publish of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) channel: u16,
    pub(crate) to: Option<usize>,
    pub(crate) n_more_bytes: usize,
    pub(crate) persistent: bool,
}

pub(crate) struct World {
    node: Node,
    peers: Vec<Peer>,
    model: Model,
    n_sent: u64,
    n_tags: u64,
}

impl World {
    pub(crate) fn new(specs: Vec<Spec>) -> Self {
        let (node, model) = (Node::start(), Model::new(specs));
        let mut world = Self { node, peers: Vec::new(), model, n_sent: 0, n_tags: 0 };
        for peer in 0..N_PEERS {
            let connected = world.connected();
            world.peers.push(connected);
            CHANNELS.for_each(|channel| world.open(peer, channel));
        }
        (0..N_QUEUES).for_each(|queue| world.declare(queue));
        world
    }

    fn connected(&self) -> Peer {
        let transcript = Transcript::default();
        let recorder = Recorder::new(0, &transcript, Space::default());
        let identity =
            Identity { user: "guest".to_owned(), vhost: "/".to_owned(), ..Identity::default() };
        let outbox: Arc<dyn Outbox> = recorder.clone();
        let session = Session::open(Arc::clone(&self.node.broker), identity, outbox).unwrap();
        Peer {
            session: Some(session),
            recorder,
            transcript,
            links: BTreeMap::new(),
            ended: BTreeMap::new(),
            published: BTreeMap::new(),
            n_published: BTreeMap::new(),
            tx_publishes: Vec::new(),
            tx_settles: Vec::new(),
            gets_from: None,
        }
    }

    fn open(&mut self, peer: usize, channel: u16) {
        self.ask(peer, channel, Op::OpenChannel);
        match channel {
            TX => self.ask(peer, channel, Op::EnableTransactions),
            _ if is_confirming(channel) => self.ask(peer, channel, Op::EnableConfirms),
            _ => {}
        }
    }

    fn ask(&mut self, peer: usize, channel: u16, op: Op) {
        let channel = ChannelId(channel);
        let control = Control {
            channel,
            origin: MethodTag(0),
            nowait: false,
            refusal: session::RefusalScope::Channel,
            op,
        };
        self.submit(peer, &[], vec![Request::Control(Box::new(control))]);
    }

    fn submit(&mut self, peer: usize, input: &[u8], mut requests: Vec<Request>) {
        let session = self.peers[peer].session.as_mut().unwrap();
        let done =
            self.node.block_on(session.submit(&session::ReadInput::of(input), &mut requests));
        assert!(done.is_ok(), "a client is thrown out");
        session.wake();
    }

    pub(crate) fn declare(&mut self, queue: usize) {
        let spec = self.model.queues[queue].spec.clone();
        let mut arguments = Table::default();
        let on = match spec.on {
            On::Enqueue => "enqueue",
            On::Ack => "ack",
            On::AckDirect => "ack-direct",
        };
        arguments.push(short("x-confirm-on"), on);
        let without = if spec.wants_consumer { "nack" } else { "wait" };
        arguments.push(short("x-confirm-on-no-consumer"), without);
        let mut limit = |name, limit: Option<u64>| {
            if let Some(limit) = limit {
                arguments.push(short(name), i64::try_from(limit).unwrap());
            }
        };
        limit("x-confirm-on-max-pending", spec.max_pending);
        limit("x-confirm-on-max-pending-bytes", spec.max_pending_bytes);
        if let Some(to) = spec.letters_to {
            arguments.push(short("x-dead-letter-exchange"), "");
            arguments.push(short("x-dead-letter-routing-key"), name_of(to).as_str());
        }
        let declare = QueueDeclaration {
            queue: short(&name_of(queue)),
            passive: false,
            durable: spec.durable,
            exclusive: false,
            auto_delete: false,
            arguments,
        };
        self.ask(0, PLAIN, Op::DeclareQueue(declare));
        let binding = QueueBinding {
            queue: short(&name_of(queue)),
            exchange: short("amq.fanout"),
            routing_key: short(""),
            arguments: Table::default(),
        };
        self.ask(0, PLAIN, Op::BindQueue(binding));
        self.model.queues[queue].is_there = true;
    }

    pub(crate) fn publish(&mut self, peer: usize, puts: &[Put]) {
        let (mut input, mut requests) = (Vec::new(), Vec::new());
        for put in puts {
            self.n_sent += 1;
            let mut body = format!("{}|", self.n_sent);
            body.extend(std::iter::repeat_n('x', put.n_more_bytes));
            let bytes = body.len() as u64;
            let (id, persistent, to) = (self.n_sent, put.persistent, put.to);
            let sent = Sent { id, bytes, persistent, to };
            let state = &mut self.peers[peer];
            if put.channel == TX {
                state.tx_publishes.push(sent);
            } else {
                self.model.put_in(sent, is_confirming(put.channel));
            }
            if is_confirming(put.channel) {
                let n = state.n_published.entry(put.channel).or_default();
                *n += 1;
                state.published.insert((put.channel, *n), sent.id);
            }
            requests.push(publish_of(put, &body, &mut input));
        }
        self.submit(peer, &input, requests);
    }

    /// A transaction that cannot be carried out.
    pub(crate) fn commit_in_vain(&mut self, peer: usize) {
        let mut input = Vec::new();
        let put = Put { channel: TX, to: Some(0), n_more_bytes: 0, persistent: false };
        let Request::Publish(publish) = publish_of(&put, "x", &mut input) else { return };
        let exchange = publish.routing_key;
        self.submit(peer, &input, vec![Request::Publish(Publish { exchange, ..publish })]);
        self.forget_settles(peer);
        self.end_channel(peer, TX);
        self.ask(peer, TX, Op::Commit);
        self.reopen_failed(peer, TX);
    }

    pub(crate) fn commit(&mut self, peer: usize) {
        self.forget_settles(peer);
        let state = &mut self.peers[peer];
        let publishes = std::mem::take(&mut state.tx_publishes);
        let settles = std::mem::take(&mut state.tx_settles);
        publishes.into_iter().for_each(|sent| self.model.put_in(sent, false));
        let mut fails = false;
        for (queue, name, outcome) in settles {
            fails |= !self.settle_in_model(queue, name, outcome);
        }
        if fails {
            self.end_channel(peer, TX);
        }
        self.ask(peer, TX, Op::Commit);
        if fails {
            self.reopen_failed(peer, TX);
        }
    }

    /// Deliveries a transaction has settled count as settled from its commit on.
    fn forget_settles(&mut self, peer: usize) {
        for (.., holder) in self.model.held(|holder| holder.peer == peer && holder.is_in_tx) {
            self.peers[peer].recorder.forget(holder.link.0, holder.position);
        }
    }

    pub(crate) fn roll_back(&mut self, peer: usize) {
        self.peers[peer].tx_publishes.clear();
        for (queue, name, _) in std::mem::take(&mut self.peers[peer].tx_settles) {
            if let Some(holder) = self.model.holder(queue, name) {
                holder.is_in_tx = false;
            }
        }
        self.ask(peer, TX, Op::RollBack);
    }

    /// Settles some of what a channel holds; all but acknowledgements concern one message.
    pub(crate) fn settle(&mut self, peer: usize, channel: u16, mask: u16, outcome: Outcome) {
        let held = self
            .model
            .held(|it| (it.peer, it.channel) == (peer, channel) && !it.by_write && !it.is_in_tx);
        let in_mask = |at: usize| mask & (1 << (at % 16)) != 0;
        let some = held.into_iter().enumerate().filter(|(at, _)| in_mask(*at));
        let mut some: Vec<_> = some.map(|(_, one)| one).collect();
        if outcome != Outcome::Accepted {
            some.truncate(1);
            // The order in which dead letters come is another matter.
            let is_other = |(_, _, outcome): &(usize, Name, Outcome)| *outcome != Outcome::Accepted;
            if channel == TX && self.peers[peer].tx_settles.iter().any(is_other) {
                return;
            }
        }
        let mut requests = Vec::new();
        let mut fails = false;
        for (queue, name, holder) in some {
            let Holder { link, position, .. } = holder;
            let channel_id = ChannelId(channel);
            requests.push(Request::Settle(Settle { channel: channel_id, link, position, outcome }));
            if channel == TX {
                self.peers[peer].tx_settles.push((queue, name, outcome));
                *self.model.holder(queue, name) = Some(Holder { is_in_tx: true, ..holder });
            } else {
                self.peers[peer].recorder.forget(link.0, position);
                fails |= !self.settle_in_model(queue, name, outcome);
            }
        }
        if fails {
            self.end_channel(peer, channel);
        }
        self.submit(peer, &[], requests);
        if fails {
            self.reopen_failed(peer, channel);
        }
    }

    /// False if that is refused.
    fn settle_in_model(&mut self, queue: usize, name: Name, outcome: Outcome) -> bool {
        let is_recorded = self.model.holder(queue, name).is_some_and(|it| it.is_recorded);
        match outcome {
            Outcome::Accepted => self.model.accept(queue, name),
            _ if !is_recorded => return false,
            Outcome::Rejected => self.model.reject(queue, name),
            Outcome::Modified | Outcome::Released => *self.model.holder(queue, name) = None,
        }
        true
    }

    /// Some of what is settled by being written is.
    pub(crate) fn write(&mut self, peer: usize, mask: u16) {
        let held = self.model.held(|it| it.peer == peer && it.by_write);
        let mut settles = Vec::new();
        for (at, (queue, name, holder)) in held.into_iter().enumerate() {
            if mask & (1 << (at % 16)) != 0 {
                self.model.accept(queue, name);
                let Holder { link, position, channel, .. } = holder;
                let (channel, outcome) = (ChannelId(channel), Outcome::Accepted);
                settles.push(Settle { channel, link, position, outcome });
            }
        }
        let session = self.peers[peer].session.as_mut().unwrap();
        session.settle_written(&mut settles);
        session.wake();
    }

    pub(crate) fn consume(&mut self, peer: usize, channel: u16, queue: usize, how: (bool, u16)) {
        let (no_ack, prefetch_count) = how;
        if !self.model.queues[queue].is_there {
            return;
        }
        self.ask(peer, channel, Op::SetPrefetch { prefetch_count, global: false });
        self.n_tags += 1;
        let tag = format!("c{}", self.n_tags);
        let consume = Attachment {
            queue: short(&name_of(queue)),
            consumer_tag: short(&tag),
            no_ack,
            source: None,
            exclusive: false,
            arguments: Table::default(),
        };
        self.model.queues[queue].n_consumers += 1;
        self.peers[peer].gets_from =
            Some(Link { queue, channel, no_ack, is_got: false, tag: Some(tag) });
        self.ask(peer, channel, Op::Attach(consume));
    }

    pub(crate) fn cancel(&mut self, peer: usize, at: usize) {
        let links = self.peers[peer].links.iter_mut().filter(|(_, link)| link.tag.is_some());
        let mut links: Vec<(&LinkId, &mut Link)> = links.collect();
        let at = at % links.len().max(1);
        let Some((id, link)) = links.get_mut(at) else { return };
        let (channel, queue) = (link.channel, link.queue);
        let Some(tag) = link.tag.take() else { return };
        let id = **id;
        self.model.record(|it| (it.peer, it.link) == (peer, id));
        self.model.queues[queue].n_consumers -= 1;
        self.ask(peer, channel, Op::Detach { consumer_tag: short(&tag) });
    }

    pub(crate) fn get(&mut self, peer: usize, channel: u16, queue: usize, no_ack: bool) {
        if self.model.queues[queue].is_there {
            self.peers[peer].gets_from =
                Some(Link { queue, channel, no_ack, is_got: true, tag: None });
            self.ask(peer, channel, Op::Get { queue: short(&name_of(queue)), no_ack });
        }
    }

    pub(crate) fn recover(&mut self, peer: usize, channel: u16) {
        let is_it =
            |it: &Holder| (it.peer, it.channel) == (peer, channel) && !it.by_write && !it.is_in_tx;
        let held = self.model.held(is_it);
        let held = held.iter().map(|(.., it)| (it.link.0, it.position));
        self.peers[peer].recorder.recover_some(held);
        self.model.give_back(is_it);
        // What a transaction has settled stays.
        self.model.record(|it| (it.peer, it.channel) == (peer, channel));
        self.ask(peer, channel, Op::ReleaseUnsettled);
        self.peers[peer].recorder.end_recovering();
    }

    pub(crate) fn close(&mut self, peer: usize, channel: u16) {
        self.end_channel(peer, channel);
        self.ask(peer, channel, Op::CloseChannel);
        self.open(peer, channel);
    }

    pub(crate) fn leave(&mut self, peer: usize) {
        CHANNELS.for_each(|channel| self.end_channel(peer, channel));
        let session = self.peers[peer].session.take().unwrap();
        self.node.block_on(session.close());
        let heard = Heard::take(&self.peers[peer].transcript);
        self.take_in(peer, Vec::new(), heard.given);
        self.peers[peer] = self.connected();
        CHANNELS.for_each(|channel| self.open(peer, channel));
    }

    /// In the model a channel ends.
    fn end_channel(&mut self, peer: usize, channel: u16) {
        self.model.give_back(|it| (it.peer, it.channel) == (peer, channel));
        let state = &mut self.peers[peer];
        let consumers = state.links.values().filter(|link| link.tag.is_some());
        for link in consumers.filter(|link| link.channel == channel) {
            self.model.queues[link.queue].n_consumers -= 1;
        }
        for ((_, _), id) in state.published.iter().filter(|((of, _), _)| *of == channel) {
            let publish = self.model.publishes.get_mut(id);
            publish.into_iter().for_each(|publish| publish.is_forgotten = true);
        }
        state.ended.extend(state.links.extract_if(.., |_, link| link.channel == channel));
        state.published.retain(|(of, _), _| *of != channel);
        state.n_published.remove(&channel);
        if channel == TX {
            state.tx_publishes.clear();
            state.tx_settles.clear();
        }
    }

    /// The broker has closed a channel, and another takes its place.
    fn reopen_failed(&mut self, peer: usize, channel: u16) {
        let heard = Heard::take(&self.peers[peer].transcript);
        assert_eq!(heard.failed, [ChannelId(channel)]);
        self.take_in(peer, heard.answers, heard.given);
        self.open(peer, channel);
    }

    pub(crate) fn purge(&mut self, queue: usize) {
        if self.model.queues[queue].is_there {
            self.model.purge(queue);
            self.ask(0, PLAIN, Op::PurgeQueue { queue: short(&name_of(queue)) });
        }
    }

    pub(crate) fn delete(&mut self, queue: usize) {
        self.model.delete(queue);
        for peer in &mut self.peers {
            peer.links.retain(|_, link| link.queue != queue);
            peer.tx_settles.retain(|(of, ..)| *of != queue);
        }
        let (queue, if_unused, if_empty) = (short(&name_of(queue)), Flag::No, Flag::No);
        self.ask(0, PLAIN, Op::DeleteQueue { queue, if_unused, if_empty });
    }

    /// Checks after each thing that is done: what was told meanwhile, and what is told once
    /// everything has happened that follows from it.
    pub(crate) fn check(&mut self) {
        self.hear();
        self.node.dry();
        for publish in self.model.publishes.values_mut() {
            publish.is_on_its_way = false;
        }
        self.hear();
        for (id, publish) in &self.model.publishes {
            if !publish.is_forgotten {
                assert_eq!(publish.answer, publish.expected(), "the answer to m{id}");
            }
        }
        let view = self.node.broker.view();
        for (at, queue) in self.model.queues.iter().enumerate().filter(|(_, it)| it.is_there) {
            let found = view.queue("/", &name_of(at)).unwrap();
            let pending = Diagnosis(&found).pending_confirms();
            assert_eq!((pending.n, pending.bytes), queue.pending(), "waiting for q{at}");
            let n_ready = found.local_stat().n_ready;
            assert_eq!(n_ready, queue.n_ready(), "ready in q{at}");
        }
        for peer in &self.peers {
            for channel in CHANNELS.filter(|channel| is_confirming(*channel)) {
                let of_channel = peer.published.iter().filter(|((of, _), _)| *of == channel);
                let n_open = of_channel
                    .filter(|(_, id)| self.model.publishes[id].answer.is_none())
                    .count() as u64;
                let session = peer.session.as_ref().unwrap();
                let listed = session.connection().n_unconfirmed(ChannelId(channel));
                assert_eq!(listed, n_open, "open on channel {channel}");
            }
        }
    }

    fn hear(&mut self) {
        for peer in 0..N_PEERS {
            let heard = Heard::take(&self.peers[peer].transcript);
            assert_eq!(heard.failed, [], "a channel has failed");
            if let Some(link) = heard.consuming {
                let asked = self.peers[peer].gets_from.take().expect("it was asked for");
                self.peers[peer].links.insert(link, asked);
            }
            self.take_in(peer, heard.answers, heard.given);
            self.peers[peer].gets_from = None;
        }
    }

    fn take_in(
        &mut self,
        peer: usize,
        answers: Vec<(ChannelId, u64, u64, bool)>,
        given: Vec<Given>,
    ) {
        for (channel, first, last, is_ack) in answers {
            for number in first..=last {
                let id = self.peers[peer].published.get(&(channel.0, number));
                let id = id.expect("a publish that is answered was made");
                let publish = self.model.publishes.get_mut(id).unwrap();
                assert_eq!(publish.answer, None, "m{id} is answered twice");
                assert_eq!(publish.expected(), Some(is_ack), "m{id} is answered");
                assert!(!(is_ack && publish.is_on_its_way), "m{id} is not on disk");
                publish.answer = Some(is_ack);
            }
        }
        for Given { link, position, id, is_letter, by_write } in given {
            let state = &mut self.peers[peer];
            if let Some(Link { queue, no_ack, .. }) = state.ended.get(&link) {
                if *no_ack && !by_write {
                    self.model.accept(*queue, (id, is_letter));
                }
                continue;
            }
            if !state.links.contains_key(&link) {
                let asked = state.gets_from.take().expect("what is got was asked for");
                state.links.insert(link, asked);
            }
            let Link { queue, channel, no_ack, is_got, .. } = self.peers[peer].links[&link];
            let is_recorded = is_got || self.model.queues[queue].spec.on != On::AckDirect;
            let is_late = self.model.queues[queue].waits_for_consumers();
            let name = (id, is_letter);
            let holder = self.model.holder(queue, name);
            assert_eq!(*holder, None, "m{id} of q{queue} is given to somebody else");
            assert_eq!(by_write, is_late && no_ack, "m{id} is settled by being written");
            let is_in_tx = false;
            *holder =
                Some(Holder { peer, channel, link, position, by_write, is_recorded, is_in_tx });
            if no_ack && !is_late {
                self.model.accept(queue, name);
            }
        }
    }

    /// Everything is consumed, and then answered.
    pub(crate) fn end(&mut self) {
        for peer in 0..N_PEERS {
            self.roll_back(peer);
            while self.peers[peer].links.values().any(|link| link.tag.is_some()) {
                self.cancel(peer, 0);
            }
            for channel in CHANNELS {
                self.settle(peer, channel, u16::MAX, Outcome::Accepted);
            }
            self.commit(peer);
            self.write(peer, u16::MAX);
            self.check();
        }
        for queue in 0..N_QUEUES {
            while self.model.queues[queue].is_there && self.model.queues[queue].n_ready() > 0 {
                self.get(0, PLAIN, queue, false);
                self.check();
                self.settle(0, PLAIN, u16::MAX, Outcome::Accepted);
                self.check();
            }
        }
        let publishes = &mut self.model.publishes.values();
        assert!(publishes.all(|publish| publish.is_forgotten || publish.answer.is_some()));
    }
}

fn publish_of(put: &Put, body: &str, input: &mut Vec<u8>) -> Request {
    let mut keep = |bytes: &[u8]| {
        let start = u32::try_from(input.len()).unwrap();
        input.extend_from_slice(bytes);
        Span { start, len: u32::try_from(bytes.len()).unwrap() }
    };
    let (exchange, key) = match put.to {
        Some(queue) => ("", name_of(queue)),
        None => ("amq.fanout", String::new()),
    };
    Request::Publish(Publish {
        channel: ChannelId(put.channel),
        head: session::HeadPlace::Content,
        exchange: keep(exchange.as_bytes()),
        routing_key: keep(key.as_bytes()),
        properties: keep(&[0, 0]),
        content: Content::Inline(keep(body.as_bytes())),
        form: message::BodyForm::Plain,
        mandatory: false,
        persistent: put.persistent,
        immediate: false,
        inspect: false,
    })
}
