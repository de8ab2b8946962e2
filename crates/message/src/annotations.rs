use std::num::NonZeroU64;

/// Bytes of annotations as they are stored.
pub const ANNOTATIONS_BYTES: usize = 9;
const FLAG_DEAD_LETTERED: u8 = 1;

/// The broker's own notes about a message, which clients do not see. Most messages have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// Time at which the message expires in its queue, in Unix milliseconds.
    pub deadline_ms: Option<NonZeroU64>,
    /// Whether the message was dead-lettered: the header `x-death` and its like are the broker's, not a
    /// client's.
    pub dead_lettered: bool,
}

/// Annotations on their way into a record: nothing when there are none.
#[derive(Clone, Copy, Debug)]
pub struct AnnotationsPart {
    bytes: [u8; ANNOTATIONS_BYTES],
    len: usize,
}

impl AnnotationsPart {
    /// Stored form of the annotations.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Annotations {
    /// No annotations.
    pub const NONE: Self = Self { deadline_ms: None, dead_lettered: false };

    /// Whether there are none.
    pub const fn is_none(&self) -> bool {
        self.deadline_ms.is_none() && !self.dead_lettered
    }

    /// Stored form of the annotations: flags u8, deadline u64 LE (0 for none).
    #[must_use]
    pub fn part(&self) -> AnnotationsPart {
        if self.is_none() {
            return AnnotationsPart { bytes: [0; ANNOTATIONS_BYTES], len: 0 };
        }
        let mut bytes = [0; ANNOTATIONS_BYTES];
        bytes[0] = if self.dead_lettered { FLAG_DEAD_LETTERED } else { 0 };
        let deadline_ms = self.deadline_ms.map_or(0, NonZeroU64::get);
        bytes[1..].copy_from_slice(&deadline_ms.to_le_bytes());
        AnnotationsPart { bytes, len: ANNOTATIONS_BYTES }
    }

    /// Reads stored annotations.
    #[must_use]
    pub const fn parse(bytes: &[u8; ANNOTATIONS_BYTES]) -> Self {
        let [flags, d0, d1, d2, d3, d4, d5, d6, d7] = *bytes;
        let deadline_ms = u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]);
        Self {
            deadline_ms: NonZeroU64::new(deadline_ms),
            dead_lettered: flags & FLAG_DEAD_LETTERED != 0,
        }
    }
}
