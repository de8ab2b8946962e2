//! Values of headers, both ways.

use amqp10::Items;

/// Text of headers up to this many bytes becomes a string if it is UTF-8; RabbitMQ looks at no longer one.
const TEXT_BYTES_MAX: usize = 4096;

/// Puts a header's value into a list or map.
pub(crate) fn put_amqp10(items: &mut Items<'_>, value: amqp091::ValueRef<'_>) {
    use amqp10::ValueRef as To;
    use amqp091::ValueRef as From;
    items.put(match value {
        From::Bool(b) => To::Bool(b),
        From::I8(n) => To::I8(n),
        From::U8(n) => To::U8(n),
        From::I16(n) => To::I16(n),
        From::U16(n) => To::U16(n),
        From::I32(n) => To::I32(n),
        From::U32(n) => To::U32(n),
        From::I64(n) => To::I64(n),
        From::F32(n) => To::F32(n),
        From::F64(n) => To::F64(n),
        // COMPAT: RabbitMQ has no conversion for these, and fails.
        From::Decimal(decimal) => To::F64(as_f64(decimal)),
        From::LongString(bytes) => text(bytes).map_or(To::Binary(bytes), To::Str),
        From::Timestamp(seconds) => To::Timestamp(milliseconds(seconds).unwrap_or(i64::MAX)),
        From::Void => To::Null,
        From::Bytes(bytes) => To::Binary(bytes),
        From::Array(array) => {
            return items.put_list(|list| array.iter().for_each(|value| put_amqp10(list, value)));
        }
        From::Table(table) => {
            return items.put_map(|map| {
                for (name, value) in table {
                    put_key(map, name);
                    put_amqp10(map, value);
                }
            });
        }
    });
}

/// Puts in a name that becomes a symbol. Symbols are ASCII; other names become strings.
pub(crate) fn put_key(map: &mut Items<'_>, name: &[u8]) {
    let text = String::from_utf8_lossy(name);
    let is_symbol = text.is_ascii();
    map.put(if is_symbol { amqp10::ValueRef::Symbol(&text) } else { amqp10::ValueRef::Str(&text) });
}

/// The text, if it becomes a string.
fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > TEXT_BYTES_MAX || memchr::memchr(0, bytes).is_some() {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

fn as_f64(decimal: amqp091::table::Decimal) -> f64 {
    f64::from(decimal.value) / 10_f64.powi(i32::from(decimal.scale))
}

/// Seconds as milliseconds, unless they are too many.
pub(crate) fn milliseconds(seconds: u64) -> Option<i64> {
    i64::try_from(seconds).ok()?.checked_mul(1000)
}

/// Milliseconds as seconds. COMPAT: a time before 1970 comes out as a very late one, as with RabbitMQ.
pub(crate) const fn seconds(milliseconds: i64) -> u64 {
    (milliseconds / 1000).cast_unsigned()
}

/// Whether AMQP 0-9-1 has a form for the value. COMPAT: decimal numbers are left out, as with RabbitMQ.
pub(crate) const fn has_amqp091_form(value: amqp10::ValueRef<'_>) -> bool {
    use amqp10::ValueRef as From;
    !matches!(
        value,
        From::Decimal32(_) | From::Decimal64(_) | From::Decimal128(_) | From::Described(_)
    )
}

/// The arguments that a map of AMQP 1.0 holds; `None` if a key is no text, or a value has no form in AMQP
/// 0-9-1.
#[must_use]
pub fn arguments_of(map: amqp10::MapRef<'_>) -> Option<amqp091::Table> {
    let mut entries = Vec::new();
    for (name, value) in map.iter() {
        let name = crate::annotations::text(name)?;
        let n_bytes = entries.len();
        put_entry(&mut entries, name, value);
        if entries.len() == n_bytes {
            return None;
        }
    }
    amqp091::TableRef::parse(&entries).ok()?.to_owned().ok()
}

/// Puts arguments in as a map with strings as keys.
pub fn put_arguments(items: &mut Items<'_>, arguments: &amqp091::Table) {
    let encoded = arguments.to_bytes();
    let table = amqp091::TableRef::parse(&encoded).unwrap_or_default();
    items.put_map(|map| {
        for (name, value) in table {
            map.put(amqp10::ValueRef::Str(&String::from_utf8_lossy(name)));
            put_amqp10(map, value);
        }
    });
}

/// Appends an entry of a table, if its name and value have a form in AMQP 0-9-1.
pub(crate) fn put_entry(out: &mut Vec<u8>, name: &str, value: amqp10::ValueRef<'_>) {
    if name.len() <= amqp091::ShortString::LEN_MAX && has_amqp091_form(value) {
        amqp091::table::put_name(out, name.as_bytes());
        put_amqp091(out, value);
    }
}

/// Appends a value that has a form in AMQP 0-9-1, as tag and value.
pub(crate) fn put_amqp091(out: &mut Vec<u8>, value: amqp10::ValueRef<'_>) {
    use amqp10::ValueRef as From;
    use amqp091::ValueRef as To;
    let mut utf8 = [0; 4];
    let converted = match value {
        From::Bool(b) => To::Bool(b),
        From::U8(n) => To::U8(n),
        From::U16(n) => To::U16(n),
        From::U32(n) => To::U32(n),
        // COMPAT: the same bits, as with RabbitMQ.
        From::U64(n) => To::I64(n.cast_signed()),
        From::I8(n) => To::I8(n),
        From::I16(n) => To::I16(n),
        From::I32(n) => To::I32(n),
        From::I64(n) => To::I64(n),
        From::F32(n) => To::F32(n),
        From::F64(n) => To::F64(n),
        From::Timestamp(ms) => To::Timestamp(seconds(ms)),
        From::Binary(bytes) => To::LongString(bytes),
        From::Str(text) | From::Symbol(text) => To::LongString(text.as_bytes()),
        // COMPAT: RabbitMQ has no conversion for these two, and fails.
        From::Char(c) => To::LongString(c.encode_utf8(&mut utf8).as_bytes()),
        From::Uuid(uuid) => return To::LongString(&crate::ids::urn_of(uuid)).encode(out),
        From::List(list) => return put_elements(out, list.iter()),
        // COMPAT: elements may take no bytes here, and nine in RabbitMQ's conversion: they are not as many.
        From::Array(array) => return put_elements(out, array.iter().take(array.n_bytes())),
        From::Map(map) => {
            return amqp091::table::put_table(out, |out| {
                for (name, value) in map.iter() {
                    if let Some(name) = crate::annotations::text(name) {
                        put_entry(out, name, value);
                    }
                }
            });
        }
        From::Null
        | From::Decimal32(_)
        | From::Decimal64(_)
        | From::Decimal128(_)
        | From::Described(_) => To::Void,
    };
    converted.encode(out);
}

fn put_elements<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = amqp10::ValueRef<'a>>) {
    amqp091::table::put_array(out, |out| {
        values.filter(|value| has_amqp091_form(*value)).for_each(|value| put_amqp091(out, value));
    });
}
