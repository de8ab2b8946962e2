//! The connections between two nodes, and the classes of what is sent on one.

stdx::named! {
    /// The purpose of a connection between two nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ConnectionKind {
        /// Pulses alone.
        Pulse = "pulse",
        /// Messages of Raft groups.
        Raft = "raft",
        /// Sessions at queues of the other node, definitions, questions.
        Work = "work",
        /// A tunnel for the command line tool: whoever has the cookie may open one, members or not.
        Ctl = "ctl",
    }
}

impl ConnectionKind {
    /// The kinds that two members hold open, one of each.
    pub const HELD: [Self; 3] = [Self::Pulse, Self::Raft, Self::Work];

    /// The byte that stands for the kind in a hello.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// The kind of a hello's byte.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The place among [`ConnectionKind::HELD`].
    pub(crate) fn place(self) -> Option<usize> {
        Self::HELD.iter().position(|held| *held == self)
    }
}

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
