//! The consumers of a queue by key. A key is used again after its consumer is gone.

use super::Consumer;
use crate::key::ConsumerKey;

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Consumer>>,
    free: Vec<u32>,
}

impl Table {
    pub(super) fn insert(&mut self, consumer: Consumer) -> ConsumerKey {
        let key = if let Some(free) = self.free.pop() {
            ConsumerKey(free)
        } else {
            let next = u32::try_from(self.slots.len()).expect("fewer than 2^32 consumers");
            self.slots.push(None);
            ConsumerKey(next)
        };
        if let Some(slot) = self.slots.get_mut(key.0 as usize) {
            assert!(slot.is_none(), "a key is that of one consumer");
            *slot = Some(consumer);
        }
        key
    }

    #[inline]
    pub(super) fn get(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.slots.get(key.0 as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: ConsumerKey) -> Option<&mut Consumer> {
        self.slots.get_mut(key.0 as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, key: ConsumerKey) -> Option<Consumer> {
        let consumer = self.slots.get_mut(key.0 as usize)?.take()?;
        self.free.push(key.0);
        Some(consumer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConsumerKey, &Consumer)> {
        self.slots.iter().zip(0..).filter_map(|(consumer, slot)| {
            consumer.as_ref().map(|consumer| (ConsumerKey(slot), consumer))
        })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Consumer> {
        self.slots.iter_mut().flatten()
    }
}
