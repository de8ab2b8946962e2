//! A consumer of messages of a stream, as its session holds it. It pulls: what it says, room in its outbox
//! and what is newly committed make its connection's task read on, as far as credit and room go.

use crate::cursor::{Cursor, Pause, Read};
use crate::filtering::MessageFilter;
use crate::follower::Follower;
use crate::listed::SubscriptionView;
use crate::readers::{Ended, Reader};
use crate::source::Lent;
use crate::stream::{Stream, check_open};
use message::BodyForm;
use queue::{AckMode, CreditMode, DeliveryRoom, LinkCredit};
use queue_type::{
    Activity, AfterDetach, Attach, AttachRefused, ConsumerView, Count, Settled, Tally, Wakes,
};
use routing::LinkFilters;
use session::{
    ChannelId, ConsumerCredit, ConvertedTo, CreditRequest, Event, Settle, ShortString, Table,
};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// A consumer of one channel at its stream.
pub struct Consumer {
    /// Its stream.
    pub stream: Arc<Stream>,
    follower: Follower,
    facts: Facts,
    state: Mutex<State>,
    tally: Arc<Tally>,
}

/// Its description in listings.
struct Facts {
    consumer_tag: ShortString,
    arguments: Table,
    /// Whether a delivery settles its message: nothing waits for its client then.
    is_no_ack: bool,
}

struct State {
    cursor: Cursor,
    room: DeliveryRoom,
    prefetch: u32,
    /// Deliveries that are not settled.
    n_unacked: u64,
    /// Whether link credit is to be used up: by what is committed, and what is left by being counted as used.
    is_draining: bool,
    /// Whether the consumer has ended: it is given nothing any more.
    has_ended: bool,
}

impl State {
    fn new(cursor: Cursor, mode: CreditMode) -> Self {
        let (room, prefetch) = (DeliveryRoom::new(mode), mode.prefetch().unwrap_or(0));
        Self { cursor, room, prefetch, n_unacked: 0, is_draining: false, has_ended: false }
    }

    fn credit(&self) -> u64 {
        if self.has_ended { 0 } else { self.room.n_left() }
    }
}

stdx::debug_of!(|it: Consumer| key = it.follower.key);

impl Stream {
    /// Attaches a consumer; the outbox is told before its first delivery.
    ///
    /// # Errors
    /// The stream is being deleted; arguments that say nothing.
    pub fn attach(self: &Arc<Self>, attach: Attach<'_>) -> Result<Arc<Consumer>, AttachRefused> {
        check(self, &attach)?;
        let now_ms = self.services.time.unix_ms();
        let mut arguments = attach.asked.arguments.clone();
        let (mut form, mut filters) = (BodyForm::Plain, None);
        if let Some(source) = &attach.asked.source {
            let mut asked = LinkFilters::decode(&source.filters);
            for (name, value) in std::mem::take(&mut asked.arguments) {
                arguments.push(name, value);
            }
            (form, filters) = (BodyForm::Amqp10, Some(asked));
        }
        let cursor = Cursor::open(self, &arguments, form, now_ms);
        let mut cursor = cursor.map_err(AttachRefused::Unfit)?;
        let (sections, in_place) =
            filters.map_or((None, None), |it| (it.sections, Some(it.in_place)));
        cursor.filter = sections.map(|sections| MessageFilter::new(sections, now_ms));
        let consumer = Arc::new(Consumer {
            stream: Arc::clone(self),
            follower: Follower::new(
                self.readers.next_key(),
                (attach.connection, attach.channel),
                attach.link,
                attach.outbox,
            ),
            facts: Facts {
                consumer_tag: attach.consumer_tag.clone(),
                arguments,
                is_no_ack: attach.checkout.settling == AckMode::Auto,
            },
            state: Mutex::new(State::new(cursor, attach.checkout.credit_mode)),
            tally: attach.tally,
        });
        if self.is_deleted() || !self.readers.add(Arc::<Consumer>::clone(&consumer)) {
            return Err(AttachRefused::Gone);
        }
        let attached = Event::Attached {
            channel: attach.channel,
            link: attach.link,
            consumer_tag: attach.consumer_tag,
            no_ack: consumer.facts.is_no_ack,
            filters: in_place.as_deref(),
            answer: attach.answer,
        };
        consumer.follower.tell(attached);
        consumer.read_on_here();
        Ok(consumer)
    }
}

/// COMPAT: RabbitMQ's texts.
fn check(stream: &Stream, attach: &Attach<'_>) -> Result<(), AttachRefused> {
    check_open(stream).map_err(AttachRefused::Unfit)?;
    let resource = stream.def().resource();
    if attach.limit.as_ref().is_some_and(|limit| limit.is_set()) {
        let text = format!("{resource} does not support global qos");
        return Err(AttachRefused::NotImplemented(text));
    }
    if matches!(attach.checkout.credit_mode, CreditMode::Unlimited | CreditMode::Prefetch(0)) {
        let text = format!("consumer prefetch count is not set for stream {resource}");
        return Err(AttachRefused::Unfit(text));
    }
    // Without link credit nothing would limit deliveries.
    let is_by_credit = attach.checkout.credit_mode == CreditMode::Link;
    if attach.checkout.settling == AckMode::Auto && !is_by_credit {
        let text = format!("automatic acknowledgement not supported by stream {resource}");
        return Err(AttachRefused::NotImplemented(text));
    }
    Ok(())
}

impl Consumer {
    /// Its channel.
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        let (_, channel) = self.follower.owner;
        channel
    }

    /// Whether it is given deliveries.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !stdx::lock(&self.state).has_ended
    }

    /// Settles deliveries. COMPAT: any outcome gives the consumer credit.
    pub fn settle(self: &Arc<Self>, settles: &[Settle], wakes: &mut Wakes) -> Settled {
        {
            let mut state = stdx::lock(&self.state);
            let n = state.n_unacked.min(settles.len() as u64);
            state.n_unacked -= n;
            state.room.note_settled(n);
            self.stream.readers.remove_unacked(n);
            self.stream.readers.note_acked(n);
        }
        wakes.extend(self.read_on());
        Settled::All
    }

    /// Counts all unacked messages as settled, as when the channel recovers.
    pub fn settle_all(self: &Arc<Self>) {
        self.forget_unacked();
        self.read_on_here();
    }

    fn forget_unacked(&self) {
        let mut state = stdx::lock(&self.state);
        let n = std::mem::take(&mut state.n_unacked);
        state.room.note_settled(n);
        self.stream.readers.remove_unacked(n);
    }

    /// Changes the prefetch limit. COMPAT: without a limit the consumer is given nothing.
    pub fn set_prefetch(self: &Arc<Self>, prefetch: Option<u32>) {
        {
            let mut state = stdx::lock(&self.state);
            state.prefetch = prefetch.unwrap_or(0);
            let State { room, prefetch, n_unacked, .. } = &mut *state;
            room.set_prefetch(Some(*prefetch), *n_unacked);
        }
        self.read_on_here();
    }

    /// Takes the link's credit as its client sees it. The client is told what is left, if it wishes, behind
    /// the messages that this delivers; for a drain once nothing is left that is committed.
    pub fn flow(self: &Arc<Self>, request: &CreditRequest) {
        {
            let mut state = stdx::lock(&self.state);
            let CreditRequest { delivery_count, credit, drain, .. } = *request;
            state.room.flow(LinkCredit { delivery_count, credit });
            state.is_draining = drain && state.room.is_of_link();
        }
        self.read_on_here();
        if request.echo && !request.drain {
            let told = self.tell_credit(&stdx::lock(&self.state), false);
            told.into_iter().for_each(Waker::wake);
        }
    }

    /// Uses up the credit that is left of a drain.
    fn end_drain(&self, state: &mut State) -> Option<Waker> {
        if !std::mem::take(&mut state.is_draining) || state.has_ended {
            return None;
        }
        state.room.drain();
        self.tell_credit(state, true)
    }

    fn tell_credit(&self, state: &State, drain: bool) -> Option<Waker> {
        let LinkCredit { delivery_count, credit } = state.room.link_credit()?;
        let n_available = state.cursor.n_available(&self.stream);
        let available = u32::try_from(n_available).unwrap_or(u32::MAX);
        let credit = ConsumerCredit { delivery_count, credit, available, drain, is_active: None };
        self.follower.batch(&mut |sink| sink.flowed(self.follower.link, credit))
    }

    /// Delivers what there is: the connection can take deliveries again, or more is to be read. A filter has
    /// another turn, of as many steps as returned.
    pub fn resume(self: &Arc<Self>) -> usize {
        if let Some(filter) = &mut stdx::lock(&self.state).cursor.filter {
            filter.begin_turn(self.stream.services.time.unix_ms());
        }
        self.read_on_here();
        stdx::lock(&self.state).cursor.filter.as_ref().map_or(0, MessageFilter::n_steps)
    }

    fn read_on_here(self: &Arc<Self>) {
        if let Some(waker) = self.read_on() {
            waker.wake();
        }
    }

    /// Ends the consumer's deliveries. `told` runs after the last.
    pub fn cancel(&self, told: impl FnOnce()) -> AfterDetach {
        stdx::lock(&self.state).has_ended = true;
        told();
        AfterDetach::Stays
    }

    /// Detaches a consumer that is given nothing any more; true if it was one.
    pub fn detach_idle(&self) -> bool {
        let has_ended = stdx::lock(&self.state).has_ended;
        if has_ended {
            self.detach();
        }
        has_ended
    }

    /// Detaches the consumer for good.
    pub(crate) fn detach(&self) {
        stdx::lock(&self.state).has_ended = true;
        self.forget_unacked();
        self.stream.readers.remove(self.follower.key);
    }

    fn cancelled(&self) -> Option<Waker> {
        let (channel, link) = (self.channel(), self.follower.link);
        let consumer_tag = &self.facts.consumer_tag;
        self.follower.batch(&mut |sink| {
            sink.event(Event::ConsumerCancelled { channel, link, consumer_tag });
        })
    }

    /// Reads and delivers as far as credit, room, the turn of a filter and what is committed go. Returns the
    /// waker of its connection's task, if that is not this one.
    fn read_on(self: &Arc<Self>) -> Option<Waker> {
        let mut state = stdx::lock(&self.state);
        let mut waker = None;
        loop {
            let credit = state.credit();
            if credit == 0 {
                return self.end_drain(&mut state).or(waker);
            }
            if let Some(filter) = &mut state.cursor.filter
                && filter.is_turn_over()
            {
                let is_new = filter.begins_to_pause();
                return is_new.then(|| self.follower.tell_readable()).flatten().or(waker);
            }
            let (mut pause, mut n_delivered) = (Pause::ChunkEnds, 0);
            let told = self.follower.batch(&mut |sink| {
                (pause, n_delivered) = state.cursor.deliver(self.follower.link, credit, sink);
                let auto = self.facts.is_no_ack;
                self.tally
                    .add(if auto { Count::DeliveredAuto } else { Count::Delivered }, n_delivered);
            });
            waker = told.or(waker);
            if state.cursor.form().is_plain() {
                self.stream.services.conversions.note_many(ConvertedTo::Properties, n_delivered);
            }
            if let Some(filter) = &mut state.cursor.filter {
                self.stream.readers.note_passed_over(filter.take_passed_over());
            }
            state.room.take(n_delivered);
            if !self.facts.is_no_ack {
                state.n_unacked += n_delivered;
                self.stream.readers.add_unacked(n_delivered);
            }
            match pause {
                Pause::NoRoom => return waker,
                Pause::TurnEnds => continue,
                Pause::NoCredit => return self.end_drain(&mut state).or(waker),
                Pause::ChunkEnds => {}
                Pause::Damaged(damaged) => return self.fail(&mut state, &damaged.0).or(waker),
            }
            match state.cursor.read(&self.stream) {
                Ok(Read::GoesOn) => {}
                Ok(Read::Waits(lent)) => {
                    self.fetch(lent);
                    return waker;
                }
                // A chunk that is committed in between is seen now, or the consumer is told.
                Ok(Read::End) if self.follower.begins_to_wait() => {
                    self.stream.readers.wait(Arc::<Self>::clone(self));
                }
                Ok(Read::End) => return self.end_drain(&mut state).or(waker),
                Err(damaged) => return self.fail(&mut state, &damaged.0).or(waker),
            }
        }
    }

    /// Has a thread read what is not in memory, unless one does.
    fn fetch(self: &Arc<Self>, lent: Option<Lent>) {
        let Some(mut lent) = lent else { return };
        let me = Arc::clone(self);
        self.stream.services.read_beside(Box::new(move || {
            let next = lent.read(&me.stream);
            stdx::lock(&me.state).cursor.give_back(lent, next);
            if let Some(waker) = me.follower.tell_readable() {
                waker.wake();
            }
        }));
    }

    /// Ends a consumer whose stream cannot be read any further; its client is told of the cancel.
    fn fail(&self, state: &mut State, error: &str) -> Option<Waker> {
        state.has_ended = true;
        tracing::error!("cancelling a consumer of {}: {error}", self.stream.def().resource());
        self.cancelled()
    }
}

impl Reader for Consumer {
    fn follower(&self) -> &Follower {
        &self.follower
    }

    /// A filter is not evaluated on the thread of a publisher.
    fn read_here(self: Arc<Self>) -> Option<Waker> {
        let has_filter = stdx::lock(&self.state).cursor.filter.is_some();
        if has_filter { self.follower.tell_readable() } else { self.read_on() }
    }

    fn view(&self) -> Option<ConsumerView> {
        let (connection, channel) = self.follower.owner;
        Some(ConsumerView {
            connection,
            channel,
            consumer_tag: self.facts.consumer_tag.clone(),
            ack_required: !self.facts.is_no_ack,
            prefetch_count: stdx::lock(&self.state).prefetch,
            exclusive: false,
            arguments: self.facts.arguments.clone(),
            activity: Activity::Up,
            waits_for: None,
        })
    }

    fn subscription(&self) -> Option<SubscriptionView> {
        None
    }

    fn n_unacked(&self) -> u64 {
        stdx::lock(&self.state).n_unacked
    }

    fn end(&self) -> Ended {
        stdx::lock(&self.state).has_ended = true;
        self.forget_unacked();
        Ended::Told(self.cancelled())
    }

    fn rest(&self) {
        if self.follower.is_at_rest() {
            stdx::lock(&self.state).cursor.rest();
        }
    }
}
