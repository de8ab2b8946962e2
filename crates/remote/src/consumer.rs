//! A consumer, or the taker of `basic.get`s of one channel, at a queue of another node.

use crate::RemoteQueue;
use crate::commands::{LinkTold, SessionCommand};
use crate::requests::{SessionRequest, SessionResponse};
use crate::wire::{DeliverFrame, LINK_CREDIT_BYTES};
use meta::ConfirmOn;
use queue::{AckMode, Checkout, CreditMode, Return};
use queue_type::{AttachRefused, Count, Got, Settled, Taker, Tally};
use session::{
    ChannelId, CreditRequest, Event, LinkId, MessageChanges, Outbox, Outcome, Room, Settle,
    ShortString, Sink,
};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use stdx::record::RecordError;

/// The client of a consumer, as deliveries reach it.
pub(crate) struct ConsumerClient {
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) link: LinkId,
    pub(crate) consumer_tag: ShortString,
    /// Whether the client waits for the answer to its request.
    pub(crate) answer: bool,
    pub(crate) tally: Arc<Tally>,
}

stdx::debug_of!(|it: ConsumerClient| link = it.link);

/// A link to a queue of another node.
#[derive(Debug)]
pub struct RemoteConsumer {
    pub(crate) queue: Arc<RemoteQueue>,
    number: u64,
    channel: ChannelId,
    settling: AckMode,
    mode: CreditMode,
    /// The client; none of a link that gets only what it asks for.
    client: Option<ConsumerClient>,
    state: Mutex<ConsumerState>,
}

#[derive(Debug, Default)]
struct ConsumerState {
    is_active: bool,
    /// Whether the home has forgotten the link, with the connection that it was attached over.
    is_lost: bool,
    /// Deliveries that the client is to settle.
    n_unacked: u64,
    /// Messages that were delivered by themselves.
    n_delivered: u64,
    /// Bytes that were delivered, and for which the home was given no credit again.
    owed_bytes: u32,
}

impl RemoteConsumer {
    pub(crate) fn new(
        queue: &Arc<RemoteQueue>,
        channel: ChannelId,
        Checkout { settling, credit_mode: mode, .. }: Checkout,
        client: Option<ConsumerClient>,
    ) -> Arc<Self> {
        let state = ConsumerState { is_active: client.is_some(), ..ConsumerState::default() };
        Arc::new(Self {
            queue: Arc::clone(queue),
            number: queue.home().next_link(),
            channel,
            settling,
            mode,
            client,
            state: Mutex::new(state),
        })
    }

    /// The number of the link, which its home knows it by.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// The queue.
    #[must_use]
    pub const fn queue(&self) -> &Arc<RemoteQueue> {
        &self.queue
    }

    /// The channel of the client.
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Whether a delivery over the link settles the message.
    #[must_use]
    pub fn is_no_ack(&self) -> bool {
        self.settling == AckMode::Auto
    }

    /// Whether the link is given deliveries.
    #[must_use]
    pub fn is_active(&self) -> bool {
        stdx::lock(&self.state).is_active
    }

    /// Whether the home has forgotten the link: it gets nothing any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        stdx::lock(&self.state).is_lost
    }

    /// Gives deliveries of the home to the client.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(crate) fn deliver(&self, deliveries: &DeliverFrame) -> Result<(), RecordError> {
        let Some(client) = &self.client else { return Ok(()) };
        let (mut room, mut n, mut n_again, mut n_held, mut n_got) = (Room::Full, 0, 0, 0, 0);
        let mut read = Ok(());
        let waker = client.outbox.batch(&mut |sink: &mut dyn Sink| {
            for item in deliveries.items() {
                let item = match item {
                    Ok(item) => item,
                    Err(error) => {
                        read = Err(error);
                        break;
                    }
                };
                let delivery = item.as_ref();
                n_got += 1;
                n_held += u64::from(!self.is_no_ack() || delivery.settled_by_write);
                // A message that does not fit is given back when the connection ends for it.
                if sink.fits(delivery.message, 0, self.queue.def().name.as_str()) {
                    n += 1;
                    n_again += u64::from(delivery.redelivered);
                    room = sink.deliver(client.link, delivery);
                }
            }
            let what = if self.is_no_ack() { Count::DeliveredAuto } else { Count::Delivered };
            client.tally.add(what, n);
            client.tally.add(Count::Redelivered, n_again);
            // The client settles nothing before its outbox is unlocked.
            let mut state = stdx::lock(&self.state);
            state.n_unacked += n_held;
            state.n_delivered += n_got;
        });
        waker.into_iter().for_each(Waker::wake);
        self.owe(deliveries, room);
        read
    }

    /// Gives the home credit again, if the client has room and the home has used much of the credit, or all
    /// that it may.
    fn owe(&self, deliveries: &DeliverFrame, room: Room) {
        let n_bytes = u32::try_from(deliveries.n_bytes()).unwrap_or(u32::MAX);
        let mut state = stdx::lock(&self.state);
        state.owed_bytes = state.owed_bytes.saturating_add(n_bytes);
        let is_due = state.owed_bytes >= LINK_CREDIT_BYTES / 2 || deliveries.asks_for_credit;
        if room != Room::Full && is_due {
            drop(state);
            self.resume();
        }
    }

    /// Resumes deliveries, since the client can take them again.
    pub fn resume(&self) {
        let bytes = std::mem::take(&mut stdx::lock(&self.state).owed_bytes);
        if bytes > 0 {
            self.command(&SessionCommand::Credit { link: self.number, bytes });
        }
    }

    /// Takes an event of the home.
    pub(crate) fn told(&self, told: LinkTold) {
        let Some(client) = &self.client else { return };
        let (channel, link) = (self.channel, client.link);
        let mut is_kept = true;
        let waker = client.outbox.batch(&mut |sink: &mut dyn Sink| match &told {
            LinkTold::Attached(filters) => sink.event(Event::Attached {
                channel,
                link,
                consumer_tag: &client.consumer_tag,
                no_ack: self.is_no_ack(),
                filters: filters.as_deref(),
                answer: client.answer,
            }),
            LinkTold::Cancelled => {}
            LinkTold::TimedOut(positions) => is_kept = sink.timed_out(link, positions),
            LinkTold::Flowed(credit) => sink.flowed(link, *credit),
        });
        waker.into_iter().for_each(Waker::wake);
        if !is_kept {
            // COMPAT: the consumer of a client that cannot be told ends.
            self.queue.home().detach(vec![self.number], Return::Released);
        }
        if told == LinkTold::Cancelled || !is_kept {
            self.cancelled();
        }
    }

    /// The queue has ended the consumer, or its home is down.
    pub(crate) fn cancelled(&self) {
        let mut state = stdx::lock(&self.state);
        state.is_lost = true;
        let was_active = std::mem::take(&mut state.is_active);
        drop(state);
        let Some(client) = self.client.as_ref().filter(|_| was_active) else { return };
        let ConsumerClient { outbox, link, consumer_tag, .. } = client;
        let waker = outbox.batch(&mut |sink: &mut dyn Sink| {
            let channel = self.channel;
            sink.event(Event::ConsumerCancelled { channel, link: *link, consumer_tag });
        });
        waker.into_iter().for_each(Waker::wake);
    }

    /// Asks for the queue's next message.
    ///
    /// # Errors
    /// The queue refuses it, or is down.
    pub async fn get(&self, taker: Taker<'_>) -> Result<Got, AttachRefused> {
        match self.queue.home().ask(&SessionRequest::Get(self.number), None).await {
            Some(SessionResponse::Got { delivery, n_ready }) => {
                let Ok(item) = SessionResponse::got(&delivery) else { return Ok(Got::Unfit) };
                let (delivery, no_ack) = (item.as_ref(), self.is_no_ack());
                let is_held = !no_ack || delivery.settled_by_write;
                stdx::lock(&self.state).n_unacked += u64::from(is_held);
                let (channel, link) = (self.channel, taker.link);
                let waker = taker.outbox.batch(&mut |sink: &mut dyn Sink| {
                    sink.event(Event::Got { channel, link, delivery, no_ack, n_ready });
                    taker.tally.add(if no_ack { Count::GotAuto } else { Count::Got }, 1);
                    taker.tally.add(Count::Redelivered, u64::from(delivery.redelivered));
                });
                waker.into_iter().for_each(Waker::wake);
                Ok(Got::Message)
            }
            Some(SessionResponse::AttachRefused(_)) if self.is_lost() => {
                Err(self.queue.refuse_attach())
            }
            Some(SessionResponse::AttachRefused(refused)) => Err(refused),
            Some(_) => {
                taker.tally.add(Count::GotEmpty, 1);
                Ok(Got::Nothing)
            }
            None => Err(self.queue.refuse_attach()),
        }
    }

    /// Settles messages that were delivered over the link, with changes that the queue may keep.
    pub fn settle(&self, settles: &[Settle], changes: Option<&MessageChanges>) -> Settled {
        let is_recorded = self.queue.confirm_on() != ConfirmOn::AckDirect;
        for run in settles.chunk_by(|a, b| a.outcome == b.outcome) {
            let Some(outcome) = run.first().map(|settle| settle.outcome) else { continue };
            if outcome != Outcome::Accepted && !is_recorded {
                let is_link = self.mode == CreditMode::Link;
                return if is_link { Settled::NotOnThisLink } else { Settled::NotByThisMode };
            }
            let positions: Vec<_> = run.iter().map(|settle| settle.position).collect();
            let mut state = stdx::lock(&self.state);
            state.n_unacked = state.n_unacked.saturating_sub(positions.len() as u64);
            drop(state);
            let (link, changes) = (self.number, changes.cloned());
            self.command(&SessionCommand::Settle { link, outcome, positions, changes });
        }
        Settled::All
    }

    /// Ends the link's deliveries; resolves after the last one.
    pub async fn cancel(&self) {
        let _is_down = self.queue.home().ask(&SessionRequest::Cancel(self.number), None).await;
        stdx::lock(&self.state).is_active = false;
    }

    /// Detaches the link if it gets no deliveries any more and holds nothing; returns whether it did.
    #[must_use]
    pub fn detach_idle(&self) -> bool {
        let state = stdx::lock(&self.state);
        let is_idle = !state.is_active && state.n_unacked == 0;
        drop(state);
        if is_idle {
            self.queue.home().detach(vec![self.number], Return::Released);
        }
        is_idle
    }

    /// Changes the link's prefetch limit.
    pub fn set_prefetch(&self, prefetch: Option<u32>) {
        self.command(&SessionCommand::Prefetch { link: self.number, prefetch });
    }

    /// Takes the link's credit as its client sees it.
    pub fn flow(&self, credit: &CreditRequest) {
        self.command(&SessionCommand::Flow { link: self.number, credit: *credit });
    }

    fn command(&self, command: &SessionCommand) {
        // A home that is down holds nothing for the link.
        let _is_up = self.queue.home().command(command);
    }
}

/// Links of one channel at one queue of another node, whose messages come back together.
#[derive(Debug)]
pub struct RemoteRelease(Vec<(Arc<RemoteConsumer>, HashSet<u64>)>);

impl RemoteRelease {
    /// Collects links, with the positions that each keeps; none without links.
    pub fn of<'l>(
        links: impl Iterator<Item = (&'l Arc<RemoteConsumer>, HashSet<u64>)>,
    ) -> Option<Self> {
        let links: Vec<_> = links.map(|(link, kept)| (Arc::clone(link), kept)).collect();
        (!links.is_empty()).then_some(Self(links))
    }

    /// The number of links.
    #[must_use]
    pub const fn n_consumers(&self) -> usize {
        self.0.len()
    }

    /// Requeues what the links hold, but for what each keeps.
    pub fn requeue_all(self) {
        for (link, kept) in self.0 {
            let mut state = stdx::lock(&link.state);
            state.n_unacked = kept.len() as u64;
            let upto = state.n_delivered;
            drop(state);
            let kept = kept.into_iter().collect();
            link.command(&SessionCommand::Recover { link: link.number, upto, kept });
        }
    }

    /// Detaches the links, and gives back what they hold. Their home deletes a queue that goes with them.
    pub fn detach(self, how: Return) {
        if let Some((first, _)) = self.0.first() {
            let home = Arc::clone(first.queue.home());
            home.detach(self.0.iter().map(|(link, _)| link.number).collect(), how);
        }
    }
}
