//! Composites: described lists whose items are fields (part 1, 1.4). A table says what is in each, and from
//! it follow structs, decoding and encoding.

use crate::code;
use crate::encode::{Items, put_described, put_list};
use crate::error::DecodeError;
use crate::field::FieldSlot;
use crate::reader::{ValueCursor, Width};
use crate::value::{Descriptor, ListRef, ValueRef};

/// The levels of nesting that a composite takes: its descriptor and its list.
const COMPOSITE_LEVELS: usize = 2;

/// A row of the tables.
pub(crate) trait Composite<'a>: Sized {
    /// The descriptor as a number.
    const CODE: u64;
    /// The descriptor as a symbol.
    const NAME: &'static str;

    /// Reads the fields.
    fn read_fields(fields: &mut FieldCursor<'a>) -> Result<Self, DecodeError>;

    /// Appends the fields.
    fn put_fields(&self, fields: &mut FieldWriter<'_, '_>);

    /// Reads the list, which stands behind the descriptor, and its fields. The list is to have the items and
    /// bytes that it says; items behind the last field are passed over.
    #[inline]
    fn read_list(cursor: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let levels = levels.checked_sub(COMPOSITE_LEVELS).ok_or(DecodeError::TooDeep)?;
        let list = match cursor.u8()? {
            code::LIST_EMPTY => ListRef::EMPTY,
            code::LIST8 => ListRef::read(cursor, Width::One)?,
            code::LIST32 => ListRef::read(cursor, Width::Four)?,
            _ => return Err(DecodeError::FieldType),
        };
        let mut fields =
            FieldCursor { n_left: list.n_items, cursor: ValueCursor(list.items), levels };
        let composite = Self::read_fields(&mut fields)?;
        fields.end()?;
        Ok(composite)
    }

    /// Appends descriptor and list.
    #[inline]
    fn put_list(&self, out: &mut Vec<u8>) {
        put_described(out, Self::CODE);
        put_list(out, |items| self.put_fields(&mut FieldWriter { items, n_absent: 0 }));
    }
}

/// The fields of a list that were not read yet.
#[derive(Debug)]
pub(crate) struct FieldCursor<'a> {
    n_left: usize,
    cursor: ValueCursor<'a>,
    levels: usize,
}

impl<'a> FieldCursor<'a> {
    /// The next field; `default` where the list has none.
    #[inline]
    pub(crate) fn next<T: FieldSlot<'a>>(
        &mut self,
        name: &'static str,
        default: Option<T>,
    ) -> Result<T, DecodeError> {
        let is_there = match self.n_left.checked_sub(1) {
            Some(n_left) => {
                self.n_left = n_left;
                self.cursor.0.first() != Some(&code::NULL)
            }
            None => return default.or(T::ABSENT).ok_or(DecodeError::MissingField(name)),
        };
        if is_there {
            return T::read(&mut self.cursor, self.levels);
        }
        self.cursor.u8()?;
        default.or(T::ABSENT).ok_or(DecodeError::MissingField(name))
    }

    #[inline]
    fn end(mut self) -> Result<(), DecodeError> {
        for _ in 0..self.n_left {
            ValueRef::read_valid(&mut self.cursor, self.levels)?;
        }
        if self.cursor.is_empty() { Ok(()) } else { Err(DecodeError::Count) }
    }
}

/// The fields of a list that is being written. Absent fields become nulls only in front of others.
#[derive(Debug)]
pub(crate) struct FieldWriter<'w, 'o> {
    items: &'w mut Items<'o>,
    n_absent: usize,
}

impl FieldWriter<'_, '_> {
    /// Appends the next field, unless it is absent or has its default.
    #[inline]
    pub(crate) fn put<'a, T: FieldSlot<'a> + PartialEq>(&mut self, field: &T, default: Option<T>) {
        if default.as_ref() == Some(field) || T::ABSENT.as_ref() == Some(field) {
            self.n_absent += 1;
            return;
        }
        for _ in 0..std::mem::take(&mut self.n_absent) {
            self.items.put(ValueRef::Null);
        }
        self.items.put_with(|out| field.put(out));
    }
}

/// Reads the descriptor at the front.
#[inline]
pub(crate) fn read_descriptor<'a>(
    cursor: &mut ValueCursor<'a>,
) -> Result<Descriptor<'a>, DecodeError> {
    // The form that nearly all peers write.
    if let [code::DESCRIBED, code::U64_SMALL, id, rest @ ..] = cursor.0 {
        *cursor = ValueCursor(rest);
        return Ok(Descriptor::Code(u64::from(*id)));
    }
    match cursor.u8()? {
        code::DESCRIBED => Descriptor::read(cursor),
        _ => Err(DecodeError::FieldType),
    }
}

impl<'a, T: Composite<'a>> Composite<'a> for Box<T> {
    const CODE: u64 = T::CODE;
    const NAME: &'static str = T::NAME;

    fn read_fields(fields: &mut FieldCursor<'a>) -> Result<Self, DecodeError> {
        T::read_fields(fields).map(Self::new)
    }

    fn put_fields(&self, fields: &mut FieldWriter<'_, '_>) {
        T::put_fields(self, fields);
    }
}

/// Composites as structs. A row has: the name, the descriptor as a number and as a symbol, the fields in
/// their order. A field that is no `Option` and has no default must be there.
macro_rules! composites {
    ($a:lifetime; $($(#[$doc:meta])* $name:ident $(<$lt:lifetime>)? $code:literal $symbol:literal {
        $($(#[$of_field:meta])* $field:ident: $type:ty $(= $default:expr)?,)*
    })*) => {$(
        $(#[$doc])*
        #[doc = concat!("\n\nThe specification's `", $symbol, "`.")]
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name $(<$lt>)? {
            $(
                #[doc = concat!("The field `", stringify!($field), "`.")]
                $(#[$of_field])*
                pub $field: $type,
            )*
        }

        impl<$a> crate::composite::Composite<$a> for $name $(<$lt>)? {
            const CODE: u64 = $code;
            const NAME: &'static str = $symbol;

            #[inline]
            fn read_fields(
                #[allow(unused_variables, reason = "some have no fields")]
                fields: &mut crate::composite::FieldCursor<$a>,
            ) -> Result<Self, crate::error::DecodeError> {
                Ok(Self {
                    $($field: fields.next::<$type>(
                        stringify!($field),
                        crate::composite::composites!(@default $($default)?),
                    )?,)*
                })
            }

            #[inline]
            fn put_fields(
                &self,
                #[allow(unused_variables, reason = "some have no fields")]
                fields: &mut crate::composite::FieldWriter<'_, '_>,
            ) {
                $(fields.put::<$type>(
                    &self.$field,
                    crate::composite::composites!(@default $($default)?),
                );)*
            }
        }

        impl $(<$lt>)? Default for $name $(<$lt>)? {
            /// The composite of which only the fields that must be there are to be filled in.
            fn default() -> Self {
                Self { $($field: crate::composite::composites!(@or_default $($default)?),)* }
            }
        }

        impl<$a> crate::field::FieldValue<$a> for $name $(<$lt>)? {
            fn read(
                cursor: &mut crate::reader::ValueCursor<$a>,
                levels: usize,
            ) -> Result<Self, crate::error::DecodeError> {
                crate::composite::read_described(cursor, levels)
            }

            fn put(&self, out: &mut Vec<u8>) {
                crate::composite::Composite::put_list(self, out);
            }
        }

        impl $(<$lt>)? $name $(<$lt>)? {
            /// Appends the composite.
            #[inline]
            pub fn encode(&self, out: &mut Vec<u8>) {
                crate::composite::Composite::put_list(self, out);
            }
        }
    )*};
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (@or_default) => { Default::default() };
    (@or_default $default:expr) => { $default };
}

/// Any of several composites, by their descriptors, as an enum.
macro_rules! any_composite {
    ($(#[$doc:meta])* $name:ident<$a:lifetime> { $($(#[$of_value:meta])* $value:ident($type:ty),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name<$a> { $($(#[$of_value])* $value($type),)* }

        impl<$a> $name<$a> {
            /// Reads the composite that this descriptor stands in front of; `None` if it is none of these.
            #[inline]
            pub(crate) fn read_of(
                descriptor: crate::value::Descriptor<'_>,
                cursor: &mut crate::reader::ValueCursor<$a>,
                levels: usize,
            ) -> Option<Result<Self, crate::error::DecodeError>> {
                use crate::composite::Composite as _;
                let code = match descriptor {
                    crate::value::Descriptor::Code(code) => code,
                    crate::value::Descriptor::Symbol(name) => {
                        match name { $(name if name == <$type>::NAME => <$type>::CODE,)* _ => return None }
                    }
                };
                $(if code == <$type>::CODE {
                    return Some(<$type>::read_list(cursor, levels).map(Self::$value));
                })*
                None
            }

            /// Appends the composite.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $(Self::$value(it) => crate::composite::Composite::put_list(it, out),)* }
            }
        }
    };
}

pub(crate) use {any_composite, composites};

/// Reads a composite of which only one kind may stand there.
pub(crate) fn read_described<'a, T: Composite<'a>>(
    cursor: &mut ValueCursor<'a>,
    levels: usize,
) -> Result<T, DecodeError> {
    let is_it = match read_descriptor(cursor)? {
        Descriptor::Code(code) => code == T::CODE,
        Descriptor::Symbol(name) => name == T::NAME,
    };
    if is_it { T::read_list(cursor, levels) } else { Err(DecodeError::FieldType) }
}
