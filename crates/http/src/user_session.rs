//! A client in the process: what a user asks by HTTP for queues, exchanges and messages is done as if the
//! user had asked for it over AMQP, by a session of its own that lasts for the request. So rights, checks
//! and texts are the same.

use crate::Api;
use crate::caller::Caller;
use crate::refusal::Refusal;
use axum::body::Bytes;
use axum::http::StatusCode;
use broker::{Identity, Login, Session};
use message::OwnedMessage;
use session::{
    ChannelId, Confirmation, Content, Control, Delivery, Error, Event, HeadPlace, LinkId,
    MethodTag, Op, Outbox, Outcome, OwnedContent, Position, ProtocolKind, Publish, ReadInput,
    Request, Room, Settle, Sink, Span,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::Notify;

/// The channel that requests go by.
const CHANNEL: ChannelId = ChannelId(1);
/// Time that the broker has for one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Words of the broker to the session.
#[derive(Debug)]
pub(crate) enum Told {
    /// The request is done.
    Done,
    /// A queue has no message.
    Empty,
    Got(Box<Got>),
    /// Messages were confirmed or refused, from one number to another.
    /// Publishes `first..=last` are done.
    Confirmed {
        first: u64,
        last: u64,
        is_refused: bool,
    },
}

/// A message that was fetched.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) link: LinkId,
    pub(crate) position: Position,
    pub(crate) redelivered: bool,
    /// Messages that are ready behind it.
    pub(crate) n_ready: u64,
    pub(crate) message: OwnedMessage,
}

/// A session of a user in a virtual host.
pub(crate) struct UserSession {
    session: Session,
    inbox: Arc<Inbox>,
}

impl UserSession {
    pub(crate) async fn open(api: &Api, caller: &Caller, vhost: &str) -> Result<Self, Refusal> {
        if caller.is_local() {
            return Err(Refusal::bad_request("a user is required: log in over HTTP"));
        }
        let inbox = Arc::new(Inbox::default());
        let identity = Identity {
            user: caller.user.clone(),
            vhost: vhost.to_owned(),
            name: format!("HTTP API for {}", caller.peer.address.ip()),
            peer_host: caller.peer.address.ip().to_string(),
            protocol: ProtocolKind::Direct,
            login: Login { mechanism: "PLAIN", ..Login::default() },
            connected_at_ms: api.now().unix_ms.get(),
            ..Identity::default()
        };
        let outbox = Arc::clone(&inbox) as Arc<dyn Outbox>;
        let broker = Arc::clone(&api.management.broker);
        let mut this = Self { session: Session::open(broker, identity, outbox)?, inbox };
        if let Err(refusal) = this.ask(Op::OpenChannel).await {
            this.close().await;
            return Err(refusal);
        }
        Ok(this)
    }

    /// Asks for something, and waits for the answer.
    pub(crate) async fn ask(&mut self, op: Op) -> Result<Told, Refusal> {
        let control = Control {
            channel: CHANNEL,
            origin: MethodTag::default(),
            nowait: false,
            refusal: session::RefusalScope::Channel,
            op,
        };
        self.submit(Request::Control(Box::new(control))).await;
        self.inbox.next().await
    }

    /// Publishes, with confirms on, and waits for the confirm; whether it came back as unroutable.
    pub(crate) async fn publish(
        &mut self,
        exchange: &str,
        key: &str,
        properties: &[u8],
        body: Bytes,
    ) -> Result<bool, Refusal> {
        let was_returned = self.send(exchange, key.as_bytes(), properties, body).await?;
        match self.next().await? {
            Told::Confirmed { is_refused: false, .. } => Ok(!was_returned),
            Told::Confirmed { is_refused: true, .. } => {
                Err(Refusal::bad_request("the message was rejected by a queue"))
            }
            other @ (Told::Done | Told::Empty | Told::Got(_)) => unexpected(&other),
        }
    }

    /// Publishes; whether it came back as unroutable. The confirm comes [`next`](Self::next).
    pub(crate) async fn send(
        &mut self,
        exchange: &str,
        key: &[u8],
        properties: &[u8],
        body: Bytes,
    ) -> Result<bool, Refusal> {
        let head = [exchange.as_bytes(), key, properties].concat();
        let span = |start: usize, len: usize| Span {
            start: u32::try_from(start).unwrap_or(u32::MAX),
            len: u32::try_from(len).unwrap_or(u32::MAX),
        };
        let persistent = message::View::of(properties).is_persistent();
        let publish = Publish {
            channel: CHANNEL,
            head: HeadPlace::Content,
            exchange: span(0, exchange.len()),
            routing_key: span(exchange.len(), key.len()),
            properties: span(exchange.len() + key.len(), properties.len()),
            content: Content::Owned(Box::new(OwnedContent { head: Bytes::from(head), body })),
            form: message::BodyForm::Plain,
            mandatory: true,
            immediate: false,
            persistent,
            inspect: true,
        };
        self.submit(Request::Publish(publish)).await;
        let mut letters = stdx::lock(&self.inbox.told);
        let was_returned = std::mem::take(&mut letters.was_returned);
        letters.refused.clone().map_or(Ok(was_returned), |error| Err(error.into()))
    }

    /// Waits for the next word of the broker.
    pub(crate) async fn next(&self) -> Result<Told, Refusal> {
        self.inbox.next().await
    }

    /// Settles what was fetched.
    pub(crate) async fn settle(&mut self, link: LinkId, position: Position, outcome: Outcome) {
        let settle = Settle { channel: CHANNEL, link, position, outcome };
        self.submit(Request::Settle(settle)).await;
    }

    async fn submit(&mut self, request: Request) {
        // The inbox has the reason if the session stops.
        let _stops = self.session.submit(&ReadInput::NONE, &mut vec![request]).await;
        self.session.wake();
    }

    pub(crate) async fn close(self) {
        self.session.close().await;
    }
}

/// The answer does not belong to what was asked.
pub(crate) fn unexpected<T>(told: &Told) -> Result<T, Refusal> {
    tracing::error!("unexpected answer of the broker: {told:?}");
    Err(Refusal::internal())
}

/// Words of the broker until they are read.
#[derive(Debug, Default)]
struct Inbox {
    told: Mutex<Letters>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Letters {
    told: VecDeque<Told>,
    was_returned: bool,
    /// The end of the channel, or of all.
    refused: Option<Error>,
}

impl Inbox {
    async fn next(&self) -> Result<Told, Refusal> {
        let next = async {
            loop {
                let arrived = self.arrived.notified();
                {
                    let mut letters = stdx::lock(&self.told);
                    if let Some(told) = letters.told.pop_front() {
                        return Ok(told);
                    }
                    if let Some(error) = &letters.refused {
                        return Err(Refusal::from(error.clone()));
                    }
                }
                arrived.await;
            }
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, next).await {
            Ok(told) => told,
            Err(_) => {
                let (status, text) =
                    (StatusCode::SERVICE_UNAVAILABLE, "the broker did not respond");
                Err(Refusal::of_status(status, "timeout", text))
            }
        }
    }
}

impl Outbox for Inbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        fill(&mut *stdx::lock(&self.told));
        self.arrived.notify_one();
        None
    }
}

impl Sink for Letters {
    fn deliver(&mut self, _link: LinkId, _delivery: Delivery<'_>) -> Room {
        Room::Full
    }

    fn room_bytes(&self) -> usize {
        0
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "sessions do not ask for the others")]
    fn event(&mut self, event: Event<'_>) {
        let told = match event {
            Event::ChannelOpened(_)
            | Event::Done { .. }
            | Event::QueueDeclared { .. }
            | Event::QueuePurged { .. }
            | Event::QueueDeleted { .. } => Told::Done,
            Event::ChannelFailed { error, .. } | Event::ConnectionFailed { error, .. } => {
                self.refused = Some(error);
                return;
            }
            Event::GetEmpty(_) => Told::Empty,
            Event::Got { link, delivery, n_ready, .. } => Told::Got(Box::new(Got {
                link,
                position: delivery.position,
                redelivered: delivery.redelivered,
                n_ready,
                message: OwnedMessage::new(delivery.message),
            })),
            Event::Returned { .. } => {
                self.was_returned = true;
                return;
            }
            _ => return,
        };
        self.told.push_back(told);
    }

    fn confirm(&mut self, _channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        let is_refused = matches!(answer, Confirmation::Refused(_));
        self.told.push_back(Told::Confirmed { first, last, is_refused });
    }

    fn readable(&mut self, _link: LinkId) {}
}
