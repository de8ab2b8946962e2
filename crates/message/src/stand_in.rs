/// A substitute for a message's properties where those are kept apart, in front of its body:
/// their length u32 LE, then *brief* properties, which say what a queue has to know before it reads the
/// whole. Both are properties in AMQP 0-9-1's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandIn<'a> {
    /// Length of the properties; never 0.
    pub properties_bytes: u32,
    /// Brief properties.
    pub brief: &'a [u8],
}

impl<'a> StandIn<'a> {
    /// Stored form of the stand-in.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        [&self.properties_bytes.to_le_bytes(), self.brief].concat()
    }

    /// Reads a stored stand-in.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (properties_bytes, brief) = bytes.split_first_chunk()?;
        let properties_bytes = u32::from_le_bytes(*properties_bytes);
        (properties_bytes > 0).then_some(Self { properties_bytes, brief })
    }
}
