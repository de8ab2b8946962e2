//! Values of headers and arguments, compared as headers exchanges do.

use amqp091::{Value, ValueRef};

/// A value as far as it compares without regard to its exact type.
/// COMPAT: types matter (1 is not "1"), but all integers and floats compare as numbers, and text
/// and byte arrays as bytes, as Erlang's `==` does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Comparable<'a> {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Bytes(&'a [u8]),
    /// A value of a type that compares only with itself.
    Other,
}

impl<'a> Comparable<'a> {
    pub(crate) fn of_header(value: ValueRef<'a>) -> Self {
        match value {
            ValueRef::Bool(b) => Self::Bool(b),
            ValueRef::I8(n) => Self::Integer(n.into()),
            ValueRef::U8(n) => Self::Integer(n.into()),
            ValueRef::I16(n) => Self::Integer(n.into()),
            ValueRef::U16(n) => Self::Integer(n.into()),
            ValueRef::I32(n) => Self::Integer(n.into()),
            ValueRef::U32(n) => Self::Integer(n.into()),
            ValueRef::I64(n) => Self::Integer(n),
            ValueRef::F32(n) => Self::Float(n.into()),
            ValueRef::F64(n) => Self::Float(n),
            ValueRef::LongString(bytes) | ValueRef::Bytes(bytes) => Self::Bytes(bytes),
            ValueRef::Decimal(_)
            | ValueRef::Array(_)
            | ValueRef::Timestamp(_)
            | ValueRef::Table(_)
            | ValueRef::Void => Self::Other,
        }
    }

    pub(crate) fn of_argument(value: &'a Value) -> Self {
        Self::of_header(value.flat())
    }

    /// Whether both are equal; `None` if that takes the values themselves.
    #[expect(clippy::float_cmp, reason = "RabbitMQ compares them exactly")]
    pub(crate) fn equals(self, other: Self) -> Option<bool> {
        match (self, other) {
            (Self::Other, Self::Other) => None,
            (Self::Bool(a), Self::Bool(b)) => Some(a == b),
            (Self::Integer(a), Self::Integer(b)) => Some(a == b),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a == b),
            (a, b) => Some(a.as_number().zip(b.as_number()).is_some_and(|(a, b)| a == b)),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "RabbitMQ compares integers to floats as floats"
    )]
    pub(crate) const fn as_number(self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(n as f64),
            Self::Float(n) => Some(n),
            Self::Bool(_) | Self::Bytes(_) | Self::Other => None,
        }
    }
}
