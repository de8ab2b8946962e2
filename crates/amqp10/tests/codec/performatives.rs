//! Performatives in bytes: as real peers send them, in the shortest form, and malformed.

use amqp10::{
    AmqpError, Attach, Begin, Condition, DecodeError, DeliveryOutcome, DeliveryState, DeliveryTag,
    Detach, Disposition, Flow, FrameType, LinkTarget, Modified, Open, Performative,
    ReceiverSettleMode, Role, SaslCode, SaslInit, SaslMechanisms, SaslOutcome, SaslPerformative,
    SenderSettleMode, SerialNumber, Symbol, Symbols, Transfer, ValueRef, decode_frame,
};

fn decode(bytes: &[u8]) -> (u16, Performative<'_>, &[u8]) {
    let (frame, used) = decode_frame(bytes, FrameType::Amqp, u32::MAX).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    let (performative, payload) = Performative::decode(frame.body).unwrap();
    (frame.channel, performative, payload)
}

fn encoded(performative: &Performative<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    performative.encode_frame(0, &mut out);
    out
}

/// Artemis writes capabilities as an array of eight-bit symbols, and nulls in between.
#[test]
fn open_of_artemis() {
    let bytes = b"\x00\x00\x00\x6f\x02\x00\x00\x00\x00S\x10\xc0\x62\x0a\xa1\x03foo@p\x00\x02\x00\x00`\xff\xff\
                  p\x00\x00u0@@\xe0\x14\x01\xa3\x11SHARED-SUBSCRIBER@\xc1\x33\x04\xa3\x07product\
                  \xa1\x17apache-activemq-artemis\xa3\x07version\xa1\x052.6.2";
    let (channel, performative, payload) = decode(bytes);
    assert_eq!((channel, payload), (0, &b""[..]));
    let Performative::Open(open) = performative else { panic!("{performative:?}") };
    assert_eq!((open.container_id, open.hostname), ("foo", None));
    assert_eq!((open.max_frame_size, open.channel_max), (131_072, 65_535));
    assert_eq!(open.idle_time_out, Some(30_000));
    assert!(open.offered_capabilities.contains("SHARED-SUBSCRIBER"));
    assert_eq!(open.desired_capabilities, Symbols::NONE);
    assert_eq!(open.properties.get("version"), Some(ValueRef::Str("2.6.2")));
}

/// Azure's library in C writes all numbers that it can in the longest form.
#[test]
fn begin_and_attach_of_azure() {
    let (_, begin, _) = decode(
        b"\x00\x00\x00\x1f\x02\x00\x00\x00\x00S\x11\xc0\x12\x05@Cp\x00\x01\x00\x00p\x00\x01\x00\x00p\xff\xff\xff\xff",
    );
    let Performative::Begin(begin) = begin else { panic!("{begin:?}") };
    assert_eq!((begin.remote_channel, begin.next_outgoing_id.bits()), (None, 0));
    assert_eq!((begin.incoming_window, begin.outgoing_window), (65_536, 65_536));
    assert_eq!(begin.handle_max, u32::MAX);
    let (_, attach, _) = decode(
        b"\x00\x00\x00\x3d\x02\x00\x00\x00\x00S\x12\xc0\x30\x0b\xa1\x0b$cbs-senderCBP\x00P\x00\
          \x00S(\xc0\x07\x01\xa1\x04$cbs\x00S)\xc0\x07\x01\xa1\x04$cbs@@CD",
    );
    let Performative::Attach(attach) = attach else { panic!("{attach:?}") };
    assert_eq!((attach.name, attach.handle, attach.role), ("$cbs-sender", 0, Role::Sender));
    assert_eq!(attach.snd_settle_mode, SenderSettleMode::Unsettled);
    assert_eq!(attach.rcv_settle_mode, ReceiverSettleMode::First);
    assert_eq!(attach.source.unwrap().address, Some(ValueRef::Str("$cbs")));
    let Some(LinkTarget::Terminus(target)) = attach.target else { panic!("{attach:?}") };
    assert_eq!(target.address, Some(ValueRef::Str("$cbs")));
    assert_eq!(attach.initial_delivery_count, Some(SerialNumber::new(0)));
    assert_eq!(attach.max_message_size, Some(0));
}

/// Rhea writes messages behind transfers with all of their fields.
#[test]
fn transfer_with_its_payload() {
    let (channel, performative, payload) = decode(
        b"\x00\x00\x00\x1b\x02\x00\x00\x05\x00\x53\x14\xc0\x08\x05\x43\x43\xa0\x01\x00\x43\x42\x00\x53\x75\xa0\x01\x7e",
    );
    let expected = Transfer {
        delivery_id: Some(SerialNumber::new(0)),
        delivery_tag: Some(DeliveryTag(b"\x00")),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::on(0)
    };
    assert_eq!((channel, performative), (5, Performative::Transfer(expected)));
    assert_eq!(payload, b"\x00\x53\x75\xa0\x01\x7e");
}

#[test]
fn sasl_frames() {
    let mechanisms = SaslMechanisms { sasl_server_mechanisms: Symbols::Listed(&["PLAIN"]) };
    let init = SaslInit {
        mechanism: Symbol("PLAIN"),
        initial_response: Some(b"\x00u\x00p"),
        hostname: None,
    };
    let outcome = SaslOutcome { code: SaslCode::Auth, additional_data: None };
    let cases: &[(SaslPerformative<'_>, &[u8])] = &[
        (
            SaslPerformative::Mechanisms(mechanisms),
            b"\x00\x00\x00\x18\x02\x01\x00\x00\x00\x53\x40\xc0\x0b\x01\xe0\x08\x01\xa3\x05PLAIN",
        ),
        (
            SaslPerformative::Init(init),
            b"\x00\x00\x00\x1b\x02\x01\x00\x00\x00\x53\x41\xc0\x0e\x02\xa3\x05PLAIN\xa0\x04\x00u\x00p",
        ),
        (
            SaslPerformative::Outcome(outcome),
            b"\x00\x00\x00\x10\x02\x01\x00\x00\x00\x53\x44\xc0\x03\x01\x50\x01",
        ),
    ];
    for (performative, bytes) in cases {
        let mut out = Vec::new();
        performative.encode_frame(&mut out);
        assert_eq!(out, *bytes, "{performative:?}");
        let (frame, _) = decode_frame(bytes, FrameType::Sasl, 512).unwrap().unwrap();
        assert_eq!(SaslPerformative::decode(frame.body).as_ref(), Ok(performative));
    }
    // A single symbol instead of an array, and bytes behind the performative.
    let single = b"\x00\x53\x40\xc0\x0a\x01\xa3\x07ANON-ER";
    assert_eq!(
        SaslPerformative::decode(single),
        Ok(SaslPerformative::Mechanisms(SaslMechanisms {
            sasl_server_mechanisms: Symbols::One("ANON-ER")
        }))
    );
    assert_eq!(
        SaslPerformative::decode(b"\x00\x53\x42\xc0\x03\x01\xa0\x00\x00"),
        Err(DecodeError::Count)
    );
}

#[test]
fn absent_fields_take_no_bytes_at_the_end_and_one_in_between() {
    let open = Open {
        container_id: "c",
        hostname: None,
        max_frame_size: u32::MAX,
        channel_max: u16::MAX,
        idle_time_out: None,
        outgoing_locales: Symbols::NONE,
        incoming_locales: Symbols::NONE,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: amqp10::MapRef::EMPTY,
    };
    let flow = Flow::of_session(SerialNumber::new(1), 400, SerialNumber::new(0), u32::MAX);
    let disposition = Disposition {
        role: Role::Receiver,
        first: SerialNumber::new(7),
        last: None,
        settled: true,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    };
    let cases: &[(Performative<'_>, &[u8])] = &[
        (Performative::Open(Box::new(open)), b"\x00\x53\x10\xc0\x04\x01\xa1\x01c"),
        (
            Performative::Open(Box::new(Open { channel_max: 63, ..open })),
            b"\x00\x53\x10\xc0\x09\x04\xa1\x01c\x40\x40\x60\x00\x3f",
        ),
        (
            Performative::Flow(flow),
            b"\x00\x53\x13\xc0\x0e\x04\x52\x01\x70\x00\x00\x01\x90\x43\x70\xff\xff\xff\xff",
        ),
        (
            Performative::Flow(Flow { handle: Some(0), link_credit: Some(170), ..flow }),
            b"\x00\x53\x13\xc0\x12\x07\x52\x01\x70\x00\x00\x01\x90\x43\x70\xff\xff\xff\xff\x43\x40\x52\xaa",
        ),
        (
            Performative::Disposition(disposition),
            b"\x00\x53\x15\xc0\x0a\x05\x41\x52\x07\x40\x41\x00\x53\x24\x45",
        ),
        (
            Performative::Detach(Detach {
                handle: 3,
                closed: true,
                error: Some(AmqpError {
                    description: None,
                    ..AmqpError::new(Condition::IllegalState, "")
                }),
            }),
            b"\x00\x53\x16\xc0\x1e\x03\x52\x03\x41\x00\x53\x1d\xc0\x15\x01\xa3\x12amqp:illegal-state",
        ),
    ];
    for (performative, body) in cases {
        let bytes = encoded(performative);
        assert_eq!(bytes[8..], **body, "{performative:?}");
        assert_eq!(decode(&bytes).1, *performative);
    }
}

#[test]
fn descriptors_may_be_names() {
    let body = b"\x00\xa3\x0famqp:close:list\x45";
    let close = Performative::Close(amqp10::Close { error: None });
    assert_eq!(Performative::decode(body), Ok((close, &b""[..])));
}

#[test]
fn states_of_other_standards_are_kept() {
    let state = b"\x00\x80\x00\x00\x46\x8c\x00\x00\x00\x04\x45";
    let body = [&b"\x00\x53\x15\xc0\x10\x05\x41\x43\x40\x41"[..], state].concat();
    let (performative, _) = Performative::decode(&body).unwrap();
    let Performative::Disposition(disposition) = performative else { panic!("{performative:?}") };
    assert!(matches!(disposition.state, Some(DeliveryState::Other(_))));
    assert_eq!(encoded(&Performative::Disposition(disposition))[8..], body);
}

#[test]
fn modified_keeps_its_annotations() {
    let body = b"\x00\x53\x15\xc0\x19\x05\x41\x43\x40\x41\x00\x53\x27\xc0\x0f\x03\x41\x40\xc1\x0a\x02\xa3\x05x-opt\x54\x05";
    let (performative, _) = Performative::decode(body).unwrap();
    let Performative::Disposition(disposition) = performative else { panic!("{performative:?}") };
    let Some(DeliveryState::Outcome(DeliveryOutcome::Modified(modified))) = disposition.state
    else {
        panic!("{disposition:?}")
    };
    let Modified { delivery_failed, undeliverable_here, message_annotations } = modified;
    assert!(delivery_failed && !undeliverable_here);
    assert_eq!(message_annotations.get("x-opt"), Some(ValueRef::I32(5)));
}

#[test]
fn malformed_performatives_are_refused() {
    // Lists in lists, one level deeper than is taken.
    let mut deep = vec![0x40];
    for _ in 0..40 {
        let inner = std::mem::take(&mut deep);
        amqp10::put_list(&mut deep, |items| match ValueRef::decode(&inner) {
            Ok((value, _)) => items.put(value),
            Err(_) => items.put(ValueRef::Null),
        });
        if ValueRef::decode(&deep).is_err() {
            break;
        }
    }
    let mut address =
        b"\x00\x53\x12\xd0\x00\x00\x00\x00\x00\x00\x00\x06\xa1\x01l\x43\x41\x40\x40".to_vec();
    let mut source = b"\x00\x53\x28\xd0\x00\x00\x00\x00\x00\x00\x00\x01".to_vec();
    source.extend_from_slice(&deep);
    let n = u32::try_from(source.len() - 8).unwrap();
    source[4..8].copy_from_slice(&n.to_be_bytes());
    address.extend_from_slice(&source);
    let n = u32::try_from(address.len() - 8).unwrap();
    address[4..8].copy_from_slice(&n.to_be_bytes());
    let cases: &[(&[u8], DecodeError)] = &[
        (b"", DecodeError::Truncated),
        (b"\x40", DecodeError::FieldType),
        (b"\x00", DecodeError::Truncated),
        (b"\x00\x53\x0f\x45", DecodeError::UnknownPerformative),
        (b"\x00\x53\x40\x45", DecodeError::UnknownPerformative),
        (b"\x00\xa3\x01x\x45", DecodeError::UnknownPerformative),
        (b"\x00\x43\x45", DecodeError::Descriptor),
        (b"\x00\x53\x18\xc1\x01\x00", DecodeError::FieldType),
        (b"\x00\x53\x10\x45", DecodeError::MissingField("container_id")),
        (b"\x00\x53\x10\xc0\x02\x01\x40", DecodeError::MissingField("container_id")),
        (b"\x00\x53\x10\xc0\x03\x01\xa1\x05", DecodeError::Truncated),
        (b"\x00\x53\x10\xc0\x04\x01\xa1\x01\xff", DecodeError::NotText),
        (b"\x00\x53\x10\xc0\x04\x01\xa3\x01a", DecodeError::FieldType),
        // A count of more items than bytes, of more than there are, and of fewer.
        (b"\x00\x53\x10\xd0\x00\x00\x00\x07\xff\xff\xff\xff\xa1\x01a", DecodeError::Count),
        (b"\x00\x53\x10\xc0\x04\x02\xa1\x01a", DecodeError::Truncated),
        (b"\x00\x53\x10\xc0\x05\x01\xa1\x01a\x40", DecodeError::Count),
        // A handle that is a long, a tag of 33 bytes, a mode that is none.
        (b"\x00\x53\x14\xc0\x02\x01\x44", DecodeError::FieldType),
        (
            b"\x00\x53\x14\xc0\x26\x03\x43\x43\xa0\x21abcdefghijklmnopqrstuvwxyz0123456",
            DecodeError::NotOfType,
        ),
        (b"\x00\x53\x12\xc0\x08\x04\xa1\x01l\x43\x41\x50\x03", DecodeError::NotOfType),
        // A state that is no described value, an odd map, an array of a billion nulls, symbols that are none.
        (b"\x00\x53\x15\xc0\x06\x05\x41\x43\x40\x41\x43", DecodeError::FieldType),
        (b"\x00\x53\x13\xc0\x11\x0b\x40\x43\x43\x43\x40\x40\x40\x40\x40\x40\xc1\x04\x03\x40\x40\x40", DecodeError::Count),
        (
            b"\x00\x53\x10\xc0\x12\x06\xa1\x01c\x40\x40\x40\x40\xf0\x00\x00\x00\x05\x3b\x9a\xca\x00\x40",
            DecodeError::TooManyElements,
        ),
        (b"\x00\x53\x10\xc0\x0e\x06\xa1\x01c\x40\x40\x40\x40\xe0\x04\x01\xa1\x01a", DecodeError::FieldType),
        (&address, DecodeError::TooDeep),
    ];
    for (bytes, error) in cases {
        assert_eq!(Performative::decode(bytes), Err(*error), "{bytes:x?}");
    }
}

#[test]
fn items_behind_the_last_field_are_passed_over() {
    let body = b"\x00\x53\x17\xc0\x04\x03\x40\x43\x41rest";
    let end = Performative::End(amqp10::End { error: None });
    assert_eq!(Performative::decode(body), Ok((end, &b"rest"[..])));
    assert_eq!(
        Performative::decode(b"\x00\x53\x17\xc0\x04\x03\x40\x43\x3f"),
        Err(DecodeError::UnknownConstructor(0x3f))
    );
}

/// The mandatory fields of sessions and links.
#[test]
fn begin_and_attach_without_options() {
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: SerialNumber::new(u32::MAX),
        incoming_window: 0,
        outgoing_window: 1,
        handle_max: u32::MAX,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: amqp10::MapRef::EMPTY,
    };
    let bytes = encoded(&Performative::Begin(Box::new(begin)));
    assert_eq!(bytes[8..], *b"\x00\x53\x11\xc0\x0a\x04\x40\x70\xff\xff\xff\xff\x43\x52\x01");
    let attach: Attach<'_> = crate::generated::attach();
    let bytes = encoded(&Performative::Attach(Box::new(attach)));
    assert_eq!(bytes[8..], *b"\x00\x53\x12\xc0\x06\x03\xa1\x01l\x43\x41");
}
