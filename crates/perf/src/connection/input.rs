//! The reading half of a turn: one read, one pass over the frames that came.

use amqp10::{FrameRef, FrameType, Performative};
use amqp091::method::ConnectionCloseOk;
use amqp091::{Frame, FrameKind, Method, MethodId, decode_frame};
use anyhow::{Context as _, bail};

use super::{Connection, Phase, Role, TurnContext};
use crate::amqp10::session::Agent;
use crate::assembly::is_content;
use crate::clock;
use crate::consumer::{Consumer, Seen};
use crate::losses::Lost;
use client::closed;

/// The payload of a basic.deliver starts with this.
const DELIVER: [u8; 4] = [0, 60, 0, 60];
/// Nothing is read while that many bytes of acknowledgements wait to be written.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

impl Connection {
    pub(super) fn may_read(&self) -> bool {
        self.output.pending().len() < OUTPUT_BYTES_MAX
    }

    /// Reads once and handles what came. Gives back when to go on, if that is to wait.
    pub(super) fn read(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<Option<u64>> {
        if !self.may_read() {
            return Ok(None);
        }
        if let Some(at) = self.closed_gate(context) {
            return Ok(Some(at));
        }
        if self.left.is_empty() && !self.socket.is_readable() {
            return Ok(None);
        }
        let input = std::mem::take(&mut context.input);
        let result = self.read_into(input, context);
        context.input = input;
        result
    }

    fn read_into(
        &mut self,
        input: &mut [u8],
        context: &mut TurnContext<'_>,
    ) -> anyhow::Result<Option<u64>> {
        let from = self.left.len();
        let (head, rest) = input.split_at_mut_checked(from).context("a frame is too large")?;
        head.copy_from_slice(&self.left);
        let mut n = from;
        if self.socket.is_readable() && !rest.is_empty() {
            n += self.socket.receive(rest, context.time.now)?;
            // What is published from here on did not wait for the read.
            context.time.now = clock::now();
        }
        let input = input.get(..n).unwrap_or_default();
        let (used, opens_at) = self.handle(input, context)?;
        self.left.clear();
        self.left.extend_from_slice(input.get(used..).unwrap_or_default());
        Ok(opens_at)
    }

    /// The time until which a slow consumer handles nothing.
    fn closed_gate(&self, context: &TurnContext<'_>) -> Option<u64> {
        let Role::Consuming(consumers) = &self.role else { return None };
        if context.phase != Phase::Run {
            return None;
        }
        let open_at = consumers.iter().map(Consumer::open_at).max()?;
        (open_at > context.time.elapsed()).then_some(context.time.start + open_at)
    }

    /// Handles whole frames; gives back how many bytes they were, and when to go on if a slow
    /// consumer is not to handle more now.
    fn handle(
        &mut self,
        input: &[u8],
        context: &mut TurnContext<'_>,
    ) -> anyhow::Result<(usize, Option<u64>)> {
        if self.session.is_some() {
            return self.handle_session(input, context);
        }
        let (mut rest, mut opens_at) = (input, None);
        while let Some((frame, used)) = decode_frame(rest, self.frame_max)? {
            if frame.kind == FrameKind::Method && frame.payload.starts_with(&DELIVER) {
                opens_at = self.closed_gate(context);
                if opens_at.is_some() {
                    break;
                }
            }
            self.on_frame(frame, context)?;
            rest = rest.get(used..).unwrap_or_default();
        }
        if let Role::Consuming(consumers) = &mut self.role {
            consumers.iter_mut().for_each(|consumer| consumer.flush(context.sample));
        }
        Ok((input.len() - rest.len(), opens_at))
    }

    /// The same for AMQP 1.0.
    fn handle_session(
        &mut self,
        input: &[u8],
        context: &mut TurnContext<'_>,
    ) -> anyhow::Result<(usize, Option<u64>)> {
        let (mut rest, mut opens_at) = (input, None);
        while let Some((frame, used)) = amqp10::decode_frame(rest, FrameType::Amqp, self.frame_max)?
        {
            opens_at = self.closed_gate(context);
            if opens_at.is_some() {
                break;
            }
            self.on_session_frame(frame, context)?;
            rest = rest.get(used..).unwrap_or_default();
        }
        if let Self { role: Role::Consuming(consumers), session: Some(session), output, .. } = self
        {
            for consumer in consumers {
                consumer.flush(context.sample);
                session.flush(consumer.is_done(), &mut output.bytes);
            }
        }
        Ok((input.len() - rest.len(), opens_at))
    }

    #[inline]
    fn on_session_frame(
        &mut self,
        frame: FrameRef<'_>,
        context: &mut TurnContext<'_>,
    ) -> anyhow::Result<()> {
        let Self { session: Some(session), role, output, socket, .. } = self else { return Ok(()) };
        if socket.is_closing() {
            if matches!(Performative::decode(frame.body), Ok((Performative::Close(_), _))) {
                socket.close();
            }
            return Ok(());
        }
        let agent = match role {
            Role::Publishing(publishers) => publishers.first_mut().map(Agent::Publisher),
            Role::Consuming(consumers) => consumers.first_mut().map(Agent::Consumer),
        };
        let agent = agent.context("a session without a link")?;
        let mut seen = Seen { sample: context.sample, ledger: context.ledger };
        if session.on_frame(frame, agent, context.time, &mut output.bytes, &mut seen)? {
            return Err(Lost("the broker closes a connection".to_owned()).into());
        }
        Ok(())
    }

    #[inline]
    fn on_frame(&mut self, frame: Frame<'_>, context: &mut TurnContext<'_>) -> anyhow::Result<()> {
        let Frame { kind, channel, payload } = frame;
        if kind == FrameKind::Heartbeat || self.socket.is_closing() && is_content(kind) {
            return Ok(());
        }
        let at = usize::from(channel).wrapping_sub(1);
        let deliver = payload.strip_prefix(&DELIVER).filter(|_| kind == FrameKind::Method);
        if kind == FrameKind::Method && deliver.is_none() {
            return self.on_method(channel, &Method::decode(payload)?, context);
        }
        let mut seen = Seen { sample: context.sample, ledger: context.ledger };
        match &mut self.role {
            Role::Consuming(consumers) => {
                let consumer = consumers.get_mut(at).context("an unknown channel")?;
                let out = &mut self.output.bytes;
                match (kind, deliver) {
                    (_, Some(fields)) => consumer.on_deliver(fields),
                    (FrameKind::Header, None) => {
                        consumer.on_header(payload, context.time, out, &mut seen)
                    }
                    (FrameKind::Body | FrameKind::Method | FrameKind::Heartbeat, None) => {
                        consumer.on_body(payload, context.time, out, &mut seen)
                    }
                }
            }
            Role::Publishing(publishers) => {
                let publisher = publishers.get_mut(at).context("an unknown channel")?;
                match kind {
                    FrameKind::Header => publisher.on_header(payload),
                    FrameKind::Body => publisher.on_body(payload, context.ledger),
                    FrameKind::Method | FrameKind::Heartbeat => bail!("a delivery to a publisher"),
                }
            }
        }
    }

    fn on_method(
        &mut self,
        channel: u16,
        method: &Method<'_>,
        context: &mut TurnContext<'_>,
    ) -> anyhow::Result<()> {
        if method.id() == ConnectionCloseOk::ID {
            self.socket.close();
        }
        if self.socket.is_closing() {
            return Ok(());
        }
        if let Some(closed) = closed(method) {
            return Err(closed.into());
        }
        if channel == 0 {
            return on_connection_method(method.id(), method);
        }
        let at = usize::from(channel) - 1;
        match &mut self.role {
            Role::Publishing(publishers) => {
                let publisher = publishers.get_mut(at).context("an unknown channel")?;
                publisher.on_method(method, context.time.now, context.sample, context.ledger)
            }
            Role::Consuming(consumers) => {
                consumers.get_mut(at).context("an unknown channel")?.on_method(method)
            }
        }
    }
}

fn on_connection_method(id: MethodId, method: &Method<'_>) -> anyhow::Result<()> {
    if let Method::ConnectionBlocked(blocked) = method {
        let reason = String::from_utf8_lossy(blocked.reason);
        crate::complain(&format!("the broker blocks publishers: {reason}"));
    } else if matches!(method, Method::ConnectionUnblocked(_)) {
        crate::complain("the broker no longer blocks publishers");
    } else if id != ConnectionCloseOk::ID {
        bail!("unexpected {}", method.name());
    }
    Ok(())
}
