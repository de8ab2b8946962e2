//! Values of definitions as they lie in records: the fields of commands, outcomes and errors.
//!
//! ```text
//! name, text = len:u32 bytes      list = n:u32 item*      option = 0 | 1 value
//! table = len:u32 entries as in AMQP 0-9-1                enum = tag:u8 fields
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use amqp091::{Table, TableRef};
use routing::{ExchangeKind, Name, QueueId};
use stdx::record::{
    Reader, RecordError, put_bool, put_bytes, put_i64, put_str, put_u16, put_u32, put_u64,
};

pub(crate) type Read<T> = Result<T, RecordError>;

/// A value as it lies in a record.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);

    fn read(r: &mut Reader<'_>) -> Read<Self>;
}

/// Structs as the sequence of their fields, and a last one that is not among them.
macro_rules! structs {
    ($($name:ident { $($field:ident),* $(; $unwritten:ident)? })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn read(r: &mut Reader<'_>) -> Read<Self> {
                Ok(Self {
                    $($field: Field::read(r)?,)*
                    $($unwritten: Default::default(),)?
                })
            }
        }
    )*};
}

/// Enums: the tag, name and fields of each variant, in the order in which they are written.
macro_rules! enums {
    ($($type:ident { $($tag:literal $name:ident { $($field:tt: $it:ident),* };)* })*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field: $it),* } => {
                        stdx::record::put_u8(out, $tag);
                        $($it.put(out);)*
                    })*
                }
            }

            fn read(r: &mut Reader<'_>) -> Read<Self> {
                Ok(match r.u8()? {
                    $($tag => Self::$name { $($field: Field::read(r)?),* },)*
                    _ => return Err(RecordError::Invalid),
                })
            }
        }
    )*};
}

/// Single values: what of each is written by which function, and how it is made of what is read.
macro_rules! values {
    ($($type:ty: $put:ident(|$it:ident| $of:expr), $read:ident(|$value:ident| $made:expr);)*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let $it = self;
                $put(out, $of);
            }

            fn read(r: &mut Reader<'_>) -> Read<Self> {
                let $value = r.$read()?;
                $made
            }
        }
    )*};
}

pub(crate) use {enums, structs, values};

values! {
    bool: put_bool(|it| *it), bool(|is| Ok(is));
    u16: put_u16(|it| *it), u16(|number| Ok(number));
    u32: put_u32(|it| *it), u32(|number| Ok(number));
    u64: put_u64(|it| *it), u64(|number| Ok(number));
    i64: put_i64(|it| *it), i64(|number| Ok(number));
    QueueId: put_u64(|it| it.0), u64(|id| Ok(Self(id)));
    Name: put_str(|it| it), str(|text| Ok(Self::from(text)));
    String: put_str(|it| it), str(|text| Ok(text.to_owned()));
    ExchangeKind: put_str(|it| it.as_str()), str(|text| Self::of_name(text).ok_or(RecordError::Invalid));
    Table: put_bytes(|it| &it.to_bytes()), bytes(|bytes| {
        TableRef::parse(bytes).and_then(|table| table.to_owned()).or(Err(RecordError::Invalid))
    });
    Cow<'static, str>: put_str(|it| it), str(|text| Ok(Self::Owned(text.to_owned())));
    usize: put_u64(|it| *it as u64), u64(|n| Self::try_from(n).or(Err(RecordError::Invalid)));
}

impl<T: Field> Field for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        T::read(r).map(Self::new)
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bool(out, self.is_some());
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        r.bool()?.then(|| T::read(r)).transpose()
    }
}

impl Field for Vec<Name> {
    fn put(&self, out: &mut Vec<u8>) {
        put_u32(out, u32::try_from(self.len()).expect("tags are few"));
        self.iter().for_each(|name| name.put(out));
    }

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let n = r.u32()?;
        (0..n).map(|_| Name::read(r)).collect()
    }
}
