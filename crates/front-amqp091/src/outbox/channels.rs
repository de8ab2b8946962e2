//! The channels of a connection as its outbox knows them: delivery tags and confirms.

use super::confirms::AckOrNack;
use super::confirms::Confirms;
use super::{DeliveryTag, TagStep, UnknownTag};
use edge::DeliveryTags;
use session::{LinkId, Position, UnsettledSince};
use std::collections::BTreeSet;

/// The outgoing half of a channel.
#[derive(Debug)]
pub(super) struct ChannelOut {
    pub(super) id: u16,
    pub(super) tags: DeliveryTags,
    pub(super) confirms: Confirms,
    /// Whether confirms are to be told.
    pub(super) has_confirms: bool,
    /// Whether the client is done with the channel, or the connection is: deliveries go back to their queues.
    pub(super) is_closing: bool,
}

impl ChannelOut {
    pub(super) fn new(id: u16) -> Self {
        Self {
            id,
            tags: DeliveryTags::default(),
            confirms: Confirms::default(),
            has_confirms: false,
            is_closing: false,
        }
    }

    pub(super) fn trim(&mut self) {
        self.tags.trim();
        self.confirms.trim();
    }
}

/// The open channels, and what became of others, sorted by number.
#[derive(Debug, Default)]
pub(crate) struct ChannelsOut {
    list: Vec<ChannelOut>,
    /// Channels the broker closed since the last look.
    failed: Vec<u16>,
    /// Channels that became transactional before they were opened; no more than there are channels.
    early_tx: Vec<u16>,
    has_confirms: bool,
}

impl ChannelsOut {
    #[inline]
    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut ChannelOut> {
        let index = self.list.binary_search_by_key(&id, |channel| channel.id).ok()?;
        self.list.get_mut(index)
    }

    /// A channel that the client has not closed.
    #[inline]
    fn open_mut(&mut self, id: u16) -> Option<&mut ChannelOut> {
        self.get_mut(id).filter(|channel| !channel.is_closing)
    }

    pub(super) fn open(&mut self, id: u16) {
        let index = self.list.partition_point(|other| other.id < id);
        let mut opened = ChannelOut::new(id);
        if let Some(early) = self.early_tx.iter().position(|early| *early == id) {
            self.early_tx.swap_remove(early);
            opened.tags.select_tx();
        }
        self.list.insert(index, opened);
    }

    /// Forgets a channel, after telling the confirms that came before. False when there is none.
    pub(super) fn remove(&mut self, id: u16, out: &mut Vec<u8>) -> bool {
        let found = self.list.binary_search_by_key(&id, |channel| channel.id);
        if let Ok(index) = found {
            self.list.remove(index).confirms.tell(id, out);
        }
        found.is_ok()
    }

    /// Notes that the broker closed a channel, of which the decoder is to learn.
    pub(super) fn note_failed(&mut self, id: u16) {
        self.failed.push(id);
    }

    /// Takes the channels that the broker closed since the last call.
    pub(super) fn take_failed(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.failed)
    }

    /// Stops deliveries to all channels.
    pub(super) fn close_all(&mut self) {
        for channel in &mut self.list {
            channel.is_closing = true;
        }
    }

    /// Closes the channel for the client: its tags stand for nothing from here on, and nothing is delivered
    /// to it any more. Unsettled deliveries are remembered until the broker has let go of the channel.
    pub(crate) fn close(&mut self, id: u16) {
        if let Some(channel) = self.get_mut(id) {
            channel.is_closing = true;
        }
    }

    /// Turns a settlement of a client into the messages it settles.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        channel: u16,
        tag: DeliveryTag,
        mut each: impl FnMut(LinkId, Position),
    ) -> Result<(), UnknownTag> {
        let tags = &mut self.open_mut(channel).ok_or(UnknownTag)?.tags;
        match tag {
            DeliveryTag::One(tag) => {
                let entry = tags.settle(tag).ok_or(UnknownTag)?;
                each(entry.link, entry.position);
                Ok(())
            }
            DeliveryTag::Upto(tag) => {
                let known = tags.settle_upto(tag, |entry| each(entry.link, entry.position));
                if known { Ok(()) } else { Err(UnknownTag) }
            }
        }
    }

    /// Follows what a request means for the tags of its channel.
    pub(crate) fn follow(&mut self, channel: u16, step: TagStep) {
        let Some(out) = self.open_mut(channel) else {
            // The channel was opened in the same read, and the broker has not answered yet.
            if step == TagStep::SelectTx && !self.early_tx.contains(&channel) {
                self.early_tx.push(channel);
            }
            return;
        };
        match step {
            TagStep::SelectTx => out.tags.select_tx(),
            TagStep::CommitTx => out.tags.commit_tx(),
            TagStep::RollBackTx => out.tags.roll_back_tx(),
            TagStep::ReleaseAll => out.tags.release_all(),
        }
    }

    /// The unsettled deliveries of these links, with their tags; `channels` have them all, if it is known.
    pub(super) fn unsettled(
        &mut self,
        channels: Option<&BTreeSet<u16>>,
        links: &[LinkId],
        found: &mut Vec<(u64, LinkId, Position)>,
    ) {
        for channel in &mut self.list {
            if channels.is_none_or(|channels| channels.contains(&channel.id)) {
                channel.tags.unsettled(links, found);
            }
        }
    }

    /// The oldest unsettled delivery of a link, which is one of that channel, and the channel's newest
    /// delivery.
    pub(super) fn unsettled_since(&mut self, channel: u16, link: LinkId) -> Option<UnsettledSince> {
        self.get_mut(channel)?.tags.unsettled_since(link)
    }

    pub(super) fn confirm(&mut self, channel: u16, first: u64, last: u64, answer: AckOrNack) {
        if let Some(channel) = self.get_mut(channel) {
            channel.confirms.add(first, last, answer);
            channel.has_confirms = true;
            self.has_confirms = true;
        }
    }

    /// Whether there are confirms to be told.
    pub(super) const fn has_confirms(&self) -> bool {
        self.has_confirms
    }

    /// Appends the confirms that were gathered; without a place for them they are told never.
    pub(super) fn tell_confirms(&mut self, out: Option<&mut Vec<u8>>) {
        if std::mem::take(&mut self.has_confirms)
            && let Some(out) = out
        {
            for channel in self.list.iter_mut().filter(|channel| channel.has_confirms) {
                channel.has_confirms = false;
                channel.confirms.tell(channel.id, out);
            }
        }
    }

    /// Gives back memory that is not in use.
    pub(super) fn trim(&mut self) {
        for channel in &mut self.list {
            channel.trim();
        }
        self.list.shrink_to_fit();
    }
}
