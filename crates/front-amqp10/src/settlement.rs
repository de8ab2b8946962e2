//! Numbered things that wait for an end: deliveries for their settlement, publishes for their answers. A
//! range of numbers costs by the entries in it, never by its width.

use amqp10::SerialNumber;
use std::collections::VecDeque;

/// Below this many entries settled ones in the middle are left alone.
const COMPACT_FROM: usize = 64;

/// Entries by rising number, with gaps. Taken ones in the middle are marked, and dropped when they reach the
/// front or outnumber the rest: memory and time follow the number of those that wait.
#[derive(Debug)]
pub struct NumberedEntries<T> {
    entries: VecDeque<(u64, Option<T>)>,
    n_taken: usize,
}

impl<T> Default for NumberedEntries<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), n_taken: 0 }
    }
}

impl<T> NumberedEntries<T> {
    /// Adds an entry, whose number is higher than all before.
    #[inline]
    pub fn push(&mut self, number: u64, entry: T) {
        debug_assert!(self.entries.back().is_none_or(|(last, _)| *last < number), "numbers rise");
        self.entries.push_back((number, Some(entry)));
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len() - self.n_taken
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the entries from `first` to `last`, in order; `each` gets numbers and entries.
    #[inline]
    pub fn take_range(&mut self, first: u64, last: u64, mut each: impl FnMut(u64, T)) {
        // Answers mostly begin with the oldest.
        let begins_at_front = self.entries.front().is_none_or(|(number, _)| first <= *number);
        let mut at = if begins_at_front {
            0
        } else {
            self.entries.partition_point(|(number, _)| *number < first)
        };
        while let Some((number, slot)) = self.entries.get_mut(at)
            && *number <= last
        {
            if let Some(entry) = slot.take() {
                self.n_taken += 1;
                each(*number, entry);
            }
            at += 1;
        }
        self.drop_taken();
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().filter_map(|(number, slot)| Some((*number, slot.as_ref()?)))
    }

    /// Takes the entries that `matches` chooses, in order.
    pub fn take_all(&mut self, matches: impl Fn(&T) -> bool, mut each: impl FnMut(T)) {
        for (_, slot) in &mut self.entries {
            if let Some(entry) = slot.take_if(|entry| matches(entry)) {
                self.n_taken += 1;
                each(entry);
            }
        }
        self.drop_taken();
    }

    fn drop_taken(&mut self) {
        while self.entries.front().is_some_and(|(_, slot)| slot.is_none()) {
            self.entries.pop_front();
            self.n_taken -= 1;
        }
        if self.entries.len() >= COMPACT_FROM && self.n_taken * 2 > self.entries.len() {
            self.entries.retain(|(_, slot)| slot.is_some());
            self.n_taken = 0;
        }
    }
}

/// The deliveries of a session that the client has not settled, by delivery id. Ids wrap around: an id means
/// the delivery nearest to the newest one that has it.
#[derive(Debug)]
pub struct UnsettledDeliveries<T> {
    entries: NumberedEntries<T>,
    /// The number of the next delivery; its lowest 32 bits are its id.
    next: u64,
}

impl<T> Default for UnsettledDeliveries<T> {
    /// Begins a turn of the ids in, so that numbers below the first one exist.
    fn default() -> Self {
        Self { entries: NumberedEntries::default(), next: 1 << 32 }
    }
}

impl<T> UnsettledDeliveries<T> {
    /// The id of a delivery that is settled by being sent.
    #[inline]
    pub const fn next_settled(&mut self) -> SerialNumber {
        let id = id_of(self.next);
        self.next += 1;
        id
    }

    /// The id of a delivery that is to be settled.
    #[inline]
    pub fn next(&mut self, delivery: T) -> SerialNumber {
        self.entries.push(self.next, delivery);
        self.next_settled()
    }

    /// Whether nothing is unsettled.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of unsettled deliveries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Settles the deliveries from `first` to `last`, in order. A last id before the first names none.
    #[inline]
    pub fn settle(
        &mut self,
        first: SerialNumber,
        last: SerialNumber,
        mut each: impl FnMut(SerialNumber, T),
    ) {
        if last.is_before(first) || self.entries.is_empty() {
            return;
        }
        let last_number = self.number_of(last);
        let first_number = last_number.saturating_sub(u64::from(last.since(first)));
        self.entries.take_range(first_number, last_number, |number, it| each(id_of(number), it));
    }

    /// The deliveries with their ids, in order.
    pub fn iter(&self) -> impl Iterator<Item = (SerialNumber, &T)> {
        self.entries.iter().map(|(number, delivery)| (id_of(number), delivery))
    }

    /// Settles the deliveries that `matches` chooses, in order.
    pub fn settle_all(&mut self, matches: impl Fn(&T) -> bool, each: impl FnMut(T)) {
        self.entries.take_all(matches, each);
    }

    /// The number with this id that is nearest to the next one.
    const fn number_of(&self, id: SerialNumber) -> u64 {
        let next_id = id_of(self.next);
        if next_id.is_before(id) {
            self.next + id.since(next_id) as u64
        } else {
            self.next - next_id.since(id) as u64
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "ids are the lowest bits")]
const fn id_of(number: u64) -> SerialNumber {
    SerialNumber::new(number as u32)
}

#[cfg(test)]
mod tests;
