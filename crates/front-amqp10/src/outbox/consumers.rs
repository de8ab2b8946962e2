//! The links of a connection on which its client consumes.

use crate::requests::LinkHandle;
use session::{ChannelId, LinkId, ShortString, Subscription};
use std::collections::BTreeMap;

/// A link on which the client consumes.
#[derive(Debug)]
pub(crate) struct ConsumerLink {
    pub(crate) key: LinkHandle,
    /// Whether the link is noted as one to be resumed.
    pub(crate) is_paused: bool,
    /// Whether the link waits for its session's window.
    pub(crate) waits_for_window: bool,
    /// The queue of the subscription that ends when the client closes the link.
    pub(crate) subscription: Option<ShortString>,
}

impl ConsumerLink {
    pub(crate) const fn new(key: LinkHandle) -> Self {
        Self { key, is_paused: false, waits_for_window: false, subscription: None }
    }
}

/// The links on which the client consumes.
#[derive(Debug, Default)]
pub(crate) struct ConsumerLinks {
    links: BTreeMap<LinkId, ConsumerLink>,
    /// The node that was made or found for the link which is attached next, or refused.
    made: Option<MadeNode>,
}

/// A node that was made or found for a link which is about to be attached.
#[derive(Debug)]
pub(crate) struct MadeNode {
    pub(crate) key: LinkHandle,
    pub(crate) node: LinkNode,
}

/// The node of a link, where it is not what the client has named.
#[derive(Debug)]
pub(crate) enum LinkNode {
    /// A queue of the link's own.
    Queue(ShortString),
    /// A topic of the link's own.
    Topic(ShortString),
    /// A subscription, and its queue.
    Subscription(Box<Subscription>, ShortString),
}

impl ConsumerLinks {
    pub(crate) fn get(&self, link: LinkId) -> Option<&ConsumerLink> {
        self.links.get(&link)
    }

    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut ConsumerLink> {
        self.links.get_mut(&link)
    }

    /// Notes the node of the link that is attached next, or refused.
    pub(crate) fn node_made(&mut self, node: MadeNode) {
        self.made = Some(node);
    }

    /// The node that was made or found for a link.
    pub(crate) fn take_node(&mut self, key: LinkHandle) -> Option<LinkNode> {
        Some(self.made.take_if(|node| node.key == key)?.node)
    }

    pub(crate) fn add(&mut self, link: LinkId, consumer: ConsumerLink) {
        self.links.insert(link, consumer);
    }

    pub(crate) fn remove(&mut self, link: LinkId) -> Option<ConsumerLink> {
        self.links.remove(&link)
    }

    /// Removes the links of a session.
    pub(crate) fn forget_channel(&mut self, channel: ChannelId) {
        self.links.retain(|_, consumer| consumer.key.channel != channel);
    }

    pub(crate) fn clear(&mut self) {
        self.links.clear();
    }

    /// Notes that no link waits for room any more.
    pub(crate) fn resume(&mut self) {
        self.links.values_mut().for_each(|consumer| consumer.is_paused = false);
    }

    pub(crate) fn waiting_for_windows(
        &mut self,
    ) -> impl Iterator<Item = (LinkId, &mut ConsumerLink)> {
        let all = self.links.iter_mut().map(|(link, consumer)| (*link, consumer));
        all.filter(|(_, consumer)| consumer.waits_for_window)
    }
}
