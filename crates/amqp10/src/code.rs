//! Constructors: the byte in front of a value that says its type and width (part 1, 1.6). The upper four
//! bits tell how long a value is, whatever its type.
//!
//! ```text
//! 0x00 described   0x4_ nothing   0x5_ 1 byte   0x6_ 2   0x7_ 4   0x8_ 8   0x9_ 16 bytes
//! 0xA_ length:u8 bytes            0xB_ length:u32 bytes
//! 0xC_ size:u8 count:u8 items     0xD_ size:u32 count:u32 items        lists and maps
//! 0xE_ size:u8 count:u8 constructor elements    0xF_ the same with u32 arrays
//! ```

pub(crate) const DESCRIBED: u8 = 0x00;
pub(crate) const NULL: u8 = 0x40;
pub(crate) const TRUE: u8 = 0x41;
pub(crate) const FALSE: u8 = 0x42;
pub(crate) const U32_ZERO: u8 = 0x43;
pub(crate) const U64_ZERO: u8 = 0x44;
pub(crate) const LIST_EMPTY: u8 = 0x45;
pub(crate) const U8: u8 = 0x50;
pub(crate) const I8: u8 = 0x51;
pub(crate) const U32_SMALL: u8 = 0x52;
pub(crate) const U64_SMALL: u8 = 0x53;
pub(crate) const I32_SMALL: u8 = 0x54;
pub(crate) const I64_SMALL: u8 = 0x55;
pub(crate) const BOOL: u8 = 0x56;
pub(crate) const U16: u8 = 0x60;
pub(crate) const I16: u8 = 0x61;
pub(crate) const U32: u8 = 0x70;
pub(crate) const I32: u8 = 0x71;
pub(crate) const F32: u8 = 0x72;
pub(crate) const CHAR: u8 = 0x73;
pub(crate) const DECIMAL32: u8 = 0x74;
pub(crate) const U64: u8 = 0x80;
pub(crate) const I64: u8 = 0x81;
pub(crate) const F64: u8 = 0x82;
pub(crate) const TIMESTAMP: u8 = 0x83;
pub(crate) const DECIMAL64: u8 = 0x84;
pub(crate) const DECIMAL128: u8 = 0x94;
pub(crate) const UUID: u8 = 0x98;
pub(crate) const BINARY8: u8 = 0xA0;
pub(crate) const STR8: u8 = 0xA1;
pub(crate) const SYMBOL8: u8 = 0xA3;
pub(crate) const BINARY32: u8 = 0xB0;
pub(crate) const STR32: u8 = 0xB1;
pub(crate) const SYMBOL32: u8 = 0xB3;
pub(crate) const LIST8: u8 = 0xC0;
pub(crate) const MAP8: u8 = 0xC1;
pub(crate) const LIST32: u8 = 0xD0;
pub(crate) const MAP32: u8 = 0xD1;
pub(crate) const ARRAY8: u8 = 0xE0;
pub(crate) const ARRAY32: u8 = 0xF0;
