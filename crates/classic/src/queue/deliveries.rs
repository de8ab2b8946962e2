//! Messages on their way in and out: each is kept, has its place, and goes to whose turn it is. `basic.get`
//! is answered here; deliveries are told to the outboxes by `hand_over.rs`.

use super::confirm_on::Confirms;
use super::consumers::Consumers;
use super::hand_over::{Assignment, HandOver, Handing, n_failed_of};
use super::policy::{Arrivals, Policy, with_counts};
use super::unfit::{Next, NextHeader};
use super::{Queue, position};
use confirm::DurabilityToken;
use content::Content;
use content::{KeptTogether, LoggedAt};
use conversion::properties_bytes_max;
use delivery::COUNTS_BYTES_MAX;
use message::Refusal;
use queue::{AckMode, Assigned, ConsumerKey, Fifo, PositionRange, Round};
use queue_type::Given;
use queue_type::{Count, Got, Incoming, Publishes, Taker, Wakes};
use session::{ChannelId, Delivery, Event, Outbox, PROPERTIES_BYTES_ALWAYS_TAKEN, Sink};
use store::backlog::Lookup;

/// Messages published together from which on the queue begins to gather.
const GATHERED_MIN: usize = 64;

/// Messages that are given out in portions: those of a round, or all there are.
#[derive(Debug, Default)]
pub(super) struct Giving {
    round: Option<Round>,
    /// Messages left of the round.
    n_left: u64,
}

/// A message that has its place in the queue.
#[derive(Clone, Copy)]
struct PlacedMessage<'m, 'a> {
    /// Index of the message among those that came with it.
    item: u32,
    /// Position of the message.
    at: u64,
    incoming: &'m Incoming<'a>,
}

/// A `basic.get`.
pub(super) struct Get<'a> {
    pub(super) key: ConsumerKey,
    pub(super) channel: ChannelId,
    pub(super) settling: AckMode,
    pub(super) taker: Taker<'a>,
}

/// The parts of a queue that have to do with who is given what.
pub(super) struct Deliveries<'s> {
    pub(super) fifo: &'s mut Fifo,
    pub(super) content: &'s mut Content,
    pub(super) consumers: &'s mut Consumers,
    pub(super) confirms: &'s mut Confirms,
    pub(super) hand_over: &'s mut HandOver,
    pub(super) policy: &'s Policy,
}

impl Deliveries<'_> {
    /// The parts that assigned messages go through.
    #[inline]
    const fn handing(&mut self) -> Handing<'_> {
        let Self { fifo, content, consumers, hand_over, policy, .. } = self;
        Handing { fifo, content, consumers, hand_over, policy }
    }

    /// Enqueues messages: the persistent ones are first kept, all together; then each goes to a waiting
    /// consumer or into the pages.
    pub(super) fn publish_together(
        &mut self,
        queue: &Queue,
        &Publishes { ref messages, any, on_consume }: &Publishes<'_, '_>,
        arrivals: Option<&Arrivals>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        queue.counters.tally.add(Count::Published, messages.len() as u64);
        self.gather(queue, messages.len(), arrivals.is_none() && !on_consume, wakes);
        if on_consume {
            let now_ms = queue.time().monotonic_ms();
            self.confirms.wait_for(messages, self.fifo.messages().next_position(), now_ms);
        }
        // A message whose confirm nobody waits for and that a consumer has at once needs no place in the log.
        let (first, only_confirmed) =
            (self.fifo.messages().next_position(), self.fifo.passes_through());
        let together = self.content.keep_incoming(queue, messages, any, first, only_confirmed);
        let (mut upto, mut note) = match together {
            Some(KeptTogether { upto, note, .. }) => (upto, note),
            None => (None, None),
        };
        let n_passed =
            if together.is_none() { self.handing().pass_on(queue, messages, wakes) } else { 0 };
        for (item, incoming) in (0..).zip(&**messages).skip(n_passed) {
            let kept = together.filter(|together| together.takes(incoming));
            let kept = kept.map(|together| together.kept);
            let at = match arrivals {
                None => self.fifo.enqueue(1),
                Some(arrivals) => arrivals.place(self.fifo, &incoming.message),
            };
            let placed = PlacedMessage { item, at, incoming };
            if let Some(late) = self.put_in(queue, placed, kept, wakes) {
                (upto, note) = (upto.max(late.upto), note.max(late.note));
            }
            if self.hand_over.is_full() {
                self.handing().hand_over(queue, messages, wakes);
            }
        }
        self.handing().hand_over(queue, messages, wakes);
        self.dispatch(queue, wakes);
        self.content.durability.awaited(upto, note)
    }

    /// Puts one message where it has its place, and gives it to a consumer when one waits for it.
    /// Returns how it is kept if that had to be done now.
    fn put_in(
        &mut self,
        queue: &Queue,
        PlacedMessage { item, at, incoming }: PlacedMessage<'_, '_>,
        kept: Option<LoggedAt>,
        wakes: &mut Wakes,
    ) -> Option<KeptTogether> {
        stdx::walk::step("enqueue");
        let message = &incoming.message;
        let next = if self.consumers.is_gathering || self.fifo.is_waiting() {
            None
        } else if self.fifo.messages().head() == Some(at) {
            Some(NextHeader::incoming(message))
        } else {
            self.head_properties_bytes().map(NextHeader::kept)
        };
        let given = next.and_then(|next| self.next_delivery(queue, next, wakes));
        let direct =
            given.is_some_and(|given| given.position == at && given.settling == AckMode::Auto);
        let mut late = None;
        if direct {
            self.content.note_gone(at, kept);
        } else {
            late = if kept.is_none() { self.content.keep_late(queue, at, incoming) } else { None };
            let kept = kept.or_else(|| late.map(|late| late.kept));
            let segment = kept.and_then(|kept| kept.segment);
            self.content.store(queue, at, segment, incoming);
        }
        if let Some(assigned) = given {
            if self.policy.notes_sizes {
                self.note_sent(&assigned, direct.then(|| message.body.len()));
            }
            let assignment = Assignment { assigned, incoming: direct.then_some(item) };
            self.hand_over.push(self.fifo, self.consumers, assignment, message.size_bytes());
        }
        late
    }

    /// Begins to gather what comes, if it comes in masses for many consumers: it is given out when there is
    /// enough for each to get several messages at once, or who publishes it has no more for now.
    fn gather(&mut self, queue: &Queue, n_messages: usize, is_plain: bool, wakes: &mut Wakes) {
        if self.consumers.is_gathering {
            self.consumers.is_gathering = is_plain;
        } else if n_messages >= GATHERED_MIN && is_plain && self.fifo.consumers().are_many_waiting()
        {
            self.begin_gathering(queue, wakes);
        }
    }

    #[cold]
    fn begin_gathering(&mut self, queue: &Queue, wakes: &mut Wakes) {
        if let Some(queue) = queue.me.upgrade() {
            self.consumers.is_gathering = true;
            wakes.add_gathering(queue.into(), self.fifo.consumers().n_active());
        }
    }

    /// Gives ready messages to consumers until there are no more, or nobody can take one. While more are
    /// gathered, only as many as make the longest rounds.
    pub(super) fn dispatch(&mut self, queue: &Queue, wakes: &mut Wakes) {
        let mut giving = Giving::default();
        while self.give_some(&mut giving, queue, wakes) {}
        self.content.log_settled(queue);
    }

    /// Gives out the next ready messages, as many as are handed over together. False if there are none, or
    /// nobody can take one.
    pub(super) fn give_some(
        &mut self,
        giving: &mut Giving,
        queue: &Queue,
        wakes: &mut Wakes,
    ) -> bool {
        let is_alone = giving.n_left == 0 && !self.consumers.is_gathering;
        if is_alone && self.handing().pass_on_ready(queue, wakes) > 0 {
            return true;
        }
        if giving.n_left == 0 {
            let round = self.fifo.round(queue.time().monotonic_ms());
            if self.consumers.is_gathering && !round.is_some_and(|round| round.is_longest()) {
                return false;
            }
            *giving = Giving { round, n_left: round.map_or(u64::MAX, |round| round.n_messages()) };
        }
        self.assign(giving, queue, wakes);
        let any = !self.hand_over.is_empty();
        self.handing().hand_over(queue, &[], wakes);
        any
    }

    /// Assigns ready messages until so many are that they must be handed over.
    fn assign(&mut self, giving: &mut Giving, queue: &Queue, wakes: &mut Wakes) {
        while giving.n_left > 0 && !self.hand_over.is_full() && !self.fifo.is_waiting() {
            let Some(next) = self.size_of_next() else { break };
            let assigned = match &giving.round {
                Some(round) if !self.is_asked_before(next.properties_bytes) => {
                    self.fifo.next_of_round(round)
                }
                _ => self.next_delivery(queue, NextHeader::kept(next.properties_bytes), wakes),
            };
            let Some(assigned) = assigned else { break };
            if self.policy.notes_sizes {
                self.note_sent(&assigned, None);
            }
            let assignment = Assignment { assigned, incoming: None };
            self.hand_over.push(self.fifo, self.consumers, assignment, next.size_bytes);
            giving.n_left -= 1;
        }
    }

    /// The size of the first ready message; none while it is on disk only. One that was lost while
    /// a consumer held it, and came back, is forgotten.
    fn size_of_next(&mut self) -> Option<Next> {
        loop {
            let first = self.fifo.messages().head()?;
            match self.content.backlog.get(first) {
                Lookup::Here(message) => return Some(Next::of(&message)),
                Lookup::Cold => return None,
                Lookup::Gone => {
                    self.fifo.messages_mut().discard(PositionRange::one(first));
                    let lost = PositionRange::one(first);
                    self.confirms.not_consumed(lost, Refusal::Damaged);
                }
            }
        }
    }

    /// The most that the first ready message's properties take; none while it is not in memory.
    fn head_properties_bytes(&self) -> Option<usize> {
        match self.content.backlog.get(self.fifo.messages().head()?) {
            Lookup::Here(message) => Some(properties_bytes_max(&message)),
            Lookup::Cold | Lookup::Gone => None,
        }
    }

    /// The next message, for the consumer whose turn it is, who takes its properties, and whose channel has
    /// room for it.
    fn next_delivery(
        &mut self,
        queue: &Queue,
        next: NextHeader<'_>,
        wakes: &mut Wakes,
    ) -> Option<Assigned> {
        if self.is_asked_before(next.properties_bytes) {
            return self.next_limited(queue, next, wakes);
        }
        self.fifo.next_delivery()
    }

    /// Whether a client or channel is asked before its consumer is given a message with such properties.
    #[inline]
    const fn is_asked_before(&self, properties_bytes: usize) -> bool {
        self.consumers.any_limited() || properties_bytes > PROPERTIES_BYTES_ALWAYS_TAKEN
    }

    /// Assigns the next message as [`Deliveries::next_delivery`] does, but first asks whether the client can
    /// be sent such properties, and whether its channel's limit has room. A consumer for which either fails
    /// has no credit until it is resumed, and the next is asked.
    #[cold]
    fn next_limited(
        &mut self,
        queue: &Queue,
        next: NextHeader<'_>,
        wakes: &mut Wakes,
    ) -> Option<Assigned> {
        loop {
            let consumer =
                self.fifo.consumers().next().filter(|_| self.fifo.messages().head().is_some())?;
            let host = self.consumers.get(consumer);
            if !host.is_none_or(|it| self.fits(queue, &*it.outbox, next, wakes)) {
                self.consumers.change(self.fifo, consumer, |it| it.room.close());
                continue;
            }
            let host = self.consumers.get_mut(consumer);
            let Some((limit, host)) = host.and_then(|host| Some((host.limit.clone()?, host)))
            else {
                return self.fifo.next_delivery();
            };
            let settling = host.checkout.settling;
            if !limit.admits(host.link, settling) {
                self.consumers.change(self.fifo, consumer, |it| it.room.close());
                continue;
            }
            let given = self.fifo.next_delivery();
            if given.is_none() && settling == AckMode::Manual {
                limit.release(1);
            }
            return given;
        }
    }

    /// Whether a client takes the properties of the next message; if not, its connection is about to end.
    fn fits(
        &self,
        queue: &Queue,
        outbox: &dyn Outbox,
        next: NextHeader<'_>,
        wakes: &mut Wakes,
    ) -> bool {
        if next.properties_bytes <= PROPERTIES_BYTES_ALWAYS_TAKEN {
            return true;
        }
        let kept = || match self.content.backlog.get(self.fifo.messages().head()?) {
            Lookup::Here(message) => Some(message),
            Lookup::Cold | Lookup::Gone => None,
        };
        let Some(message) = next.incoming.copied().or_else(kept) else { return true };
        let added_bytes = if self.policy.counts_returns() { COUNTS_BYTES_MAX } else { 0 };
        let mut fits = false;
        wakes.extend(outbox.batch(&mut |sink: &mut dyn Sink| {
            fits = sink.fits(&message, added_bytes, queue.def.name.as_str());
        }));
        fits
    }

    /// Tells the core the size of a message that was given out just now, where sizes count.
    fn note_sent(&mut self, assigned: &Assigned, bytes: Option<usize>) {
        let bytes = bytes.unwrap_or_else(|| match self.content.backlog.get(assigned.position) {
            Lookup::Here(message) => message.body.len(),
            Lookup::Cold | Lookup::Gone => 0,
        });
        if let Some(policy) = self.fifo.messages_mut().policy_mut() {
            policy.note_sent(assigned.position, assigned.settling, bytes as u64);
        }
    }

    /// Gives the next message to `get`'s outbox, if there is one and it is in memory.
    pub(super) fn get(&mut self, queue: &Queue, get: &Get<'_>, wakes: &mut Wakes) -> Got {
        match self.size_of_next() {
            None if self.fifo.messages().n_ready() > 0 => return Got::NotInMemory,
            Some(next) => {
                let header = NextHeader::kept(next.properties_bytes);
                if !self.fits(queue, &**get.taker.outbox, header, wakes) {
                    return Got::Unfit;
                }
            }
            None => {}
        }
        let Get { key, channel, settling, taker: Taker { link, outbox, tally } } = *get;
        let no_ack = settling == AckMode::Auto;
        let counted = [&queue.counters.tally, tally];
        let Some(assigned) = self.fifo.take(key, settling) else {
            counted.into_iter().for_each(|tally| tally.add(Count::GotEmpty, 1));
            return Got::Nothing;
        };
        let is_held = assigned.settling == AckMode::Manual;
        if self.policy.notes_sizes {
            self.note_sent(&assigned, None);
        }
        let n_ready = self.fifo.messages().n_ready();
        if let Lookup::Here(mut message) = self.content.backlog.get(assigned.position) {
            let properties = with_counts(self.fifo, assigned.position, &message);
            if let Some(properties) = properties.as_deref().filter(|_| self.policy.counts_returns())
            {
                message.properties = properties;
            }
            let delivery = Delivery {
                position: position(assigned.position),
                redelivered: assigned.redelivered,
                n_failed: n_failed_of(self.fifo, assigned),
                message: &message,
                settled_by_write: no_ack && is_held,
            };
            wakes.extend(outbox.batch(&mut |sink: &mut dyn Sink| {
                sink.event(Event::Got { channel, link, delivery, no_ack, n_ready });
            }));
        }
        if assigned.redelivered && !is_held {
            queue::forget_failed(self.fifo, assigned.position);
        }
        if queue.services.host.is_traced()
            && let Lookup::Here(message) = self.content.backlog.get(assigned.position)
        {
            let position = is_held.then_some(assigned.position);
            let given = Given { redelivered: assigned.redelivered, position };
            self.consumers.trace(queue, key, given, &message);
        }
        let what = if is_held { Count::Got } else { Count::GotAuto };
        for tally in counted {
            tally.add(what, 1);
            tally.add(Count::Redelivered, u64::from(assigned.redelivered));
        }
        if is_held {
            self.content.durability.note_delivered(std::iter::once(assigned.position));
        } else {
            self.content.release(queue.pool(), assigned.position);
            self.content.log_settled(queue);
        }
        Got::Message
    }
}
