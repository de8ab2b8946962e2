//! A session: one client connection inside the broker, which carries out the client's requests in order.
//!
//! Publishes and settlements of one read are gathered and put into the queues together; any other request
//! first flushes what was gathered. A refused request closes its channel or the connection, as the kind of
//! its error says; requests on a closed channel are passed over.

mod access;
mod blocked;
mod channels;
mod client;
mod consume;
mod definitions;
mod direct_reply_to;
mod dispatch;
mod global_prefetch;
mod limits;
mod link_requests;
mod links;
mod management;
mod named;
mod properties;
mod publish;
mod publisher_links;
mod read_source;
mod route_cache;
mod routing;
mod settling;
mod sharding;
mod stamping;
mod streams;
mod topic_requests;
mod transactions;
mod turn;

use crate::broker::Broker;
use crate::connections::{Connection, Identity, Interrupt};
use access::Access;
use admission::in_turns;
pub use blocked::Hold;
use blocked::{BlockedRequests, tell_alarms};
use channels::Channels;
use client::Client;
use confirm::ConfirmQueue;
use control::slices::WORK_MAX;
use link_requests::refuse_publish;
use links::{Links, take_credit};
pub(crate) use links::{SETTLES_AT_ONCE, detach_all, give_back_many};
use publish::Publishing;
use session::{
    ChannelId, Control, Error, ErrorKind, Event, LinkId, MethodTag, Op, Outbox, ReadInput,
    RefusalScope, Request, Settle,
};
use settling::Settling;
use std::pin::Pin;
use std::sync::Arc;
use streams::Streams;
use transactions::{Transactions, undone};
pub(crate) use turn::Turn;

/// Steps of a slice (`broker::slices`) that it costs to release an empty channel.
const CHANNEL_STEPS: usize = 8;
/// Channels, links and exclusive queues that a connection gives back without a turn, in all.
const LITTLE_MAX: usize = 8;
/// The least cost of a request that is no message: other tasks have their turn after so many such requests
/// that the cheapest take a millisecond.
const WORK_PER_REQUEST: usize = WORK_MAX / 128;
/// The cost of a request during which definitions change.
const WORK_PER_CHANGE: usize = WORK_MAX / 4;

/// The connection is to be closed once its outbox has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// Settlements that may be heard late without a consumer of the session running dry: an eighth of the lowest
/// prefetch limit of its consumers; 0 where channels are limited as a whole. With a quarter, consumers that
/// share their processors with publishers fall behind.
#[must_use]
pub fn n_settles_spare(session: &Session) -> u32 {
    if session.client.channels.has_limit() { 0 } else { session.links.prefetch_min() / 8 }
}

/// A client connection's side of the broker.
pub struct Session {
    client: Client,
    publishing: Publishing,
    links: Links,
    settling: Settling,
    transactions: Transactions,
    streams: Streams,
    /// The requests that are held back since a publish met an alarm, until the alarm clears.
    hold: Option<BlockedRequests>,
    ended: bool,
}

stdx::debug_of!(|it: Session| connection = it.connection().id);

impl Session {
    /// Opens a session for an authenticated client.
    ///
    /// # Errors
    /// The virtual host does not exist, is not open to the user, or is full: the explanation is
    /// RabbitMQ's.
    pub fn open(
        broker: Arc<Broker>,
        identity: Identity,
        outbox: Arc<dyn Outbox>,
    ) -> Result<Self, Error> {
        let view = broker.view();
        limits::check_connection(&broker, &view, &identity)?;
        let outbox: Arc<dyn Outbox> = match broker.interceptors().sent_time {
            true => Arc::new(stamping::StampingOutbox::new(
                outbox,
                Arc::clone(&broker.classic.services),
            )),
            false => outbox,
        };
        let connection =
            broker.connections.open(identity).ok_or_else(limits::container_is_taken)?;
        broker.events().connected(&connection);
        let confirms = ConfirmQueue::new(Arc::clone(&outbox));
        connection.confirms.get_or_init(|| Arc::clone(&confirms));
        let turn = Turn::new(outbox, Arc::clone(&broker.classic.services));
        let access = Access::new(broker, connection, view);
        let publishing = Publishing::new(&access);
        let client = Client { access, channels: Channels::default(), turn, confirms };
        if client.access.connection.identity.has_windows() {
            tell_alarms(&client);
        }
        Ok(Self {
            client,
            publishing,
            links: Links::default(),
            settling: Settling::default(),
            transactions: Transactions::default(),
            streams: Streams::default(),
            hold: None,
            ended: false,
        })
    }

    /// The connection as listings see it; its task waits on
    /// [`kicked`](Connection::kicked) and counts bytes here.
    pub const fn connection(&self) -> &Arc<Connection> {
        &self.client.access.connection
    }

    /// Carries out the requests of one read, whose spans lie in `input`, and empties the list. Connections
    /// that were given something are woken by [`Session::wake`], once for several portions of one read.
    ///
    /// # Errors
    /// [`Stop`] when the connection is over: the last events for its client are in the outbox.
    pub async fn submit(
        &mut self,
        input: &ReadInput<'_>,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        if let Some(hold) = &mut self.hold {
            hold.keep(*input, requests.drain(..));
            return Ok(());
        }
        stdx::walk::step("submit");
        if let Some(publishers) = &mut self.links.publishers
            && !self.client.access.broker.alarms.any()
        {
            publishers.forget_forgiven();
        }
        let result = self.run_requests(input, requests).await;
        self.streams.resume_credited();
        requests.clear();
        result
    }

    /// Whether one publish waits for nothing but the disk, so that its confirm comes soonest if the
    /// connection commits it itself: then [`Session::commit`] must be called before the caller waits.
    #[must_use]
    pub fn commits_here(&self) -> bool {
        self.client.turn.commits_here()
    }

    /// Commits the log: `here`, which **blocks** for a sync of a fast disk, or on the log's thread. Slow
    /// disks, and commits while another is on its way, are left to that thread in any case.
    pub fn commit(&mut self, here: bool) {
        self.client.turn.commit(here);
    }

    /// The number of connections that were given something and sleep, or are about to be given something.
    pub fn n_to_wake(&self) -> usize {
        self.client.turn.n_to_wake()
    }

    /// Wakes the connections that were given something. To be called before the caller waits for anything.
    /// Returns whether the connection should not be read for a moment: its client publishes faster than
    /// consumers take, so that they lack the processor more than the client does.
    pub fn wake(&mut self) -> bool {
        stdx::walk::step("wake");
        self.client.turn.wake();
        self.publishing.take_is_ahead()
    }

    async fn run_requests(
        &mut self,
        input: &ReadInput<'_>,
        requests: &mut Vec<Request>,
    ) -> Result<(), Stop> {
        if self.ended {
            return Err(Stop);
        }
        self.publishing.refresh(&mut self.client.access);
        let mut n_done = requests.len();
        for (index, request) in requests.iter().enumerate() {
            match request {
                request if is_stopped(&self.client, &mut self.links, request) => {
                    self.flush_before(index, input, requests).await;
                    n_done = index;
                    break;
                }
                Request::Publish(publish) => {
                    if publish.inspect && publish.immediate {
                        // The consumers that can take an immediate message depend on the requests before it.
                        self.flush_before(index, input, requests).await;
                    }
                    let (client, publishing) = (&mut self.client, &mut self.publishing);
                    let taken = match client.channels.is_transactional(publish.channel) {
                        true => self.transactions.keep_publish(client, publishing, publish, *input),
                        false => publishing.prepare(client, index, publish, *input),
                    };
                    let tell = |error| refuse_publish(client, &self.links, publish, *input, error);
                    if let Err(error) = taken.or_else(tell) {
                        self.flush_before(index, input, requests).await;
                        self.client.turn.before_waiting();
                        Box::pin(self.fail(publish.channel, None, error)).await?;
                    }
                    if self.client.turn.is_over() {
                        self.flush_before(index, input, requests).await;
                        Box::pin(self.client.turn.give_way()).await;
                    }
                }
                Request::Settle(settle) => {
                    let Some(channel) = self.client.channels.get_mut(settle.channel) else {
                        continue;
                    };
                    if channel.tx.is_none() {
                        self.settling.add(*settle);
                    } else if let Err(error) = self.transactions.keep_settle(channel, *settle) {
                        self.flush_before(index, input, requests).await;
                        return Err(self.client.end(settle.channel, error));
                    }
                }
                Request::Append(append) => {
                    self.streams.append(&mut self.client, append, input.bytes);
                    if self.client.turn.is_over_after(append.n_entries as usize) {
                        self.flush_before(index, input, requests).await;
                        Box::pin(self.client.turn.give_way()).await;
                    }
                }
                Request::Credit(credit) => self.streams.credit(&self.client, *credit),
                Request::Flow(request) => {
                    self.flush(index, input, requests).await;
                    take_credit(&self.links, &self.client, request);
                }
                Request::Control(control) => {
                    self.flush_before(index, input, requests).await;
                    Box::pin(self.control(control)).await?;
                }
            }
        }
        self.flush(requests.len(), input, requests).await;
        if n_done < requests.len() {
            let blocked =
                self.hold.insert(BlockedRequests::begin(&self.client, requests.get(n_done)));
            blocked.keep(*input, requests.drain(n_done..));
        }
        Ok(())
    }

    /// Flushes as [`Session::flush`] does, before a request that later ones of the read may not survive.
    async fn flush_before(&mut self, index: usize, input: &ReadInput<'_>, requests: &[Request]) {
        self.links.record_unheard(requests, index);
        self.flush(requests.len(), input, requests).await;
    }

    /// Puts the gathered publishes into their queues, then carries out the gathered settlements. Those from
    /// `index` on have not been gathered yet, and may not survive a refusal.
    async fn flush(&mut self, index: usize, input: &ReadInput<'_>, requests: &[Request]) {
        if self.publishing.is_any_loading() {
            Box::pin(self.publishing.until_loaded(&mut self.client.turn)).await;
        }
        self.publishing.flush(&mut self.client, input, requests).await;
        self.streams.write_appended(&mut self.client);
        self.settling.flush(&mut self.client, &mut self.links).await;
        if let Some((channel, error)) = self.settling.take_refused() {
            self.links.record_unheard(requests, index);
            self.client.turn.before_waiting();
            // The error closes a channel, never the connection.
            let _stops = Box::pin(self.fail(channel, None, error)).await;
        }
    }

    /// Settles deliveries without acknowledgement that have been written to the client, also while requests
    /// are held back, and empties the list. Connections that are given something by that are woken by
    /// [`Session::wake`].
    pub fn settle_written(&mut self, settles: &mut Vec<Settle>) {
        if !self.ended {
            self.settling.append(settles);
            self.settling.flush_few(&mut self.client, &mut self.links);
        }
        settles.clear();
    }

    /// Resumes deliveries on these links, since the client has read. False if others are to have their turn
    /// first: the rest of the links are to be resumed later, and are noted so in the outbox.
    pub fn resume(&self, links: &[LinkId]) -> bool {
        self.streams.resume(links);
        self.links.resume(&self.client, links)
    }

    /// Renews the login of the client, which has logged in again as the same user.
    ///
    /// # Errors
    /// The virtual host is not open to the user any more.
    pub fn renew_login(&mut self) -> Result<(), Error> {
        self.client.access.refresh();
        let Identity { user, vhost, .. } = &self.connection().identity;
        limits::check_entry(&self.client.access.view, user, vhost)
    }

    /// Does what an interrupt asks for; returns whether the connection goes on.
    pub async fn obey(&mut self, interrupt: Interrupt) -> bool {
        match interrupt {
            Interrupt::Close(reason) => {
                self.give_everything_back().await;
                let error = Error::new(ErrorKind::ConnectionForced, reason);
                self.client.turn.tell(|sink| {
                    sink.event(Event::ConnectionFailed {
                        channel: None,
                        error: error.clone(),
                        origin: None,
                    });
                });
                false
            }
            Interrupt::Fail(error) => {
                debug_assert!(error.kind.closes_connection(), "{error} is a channel's");
                self.fail(ChannelId(0), None, error).await.is_ok()
            }
            Interrupt::FailOverdue => {
                self.fail_overdue().await;
                true
            }
            Interrupt::ReviewRights => {
                self.client.access.refresh();
                self.streams.review_rights(&self.client);
                true
            }
            Interrupt::TellAlarms => {
                tell_alarms(&self.client);
                self.wake();
                true
            }
            Interrupt::CancelConsumer(channel, consumer_tag) => {
                self.client.turn.before_waiting();
                let consumer_tag = &consumer_tag;
                let told = |link| Event::ConsumerCancelled { channel, link, consumer_tag };
                self.links.end_consumer(&mut self.client, channel, consumer_tag, told).await;
                self.wake();
                true
            }
        }
    }

    /// Notes how many bytes the client occupies in the node beside queues and transactions. The connection's
    /// task calls this in each turn, cheaply while nothing changes.
    ///
    /// # Errors
    /// The client occupies too much: the caller obeys [`Interrupt::Fail`] with this error.
    pub fn note_held(&self, n_bytes: u64) -> Result<(), Error> {
        let n_bytes = n_bytes + self.transactions.uncommitted_bytes();
        let (broker, connection) = (&self.client.access.broker, self.connection());
        if n_bytes == connection.held.told_bytes() {
            return Ok(());
        }
        broker.holdings.note(connection, n_bytes, &broker.connections)
    }

    /// Closes the channels that hold messages for too long; the messages go back to their queues.
    ///
    /// COMPAT: RabbitMQ's text.
    async fn fail_overdue(&mut self) {
        self.client.turn.before_waiting();
        for (channel, timeout_ms) in self.connection().take_overdue() {
            if self.client.channels.get(channel).is_none() {
                continue;
            }
            let text = format!(
                "delivery acknowledgement on channel {} timed out. Timeout value used: {timeout_ms} \
                 ms. This timeout value can be configured, see consumers doc guide to learn more",
                channel.0
            );
            let error = Error::new(ErrorKind::PreconditionFailed, text);
            // The error closes a channel, never the connection.
            let _stops = self.fail(channel, None, error).await;
        }
        self.wake();
    }

    /// Gives back everything the connection holds. To be called when the connection ends, for whatever
    /// reason.
    pub async fn close(mut self) {
        self.give_everything_back().await;
    }

    /// Gives back everything: at once if it is little, else in turns with other connections.
    async fn give_everything_back(&mut self) {
        self.client.turn.before_waiting();
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let (broker, is_little) = (Arc::clone(&self.client.access.broker), holds_little(self));
        in_turns_unless(is_little, &broker, Box::pin(give_back(self))).await;
    }

    /// Refuses a request: closes its channel, or the connection when the error is of that kind.
    async fn fail(
        &mut self,
        channel: ChannelId,
        origin: Option<MethodTag>,
        error: Error,
    ) -> Result<(), Stop> {
        if error.kind.closes_connection() {
            self.give_everything_back().await;
            tracing::warn!(
                connection = %self.connection().identity.name,
                channel = channel.0,
                "closing the connection: {error}"
            );
            let id = (channel.0 != 0).then_some(channel);
            self.client.turn.tell(|sink| {
                let error = error.clone();
                sink.event(Event::ConnectionFailed { channel: id, error, origin });
            });
            return Err(Stop);
        }
        end_channel(self, channel).await;
        tracing::warn!(
            connection = %self.connection().identity.name,
            channel = channel.0,
            "closing the channel: {error}"
        );
        self.client.turn.tell(|sink| {
            sink.event(Event::ChannelFailed { channel, error: error.clone(), origin });
        });
        Ok(())
    }

    /// Releases a closed channel: its consumers go, its unacked messages return to their queues, and its
    /// confirms on their way are dropped.
    async fn release_channel(&mut self, id: ChannelId) {
        self.client.end_replies(id, |_| true);
        let Some(closed) = self.client.channels.close(id) else { return };
        self.client.access.broker.connections.end_channel(self.connection(), id);
        self.client.confirms.forget(id);
        self.transactions.forget(&closed);
        if let Some(tx) = &closed.tx {
            self.settling.append(&mut undone(tx, &self.links, id));
            self.settling.flush_many(&mut self.client, &mut self.links).await;
        }
        self.links.release(&mut self.client, id, &closed).await;
        if let Some(spans) = self.client.access.broker.timers.tracing.spans() {
            spans.forget(self.connection().id, Some(id));
        }
    }

    /// Does what a control request asks for; other tasks have their turn between many such requests.
    async fn control(&mut self, control: &Control) -> Result<(), Stop> {
        self.client.turn.before_waiting();
        let channel = control.channel;
        let is_open = self.client.channels.get(channel).is_some();
        let of_connection = matches!(
            control.op,
            Op::OpenChannel
                | Op::CloseChannel
                | Op::CloseConnection
                | Op::FailConnection(_)
                | Op::UpdateSecret { .. }
                | Op::Stream(_)
        );
        if !is_open && !of_connection {
            return Ok(());
        }
        let renamed = dispatch::renamed(&control.op).map(|op| Control { op, ..*control });
        let control = renamed.as_ref().unwrap_or(control);
        let before = self.client.access.broker.version();
        match self.act(control).await {
            Ok(Handled::Done) if !control.nowait => {
                let origin = control.origin;
                self.client.turn.tell(|sink| sink.event(Event::Done { channel, origin }));
            }
            Ok(Handled::Done | Handled::Answered) => {}
            Ok(Handled::Closed) => return Err(Stop),
            Err(error) if control.refusal == RefusalScope::Request => {
                self.client.refuse(control, &error);
            }
            Err(error) => self.fail(channel, Some(control.origin), error).await?,
        }
        let is_same = self.client.access.broker.version() == before;
        let work = if is_same { WORK_PER_REQUEST } else { WORK_PER_CHANGE };
        if self.client.turn.is_over_after(work) {
            self.client.turn.give_way().await;
        }
        self.publishing.refresh(&mut self.client.access);
        Ok(())
    }
}

async fn give_back(session: &mut Session) {
    session.streams.release(&mut session.client.turn).await;
    for channel in session.client.channels.ids() {
        session.release_channel(channel).await;
        session.client.turn.did_steps(CHANNEL_STEPS).await;
    }
    let (broker, connection) = (&session.client.access.broker, session.connection());
    broker.changes().drop_exclusive_queues(connection.id).await;
    broker.connections.close(connection.id);
    broker.holdings.forget(connection);
    if let Some(spans) = broker.timers.tracing.spans() {
        spans.forget(connection.id, None);
    }
    broker.events().disconnected(connection);
}

fn holds_little(session: &Session) -> bool {
    let Client { access, channels, .. } = &session.client;
    let view = access.broker.view();
    let exclusive = view.meta.queues().exclusive_of(access.connection.id);
    let n_exclusive = exclusive.take(LITTLE_MAX + 1).count();
    n_exclusive + channels.ids().len() + session.links.iter().count() <= LITTLE_MAX
}

/// Ends a channel: at once if it has few links, else in turns with other connections.
async fn end_channel(session: &mut Session, id: ChannelId) {
    let channel = session.client.channels.get(id);
    let is_little = channel.is_none_or(|channel| channel.links.len() <= LITTLE_MAX);
    let broker = Arc::clone(&session.client.access.broker);
    in_turns_unless(is_little, &broker, Box::pin(session.release_channel(id))).await;
}

/// Gives back what is little at once, and all else in turns with other connections.
async fn in_turns_unless(
    is_little: bool,
    broker: &Broker,
    given_back: Pin<Box<dyn Future<Output = ()> + Send + '_>>,
) {
    if is_little {
        given_back.await;
    } else {
        in_turns(given_back, || broker.connections.closing_turn()).await;
    }
}

/// The result of a control request.
enum Handled {
    /// The request succeeded; the answer carries nothing.
    Done,
    /// The request succeeded and was answered.
    Answered,
    /// The connection is over.
    Closed,
}

/// Whether an alarm keeps the client from publishing this.
#[inline]
fn is_stopped(client: &Client, links: &mut Links, request: &Request) -> bool {
    client.is_stopped(links.publishers.as_deref_mut(), request)
}
