//! Random tables, properties and methods.

use amqp091::content::Properties;
use amqp091::method::{FieldKind, MethodId};
use amqp091::table::Decimal;
use amqp091::{ShortString, Table, Value};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// A short string of UTF-8, rarely a long one.
pub(crate) fn text() -> impl Strategy<Value = ShortString> {
    prop_oneof![9 => "\\PC{0,12}", 1 => "[a-zé]{0,254}"]
        .prop_map(|text| ShortString::truncated(&text))
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<(u8, u32)>().prop_map(|(scale, value)| Value::Decimal(Decimal { scale, value })),
        vec(any::<u8>(), 0..40).prop_map(Value::LongString),
        vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        any::<u64>().prop_map(Value::Timestamp),
        Just(Value::Void),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(text(), inner, 0..4)
                .prop_map(|entries| Value::Table(entries.into_iter().collect())),
        ]
    })
}

/// A table whose names are sorted and unique, at every level.
pub(crate) fn table() -> impl Strategy<Value = Table> {
    btree_map(text(), value(), 0..5).prop_map(|entries| entries.into_iter().collect())
}

/// Properties of which any may be absent.
pub(crate) fn properties() -> impl Strategy<Value = Properties> {
    let numbers = (option::of(any::<u8>()), option::of(any::<u8>()), option::of(any::<u64>()));
    (vec(option::of(text()), 10), option::of(table()), numbers).prop_map(
        |(texts, headers, (delivery_mode, priority, timestamp))| {
            let mut texts = texts.into_iter().flatten();
            Properties {
                content_type: texts.next(),
                content_encoding: texts.next(),
                headers,
                delivery_mode,
                priority,
                correlation_id: texts.next(),
                reply_to: texts.next(),
                expiration: texts.next(),
                message_id: texts.next(),
                timestamp,
                kind: texts.next(),
                user_id: texts.next(),
                app_id: texts.next(),
                cluster_id: texts.next(),
            }
        },
    )
}

/// One field in wire form; bits are packed when the payload is put together.
#[derive(Clone, Debug)]
pub(crate) enum FieldBytes {
    Bit(bool),
    Whole(Vec<u8>),
}

fn field(kind: FieldKind) -> BoxedStrategy<FieldBytes> {
    let short = |bytes: &[u8]| [&[u8::try_from(bytes.len()).unwrap_or(0)], bytes].concat();
    let long =
        |bytes: &[u8]| [&u32::try_from(bytes.len()).unwrap_or(0).to_be_bytes()[..], bytes].concat();
    let whole = match kind {
        FieldKind::Bit => return any::<bool>().prop_map(FieldBytes::Bit).boxed(),
        FieldKind::Octet => vec(any::<u8>(), 1).boxed(),
        FieldKind::Short => vec(any::<u8>(), 2).boxed(),
        FieldKind::Long => vec(any::<u8>(), 4).boxed(),
        FieldKind::LongLong => vec(any::<u8>(), 8).boxed(),
        FieldKind::ShortStr | FieldKind::ShortBytes => {
            text().prop_map(move |text| short(text.as_bytes())).boxed()
        }
        FieldKind::LongStr => vec(any::<u8>(), 0..300).prop_map(move |bytes| long(&bytes)).boxed(),
        FieldKind::Table => table().prop_map(move |table| long(&table.to_bytes())).boxed(),
    };
    whole.prop_map(FieldBytes::Whole).boxed()
}

/// Id and fields, written without the help of the codec.
pub(crate) fn payload_of(id: MethodId, fields: &[FieldBytes]) -> Vec<u8> {
    let mut payload = [id.class.to_be_bytes(), id.method.to_be_bytes()].concat();
    let mut n_bits = 0;
    for field in fields {
        match field {
            FieldBytes::Bit(bit) => {
                if n_bits == 0 {
                    payload.push(0);
                }
                if let Some(octet) = payload.last_mut() {
                    *octet |= u8::from(*bit) << n_bits;
                }
                n_bits += 1;
            }
            FieldBytes::Whole(bytes) => {
                n_bits = 0;
                payload.extend_from_slice(bytes);
            }
        }
    }
    payload
}

/// The bytes of a field that is empty or zero.
pub(crate) fn zero(kind: FieldKind) -> FieldBytes {
    let n_bytes = match kind {
        FieldKind::Bit => return FieldBytes::Bit(false),
        FieldKind::Octet | FieldKind::ShortStr | FieldKind::ShortBytes => 1,
        FieldKind::Short => 2,
        FieldKind::Long | FieldKind::LongStr | FieldKind::Table => 4,
        FieldKind::LongLong => 8,
    };
    FieldBytes::Whole(vec![0; n_bytes])
}

/// The payload of a method with random fields; those `is_zero` picks by name are left empty.
pub(crate) fn method_payload(
    id: MethodId,
    is_zero: fn(&str) -> bool,
) -> impl Strategy<Value = Vec<u8>> {
    let fields: Vec<BoxedStrategy<FieldBytes>> = id
        .fields()
        .unwrap_or_default()
        .iter()
        .map(|&(name, kind)| if is_zero(name) { Just(zero(kind)).boxed() } else { field(kind) })
        .collect();
    fields.prop_map(move |fields| payload_of(id, &fields))
}

/// A payload as a frame.
pub(crate) fn frame_of(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&[kind], &channel.to_be_bytes()[..], &size.to_be_bytes()[..], payload, &[0xCE]].concat()
}
