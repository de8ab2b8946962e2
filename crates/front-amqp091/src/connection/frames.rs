//! The frames of a running connection, one after the other.

use super::channels::{Channel, ChannelState, Channels};
use super::content::{
    Content, ContentAssembly, Limits, Lookahead, MethodPlace, PartialBody, PublishMethod,
    decode_header, inline_body_bytes_max, inline_publish, look_ahead, unexpected_content,
};
use super::handshake::NO_METHOD;
use super::methods::{Asked, asked, not_implemented};
use super::{Phase, Reading, frame_len, loses_frame_borders, unexpected};
use crate::outbox::events::LINGER_MS;
use crate::outbox::{
    ClientOutbox, DeliveryTag, Locked, SILENT_CLOSE_DELAY_MS, Settlement, TagStep,
};
use crate::reply;
use crate::settings::Immediate;
use amqp091::method::{
    BasicAck, BasicPublish, BasicRecover, BasicRecoverAsync, ChannelClose, ChannelCloseOk,
    ChannelOpen, ConnectionClose, ConnectionCloseOk, TxCommit, TxRollback, TxSelect, peek_id,
};
use amqp091::spec::{FRAME_END, FRAME_HEADER_BYTES};
use amqp091::{
    Frame, FrameKind, Method, MethodId, WholeAck, WireError, decode_frame, whole_ack, whole_publish,
};
use edge::{CloseMode, Step};
use session::{ChannelId, Control, Error, ErrorKind, Op, Outcome, Request, Settle};
use std::sync::{Arc, MutexGuard};

/// The outbox is given free after this many frames, so that deliveries to a client that settles
/// and publishes at the same time do not wait for the whole read.
const FRAMES_PER_LOCK_MAX: u32 = 256;

/// Requests made in one go: few enough that they, and what becomes of them on their way, stay in
/// the processor's nearest cache.
const REQUESTS_PER_READ_MAX: usize = 256;

/// The outbox, locked at the first settlement of a run and kept for those that follow.
struct Tags<'a> {
    outbox: &'a ClientOutbox,
    guard: Option<MutexGuard<'a, Locked>>,
    n_frames: u32,
}

impl Tags<'_> {
    fn locked(&mut self) -> &mut Locked {
        self.guard.get_or_insert_with(|| self.outbox.lock())
    }

    fn frame_done(&mut self) {
        if self.guard.is_some() {
            self.n_frames += 1;
            if self.n_frames >= FRAMES_PER_LOCK_MAX {
                self.n_frames = 0;
                self.guard = None;
            }
        }
    }
}

/// An error, and the method that caused it.
struct Fault {
    error: Error,
    method: MethodId,
}

impl Fault {
    const fn new(error: Error, method: MethodId) -> Self {
        Self { error, method }
    }
}

/// The outcome of decoding a frame.
enum FrameOutcome {
    /// The number of bytes that are done with.
    Bytes(usize),
    /// The number of bytes that must be there before the frame can be decoded.
    Wait(usize),
    /// The requests before this frame must be worked off first.
    AfterRequests,
}

/// The frames of a running connection on their way in.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    channels: Channels,
    partial: Option<PartialBody>,
    /// Whether the start of the next frame is no longer known.
    is_lost: bool,
}

impl Incoming {
    /// Bytes of messages of which a part is missing.
    pub(super) fn unfinished_bytes(&mut self) -> u64 {
        self.channels.unfinished_bytes()
    }

    /// The broker closed the channel.
    pub(super) fn channel_failed(&mut self, id: u16) {
        self.channels.fail(id);
    }

    /// The end was said by one side: what the channels were in the middle of goes.
    pub(super) fn forget_channels(&mut self) {
        self.channels = Channels::default();
    }

    pub(super) fn run(&mut self, reading: &mut Reading<'_>) -> Option<Step> {
        let outbox = Arc::clone(&reading.life.outbox);
        let mut tags = Tags { outbox: &outbox, guard: None, n_frames: 0 };
        while reading.life.phase == Phase::Running {
            if self.partial.is_some() {
                if !self.go_on_with_body(reading) {
                    return Some(Step::More);
                }
                continue;
            }
            self.take_whole(reading, &mut tags);
            if reading.requests.len() >= REQUESTS_PER_READ_MAX {
                break;
            }
            let (frame, used) =
                match decode_frame(reading.rest(), reading.life.negotiated.frame_max) {
                    Ok(Some(found)) => found,
                    Ok(None) => {
                        if self.begin_partial_body(reading) {
                            continue;
                        }
                        return Some(reading.wait_for_frame());
                    }
                    Err(error) => {
                        self.lost_borders(reading, error);
                        continue;
                    }
                };
            let channel = frame.channel;
            match self.frame(reading, &mut tags, frame, used) {
                Ok(FrameOutcome::Bytes(n)) => reading.at += n,
                Ok(FrameOutcome::Wait(wanted)) => {
                    reading.wanted = wanted;
                    return Some(Step::More);
                }
                Ok(FrameOutcome::AfterRequests) => return Some(Step::Again),
                Err(Fault { error, method }) => {
                    reading.at += used;
                    self.refuse(reading, channel, error, method);
                }
            }
            tags.frame_done();
            if reading.ends_with_get() {
                break;
            }
        }
        // The requests have to be worked off before anything else can be made of the input.
        Some(Step::Again)
    }

    /// Takes publishes and acknowledgements that lie whole in the input, one after the other.
    /// Whatever is out of the ordinary is left where it is, for [`Incoming::frame`].
    fn take_whole(&mut self, reading: &mut Reading<'_>, tags: &mut Tags<'_>) {
        let frame_max = reading.life.negotiated.frame_max;
        let body_bytes_max = inline_body_bytes_max(reading.life.settings.message_bytes_max);
        // Publishes and acknowledgements neither open, close nor fail a channel: one that is ready stays so.
        // Channel 0 is none.
        let mut ready_channel = 0;
        while reading.requests.len() < REQUESTS_PER_READ_MAX {
            let rest = reading.rest();
            if let Some(publish) = whole_publish(rest, frame_max, body_bytes_max) {
                if publish.channel != ready_channel && !self.is_ready(publish.channel) {
                    return;
                }
                ready_channel = publish.channel;
                stdx::walk::step("decode");
                tags.guard = None;
                reading.requests.push(Request::Publish(inline_publish(&publish, reading.at)));
                reading.at += publish.len;
            } else if let Some(ack) = whole_ack(rest) {
                if ack.channel != ready_channel && !self.is_ready(ack.channel) {
                    return;
                }
                ready_channel = ack.channel;
                let tag = DeliveryTag::new(ack.delivery_tag, ack.multiple);
                let settlement = Settlement { tag, outcome: Outcome::Accepted };
                if resolve(tags, reading, ack.channel, settlement).is_err() {
                    return;
                }
                reading.at += WholeAck::BYTES;
                tags.frame_done();
            } else {
                return;
            }
        }
    }

    /// Whether the channel is open and not in the middle of a message.
    fn is_ready(&mut self, channel: u16) -> bool {
        self.channels.get_mut(channel).is_some_and(|channel| {
            channel.state == ChannelState::Open && matches!(channel.content, Content::Idle)
        })
    }

    fn frame(
        &mut self,
        reading: &mut Reading<'_>,
        tags: &mut Tags<'_>,
        frame: Frame<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        match (frame.kind, frame.channel) {
            (FrameKind::Method, 0) => self.connection_method(reading, tags, frame, used),
            (FrameKind::Method, _) => self.channel_method(reading, tags, frame, used),
            (FrameKind::Heartbeat, 0) => Ok(FrameOutcome::Bytes(used)),
            (FrameKind::Header | FrameKind::Body, 0) => {
                Err(Fault::new(unexpected("content on channel 0"), NO_METHOD))
            }
            (FrameKind::Header | FrameKind::Body, _) => {
                self.content(reading, frame)?;
                Ok(FrameOutcome::Bytes(used))
            }
            (FrameKind::Heartbeat, channel) => {
                let text = format!("heartbeat on channel {channel}");
                Err(Fault::new(Error::new(ErrorKind::UnexpectedFrame, text), NO_METHOD))
            }
        }
    }

    #[inline(never)]
    fn connection_method(
        &mut self,
        reading: &mut Reading<'_>,
        tags: &mut Tags<'_>,
        frame: Frame<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        let method = decode(frame)?;
        let id = method.id();
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is expected")]
        let op = match method {
            Method::ConnectionClose(_) => {
                tags.guard = None;
                self.close(reading);
                Op::CloseConnection
            }
            Method::ConnectionUpdateSecret(update) => {
                Op::UpdateSecret { secret: update.new_secret.to_vec() }
            }
            // An answer to a close that was never sent.
            Method::ConnectionCloseOk(_) => return Ok(FrameOutcome::Bytes(used)),
            _ => {
                let text = "unexpected method in connection state running";
                return Err(Fault::new(Error::new(ErrorKind::ChannelError, text), id));
            }
        };
        push_control(reading, 0, id, op, false);
        Ok(FrameOutcome::Bytes(used))
    }

    fn channel_method(
        &mut self,
        reading: &mut Reading<'_>,
        tags: &mut Tags<'_>,
        frame: Frame<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        let id = frame.channel;
        match self.channels.get_mut(id) {
            Some(Channel { state: ChannelState::Open, content: Content::Idle, .. }) => {}
            Some(Channel { state: ChannelState::Open, content, .. }) => {
                return Err(Fault::new(unexpected_content(content, frame), BasicPublish::ID));
            }
            Some(Channel { state: ChannelState::Failed { .. }, .. }) => {
                return self.failed_channel_method(reading, tags, frame, used);
            }
            None => return self.unknown_channel_method(reading, tags, frame, used),
        }
        match peek_id(frame.payload) {
            Ok(BasicPublish::ID) => {
                let publish = BasicPublish::decode_payload(frame.payload).map_err(wire_fault)?;
                self.publish(reading, id, &publish, used)
            }
            Ok(BasicAck::ID) => {
                let ack = BasicAck::decode_payload(frame.payload).map_err(wire_fault)?;
                let tag = DeliveryTag::new(ack.delivery_tag, ack.multiple);
                resolve(tags, reading, id, Settlement { tag, outcome: Outcome::Accepted })
                    .map_err(|error| Fault::new(error, BasicAck::ID))?;
                Ok(FrameOutcome::Bytes(used))
            }
            Ok(_) | Err(_) => self.rarer_method(reading, tags, frame, used),
        }
    }

    #[inline(never)]
    fn rarer_method(
        &mut self,
        reading: &mut Reading<'_>,
        tags: &mut Tags<'_>,
        frame: Frame<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        let id = frame.channel;
        let method = decode(frame)?;
        match asked(&method).map_err(|error| Fault::new(error, method.id()))? {
            Asked::Settle(settlement) => match resolve(tags, reading, id, settlement) {
                Ok(()) => {}
                // The delivery may be the one that a request still to be worked off is about to get.
                Err(_) if !reading.requests.is_empty() => return Ok(FrameOutcome::AfterRequests),
                Err(error) => return Err(Fault::new(error, method.id())),
            },
            Asked::Do(op, nowait) => {
                if let Some(step) = tag_step(&method) {
                    tags.locked().channels().follow(id, step);
                }
                push_control(reading, id, method.id(), op, nowait.is_set());
            }
            Asked::Close => {
                tags.locked().channels().close(id);
                self.channels.remove(id);
                push_control(reading, id, method.id(), Op::CloseChannel, false);
            }
            Asked::Open => {
                let error = Error::new(ErrorKind::ChannelError, "second 'channel.open' seen");
                return Err(Fault::new(error, method.id()));
            }
            Asked::Answer(answer) => {
                if !reading.requests.is_empty() {
                    return Ok(FrameOutcome::AfterRequests);
                }
                tags.locked().put(|out| answer.encode_frame(id, out));
            }
            Asked::Ignore => {}
        }
        Ok(FrameOutcome::Bytes(used))
    }

    /// The server has closed the channel, the client does not know yet or crosses with a close.
    #[inline(never)]
    fn failed_channel_method(
        &mut self,
        reading: &mut Reading<'_>,
        tags: &mut Tags<'_>,
        frame: Frame<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        let Some(channel) = self.channels.get_mut(frame.channel) else {
            return Ok(FrameOutcome::Bytes(used));
        };
        match (peek_id(frame.payload), channel.state) {
            (Ok(ChannelClose::ID), _) => {
                if !reading.requests.is_empty() {
                    return Ok(FrameOutcome::AfterRequests);
                }
                channel.state = ChannelState::Failed { answered: true };
                tags.locked().put(|out| ChannelCloseOk {}.encode_frame(frame.channel, out));
            }
            (Ok(ChannelCloseOk::ID), _) => self.channels.remove(frame.channel),
            (Ok(ChannelOpen::ID), ChannelState::Failed { answered: true }) => {
                // The client takes the answer to its own close for the end of the channel.
                self.channels.remove(frame.channel);
                return self.unknown_channel_method(reading, tags, frame, used);
            }
            (Ok(_) | Err(_), _) => {}
        }
        Ok(FrameOutcome::Bytes(used))
    }

    #[inline(never)]
    fn unknown_channel_method(
        &mut self,
        reading: &mut Reading<'_>,
        tags: &mut Tags<'_>,
        frame: Frame<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        if self.channels.is_closed(frame.channel) && peek_id(frame.payload) != Ok(ChannelOpen::ID) {
            return Self::closed_channel_method(reading, tags, frame, used);
        }
        let method = decode(frame)?;
        if matches!(method, Method::ChannelCloseOk(_)) {
            return Ok(FrameOutcome::Bytes(used));
        }
        if !matches!(method, Method::ChannelOpen(_)) {
            let error = Error::new(ErrorKind::ChannelError, "expected 'channel.open'");
            return Err(Fault::new(error, method.id()));
        }
        let channel_max = reading.life.negotiated.channel_max;
        let n_open = self.channels.len();
        if channel_max != 0 && n_open >= usize::from(channel_max) {
            let text = format!(
                "number of channels opened ({n_open}) has reached the negotiated channel_max \
                 ({channel_max})"
            );
            return Err(Fault::new(Error::new(ErrorKind::NotAllowed, text), method.id()));
        }
        self.channels.open(frame.channel);
        push_control(reading, frame.channel, method.id(), Op::OpenChannel, false);
        Ok(FrameOutcome::Bytes(used))
    }

    /// The channel is closed, and a thread of the client used it as another closed it: nothing counts until
    /// it is opened again, and a close is answered.
    fn closed_channel_method(
        reading: &Reading<'_>,
        tags: &mut Tags<'_>,
        frame: Frame<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        if peek_id(frame.payload) == Ok(ChannelClose::ID) {
            if !reading.requests.is_empty() {
                return Ok(FrameOutcome::AfterRequests);
            }
            tags.locked().put(|out| ChannelCloseOk {}.encode_frame(frame.channel, out));
        }
        Ok(FrameOutcome::Bytes(used))
    }

    fn publish(
        &mut self,
        reading: &mut Reading<'_>,
        id: u16,
        publish: &BasicPublish<'_>,
        used: usize,
    ) -> Result<FrameOutcome, Fault> {
        if publish.immediate && reading.life.settings.immediate == Immediate::Refuse {
            return Err(Fault::new(not_implemented("immediate=true"), BasicPublish::ID));
        }
        let at = MethodPlace { at: reading.at, used };
        let limits = Limits {
            frame_max: reading.life.negotiated.frame_max,
            body_bytes_max: inline_body_bytes_max(reading.life.settings.message_bytes_max),
        };
        Ok(match look_ahead(reading.input, at, id, publish, limits) {
            Lookahead::Whole(request, n) => {
                reading.requests.push(Request::Publish(request));
                FrameOutcome::Bytes(used + n)
            }
            Lookahead::Wait(n) => FrameOutcome::Wait(used + n),
            Lookahead::Assemble => {
                if let Some(channel) = self.channels.get_mut(id) {
                    channel.content = Content::Header(Box::new(PublishMethod::new(publish)));
                }
                FrameOutcome::Bytes(used)
            }
        })
    }

    /// A whole content frame.
    fn content(&mut self, reading: &mut Reading<'_>, frame: Frame<'_>) -> Result<(), Fault> {
        let fault = |error| Fault::new(error, BasicPublish::ID);
        let message_bytes_max = reading.life.settings.message_bytes_max;
        let Some(channel) = self.channels.get_mut(frame.channel) else {
            if self.channels.is_closed(frame.channel) {
                return Ok(());
            }
            let error = Error::new(ErrorKind::ChannelError, "expected 'channel.open'");
            return Err(Fault::new(error, NO_METHOD));
        };
        if channel.state != ChannelState::Open {
            return Ok(());
        }
        match (std::mem::replace(&mut channel.content, Content::Idle), frame.kind) {
            (Content::Header(envelope), FrameKind::Header) => {
                let header = decode_header(frame).map_err(fault)?;
                let assembly =
                    ContentAssembly::new(*envelope, &header, message_bytes_max).map_err(fault)?;
                channel.content = Content::Body(Box::new(assembly));
                self.channels.note_assembling();
                self.check_unfinished(reading).map_err(fault)?;
            }
            (Content::Body(mut assembly), FrameKind::Body) => {
                assembly.add(frame.payload).map_err(fault)?;
                channel.content = Content::Body(assembly);
            }
            (content, _) => return Err(fault(unexpected_content(&content, frame))),
        }
        self.finish_content(reading, frame.channel)
    }

    /// Hands on the message of a channel once its body is complete.
    fn finish_content(&mut self, reading: &mut Reading<'_>, id: u16) -> Result<(), Fault> {
        let Some(channel) = self.channels.get_mut(id) else { return Ok(()) };
        match std::mem::replace(&mut channel.content, Content::Idle) {
            Content::Body(assembly) if assembly.is_complete() => {
                let publish = assembly
                    .finish(id, reading.life.settings.message_bytes_max)
                    .map_err(|error| Fault::new(error, BasicPublish::ID))?;
                reading.requests.push(Request::Publish(publish));
            }
            unfinished @ (Content::Idle | Content::Header(_) | Content::Body(_)) => {
                channel.content = unfinished;
            }
        }
        Ok(())
    }

    fn check_unfinished(&mut self, reading: &Reading<'_>) -> Result<(), Error> {
        if self.channels.unfinished_bytes() <= reading.life.settings.unfinished_bytes_max {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ResourceError, "too many bytes of unfinished messages"))
    }

    /// Starts on a body frame of which only the beginning is there. False when that is not what is
    /// there: the rest of the frame has to be waited for.
    fn begin_partial_body(&mut self, reading: &mut Reading<'_>) -> bool {
        let rest = reading.rest();
        let Some(&[kind, c0, c1, ..]) = rest.first_chunk::<FRAME_HEADER_BYTES>() else {
            return false;
        };
        let id = u16::from_be_bytes([c0, c1]);
        let is_body = kind == FrameKind::Body.octet();
        let takes_it = match self.channels.get_mut(id) {
            Some(Channel { state: ChannelState::Open, content, .. }) => {
                matches!(content, Content::Body(_))
            }
            Some(_) => true,
            None => self.channels.is_closed(id),
        };
        if !is_body || !takes_it {
            return false;
        }
        let n_left = frame_len(rest).unwrap_or(0).saturating_sub(FRAME_HEADER_BYTES + 1);
        reading.at += FRAME_HEADER_BYTES;
        self.partial = Some(PartialBody { channel: id, n_left });
        true
    }

    /// Takes what is there of a body frame. False when it is not complete yet.
    fn go_on_with_body(&mut self, reading: &mut Reading<'_>) -> bool {
        let Some(mut partial) = self.partial else { return true };
        let rest = reading.rest();
        let n = partial.n_left.min(rest.len());
        let piece = rest.get(..n).unwrap_or_default();
        let added = match self.channels.get_mut(partial.channel).map(|channel| &mut channel.content)
        {
            Some(Content::Body(assembly)) => assembly.add(piece),
            // The channel was closed meanwhile.
            Some(Content::Idle | Content::Header(_)) | None => Ok(()),
        };
        reading.at += n;
        partial.n_left -= n;
        self.partial = Some(partial);
        if let Err(error) = added.and_then(|()| self.check_unfinished(reading)) {
            self.partial = None;
            self.refuse(reading, partial.channel, error, BasicPublish::ID);
            // Within a frame the borders are lost.
            self.lose(reading);
            return true;
        }
        if partial.n_left > 0 {
            reading.wanted = 1;
            return false;
        }
        let Some(&end) = reading.rest().first() else {
            reading.wanted = 1;
            return false;
        };
        self.partial = None;
        reading.at += 1;
        if end != FRAME_END {
            let kind = FrameKind::Body.octet();
            let error = WireError::FrameEnd { kind, channel: partial.channel, found: end };
            self.lost_borders(reading, error);
        } else if let Err(fault) = self.finish_content(reading, partial.channel) {
            self.refuse(reading, partial.channel, fault.error, fault.method);
        }
        true
    }

    /// Has the broker end a running connection whose client made a mistake.
    fn fail(&mut self, reading: &mut Reading<'_>, channel: u16, error: Error, method: MethodId) {
        push_control(reading, channel, method, Op::FailConnection(error), false);
        self.close(reading);
    }

    fn close(&mut self, reading: &mut Reading<'_>) {
        reading.life.close(reading.now);
        self.forget_channels();
    }

    /// A mistake of the client: its channel or the connection is closed, in order.
    fn refuse(&mut self, reading: &mut Reading<'_>, channel: u16, error: Error, method: MethodId) {
        if error.kind.closes_connection() || channel == 0 {
            self.fail(reading, channel, error, method);
        } else {
            self.channels.fail(channel);
            push_control(reading, channel, method, Op::FailChannel(error), false);
        }
    }

    /// Bytes came that are no frame. COMPAT: nothing is read after that, and the socket is closed
    /// after a while.
    fn lost_borders(&mut self, reading: &mut Reading<'_>, error: WireError) {
        debug_assert!(loses_frame_borders(&error), "other errors leave the borders known");
        self.fail(reading, 0, reply::wire_refusal(error), NO_METHOD);
        self.lose(reading);
    }

    /// Discards input, of which only connection.close and close-ok count.
    pub(super) fn discard(&mut self, reading: &mut Reading<'_>) -> Option<Step> {
        if self.is_lost {
            reading.at = reading.input.len();
            return Some(Step::More);
        }
        if let Some(partial) = &mut self.partial {
            let n = partial.n_left.saturating_add(1).min(reading.rest().len());
            reading.at += n;
            if n <= partial.n_left {
                partial.n_left -= n;
                return Some(Step::More);
            }
            self.partial = None;
        }
        let rest = reading.rest();
        let Some(len) = frame_len(rest) else { return Some(Step::More) };
        let is_method = rest.first_chunk() == Some(&[FrameKind::Method.octet(), 0, 0]);
        if !is_method {
            let n_left = len.saturating_sub(FRAME_HEADER_BYTES + 1);
            self.partial = Some(PartialBody { channel: 0, n_left });
            reading.at += FRAME_HEADER_BYTES;
            return None;
        }
        let Some(payload) = rest.get(FRAME_HEADER_BYTES..len.saturating_sub(1)) else {
            // Methods of the connection are short; a frame that is not is skipped.
            if len > CLOSE_FRAME_BYTES_MAX {
                self.lose(reading);
                return None;
            }
            reading.wanted = len;
            return Some(Step::More);
        };
        match peek_id(payload) {
            Ok(ConnectionClose::ID | ConnectionCloseOk::ID) if !reading.requests.is_empty() => {
                return Some(Step::Again);
            }
            Ok(ConnectionClose::ID) => {
                reading.life.outbox.lock().put_connection_close_ok();
                reading.life.phase = Phase::Ended;
            }
            Ok(ConnectionCloseOk::ID) => reading.life.end(CloseMode::Linger(LINGER_MS)),
            Ok(_) | Err(_) => {}
        }
        reading.at += len.min(rest.len());
        None
    }

    /// Gives up on the input, of which nothing more can be understood.
    const fn lose(&mut self, reading: &mut Reading<'_>) {
        self.is_lost = true;
        reading.life.timers.closing(reading.now, SILENT_CLOSE_DELAY_MS);
    }
}

/// The longest connection.close: a reply text of 255 bytes, and room.
const CLOSE_FRAME_BYTES_MAX: usize = 1024;

fn decode(frame: Frame<'_>) -> Result<Method<'_>, Fault> {
    Method::decode(frame.payload).map_err(wire_fault)
}

#[cold]
fn wire_fault(error: WireError) -> Fault {
    Fault::new(reply::wire_refusal(error), error.method().unwrap_or(NO_METHOD))
}

fn push_control(reading: &mut Reading<'_>, channel: u16, method: MethodId, op: Op, nowait: bool) {
    let origin = reply::origin(method);
    let control = Control {
        channel: ChannelId(channel),
        origin,
        nowait,
        refusal: session::RefusalScope::Channel,
        op,
    };
    reading.requests.push(Request::Control(Box::new(control)));
}

/// The step of a transaction that a method stands for. The broker refuses all of them alike on a
/// channel that confirms, and that closes the channel.
fn tag_step(method: &Method<'_>) -> Option<TagStep> {
    match method.id() {
        TxSelect::ID => Some(TagStep::SelectTx),
        TxCommit::ID => Some(TagStep::CommitTx),
        TxRollback::ID => Some(TagStep::RollBackTx),
        BasicRecover::ID | BasicRecoverAsync::ID => Some(TagStep::ReleaseAll),
        _ => None,
    }
}

/// Turns a settlement into the messages it settles.
fn resolve(
    tags: &mut Tags<'_>,
    reading: &mut Reading<'_>,
    id: u16,
    settlement: Settlement,
) -> Result<(), Error> {
    stdx::walk::step("resolve");
    let Settlement { tag, outcome } = settlement;
    let requests = &mut *reading.requests;
    let known = tags.locked().channels().settle(id, tag, |link, position| {
        requests.push(Request::Settle(Settle { channel: ChannelId(id), link, position, outcome }));
    });
    known.map_err(|_unknown| {
        let text = format!("unknown delivery tag {}", tag.number());
        Error::new(ErrorKind::PreconditionFailed, text)
    })
}
