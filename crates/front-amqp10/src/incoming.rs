//! Links on which clients publish: their credit, and deliveries put together from transfers.

use crate::fault::ProtocolFault;
use amqp10::{
    Condition, DELIVERY_TAG_BYTES_MAX, DeliveryState, Flow, PassingState, ReceiverSettleMode,
    SenderSettleMode, SerialNumber, Transfer,
};
use bytes::Bytes;
use session::{LinkId, ListedLink, PublishTarget, REPLY_QUEUES, ShortString, Span};
use std::borrow::Cow;

/// The deliveries that a publisher may send at first before it gets more credit. COMPAT: RabbitMQ's.
pub const LINK_CREDIT: u32 = 170;

/// The credit of a publisher that used up half of what it had within two reads, again and again: with less
/// its credit is what limits each read.
pub const LINK_CREDIT_MAX: u32 = 16 * LINK_CREDIT;

/// The memory of deliveries of a connection that have not arrived as a whole.
pub const UNFINISHED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A message that arrived as a whole.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// The client's number for the delivery.
    pub(crate) id: SerialNumber,
    /// Whether the client wants no answer.
    pub(crate) is_settled: bool,
    /// The sections of the message, if they came in several transfers; else the payload is all of it.
    pub(crate) gathered: Option<Bytes>,
    /// The client's name for a delivery that came in several transfers on a link without a target.
    pub(crate) tag: Option<KeptTag>,
    /// Whether the message is part of a transaction.
    pub(crate) is_transactional: bool,
}

/// A client's name for a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptTag {
    bytes: [u8; DELIVERY_TAG_BYTES_MAX],
    n_bytes: usize,
}

/// A note about a delivery of a link without a target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnonymousNote {
    /// The client wants no answer: the delivery's name, for the end of the link.
    Tag(KeptTag),
    /// The delivery is to a topic, which may have no subscribers, and which is no link's own.
    Topic,
}

impl KeptTag {
    pub(crate) fn of(transfer: &Transfer<'_>) -> Self {
        let tag = transfer.delivery_tag.map_or(&[][..], |tag| tag.0);
        let mut bytes = [0; DELIVERY_TAG_BYTES_MAX];
        let (places, tag) = (bytes.iter_mut(), tag.iter());
        let n_bytes = places.zip(tag).map(|(place, byte)| *place = *byte).count();
        Self { bytes, n_bytes }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.n_bytes).unwrap_or_default()
    }
}

/// A delivery of which a part has arrived.
#[derive(Debug)]
struct PartialDelivery {
    id: SerialNumber,
    is_settled: bool,
    message: Vec<u8>,
    tag: Option<KeptTag>,
    is_transactional: bool,
}

/// A link on which a client publishes.
#[derive(Debug)]
pub(crate) struct IncomingLink {
    /// The broker's name for the link.
    pub(crate) link: LinkId,
    /// The exchange and key of the messages; none if each of them says its own, and for the management node.
    pub(crate) target: Option<PublishTarget>,
    /// Whether the link leads to a topic that is no link's own, or, without a target, has led to one.
    pub(crate) is_topic: bool,
    snd_settle_mode: SenderSettleMode,
    delivery_count: SerialNumber,
    credit: u32,
    /// The credit when it is full.
    credit_max: u32,
    /// The read of the connection in which the credit was renewed last.
    renewed_in: u64,
    /// Publishes that the broker has not answered.
    n_unanswered: u32,
    partial: Option<PartialDelivery>,
}

/// The limits of what comes in.
#[derive(Debug)]
pub(crate) struct IncomingLimits<'c> {
    /// The largest message that is taken, in bytes.
    pub(crate) message_bytes_max: u64,
    /// Bytes of all deliveries of the connection that have not arrived as a whole.
    pub(crate) unfinished_bytes: &'c mut usize,
}

/// A transfer's payload, and where it lies in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    pub(crate) bytes: &'a [u8],
    /// The place of its first byte.
    pub(crate) start: u32,
}

impl<'a> Payload<'a> {
    /// The bytes of a message whose last transfer this is the payload of.
    #[inline]
    pub(crate) fn whole(self, gathered: Option<&'a Bytes>) -> &'a [u8] {
        gathered.map_or(self.bytes, |gathered| gathered)
    }

    /// The place of the bytes behind the first `skipped`.
    #[inline]
    pub(crate) fn span_from(self, skipped: usize) -> Span {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { start: self.start + narrow(skipped), len: narrow(self.bytes.len() - skipped) }
    }
}

impl IncomingLink {
    pub(crate) const fn new(
        link: LinkId,
        snd_settle_mode: SenderSettleMode,
        delivery_count: SerialNumber,
    ) -> Self {
        Self {
            link,
            target: None,
            is_topic: false,
            snd_settle_mode,
            delivery_count,
            credit: LINK_CREDIT,
            credit_max: LINK_CREDIT,
            renewed_in: 0,
            n_unanswered: 0,
            partial: None,
        }
    }

    /// Lets the link lead to this node.
    pub(crate) fn to(self, target: Option<PublishTarget>) -> Self {
        Self { target, ..self }
    }

    /// Whether what no queue takes is accepted: a topic needs no subscribers.
    pub(crate) const fn is_of_topic(&self) -> bool {
        self.is_topic && self.target.is_some()
    }

    /// Gives the link another credit to begin with.
    pub(crate) fn with_credit(self, credit: u32) -> Self {
        Self { credit, credit_max: credit, ..self }
    }

    /// Takes a transfer; returns the message if this was all of it or the last part.
    #[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        transfer: &Transfer<'_>,
        payload: Payload<'_>,
        limits: &mut IncomingLimits<'_>,
    ) -> Result<Option<ReceivedMessage>, ProtocolFault> {
        if self.partial.is_some() {
            return self.go_on(transfer, payload, limits);
        }
        let Some(id) = transfer.delivery_id else {
            return Err(invalid("the first transfer of a delivery has no delivery-id"));
        };
        let is_settled = transfer.settled.unwrap_or(false);
        let is_transactional = is_of_transaction(transfer);
        self.check_first(transfer, is_settled)?;
        self.credit -= 1;
        self.delivery_count = self.delivery_count.plus(1);
        if transfer.aborted {
            return Ok(None);
        }
        check_message_size(payload.bytes.len(), limits.message_bytes_max)?;
        if transfer.more {
            let tag = self.target.is_none().then(|| KeptTag::of(transfer));
            let message = Vec::new();
            self.partial = Some(PartialDelivery { id, is_settled, message, tag, is_transactional });
            return self.append(payload, limits).map(|()| None);
        }
        self.n_unanswered += 1;
        Ok(Some(ReceivedMessage { id, is_settled, gathered: None, tag: None, is_transactional }))
    }

    fn check_first(&self, transfer: &Transfer<'_>, is_settled: bool) -> Result<(), ProtocolFault> {
        if self.credit == 0 {
            return Err(ProtocolFault::link(Condition::TransferLimitExceeded, ""));
        }
        // COMPAT: RabbitMQ's texts.
        match self.snd_settle_mode {
            SenderSettleMode::Unsettled if is_settled => Err(invalid(
                "sender settle mode is 'unsettled' but transfer settled flag is interpreted as being 'true'",
            )),
            SenderSettleMode::Settled if !is_settled => Err(invalid(
                "sender settle mode is 'settled' but transfer settled flag is interpreted as being 'false'",
            )),
            SenderSettleMode::Unsettled | SenderSettleMode::Settled | SenderSettleMode::Mixed => {
                check_receiver_mode(transfer, is_settled)
            }
        }
    }

    /// Takes another transfer of the delivery that has begun to arrive.
    fn go_on(
        &mut self,
        transfer: &Transfer<'_>,
        payload: Payload<'_>,
        limits: &mut IncomingLimits<'_>,
    ) -> Result<Option<ReceivedMessage>, ProtocolFault> {
        let Some(partial) = &mut self.partial else { return Ok(None) };
        // COMPAT: RabbitMQ's texts.
        if let Some(id) = transfer.delivery_id.filter(|id| *id != partial.id) {
            return Err(invalid(format!(
                "delivery-id of continuation transfer ({}) differs from delivery-id on first transfer ({})",
                id.bits(),
                partial.id.bits()
            )));
        }
        if let Some(is_settled) = transfer.settled.filter(|it| *it != partial.is_settled) {
            return Err(invalid(format!(
                "field 'settled' of continuation transfer ({is_settled}) differs from (interpreted) \
                 field 'settled' on first transfer ({})",
                partial.is_settled
            )));
        }
        partial.is_transactional |= is_of_transaction(transfer);
        if transfer.aborted {
            self.forget_partial(limits.unfinished_bytes);
            return Ok(None);
        }
        check_receiver_mode(transfer, partial.is_settled)?;
        self.append(payload, limits)?;
        if transfer.more {
            return Ok(None);
        }
        Ok(self.finish(limits.unfinished_bytes))
    }

    fn append(
        &mut self,
        payload: Payload<'_>,
        limits: &mut IncomingLimits<'_>,
    ) -> Result<(), ProtocolFault> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        let n_bytes = partial.message.len() + payload.bytes.len();
        check_message_size(n_bytes, limits.message_bytes_max)?;
        if *limits.unfinished_bytes + payload.bytes.len() > UNFINISHED_BYTES_MAX {
            return Err(ProtocolFault::link(
                Condition::ResourceLimitExceeded,
                format!("unfinished deliveries of the connection > {UNFINISHED_BYTES_MAX} bytes"),
            ));
        }
        *limits.unfinished_bytes += payload.bytes.len();
        partial.message.extend_from_slice(payload.bytes);
        Ok(())
    }

    fn finish(&mut self, unfinished_bytes: &mut usize) -> Option<ReceivedMessage> {
        let PartialDelivery { id, is_settled, message, tag, is_transactional } =
            self.partial.take()?;
        *unfinished_bytes -= message.len();
        self.n_unanswered += 1;
        let gathered = Some(Bytes::from(message));
        Some(ReceivedMessage { id, is_settled, gathered, tag, is_transactional })
    }

    /// Drops what has arrived of a delivery.
    pub(crate) fn forget_partial(&mut self, unfinished_bytes: &mut usize) {
        if let Some(partial) = self.partial.take() {
            *unfinished_bytes -= partial.message.len();
        }
    }

    /// Notes that nothing that came on the link will be answered any more.
    pub(crate) const fn forget_unanswered(&mut self) {
        self.n_unanswered = 0;
    }

    /// The queue that the link publishes to, if a message without a route means that it is gone.
    pub(crate) fn lost_queue(&self) -> Option<&ShortString> {
        let PublishTarget { exchange, routing_key } = self.target.as_ref()?;
        // Requesters go in the ordinary course of things.
        let queue = routing_key.as_ref().filter(|_| exchange.is_empty())?;
        Some(queue).filter(|queue| !queue.as_bytes().starts_with(REPLY_QUEUES.as_bytes()))
    }

    /// Notes that the broker has answered so many publishes.
    pub(crate) const fn answered(&mut self, n: u32) {
        self.n_unanswered = self.n_unanswered.saturating_sub(n);
    }

    /// Gives the publisher its full credit again if half of it is used up and few publishes are unanswered:
    /// more than before if that comes right after the last time. `n_reads` counts the connection's reads.
    /// Returns the credit when it is full if the client is to be told.
    #[inline]
    pub(crate) fn renew_credit(&mut self, n_reads: u64) -> Option<u32> {
        if self.credit > self.credit_max / 2 || self.n_unanswered >= self.credit_max {
            return None;
        }
        let is_soon = n_reads <= self.renewed_in + 1;
        if is_soon && (LINK_CREDIT..LINK_CREDIT_MAX).contains(&self.credit_max) {
            self.credit_max *= 2;
        }
        self.renewed_in = n_reads;
        self.credit = self.credit_max;
        Some(self.credit_max)
    }

    /// Fills in the link's part of what listings show.
    pub(crate) fn list(&self, listed: &mut ListedLink) {
        listed.settle_mode = match self.snd_settle_mode {
            SenderSettleMode::Unsettled => "unsettled",
            SenderSettleMode::Settled => "settled",
            SenderSettleMode::Mixed => "mixed",
        };
        listed.delivery_count = self.delivery_count.bits();
        listed.credit = self.credit;
        listed.n_unanswered = self.n_unanswered;
    }

    /// A flow that tells the link's credit beside the session's windows.
    pub(crate) const fn flow(&self, handle: u32, of_session: Flow<'static>) -> Flow<'static> {
        Flow {
            handle: Some(handle),
            delivery_count: Some(self.delivery_count),
            link_credit: Some(self.credit),
            ..of_session
        }
    }
}

const fn is_of_transaction(transfer: &Transfer<'_>) -> bool {
    matches!(transfer.state, Some(DeliveryState::Passing(PassingState::Transactional(_))))
}

fn check_receiver_mode(transfer: &Transfer<'_>, is_settled: bool) -> Result<(), ProtocolFault> {
    match transfer.rcv_settle_mode {
        Some(ReceiverSettleMode::Second) if !is_settled => Err(ProtocolFault::link(
            Condition::NotImplemented,
            "rcv-settle-mode second not supported",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Checks a message's size, either way.
pub(crate) fn check_message_size(n_bytes: usize, max: u64) -> Result<(), ProtocolFault> {
    if n_bytes as u64 <= max {
        return Ok(());
    }
    Err(ProtocolFault::session(
        Condition::MessageSizeExceeded,
        format!("message size ({n_bytes} bytes) > maximum message size ({max} bytes)"),
    ))
}

fn invalid(text: impl Into<Cow<'static, str>>) -> ProtocolFault {
    ProtocolFault::link(Condition::InvalidField, text)
}
