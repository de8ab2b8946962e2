use crate::BodyForm;
use std::num::NonZeroU64;

/// Bytes of annotations as they are stored.
pub const ANNOTATIONS_BYTES: usize = 9;
const FLAG_DEAD_LETTERED: u8 = 1;
/// The body's form is in the flags' upper half.
const FORM_SHIFT: u32 = 4;

/// The broker's own notes about a message, which clients do not see. Most messages have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// Time at which the message expires in its queue, in Unix milliseconds.
    pub deadline_ms: Option<NonZeroU64>,
    /// Whether the message was dead-lettered: the header `x-death` and its like are the broker's, not a
    /// client's.
    pub dead_lettered: bool,
}

impl Annotations {
    /// No annotations.
    pub const NONE: Self = Self { deadline_ms: None, dead_lettered: false };

    /// Whether there are none.
    pub const fn is_none(&self) -> bool {
        self.deadline_ms.is_none() && !self.dead_lettered
    }
}

/// A message's annotations as they are stored, and the form of its body with them: nothing for a plain body
/// without annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredAnnotations {
    /// The annotations.
    pub annotations: Annotations,
    /// The form of the body.
    pub form: BodyForm,
}

/// Stored annotations on their way into a record: nothing when there are none.
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

impl StoredAnnotations {
    /// Annotations of a message that has none stored.
    pub const NONE: Self = Self { annotations: Annotations::NONE, form: BodyForm::Plain };

    /// Whether nothing is stored.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.annotations.is_none() && self.form.is_plain()
    }

    /// Stored form: flags u8 (bit 0 dead-lettered, bits 4 to 7 the body's form), deadline u64 LE (0 for
    /// none).
    #[must_use]
    pub fn part(&self) -> AnnotationsPart {
        let mut bytes = [0; ANNOTATIONS_BYTES];
        if self.is_none() {
            return AnnotationsPart { bytes, len: 0 };
        }
        let dead_lettered = if self.annotations.dead_lettered { FLAG_DEAD_LETTERED } else { 0 };
        bytes[0] = dead_lettered | self.form.number() << FORM_SHIFT;
        let deadline_ms = self.annotations.deadline_ms.map_or(0, NonZeroU64::get);
        bytes[1..].copy_from_slice(&deadline_ms.to_le_bytes());
        AnnotationsPart { bytes, len: ANNOTATIONS_BYTES }
    }

    /// Reads stored annotations; `None` for those of a body whose form is a later version's.
    #[must_use]
    pub const fn parse(bytes: &[u8; ANNOTATIONS_BYTES]) -> Option<Self> {
        let [flags, d0, d1, d2, d3, d4, d5, d6, d7] = *bytes;
        let deadline_ms = u64::from_le_bytes([d0, d1, d2, d3, d4, d5, d6, d7]);
        let annotations = Annotations {
            deadline_ms: NonZeroU64::new(deadline_ms),
            dead_lettered: flags & FLAG_DEAD_LETTERED != 0,
        };
        match BodyForm::of_number(flags >> FORM_SHIFT) {
            Some(form) => Some(Self { annotations, form }),
            None => None,
        }
    }
}
