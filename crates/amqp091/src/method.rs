//! Methods: the payload of frames of kind 1.
//!
//! ```text
//! class:u16 method:u16 fields...     octet u8, short u16, long u32, longlong u64,
//!                                    shortstr = len:u8 bytes, longstr = len:u32 bytes, table,
//!                                    bits: neighbours share an octet, the first in the lowest bit
//! ```
//! The table `methods!` below is everything there is to know about each method; structs, decoding, encoding,
//! ids and names follow from it. Structs borrow from the bytes they were decoded from.

#![allow(
    clippy::struct_excessive_bools,
    reason = "the bits of a method are what the specification makes them"
)]

mod fields;

use std::fmt;

use crate::error::{FieldError, WireError};
use crate::frame::{FrameKind, put_frame};
pub use crate::method_id::MethodId;
use crate::table::TableRef;
use crate::wire::WireCursor;

use fields::{FieldReader, FieldWriter};

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{{{},{}}}", self.class, self.method),
        }
    }
}

/// The type of a method's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// A flag.
    Bit,
    /// 8 bits.
    Octet,
    /// 16 bits.
    Short,
    /// 32 bits.
    Long,
    /// 64 bits.
    LongLong,
    /// Up to 255 bytes of UTF-8.
    ShortStr,
    /// Up to 255 bytes of anything.
    ShortBytes,
    /// Bytes with a length of 32 bits.
    LongStr,
    /// A field table.
    Table,
}

macro_rules! field_kind {
    (octet) => {
        FieldKind::Octet
    };
    (short) => {
        FieldKind::Short
    };
    (long) => {
        FieldKind::Long
    };
    (longlong) => {
        FieldKind::LongLong
    };
    (bit) => {
        FieldKind::Bit
    };
    (shortstr) => {
        FieldKind::ShortStr
    };
    (shortbytes) => {
        FieldKind::ShortBytes
    };
    (longstr) => {
        FieldKind::LongStr
    };
    (table) => {
        FieldKind::Table
    };
}

macro_rules! field_type {
    ($a:lifetime octet) => { u8 };
    ($a:lifetime short) => { u16 };
    ($a:lifetime long) => { u32 };
    ($a:lifetime longlong) => { u64 };
    ($a:lifetime bit) => { bool };
    ($a:lifetime shortstr) => { &$a [u8] };
    ($a:lifetime shortbytes) => { &$a [u8] };
    ($a:lifetime longstr) => { &$a [u8] };
    ($a:lifetime table) => { TableRef<$a> };
}

/// The struct of a method; methods that borrow nothing have no lifetime.
macro_rules! method_struct {
    ($class:literal $method:literal $text:literal $name:ident <$a:lifetime> $fields:tt) => {
        method_struct!(@build $class $method $text $name $a [<$a>] $fields);
    };
    ($class:literal $method:literal $text:literal $name:ident $fields:tt) => {
        method_struct!(@build $class $method $text $name '_ [] $fields);
    };
    (@build $class:literal $method:literal $text:literal $name:ident $a:lifetime
        [$($generics:tt)*] { $($field:ident: $kind:ident),* $(,)? }) => {
        #[doc = concat!("`", $text, "` (", $class, ", ", $method, ").")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name $($generics)* {
            $(
                #[doc = concat!("`", stringify!($field), "`, ", stringify!($kind), ".")]
                pub $field: field_type!($a $kind),
            )*
        }

        impl $($generics)* $name $($generics)* {
            /// Class and method number.
            pub const ID: MethodId = MethodId { class: $class, method: $method };

            const FIELDS: &'static [(&'static str, FieldKind)] =
                &[$((stringify!($field), field_kind!($kind))),*];

            #[allow(unused_mut, reason = "some methods have no fields")]
            #[inline]
            fn decode(mut fields: FieldReader<$a>) -> Result<Self, FieldError> {
                let method = Self { $($field: fields.$kind()?,)* };
                fields.end()?;
                Ok(method)
            }

            /// Decodes the payload of a frame whose id was looked at before: see [`peek_id`].
            ///
            /// # Errors
            /// A field that is cut short or outside its domain, bytes left over.
            #[inline]
            pub fn decode_payload(payload: &$a [u8]) -> Result<Self, WireError> {
                let (_, fields) = split_id(payload)?;
                Self::decode(fields)
                    .map_err(|error| WireError::Method { method: Self::ID, error })
            }

            /// Appends the whole frame. Short strings are cut at 255 bytes.
            #[inline]
            pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
                put_frame(out, FrameKind::Method, channel, |out| {
                    let mut fields = FieldWriter::new(out);
                    fields.short($class);
                    fields.short($method);
                    $(fields.$kind(self.$field);)*
                });
            }
        }
    };
}

/// The structs, the enum of all of them, and the way between bytes and the enum.
macro_rules! methods {
    ($a:lifetime; $(
        $class:literal $method:literal $text:literal $name:ident $(<$lt:lifetime>)?
            { $($fields:tt)* }
    )*) => {
        $(method_struct!($class $method $text $name $(<$lt>)? { $($fields)* });)*

        /// Any method, looking into the bytes it came in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Method<$a> {
            $(
                #[doc = concat!("`", $text, "`.")]
                $name($name $(<$lt>)?),
            )*
        }

        impl<$a> Method<$a> {
            /// Decodes the payload of a method frame, all of it.
            ///
            /// # Errors
            /// An unknown method, a field that is cut short or outside its domain, bytes left over.
            #[inline]
            pub fn decode(payload: &$a [u8]) -> Result<Self, WireError> {
                let (id, fields) = split_id(payload)?;
                let decoded = match (id.class, id.method) {
                    $(($class, $method) => $name::decode(fields).map(Self::$name),)*
                    _ => return Err(WireError::UnknownMethod(id)),
                };
                decoded.map_err(|error| WireError::Method { method: id, error })
            }

            /// Class and method number.
            pub const fn id(&self) -> MethodId {
                match self {
                    $(Self::$name(_) => $name::ID,)*
                }
            }

            /// Appends the whole frame. Short strings are cut at 255 bytes.
            pub fn encode_frame(&self, channel: u16, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(method) => method.encode_frame(channel, out),)*
                }
            }
        }

        impl MethodId {
            /// Every method there is.
            pub const ALL: &'static [Self] = &[$($name::ID),*];

            /// Names and types of the fields, for tools that show or make up methods.
            pub const fn fields(self) -> Option<&'static [(&'static str, FieldKind)]> {
                match (self.class, self.method) {
                    $(($class, $method) => Some($name::FIELDS),)*
                    _ => None,
                }
            }

            /// The name in the specification's spelling, such as `basic.publish`.
            pub const fn name(self) -> Option<&'static str> {
                match (self.class, self.method) {
                    $(($class, $method) => Some($text),)*
                    _ => None,
                }
            }
        }

        $(impl<$a> From<$name $(<$lt>)?> for Method<$a> {
            fn from(method: $name $(<$lt>)?) -> Self {
                Self::$name(method)
            }
        })*
    };
}

impl Method<'_> {
    /// The name in the specification's spelling, such as `basic.publish`.
    pub fn name(&self) -> &'static str {
        self.id().name().unwrap_or_default()
    }
}

/// The id in front of the fields: enough where a method is to be ignored or routed undecoded.
///
/// # Errors
/// If the payload is too short to hold it.
#[inline]
pub fn peek_id(payload: &[u8]) -> Result<MethodId, WireError> {
    split_id(payload).map(|(id, _)| id)
}

#[inline]
fn split_id(payload: &[u8]) -> Result<(MethodId, FieldReader<'_>), WireError> {
    let mut reader = WireCursor::new(payload);
    let (Ok(class), Ok(method)) = (reader.u16(), reader.u16()) else {
        return Err(WireError::ShortPayload);
    };
    Ok((MethodId { class, method }, FieldReader::new(reader)))
}

methods! { 'a;
    10 10 "connection.start" ConnectionStart<'a> {
        version_major: octet, version_minor: octet, server_properties: table, mechanisms: longstr,
        locales: longstr,
    }
    10 11 "connection.start-ok" ConnectionStartOk<'a> {
        client_properties: table, mechanism: shortstr, response: longstr, locale: shortstr,
    }
    10 20 "connection.secure" ConnectionSecure<'a> { challenge: longstr }
    10 21 "connection.secure-ok" ConnectionSecureOk<'a> { response: longstr }
    10 30 "connection.tune" ConnectionTune { channel_max: short, frame_max: long, heartbeat: short }
    10 31 "connection.tune-ok" ConnectionTuneOk {
        channel_max: short, frame_max: long, heartbeat: short,
    }
    10 40 "connection.open" ConnectionOpen<'a> {
        virtual_host: shortstr, capabilities: shortstr, insist: bit,
    }
    10 41 "connection.open-ok" ConnectionOpenOk<'a> { known_hosts: shortstr }
    10 50 "connection.close" ConnectionClose<'a> {
        reply_code: short, reply_text: shortstr, class_id: short, method_id: short,
    }
    10 51 "connection.close-ok" ConnectionCloseOk {}
    10 60 "connection.blocked" ConnectionBlocked<'a> { reason: shortstr }
    10 61 "connection.unblocked" ConnectionUnblocked {}
    10 70 "connection.update-secret" ConnectionUpdateSecret<'a> {
        new_secret: longstr, reason: shortstr,
    }
    10 71 "connection.update-secret-ok" ConnectionUpdateSecretOk {}

    20 10 "channel.open" ChannelOpen<'a> { out_of_band: shortstr }
    20 11 "channel.open-ok" ChannelOpenOk<'a> { channel_id: longstr }
    20 20 "channel.flow" ChannelFlow { active: bit }
    20 21 "channel.flow-ok" ChannelFlowOk { active: bit }
    20 40 "channel.close" ChannelClose<'a> {
        reply_code: short, reply_text: shortstr, class_id: short, method_id: short,
    }
    20 41 "channel.close-ok" ChannelCloseOk {}

    30 10 "access.request" AccessRequest<'a> {
        realm: shortstr, exclusive: bit, passive: bit, active: bit, write: bit, read: bit,
    }
    30 11 "access.request-ok" AccessRequestOk { ticket: short }

    40 10 "exchange.declare" ExchangeDeclare<'a> {
        ticket: short, exchange: shortstr, kind: shortstr, passive: bit, durable: bit,
        auto_delete: bit, internal: bit, no_wait: bit, arguments: table,
    }
    40 11 "exchange.declare-ok" ExchangeDeclareOk {}
    40 20 "exchange.delete" ExchangeDelete<'a> {
        ticket: short, exchange: shortstr, if_unused: bit, no_wait: bit,
    }
    40 21 "exchange.delete-ok" ExchangeDeleteOk {}
    40 30 "exchange.bind" ExchangeBind<'a> {
        ticket: short, destination: shortstr, source: shortstr, routing_key: shortstr, no_wait: bit,
        arguments: table,
    }
    40 31 "exchange.bind-ok" ExchangeBindOk {}
    40 40 "exchange.unbind" ExchangeUnbind<'a> {
        ticket: short, destination: shortstr, source: shortstr, routing_key: shortstr, no_wait: bit,
        arguments: table,
    }
    40 51 "exchange.unbind-ok" ExchangeUnbindOk {}

    50 10 "queue.declare" QueueDeclare<'a> {
        ticket: short, queue: shortstr, passive: bit, durable: bit, exclusive: bit,
        auto_delete: bit, no_wait: bit, arguments: table,
    }
    50 11 "queue.declare-ok" QueueDeclareOk<'a> {
        queue: shortstr, message_count: long, consumer_count: long,
    }
    50 20 "queue.bind" QueueBind<'a> {
        ticket: short, queue: shortstr, exchange: shortstr, routing_key: shortstr, no_wait: bit,
        arguments: table,
    }
    50 21 "queue.bind-ok" QueueBindOk {}
    50 30 "queue.purge" QueuePurge<'a> { ticket: short, queue: shortstr, no_wait: bit }
    50 31 "queue.purge-ok" QueuePurgeOk { message_count: long }
    50 40 "queue.delete" QueueDelete<'a> {
        ticket: short, queue: shortstr, if_unused: bit, if_empty: bit, no_wait: bit,
    }
    50 41 "queue.delete-ok" QueueDeleteOk { message_count: long }
    50 50 "queue.unbind" QueueUnbind<'a> {
        ticket: short, queue: shortstr, exchange: shortstr, routing_key: shortstr, arguments: table,
    }
    50 51 "queue.unbind-ok" QueueUnbindOk {}

    60 10 "basic.qos" BasicQos { prefetch_size: long, prefetch_count: short, global: bit }
    60 11 "basic.qos-ok" BasicQosOk {}
    60 20 "basic.consume" BasicConsume<'a> {
        ticket: short, queue: shortstr, consumer_tag: shortstr, no_local: bit, no_ack: bit,
        exclusive: bit, no_wait: bit, arguments: table,
    }
    60 21 "basic.consume-ok" BasicConsumeOk<'a> { consumer_tag: shortstr }
    60 30 "basic.cancel" BasicCancel<'a> { consumer_tag: shortstr, no_wait: bit }
    60 31 "basic.cancel-ok" BasicCancelOk<'a> { consumer_tag: shortstr }
    60 40 "basic.publish" BasicPublish<'a> {
        ticket: short, exchange: shortbytes, routing_key: shortbytes, mandatory: bit,
        immediate: bit,
    }
    60 50 "basic.return" BasicReturn<'a> {
        reply_code: short, reply_text: shortbytes, exchange: shortbytes, routing_key: shortbytes,
    }
    60 60 "basic.deliver" BasicDeliver<'a> {
        consumer_tag: shortbytes, delivery_tag: longlong, redelivered: bit, exchange: shortbytes,
        routing_key: shortbytes,
    }
    60 70 "basic.get" BasicGet<'a> { ticket: short, queue: shortstr, no_ack: bit }
    60 71 "basic.get-ok" BasicGetOk<'a> {
        delivery_tag: longlong, redelivered: bit, exchange: shortbytes, routing_key: shortbytes,
        message_count: long,
    }
    60 72 "basic.get-empty" BasicGetEmpty<'a> { cluster_id: shortstr }
    60 80 "basic.ack" BasicAck { delivery_tag: longlong, multiple: bit }
    60 90 "basic.reject" BasicReject { delivery_tag: longlong, requeue: bit }
    60 100 "basic.recover-async" BasicRecoverAsync { requeue: bit }
    60 110 "basic.recover" BasicRecover { requeue: bit }
    60 111 "basic.recover-ok" BasicRecoverOk {}
    60 120 "basic.nack" BasicNack { delivery_tag: longlong, multiple: bit, requeue: bit }

    85 10 "confirm.select" ConfirmSelect { no_wait: bit }
    85 11 "confirm.select-ok" ConfirmSelectOk {}

    90 10 "tx.select" TxSelect {}
    90 11 "tx.select-ok" TxSelectOk {}
    90 20 "tx.commit" TxCommit {}
    90 21 "tx.commit-ok" TxCommitOk {}
    90 30 "tx.rollback" TxRollback {}
    90 31 "tx.rollback-ok" TxRollbackOk {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::ReplyCode;

    #[test]
    fn publish_as_on_the_wire() {
        let publish = BasicPublish {
            ticket: 0,
            exchange: b"ex",
            routing_key: b"k",
            mandatory: true,
            immediate: false,
        };
        let mut out = Vec::new();
        publish.encode_frame(1, &mut out);
        assert_eq!(out, b"\x01\0\x01\0\0\0\x0c\0\x3c\0\x28\0\0\x02ex\x01k\x01\xCE");
        let method = Method::decode(&out[7..out.len() - 1]).unwrap();
        assert_eq!(method, Method::from(publish));
        assert_eq!(method.name(), "basic.publish");
    }

    #[test]
    fn bits_share_an_octet_lowest_first() {
        let declare = QueueDeclare {
            durable: true,
            auto_delete: true,
            no_wait: true,
            queue: b"q",
            ..QueueDeclare::default()
        };
        let mut out = Vec::new();
        declare.encode_frame(1, &mut out);
        assert_eq!(&out[11..out.len() - 1], b"\0\0\x01q\x1a\0\0\0\0");
        assert_eq!(Method::decode(&out[7..out.len() - 1]), Ok(Method::QueueDeclare(declare)));
    }

    #[test]
    fn errors_name_the_method_and_the_reply_code() {
        let cases: [(&[u8], &str, ReplyCode, Option<MethodId>); 7] = [
            (b"\0\x3c", "unknown_frame", ReplyCode::FrameError, None),
            (
                b"\0\x3c\0\x63",
                "unknown method {60,99}",
                ReplyCode::NotImplemented,
                Some(MethodId { class: 60, method: 99 }),
            ),
            (
                b"\0\x14\0\x0a\x05",
                "cannot decode channel.open: the data ends before the field does",
                ReplyCode::FrameError,
                Some(ChannelOpen::ID),
            ),
            (
                b"\0\x14\0\x29x",
                "cannot decode channel.close-ok: there is data after the last field",
                ReplyCode::FrameError,
                Some(ChannelCloseOk::ID),
            ),
            (
                b"\0\x3c\0\x1e\x01\xff\0",
                "cannot decode basic.cancel: Malformed UTF-8 in shortstr",
                ReplyCode::FrameError,
                Some(BasicCancel::ID),
            ),
            (
                b"\0\x32\0\x32\0\0\0\0\0\0\0\0\x03\x01kZ",
                "cannot decode queue.unbind: unknown field type 0x5a",
                ReplyCode::SyntaxError,
                Some(QueueUnbind::ID),
            ),
            (
                b"\0\x32\0\x32\0\0\0\0\0\0\0\0\x04\x01kV",
                "cannot decode queue.unbind: the data ends before the field does",
                ReplyCode::FrameError,
                Some(QueueUnbind::ID),
            ),
        ];
        for (payload, text, code, method) in cases {
            let error = Method::decode(payload).unwrap_err();
            assert_eq!(error.to_string(), text);
            assert_eq!((error.reply_code(), error.method()), (code, method));
        }
    }

    #[test]
    fn routing_keys_of_publishes_may_be_any_bytes() {
        let publish = BasicPublish { routing_key: b"\xff\xfe", ..BasicPublish::default() };
        let mut out = Vec::new();
        publish.encode_frame(1, &mut out);
        assert_eq!(Method::decode(&out[7..out.len() - 1]), Ok(Method::BasicPublish(publish)));
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let text = format!("a{}", "é".repeat(200));
        let close = ChannelClose { reply_text: text.as_bytes(), ..ChannelClose::default() };
        let mut out = Vec::new();
        close.encode_frame(1, &mut out);
        let Ok(Method::ChannelClose(close)) = Method::decode(&out[7..out.len() - 1]) else {
            panic!("not a channel.close");
        };
        assert_eq!(close.reply_text, &text.as_bytes()[..255]);
        let text = "é".repeat(200);
        out.clear();
        ChannelClose { reply_text: text.as_bytes(), ..ChannelClose::default() }
            .encode_frame(1, &mut out);
        assert_eq!(out[13], 254);
    }

    #[test]
    fn every_method_has_a_name() {
        assert_eq!(MethodId::ALL.len(), 66);
        assert!(MethodId::ALL.iter().all(|id| id.name().is_some()));
        assert_eq!(peek_id(b"\0\x3c\0\x28"), Ok(BasicPublish::ID));
    }
}
