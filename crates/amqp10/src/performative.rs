//! Performatives: what the frames of connections, sessions and links say (part 2, 2.7).

use crate::composite::{any_composite, composites};
use crate::condition::AmqpError;
use crate::delivery_state::DeliveryState;
use crate::field::{DeliveryTag, ReceiverSettleMode, Role, SenderSettleMode, Symbols};
use crate::frame::{FrameType, put_frame};
use crate::serial::SerialNumber;
use crate::terminus::{LinkTarget, SourceTerminus};
use crate::value::MapRef;

composites! { 'a;
    /// Opens a connection: each peer's limits.
    Open<'a> 0x10 "amqp:open:list" {
        container_id: &'a str,
        hostname: Option<&'a str>,
        /// Bytes.
        max_frame_size: u32 = u32::MAX,
        /// The highest number of a channel.
        channel_max: u16 = u16::MAX,
        /// Milliseconds.
        idle_time_out: Option<u32>,
        outgoing_locales: Symbols<'a> = Symbols::NONE,
        incoming_locales: Symbols<'a> = Symbols::NONE,
        offered_capabilities: Symbols<'a> = Symbols::NONE,
        desired_capabilities: Symbols<'a> = Symbols::NONE,
        properties: MapRef<'a> = MapRef::EMPTY,
    }

    /// Begins a session: each peer's windows.
    Begin<'a> 0x11 "amqp:begin:list" {
        /// The channel of the peer's session that this one answers.
        remote_channel: Option<u16>,
        next_outgoing_id: SerialNumber,
        incoming_window: u32,
        outgoing_window: u32,
        /// The highest number of a handle.
        handle_max: u32 = u32::MAX,
        offered_capabilities: Symbols<'a> = Symbols::NONE,
        desired_capabilities: Symbols<'a> = Symbols::NONE,
        properties: MapRef<'a> = MapRef::EMPTY,
    }

    /// Attaches a link to a session.
    Attach<'a> 0x12 "amqp:attach:list" {
        name: &'a str,
        handle: u32,
        role: Role,
        snd_settle_mode: SenderSettleMode = SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode::First,
        source: Option<SourceTerminus<'a>>,
        target: Option<LinkTarget<'a>>,
        /// The deliveries that a link is resumed with.
        unsettled: MapRef<'a> = MapRef::EMPTY,
        incomplete_unsettled: bool = false,
        /// The sender's count of deliveries.
        initial_delivery_count: Option<SerialNumber>,
        /// Bytes; none and 0 are no limit.
        max_message_size: Option<u64>,
        offered_capabilities: Symbols<'a> = Symbols::NONE,
        desired_capabilities: Symbols<'a> = Symbols::NONE,
        properties: MapRef<'a> = MapRef::EMPTY,
    }

    /// Updates the windows of a session, and the credit of a link.
    Flow<'a> 0x13 "amqp:flow:list" {
        next_incoming_id: Option<SerialNumber>,
        incoming_window: u32,
        next_outgoing_id: SerialNumber,
        outgoing_window: u32,
        handle: Option<u32>,
        delivery_count: Option<SerialNumber>,
        link_credit: Option<u32>,
        available: Option<u32>,
        drain: bool = false,
        echo: bool = false,
        properties: MapRef<'a> = MapRef::EMPTY,
    }

    /// Transfers a message, or a part of one. The message is the frame's payload.
    Transfer<'a> 0x14 "amqp:transfer:list" {
        handle: u32,
        delivery_id: Option<SerialNumber>,
        delivery_tag: Option<DeliveryTag<'a>>,
        message_format: Option<u32>,
        settled: Option<bool>,
        /// Other parts follow.
        more: bool = false,
        rcv_settle_mode: Option<ReceiverSettleMode>,
        state: Option<DeliveryState<'a>>,
        resume: bool = false,
        /// The parts before this one are to be dropped.
        aborted: bool = false,
        batchable: bool = false,
    }

    /// Tells the state of deliveries.
    Disposition<'a> 0x15 "amqp:disposition:list" {
        role: Role,
        first: SerialNumber,
        /// The last of the deliveries; none if there is one.
        last: Option<SerialNumber>,
        settled: bool = false,
        state: Option<DeliveryState<'a>>,
        batchable: bool = false,
    }

    /// Detaches a link from its session.
    Detach<'a> 0x16 "amqp:detach:list" {
        handle: u32,
        /// The link is to be forgotten.
        closed: bool = false,
        error: Option<AmqpError<'a>>,
    }

    /// Ends a session.
    End<'a> 0x17 "amqp:end:list" { error: Option<AmqpError<'a>>, }

    /// Closes a connection.
    Close<'a> 0x18 "amqp:close:list" { error: Option<AmqpError<'a>>, }
}

any_composite! {
    /// The performative of a frame. Those that are rare and large are boxed, so that the others are cheap to
    /// move.
    Performative<'a> {
        /// Opens a connection.
        Open(Box<Open<'a>>),
        /// Begins a session.
        Begin(Box<Begin<'a>>),
        /// Attaches a link.
        Attach(Box<Attach<'a>>),
        /// Updates windows and credit.
        Flow(Flow<'a>),
        /// Transfers a message.
        Transfer(Transfer<'a>),
        /// Tells the state of deliveries.
        Disposition(Disposition<'a>),
        /// Detaches a link.
        Detach(Detach<'a>),
        /// Ends a session.
        End(End<'a>),
        /// Closes a connection.
        Close(Close<'a>),
    }
}

impl Performative<'_> {
    /// Appends the performative as a frame without payload.
    pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
        put_frame(out, FrameType::Amqp, channel, |out| self.encode(out));
    }
}

impl Transfer<'_> {
    /// A transfer of a link that says nothing else.
    #[must_use]
    pub const fn on(handle: u32) -> Self {
        Self {
            handle,
            delivery_id: None,
            delivery_tag: None,
            message_format: None,
            settled: None,
            more: false,
            rcv_settle_mode: None,
            state: None,
            resume: false,
            aborted: false,
            batchable: false,
        }
    }
}

impl<'a> Flow<'a> {
    /// A flow with these windows, which says nothing of a link.
    #[must_use]
    pub const fn of_session(
        next_incoming_id: SerialNumber,
        incoming_window: u32,
        next_outgoing_id: SerialNumber,
        outgoing_window: u32,
    ) -> Self {
        Self {
            next_incoming_id: Some(next_incoming_id),
            incoming_window,
            next_outgoing_id,
            outgoing_window,
            handle: None,
            delivery_count: None,
            link_credit: None,
            available: None,
            drain: false,
            echo: false,
            properties: MapRef::EMPTY,
        }
    }
}
