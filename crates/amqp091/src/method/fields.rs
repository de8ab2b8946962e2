//! Fields of methods one after the other; bits share octets with the bits next to them (0-9-1
//! 4.2.5.2).

use crate::error::FieldError;
use crate::table::TableRef;
use crate::wire::{self, WireCursor};

/// Reads the fields of one method.
#[derive(Debug)]
pub(super) struct FieldReader<'a> {
    reader: WireCursor<'a>,
    bits: u8,
    n_bits_left: u8,
}

impl<'a> FieldReader<'a> {
    #[inline]
    pub(super) const fn new(reader: WireCursor<'a>) -> Self {
        Self { reader, bits: 0, n_bits_left: 0 }
    }

    #[inline]
    pub(super) fn bit(&mut self) -> Result<bool, FieldError> {
        if self.n_bits_left == 0 {
            self.bits = self.reader.u8()?;
            self.n_bits_left = 8;
        }
        let bit = self.bits & 1 != 0;
        self.bits >>= 1;
        self.n_bits_left -= 1;
        Ok(bit)
    }

    #[inline]
    fn whole(&mut self) -> &mut WireCursor<'a> {
        self.n_bits_left = 0;
        &mut self.reader
    }

    #[inline]
    pub(super) fn octet(&mut self) -> Result<u8, FieldError> {
        self.whole().u8()
    }

    #[inline]
    pub(super) fn short(&mut self) -> Result<u16, FieldError> {
        self.whole().u16()
    }

    #[inline]
    pub(super) fn long(&mut self) -> Result<u32, FieldError> {
        self.whole().u32()
    }

    #[inline]
    pub(super) fn longlong(&mut self) -> Result<u64, FieldError> {
        self.whole().u64()
    }

    /// A short string of a method without content. COMPAT: RabbitMQ refuses it unless it is UTF-8.
    /// Test: `errors_name_the_method_and_the_reply_code`.
    #[inline]
    pub(super) fn shortstr(&mut self) -> Result<&'a [u8], FieldError> {
        let bytes = self.whole().short_str()?;
        if std::str::from_utf8(bytes).is_err() {
            return Err(FieldError::NotUtf8);
        }
        Ok(bytes)
    }

    /// A short string of a method with content. COMPAT: RabbitMQ takes any bytes here.
    /// Test: `routing_keys_of_publishes_may_be_any_bytes`.
    #[inline]
    pub(super) fn shortbytes(&mut self) -> Result<&'a [u8], FieldError> {
        self.whole().short_str()
    }

    #[inline]
    pub(super) fn longstr(&mut self) -> Result<&'a [u8], FieldError> {
        self.whole().long_str()
    }

    #[inline]
    pub(super) fn table(&mut self) -> Result<TableRef<'a>, FieldError> {
        TableRef::parse(self.whole().long_str()?)
    }

    #[inline]
    pub(super) const fn end(self) -> Result<(), FieldError> {
        if self.reader.is_empty() { Ok(()) } else { Err(FieldError::TrailingBytes) }
    }
}

/// Appends the fields of one method.
#[derive(Debug)]
pub(super) struct FieldWriter<'o> {
    out: &'o mut Vec<u8>,
    n_bits: u8,
}

impl<'o> FieldWriter<'o> {
    #[inline]
    pub(super) const fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, n_bits: 0 }
    }

    #[inline]
    pub(super) fn bit(&mut self, bit: bool) {
        if self.n_bits == 0 {
            self.out.push(0);
        }
        if let Some(octet) = self.out.last_mut() {
            *octet |= u8::from(bit) << self.n_bits;
        }
        self.n_bits = (self.n_bits + 1) % 8;
    }

    #[inline]
    fn whole(&mut self) -> &mut Vec<u8> {
        self.n_bits = 0;
        self.out
    }

    #[inline]
    pub(super) fn octet(&mut self, n: u8) {
        self.whole().push(n);
    }

    #[inline]
    pub(super) fn short(&mut self, n: u16) {
        self.whole().extend_from_slice(&n.to_be_bytes());
    }

    #[inline]
    pub(super) fn long(&mut self, n: u32) {
        self.whole().extend_from_slice(&n.to_be_bytes());
    }

    #[inline]
    pub(super) fn longlong(&mut self, n: u64) {
        self.whole().extend_from_slice(&n.to_be_bytes());
    }

    #[inline]
    pub(super) fn shortstr(&mut self, bytes: &[u8]) {
        wire::put_short_bytes(self.whole(), bytes);
    }

    #[inline]
    pub(super) fn shortbytes(&mut self, bytes: &[u8]) {
        wire::put_short_bytes(self.whole(), bytes);
    }

    #[inline]
    pub(super) fn longstr(&mut self, bytes: &[u8]) {
        wire::put_long_str(self.whole(), bytes);
    }

    #[inline]
    pub(super) fn table(&mut self, table: TableRef<'_>) {
        table.encode(self.whole());
    }
}
