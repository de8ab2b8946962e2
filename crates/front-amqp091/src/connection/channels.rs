//! The channels of a connection as its incoming half knows them.

use super::content::Content;

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) id: u16,
    pub(super) state: ChannelState,
    pub(super) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelState {
    Open,
    /// The server closed it: only close and close-ok count until the client has answered.
    /// `answered` when a close of the client's own, which crossed, was answered.
    Failed {
        answered: bool,
    },
}

/// Sorted by number; the one used last is found at once.
#[derive(Debug, Default)]
pub(super) struct Channels {
    list: Vec<Channel>,
    /// The numbers of channels that were open once, a bit each: 8 KiB at most.
    used: Vec<u64>,
    last_idx: usize,
    /// Whether any channel may be in the middle of a body.
    is_assembling: bool,
}

impl Channels {
    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Channel> {
        if self.list.get(self.last_idx).is_none_or(|channel| channel.id != id) {
            self.last_idx = self.list.binary_search_by_key(&id, |channel| channel.id).ok()?;
        }
        self.list.get_mut(self.last_idx)
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn open(&mut self, id: u16) {
        let (word, bit) = place_of(id);
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        if let Some(word) = self.used.get_mut(word) {
            *word |= bit;
        }
        self.set(id, ChannelState::Open);
    }

    /// Whether the channel was open and has been closed, by whichever side.
    pub(super) fn is_closed(&mut self, id: u16) -> bool {
        let (word, bit) = place_of(id);
        self.used.get(word).is_some_and(|word| word & bit != 0) && self.get_mut(id).is_none()
    }

    /// The server closes the channel. One that is not known was closed by the client just before.
    pub(super) fn fail(&mut self, id: u16) {
        match self.get_mut(id) {
            Some(channel) if channel.state == ChannelState::Open => {
                channel.state = ChannelState::Failed { answered: false };
                channel.content = Content::Idle;
            }
            Some(_) => {}
            None => self.set(id, ChannelState::Failed { answered: true }),
        }
    }

    pub(super) fn remove(&mut self, id: u16) {
        self.list.retain(|channel| channel.id != id);
    }

    /// A channel is in the middle of a body.
    pub(super) const fn note_assembling(&mut self) {
        self.is_assembling = true;
    }

    /// Bytes of unfinished messages.
    pub(super) fn unfinished_bytes(&mut self) -> u64 {
        if !self.is_assembling {
            return 0;
        }
        let n_bytes = self.list.iter().map(|channel| channel.content.assembled_bytes()).sum();
        self.is_assembling = n_bytes > 0;
        n_bytes
    }

    fn set(&mut self, id: u16, state: ChannelState) {
        self.remove(id);
        let index = self.list.partition_point(|channel| channel.id < id);
        self.list.insert(index, Channel { id, state, content: Content::Idle });
    }
}

/// The word and the bit that stand for a channel's number.
const fn place_of(id: u16) -> (usize, u64) {
    (id as usize / u64::BITS as usize, 1 << (id as u32 % u64::BITS))
}
