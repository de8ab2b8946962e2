//! Values that hold values: lists, maps, arrays, and values with a descriptor.

use super::{DEPTH_MAX, ValueRef};
use crate::code;
use crate::error::DecodeError;
use crate::reader::{ValueCursor, Width};

/// The most elements that a value's arrays have together whose elements have no bytes of their own (nulls,
/// zeros): very many can be claimed in a few bytes, and whoever reads them works them off one by one.
pub(super) const EMPTY_ELEMENTS_MAX: usize = 1 << 16;

/// A list: its values, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRef<'a> {
    pub(crate) n_items: usize,
    pub(crate) items: &'a [u8],
}

impl<'a> ListRef<'a> {
    /// The list without items.
    pub const EMPTY: ListRef<'static> = ListRef { n_items: 0, items: &[] };

    #[inline]
    pub(crate) fn read(reader: &mut ValueCursor<'a>, width: Width) -> Result<Self, DecodeError> {
        let mut content = ValueCursor(reader.counted(width)?);
        let n_items = content.length(width)?;
        // Each item has a constructor at least.
        if n_items > content.0.len() {
            return Err(DecodeError::Count);
        }
        Ok(Self { n_items, items: content.0 })
    }

    /// The number of items.
    pub const fn len(&self) -> usize {
        self.n_items
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.n_items == 0
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let mut reader = ValueCursor(self.items);
        (0..self.n_items).map_while(move |_| ValueRef::read(&mut reader, DEPTH_MAX).ok())
    }
}

/// A map: keys and values, in the order they came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRef<'a>(pub(crate) ListRef<'a>);

impl<'a> MapRef<'a> {
    /// The map without entries.
    pub const EMPTY: MapRef<'static> = MapRef(ListRef::EMPTY);

    /// The map that encoded bytes begin with; without entries if they begin with anything else.
    pub fn decode(encoded: &'a [u8]) -> Self {
        let Ok((ValueRef::Map(map), _)) = ValueRef::decode(encoded) else { return MapRef::EMPTY };
        map
    }

    #[inline]
    pub(crate) fn read(reader: &mut ValueCursor<'a>, width: Width) -> Result<Self, DecodeError> {
        let items = ListRef::read(reader, width)?;
        if items.n_items % 2 == 0 { Ok(Self(items)) } else { Err(DecodeError::Count) }
    }

    /// The number of entries.
    pub const fn len(&self) -> usize {
        self.0.n_items / 2
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.n_items == 0
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (ValueRef<'a>, ValueRef<'a>)> + use<'a> {
        let mut items = self.0.iter();
        std::iter::from_fn(move || Some((items.next()?, items.next()?)))
    }

    /// The first value under a key that is this symbol or string.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<ValueRef<'a>> {
        let is_it = |found: &ValueRef<'_>| matches!(found, ValueRef::Str(text) | ValueRef::Symbol(text) if *text == key);
        self.iter().find(|(found, _)| is_it(found)).map(|(_, value)| value)
    }
}

impl<'a> MapRef<'a> {
    /// The first value under a string or symbol of these bytes, in a map that need not be valid: an item that
    /// cannot be read ends the search.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<ValueRef<'a>> {
        ValueRef::read(&mut self.value_of(key)?, DEPTH_MAX).ok()
    }

    fn value_of(&self, key: &[u8]) -> Option<ValueCursor<'a>> {
        let mut reader = ValueCursor(self.0.items);
        for _ in 0..self.len() {
            let is_it = if let Some(found) = short_text(&mut reader) {
                found == key
            } else {
                let found = ValueRef::read(&mut reader, DEPTH_MAX).ok()?;
                matches!(found, ValueRef::Str(found) | ValueRef::Symbol(found) if found.as_bytes() == key)
            };
            if is_it {
                return Some(reader);
            }
            if !skip_plain(&mut reader).ok()? {
                ValueRef::read(&mut reader, DEPTH_MAX).ok()?;
            }
        }
        None
    }
}

/// Takes the bytes of a short string or symbol; `None`, and nothing taken, if the next item is another.
#[inline]
fn short_text<'a>(reader: &mut ValueCursor<'a>) -> Option<&'a [u8]> {
    let [code::STR8 | code::SYMBOL8, n, rest @ ..] = reader.0 else { return None };
    let (text, rest) = rest.split_at_checked(usize::from(*n))?;
    *reader = ValueCursor(rest);
    Some(text)
}

/// An array: elements of one type, whose constructor stands in front of them once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayRef<'a> {
    pub(crate) n_elements: usize,
    /// The constructor, a descriptor in front of it if the elements have one, and the elements.
    pub(crate) content: &'a [u8],
}

impl<'a> ArrayRef<'a> {
    pub(crate) fn read(reader: &mut ValueCursor<'a>, width: Width) -> Result<Self, DecodeError> {
        let mut content = ValueCursor(reader.counted(width)?);
        let n_elements = content.length(width)?;
        Ok(Self { n_elements, content: content.0 })
    }

    /// The number of elements.
    pub const fn len(&self) -> usize {
        self.n_elements
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.n_elements == 0
    }

    /// The bytes of the elements, and of the constructor in front of them.
    pub const fn n_bytes(&self) -> usize {
        self.content.len()
    }

    /// The descriptor that each element has.
    #[must_use]
    pub fn descriptor(&self) -> Option<Descriptor<'a>> {
        self.elements().ok()?.descriptor
    }

    /// The elements in order, without their descriptors.
    pub fn iter(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let mut elements = self.elements().ok();
        (0..self.n_elements).map_while(move |_| {
            let Elements { code, reader, .. } = elements.as_mut()?;
            ValueRef::read_as(*code, reader).ok()
        })
    }

    fn elements(&self) -> Result<Elements<'a>, DecodeError> {
        let mut reader = ValueCursor(self.content);
        let first = reader.u8()?;
        if first != code::DESCRIBED {
            return Ok(Elements { descriptor: None, code: first, reader });
        }
        let descriptor = Some(Descriptor::read(&mut reader)?);
        let code = reader.u8()?;
        Ok(Elements { descriptor, code, reader })
    }

    fn validate(&self, levels: usize, n_empty_left: &mut usize) -> Result<(), DecodeError> {
        let Elements { code, mut reader, .. } = self.elements()?;
        if code >> 4 == 0x4 {
            *n_empty_left =
                n_empty_left.checked_sub(self.n_elements).ok_or(DecodeError::TooManyElements)?;
        }
        for _ in 0..self.n_elements {
            validate(&ValueRef::read_as(code, &mut reader)?, levels, n_empty_left)?;
        }
        if reader.is_empty() { Ok(()) } else { Err(DecodeError::Count) }
    }
}

/// The content of an array: what all elements have, and the elements' bytes.
struct Elements<'a> {
    descriptor: Option<Descriptor<'a>>,
    /// The constructor.
    code: u8,
    reader: ValueCursor<'a>,
}

/// A value's descriptor: what it is, by number or by name (part 1, 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor<'a> {
    /// Domain and id; those of the specification have domain 0.
    Code(u64),
    /// `domain:name`.
    Symbol(&'a str),
}

impl<'a> Descriptor<'a> {
    pub(crate) fn read(reader: &mut ValueCursor<'a>) -> Result<Self, DecodeError> {
        let code = reader.u8()?;
        match ValueRef::read_as(code, reader) {
            Ok(ValueRef::U64(code)) => Ok(Self::Code(code)),
            Ok(ValueRef::Symbol(name)) => Ok(Self::Symbol(name)),
            Ok(_) => Err(DecodeError::Descriptor),
            Err(error) => Err(error),
        }
    }
}

/// A value with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescribedRef<'a> {
    /// The descriptor.
    pub descriptor: Descriptor<'a>,
    pub(crate) value: &'a [u8],
}

impl<'a> DescribedRef<'a> {
    pub(crate) fn read(reader: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        let levels = levels.checked_sub(1).ok_or(DecodeError::TooDeep)?;
        let descriptor = Descriptor::read(reader)?;
        let before = *reader;
        ValueRef::read(reader, levels)?;
        Ok(Self { descriptor, value: reader.read_since(before) })
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> ValueRef<'a> {
        ValueRef::read(&mut ValueCursor(self.value), DEPTH_MAX).unwrap_or(ValueRef::Null)
    }
}

/// Validates what is in a value.
pub(super) fn validate(
    value: &ValueRef<'_>,
    levels: usize,
    n_empty_left: &mut usize,
) -> Result<(), DecodeError> {
    let inner = levels.checked_sub(1).ok_or(DecodeError::TooDeep);
    if let ValueRef::List(list) | ValueRef::Map(MapRef(list)) = value {
        validate_items(list, inner?, n_empty_left)
    } else if let ValueRef::Array(array) = value {
        array.validate(inner?, n_empty_left)
    } else if let ValueRef::Described(described) = value {
        let mut reader = ValueCursor(described.value);
        ValueRef::read_within(&mut reader, inner?, n_empty_left).map(|_| ())
    } else {
        Ok(())
    }
}

fn validate_items(
    list: &ListRef<'_>,
    levels: usize,
    n_empty_left: &mut usize,
) -> Result<(), DecodeError> {
    let mut reader = ValueCursor(list.items);
    for _ in 0..list.n_items {
        if !skip_plain(&mut reader)? {
            ValueRef::read_within(&mut reader, levels, n_empty_left)?;
        }
    }
    if reader.is_empty() { Ok(()) } else { Err(DecodeError::Count) }
}

/// Skips a value that holds no others, as most items do not; `false` if the next item may be another.
#[inline]
fn skip_plain(reader: &mut ValueCursor<'_>) -> Result<bool, DecodeError> {
    let [code, rest @ ..] = reader.0 else { return Ok(false) };
    let n_bytes = match *code {
        code::NULL | code::TRUE | code::FALSE | code::U32_ZERO | code::U64_ZERO => 0,
        code::U8 | code::U32_SMALL | code::U64_SMALL | code::I32_SMALL | code::I64_SMALL => 1,
        code::U32 | code::I32 => 4,
        code::U64 | code::I64 | code::TIMESTAMP => 8,
        code::UUID => 16,
        _ => return skip_short_text(reader),
    };
    let (_, rest) = rest.split_at_checked(n_bytes).ok_or(DecodeError::Truncated)?;
    *reader = ValueCursor(rest);
    Ok(true)
}

/// Skips a short string or symbol; `false` if the next item is another.
#[inline]
fn skip_short_text(reader: &mut ValueCursor<'_>) -> Result<bool, DecodeError> {
    let [code @ (code::STR8 | code::SYMBOL8), n, rest @ ..] = reader.0 else { return Ok(false) };
    let (text, rest) = rest.split_at_checked(usize::from(*n)).ok_or(DecodeError::Truncated)?;
    if !text.is_ascii() && (*code == code::SYMBOL8 || std::str::from_utf8(text).is_err()) {
        return Err(DecodeError::NotText);
    }
    *reader = ValueCursor(rest);
    Ok(true)
}
