//! Requests to the management node on their way: their operations go to the broker, whose answers become
//! responses, in the order of the requests.

use super::{LockedServer, broker_channel};
use crate::connection::ServerConnection;
use crate::fault::ProtocolFault;
use crate::life::ConnectionPhase;
use crate::management::{
    ManagementAnswer, ManagementRequest, ManagingNode, PendingResponse, RefusedRequest,
};
use crate::requests::{LinkHandle, ManagementCall, SentMessage};
use session::{
    ChannelId, Control, Error, ManagementEvent, MethodTag, Position, RefusalScope, Request,
};
use std::collections::BTreeMap;

/// The bit of a control request's name that says that its answer is a response of the management node.
const MANAGEMENT: u64 = 1 << 63;

/// A response that is yet to be made.
#[derive(Debug)]
struct AwaitedResponse {
    /// The link on which the response goes out.
    link: LinkHandle,
    pending: PendingResponse,
    /// The refusal of a request that the broker is not asked for, until it is its turn.
    refused: Option<RefusedRequest>,
}

/// The responses of a connection that are yet to be made, by the numbers of their requests.
#[derive(Debug, Default)]
pub(crate) struct PendingResponses {
    awaited: BTreeMap<u64, AwaitedResponse>,
    last: u64,
}

impl PendingResponses {
    fn add(&mut self, response: AwaitedResponse) -> MethodTag {
        self.last += 1;
        self.awaited.insert(self.last, response);
        MethodTag(MANAGEMENT | self.last)
    }

    fn take(&mut self, origin: MethodTag) -> Option<AwaitedResponse> {
        self.awaited.remove(&(origin.0 & !MANAGEMENT))
    }

    /// The first response, if it does not need the broker any more.
    fn take_refused(&mut self) -> Option<AwaitedResponse> {
        let first = self.awaited.first_entry()?;
        first.get().refused.is_some().then(|| first.remove())
    }

    pub(crate) fn forget_link(&mut self, link: LinkHandle) {
        self.awaited.retain(|_, response| response.link != link);
    }

    pub(crate) fn forget_channel(&mut self, channel: ChannelId) {
        self.awaited.retain(|_, response| response.link.channel != channel);
    }
}

/// Whether a control request's answer is a response of the management node.
pub(crate) const fn is_of_management(origin: MethodTag) -> bool {
    origin.0 & MANAGEMENT != 0
}

impl LockedServer {
    /// Takes a request to the management node; returns the request to the broker that it is, if it is one.
    pub(crate) fn manage(&mut self, call: &ManagementCall) -> Option<Request> {
        let vhost = self.server.client().map_or("", |client| &client.vhost);
        let ManagementRequest { pending, op } = ManagementRequest::parse(&call.sections, vhost);
        let link = call.responses;
        match op {
            Ok(op) => {
                let origin = self.responses.add(AwaitedResponse { link, pending, refused: None });
                let refusal = RefusalScope::Request;
                let channel = broker_channel(link.channel);
                let control = Control { channel, origin, nowait: false, refusal, op };
                Some(Request::Control(Box::new(control)))
            }
            Err(refused) => {
                self.responses.add(AwaitedResponse { link, pending, refused: Some(refused) });
                self.respond_to_refused();
                None
            }
        }
    }

    pub(crate) fn take_management_event(&mut self, event: &ManagementEvent<'_>) {
        match event {
            ManagementEvent::Queue { origin, is_new: true, queue } => {
                self.respond_to(*origin, &ManagementAnswer::Declared(*queue));
            }
            ManagementEvent::Queue { origin, is_new: false, queue } => {
                self.respond_to(*origin, &ManagementAnswer::Queue(*queue));
            }
            ManagementEvent::Bindings { origin, bindings } => {
                self.respond_to(*origin, &ManagementAnswer::Bindings(bindings));
            }
        }
    }

    /// Responds to the request that the broker has answered, and to those behind it that wait for it alone.
    pub(crate) fn respond_to(&mut self, origin: MethodTag, answer: &ManagementAnswer<'_>) {
        if let Some(response) = self.responses.take(origin) {
            self.respond(&response, answer);
        }
        self.respond_to_refused();
    }

    /// Responds to a request that the broker refuses. COMPAT: a permission that is missing ends the session.
    pub(crate) fn respond_to_refusal(&mut self, origin: MethodTag, error: Error) {
        if let Some(response) = self.responses.take(origin) {
            match response.pending.refusal(error) {
                Ok(refused) => self.respond(&response, &ManagementAnswer::Refused(&refused)),
                Err(fault) => self.fail_session(response.link.channel, &fault),
            }
        }
        self.respond_to_refused();
    }

    /// Responds to refused requests that no other request is in front of.
    pub(crate) fn respond_to_refused(&mut self) {
        while let Some(response) = self.responses.take_refused() {
            if let Some(refused) = &response.refused {
                self.respond(&response, &ManagementAnswer::Refused(refused));
            }
        }
    }

    fn respond(&mut self, response: &AwaitedResponse, answer: &ManagementAnswer<'_>) {
        let mut sections = Vec::new();
        let node = ManagingNode {
            vhost: self.server.client().map_or("", |client| &client.vhost),
            name: &self.server.life.settings.node_name,
        };
        response.pending.put(answer, &node, &mut sections);
        let message = SentMessage::in_sections(Position(0), &sections);
        self.server.deliver(response.link, message, &mut self.follow_up);
    }

    fn fail_session(&mut self, channel: ChannelId, fault: &ProtocolFault) {
        self.responses.forget_channel(channel);
        let ServerConnection { life, sessions, .. } = &mut self.server;
        if life.phase == ConnectionPhase::Running {
            sessions.fail(life, channel.0, fault, &mut self.follow_up);
        }
    }
}
