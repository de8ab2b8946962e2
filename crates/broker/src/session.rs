//! One client connection inside the broker: works off its requests, in order.
//!
//! Publishes and settlements of one read are gathered and put into the queues together; anything
//! else first flushes what was gathered. A refused request closes its channel or the connection, as
//! its kind says; requests of a channel that is gone are passed over.

mod batch;
mod blocked;
mod channels;
mod confirm_on;
mod consume;
mod definitions;
mod direct_reply_to;
mod dispatch;
mod global_prefetch;
mod pace;
mod properties;
mod publish;
mod route_cache;
mod routing;
mod stamping;
mod transactions;

use crate::broker::Broker;
use crate::confirm::{CommitBy, ConfirmQueue};
use crate::connections::{Connection, Identity};
use crate::control_plane::View;
use crate::events::EventHeaders;
use crate::exchanges::WatchedExchange;
use crate::interceptors::Interceptors;
use crate::limits;
use crate::message_store::BodyStore;
use crate::queue::{AfterDetach, Queue, Returning, Settled, Wakes, wake_all};
use crate::slices::SLICE;
use ::routing::{Name, QueueId};
use batch::Batch;
use blocked::BlockedRequests;
use channels::{Channel, Channels, Link, Tx};
use pace::Pace;
use queue::{ConsumerKey, Return};
use route_cache::{Route, RouteCache};
use session::{
    ChannelId, Control, Error, Event, LinkId, MethodTag, Op, Outbox, Outcome, Request, Settle,
    ShortString,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Messages that are settled or come back under one lock; one read has fewer that name one each.
const SETTLES_AT_ONCE: usize = 4096;
/// Steps of a [slice](SLICE) that it takes to release a channel that has nothing.
const CHANNEL_STEPS: usize = 8;

/// The connection is to be closed once what is in its outbox has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop;

/// A client connection's side of the broker.
pub struct Session {
    broker: Arc<Broker>,
    connection: Arc<Connection>,
    outbox: Arc<dyn Outbox>,
    confirms: Arc<ConfirmQueue>,
    view: Arc<View>,
    /// Of its virtual host.
    bodies: Arc<BodyStore>,
    channels: Channels,
    links: HashMap<LinkId, Link>,
    last_link: u64,
    routes: RouteCache,
    /// The route of one message that is not remembered; kept for the memory it has.
    alone: Route,
    ids: Vec<QueueId>,
    /// Exchanges that are to remember the message that was routed last.
    remembering: Vec<Arc<WatchedExchange>>,
    /// What is written into each message it publishes.
    interceptors: Option<Interceptors>,
    /// The last of the numbers that are left to chance.
    chance: u64,
    batch: Batch,
    /// What it did since others had their turn.
    pace: Pace,
    settles: Vec<Settle>,
    /// A channel that gave back what its queue's mode does not take back.
    refused_settle: Option<(ChannelId, Error)>,
    /// Connections that were given something and sleep.
    wakes: Wakes,
    /// What it published piles up while consumers take it as fast as they can.
    is_ahead: bool,
    /// Published during an alarm: nothing more is done until it clears.
    hold: Option<BlockedRequests>,
    /// Who is to commit what a publish waits for.
    committer: CommitBy,
    /// Bytes that transactions hold.
    uncommitted_bytes: u64,
    ended: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("connection", &self.connection.id).finish_non_exhaustive()
    }
}

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
            true => Arc::new(stamping::StampingOutbox::new(outbox, Arc::clone(&broker.storage))),
            false => outbox,
        };
        let connection = broker.connections.open(identity);
        broker.tell_connected(&connection);
        let confirms = ConfirmQueue::new(Arc::clone(&outbox));
        connection.confirms.get_or_init(|| Arc::clone(&confirms));
        let chance = broker.names.random_u64();
        let interceptors = Some(broker.interceptors()).filter(Interceptors::any_incoming);
        let bodies = broker.storage.bodies.of(&Name::from(&*connection.identity.vhost));
        Ok(Self {
            broker,
            bodies,
            connection,
            outbox,
            confirms,
            view,
            channels: Channels::default(),
            links: HashMap::new(),
            last_link: 0,
            routes: RouteCache::default(),
            alone: Route::default(),
            ids: Vec::new(),
            remembering: Vec::new(),
            interceptors,
            chance,
            batch: Batch::new(),
            pace: Pace::default(),
            settles: Vec::new(),
            refused_settle: None,
            wakes: Wakes::new(),
            is_ahead: false,
            hold: None,
            committer: CommitBy::Thread,
            uncommitted_bytes: 0,
            ended: false,
        })
    }

    /// The connection as listings see it; its task waits on
    /// [`kicked`](Connection::kicked) and counts bytes here.
    #[must_use]
    pub const fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Works off the requests of one read, whose spans lie in `input`, and empties the list. Who was
    /// given something is woken by [`Session::wake`]: once for several portions of one read.
    ///
    /// # Errors
    /// [`Stop`] when the connection is over: what it is told is in the outbox.
    pub async fn submit(&mut self, input: &[u8], requests: &mut Vec<Request>) -> Result<(), Stop> {
        if self.keeps(input, requests) {
            return Ok(());
        }
        let result = self.work_off(input, requests).await;
        requests.clear();
        result
    }

    /// Whether one publish waits for nothing but the disk, so that its confirm comes soonest if the
    /// connection commits it itself: then [`Session::commit_here`] must be called before the caller
    /// waits.
    #[must_use]
    pub fn commits_here(&self) -> bool {
        self.committer == CommitBy::Caller
    }

    /// Commits the log; **blocks** for a sync of a fast disk. Slow ones are left to the log's thread.
    pub fn commit_here(&mut self) {
        if std::mem::take(&mut self.committer) == CommitBy::Caller {
            self.broker.storage.wal.commit_here();
        }
    }

    /// Wakes the connections that were given something. To be called before the caller waits for
    /// anything.
    pub fn wake(&mut self) {
        wake_all(&mut self.wakes);
    }

    /// What is done before something is waited for: nobody else is to wait for that too.
    fn before_waiting(&mut self) {
        self.wake();
        if std::mem::take(&mut self.committer) == CommitBy::Caller {
            self.broker.storage.wal.commit_soon();
        }
    }

    async fn work_off(&mut self, input: &[u8], requests: &mut Vec<Request>) -> Result<(), Stop> {
        if self.ended {
            return Err(Stop);
        }
        self.refresh_view();
        let mut n_done = requests.len();
        for (index, request) in requests.iter().enumerate() {
            match request {
                Request::Publish(_) if self.broker.alarms.any() => {
                    self.record_unheard(requests, index);
                    n_done = index;
                    break;
                }
                Request::Publish(publish) => {
                    if publish.inspect && publish.immediate {
                        // Who can be given it depends on what comes before it.
                        self.record_unheard(requests, index);
                        self.flush(input, requests).await;
                    }
                    if self.is_transactional(publish.channel) {
                        if let Err(stop) = self.keep_publish(publish, input) {
                            self.record_unheard(requests, index);
                            self.flush(input, requests).await;
                            return Err(stop);
                        }
                    } else if let Err(error) = self.prepare(index, publish, input) {
                        self.record_unheard(requests, index);
                        self.flush(input, requests).await;
                        self.before_waiting();
                        Box::pin(self.fail(publish.channel, None, error)).await?;
                    }
                    if self.pace.slices.is_over() {
                        self.record_unheard(requests, index);
                        self.flush(input, requests).await;
                        Box::pin(self.give_way()).await;
                    }
                }
                Request::Settle(settle) => {
                    if let Err(stop) = self.keep_settle(*settle) {
                        self.record_unheard(requests, index);
                        self.flush(input, requests).await;
                        return Err(stop);
                    }
                }
                Request::Control(control) => {
                    self.record_unheard(requests, index);
                    self.flush(input, requests).await;
                    self.before_waiting();
                    Box::pin(self.control(control)).await?;
                    self.refresh_view();
                }
            }
        }
        self.flush(input, requests).await;
        if n_done < requests.len() {
            self.hold(input, requests.drain(n_done..));
        }
        Ok(())
    }

    /// Takes the newest definitions.
    fn refresh_view(&mut self) {
        if self.broker.epoch() != self.view.epoch {
            self.view = self.broker.view();
        }
        self.routes.enter_epoch(self.view.epoch);
    }

    async fn flush(&mut self, input: &[u8], requests: &[Request]) {
        if self.batch.loading().is_some() {
            Box::pin(self.until_loaded()).await;
        }
        self.flush_publishes(input, requests).await;
        if self.settles.len() > SETTLES_AT_ONCE {
            Box::pin(self.settle_many()).await;
        } else {
            self.flush_settles();
        }
        if let Some((channel, error)) = self.refused_settle.take() {
            self.before_waiting();
            // It closes a channel, never the connection.
            let _stops = Box::pin(self.fail(channel, None, error)).await;
        }
    }

    /// Waits for queues of the batch that are still being read after a start.
    async fn until_loaded(&mut self) {
        self.before_waiting();
        while let Some(queue) = self.batch.loading() {
            queue.loaded().await;
        }
    }

    /// What comes after this request may not be heard, if its channel or the connection ends, and is
    /// unknown to the client's outbox all the same: queues that keep no record of what a consumer holds
    /// now have one of what it is settled there.
    fn record_unheard(&self, requests: &[Request], index: usize) {
        for request in requests.get(index..).unwrap_or_default() {
            if let Request::Settle(settle) = request
                && let Some(link) = self.links.get(&settle.link)
            {
                link.queue.record(link.consumer, std::iter::once(settle.position.0));
            }
        }
    }

    /// Deliveries that nobody acknowledges have been written to the client: they are settled, whatever
    /// it asks beside, and the list is emptied. Who is told of it is woken by [`Session::wake`].
    pub fn settle_written(&mut self, settles: &mut Vec<Settle>) {
        if !self.ended {
            self.settles.append(settles);
            self.flush_settles();
        }
        settles.clear();
    }

    fn keep_settle(&mut self, settle: Settle) -> Result<(), Stop> {
        let Some(channel) = self.channels.get_mut(settle.channel) else { return Ok(()) };
        match channel.tx.as_deref_mut() {
            None => self.settles.push(settle),
            Some(tx) if tx.settles.len() < channels::TX_SETTLES_MAX => {
                tx.settles.push(settle);
                self.uncommitted_bytes += size_of::<Settle>() as u64;
                channel.counters.n_uncommitted_acks.fetch_add(1, Ordering::Relaxed);
            }
            Some(_) => {
                return self.end_connection(
                    Some(settle.channel),
                    MethodTag::default(),
                    transactions::too_large(),
                );
            }
        }
        Ok(())
    }

    fn flush_settles(&mut self) {
        if self.settles.is_empty() {
            return;
        }
        let mut settles = self.take_settles();
        for run in settles.chunk_by(|a, b| a.link == b.link) {
            self.make_room(run);
            self.settle_part(run);
            self.after_settling(run);
        }
        settles.clear();
        self.settles = settles;
    }

    /// As [`Session::flush_settles`], of very many: others have their turn in between.
    async fn settle_many(&mut self) {
        let settles = self.take_settles();
        for run in settles.chunk_by(|a, b| a.link == b.link) {
            self.make_room(run);
            for alike in run.chunk_by(|a, b| goes_back(a) == goes_back(b)) {
                let _returning = self.begin_return(alike);
                for part in alike.chunks(SETTLES_AT_ONCE) {
                    self.settle_part(part);
                    self.did(part.len()).await;
                }
            }
            self.after_settling(run);
        }
    }

    /// What goes back in several parts goes together: nobody is to be given what stands behind it.
    fn begin_return(&self, alike: &[Settle]) -> Option<Returning> {
        let first = alike.first().filter(|it| goes_back(it) && alike.len() > SETTLES_AT_ONCE)?;
        Some(Returning::begin(&self.links.get(&first.link)?.queue))
    }

    /// Has consumers give back in slices what they hold, if it is very much, but for what is to be kept
    /// of each. Nobody is given any of it until what is returned is dropped.
    async fn give_back_many(
        &mut self,
        queue: &Arc<Queue>,
        consumers: &[(ConsumerKey, HashSet<u64>)],
        how: Return,
    ) -> Option<Returning> {
        if queue.counters.n_unacked.load(Ordering::Relaxed) <= SETTLES_AT_ONCE as u64 {
            return None;
        }
        let returning = Returning::begin(queue);
        for part in queue.held_by(consumers).chunks(SETTLES_AT_ONCE) {
            queue.give_back(part, how);
            self.did(part.len()).await;
        }
        Some(returning)
    }

    /// What was settled, by link.
    fn take_settles(&mut self) -> Vec<Settle> {
        let mut settles = std::mem::take(&mut self.settles);
        let first = settles.first().map(|settle| settle.link);
        if settles.iter().any(|settle| Some(settle.link) != first) {
            // Unlike a stable sort this one needs no memory; to a queue the order makes no difference.
            settles.sort_unstable_by_key(|settle| (settle.link, settle.position));
        }
        settles
    }

    /// Settles on one link, under one lock.
    fn settle_part(&mut self, part: &[Settle]) {
        let Some(link) = part.first().and_then(|settle| self.links.get(&settle.link)) else {
            return;
        };
        if link.queue.settle(link.consumer, part, &mut self.wakes) == Settled::NotByThisMode {
            self.refused_settle = Some((link.channel, not_by_this_mode(&link.queue)));
        }
    }

    fn after_settling(&mut self, run: &[Settle]) {
        let Some(id) = run.first().map(|settle| settle.link) else { return };
        let Some(link) = self.links.get(&id) else { return };
        if !link.active && link.queue.detach_idle(link.consumer) {
            self.forget_link(id);
        }
    }

    /// Nothing is held on a link any more, and nothing will be.
    fn forget_link(&mut self, id: LinkId) {
        let Some(link) = self.links.remove(&id) else { return };
        let Some(channel) = self.channels.get_mut(link.channel) else { return };
        channel.links.remove(&id);
        let gets = (link.queue.id(), link.no_ack);
        if channel.gets.get(&gets) == Some(&id) {
            channel.gets.remove(&gets);
        }
    }

    /// Deliveries on these links may go on: the client has read.
    pub fn resume(&self, links: &[LinkId]) {
        for id in links {
            match self.links.get(id) {
                Some(link) => link.queue.resume(link.consumer),
                None => self.broker.replies.resume(self.connection.id, *id),
            }
        }
    }

    /// Whether the connection should not be read for a moment: it publishes faster than consumers
    /// take, so that they lack the processor more than it does. To be asked once after each read.
    pub const fn take_is_ahead(&mut self) -> bool {
        std::mem::replace(&mut self.is_ahead, false)
    }

    /// Closes the connection from the broker's side, with 320 and this reason.
    pub async fn force_close(&mut self, reason: &str) {
        let error = Error::new(session::ErrorKind::ConnectionForced, reason.to_owned());
        self.give_everything_back().await;
        self.tell(|sink| {
            sink.event(Event::ConnectionFailed {
                channel: None,
                error: error.clone(),
                origin: None,
            });
        });
    }

    /// Beside transactions the client has the node keep so many bytes that are in no queue. To be told in each
    /// turn of the connection's task, and told cheaply while nothing changes.
    ///
    /// # Errors
    /// That is too much: then call [`Session::fail_connection`] with it.
    pub fn note_held(&self, n_bytes: u64) -> Result<(), Error> {
        let n_bytes = n_bytes + self.uncommitted_bytes;
        if n_bytes == self.connection.held.told_bytes() {
            return Ok(());
        }
        self.broker.holdings.note(&self.connection, n_bytes, &self.broker.connections)
    }

    /// Closes the connection for a reason that none of its requests gave.
    pub async fn fail_connection(&mut self, error: Error) {
        debug_assert!(error.kind.closes_connection(), "{error} is a channel's");
        let _stops = self.fail(ChannelId(0), None, error).await;
    }

    /// Closes the channels that hold messages for too long; those go back to their queues.
    ///
    /// COMPAT: RabbitMQ's text.
    pub async fn fail_overdue(&mut self) {
        self.before_waiting();
        for (channel, timeout_ms) in self.connection.take_overdue() {
            if self.channels.get(channel).is_none() {
                continue;
            }
            let text = format!(
                "delivery acknowledgement on channel {} timed out. Timeout value used: {timeout_ms} \
                 ms. This timeout value can be configured, see consumers doc guide to learn more",
                channel.0
            );
            let error = Error::new(session::ErrorKind::PreconditionFailed, text);
            // It closes a channel, never the connection.
            let _stops = self.fail(channel, None, error).await;
        }
        self.wake();
    }

    /// Gives back everything the connection holds. To be called at the end, whatever ended it.
    pub async fn close(mut self) {
        self.give_everything_back().await;
    }

    async fn give_everything_back(&mut self) {
        self.before_waiting();
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        for channel in self.channels.ids() {
            self.release_channel(channel).await;
            self.pace.slices.did(CHANNEL_STEPS).await;
        }
        self.broker.drop_exclusive_queues(self.connection.id).await;
        self.broker.connections.close(self.connection.id);
        self.broker.holdings.forget(&self.connection);
        self.broker.tell_disconnected(&self.connection);
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
                connection = %self.connection.identity.name,
                channel = channel.0,
                "closing the connection: {error}"
            );
            let id = (channel.0 != 0).then_some(channel);
            self.tell(|sink| {
                let error = error.clone();
                sink.event(Event::ConnectionFailed { channel: id, error, origin });
            });
            return Err(Stop);
        }
        self.release_channel(channel).await;
        tracing::warn!(
            connection = %self.connection.identity.name,
            channel = channel.0,
            "closing the channel: {error}"
        );
        self.tell(|sink| {
            sink.event(Event::ChannelFailed { channel, error: error.clone(), origin });
        });
        Ok(())
    }

    /// As [`Session::fail`] for an error that always ends the connection and needs no waiting: what
    /// it holds is given back by [`Session::close`].
    fn end_connection(
        &self,
        channel: Option<ChannelId>,
        origin: MethodTag,
        error: Error,
    ) -> Result<(), Stop> {
        tracing::warn!(
            connection = %self.connection.identity.name,
            "closing the connection: {error}"
        );
        self.tell(|sink| {
            let error = error.clone();
            sink.event(Event::ConnectionFailed { channel, error, origin: Some(origin) });
        });
        Err(Stop)
    }

    /// Gives back what a channel holds: its consumers go, unsettled messages return to their
    /// queues, confirms on their way are dropped.
    async fn release_channel(&mut self, id: ChannelId) {
        self.end_replies(id);
        let Some(closed) = self.channels.close(id) else { return };
        self.tell_closed(id, &closed);
        stdx::lock(&self.connection.channels).remove(&id);
        self.confirms.forget(id);
        let uncommitted_bytes = closed.tx.as_deref().map_or(0, Tx::held_bytes);
        self.uncommitted_bytes = self.uncommitted_bytes.saturating_sub(uncommitted_bytes);
        for (id, settled) in closed.tx.as_deref().map(Tx::settled_by_link).unwrap_or_default() {
            if let Some(link) = self.links.get(&id) {
                link.queue.record(link.consumer, settled.into_iter());
            }
        }
        let ids = closed.links.iter();
        let mut links: Vec<Link> = ids.filter_map(|id| self.links.remove(id)).collect();
        links.sort_by_key(|link| link.queue.id());
        for of_queue in links.chunk_by(|a, b| a.queue.id() == b.queue.id()) {
            let Some(Link { queue, .. }) = of_queue.first() else { continue };
            if self.detach(queue, of_queue).await == AfterDetach::DeleteQueue {
                self.broker.drop_queue(queue).await;
            }
            self.pace.slices.did(of_queue.len()).await;
        }
    }

    /// Takes the consumers of one channel and one queue away. What they hold comes back together; of
    /// very many, those that hold nothing go before, in slices.
    async fn detach(&mut self, queue: &Arc<Queue>, links: &[Link]) -> AfterDetach {
        let mut consumers: Vec<ConsumerKey> = links.iter().map(|link| link.consumer).collect();
        let mut after = AfterDetach::Stays;
        if consumers.len() > SLICE {
            let mut holding = Vec::new();
            // The single active one is likely to be the first: it goes last, rather than pass its part
            // on among them.
            for slice in consumers.rchunks(SLICE) {
                after = after.or(queue.retire(slice, &mut holding));
                self.pace.slices.did(slice.len()).await;
            }
            consumers = holding;
        }
        let all: Vec<_> = consumers.iter().map(|consumer| (*consumer, HashSet::new())).collect();
        let _returning = self.give_back_many(queue, &all, Return::Failed).await;
        after.or(queue.detach(&consumers))
    }

    /// Tells of a channel that goes, and of its consumers.
    fn tell_closed(&self, id: ChannelId, closed: &Channel) {
        for (consumer_tag, link) in &closed.consumers {
            if let Some(link) = self.links.get(link) {
                self.tell_consumer("consumer.deleted", id, (&link.queue, consumer_tag), |it| it);
            }
        }
        self.broker.tell_channel("channel.closed", &self.connection, id);
    }

    fn tell_consumer(
        &self,
        event: &str,
        channel: ChannelId,
        (queue, consumer_tag): (&Queue, &ShortString),
        more: impl FnOnce(EventHeaders) -> EventHeaders,
    ) {
        let (by, queue) = ((&*self.connection, channel), &queue.def().name);
        self.broker.tell_consumer(event, by, (queue, consumer_tag), more);
    }

    async fn control(&mut self, control: &Control) -> Result<(), Stop> {
        let channel = control.channel;
        let is_open = self.channels.get(channel).is_some();
        let of_connection = matches!(
            control.op,
            Op::ChannelOpen
                | Op::ChannelClose
                | Op::ConnectionClose
                | Op::ConnectionFail(_)
                | Op::UpdateSecret { .. }
        );
        if !is_open && !of_connection {
            return Ok(());
        }
        match self.act(control).await {
            Ok(Handled::Done) if !control.nowait => {
                let origin = control.origin;
                self.tell(|sink| sink.event(Event::Done { channel, origin }));
                Ok(())
            }
            Ok(Handled::Done | Handled::Answered) => Ok(()),
            Ok(Handled::Closed) => Err(Stop),
            Err(error) => self.fail(channel, Some(control.origin), error).await,
        }
    }
}

/// Whether a message goes back to its queue.
const fn goes_back(settle: &Settle) -> bool {
    matches!(settle.outcome, Outcome::Requeued | Outcome::Returned)
}

/// A consumer rejected what its queue has no record of.
fn not_by_this_mode(queue: &Queue) -> Error {
    let text = format!(
        "basic.reject and basic.nack are not implemented for {}: it confirms on {} (x-confirm-on)",
        queue.def().resource(),
        queue.confirm_on().as_str()
    );
    Error::new(session::ErrorKind::NotImplementedByMode, text)
}

/// How a control request went.
enum Handled {
    /// It succeeded; the answer carries nothing.
    Done,
    /// It succeeded and was answered.
    Answered,
    /// The connection is over.
    Closed,
}
