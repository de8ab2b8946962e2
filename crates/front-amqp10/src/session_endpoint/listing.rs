//! Sessions as listings show them.

use super::SessionEndpoint;
use crate::address::SourceAddress;
use crate::links::LinkState;
use crate::topics::topic_of;
use amqp10::{Attach, LinkTarget, Role, SourceTerminus, ValueRef};
use session::{ChannelId, ListedLink, ListedSession, PublishTarget, ShortString};

/// Bytes of filters that are kept for listings; larger ones are not shown.
const FILTER_BYTES_MAX: usize = 4_096;

/// The names of a link, which nothing but listings asks for.
#[derive(Debug)]
struct LinkName {
    /// The beginning of the name that the client gave it.
    name: ShortString,
    address: Option<Box<str>>,
    /// Whether the address is a topic's name.
    is_topic: bool,
    /// The queue of the subscription to the topic.
    subscription: Option<Box<str>>,
    /// The filters of its source: an encoded map, or nothing.
    filter: Box<[u8]>,
}

/// The names of a session's links, by handle.
#[derive(Debug, Default)]
pub(super) struct LinkNames(Vec<Option<Box<LinkName>>>);

impl LinkNames {
    /// Notes the names of a link that is put in place with this answer.
    pub(super) fn note(&mut self, answer: &Attach<'_>) {
        let is_sender = answer.role == Role::Sender;
        let source = answer.source.as_ref().filter(|_| is_sender);
        let address = match (source, &answer.target) {
            (Some(source), _) => source.address,
            (None, Some(LinkTarget::Terminus(target))) => target.address,
            (None, Some(LinkTarget::Coordinator(_)) | None) => None,
        };
        let address = match address {
            Some(ValueRef::Str(address)) => Some(address.into()),
            _ => None,
        };
        let mut filter = Vec::new();
        if let Some(filters) = source.and_then(|source| source.filter).filter(|it| !it.is_empty()) {
            ValueRef::Map(filters).encode(&mut filter);
        }
        if filter.len() > FILTER_BYTES_MAX {
            filter.clear();
        }
        let name = LinkName {
            name: ShortString::truncated(answer.name),
            address,
            is_topic: source.is_some_and(|it| topic_of(it.address, it.capabilities).is_some()),
            subscription: None,
            filter: filter.into(),
        };
        let index = index_of(answer.handle);
        if index >= self.0.len() {
            self.0.resize_with(index + 1, Option::default);
        }
        if let Some(place) = self.0.get_mut(index) {
            *place = Some(Box::new(name));
        }
    }

    pub(super) fn forget(&mut self, handle: u32) {
        if let Some(place) = self.0.get_mut(index_of(handle)) {
            *place = None;
        }
    }
}

/// The place of a handle, which is no higher than those of a session may be.
fn index_of(handle: u32) -> usize {
    usize::try_from(handle).unwrap_or(usize::MAX)
}

impl LinkName {
    /// A link of which nothing but the names is known.
    fn listed(&self, handle: u32) -> ListedLink {
        ListedLink {
            handle,
            name: self.name.to_text().into_owned(),
            address: self.address.as_deref().map(str::to_owned),
            queue: None,
            settle_mode: "settled",
            message_bytes_max: None,
            delivery_count: 0,
            credit: 0,
            n_unanswered: 0,
            filter: self.filter.to_vec(),
        }
    }

    fn queue(&self) -> Option<String> {
        if self.is_topic {
            return self.subscription.as_deref().map(str::to_owned);
        }
        let address = self.address.as_deref().map(ValueRef::Str);
        let source = SourceTerminus { address, ..SourceTerminus::default() };
        let found = SourceAddress::of_source(&source, true);
        let Ok(SourceAddress::Queue(queue) | SourceAddress::Declared(queue)) = found else {
            return None;
        };
        Some(String::from_utf8_lossy(&queue).into_owned())
    }
}

/// Notes the queue of a subscription.
pub(crate) fn note_subscription(session: &mut SessionEndpoint, handle: u32, queue: &ShortString) {
    if let Some(Some(name)) = session.names.0.get_mut(index_of(handle)) {
        name.subscription = Some(queue.to_text().into());
    }
}

/// The session as listings show it.
pub(crate) fn listed(session: &SessionEndpoint) -> ListedSession {
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    for ((handle, names), state) in (0..).zip(&session.names.0).zip(&session.links) {
        let Some(names) = names else { continue };
        let mut link = names.listed(handle);
        match state {
            LinkState::Incoming(state) | LinkState::Coordinator(state) => {
                state.list(&mut link);
                incoming.push(link);
            }
            LinkState::Requests(state) => {
                state.incoming.list(&mut link);
                incoming.push(link);
            }
            LinkState::Outgoing(state) => {
                state.list(&mut link);
                link.queue = names.queue();
                outgoing.push(link);
            }
            LinkState::Responses(state) => {
                state.list(&mut link);
                outgoing.push(link);
            }
            LinkState::Free | LinkState::Attaching(_) | LinkState::Detached => {}
        }
    }
    ListedSession {
        channel: ChannelId(session.channel),
        handle_max: session.handle_max,
        windows: session.windows.listed(),
        n_unsettled: session.unsettled.len() as u64,
        incoming,
        outgoing,
    }
}

/// The channel of a session, and the targets of its links on which the client publishes.
pub(crate) fn publish_targets(session: &SessionEndpoint) -> (ChannelId, Vec<PublishTarget>) {
    let targets = session.links.iter().filter_map(|state| {
        if let LinkState::Incoming(link) = state { link.target.clone() } else { None }
    });
    (ChannelId(session.channel), targets.collect())
}
