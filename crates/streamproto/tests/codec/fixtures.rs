//! The bytes of each command, worked out by hand from the reference.

use streamproto::command::*;
use streamproto::field::Remainder;
use streamproto::list::Trailing;
use streamproto::spec::NO_BROKER;
use streamproto::{
    CodeResponse, Compression, Entry, FinalOffset, Key, List, OffsetSpec, ResponseCode, SubBatch,
    ToClient, ToServer, decode_frame, deliver_prefix, deliver_v2_prefix,
};

/// The bytes of words: hexadecimal digits, or text between apostrophes.
pub(crate) fn bytes(words: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for word in words.split_whitespace() {
        if let Some(text) = word.strip_prefix('\'') {
            out.extend_from_slice(text.strip_suffix('\'').expect("a closed word").as_bytes());
            continue;
        }
        for at in (0..word.len()).step_by(2) {
            out.push(u8::from_str_radix(&word[at..at + 2], 16).expect("hexadecimal digits"));
        }
    }
    out
}

#[track_caller]
fn frame(words: &str, encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let frame = bytes(words);
    let size = u32::try_from(frame.len()).expect("short");
    let mut out = Vec::new();
    encode(&mut out);
    assert_eq!(out, [&size.to_be_bytes()[..], &frame].concat());
    assert_eq!(decode_frame(&out, size), Ok(Some((&frame[..], out.len()))));
    frame
}

#[track_caller]
fn to_server<'a>(words: &str, command: impl Into<ToServer<'a>>) {
    let command = command.into();
    let frame = frame(words, |out| command.encode_frame(out));
    assert_eq!(ToServer::decode(&frame), Ok(command));
}

#[track_caller]
fn to_client<'a>(words: &str, command: impl Into<ToClient<'a>>) {
    let command = command.into();
    let frame = frame(words, |out| command.encode_frame(out));
    assert_eq!(ToClient::decode(&frame), Ok(command));
}

const OK: ResponseCode = ResponseCode::OK;
const PROPERTIES: List<'static, Property<'static>> =
    List::of(&[Property { key: "a", value: "bc" }, Property { key: "d", value: "" }]);

#[test]
fn every_command_has_the_bytes_of_the_reference() {
    publishing();
    publishing_with_answers();
    consuming();
    consuming_with_answers();
    streams();
    metadata();
    authentication();
    connection();
    super_streams();
    versions_and_statistics();
}

fn publishing() {
    let message = Entry::Message(b"hello");
    let batch = Entry::SubBatch(SubBatch {
        compression: Compression::ZSTD,
        n_records: 2,
        uncompressed_bytes: 300,
        bytes: b"zip",
    });
    let messages = [
        PublishedMessage { publishing_id: 7, entry: message },
        PublishedMessage { publishing_id: 8, entry: batch },
    ];
    to_server(
        "0002 0001 05 00000002
         0000000000000007 00000005 'hello'
         0000000000000008 c0 0002 0000012c 00000003 'zip'",
        Publish { publisher_id: 5, messages: List::of(&messages) },
    );
    let messages = [
        FilteredMessage { publishing_id: 7, filter_value: Some(b"eu"), entry: message },
        FilteredMessage { publishing_id: 8, filter_value: None, entry: Entry::Message(b"") },
    ];
    to_server(
        "0002 0002 05 00000002
         0000000000000007 0002 'eu' 00000005 'hello'
         0000000000000008 ffff 00000000",
        PublishV2 { publisher_id: 5, messages: List::of(&messages) },
    );
    to_client(
        "0003 0001 05 00000002 0000000000000007 0000000100000000",
        PublishConfirm { publisher_id: 5, publishing_ids: List::of(&[7, 1 << 32]) },
    );
    let errors = [PublishingError { publishing_id: 9, code: ResponseCode::ACCESS_REFUSED }];
    to_client(
        "0004 0001 05 00000001 0000000000000009 0010",
        PublishError { publisher_id: 5, errors: List::of(&errors) },
    );
}

#[test]
fn a_sub_batch_may_have_a_filter_value() {
    let entry = Entry::SubBatch(SubBatch {
        compression: Compression::NONE,
        n_records: 1,
        uncompressed_bytes: 5,
        bytes: b"\0\0\0\x01m",
    });
    let messages = [FilteredMessage { publishing_id: 1, filter_value: Some(b"f"), entry }];
    to_server(
        "0002 0002 00 00000001
         0000000000000001 0001 'f' 80 0001 00000005 00000005 00000001 'm'",
        PublishV2 { publisher_id: 0, messages: List::of(&messages) },
    );
}

fn publishing_with_answers() {
    to_server(
        "0001 0001 0000002a 05 0003 'ref' 0006 'stream'",
        DeclarePublisher {
            correlation_id: 42,
            publisher_id: 5,
            reference: "ref",
            stream: "stream",
        },
    );
    to_client(
        "8001 0001 0000002a 0002",
        CodeResponse {
            key: Key::DeclarePublisher,
            correlation_id: 42,
            code: ResponseCode::STREAM_DOES_NOT_EXIST,
        },
    );
    to_server(
        "0005 0001 0000002b 0003 'ref' 0006 'stream'",
        QueryPublisherSequence { correlation_id: 43, reference: "ref", stream: "stream" },
    );
    to_client(
        "8005 0001 0000002b 0001 00000000000000ff",
        QueryPublisherSequenceResponse { correlation_id: 43, code: OK, sequence: 255 },
    );
    to_server("0006 0001 0000002c 05", DeletePublisher { correlation_id: 44, publisher_id: 5 });
    to_client("8006 0001 0000002c 0012", {
        let code = ResponseCode::PUBLISHER_DOES_NOT_EXIST;
        CodeResponse { key: Key::DeletePublisher, correlation_id: 44, code }
    });
}

fn consuming() {
    let chunk = Remainder(b"chunk");
    to_client("0008 0001 09 'chunk'", Deliver { subscription_id: 9, chunk });
    to_client(
        "0008 0002 09 0000000000000102 'chunk'",
        DeliverV2 { subscription_id: 9, committed_chunk_id: 258, chunk },
    );
    to_server("0009 0001 09 000a", Credit { subscription_id: 9, credit: 10 });
    to_client(
        "8009 0001 0004 09",
        CreditResponse { code: ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST, subscription_id: 9 },
    );
    to_server(
        "000a 0001 0003 'ref' 0006 'stream' 0000000000000400",
        StoreOffset { reference: "ref", stream: "stream", offset: 1024 },
    );
}

fn consuming_with_answers() {
    let subscribe = Subscribe {
        correlation_id: 1,
        subscription_id: 9,
        stream: "s",
        offset: OffsetSpec::Next,
        credit: 10,
        properties: Trailing::default(),
    };
    to_server("0007 0001 00000001 09 0001 's' 0003 000a", subscribe);
    to_server(
        "0007 0001 00000001 09 0001 's' 0004 00000000000003e8 000a
         00000002 0001 'a' 0002 'bc' 0001 'd' 0000",
        Subscribe {
            offset: OffsetSpec::Offset(1000),
            properties: Trailing(PROPERTIES),
            ..subscribe
        },
    );
    to_server(
        "0007 0001 00000001 09 0001 's' 0005 ffffffffffffffff 000a",
        Subscribe { offset: OffsetSpec::Timestamp(-1), ..subscribe },
    );
    to_server(
        "000b 0001 00000002 0003 'ref' 0001 's'",
        QueryOffset { correlation_id: 2, reference: "ref", stream: "s" },
    );
    to_client(
        "800b 0001 00000002 0013 0000000000000000",
        QueryOffsetResponse { correlation_id: 2, code: ResponseCode::NO_OFFSET, offset: 0 },
    );
    to_server("000c 0001 00000003 09", Unsubscribe { correlation_id: 3, subscription_id: 9 });
    to_client(
        "001a 0001 00000004 09 01",
        ConsumerUpdate { correlation_id: 4, subscription_id: 9, active: true },
    );
    let offset = FinalOffset(OffsetSpec::None);
    let answer = ConsumerUpdateResponse { correlation_id: 4, code: OK, offset };
    to_server("801a 0001 00000004 0001 0000", answer);
    let offset = FinalOffset(OffsetSpec::Offset(5));
    let answer = ConsumerUpdateResponse { offset, ..answer };
    to_server("801a 0001 00000004 0001 0004 0000000000000005", answer);
    to_server(
        "001f 0001 00000005 0001 's' 0001",
        ResolveOffsetSpec {
            correlation_id: 5,
            stream: "s",
            offset: OffsetSpec::First,
            properties: Trailing::default(),
        },
    );
    to_client(
        "801f 0001 00000005 0001 0004 0000000000000011",
        ResolveOffsetSpecResponse { correlation_id: 5, code: OK, offset: OffsetSpec::Offset(17) },
    );
}

fn streams() {
    to_server(
        "000d 0001 00000001 0001 's' 00000002 0001 'a' 0002 'bc' 0001 'd' 0000",
        Create { correlation_id: 1, stream: "s", arguments: PROPERTIES },
    );
    to_client("800d 0001 00000001 0005", {
        let code = ResponseCode::STREAM_ALREADY_EXISTS;
        CodeResponse { key: Key::Create, correlation_id: 1, code }
    });
    to_server(
        "000d 0001 00000001 0001 's' 00000000",
        Create { correlation_id: 1, stream: "s", arguments: List::default() },
    );
    to_server("000e 0001 00000002 0002 'st'", Delete { correlation_id: 2, stream: "st" });
    to_client(
        "0010 0001 0006 0002 'st'",
        MetadataUpdate { code: ResponseCode::STREAM_NOT_AVAILABLE, stream: "st" },
    );
}

fn metadata() {
    to_server(
        "000f 0001 00000003 00000002 0001 's' 0002 'st'",
        Metadata { correlation_id: 3, streams: List::of(&["s", "st"]) },
    );
    let brokers = [
        Broker { reference: 0, host: "one", port: 5552 },
        Broker { reference: 1, host: "two", port: 65536 },
    ];
    let streams = [
        StreamMetadata { stream: "s", code: OK, leader: 1, replicas: List::of(&[0, 1]) },
        StreamMetadata {
            stream: "st",
            code: ResponseCode::STREAM_DOES_NOT_EXIST,
            leader: NO_BROKER,
            replicas: List::default(),
        },
    ];
    to_client(
        "800f 0001 00000003
         00000002 0000 0003 'one' 000015b0 0001 0003 'two' 00010000
         00000002 0001 's' 0001 0001 00000002 0000 0001
                  0002 'st' 0002 ffff 00000000",
        MetadataResponse {
            correlation_id: 3,
            brokers: List::of(&brokers),
            streams: List::of(&streams),
        },
    );
}

fn authentication() {
    to_server(
        "0011 0001 00000001 00000002 0001 'a' 0002 'bc' 0001 'd' 0000",
        PeerProperties { correlation_id: 1, properties: PROPERTIES },
    );
    to_client(
        "8011 0001 00000001 0001 00000002 0001 'a' 0002 'bc' 0001 'd' 0000",
        PeerPropertiesResponse { correlation_id: 1, code: OK, properties: PROPERTIES },
    );
    to_server("0012 0001 00000002", SaslHandshake { correlation_id: 2 });
    to_client(
        "8012 0001 00000002 0001 00000002 0005 'PLAIN' 0008 'EXTERNAL'",
        SaslHandshakeResponse {
            correlation_id: 2,
            code: OK,
            mechanisms: List::of(&["PLAIN", "EXTERNAL"]),
        },
    );
    to_server(
        "0013 0001 00000003 0005 'PLAIN' 00000004 00 'u' 00 'p'",
        SaslAuthenticate { correlation_id: 3, mechanism: "PLAIN", data: b"\0u\0p" },
    );
    to_client(
        "8013 0001 00000003 000a 00000003 'why'",
        SaslAuthenticateResponse {
            correlation_id: 3,
            code: ResponseCode::SASL_CHALLENGE,
            data: b"why",
        },
    );
    to_client("8013 0001 00000003 0001", {
        CodeResponse { key: Key::SaslAuthenticate, correlation_id: 3, code: OK }
    });
}

fn connection() {
    let tune = Tune { frame_max: 1 << 20, heartbeat_secs: 60 };
    to_client("0014 0001 00100000 0000003c", tune);
    to_server("0014 0001 00100000 0000003c", tune);
    let Tune { frame_max, heartbeat_secs } = tune;
    to_server("8014 0001 00100000 0000003c", TuneResponse { frame_max, heartbeat_secs });
    to_server("0015 0001 00000004 0001 '/'", Open { correlation_id: 4, virtual_host: "/" });
    to_client(
        "8015 0001 00000004 0001 00000002 0001 'a' 0002 'bc' 0001 'd' 0000",
        OpenResponse { correlation_id: 4, code: OK, properties: PROPERTIES },
    );
    to_client("8015 0001 00000004 000c", {
        let code = ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE;
        CodeResponse { key: Key::Open, correlation_id: 4, code }
    });
    let close = Close { correlation_id: 5, code: OK, reason: "bye" };
    to_server("0016 0001 00000005 0001 0003 'bye'", close);
    to_client("0016 0001 00000005 0001 0003 'bye'", close);
    let closed = CodeResponse { key: Key::Close, correlation_id: 5, code: OK };
    to_server("8016 0001 00000005 0001", closed);
    to_client("8016 0001 00000005 0001", closed);
    to_server("0017 0001", Heartbeat {});
    to_client("0017 0001", Heartbeat {});
}

fn super_streams() {
    to_server(
        "0018 0001 00000001 0002 'rk' 0002 'ss'",
        Route { correlation_id: 1, routing_key: "rk", super_stream: "ss" },
    );
    let streams = List::of(&["s1", "s2"]);
    to_client(
        "8018 0001 00000001 0001 00000002 0002 's1' 0002 's2'",
        RouteResponse { correlation_id: 1, code: OK, streams },
    );
    to_server("0019 0001 00000002 0002 'ss'", Partitions { correlation_id: 2, super_stream: "ss" });
    to_client(
        "8019 0001 00000002 0001 00000002 0002 's1' 0002 's2'",
        PartitionsResponse { correlation_id: 2, code: OK, streams },
    );
    to_server(
        "001d 0001 00000003 0002 'ss' 00000002 0002 's1' 0002 's2' 00000002 0001 '0' 0001 '1'
         00000002 0001 'a' 0002 'bc' 0001 'd' 0000",
        CreateSuperStream {
            correlation_id: 3,
            name: "ss",
            partitions: streams,
            binding_keys: List::of(&["0", "1"]),
            arguments: PROPERTIES,
        },
    );
    to_server("001e 0001 00000004 0002 'ss'", DeleteSuperStream { correlation_id: 4, name: "ss" });
}

fn versions_and_statistics() {
    let publish = CommandVersions { key: Key::Publish.code(), min_version: 1, max_version: 2 };
    let unknown = CommandVersions { key: 0x0100, min_version: 1, max_version: 3 };
    let commands = [publish, unknown];
    let commands = List::of(&commands);
    to_server(
        "001b 0001 00000001 00000002 0002 0001 0002 0100 0001 0003",
        ExchangeCommandVersions { correlation_id: 1, commands },
    );
    to_client(
        "801b 0001 00000001 0001 00000002 0002 0001 0002 0100 0001 0003",
        ExchangeCommandVersionsResponse { correlation_id: 1, code: OK, commands },
    );
    to_server("001c 0001 00000002 0001 's'", StreamStats { correlation_id: 2, stream: "s" });
    let statistics = [Statistic { key: "first_chunk_id", value: -1 }];
    to_client(
        "801c 0001 00000002 0001 00000001 000e 'first_chunk_id' ffffffffffffffff",
        StreamStatsResponse { correlation_id: 2, code: OK, statistics: List::of(&statistics) },
    );
}

#[test]
fn response_codes_have_their_numbers_and_names() {
    let numbers: Vec<u16> = ResponseCode::ALL.iter().map(|code| code.0).collect();
    assert_eq!(numbers, (1..=21).collect::<Vec<u16>>());
    assert_eq!(ResponseCode::NO_OFFSET.to_string(), "no offset");
    assert_eq!(ResponseCode(0x13).name(), Some("no offset"));
    assert_eq!(ResponseCode::SASL_CANNOT_CHANGE_MECHANISM.0, 20);
    assert_eq!(ResponseCode::SASL_CANNOT_CHANGE_USERNAME.0, 21);
    assert_eq!(ResponseCode(99).to_string(), "code 0x63");
}

#[test]
fn the_prefix_of_a_delivery_is_its_frame_without_the_chunk() {
    let mut whole = Vec::new();
    let chunk = Remainder(b"chunk");
    Deliver { subscription_id: 7, chunk }.encode_frame(&mut whole);
    assert_eq!(whole, [&deliver_prefix(7, 5)[..], b"chunk"].concat());
    whole.clear();
    DeliverV2 { subscription_id: 7, committed_chunk_id: 258, chunk }.encode_frame(&mut whole);
    assert_eq!(whole, [&deliver_v2_prefix(7, 258, 5)[..], b"chunk"].concat());
}
