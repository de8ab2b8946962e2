//! The number of deliveries that a consumer may still be given, and what gives it back: settling, with a
//! prefetch limit; with link credit (AMQP 1.0, part 2.6.7) only the client, which names the deliveries that
//! it has seen.

/// The rule that limits deliveries to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditMode {
    /// No limit.
    Unlimited,
    /// Unsettled deliveries allowed at a time. No limit where the delivery settles a message.
    Prefetch(u32),
    /// Deliveries that the client allows one flow after the other; there are none until the first.
    Link,
}

impl CreditMode {
    /// The mode of a consumer with this prefetch limit; `None` for no limit.
    pub const fn of_prefetch(prefetch: Option<u32>) -> Self {
        match prefetch {
            Some(limit) => Self::Prefetch(limit),
            None => Self::Unlimited,
        }
    }

    /// The prefetch limit, if there is one.
    pub const fn prefetch(self) -> Option<u32> {
        match self {
            Self::Prefetch(limit) => Some(limit),
            Self::Unlimited | Self::Link => None,
        }
    }
}

/// The credit of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCredit {
    /// Deliveries on the link, and those that were drained; a serial number, which begins at 0.
    pub delivery_count: u32,
    /// Deliveries that may follow.
    pub credit: u32,
}

impl LinkCredit {
    /// Deliveries that the client has not seen which has seen these.
    const fn n_unseen(self, seen: Self) -> u32 {
        let n_unseen = self.delivery_count.wrapping_sub(seen.delivery_count);
        // A client cannot have seen more than there were: it is taken to have seen all.
        if n_unseen > i32::MAX as u32 { 0 } else { n_unseen }
    }

    /// Deliveries that were made, or counted, beyond those that the client allows.
    pub const fn n_beyond(self, seen: Self) -> u32 {
        self.n_unseen(seen).saturating_sub(seen.credit)
    }
}

/// The deliveries that a consumer may still be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRoom {
    /// Below zero if the consumer holds more than its prefetch limit, which was lowered.
    n_left: i64,
    /// The delivery count at which a link's credit is used up; none with a prefetch limit.
    end: Option<u32>,
}

impl DeliveryRoom {
    /// The room of a consumer that holds nothing.
    pub const fn new(mode: CreditMode) -> Self {
        match mode {
            CreditMode::Unlimited => Self { n_left: u32::MAX as i64, end: None },
            CreditMode::Prefetch(limit) => Self { n_left: limit as i64, end: None },
            CreditMode::Link => Self { n_left: 0, end: Some(0) },
        }
    }

    /// The room of a link with this credit.
    pub fn of_link(LinkCredit { delivery_count, credit }: LinkCredit) -> Self {
        Self { n_left: credit.into(), end: Some(delivery_count.wrapping_add(credit)) }
    }

    /// Whether a delivery may follow.
    #[inline]
    pub const fn any(&self) -> bool {
        self.n_left > 0
    }

    /// Number of deliveries that may follow.
    pub const fn n_left(&self) -> u64 {
        if self.n_left > 0 { self.n_left.unsigned_abs() } else { 0 }
    }

    /// Whether only the client gives room.
    pub const fn is_of_link(&self) -> bool {
        self.end.is_some()
    }

    /// Notes deliveries.
    #[inline]
    pub const fn take(&mut self, n: u64) {
        self.n_left = self.n_left.wrapping_sub_unsigned(n);
    }

    /// Notes that deliveries were settled, or went back.
    #[inline]
    pub const fn note_settled(&mut self, n: u64) {
        if self.end.is_none() {
            self.n_left = self.n_left.wrapping_add_unsigned(n);
        }
    }

    /// Sets the prefetch limit of a consumer that holds `n_held`. A link has none.
    pub fn set_prefetch(&mut self, prefetch: Option<u32>, n_held: u64) {
        if self.end.is_none() {
            *self = Self::new(CreditMode::of_prefetch(prefetch));
            self.take(n_held);
        }
    }

    /// Takes a link's credit as its client sees it. Deliveries that the client has not seen are among those
    /// that it allows.
    pub fn flow(&mut self, seen: LinkCredit) {
        let Some(now) = self.link_credit() else { return };
        let credit = seen.credit.saturating_sub(now.n_unseen(seen));
        *self = Self::of_link(LinkCredit { credit, ..now });
    }

    /// Notes that so many of a link's deliveries were not made after all; its credit stays as it is.
    pub fn note_unsent(&mut self, n: u32) {
        self.end = self.end.map(|end| end.wrapping_sub(n));
    }

    /// Uses up a link's credit: its deliveries count as made.
    pub const fn drain(&mut self) {
        if self.end.is_some() {
            self.n_left = 0;
        }
    }

    /// The link's credit; none with a prefetch limit.
    pub fn link_credit(&self) -> Option<LinkCredit> {
        let credit = u32::try_from(self.n_left).unwrap_or(0);
        Some(LinkCredit { delivery_count: self.end?.wrapping_sub(credit), credit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn credit(delivery_count: u32, credit: u32) -> LinkCredit {
        LinkCredit { delivery_count, credit }
    }

    #[test]
    fn link_credit_counts_from_what_the_client_has_seen() {
        let mut room = DeliveryRoom::new(CreditMode::Link);
        assert_eq!((room.any(), room.link_credit()), (false, Some(credit(0, 0))));
        room.flow(credit(0, 5));
        room.take(3);
        room.note_settled(3);
        assert_eq!(room.link_credit(), Some(credit(3, 2)));
        room.flow(credit(1, 5));
        assert_eq!(room.link_credit(), Some(credit(3, 3)), "two are on their way");
        assert_eq!(credit(3, 3).n_beyond(credit(1, 2)), 0);
        assert_eq!(credit(3, 3).n_beyond(credit(1, 1)), 1);
        room.flow(credit(1, 1));
        assert_eq!(room.link_credit(), Some(credit(3, 0)));
        room.note_unsent(1);
        assert_eq!(room.link_credit(), Some(credit(2, 0)));
        room.flow(credit(2, 1));
        room.take(1);
        assert_eq!(room.link_credit(), Some(credit(3, 0)));
        room.flow(credit(9, 4));
        assert_eq!(room.link_credit(), Some(credit(3, 4)), "it cannot have seen nine");
        room.drain();
        assert_eq!(room.link_credit(), Some(credit(7, 0)));
    }

    #[test]
    fn delivery_counts_wrap() {
        let mut room = DeliveryRoom::new(CreditMode::Link);
        room.flow(credit(0, u32::MAX));
        room.drain();
        room.flow(credit(u32::MAX, 4));
        room.take(2);
        assert_eq!(room.link_credit(), Some(credit(1, 2)));
        room.flow(credit(u32::MAX, 3));
        assert_eq!(room.n_left(), 1);
    }

    #[test]
    fn a_lower_prefetch_limit_waits_for_settlements() {
        let mut room = DeliveryRoom::new(CreditMode::Prefetch(3));
        room.take(3);
        room.set_prefetch(Some(1), 3);
        room.note_settled(2);
        assert!(!room.any());
        room.note_settled(1);
        assert_eq!((room.n_left(), room.link_credit()), (1, None));
    }
}
