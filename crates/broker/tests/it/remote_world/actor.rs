//! A client of one of the nodes: what it is in the middle of, what it holds, and what it is told.

use super::model::{Mark, Model, Published, Sight};
use super::node::{FANOUT, NODES, Running, USES, home_of, poll_once};
use crate::client::{control, short};
use broker::{Identity, Session};
use message::BodyForm;
use session::{
    Attachment, ChannelId, Content, HeadPlace, LinkId, Op, Outbox, Outcome, Position, Publish,
    QueueDeclaration, ReadInput, Request, Settle, Span, Table,
};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use testing::Random;
use testing::outbox::{Given, OwnedConfirmation, Recorder, Space, Transcript, What};
use testing::run::{Trace, fail};

type Task = Pin<Box<dyn Future<Output = Option<Session>>>>;

/// The answer that a client waits for.
#[derive(Clone, Debug)]
enum Doing {
    /// So many answers.
    Setup(usize),
    Nothing,
    Consume {
        tag: String,
        queue: String,
    },
    Get {
        queue: String,
    },
    Cancel {
        tag: String,
    },
    Purge {
        queue: String,
    },
    Declare,
    Commit,
    RollBack,
    Recover,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Confirms,
    Transactions,
}

/// A link, as long as it may have deliveries to settle.
struct LinkOf {
    queue: String,
    prefetch: u16,
    no_ack: bool,
    has_ended: bool,
    /// The newest of each publisher's that came for the first time.
    newest: BTreeMap<u64, u64>,
}

/// A message that the client has not settled.
#[derive(Clone)]
struct Held {
    link: u64,
    position: Position,
    queue: String,
    id: u64,
    mark: Mark,
    /// Its outcome, once the transaction commits.
    in_transaction: Option<Outcome>,
}

/// A client.
pub(super) struct Actor {
    pub(super) number: u64,
    pub(super) node: usize,
    recorder: Arc<Recorder>,
    transcript: Transcript,
    session: Option<Session>,
    task: Option<Task>,
    doing: Doing,
    /// The moments at which the requests were made that may fail by a fault since.
    marks: Vec<Mark>,
    mode: Mode,
    prefetch: u16,
    n_tags: u64,
    /// Links of consumers by their tags.
    consumers: BTreeMap<String, u64>,
    links: BTreeMap<u64, LinkOf>,
    held: Vec<Held>,
    sequence: u64,
    unconfirmed: BTreeMap<u64, u64>,
    /// Publishes of the transaction, with their queues.
    published: Vec<(Published, Vec<String>)>,
    /// The client's last request, for the trace.
    asked: String,
    has_failed: bool,
    pub(super) is_over: bool,
}

/// The number of a message; those of one publisher rise.
fn next_id(n_messages: &mut u64) -> u64 {
    *n_messages += 1;
    *n_messages
}

impl Actor {
    pub(super) fn connect(
        number: u64,
        node: usize,
        running: &Running,
        random: &mut Random,
    ) -> Self {
        let transcript = Transcript::default();
        let limit = random.choose(&[2, 10_000, 10_000]).unwrap();
        let recorder = Recorder::new(0, &transcript, Space::Deliveries(limit));
        let identity = Identity {
            user: "guest".to_owned(),
            vhost: "/".to_owned(),
            name: "actor".to_owned(),
            ..Identity::default()
        };
        let outbox: Arc<dyn Outbox> = recorder.clone();
        let session = Session::open(Arc::clone(&running.broker), identity, outbox).unwrap();
        let modes = [Mode::Plain, Mode::Confirms, Mode::Confirms, Mode::Transactions];
        let mut actor = Self {
            number,
            node,
            recorder,
            transcript,
            session: Some(session),
            task: None,
            doing: Doing::Nothing,
            marks: Vec::new(),
            mode: random.choose(&modes).unwrap(),
            prefetch: random.choose(&[0, 1, 2, 5]).unwrap(),
            n_tags: 0,
            consumers: BTreeMap::new(),
            links: BTreeMap::new(),
            held: Vec::new(),
            sequence: 0,
            unconfirmed: BTreeMap::new(),
            published: Vec::new(),
            asked: String::new(),
            has_failed: false,
            is_over: false,
        };
        let prefetch_count = actor.prefetch;
        let mut ops = vec![Op::OpenChannel, Op::SetPrefetch { prefetch_count, global: false }];
        match actor.mode {
            Mode::Plain => {}
            Mode::Confirms => ops.push(Op::EnableConfirms),
            Mode::Transactions => ops.push(Op::EnableTransactions),
        }
        let doing = Doing::Setup(ops.len());
        actor.submit(Vec::new(), ops.into_iter().map(control).collect(), doing);
        actor
    }

    pub(super) fn is_idle(&self) -> bool {
        self.task.is_none() && self.session.is_some()
    }

    pub(super) fn describe(&self) -> String {
        format!("client {} at {}: {:?}{}", self.number, NODES[self.node], self.doing, self.asked)
    }

    fn submit(&mut self, input: Vec<u8>, mut requests: Vec<Request>, doing: Doing) {
        let mut session = self.session.take().unwrap();
        self.doing = doing;
        self.task = Some(Box::pin(async move {
            let read = ReadInput::of(&input);
            let is_over = session.submit(&read, &mut requests).await.is_err();
            session.wake();
            (!is_over).then_some(session)
        }));
    }

    fn ask(&mut self, op: Op, doing: Doing) {
        self.submit(Vec::new(), vec![control(op)], doing);
    }

    /// The client goes without a word.
    pub(super) fn close(&mut self) {
        let session = self.session.take().unwrap();
        self.let_go();
        self.doing = Doing::Close;
        self.task = Some(Box::pin(async move {
            session.close().await;
            None
        }));
    }

    /// The messages that the client held come back.
    fn let_go(&mut self) {
        self.held.clear();
        self.consumers.clear();
        self.published.clear();
        self.links.values_mut().for_each(|link| link.has_ended = true);
    }

    /// Goes on with what the client is in the middle of; returns whether anything has happened.
    pub(super) fn step(&mut self, model: &mut Model, others: &[Self], trace: &mut Trace) -> bool {
        let mut is_active = false;
        if let Some(task) = &mut self.task
            && let Some(session) = poll_once(task.as_mut())
        {
            is_active = true;
            self.task = None;
            self.is_over = session.is_none();
            self.session = session;
        }
        is_active |= self.hear(model, others, trace);
        if self.is_idle() {
            let paused = self.recorder.read_all();
            let session = self.session.as_mut().unwrap();
            is_active |= !paused.is_empty();
            session.resume(&paused);
            session.wake();
            is_active |= self.hear(model, others, trace);
            if !matches!(self.doing, Doing::Nothing) && !self.has_failed {
                fail(format!("{} is not answered", self.describe()));
            }
            if self.has_failed {
                self.close();
            }
        }
        is_active
    }

    /// Takes in what the client is told.
    pub(super) fn hear(&mut self, model: &mut Model, others: &[Self], trace: &mut Trace) -> bool {
        let events = std::mem::take(&mut *stdx::lock(&self.transcript));
        let is_active = !events.is_empty();
        for (_, what) in events {
            trace.note(format!("client {} at {}: {what}", self.number, NODES[self.node]));
            self.take_in(what, model, others);
        }
        is_active
    }

    fn take_in(&mut self, what: What, model: &mut Model, others: &[Self]) {
        let doing = self.doing.clone();
        match (what, doing) {
            (What::ChannelOpened | What::Done, Doing::Setup(left)) => {
                self.doing = if left > 1 { Doing::Setup(left - 1) } else { Doing::Nothing };
            }
            (What::Deliver { given, .. }, _) => {
                let is_over = self.links.get(&given.link).is_none_or(|link| link.has_ended);
                // After its session's end deliveries may still be written.
                if is_over && !matches!(self.doing, Doing::Close) && !self.has_failed {
                    fail(format!("a delivery to link {}, which has ended", given.link));
                }
                if !is_over {
                    let home = home_of(&self.links[&given.link].queue);
                    let mark = model.faults.mark(self.node, home);
                    self.take(&given, mark, model, others);
                }
            }
            (What::Got { given, no_ack, .. }, Doing::Get { queue }) => {
                let link = LinkOf::new(queue, 0, no_ack);
                self.links.entry(given.link).or_insert(link).no_ack = no_ack;
                // A connection may have ended since the answer was on its way.
                let mark = self.marks[0];
                self.take(&given, mark, model, others);
                self.doing = Doing::Nothing;
            }
            (What::Consuming { link, no_ack, .. }, Doing::Consume { tag, queue }) => {
                self.links.insert(link, LinkOf::new(queue, self.prefetch, no_ack));
                self.consumers.insert(tag, link);
                self.doing = Doing::Nothing;
            }
            (What::ConsumerCancelled { tag, .. }, _) => self.lose_consumer(&tag),
            (What::Cancelled { .. }, Doing::Cancel { tag }) => {
                if let Some(link) = self.consumers.remove(&tag) {
                    self.links.get_mut(&link).unwrap().has_ended = true;
                }
                self.doing = Doing::Nothing;
            }
            (What::Purged(_), Doing::Purge { queue }) => {
                model.end_purge(&queue);
                self.doing = Doing::Nothing;
            }
            (What::Done, Doing::Commit) => {
                self.published.drain(..).for_each(|(message, _)| model.confirmed(message.id));
                self.doing = Doing::Nothing;
            }
            (What::Done, Doing::RollBack) => {
                self.published.clear();
                self.held.iter_mut().for_each(|held| held.in_transaction = None);
                self.doing = Doing::Nothing;
            }
            (What::Done, Doing::Recover) => {
                self.recorder.end_recovering();
                self.held.clear();
                self.doing = Doing::Nothing;
            }
            (What::GetEmpty, Doing::Get { .. }) | (What::Declared { .. }, Doing::Declare) => {
                self.doing = Doing::Nothing;
            }
            (What::Confirm { first, last, answer, .. }, _) => {
                (first..=last).for_each(|sequence| self.answered(sequence, &answer, model));
            }
            (What::ChannelFailed { text, .. }, _) => self.fail_channel(&text, model),
            (what, doing) => fail(format!("{what:?} while {doing:?}")),
        }
    }

    fn lose_consumer(&mut self, tag: &str) {
        let is_expected = matches!(self.doing, Doing::Close | Doing::Consume { .. });
        let Some(link) = self.consumers.remove(tag) else {
            if !is_expected && !self.has_failed {
                fail(format!("consumer {tag}, which there is not, is cancelled"));
            }
            return;
        };
        let link = self.links.get_mut(&link).unwrap();
        link.has_ended = true;
        if self.node == home_of(&link.queue) {
            fail(format!("a consumer at {} is cancelled", NODES[home_of(&link.queue)]));
        }
    }

    fn answered(&mut self, sequence: u64, answer: &OwnedConfirmation, model: &mut Model) {
        let Some(id) = self.unconfirmed.remove(&sequence) else {
            fail(format!("publish {sequence} is answered twice"));
        };
        if answer.is_ack() { model.confirmed(id) } else { model.refused(id) }
    }

    fn fail_channel(&mut self, text: &str, model: &Model) {
        if self.marks.iter().all(|mark| model.faults.is_clean(*mark)) {
            fail(format!("the channel fails without a fault: {text}"));
        }
        self.has_failed = true;
        self.unconfirmed.clear();
        self.let_go();
    }

    /// Takes a delivery.
    fn take(&mut self, given: &Given, mark: Mark, model: &mut Model, others: &[Self]) {
        let id = given.content.id().unwrap();
        let publisher = id >> 32;
        let link = self.links.get_mut(&given.link).unwrap();
        let (queue, no_ack) = (link.queue.clone(), link.no_ack);
        if !given.redelivered && !queue.ends_with(".d") {
            let newest = link.newest.entry(publisher).or_default();
            if *newest >= id {
                fail(format!("m{id} comes behind m{newest}"));
            }
            *newest = id;
        }
        let prefetch = link.prefetch;
        let is_of = |held: &&Held| held.queue == queue && held.id == id;
        let all = others.iter().chain(std::iter::once(&*self));
        let held = all.filter(|it| !matches!(it.doing, Doing::Recover)).flat_map(|it| &it.held);
        let mut holders = held.filter(is_of);
        let is_held = holders.any(|held| model.faults.is_clean(held.mark));
        model.seen((&queue, id), mark, Sight { redelivered: given.redelivered, is_held });
        if no_ack {
            return model.settled(&queue, id, mark, Outcome::Accepted);
        }
        let (link, position) = (given.link, given.position);
        self.held.push(Held { link, position, queue, id, mark, in_transaction: None });
        let n_held = self.held.iter().filter(|held| held.link == link).count();
        if prefetch > 0 && n_held > usize::from(prefetch) {
            fail(format!("link {link} has {n_held} messages"));
        }
    }

    /// Does something new.
    pub(super) fn act(&mut self, random: &mut Random, model: &mut Model, n_messages: &mut u64) {
        self.asked.clear();
        let queue = some_queue(random, model.n_nodes);
        self.marks = vec![model.faults.mark(self.node, home_of(&queue))];
        let no_ack = queue.ends_with(".n") && random.percent(60);
        match random.below(100) {
            0..35 => self.publish(random, model, n_messages),
            35..65 if !self.held.is_empty() => self.settle_some(random, model),
            65..75 => {
                self.n_tags += 1;
                let tag = format!("t{}", self.n_tags);
                self.ask(
                    Op::Attach(Attachment {
                        queue: short(&queue),
                        consumer_tag: short(&tag),
                        no_ack,
                        source: None,
                        exclusive: false,
                        arguments: Table::default(),
                    }),
                    Doing::Consume { tag, queue },
                );
            }
            75..83 => self.ask(Op::Get { queue: short(&queue), no_ack }, Doing::Get { queue }),
            83..86 => {
                let tags: Vec<&String> = self.consumers.keys().collect();
                if let Some(tag) = random.choose(&tags).cloned() {
                    let consumer_tag = short(&tag);
                    let doing = Doing::Cancel { tag: tag.clone() };
                    self.ask(Op::Detach { consumer_tag }, doing);
                }
            }
            86 => {
                model.begin_purge(&queue);
                self.ask(Op::PurgeQueue { queue: short(&queue) }, Doing::Purge { queue });
            }
            87..90 => self.ask(
                Op::DeclareQueue(QueueDeclaration {
                    queue: short(&queue),
                    passive: true,
                    durable: true,
                    exclusive: false,
                    auto_delete: false,
                    arguments: Table::default(),
                }),
                Doing::Declare,
            ),
            90..92 if self.mode != Mode::Transactions => self.recover(),
            92..98 if self.mode == Mode::Transactions => self.end_transaction(random, model),
            98.. => self.close(),
            _ => {}
        }
    }

    /// The messages that the client holds come back, with those that it is given before it is answered.
    fn recover(&mut self) {
        let held = self.held.iter().map(|held| (held.link, held.position));
        self.recorder.recover_some(held);
        self.ask(Op::ReleaseUnsettled, Doing::Recover);
    }

    fn end_transaction(&mut self, random: &mut Random, model: &mut Model) {
        if random.percent(30) {
            return self.ask(Op::RollBack, Doing::RollBack);
        }
        for (message, queues) in &self.published {
            model.put(*message, queues);
            let homes = queues.iter().map(|queue| home_of(queue));
            self.marks.extend(homes.map(|home| model.faults.mark(self.node, home)));
        }
        for held in self.held.extract_if(.., |held| held.in_transaction.is_some()) {
            let outcome = held.in_transaction.unwrap();
            model.settled(&held.queue, held.id, held.mark, outcome);
            self.marks.push(held.mark);
        }
        self.ask(Op::Commit, Doing::Commit);
    }

    fn publish(&mut self, random: &mut Random, model: &mut Model, n_messages: &mut u64) {
        let (mut input, mut requests) = (Vec::new(), Vec::new());
        for _ in 0..=random.below(4) {
            let id = self.number << 32 | next_id(n_messages);
            let persistent = random.percent(70);
            let (exchange, key, queues) = if random.percent(15) {
                let queues = NODES.iter().take(model.n_nodes).map(|node| format!("{node}.q"));
                (FANOUT, String::new(), queues.collect())
            } else {
                let queue = some_queue(random, model.n_nodes);
                ("", queue.clone(), vec![queue])
            };
            let n_more = if random.percent(2) { 150_000 } else { random.below(40) };
            let body = testing::outbox::Content::numbered_body(id, n_more);
            let message = Published { id, persistent, from: self.node };
            let kind = if persistent { "" } else { " transient" };
            self.asked += &format!(", m{id}{kind} to {queues:?}");
            match self.mode {
                Mode::Transactions => self.published.push((message, queues)),
                Mode::Plain => model.put(message, &queues),
                Mode::Confirms => {
                    model.put(message, &queues);
                    self.sequence += 1;
                    self.unconfirmed.insert(self.sequence, id);
                }
            }
            requests.push(Request::Publish(Publish {
                channel: ChannelId(1),
                head: HeadPlace::Content,
                exchange: put(&mut input, exchange.as_bytes()),
                routing_key: put(&mut input, key.as_bytes()),
                properties: put(&mut input, &[0, 0]),
                content: Content::Inline(put(&mut input, &body)),
                form: BodyForm::Plain,
                mandatory: false,
                persistent,
                immediate: false,
                inspect: false,
            }));
        }
        self.submit(input, requests, Doing::Nothing);
    }

    fn settle_some(&mut self, random: &mut Random, model: &mut Model) {
        use Outcome::{Accepted, Modified, Rejected, Released};
        let outcomes = [Accepted, Accepted, Accepted, Rejected, Rejected, Modified, Released];
        let mut requests = Vec::new();
        let (mut n, percent) = (1 + random.below(4), random.choose(&[40, 100]).unwrap());
        let outcome = random.choose(&outcomes).unwrap();
        let mut left = Vec::new();
        for mut held in std::mem::take(&mut self.held) {
            if n == 0 || held.in_transaction.is_some() || !random.percent(percent) {
                left.push(held);
                continue;
            }
            n -= 1;
            let (link, position) = (held.link, held.position);
            self.recorder.forget(link, position);
            self.asked += &format!(", {outcome:?} m{} of {}", held.id, held.queue);
            let settle = Settle { channel: ChannelId(1), link: LinkId(link), position, outcome };
            requests.push(Request::Settle(settle));
            if self.mode == Mode::Transactions {
                held.in_transaction = Some(outcome);
                left.push(held);
            } else {
                model.settled(&held.queue, held.id, held.mark, outcome);
            }
        }
        self.held = left;
        self.submit(Vec::new(), requests, Doing::Nothing);
    }

    /// Everything is idle: what the client waits for is there. Counts what it has at each queue.
    pub(super) fn count(&self, model: &Model, counts: &mut BTreeMap<String, AtQueue>) {
        if self.task.is_some() || !self.unconfirmed.is_empty() {
            fail(format!("{} waits: {:?}", self.describe(), self.unconfirmed));
        }
        for link in self.consumers.values() {
            let queue = self.links[link].queue.clone();
            counts.entry(queue).or_default().n_consumers += 1;
        }
        for held in &self.held {
            let at_queue = counts.entry(held.queue.clone()).or_default();
            at_queue.n_held += u64::from(model.faults.is_clean(held.mark));
            at_queue.n_perhaps += 1;
        }
    }
}

/// The consumers and messages that clients have at a queue.
#[derive(Debug, Default)]
pub(super) struct AtQueue {
    pub(super) n_consumers: u64,
    /// Messages that they hold for sure.
    pub(super) n_held: u64,
    /// Messages that they hold unless a fault has taken these away.
    pub(super) n_perhaps: u64,
}

impl LinkOf {
    const fn new(queue: String, prefetch: u16, no_ack: bool) -> Self {
        Self { queue, prefetch, no_ack, has_ended: false, newest: BTreeMap::new() }
    }
}

pub(super) fn some_queue(random: &mut Random, n_nodes: usize) -> String {
    let (node, of) = (random.below(n_nodes), random.choose(&USES).unwrap());
    format!("{}.{of}", NODES[node])
}

fn put(input: &mut Vec<u8>, bytes: &[u8]) -> Span {
    let start = u32::try_from(input.len()).unwrap();
    input.extend_from_slice(bytes);
    Span { start, len: u32::try_from(bytes.len()).unwrap() }
}
