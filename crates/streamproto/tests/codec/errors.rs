//! Errors in bytes, and how the connection ends.

use streamproto::command::{Delete, PublishV2};
use streamproto::spec::STRING_BYTES_MAX;
use streamproto::{
    CommandId, FieldError, Key, OffsetSpec, ResponseCode, ToClient, ToServer, WireError,
    decode_frame, split_id,
};

use crate::fixtures::bytes;

#[track_caller]
fn refused(words: &str) -> WireError {
    let error = ToServer::decode(&bytes(words)).expect_err("a malformed frame");
    assert_eq!(error.response_code(), ResponseCode::UNKNOWN_FRAME);
    error
}

#[track_caller]
fn field_error(words: &str) -> FieldError {
    let refused = refused(words);
    let WireError::Command { error, .. } = refused else { panic!("{refused}") };
    error
}

#[test]
fn errors_name_the_command_and_the_closing_code() {
    assert_eq!(refused("0001 00"), WireError::ShortFrame);
    let error = refused("0007 0002 00000001");
    assert_eq!(error.to_string(), "unknown command Subscribe, version 2");
    assert_eq!(refused("0020 0001").to_string(), "unknown command 0x0020, version 1");
    assert_eq!(refused("8020 0001 00000001 0001").to_string(), "unknown command 0x8020, version 1");
    assert_eq!(
        refused("0006 0001 00000001").to_string(),
        "cannot decode DeletePublisher, version 1: the data ends before the field does"
    );
    let error = decode_frame(b"\0\0\x20\x01", 8192).expect_err("too large");
    assert_eq!(error.response_code(), ResponseCode::FRAME_TOO_LARGE);
    assert_eq!(error.to_string(), "frame too large: 8193 bytes, at most 8192 are allowed");
}

#[test]
fn a_command_in_the_wrong_direction_is_unknown() {
    let id = CommandId::request(Key::Deliver, 1);
    assert_eq!(refused("0008 0001 00"), WireError::UnknownCommand(id));
    let publish = bytes("0002 0001 00 00000000");
    let id = CommandId::request(Key::Publish, 1);
    assert_eq!(ToClient::decode(&publish), Err(WireError::UnknownCommand(id)));
    assert_eq!(split_id(&publish), Ok((id, &bytes("00 00000000")[..])));
}

#[test]
fn every_field_has_its_domain() {
    assert_eq!(field_error("000e 0001 00000001 0002 c328"), FieldError::NotUtf8);
    assert_eq!(field_error("000e 0001 00000001 fffe 00"), FieldError::NegativeLength(-2));
    assert_eq!(field_error("0006 0001 00000001 05 00"), FieldError::TrailingBytes);
    assert_eq!(field_error("0007 0001 00000001 05 0000 0006"), FieldError::UnknownOffsetType(6));
    let sasl = "0013 0001 00000001 0000";
    assert_eq!(field_error(&format!("{sasl} 80000000")), FieldError::NegativeLength(i32::MIN));
    assert_eq!(field_error(&format!("{sasl} 7fffffff")), FieldError::Truncated);
    let update = bytes("001a 0001 00000001 05 02");
    let command = CommandId::request(Key::ConsumerUpdate, 1);
    let error = FieldError::NotBoolean(2);
    assert_eq!(ToClient::decode(&update), Err(WireError::Command { command, error }));
}

#[test]
fn an_array_that_cannot_fit_is_refused_by_its_count() {
    assert_eq!(field_error("0002 0001 05 ffffffff"), FieldError::Truncated);
    let frame = bytes("000f 0001 00000001 00004001 0000 0000");
    let error = ToServer::decode(&frame).expect_err("more names than are taken");
    assert_eq!(error.response_code(), ResponseCode::FRAME_TOO_LARGE);
    assert_eq!(
        error.to_string(),
        "cannot decode Metadata, version 1: a list of 16385, at most 16384 are allowed"
    );
    assert_eq!(field_error("000f 0001 00000001 00004000 0000 0000"), FieldError::Truncated);
    assert_eq!(field_error("000f 0001 00000001 00000001 0000 0000"), FieldError::TrailingBytes);
}

#[test]
fn null_is_read_as_nothing_and_kept_for_filter_values() {
    let deleted = bytes("000e 0001 00000001 ffff");
    let empty = Delete { correlation_id: 1, stream: "" };
    assert_eq!(ToServer::decode(&deleted), Ok(ToServer::Delete(empty)));
    let sasl = bytes("0013 0001 00000001 0005 'PLAIN' ffffffff");
    let Ok(ToServer::SaslAuthenticate(sasl)) = ToServer::decode(&sasl) else { panic!("SASL") };
    assert_eq!(sasl.data, b"");
    let publish = bytes(
        "0002 0002 05 00000002 0000000000000001 ffff 00000000 0000000000000002 0000 00000000",
    );
    let Ok(ToServer::PublishV2(PublishV2 { messages, .. })) = ToServer::decode(&publish) else {
        panic!("a publish")
    };
    let filters: Vec<_> = messages.iter().map(|message| message.filter_value).collect();
    assert_eq!(filters, [None, Some(&b""[..])]);
}

#[test]
fn a_string_that_is_too_long_is_cut_between_characters() {
    let stream = format!("a{}", "é".repeat(STRING_BYTES_MAX));
    let mut out = Vec::new();
    ToServer::from(Delete { correlation_id: 1, stream: &stream }).encode_frame(&mut out);
    let (frame, _) = decode_frame(&out, 0).expect("a good frame").expect("a whole frame");
    let Ok(ToServer::Delete(delete)) = ToServer::decode(frame) else { panic!("a delete") };
    assert_eq!(delete.stream, &stream[..STRING_BYTES_MAX]);
}

#[test]
fn an_answer_to_a_consumer_update_may_go_on() {
    let answer = bytes("801a 0001 00000004 0001 0003 0000000000000000");
    let Ok(ToServer::ConsumerUpdateResponse(answer)) = ToServer::decode(&answer) else {
        panic!("an answer")
    };
    assert_eq!(answer.offset.0, OffsetSpec::Next);
}
