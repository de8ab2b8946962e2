//! Links on which clients consume: deliveries cut into transfers, and their wait for the session's window.

use crate::fault::ProtocolFault;
use crate::incoming::check_message_size;
use crate::outcomes::{DeliveryRange, put_released};
use crate::requests::SentContent;
use crate::windows::SessionWindows;
use amqp10::{
    DeliveryTag, FRAME_HEADER_BYTES, Flow, FrameType, Performative, SerialNumber, Transfer,
    WholeTransfer, end_frame, put_frame,
};
use session::{ConsumerCredit, LinkId, ListedLink, Position};
use std::collections::{BTreeSet, VecDeque};

/// Flows that wait for a session's window, from which on only the last one of each link is kept.
const WAITING_FLOWS_MAX: usize = 1_024;

/// A link on which a client consumes.
#[derive(Debug)]
pub(crate) struct OutgoingLink {
    /// The broker's name for the link.
    pub(crate) link: LinkId,
    /// Whether deliveries are settled by being sent.
    pub(crate) is_settled: bool,
    /// The largest message that the client takes, in bytes.
    pub(crate) message_bytes_max: u64,
    /// Deliveries made, and those that were drained.
    delivery_count: SerialNumber,
    /// The credit that the client gave last, and at which delivery count. Its queue keeps to it.
    credit: u32,
    credit_given_at: SerialNumber,
}

impl OutgoingLink {
    pub(crate) const fn new(link: LinkId, is_settled: bool, message_bytes_max: u64) -> Self {
        let count = SerialNumber::new(0);
        let (delivery_count, credit_given_at) = (count, count);
        Self { link, is_settled, message_bytes_max, delivery_count, credit: 0, credit_given_at }
    }

    /// Notes the credit that the client gives.
    pub(crate) const fn note_credit(&mut self, delivery_count: SerialNumber, credit: u32) {
        (self.credit_given_at, self.credit) = (delivery_count, credit);
    }

    /// Notes the credit as the queue has it, behind the deliveries that were made before.
    pub(crate) const fn flowed(&mut self, credit: ConsumerCredit) {
        self.delivery_count = SerialNumber::new(credit.delivery_count);
        self.note_credit(self.delivery_count, credit.credit);
    }

    /// Fills in the link's part of what listings show.
    pub(crate) fn list(&self, listed: &mut ListedLink) {
        listed.settle_mode = if self.is_settled { "settled" } else { "unsettled" };
        listed.message_bytes_max = Some(self.message_bytes_max).filter(|max| *max < u64::MAX);
        listed.delivery_count = self.delivery_count.bits();
        let n_used = self.delivery_count.since(self.credit_given_at);
        listed.credit = self.credit.saturating_sub(n_used);
    }

    /// The tag of the next delivery. COMPAT: four bytes; none are needed where nothing is settled.
    pub(crate) const fn next_tag(&mut self) -> Option<u32> {
        let tag = self.delivery_count;
        self.delivery_count = tag.plus(1);
        if self.is_settled { None } else { Some(tag.bits()) }
    }
}

/// A delivered message that its client is to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsettledMessage {
    pub(crate) handle: u32,
    pub(crate) link: LinkId,
    pub(crate) position: Position,
}

/// A delivery on its way out, beside its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryHead {
    pub(crate) handle: u32,
    pub(crate) id: SerialNumber,
    /// The tag; none of a delivery that is settled by being sent.
    pub(crate) tag: Option<u32>,
}

/// A delivery that is to go out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingDelivery<'m> {
    pub(crate) head: DeliveryHead,
    /// Behind a reference: a copy of what was filled in just before stalls.
    pub(crate) content: &'m SentContent<'m>,
    /// The largest message that the client takes, in bytes.
    pub(crate) message_bytes_max: u64,
}

impl DeliveryHead {
    /// Begins the frame of a transfer that has all of the message.
    #[inline]
    fn begin_frame(&self, channel: u16, out: &mut Vec<u8>) {
        let Self { handle, id: delivery_id, tag } = *self;
        WholeTransfer { handle, delivery_id, tag }.begin_frame(channel, out);
    }

    /// Appends a transfer with as much of `message` as fits, and returns how many bytes that is. The rest is
    /// to follow in other transfers.
    fn put_transfer(
        &self,
        sender: &FrameSender,
        SentPart { message, n_sent }: SentPart<'_>,
        out: &mut Vec<u8>,
    ) -> usize {
        let rest = message.get(n_sent..).unwrap_or_default();
        let tag = self.tag.map(u32::to_be_bytes);
        let tag = tag.as_ref().map_or(&[][..], |tag| tag.as_slice());
        let is_first = n_sent == 0;
        let mut transfer = Transfer {
            delivery_id: is_first.then_some(self.id),
            delivery_tag: is_first.then_some(DeliveryTag(tag)),
            message_format: is_first.then_some(0),
            settled: is_first.then_some(self.tag.is_none()),
            ..Transfer::on(self.handle)
        };
        let mut n_put = 0;
        put_frame(out, FrameType::Amqp, sender.channel, |out| {
            let at = out.len();
            transfer.encode(out);
            if out.len() - at + rest.len() > sender.body_bytes_max() {
                out.truncate(at);
                transfer.more = true;
                transfer.encode(out);
            }
            let room = sender.body_bytes_max().saturating_sub(out.len() - at);
            let part = rest.get(..room).unwrap_or(rest);
            out.extend_from_slice(part);
            n_put = part.len();
        });
        n_put
    }
}

/// The frames of a session on their way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSender {
    pub(crate) channel: u16,
    /// The largest frame that the client takes, in bytes.
    pub(crate) frame_bytes_max: u32,
}

impl FrameSender {
    const fn body_bytes_max(&self) -> usize {
        self.frame_bytes_max.saturating_sub(FRAME_HEADER_BYTES) as usize
    }
}

/// A message of which a part has been sent.
#[derive(Clone, Copy, Debug)]
struct SentPart<'m> {
    message: &'m [u8],
    n_sent: usize,
}

/// Something that waits behind deliveries for which the client has no window.
#[derive(Debug)]
enum WaitingOutput {
    Delivery {
        head: DeliveryHead,
        message: Vec<u8>,
        n_sent: usize,
    },
    /// A flow of a link, whose session's part is filled in when it goes out.
    Flow(Flow<'static>),
    /// Deliveries of a link that its client has held for too long, of which one at least waits before this.
    Released {
        handle: u32,
        range: DeliveryRange,
    },
}

/// A session's deliveries, and flows and releases of its links, that wait in order for the client's window.
/// They hold back no other session.
#[derive(Debug, Default)]
pub(crate) struct WaitingOutputs {
    waiting: VecDeque<WaitingOutput>,
    n_bytes: usize,
    n_flows: usize,
}

impl WaitingOutputs {
    /// Bytes of messages that wait.
    pub(crate) const fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Puts a delivery out, or what the window lets out of it; the rest waits.
    ///
    /// # Errors
    /// The message is larger than the client takes.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        sender: &FrameSender,
        windows: &mut SessionWindows,
        OutgoingDelivery { head, content, message_bytes_max }: OutgoingDelivery<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtocolFault> {
        let frame_at = out.len();
        head.begin_frame(sender.channel, out);
        let message_at = out.len();
        content.put(out);
        let fits = out.len() - frame_at <= sender.frame_bytes_max as usize;
        let checked = check_message_size(out.len() - message_at, message_bytes_max);
        if checked.is_ok() && fits && self.waiting.is_empty() && windows.can_send() {
            end_frame(out, frame_at);
            windows.send_transfer();
            return Ok(());
        }
        let message = out.split_off(message_at);
        out.truncate(frame_at);
        checked?;
        self.deliver_in_parts(sender, windows, head, message, out);
        Ok(())
    }

    /// Puts out what the window lets out of a delivery that is not whole in one frame.
    #[cold]
    fn deliver_in_parts(
        &mut self,
        sender: &FrameSender,
        windows: &mut SessionWindows,
        head: DeliveryHead,
        message: Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let mut n_sent = 0;
        if self.waiting.is_empty() {
            let part = SentPart { message: &message, n_sent: 0 };
            n_sent = match send(sender, windows, head, part, out) {
                SendProgress::Whole => return,
                SendProgress::UpTo(n_sent) => n_sent,
            };
        }
        self.n_bytes += message.len();
        self.waiting.push_back(WaitingOutput::Delivery { head, message, n_sent });
    }

    /// Puts a flow of a link out, behind the deliveries that wait.
    pub(crate) fn flow(
        &mut self,
        sender: &FrameSender,
        windows: &SessionWindows,
        flow: Flow<'static>,
        out: &mut Vec<u8>,
    ) {
        if self.waiting.is_empty() {
            put_flow(sender, windows, flow, out);
        } else {
            self.waiting.push_back(WaitingOutput::Flow(flow));
            self.n_flows += 1;
            if self.n_flows > WAITING_FLOWS_MAX {
                self.keep_last_flows();
            }
        }
    }

    /// Tells of deliveries of a link that are released, behind those that wait.
    pub(crate) fn release(
        &mut self,
        sender: &FrameSender,
        handle: u32,
        range: DeliveryRange,
        out: &mut Vec<u8>,
    ) {
        let last = range.last.unwrap_or(range.first);
        let waits = |it: &WaitingOutput| matches!(it, WaitingOutput::Delivery { head, .. } if !last.is_before(head.id));
        if self.waiting.iter().any(waits) {
            self.waiting.push_back(WaitingOutput::Released { handle, range });
        } else {
            put_released(sender.channel, range, out);
        }
    }

    /// Drops the flows that a later one of the same link makes obsolete.
    fn keep_last_flows(&mut self) {
        let mut later = BTreeSet::new();
        let mut kept: VecDeque<WaitingOutput> = VecDeque::with_capacity(self.waiting.len());
        for waiting in self.waiting.drain(..).rev() {
            let is_obsolete = matches!(&waiting, WaitingOutput::Flow(flow)
                if !later.insert(flow.handle) && flow.properties.is_empty());
            if !is_obsolete {
                kept.push_front(waiting);
            }
        }
        self.waiting = kept;
        self.n_flows =
            self.waiting.iter().filter(|it| matches!(it, WaitingOutput::Flow(_))).count();
    }

    /// Puts out what the window lets out.
    pub(crate) fn resume(
        &mut self,
        sender: &FrameSender,
        windows: &mut SessionWindows,
        out: &mut Vec<u8>,
    ) {
        while let Some(next) = self.waiting.front_mut() {
            match next {
                WaitingOutput::Flow(flow) => {
                    put_flow(sender, windows, *flow, out);
                    self.n_flows -= 1;
                }
                WaitingOutput::Released { range, .. } => put_released(sender.channel, *range, out),
                WaitingOutput::Delivery { head, message, n_sent } => {
                    let part = SentPart { message, n_sent: *n_sent };
                    match send(sender, windows, *head, part, out) {
                        SendProgress::UpTo(n) => {
                            *n_sent = n;
                            return;
                        }
                        SendProgress::Whole => self.n_bytes -= message.len(),
                    }
                }
            }
            self.waiting.pop_front();
        }
    }

    /// Drops what waits on a link that is detached.
    pub(crate) fn forget_link(&mut self, handle: u32) {
        let Self { waiting, n_bytes, n_flows } = self;
        waiting.retain(|waiting| match waiting {
            WaitingOutput::Flow(flow) => {
                *n_flows -= usize::from(flow.handle == Some(handle));
                flow.handle != Some(handle)
            }
            WaitingOutput::Released { handle: released, .. } => *released != handle,
            WaitingOutput::Delivery { head, message, .. } => {
                if head.handle == handle {
                    *n_bytes -= message.len();
                }
                head.handle != handle
            }
        });
    }
}

/// The progress of a delivery.
enum SendProgress {
    Whole,
    /// Part of the message went out, as many bytes as told; the window is used up.
    UpTo(usize),
}

#[inline]
fn send(
    sender: &FrameSender,
    windows: &mut SessionWindows,
    head: DeliveryHead,
    mut part: SentPart<'_>,
    out: &mut Vec<u8>,
) -> SendProgress {
    while windows.can_send() {
        part.n_sent += head.put_transfer(sender, part, out);
        windows.send_transfer();
        if part.n_sent >= part.message.len() {
            return SendProgress::Whole;
        }
    }
    SendProgress::UpTo(part.n_sent)
}

fn put_flow(
    sender: &FrameSender,
    windows: &SessionWindows,
    flow: Flow<'static>,
    out: &mut Vec<u8>,
) {
    let Flow { next_incoming_id, incoming_window, next_outgoing_id, outgoing_window, .. } =
        windows.flow();
    let flow =
        Flow { next_incoming_id, incoming_window, next_outgoing_id, outgoing_window, ..flow };
    Performative::Flow(flow).encode_frame(sender.channel, out);
}
