//! Values and sections of AMQP 1.0 against another implementation: what both read is the same, and what is
//! written here the other reads as it was.
//!
//! Known differences, of which inputs are passed over:
//! - A map with equal keys is invalid (part 1, 1.6.23): the other keeps one of them, here it stays as it came.
//! - Elements of an array with a descriptor (part 1, 1.4), or without bytes of their own, as nulls are (part 1,
//!   1.6.1): the other takes no such array.

use amqp10::{Descriptor, Header, MessageRef, Properties, Section, Sections, ValueRef};
use fe2o3_amqp_types::messaging as theirs;
use serde_amqp::described::Described;
use serde_amqp::primitives::{Array, OrderedMap};
use serde_amqp::{Value, from_slice};

/// The value at the front of any bytes.
pub(crate) fn value(input: &[u8]) {
    let Ok((value, n_bytes)) = ValueRef::decode(input) else { return };
    let Some(expected) = value_of(value) else { return };
    if let Ok(read) = from_slice::<Value>(input.get(..n_bytes).expect("as many as were read")) {
        assert_eq!(read, expected);
    }
    let mut written = Vec::new();
    value.encode(&mut written);
    assert_eq!(from_slice::<Value>(&written).ok(), Some(expected));
}

/// The sections of a message.
pub(crate) fn sections(input: &[u8]) {
    if MessageRef::parse(input).is_err() {
        return;
    }
    let mut rest = Sections::new(input);
    loop {
        let before = rest.rest();
        let Some(section) = rest.next() else { break };
        let section = section.expect("the message is valid");
        let (bytes, _) = before.split_at(before.len() - rest.rest().len());
        value(bytes);
        let mut written = Vec::new();
        section.encode(&mut written);
        match section {
            Section::Header(header) => {
                let expected = header_of(header);
                if let Ok(read) = from_slice::<theirs::Header>(bytes) {
                    assert_eq!(read, expected);
                }
                assert_eq!(from_slice(&written).ok(), Some(expected));
            }
            Section::Properties(properties) => {
                let Some(expected) = properties_of(properties) else { continue };
                if let Ok(read) = from_slice::<theirs::Properties>(bytes) {
                    assert_eq!(read, expected);
                }
                assert_eq!(from_slice(&written).ok(), Some(expected));
            }
            Section::DeliveryAnnotations(_)
            | Section::MessageAnnotations(_)
            | Section::ApplicationProperties(_)
            | Section::Data(_)
            | Section::Sequence(_)
            | Section::Value(_)
            | Section::Footer(_) => {}
        }
    }
}

/// A value as the other implementation has it; none with a known difference in it.
fn value_of(value: ValueRef<'_>) -> Option<Value> {
    Some(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Bool(it) => Value::Bool(it),
        ValueRef::U8(it) => Value::Ubyte(it),
        ValueRef::U16(it) => Value::Ushort(it),
        ValueRef::U32(it) => Value::Uint(it),
        ValueRef::U64(it) => Value::Ulong(it),
        ValueRef::I8(it) => Value::Byte(it),
        ValueRef::I16(it) => Value::Short(it),
        ValueRef::I32(it) => Value::Int(it),
        ValueRef::I64(it) => Value::Long(it),
        ValueRef::F32(it) => Value::Float(it.into()),
        ValueRef::F64(it) => Value::Double(it.into()),
        ValueRef::Decimal32(it) => Value::Decimal32(it.into()),
        ValueRef::Decimal64(it) => Value::Decimal64(it.into()),
        ValueRef::Decimal128(it) => Value::Decimal128(it.into()),
        ValueRef::Char(it) => Value::Char(it),
        ValueRef::Timestamp(it) => Value::Timestamp(it.into()),
        ValueRef::Uuid(it) => Value::Uuid(it.into()),
        ValueRef::Binary(it) => Value::Binary(it.to_vec().into()),
        ValueRef::Str(it) => Value::String(it.to_owned()),
        ValueRef::Symbol(it) => Value::Symbol(it.into()),
        ValueRef::List(it) => Value::List(it.iter().map(value_of).collect::<Option<_>>()?),
        ValueRef::Map(it) => {
            let entries = it.iter().map(|(key, of)| Some((value_of(key)?, value_of(of)?)));
            let map: OrderedMap<_, _> = entries.collect::<Option<_>>()?;
            (map.len() == it.len()).then_some(Value::Map(map))?
        }
        ValueRef::Array(it) if it.descriptor().is_some() => return None,
        // Its elements have no bytes.
        ValueRef::Array(it) if it.n_bytes() == 1 && !it.is_empty() => return None,
        ValueRef::Array(it) => Value::Array(Array(it.iter().map(value_of).collect::<Option<_>>()?)),
        ValueRef::Described(it) => {
            let descriptor = match it.descriptor {
                Descriptor::Code(code) => serde_amqp::descriptor::Descriptor::Code(code),
                Descriptor::Symbol(name) => serde_amqp::descriptor::Descriptor::Name(name.into()),
            };
            Value::Described(Box::new(Described { descriptor, value: value_of(it.value())? }))
        }
    })
}

fn header_of(header: Header) -> theirs::Header {
    let default = theirs::Header::default();
    theirs::Header {
        durable: header.durable.unwrap_or(default.durable),
        priority: header.priority.map_or(default.priority, theirs::Priority),
        ttl: header.ttl_ms,
        first_acquirer: header.first_acquirer,
        delivery_count: header.delivery_count,
    }
}

/// Properties as the other implementation has them; none with ids or addresses of other types than the
/// specification's (part 3, 3.2.4), which clients send.
fn properties_of(properties: Properties<'_>) -> Option<theirs::Properties> {
    let owned = |text: &str| text.to_owned();
    let id = |id: Option<ValueRef<'_>>| {
        Some(match id {
            None => None,
            Some(ValueRef::U64(it)) => Some(theirs::MessageId::Ulong(it)),
            Some(ValueRef::Uuid(it)) => Some(theirs::MessageId::Uuid(it.into())),
            Some(ValueRef::Binary(it)) => Some(theirs::MessageId::Binary(it.to_vec().into())),
            Some(ValueRef::Str(it)) => Some(theirs::MessageId::String(it.to_owned())),
            Some(_) => return None,
        })
    };
    let address = |address| match address {
        None => Some(None),
        Some(ValueRef::Str(it)) => Some(Some(owned(it))),
        Some(_) => None,
    };
    Some(theirs::Properties {
        message_id: id(properties.message_id)?,
        user_id: properties.user_id.map(|it| it.to_vec().into()),
        to: address(properties.to)?,
        subject: properties.subject.map(owned),
        reply_to: address(properties.reply_to)?,
        correlation_id: id(properties.correlation_id)?,
        content_type: properties.content_type.map(Into::into),
        content_encoding: properties.content_encoding.map(Into::into),
        absolute_expiry_time: properties.absolute_expiry_time_ms.map(Into::into),
        creation_time: properties.creation_time_ms.map(Into::into),
        group_id: properties.group.id.map(owned),
        group_sequence: properties.group.sequence,
        reply_to_group_id: properties.group.reply_to_id.map(owned),
    })
}
