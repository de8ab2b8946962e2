//! Requests of other nodes' sessions, each of which is answered.

use super::links::{RemoteLink, RemoteOutbox};
use super::peer_connection::PeerConnection;
use super::peer_session::{PeerSession, begin};
use crate::broker::Broker;
use crate::session::Turn;
use peer::SessionFrame;
use queue::{AckMode, Checkout};
use queue_type::{AfterDetach, Attach, AttachRefused, Got, QueueRefused, Taker, Tally};
use queues::{LinkRef, QueueRef};
use remote::requests::{LinkTerms, SessionRequest, SessionResponse};
use session::{Attachment, ChannelId, Confirmation, Delivery, Event, LinkId, Outbox, Room, Sink};
use std::sync::Arc;
use std::task::Waker;

/// Links of a connection at most.
const LINKS_MAX: usize = 1 << 20;

impl PeerSession {
    /// Carries out a request and answers it; a message that is not in memory is waited for in a task.
    pub(super) async fn request(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        number: u64,
        request: SessionRequest,
    ) {
        let response = match request {
            SessionRequest::Attach { terms, checkout, asked } => {
                let attached = self.attach(broker, turn, &terms, checkout, &asked).await;
                self.attached(&terms, attached)
            }
            SessionRequest::AttachPassive { terms, settling } => {
                let attached = self.attach_passive(broker, turn, &terms, settling).await;
                self.attached(&terms, attached)
            }
            SessionRequest::Get(link) => match self.links.get(link) {
                Some(found) => {
                    let connection = self.connection.clone();
                    return begin(get(connection, found.link, LinkId(link), number));
                }
                None => SessionResponse::AttachRefused(AttachRefused::Gone),
            },
            SessionRequest::Cancel(link) => match self.links.get(link) {
                Some(found) => return self.cancel(broker, turn, number, link, found).await,
                None => SessionResponse::Done,
            },
            SessionRequest::Purge(id) => match self.find_queue(broker, turn, id).await {
                Some(queue) => queue.purge().await.map_or_else(SessionResponse::Refused, count),
                None => SessionResponse::Refused(QueueRefused::NotFound),
            },
            SessionRequest::BeginDelete(id, conditions) => {
                match self.find_queue(broker, turn, id).await {
                    Some(queue) => {
                        let begun = queue.begin_delete(conditions).await;
                        begun.map_or_else(SessionResponse::Refused, count)
                    }
                    None => SessionResponse::Refused(QueueRefused::NotFound),
                }
            }
            SessionRequest::Stat(id) => match self.find_queue(broker, turn, id).await {
                Some(queue) => {
                    let stat = queue.stat().await;
                    stat.map_or_else(SessionResponse::Refused, SessionResponse::Stat)
                }
                None => SessionResponse::Refused(QueueRefused::NotFound),
            },
        };
        turn.wakes().extend(self.connection.send([encoded(number, &response)]));
    }

    /// The answer to a request to attach a link.
    fn attached(&self, terms: &LinkTerms, result: Result<(), AttachRefused>) -> SessionResponse {
        match result {
            Ok(()) => SessionResponse::Done,
            Err(refused) => {
                self.links.forget_unattached(terms.link);
                SessionResponse::AttachRefused(refused)
            }
        }
    }

    async fn attach(
        &self,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        terms: &LinkTerms,
        checkout: Checkout,
        asked: &Attachment,
    ) -> Result<(), AttachRefused> {
        let queue = self.queue_for(broker, turn, terms).await?;
        // The beginning of a consumer of a stream may have to be looked up on the disk.
        let is_stream = matches!(queue, QueueRef::Stream(_));
        let _disk = if is_stream { broker.connections.disk_turn().await } else { None };
        let outbox = self.outbox(terms, checkout.settling);
        let as_outbox: Arc<dyn Outbox> = Arc::<RemoteOutbox>::clone(&outbox);
        let attach = Attach {
            checkout,
            connection: terms.connection,
            channel: terms.channel,
            link: LinkId(terms.link),
            outbox: &as_outbox,
            consumer_tag: &asked.consumer_tag,
            asked,
            answer: true,
            limit: None,
            tally: Arc::default(),
            node_timeout_ms: terms.node_timeout_ms,
        };
        let link = queue.attach(attach).await?;
        self.links.insert(terms.link, RemoteLink { link: link.clone(), outbox });
        if is_stream {
            // The link was not known yet when the stream said that there is something to read.
            let _steps = link.resume();
        }
        Ok(())
    }

    async fn attach_passive(
        &self,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        terms: &LinkTerms,
        settling: AckMode,
    ) -> Result<(), AttachRefused> {
        let queue = self.queue_for(broker, turn, terms).await?;
        let owner = (terms.connection, terms.channel);
        let link = queue.attach_passive(owner, settling, terms.node_timeout_ms).await?;
        self.links.insert(terms.link, RemoteLink { link, outbox: self.outbox(terms, settling) });
        Ok(())
    }

    /// The queue of a link that is to be attached.
    async fn queue_for(
        &self,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        terms: &LinkTerms,
    ) -> Result<QueueRef, AttachRefused> {
        if self.links.get(terms.link).is_some() || self.links.len() > LINKS_MAX {
            let text = format!("a connection between nodes has {LINKS_MAX} links at most");
            return Err(AttachRefused::Unfit(text));
        }
        self.find_queue(broker, turn, terms.queue).await.ok_or(AttachRefused::Gone)
    }

    fn outbox(&self, terms: &LinkTerms, settling: AckMode) -> Arc<RemoteOutbox> {
        let is_settled = settling == AckMode::Manual;
        RemoteOutbox::new(self.connection.clone(), terms.link, is_settled, &self.links)
    }

    /// Ends a link's deliveries; the answer goes behind the last, and behind the deletion of a queue that its
    /// last consumer takes with it.
    async fn cancel(
        &self,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        number: u64,
        id: u64,
        mut found: RemoteLink,
    ) {
        let after = found.link.cancel(|| ()).await;
        let (queue, connection) = (found.link.def().id, self.connection.clone());
        self.links.insert(id, found);
        let answer = move || connection.send([encoded(number, &SessionResponse::Done)]);
        if after == AfterDetach::Stays {
            turn.wakes().extend(answer());
            return;
        }
        let broker = Arc::clone(broker);
        begin(async move {
            broker.changes().drop_queue(queue).await;
            answer().into_iter().for_each(Waker::wake);
        });
    }
}

/// Gives a link the next message, once that is in memory.
async fn get(connection: PeerConnection, link: LinkRef, id: LinkId, number: u64) {
    let outbox: Arc<dyn Outbox> = Arc::new(GetOutbox { connection: connection.clone(), number });
    let tally = Tally::default();
    let response = loop {
        match link.get(Taker { link: id, outbox: &outbox, tally: &tally }).await {
            Ok(Got::Message) => return,
            Ok(Got::Nothing | Got::Unfit) => break SessionResponse::Nothing,
            Ok(Got::NotInMemory) => link.next_in_memory().await,
            Err(refused) => break SessionResponse::AttachRefused(refused),
        }
    };
    let told = connection.send([encoded(number, &response)]);
    told.into_iter().for_each(Waker::wake);
}

const fn count(n: u64) -> SessionResponse {
    SessionResponse::Count(n)
}

/// The frame of a response.
fn encoded(number: u64, response: &SessionResponse) -> (SessionFrame, Vec<u8>) {
    let mut body = Vec::new();
    response.encode(number, &mut body);
    (SessionFrame::Response, body)
}

/// The outbox of one `basic.get`.
#[derive(Debug)]
struct GetOutbox {
    connection: PeerConnection,
    /// The number of the request.
    number: u64,
}

impl Outbox for GetOutbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let mut sink = GetSink { number: self.number, response: None };
        fill(&mut sink);
        sink.response
            .and_then(|response| self.connection.send([(SessionFrame::Response, response)]))
    }
}

struct GetSink {
    number: u64,
    response: Option<Vec<u8>>,
}

impl Sink for GetSink {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Got { delivery, n_ready, .. } = event {
            let response = SessionResponse::of_delivery(&delivery, n_ready);
            response.encode(self.number, self.response.insert(Vec::new()));
        }
    }

    fn deliver(&mut self, _: LinkId, _: Delivery<'_>) -> Room {
        Room::Full
    }

    fn room_bytes(&self) -> usize {
        0
    }

    fn confirm(&mut self, _: ChannelId, _: u64, _: u64, _: Confirmation<'_>) {}

    fn readable(&mut self, _: LinkId) {}
}
