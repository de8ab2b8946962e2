//! A client without a protocol: requests in, a transcript of what the outbox was given out.

use broker::{Broker, BrokerOptions, Identity, Limits, Session, StorageOptions};
use log::WalOptions;
use message::{BodyForm, Properties};
use meta::{ApplyTo, Command, Json, PolicyScope, PolicySpec};
use segments::Disk;
use session::{
    Attachment, ChannelId, ConsumerCredit, Content, Control, CreditRequest, ExchangeDeclaration,
    LinkId, LinkSource, MessageChanges, MethodTag, Modification, Op, Outbox, Outcome, Position,
    Publish, QueueBinding, QueueDeclaration, Request, ReturnReason, Settle, ShortString, Span,
    Table, Value,
};
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use stdx::Now;
use testing::outbox::{
    Content as Message, Given, OwnedConfirmation, Recorder, Space, Transcript, What,
};
use testing::{MemoryDisk, first_user};

/// The first data section; the sections if there is none.
pub(crate) fn data_of(sections: &[u8]) -> &[u8] {
    let data = |it| if let Ok(amqp10::Section::Data(data)) = it { Some(data) } else { None };
    amqp10::Sections::new(sections).find_map(data).unwrap_or(sections)
}

/// A client's side of what it was told.
#[derive(Default)]
struct Told {
    /// Events as short texts.
    lines: Vec<String>,
    /// Links without acknowledgements.
    no_ack: HashSet<u64>,
    unsettled: Vec<(u64, Position)>,
    /// To be settled once they are written.
    unwritten: Vec<(u64, Position)>,
    /// The message that came last.
    last: Option<Given>,
    /// Answers to publishes, by the number of the first.
    answers: Vec<(u64, OwnedConfirmation)>,
    /// Deliveries by link; of each consumer that there ever was.
    n_delivered: BTreeMap<u64, u32>,
    /// Credit that was told, by link.
    credits: Vec<(u64, ConsumerCredit)>,
}

impl Told {
    fn take_in(&mut self, what: What) {
        self.lines.push(line(&what));
        if let What::Consuming { link, .. } = &what {
            self.n_delivered.insert(*link, 0);
        }
        match what {
            What::Consuming { link, no_ack: true, .. } => drop(self.no_ack.insert(link)),
            What::Deliver { given, .. } => {
                let no_ack = self.no_ack.contains(&given.link);
                *self.n_delivered.entry(given.link).or_default() += 1;
                self.note(given, no_ack);
            }
            What::Got { given, no_ack, .. } => self.note(given, no_ack),
            What::Confirm { first, answer, .. } => self.answers.push((first, answer)),
            What::Flowed { link, credit } => self.credits.push((link, credit)),
            _ => {}
        }
    }

    fn note(&mut self, given: Given, no_ack: bool) {
        if given.by_write {
            self.unwritten.push((given.link, given.position));
        } else if !no_ack {
            self.unsettled.push((given.link, given.position));
        }
        self.last = Some(given);
    }
}

fn line(what: &What) -> String {
    let text = |content: &Message| {
        let body = match content.form {
            BodyForm::Plain => &*content.body,
            BodyForm::Amqp10 => data_of(&content.body),
        };
        String::from_utf8_lossy(body).into_owned()
    };
    let body = |given: &Given| text(&given.content) + if given.redelivered { " again" } else { "" };
    match what {
        What::Deliver { given, .. } => format!("deliver {}", body(given)),
        What::Got { given, n_ready, .. } => format!("got {} left {n_ready}", body(given)),
        What::GetEmpty => "get empty".to_owned(),
        What::Flowed { credit, .. } => {
            let drained = if credit.drain { " drained" } else { "" };
            let ConsumerCredit { delivery_count, credit, available, .. } = credit;
            format!("credit {delivery_count}+{credit} of {available}{drained}")
        }
        What::TimedOut { positions, .. } => format!("{} timed out", positions.len()),
        What::Consuming { .. } => "consuming".to_owned(),
        What::Cancelled { .. } => "cancelled".to_owned(),
        What::ConsumerCancelled { .. } => "consumer lost".to_owned(),
        What::Done => "done".to_owned(),
        What::Declared { n_ready, n_consumers, .. } => format!("declared {n_ready} {n_consumers}"),
        What::Purged(n_messages) => format!("purged {n_messages}"),
        What::Deleted(n_messages) => format!("deleted {n_messages}"),
        What::Returned(content, ReturnReason::Unroutable) => format!("returned {}", text(content)),
        What::Returned(content, ReturnReason::NoConsumers) => {
            format!("returned {} without consumers", text(content))
        }
        What::ChannelOpened => "opened".to_owned(),
        What::ChannelClosed(_) => "closed".to_owned(),
        What::ChannelFailed { kind, text, .. } => format!("channel failed {kind:?}: {text}"),
        What::ConnectionClosed => "connection closed".to_owned(),
        What::ConnectionFailed { kind, text } => format!("connection failed {kind:?}: {text}"),
        What::Blocked(reason) => format!("blocked {reason}"),
        What::Unblocked => "unblocked".to_owned(),
        What::Confirm { first, last, answer, .. } => {
            format!("{} {first}..={last}", if answer.is_ack() { "ack" } else { "nack" })
        }
        What::Link(event) => format!("{event:?}"),
        What::Refused { kind, text } => format!("refused {kind:?}: {text}"),
        What::Management(event) => event.clone(),
        What::Stream(what) => format!("{what:?}"),
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        assert!(Instant::now() < deadline, "the broker did not answer");
        std::thread::yield_now();
    }
}

pub(crate) fn short(text: &str) -> ShortString {
    ShortString::new(text.as_bytes()).unwrap()
}

/// Starts a node on `disk`; a new one gets vhost `/` and user `guest`.
pub(crate) fn start(disk: &Arc<MemoryDisk>) -> Arc<Broker> {
    start_on(disk.clone())
}

/// As [`start`], on any disk.
pub(crate) fn start_on(disk: Arc<dyn Disk>) -> Arc<Broker> {
    start_with(disk, &StorageOptions::default())
}

/// As [`start_on`], with other limits.
pub(crate) fn start_with(disk: Arc<dyn Disk>, storage: &StorageOptions) -> Arc<Broker> {
    start_limited(disk, storage, Limits::default())
}

/// As [`start_with`], with limits for clients.
pub(crate) fn start_limited(
    disk: Arc<dyn Disk>,
    storage: &StorageOptions,
    limits: Limits,
) -> Arc<Broker> {
    let settings = BrokerOptions { limits, ..BrokerOptions::from(storage.clone()) };
    start_set(disk, settings)
}

/// As [`start_on`], with any settings.
pub(crate) fn start_set(disk: Arc<dyn Disk>, settings: BrokerOptions) -> Arc<Broker> {
    let options = WalOptions { segment_bytes: 1 << 20, ..WalOptions::default() };
    let broker = Broker::open_with(disk, options, settings).unwrap();
    if broker.is_new() {
        for command in first_user() {
            block_on(broker.apply_definition(command)).unwrap();
        }
    }
    broker.tick(Now::at_ms(1));
    broker
}

/// Sets the policy of that scope, for all exchanges and queues whose names match.
pub(crate) fn set_policy(broker: &Broker, scope: PolicyScope, pattern: &str, definition: &str) {
    block_on(broker.apply_definition(policy(scope, pattern, definition))).unwrap();
}

/// The command that sets it.
pub(crate) fn policy(scope: PolicyScope, pattern: &str, definition: &str) -> Command {
    let policy = PolicySpec {
        name: "policy".into(),
        pattern: pattern.to_owned(),
        apply_to: ApplyTo::All,
        definition: Json::parse(definition).unwrap(),
        priority: 0,
    };
    Command::SetPolicy { scope, vhost: "/".into(), policy }
}

/// Takes away what [`set_policy`] has set.
pub(crate) fn clear_policy(broker: &Broker, scope: PolicyScope) {
    let (vhost, name) = ("/".into(), "policy".into());
    block_on(broker.apply_definition(Command::ClearPolicy { scope, vhost, name })).unwrap();
}

/// A connection with channel 1 open.
pub(crate) struct Client {
    session: Option<Session>,
    recorder: Arc<Recorder>,
    transcript: Transcript,
    told: Mutex<Told>,
}

impl Client {
    pub(crate) fn connect(broker: &Arc<Broker>) -> Self {
        Self::connect_by(broker, Identity::default())
    }

    /// A client of AMQP 1.0.
    pub(crate) fn connect_with_links(broker: &Arc<Broker>) -> Self {
        Self::connect_by(
            broker,
            Identity { protocol: session::ProtocolKind::Amqp10, ..Identity::default() },
        )
    }

    fn connect_by(broker: &Arc<Broker>, identity: Identity) -> Self {
        let transcript = Transcript::default();
        let recorder = Recorder::new(0, &transcript, Space::default());
        let identity = Identity {
            user: "guest".to_owned(),
            vhost: "/".to_owned(),
            name: "test".to_owned(),
            ..identity
        };
        let outbox: Arc<dyn Outbox> = recorder.clone();
        let session = Session::open(Arc::clone(broker), identity, outbox).unwrap();
        let mut client =
            Self { session: Some(session), recorder, transcript, told: Mutex::default() };
        // Clients that have windows are told first whether there are alarms.
        assert_eq!(client.ask(Op::OpenChannel).last().unwrap(), "opened");
        client
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        self.session.as_mut().unwrap()
    }

    /// Everything the client was told since it was last asked.
    pub(crate) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.told().lines)
    }

    /// Answers to publishes since this was last asked, by the number of the first publish of a run.
    pub(crate) fn answers(&self) -> Vec<(u64, OwnedConfirmation)> {
        std::mem::take(&mut self.told().answers)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        let events = std::mem::take(&mut *self.transcript.lock().unwrap());
        let mut told = self.told.lock().unwrap();
        events.into_iter().for_each(|(_, what)| told.take_in(what));
        told
    }

    /// `heard` and what follows it, once there are `n` lines.
    pub(crate) fn wait_for(&self, mut heard: Vec<String>, n: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while heard.len() < n {
            assert!(Instant::now() < deadline, "heard only {heard:?}");
            heard.extend(self.heard());
            std::thread::yield_now();
        }
        heard
    }

    pub(crate) fn submit(&mut self, input: &[u8], mut requests: Vec<Request>) -> Vec<String> {
        let session = self.session.as_mut().unwrap();
        let _stopped =
            block_on(session.submit(&session::ReadInput::of(input), &mut requests)).is_err();
        assert!(requests.is_empty());
        self.heard()
    }

    pub(crate) fn ask(&mut self, op: Op) -> Vec<String> {
        self.submit(&[], vec![control(op)])
    }

    pub(crate) fn declare(&mut self, queue: &str, durable: bool) -> Vec<String> {
        self.declare_with(queue, durable, &[])
    }

    /// Declares a queue with arguments.
    pub(crate) fn declare_with(
        &mut self,
        queue: &str,
        durable: bool,
        arguments: &[(&'static str, Value)],
    ) -> Vec<String> {
        self.ask(Op::DeclareQueue(declaration(queue, durable, arguments)))
    }

    /// Declares a queue passively.
    pub(crate) fn look_up(&mut self, queue: &str) -> Vec<String> {
        let declaration = QueueDeclaration { passive: true, ..declaration(queue, false, &[]) };
        self.ask(Op::DeclareQueue(declaration))
    }

    /// Declares a durable exchange.
    pub(crate) fn declare_exchange(
        &mut self,
        name: &str,
        kind: &str,
        arguments: &[(&'static str, Value)],
    ) -> Vec<String> {
        self.ask(Op::DeclareExchange(ExchangeDeclaration {
            exchange: short(name),
            kind: short(kind),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: table(arguments),
        }))
    }

    /// Binds a queue.
    pub(crate) fn bind(&mut self, exchange: &str, queue: &str, key: &str) {
        assert_eq!(self.bind_with(exchange, queue, key, Table::default()), ["done"]);
    }

    /// Binds a queue with arguments, if that is allowed.
    pub(crate) fn bind_with(
        &mut self,
        exchange: &str,
        queue: &str,
        key: &str,
        arguments: Table,
    ) -> Vec<String> {
        self.ask(Op::BindQueue(QueueBinding {
            queue: short(queue),
            exchange: short(exchange),
            routing_key: short(key),
            arguments,
        }))
    }

    /// Consumes with arguments.
    pub(crate) fn consume_with(
        &mut self,
        queue: &str,
        tag: &str,
        exclusive: bool,
        arguments: &[(&'static str, Value)],
    ) -> Vec<String> {
        self.ask(Op::Attach(Attachment {
            queue: short(queue),
            consumer_tag: short(tag),
            no_ack: false,
            source: None,
            exclusive,
            arguments: table(arguments),
        }))
    }

    /// Consumes by link credit; returns the link.
    pub(crate) fn consume_by_credit(&mut self, queue: &str, tag: &str, no_ack: bool) -> u64 {
        self.consume_by_credit_with(queue, tag, no_ack, &[])
    }

    /// As [`Client::consume_by_credit`], with arguments.
    pub(crate) fn consume_by_credit_with(
        &mut self,
        queue: &str,
        tag: &str,
        no_ack: bool,
        arguments: &[(&'static str, Value)],
    ) -> u64 {
        self.ask(Op::Attach(Attachment {
            queue: short(queue),
            consumer_tag: short(tag),
            no_ack,
            source: Some(LinkSource::default()),
            exclusive: false,
            arguments: table(arguments),
        }));
        *self.told().n_delivered.last_key_value().unwrap().0
    }

    /// The link that was attached last.
    pub(crate) fn last_link(&self) -> u64 {
        *self.told().n_delivered.last_key_value().unwrap().0
    }

    /// Consumes by link credit with filters, an encoded map; returns the link.
    pub(crate) fn consume_filtered(&mut self, queue: &str, tag: &str, filters: Vec<u8>) -> u64 {
        self.ask(Op::Attach(Attachment {
            queue: short(queue),
            consumer_tag: short(tag),
            no_ack: true,
            source: Some(LinkSource { filters, browses: false }),
            exclusive: false,
            arguments: Table::default(),
        }));
        *self.told().n_delivered.last_key_value().unwrap().0
    }

    /// Gives a link credit.
    pub(crate) fn flow(&mut self, link: u64, seen: u32, credit: u32, how: &str) -> Vec<String> {
        let (channel, link) = (ChannelId(1), LinkId(link));
        let (drain, echo) = (how.contains("drain"), how.contains("echo"));
        let request = CreditRequest { channel, link, delivery_count: seen, credit, drain, echo };
        self.submit(&[], vec![Request::Flow(request)])
    }

    /// Deliveries on a link since this was last asked.
    pub(crate) fn take_n_delivered(&self, link: u64) -> u32 {
        self.told().n_delivered.get_mut(&link).map(std::mem::take).unwrap_or_default()
    }

    /// Credit that was told since this was last asked, by link.
    pub(crate) fn credits(&self) -> Vec<(u64, ConsumerCredit)> {
        std::mem::take(&mut self.told().credits)
    }

    /// Whether a link waits until the client has read.
    pub(crate) fn is_full(&self, link: u64) -> bool {
        self.recorder.is_full(link)
    }

    pub(crate) fn consume(&mut self, queue: &str, no_ack: bool) -> Vec<String> {
        self.ask(Op::Attach(Attachment {
            queue: short(queue),
            consumer_tag: short(""),
            no_ack,
            source: None,
            exclusive: false,
            arguments: Table::default(),
        }))
    }

    pub(crate) fn get(&mut self, queue: &str) -> Vec<String> {
        self.ask(Op::Get { queue: short(queue), no_ack: false })
    }

    /// Publishes bodies to a queue through the default exchange, in one read.
    pub(crate) fn publish(&mut self, queue: &str, bodies: &[&str], kind: Kind) -> Vec<String> {
        self.publish_to("", queue, bodies, kind)
    }

    /// Publishes bodies to an exchange, in one read.
    pub(crate) fn publish_to(
        &mut self,
        exchange: &str,
        key: &str,
        bodies: &[&str],
        kind: Kind,
    ) -> Vec<String> {
        let mut input = Vec::new();
        let mut requests = Vec::new();
        for body in bodies {
            let exchange = put(&mut input, exchange.as_bytes());
            let routing_key = put(&mut input, key.as_bytes());
            let properties = put(&mut input, &[0, 0]);
            let body = put(&mut input, body.as_bytes());
            requests.push(Request::Publish(Publish {
                channel: ChannelId(1),
                head: session::HeadPlace::Content,
                exchange,
                routing_key,
                properties,
                content: Content::Inline(body),
                form: BodyForm::Plain,
                mandatory: matches!(kind, Kind::Mandatory),
                persistent: matches!(kind, Kind::Persistent),
                immediate: false,
                inspect: false,
            }));
        }
        self.submit(&input, requests)
    }

    /// Publishes a request that asks for a direct reply.
    pub(crate) fn request(&mut self, queue: &str, body: &str) -> Vec<String> {
        let properties =
            Properties { reply_to: Some(short("amq.rabbitmq.reply-to")), ..Properties::default() };
        self.publish_with("", queue, &[(properties, body)])
    }

    /// Publishes bodies with properties that the broker looks at, in one read.
    pub(crate) fn publish_with(
        &mut self,
        exchange: &str,
        key: &str,
        messages: &[(Properties, &str)],
    ) -> Vec<String> {
        self.publish_as(exchange, key, messages, Kind::Transient)
    }

    /// As [`Client::publish_with`], of another kind.
    pub(crate) fn publish_as(
        &mut self,
        exchange: &str,
        key: &str,
        messages: &[(Properties, &str)],
        kind: Kind,
    ) -> Vec<String> {
        let mut input = Vec::new();
        let mut requests = Vec::new();
        for (properties, body) in messages {
            let is_persistent = properties.delivery_mode == Some(2);
            let exchange = put(&mut input, exchange.as_bytes());
            let routing_key = put(&mut input, key.as_bytes());
            let properties = put(&mut input, &properties.to_bytes());
            let content = Content::Inline(put(&mut input, body.as_bytes()));
            requests.push(Request::Publish(Publish {
                channel: ChannelId(1),
                head: session::HeadPlace::Content,
                exchange,
                routing_key,
                properties,
                content,
                form: BodyForm::Plain,
                mandatory: matches!(kind, Kind::Mandatory),
                persistent: is_persistent || matches!(kind, Kind::Persistent),
                immediate: matches!(kind, Kind::Immediate),
                inspect: true,
            }));
        }
        self.submit(&input, requests)
    }

    /// The message that was delivered last.
    pub(crate) fn last(&self) -> Message {
        self.last_given().content
    }

    /// The last delivery.
    pub(crate) fn last_given(&self) -> Given {
        self.told().last.clone().unwrap()
    }

    /// The headers of the message that was delivered last.
    pub(crate) fn last_headers(&self) -> Table {
        let properties = self.last().properties;
        let headers = message::View::of(&properties).headers();
        headers.map(|headers| headers.to_owned().unwrap()).unwrap_or_default()
    }

    /// How many messages are ready in a queue.
    pub(crate) fn ask_ready(&mut self, queue: &str) -> u64 {
        let heard = self.ask(Op::DeclareQueue(QueueDeclaration {
            queue: short(queue),
            passive: true,
            durable: false,
            exclusive: false,
            auto_delete: false,
            arguments: Table::default(),
        }));
        heard[0].split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Gets a message from a queue that is about to have one.
    pub(crate) fn get_soon(&mut self, queue: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let heard = self.get(queue);
            if heard != ["get empty"] {
                return heard.concat();
            }
            assert!(Instant::now() < deadline, "nothing came to {queue}");
            std::thread::yield_now();
        }
    }

    /// The reply-to of the last delivery.
    pub(crate) fn last_reply_to(&self) -> String {
        self.last_given().reply_key.unwrap_or_default()
    }

    /// Settles the `n` oldest unsettled deliveries.
    pub(crate) fn settle(&mut self, n: usize, outcome: Outcome) -> Vec<String> {
        let taken: Vec<_> = self.told().unsettled.drain(..n).collect();
        let requests = self.settlements(taken, outcome).map(Request::Settle).collect();
        self.submit(&[], requests)
    }

    /// Deliveries that it has not settled.
    pub(crate) fn n_unsettled(&self) -> usize {
        self.told().unsettled.len()
    }

    /// Settles the newest unsettled delivery.
    pub(crate) fn settle_newest(&mut self, outcome: Outcome) -> Vec<String> {
        let newest = self.told().unsettled.pop();
        let requests = self.settlements(newest, outcome).map(Request::Settle).collect();
        self.submit(&[], requests)
    }

    /// Settles the newest unsettled delivery with changes.
    pub(crate) fn modify_newest(
        &mut self,
        outcome: Outcome,
        changes: MessageChanges,
    ) -> Vec<String> {
        let newest = self.told().unsettled.pop();
        self.modify(newest.into_iter().collect(), outcome, changes)
    }

    /// Settles all deliveries of one link with changes.
    pub(crate) fn modify_all(&mut self, outcome: Outcome, changes: MessageChanges) -> Vec<String> {
        let held = std::mem::take(&mut self.told().unsettled);
        self.modify(held, outcome, changes)
    }

    fn modify(
        &mut self,
        held: Vec<(u64, Position)>,
        outcome: Outcome,
        changes: MessageChanges,
    ) -> Vec<String> {
        let settles: Vec<Settle> = self.settlements(held, outcome).collect();
        let link = settles.first().map(|it| it.link).expect("something is held");
        let positions = settles.into_iter().map(|it| it.position).collect();
        self.ask(Op::Modify(Modification { link, positions, outcome, changes }))
    }

    fn settlements(
        &self,
        held: impl IntoIterator<Item = (u64, Position)>,
        outcome: Outcome,
    ) -> impl Iterator<Item = Settle> {
        held.into_iter().map(move |(link, position)| {
            self.recorder.forget(link, position);
            Settle { channel: ChannelId(1), link: LinkId(link), position, outcome }
        })
    }

    /// Gives back everything it holds, and forgets it.
    pub(crate) fn recover(&mut self) -> Vec<String> {
        let held = std::mem::take(&mut self.told().unsettled);
        self.recorder.recover_some(held.into_iter());
        let heard = self.ask(Op::ReleaseUnsettled);
        self.recorder.end_recovering();
        heard
    }

    /// Deliveries are written to the client, which settles them where nobody else does.
    pub(crate) fn write_out(&mut self) -> Vec<String> {
        let written = std::mem::take(&mut self.told().unwritten);
        let mut settles = self.settlements(written, Outcome::Accepted).collect();
        self.session().settle_written(&mut settles);
        self.session().wake();
        self.heard()
    }

    /// Asks for something and settles all it holds, in one go.
    pub(crate) fn ask_and_settle(&mut self, op: Op) -> Vec<String> {
        let held = std::mem::take(&mut self.told().unsettled);
        let settles = self.settlements(held, Outcome::Accepted).map(Request::Settle);
        let requests = std::iter::once(control(op)).chain(settles).collect();
        self.submit(&[], requests)
    }

    /// Settles the oldest delivery it holds, gives its link credit and accepts the others, in one go.
    pub(crate) fn settle_around_credit(&mut self, outcome: Outcome) -> Vec<String> {
        let mut held = std::mem::take(&mut self.told().unsettled);
        let others = held.split_off(1);
        let mut requests: Vec<_> = self.settlements(held, outcome).map(Request::Settle).collect();
        let accepted = self.settlements(others, Outcome::Accepted);
        for settle in accepted {
            if requests.len() == 1 {
                let (channel, link) = (settle.channel, settle.link);
                let (delivery_count, credit, drain, echo) = (0, 0, false, false);
                let flow = CreditRequest { channel, link, delivery_count, credit, drain, echo };
                requests.push(Request::Flow(flow));
            }
            requests.push(Request::Settle(settle));
        }
        self.submit(&[], requests)
    }

    /// From now on every delivery finds the outbox full.
    pub(crate) fn fill_up(&self, full: bool) {
        self.recorder.set_space(if full { Space::Bytes(0) } else { Space::default() });
    }

    /// From now on there is room for so many deliveries until the client reads.
    pub(crate) fn make_room(&self, n: usize) {
        self.recorder.set_space(Space::Deliveries(n));
    }

    /// From now on the client is told to settle what it has held for too long.
    pub(crate) fn settle_overdue(&self) {
        self.recorder.settle_overdue();
    }

    pub(crate) fn resume(&mut self) -> Vec<String> {
        let paused = self.recorder.read_all();
        self.session().resume(&paused);
        self.heard()
    }

    pub(crate) fn disconnect(self) {
        block_on(self.into_session().close());
    }

    /// The session alone, to be closed among others.
    pub(crate) fn into_session(mut self) -> Session {
        self.session.take().unwrap()
    }
}

/// It is so many milliseconds after 1970, by both clocks.
pub(crate) fn at(broker: &Broker, unix_ms: u64) {
    broker.tick(Now::at_ms(unix_ms));
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        std::thread::yield_now();
    }
}

pub(crate) fn text(text: &str) -> Value {
    Value::LongString(text.as_bytes().to_vec())
}

pub(crate) fn table(entries: &[(&str, Value)]) -> Table {
    let mut table = Table::default();
    for (name, value) in entries {
        table.insert(short(name), value.clone());
    }
    table
}

fn put(input: &mut Vec<u8>, bytes: &[u8]) -> Span {
    let start = u32::try_from(input.len()).unwrap();
    input.extend_from_slice(bytes);
    Span { start, len: u32::try_from(bytes.len()).unwrap() }
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Transient,
    Persistent,
    Mandatory,
    Immediate,
}

fn declaration(
    queue: &str,
    durable: bool,
    arguments: &[(&'static str, Value)],
) -> QueueDeclaration {
    QueueDeclaration {
        queue: short(queue),
        passive: false,
        durable,
        exclusive: false,
        auto_delete: false,
        arguments: table(arguments),
    }
}

/// A request on channel 1 that wants an answer.
pub(crate) fn control(op: Op) -> Request {
    Request::Control(Box::new(Control {
        channel: ChannelId(1),
        origin: MethodTag(7),
        nowait: false,
        refusal: session::RefusalScope::Channel,
        op,
    }))
}
