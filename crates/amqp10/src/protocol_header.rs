//! Protocol headers: the eight bytes in front of each layer's frames (part 2, 2.2; part 5, 5.3).
//!
//! ```text
//! 'A' 'M' 'Q' 'P'   id:u8   major:u8   minor:u8   revision:u8
//! ```

/// The bytes of a protocol header.
pub const PROTOCOL_HEADER_BYTES: usize = 8;

/// A layer of AMQP 1.0, by its protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolLayer {
    /// AMQP's frames follow.
    Amqp,
    /// A TLS session begins within the connection.
    Tls,
    /// SASL's frames follow.
    Sasl,
}

impl ProtocolLayer {
    /// The layer whose header these bytes are.
    #[must_use]
    pub fn of_header(header: [u8; PROTOCOL_HEADER_BYTES]) -> Option<Self> {
        [Self::Amqp, Self::Tls, Self::Sasl].into_iter().find(|layer| layer.header() == header)
    }

    /// The layer's header.
    #[must_use]
    pub const fn header(self) -> [u8; PROTOCOL_HEADER_BYTES] {
        match self {
            Self::Amqp => *b"AMQP\x00\x01\x00\x00",
            Self::Tls => *b"AMQP\x02\x01\x00\x00",
            Self::Sasl => *b"AMQP\x03\x01\x00\x00",
        }
    }
}
