//! The sessions of a connection, by channel.

use crate::fault::{FaultScope, ProtocolFault};
use crate::incoming::{IncomingLimits, Payload};
use crate::life::ConnectionLife;
use crate::links::{LinkState, error_of};
use crate::requests::LinkRequest;
use crate::session_endpoint::{SessionEndpoint, SessionIo, listed, publish_targets};
use amqp10::{Begin, Condition, End, Performative};
use session::{ChannelId, ListedSession, PublishTarget};

/// The session of a channel.
#[derive(Debug, Default)]
enum SessionSlot {
    /// No session has the channel.
    #[default]
    Free,
    Running(Box<SessionEndpoint>),
    /// The session was ended by the server; until the client's answer its input is passed over.
    Ended,
}

/// A performative with its place: its body as it came, and the payload behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameBody<'a> {
    pub(crate) performative: &'a Performative<'a>,
    pub(crate) body: &'a [u8],
    pub(crate) payload: Payload<'a>,
}

/// The sessions of a connection.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    slots: Vec<SessionSlot>,
    /// Whether publishers are held back.
    is_held: bool,
    /// Bytes of deliveries that have not arrived as a whole.
    pub(crate) unfinished_bytes: usize,
}

impl SessionTable {
    /// Takes a frame of a session.
    pub(crate) fn receive(
        &mut self,
        life: &mut ConnectionLife,
        channel: u16,
        frame: FrameBody<'_>,
        requests: &mut Vec<LinkRequest>,
    ) -> Result<(), ProtocolFault> {
        let max = life.channel_max();
        if channel > max {
            return Err(ProtocolFault::connection(
                Condition::FramingError,
                format!("channel number ({channel}) exceeds maximum channel number ({max})"),
            ));
        }
        match (self.slots.get(usize::from(channel)), frame.performative) {
            (Some(SessionSlot::Running(_)), Performative::End(_)) => {
                self.end(life, channel, None, requests);
                self.set(channel, SessionSlot::Free);
            }
            (Some(SessionSlot::Running(_)), _) => {
                let result = self.with(life, channel, requests, |session, io| {
                    session.receive(io, frame.performative, frame.body, frame.payload)
                });
                if let Some(Err(fault)) = result {
                    self.fail(life, channel, &fault, requests);
                }
            }
            (Some(SessionSlot::Ended), Performative::End(_)) => {
                self.set(channel, SessionSlot::Free);
            }
            (_, Performative::Begin(begin)) => {
                self.begin(life, channel, begin);
                requests.push(LinkRequest::BeginSession(ChannelId(channel)));
            }
            // COMPAT: frames for a session that is not there are passed over.
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, life: &mut ConnectionLife, channel: u16, begin: &Begin<'_>) {
        // COMPAT: RabbitMQ, too, answers with no more than the client has said.
        let handle_max =
            life.settings.links_per_session_max.saturating_sub(1).min(begin.handle_max);
        let session =
            SessionEndpoint::begin(channel, begin, handle_max, self.is_held, &mut life.out);
        self.set(channel, SessionSlot::Running(Box::new(session)));
    }

    fn set(&mut self, channel: u16, slot: SessionSlot) {
        let index = usize::from(channel);
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, SessionSlot::default);
        }
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
    }

    /// Does something in a session; `None` if it is not there.
    pub(crate) fn with<T>(
        &mut self,
        life: &mut ConnectionLife,
        channel: u16,
        requests: &mut Vec<LinkRequest>,
        act: impl FnOnce(&mut SessionEndpoint, &mut SessionIo<'_>) -> T,
    ) -> Option<T> {
        let SessionSlot::Running(session) = self.slots.get_mut(usize::from(channel))? else {
            return None;
        };
        let frame_bytes_max = life.client_frame_bytes_max();
        let limits = IncomingLimits {
            message_bytes_max: life.settings.message_bytes_max,
            unfinished_bytes: &mut self.unfinished_bytes,
        };
        let channel_max = life.channel_max();
        let ConnectionLife { out, heads, client, n_reads, settings, .. } = life;
        let vhost = client.as_ref().map_or("", |client| &client.vhost);
        let mut io = SessionIo {
            out,
            requests,
            frame_bytes_max,
            n_reads: *n_reads,
            settings,
            limits,
            heads,
            channel_max,
            vhost,
        };
        Some(act(session, &mut io))
    }

    /// Ends a session, or the connection, for a fault.
    pub(crate) fn fail(
        &mut self,
        life: &mut ConnectionLife,
        channel: u16,
        fault: &ProtocolFault,
        requests: &mut Vec<LinkRequest>,
    ) {
        if fault.scope == FaultScope::Connection {
            requests.push(LinkRequest::CloseConnection);
            self.tell_outcomes(&mut life.out);
            self.forget();
            life.failure = Some(fault.text.to_string());
            life.close(fault);
        } else {
            self.end(life, channel, Some(fault), requests);
            self.set(channel, SessionSlot::Ended);
        }
    }

    /// Says the end of a session, behind the outcomes of its publishes.
    fn end(
        &mut self,
        life: &mut ConnectionLife,
        channel: u16,
        fault: Option<&ProtocolFault>,
        requests: &mut Vec<LinkRequest>,
    ) {
        let slot = self.slots.get_mut(usize::from(channel)).map(std::mem::take);
        let Some(SessionSlot::Running(mut session)) = slot else { return };
        session.tell_outcomes(&mut life.out);
        let incoming = session.links.iter_mut().filter_map(LinkState::incoming);
        incoming.for_each(|link| link.forget_partial(&mut self.unfinished_bytes));
        let end = End { error: fault.map(error_of) };
        Performative::End(end).encode_frame(channel, &mut life.out);
        let transactions = session.transactions.filter(|it| it.handle.is_some());
        requests.extend(transactions.map(|it| LinkRequest::EndSession(it.channel)));
        requests.push(LinkRequest::EndSession(ChannelId(channel)));
    }

    /// Forgets all sessions: the connection ends.
    pub(crate) fn forget(&mut self) {
        self.slots = Vec::new();
        self.unfinished_bytes = 0;
    }

    /// Holds publishers back, or lets them go on.
    pub(crate) fn hold(&mut self, is_held: bool, out: &mut Vec<u8>) {
        self.is_held = is_held;
        self.running().for_each(|session| session.hold(is_held, out));
    }

    /// Appends the outcomes of publishes that were gathered.
    pub(crate) fn tell_outcomes(&mut self, out: &mut Vec<u8>) {
        self.running().for_each(|session| session.tell_outcomes(out));
    }

    /// The targets of the links on which clients publish, by session.
    pub(crate) fn publish_targets(
        &mut self,
    ) -> impl Iterator<Item = (ChannelId, Vec<PublishTarget>)> {
        self.running().map(|session| publish_targets(session))
    }

    /// Whether outcomes of publishes are to be told.
    pub(crate) fn has_outcomes(&self) -> bool {
        self.slots.iter().any(|slot| match slot {
            SessionSlot::Running(session) => !session.outcomes.is_empty(),
            SessionSlot::Free | SessionSlot::Ended => false,
        })
    }

    /// The first session on this channel or a higher one, as listings show it.
    pub(crate) fn listed_from(&self, channel: ChannelId) -> Option<ListedSession> {
        self.slots.get(usize::from(channel.0)..)?.iter().find_map(|slot| match slot {
            SessionSlot::Running(session) => Some(listed(session)),
            SessionSlot::Free | SessionSlot::Ended => None,
        })
    }

    /// Bytes of messages that wait for a session's window.
    pub(crate) fn n_waiting_bytes_of(&self, channel: u16) -> usize {
        match self.slots.get(usize::from(channel)) {
            Some(SessionSlot::Running(session)) => session.waiting.n_bytes(),
            Some(SessionSlot::Free | SessionSlot::Ended) | None => 0,
        }
    }

    /// Bytes of messages that wait for windows.
    pub(crate) fn n_waiting_bytes(&mut self) -> usize {
        self.running().map(|session| session.waiting.n_bytes()).sum()
    }

    fn running(&mut self) -> impl Iterator<Item = &mut SessionEndpoint> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            SessionSlot::Running(session) => Some(&mut **session),
            SessionSlot::Free | SessionSlot::Ended => None,
        })
    }
}
