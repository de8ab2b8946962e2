//! The connections between two nodes, and the classes of what is sent on one.

/// The number of a connection among all that this life of the node has had: newer ones have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionNumber(pub u64);

stdx::named! {
    /// The class of a frame on a link. Frames of one class keep their order; those of an earlier class pass
    /// later ones, also between the pieces of a large frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LinkClass {
        /// Small frames that others wait for: votes, heartbeats, credit, settlements.
        Urgent = "urgent",
        /// Appends and their answers; messages.
        Ordinary = "ordinary",
        /// Images, old entries, pages, long listings.
        Bulk = "bulk",
    }
}

impl LinkClass {
    /// The place among [`LinkClass::ALL`].
    pub(crate) const fn place(self) -> usize {
        self as usize
    }

    /// The class of a byte in a frame.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| *class as u8 == code)
    }
}
