//! The prefetch limit of a whole channel, where the operator lets clients have it.

use super::channels::Channels;
use super::links::Links;
use session::{ChannelId, LinkId, Settle};
use std::collections::HashSet;
use std::sync::Arc;

impl Links {
    /// From now on the channel's consumers hold no more than this together; 0 for no limit.
    pub(super) fn limit_channel(
        &self,
        channels: &mut Channels,
        id: ChannelId,
        prefetch_count: u16,
    ) {
        let Some(channel) = channels.get_mut(id) else { return };
        let is_new = channel.limit.is_none();
        let limit = Arc::clone(channel.limit.get_or_insert_default());
        if is_new {
            let gets: HashSet<LinkId> = channel.gets.values().copied().collect();
            let links = self.iter();
            let consumers = links.filter(|(of, link)| link.channel() == id && !gets.contains(of));
            for (_, link) in consumers {
                link.limit(&limit);
            }
        }
        self.go_on(&limit.set(prefetch_count));
    }

    /// Deliveries of a consumer are settled: there is room for as many on its channel. What was
    /// asked for by `basic.get` takes none.
    pub(super) fn make_room(&self, channels: &Channels, run: &[Settle]) {
        let Some(first) = run.first() else { return };
        let Some(channel) = channels.get(first.channel) else { return };
        let Some(limit) = &channel.limit else { return };
        let takes_none = self.get(first.link).is_some_and(|link| link.is_no_ack())
            || channel.gets.values().any(|get| *get == first.link);
        if takes_none {
            return;
        }
        let waiting = limit.release(run.len() as u64);
        self.go_on(&waiting);
    }

    /// Everything went back but what a transaction has settled.
    pub(super) fn make_room_after_recovery(&self, channels: &Channels, id: ChannelId) {
        let Some(channel) = channels.get(id) else { return };
        let Some(limit) = &channel.limit else { return };
        let settled = channel.tx.as_deref().map_or(&[][..], |tx| &tx.settles);
        let of_consumer = |settle: &&Settle| !channel.gets.values().any(|get| *get == settle.link);
        let waiting = limit.recover(settled.iter().filter(of_consumer).count() as u64);
        self.go_on(&waiting);
    }

    fn go_on(&self, links: &[LinkId]) {
        for link in links.iter().filter_map(|link| self.get(*link)) {
            link.resume_limited();
        }
    }
}
