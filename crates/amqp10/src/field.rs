//! Fields of composites: the Rust types that they have, read from the front of bytes and appended.

use crate::code;
use crate::encode::put_symbol_array;
use crate::error::DecodeError;
use crate::reader::{ValueCursor, Width};
use crate::serial::SerialNumber;
use crate::value::{ArrayRef, MapRef, ValueRef};

/// The most bytes of a delivery tag (part 2, 2.8.7).
pub const DELIVERY_TAG_BYTES_MAX: usize = 32;

/// A type that fields have.
pub(crate) trait FieldValue<'a>: Sized {
    /// Takes the value, which is not null, from the front.
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError>;

    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
}

/// A field as it stands in a struct: a value that must be there, or one that may be absent.
pub(crate) trait FieldSlot<'a>: Sized {
    /// The field where the list has none; `None` if it must have one.
    const ABSENT: Option<Self>;

    /// Takes the field, which is not null, from the front.
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError>;

    /// Appends the field; false, and nothing appended, if it is absent.
    fn put(&self, out: &mut Vec<u8>) -> bool;
}

impl<'a, T: FieldValue<'a>> FieldSlot<'a> for T {
    const ABSENT: Option<Self> = None;

    #[inline]
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        <T as FieldValue<'a>>::read(cursor, levels)
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) -> bool {
        FieldValue::put(self, out);
        true
    }
}

impl<'a, T: FieldValue<'a>> FieldSlot<'a> for Option<T> {
    const ABSENT: Option<Self> = Some(None);

    #[inline]
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        T::read(cursor, levels).map(Some)
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) -> bool {
        if let Some(value) = self {
            value.put(out);
        }
        self.is_some()
    }
}

/// Field types that are a value of one type as it is: how the value is read, and its [`ValueRef`].
macro_rules! plain_fields {
    ($a:lifetime; $($type:ty = $value:ident { $($code:ident => $read:expr,)* })*) => {$(
        impl<$a> FieldValue<$a> for $type {
            #[inline]
            fn read(cursor: &mut ValueCursor<$a>, _: usize) -> Result<Self, DecodeError> {
                match cursor.u8()? {
                    $(code::$code => $read(cursor),)*
                    _ => Err(DecodeError::FieldType),
                }
            }

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                ValueRef::$value(*self).encode(out);
            }
        }
    )*};
}

plain_fields! { 'a;
    bool = Bool {
        TRUE => |_: &mut ValueCursor<'a>| Ok(true),
        FALSE => |_: &mut ValueCursor<'a>| Ok(false),
        BOOL => |cursor: &mut ValueCursor<'a>| match cursor.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::NotOfType),
        },
    }
    u8 = U8 { U8 => ValueCursor::u8, }
    u16 = U16 { U16 => |cursor: &mut ValueCursor<'a>| cursor.array().map(u16::from_be_bytes), }
    u32 = U32 {
        U32_ZERO => |_: &mut ValueCursor<'a>| Ok(0),
        U32_SMALL => |cursor: &mut ValueCursor<'a>| cursor.u8().map(u32::from),
        U32 => ValueCursor::u32,
    }
    u64 = U64 {
        U64_ZERO => |_: &mut ValueCursor<'a>| Ok(0),
        U64_SMALL => |cursor: &mut ValueCursor<'a>| cursor.u8().map(u64::from),
        U64 => ValueCursor::u64,
    }
    &'a [u8] = Binary {
        BINARY8 => |cursor: &mut ValueCursor<'a>| cursor.counted(Width::One),
        BINARY32 => |cursor: &mut ValueCursor<'a>| cursor.counted(Width::Four),
    }
    &'a str = Str {
        STR8 => |cursor: &mut ValueCursor<'a>| text(cursor.counted(Width::One)?),
        STR32 => |cursor: &mut ValueCursor<'a>| text(cursor.counted(Width::Four)?),
    }
}

fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::NotText)
}

impl FieldValue<'_> for SerialNumber {
    #[inline]
    fn read(cursor: &mut ValueCursor<'_>, levels: usize) -> Result<Self, DecodeError> {
        <u32 as FieldValue<'_>>::read(cursor, levels).map(Self::new)
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        ValueRef::U32(self.bits()).encode(out);
    }
}

/// The sender's name for a delivery, unique among the link's unsettled ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryTag<'a>(pub &'a [u8]);

impl<'a> FieldValue<'a> for DeliveryTag<'a> {
    #[inline]
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let tag = <&[u8] as FieldValue<'a>>::read(cursor, levels)?;
        if tag.len() <= DELIVERY_TAG_BYTES_MAX {
            Ok(Self(tag))
        } else {
            Err(DecodeError::NotOfType)
        }
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        ValueRef::Binary(self.0).encode(out);
    }
}

/// A word from a set that both peers know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbol<'a>(pub &'a str);

impl<'a> FieldValue<'a> for Symbol<'a> {
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        symbol_of(ValueRef::read(cursor, levels)?).map(Self).ok_or(DecodeError::FieldType)
    }

    fn put(&self, out: &mut Vec<u8>) {
        ValueRef::Symbol(self.0).encode(out);
    }
}

impl<'a> FieldValue<'a> for ValueRef<'a> {
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        Self::read_valid(cursor, levels)
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl<'a> FieldValue<'a> for MapRef<'a> {
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let value = ValueRef::read_valid(cursor, levels)?;
        if let ValueRef::Map(map) = value { Ok(map) } else { Err(DecodeError::FieldType) }
    }

    fn put(&self, out: &mut Vec<u8>) {
        ValueRef::Map(*self).encode(out);
    }
}

/// The symbols of a field that has any number of them (`multiple`, part 1, 1.4): none, one, or an array.
#[derive(Clone, Copy, Debug)]
pub enum Symbols<'a> {
    /// Symbols that are to be encoded.
    Listed(&'a [&'a str]),
    /// The only symbol.
    One(&'a str),
    /// An array that was read; all of its elements are symbols.
    Array(ArrayRef<'a>),
}

impl<'a> Symbols<'a> {
    /// No symbols.
    pub const NONE: Symbols<'static> = Symbols::Listed(&[]);

    /// The symbols, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (listed, one, array) = match *self {
            Self::Listed(listed) => (listed, None, None),
            Self::One(symbol) => (&[][..], Some(symbol), None),
            Self::Array(array) => (&[][..], None, Some(array)),
        };
        let array = array.into_iter().flat_map(|array| array.iter()).filter_map(symbol_of);
        listed.iter().copied().chain(one).chain(array)
    }

    /// Whether `symbol` is one of them.
    #[must_use]
    pub fn contains(&self, symbol: &str) -> bool {
        self.iter().any(|it| it == symbol)
    }
}

impl Default for Symbols<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl PartialEq for Symbols<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> FieldValue<'a> for Symbols<'a> {
    fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let value = ValueRef::read_valid(cursor, levels)?;
        if let ValueRef::Symbol(symbol) = value {
            Ok(Self::One(symbol))
        } else if let ValueRef::Array(array) = value
            && array.descriptor().is_none()
            && array.iter().all(|element| matches!(element, ValueRef::Symbol(_)))
        {
            Ok(Self::Array(array))
        } else {
            Err(DecodeError::FieldType)
        }
    }

    /// COMPAT: an array even for a single symbol, as RabbitMQ writes it: some clients expect one.
    fn put(&self, out: &mut Vec<u8>) {
        put_symbol_array(out, || self.iter());
    }
}

fn symbol_of(value: ValueRef<'_>) -> Option<&str> {
    if let ValueRef::Symbol(symbol) = value { Some(symbol) } else { None }
}

/// Fields whose values have names: an enum over numbers of the specification.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident: $type:ty { $($(#[$of_value:meta])* $value:ident = $code:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$of_value])* $value,)* }

        impl<'a> FieldValue<'a> for $name {
            #[inline]
            fn read(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
                match <$type as FieldValue<'a>>::read(cursor, levels)? {
                    $($code => Ok(Self::$value),)*
                    #[allow(unreachable_patterns, reason = "all values of a boolean are named")]
                    _ => Err(DecodeError::NotOfType),
                }
            }

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                let code: $type = match self { $(Self::$value => $code,)* };
                FieldValue::put(&code, out);
            }
        }
    )*};
}

choices! {
    /// The side of a link that its peer is.
    Role: bool {
        /// The side that sends messages.
        #[default]
        Sender = false,
        /// The side that receives messages.
        Receiver = true,
    }
    /// The deliveries that the sender settles by sending them.
    SenderSettleMode: u8 {
        /// None.
        #[default]
        Unsettled = 0,
        /// All.
        Settled = 1,
        /// Deliveries are settled whose transfers say so.
        Mixed = 2,
    }
    /// The moment when the receiver settles.
    ReceiverSettleMode: u8 {
        /// The receiver settles of itself.
        #[default]
        First = 0,
        /// The receiver settles after the sender has.
        Second = 1,
    }
    /// The state of a terminus that outlives its link.
    TerminusDurability: u32 {
        /// None.
        #[default]
        None = 0,
        /// Its existence and configuration.
        Configuration = 1,
        /// The state of unsettled deliveries, too.
        UnsettledState = 2,
    }
    /// The outcome of a login.
    SaslCode: u8 {
        /// The login succeeded.
        #[default]
        Ok = 0,
        /// The credentials were refused.
        Auth = 1,
        /// The system failed.
        Sys = 2,
        /// The system failed, and will fail again.
        SysPerm = 3,
        /// The system failed, and may not fail again.
        SysTemp = 4,
    }
}
