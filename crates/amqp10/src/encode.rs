//! Values to bytes, each in the shortest form its type has.

use crate::code;
use crate::value::{Descriptor, ListRef, MapRef, ValueRef};

/// The bytes of a list or map in front of its items, in the longer form: constructor, size, count.
const LONG_HEADER_BYTES: usize = 9;

/// The bytes of a list or map in front of its items, in the shorter form.
const SHORT_HEADER_BYTES: usize = 3;

/// The items of a list or map that is being written.
#[derive(Debug)]
pub struct Items<'o> {
    out: &'o mut Vec<u8>,
    n_items: u32,
}

impl Items<'_> {
    /// Appends a value.
    pub fn put(&mut self, value: ValueRef<'_>) {
        self.n_items += 1;
        value.encode(self.out);
    }

    /// Appends a value, or a null for none.
    pub fn put_option(&mut self, value: Option<ValueRef<'_>>) {
        self.put(value.unwrap_or(ValueRef::Null));
    }

    /// Appends a key and its value, the key as a symbol: annotations have no others.
    pub fn put_symbol(&mut self, key: &str, value: ValueRef<'_>) {
        self.put(ValueRef::Symbol(key));
        self.put(value);
    }

    /// Appends the keys and values of a map that was read, as they are.
    pub fn put_entries(&mut self, map: MapRef<'_>) {
        self.n_items += len_u32(map.0.n_items);
        self.out.extend_from_slice(map.0.items);
    }

    /// Appends what `put` appends, as one item.
    #[inline]
    pub(crate) fn put_with<T>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.n_items += 1;
        put(self.out)
    }

    /// Appends a list of what `items` puts into it.
    pub fn put_list(&mut self, items: impl FnOnce(&mut Items<'_>)) {
        self.n_items += 1;
        put_list(self.out, items);
    }

    /// Appends a map of what `items` puts into it, keys and values in turn.
    pub fn put_map(&mut self, items: impl FnOnce(&mut Items<'_>)) {
        self.n_items += 1;
        put_map(self.out, items);
    }

    /// Appends an array of strings.
    pub fn put_strings<T: AsRef<str>>(&mut self, strings: impl IntoIterator<Item = T>) {
        self.put_array(code::STR32, strings, |out, text| {
            put_sized(out, |out| out.extend_from_slice(text.as_ref().as_bytes()));
        });
    }

    /// Appends an array of maps: for each element what `items` puts in.
    pub fn put_maps<T>(
        &mut self,
        elements: impl IntoIterator<Item = T>,
        mut items: impl FnMut(&mut Items<'_>, T),
    ) {
        self.put_array(code::MAP32, elements, |out, element| {
            put_sized(out, |out| put_number_of(out, |map| items(map, element)));
        });
    }

    /// Appends an array whose elements have this constructor, each appended by `put`.
    fn put_array<T>(
        &mut self,
        constructor: u8,
        elements: impl IntoIterator<Item = T>,
        mut put: impl FnMut(&mut Vec<u8>, T),
    ) {
        self.n_items += 1;
        self.out.push(code::ARRAY32);
        put_sized(self.out, |out| {
            put_number_of(out, |array| {
                array.out.push(constructor);
                for element in elements {
                    array.n_items += 1;
                    put(array.out, element);
                }
            });
        });
    }
}

/// Appends what `content` appends, behind its length in four bytes.
fn put_sized(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out);
    let n_bytes = len_u32(out.len() - at - 4);
    put_header(out, at, &n_bytes.to_be_bytes());
}

/// Appends what `items` puts in, behind its number in four bytes.
fn put_number_of(out: &mut Vec<u8>, items: impl FnOnce(&mut Items<'_>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut written = Items { out, n_items: 0 };
    items(&mut written);
    let n_items = written.n_items;
    put_header(out, at, &n_items.to_be_bytes());
}

/// Appends a list of what `items` puts into it.
pub fn put_list(out: &mut Vec<u8>, items: impl FnOnce(&mut Items<'_>)) {
    put_items(out, [code::LIST8, code::LIST32], items);
}

/// Appends a map of what `items` puts into it, keys and values in turn.
pub fn put_map(out: &mut Vec<u8>, items: impl FnOnce(&mut Items<'_>)) {
    put_items(out, [code::MAP8, code::MAP32], items);
}

/// Appends an array of symbols, in the shorter form if they fit.
pub(crate) fn put_symbol_array<'s, I: Iterator<Item = &'s str>>(
    out: &mut Vec<u8>,
    symbols: impl Fn() -> I,
) {
    let n_symbols = symbols().count();
    // Behind the size: the count, the constructor, and a length in front of each symbol.
    let size = symbols().map(|symbol| 1 + symbol.len()).sum::<usize>() + 2;
    match (u8::try_from(size), u8::try_from(n_symbols)) {
        (Ok(size), Ok(n)) => {
            out.extend_from_slice(&[code::ARRAY8, size, n, code::SYMBOL8]);
            for symbol in symbols() {
                out.push(u8::try_from(symbol.len()).unwrap_or(u8::MAX));
                out.extend_from_slice(symbol.as_bytes());
            }
        }
        _ => {
            let mut items = Items { out, n_items: 0 };
            items.put_array(code::SYMBOL32, symbols(), |out, symbol| {
                put_sized(out, |out| out.extend_from_slice(symbol.as_bytes()));
            });
        }
    }
}

/// Appends the descriptor of a value of the specification's, which is to be appended next.
pub fn put_described(out: &mut Vec<u8>, descriptor: u64) {
    out.push(code::DESCRIBED);
    ValueRef::U64(descriptor).encode(out);
}

impl ValueRef<'_> {
    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Null => out.push(code::NULL),
            Self::Bool(is_true) => out.push(if is_true { code::TRUE } else { code::FALSE }),
            Self::U8(n) => out.extend_from_slice(&[code::U8, n]),
            Self::U16(n) => put_fixed(out, code::U16, n.to_be_bytes()),
            Self::U32(n) => put_u32(out, n),
            Self::U64(n) => put_u64(out, n),
            Self::I8(n) => put_fixed(out, code::I8, n.to_be_bytes()),
            Self::I16(n) => put_fixed(out, code::I16, n.to_be_bytes()),
            Self::I32(n) => match i8::try_from(n) {
                Ok(small) => put_fixed(out, code::I32_SMALL, small.to_be_bytes()),
                Err(_) => put_fixed(out, code::I32, n.to_be_bytes()),
            },
            Self::I64(n) => match i8::try_from(n) {
                Ok(small) => put_fixed(out, code::I64_SMALL, small.to_be_bytes()),
                Err(_) => put_fixed(out, code::I64, n.to_be_bytes()),
            },
            Self::F32(x) => put_fixed(out, code::F32, x.to_be_bytes()),
            Self::F64(x) => put_fixed(out, code::F64, x.to_be_bytes()),
            Self::Decimal32(bytes) => put_fixed(out, code::DECIMAL32, bytes),
            Self::Decimal64(bytes) => put_fixed(out, code::DECIMAL64, bytes),
            Self::Decimal128(bytes) => put_fixed(out, code::DECIMAL128, bytes),
            Self::Char(c) => put_fixed(out, code::CHAR, u32::from(c).to_be_bytes()),
            Self::Timestamp(ms) => put_fixed(out, code::TIMESTAMP, ms.to_be_bytes()),
            Self::Uuid(bytes) => put_fixed(out, code::UUID, bytes),
            Self::Binary(bytes) => put_counted(out, [code::BINARY8, code::BINARY32], bytes),
            Self::Str(text) => put_counted(out, [code::STR8, code::STR32], text.as_bytes()),
            Self::Symbol(text) => {
                put_counted(out, [code::SYMBOL8, code::SYMBOL32], text.as_bytes());
            }
            Self::List(list) => put_read_items(out, [code::LIST8, code::LIST32], list),
            Self::Map(map) => put_read_items(out, [code::MAP8, code::MAP32], map.0),
            Self::Array(array) => {
                let codes = [code::ARRAY8, code::ARRAY32];
                put_content(out, codes, len_u32(array.n_elements), array.content);
            }
            Self::Described(described) => {
                out.push(code::DESCRIBED);
                match described.descriptor {
                    Descriptor::Code(code) => put_u64(out, code),
                    Descriptor::Symbol(name) => ValueRef::Symbol(name).encode(out),
                }
                out.extend_from_slice(described.value);
            }
        }
    }
}

fn put_fixed<const N: usize>(out: &mut Vec<u8>, code: u8, bytes: [u8; N]) {
    out.push(code);
    out.extend_from_slice(&bytes);
}

fn put_u32(out: &mut Vec<u8>, n: u32) {
    match u8::try_from(n) {
        Ok(0) => out.push(code::U32_ZERO),
        Ok(small) => out.extend_from_slice(&[code::U32_SMALL, small]),
        Err(_) => put_fixed(out, code::U32, n.to_be_bytes()),
    }
}

fn put_u64(out: &mut Vec<u8>, n: u64) {
    match u8::try_from(n) {
        Ok(0) => out.push(code::U64_ZERO),
        Ok(small) => out.extend_from_slice(&[code::U64_SMALL, small]),
        Err(_) => put_fixed(out, code::U64, n.to_be_bytes()),
    }
}

/// Appends bytes behind their length.
fn put_counted(out: &mut Vec<u8>, [short, long]: [u8; 2], bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(n) => out.extend_from_slice(&[short, n]),
        Err(_) => put_fixed(out, long, len_u32(bytes.len()).to_be_bytes()),
    }
    out.extend_from_slice(bytes);
}

/// Appends a list or map that was read; an empty list is its constructor alone.
fn put_read_items(out: &mut Vec<u8>, codes: [u8; 2], list: ListRef<'_>) {
    if list.n_items == 0 && codes == [code::LIST8, code::LIST32] {
        out.push(code::LIST_EMPTY);
    } else {
        put_content(out, codes, len_u32(list.n_items), list.items);
    }
}

/// Appends size, count and content.
fn put_content(out: &mut Vec<u8>, [short, long]: [u8; 2], n: u32, content: &[u8]) {
    match (u8::try_from(content.len() + 1), u8::try_from(n)) {
        (Ok(size), Ok(n)) => out.extend_from_slice(&[short, size, n]),
        _ => {
            put_fixed(out, long, len_u32(content.len() + 4).to_be_bytes());
            out.extend_from_slice(&n.to_be_bytes());
        }
    }
    out.extend_from_slice(content);
}

/// Appends items behind room for the longer header, and moves them if the shorter one will do.
fn put_items(out: &mut Vec<u8>, codes: [u8; 2], items: impl FnOnce(&mut Items<'_>)) {
    let at = out.len();
    out.extend_from_slice(&[0; LONG_HEADER_BYTES]);
    let mut written = Items { out, n_items: 0 };
    items(&mut written);
    let n_items = written.n_items;
    let n_bytes = out.len() - at - LONG_HEADER_BYTES;
    if n_items == 0 && codes == [code::LIST8, code::LIST32] {
        out.truncate(at);
        out.push(code::LIST_EMPTY);
    } else if let (Ok(size), Ok(n)) = (u8::try_from(n_bytes + 1), u8::try_from(n_items)) {
        out.copy_within(at + LONG_HEADER_BYTES.., at + SHORT_HEADER_BYTES);
        out.truncate(at + SHORT_HEADER_BYTES + n_bytes);
        put_header(out, at, &[codes[0], size, n]);
    } else {
        let [s0, s1, s2, s3] = len_u32(n_bytes + 4).to_be_bytes();
        let [n0, n1, n2, n3] = n_items.to_be_bytes();
        put_header(out, at, &[codes[1], s0, s1, s2, s3, n0, n1, n2, n3]);
    }
}

fn put_header(out: &mut [u8], at: usize, header: &[u8]) {
    if let Some(slot) = out.get_mut(at..at + header.len()) {
        slot.copy_from_slice(header);
    }
}

fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("what is encoded is far below 4 GiB: it fits the limits of messages")
}
