//! Commands: the content of frames. The table `commands!` below is everything there is to know about the
//! fields of each command; structs, decoding and encoding follow from it. Structs borrow from the bytes they
//! were decoded from.
//!
//! A row has: request (or a command without answer) or response, key, version, and the fields behind key and
//! version in their order. An answer that has a code alone has no row: see
//! [`CodeResponse`](crate::CodeResponse).

use crate::command_id::CommandId;
use crate::entry::Entry;
use crate::field::{Field, Remainder, record};
use crate::frame::put_frame;
use crate::key::Key;
use crate::list::{List, Trailing};
use crate::offset_spec::{FinalOffset, OffsetSpec};
use crate::response_code::ResponseCode;

/// A struct of the table.
pub trait Command<'a>: Field<'a> {
    /// Key and version.
    const ID: CommandId;

    /// Appends the whole frame. Strings are cut at [`crate::spec::STRING_BYTES_MAX`].
    #[inline]
    fn encode_frame(&self, out: &mut Vec<u8>) {
        put_frame(out, Self::ID, |out| self.put(out));
    }
}

macro_rules! commands {
    ($a:lifetime; $($(#[$doc:meta])* $side:ident $key:ident $version:literal
        $name:ident $(<$lt:lifetime>)? { $($fields:tt)* })*) => {$(
        record! { $a;
            #[doc = concat!(
                "`", stringify!($key), "`, ", stringify!($side), ", version ", $version, ".",
            )]
            $(#[$doc])*
            $name $(<$lt>)? { $($fields)* }
        }

        impl<$a> Command<$a> for $name $(<$lt>)? {
            const ID: CommandId = CommandId::$side(Key::$key, $version);
        }
    )*};
}

macro_rules! records {
    ($a:lifetime; $($(#[$doc:meta])* $name:ident $(<$lt:lifetime>)? { $($fields:tt)* })*) => {
        $(record! { $a; $(#[$doc])* $name $(<$lt>)? { $($fields)* } })*
    };
}

records! { 'a;
    /// A message that is published, or a sub-batch of them.
    PublishedMessage<'a> { publishing_id: u64, entry: Entry<'a> }

    /// A published message with a filter value, or without one in spite of the version. COMPAT: RabbitMQ's
    /// connection dies of a sub-batch in this version. Test: `a_sub_batch_may_have_a_filter_value`.
    FilteredMessage<'a> {
        publishing_id: u64, filter_value: Option<&'a [u8]>, entry: Entry<'a>,
    }

    /// A message that was not stored.
    PublishingError { publishing_id: u64, code: ResponseCode }

    /// A property or an argument.
    Property<'a> { key: &'a str, value: &'a str }

    /// A broker that others refer to by its reference.
    Broker<'a> { reference: u16, host: &'a str, port: u32 }

    /// The brokers that have a stream; a leader of [`NO_BROKER`](crate::spec::NO_BROKER) is none.
    StreamMetadata<'a> {
        stream: &'a str, code: ResponseCode, leader: u16, replicas: List<'a, u16>,
    }

    /// The versions of a command that one side knows.
    CommandVersions { key: u16, min_version: u16, max_version: u16 }

    /// A counter of a stream.
    Statistic<'a> { key: &'a str, value: i64 }
}

commands! { 'a;
    /// An empty reference is none.
    request DeclarePublisher 1 DeclarePublisher<'a> {
        correlation_id: u32, publisher_id: u8, reference: &'a str, stream: &'a str,
    }
    request Publish 1 Publish<'a> { publisher_id: u8, messages: List<'a, PublishedMessage<'a>> }
    request Publish 2 PublishV2<'a> { publisher_id: u8, messages: List<'a, FilteredMessage<'a>> }
    request PublishConfirm 1 PublishConfirm<'a> {
        publisher_id: u8, publishing_ids: List<'a, u64>,
    }
    request PublishError 1 PublishError<'a> {
        publisher_id: u8, errors: List<'a, PublishingError>,
    }
    request QueryPublisherSequence 1 QueryPublisherSequence<'a> {
        correlation_id: u32, reference: &'a str, stream: &'a str,
    }
    response QueryPublisherSequence 1 QueryPublisherSequenceResponse {
        correlation_id: u32, code: ResponseCode, sequence: u64,
    }
    request DeletePublisher 1 DeletePublisher { correlation_id: u32, publisher_id: u8 }
    request Subscribe 1 Subscribe<'a> {
        correlation_id: u32, subscription_id: u8, stream: &'a str, offset: OffsetSpec,
        credit: u16, properties: Trailing<'a, Property<'a>>,
    }
    /// The chunk is as [`Chunk::decode_delivered`](crate::Chunk::decode_delivered) reads it.
    request Deliver 1 Deliver<'a> { subscription_id: u8, chunk: Remainder<'a> }
    request Deliver 2 DeliverV2<'a> {
        subscription_id: u8, committed_chunk_id: u64, chunk: Remainder<'a>,
    }
    /// COMPAT: RabbitMQ reads the credit as signed, so that it can be taken back; the reference
    /// says unsigned. Test: `every_command_has_the_bytes_of_the_reference`.
    request Credit 1 Credit { subscription_id: u8, credit: u16 }
    /// Sent only if something is wrong with a `Credit`.
    response Credit 1 CreditResponse { code: ResponseCode, subscription_id: u8 }
    request StoreOffset 1 StoreOffset<'a> { reference: &'a str, stream: &'a str, offset: u64 }
    request QueryOffset 1 QueryOffset<'a> {
        correlation_id: u32, reference: &'a str, stream: &'a str,
    }
    response QueryOffset 1 QueryOffsetResponse {
        correlation_id: u32, code: ResponseCode, offset: u64,
    }
    request Unsubscribe 1 Unsubscribe { correlation_id: u32, subscription_id: u8 }
    request Create 1 Create<'a> {
        correlation_id: u32, stream: &'a str, arguments: List<'a, Property<'a>>,
    }
    request Delete 1 Delete<'a> { correlation_id: u32, stream: &'a str }
    request Metadata 1 Metadata<'a> { correlation_id: u32, streams: List<'a, &'a str> }
    response Metadata 1 MetadataResponse<'a> {
        correlation_id: u32, brokers: List<'a, Broker<'a>>,
        streams: List<'a, StreamMetadata<'a>>,
    }
    request MetadataUpdate 1 MetadataUpdate<'a> { code: ResponseCode, stream: &'a str }
    request PeerProperties 1 PeerProperties<'a> {
        correlation_id: u32, properties: List<'a, Property<'a>>,
    }
    response PeerProperties 1 PeerPropertiesResponse<'a> {
        correlation_id: u32, code: ResponseCode, properties: List<'a, Property<'a>>,
    }
    request SaslHandshake 1 SaslHandshake { correlation_id: u32 }
    response SaslHandshake 1 SaslHandshakeResponse<'a> {
        correlation_id: u32, code: ResponseCode, mechanisms: List<'a, &'a str>,
    }
    request SaslAuthenticate 1 SaslAuthenticate<'a> {
        correlation_id: u32, mechanism: &'a str, data: &'a [u8],
    }
    /// Sent only with a challenge. COMPAT: RabbitMQ writes it with a length of two bytes, which its
    /// own clients cannot read; this is as in the reference, and as they expect it.
    /// Test: `every_command_has_the_bytes_of_the_reference`.
    response SaslAuthenticate 1 SaslAuthenticateResponse<'a> {
        correlation_id: u32, code: ResponseCode, data: &'a [u8],
    }
    /// Offered by the server. A `frame_max` of 0 bytes or a heartbeat of 0 s is none.
    request Tune 1 Tune { frame_max: u32, heartbeat_secs: u32 }
    /// Chosen by the client, which may answer with [`Tune`] just as well.
    response Tune 1 TuneResponse { frame_max: u32, heartbeat_secs: u32 }
    request Open 1 Open<'a> { correlation_id: u32, virtual_host: &'a str }
    response Open 1 OpenResponse<'a> {
        correlation_id: u32, code: ResponseCode, properties: List<'a, Property<'a>>,
    }
    request Close 1 Close<'a> { correlation_id: u32, code: ResponseCode, reason: &'a str }
    request Heartbeat 1 Heartbeat {}
    request Route 1 Route<'a> { correlation_id: u32, routing_key: &'a str, super_stream: &'a str }
    response Route 1 RouteResponse<'a> {
        correlation_id: u32, code: ResponseCode, streams: List<'a, &'a str>,
    }
    request Partitions 1 Partitions<'a> { correlation_id: u32, super_stream: &'a str }
    response Partitions 1 PartitionsResponse<'a> {
        correlation_id: u32, code: ResponseCode, streams: List<'a, &'a str>,
    }
    request ConsumerUpdate 1 ConsumerUpdate {
        correlation_id: u32, subscription_id: u8, active: bool,
    }
    response ConsumerUpdate 1 ConsumerUpdateResponse {
        correlation_id: u32, code: ResponseCode, offset: FinalOffset,
    }
    request ExchangeCommandVersions 1 ExchangeCommandVersions<'a> {
        correlation_id: u32, commands: List<'a, CommandVersions>,
    }
    response ExchangeCommandVersions 1 ExchangeCommandVersionsResponse<'a> {
        correlation_id: u32, code: ResponseCode, commands: List<'a, CommandVersions>,
    }
    request StreamStats 1 StreamStats<'a> { correlation_id: u32, stream: &'a str }
    response StreamStats 1 StreamStatsResponse<'a> {
        correlation_id: u32, code: ResponseCode, statistics: List<'a, Statistic<'a>>,
    }
    /// The partition at a place in its array is bound with the key at the same place.
    request CreateSuperStream 1 CreateSuperStream<'a> {
        correlation_id: u32, name: &'a str, partitions: List<'a, &'a str>,
        binding_keys: List<'a, &'a str>, arguments: List<'a, Property<'a>>,
    }
    request DeleteSuperStream 1 DeleteSuperStream<'a> { correlation_id: u32, name: &'a str }
    request ResolveOffsetSpec 1 ResolveOffsetSpec<'a> {
        correlation_id: u32, stream: &'a str, offset: OffsetSpec,
        properties: Trailing<'a, Property<'a>>,
    }
    /// The offset is an [`OffsetSpec::Offset`].
    response ResolveOffsetSpec 1 ResolveOffsetSpecResponse {
        correlation_id: u32, code: ResponseCode, offset: OffsetSpec,
    }
}
