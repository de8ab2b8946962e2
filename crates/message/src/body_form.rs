/// The form of a message's body, which its publisher's protocol decides. The broker never changes a body, and
/// so never a message's form while it keeps the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// Opaque bytes; the message's properties are all that its publisher stated.
    Plain,
    /// Sections of AMQP 1.0: message annotations if there are some, the bare message, the footer. The
    /// message's properties are an index: what the broker must know of the sections, and what it has added.
    Amqp10,
}

impl BodyForm {
    /// Whether the properties are all that the publisher stated.
    #[inline]
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Plain)
    }

    /// The number under which the form is stored: at most 15.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Amqp10 => 1,
        }
    }

    pub(crate) const fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Plain),
            1 => Some(Self::Amqp10),
            _ => None,
        }
    }
}
