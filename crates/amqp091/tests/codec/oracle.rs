//! The client library's codec reads what this one writes, agrees on names, and writes the same
//! bytes.

use amq_protocol::frame::{AMQPFrame, BackToTheBuffer, SerializeFn, gen_frame, parse_frame};
use amqp091::content::{ContentHeader, encode_content_header};
use amqp091::method::FieldKind;
use amqp091::{Method, MethodId, PropertiesRef, ReplyCode, decode_frame};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::strategy::{FieldBytes, frame_of, method_payload, payload_of, properties, zero};

/// Fields the oracle neither shows nor lets be set: it reads them away and writes a default.
const HIDDEN: [&str; 8] = [
    "ticket",
    "out_of_band",
    "channel_id",
    "capabilities",
    "insist",
    "known_hosts",
    "cluster_id",
    "prefetch_size",
];

/// Not compared byte by byte: the oracle writes 1 into the ticket of access.request-ok.
const REQUEST_OK: MethodId = amqp091::method::AccessRequestOk::ID;

fn config() -> Config {
    Config { cases: 24, failure_persistence: None, ..Config::default() }
}

fn oracle_decode(frame: &[u8]) -> AMQPFrame {
    match parse_frame(frame) {
        Ok((rest, parsed)) => {
            assert!(rest.is_empty(), "the oracle leaves {} bytes", rest.len());
            parsed
        }
        Err(error) => panic!("the oracle cannot read {frame:02x?}: {error}"),
    }
}

fn oracle_encode(frame: &AMQPFrame, size: usize) -> Vec<u8> {
    fn write<W: std::io::Write + BackToTheBuffer>(
        encoder: impl SerializeFn<W>,
        out: W,
    ) -> Result<u64, String> {
        encoder(out.into()).map(|done| done.position).map_err(|error| error.to_string())
    }
    let mut out = vec![0; size + 16];
    let written = write(gen_frame(frame), &mut out[..]).expect("the buffer is large enough");
    out.truncate(usize::try_from(written).expect("no more than the buffer"));
    out
}

/// `connection.start-ok` becomes `Connection(StartOk(StartOk`, as the oracle's debug form begins.
fn debug_prefix(name: &str) -> String {
    let camel = |text: &str| -> String {
        text.split('-')
            .map(|word| {
                let (first, rest) = word.split_at(1);
                first.to_uppercase() + rest
            })
            .collect()
    };
    let (class, method) = name.split_once('.').expect("names have a class");
    format!("{}({method}({method}", camel(class), method = camel(method))
}

fn oracle_field_name(name: &str) -> &str {
    if name == "no_wait" { "nowait" } else { name }
}

fn debug_text(id: MethodId, fields: &[FieldBytes]) -> String {
    let AMQPFrame::Method(5, class) = oracle_decode(&frame_of(1, 5, &payload_of(id, fields)))
    else {
        panic!("{id} is not a method frame for the oracle");
    };
    format!("{class:?}")
}

#[test]
fn every_method_means_the_same_to_the_oracle_byte_by_byte() {
    for &id in MethodId::ALL.iter().filter(|&&id| id != REQUEST_OK) {
        let payloads = method_payload(id, |name| HIDDEN.contains(&name));
        let outcome = TestRunner::new(config()).run(&payloads, |payload| {
            let mut ours = Vec::new();
            Method::decode(&payload)?.encode_frame(5, &mut ours);
            let theirs = oracle_encode(&oracle_decode(&ours), ours.len());
            prop_assert_eq!(ours, theirs);
            Ok(())
        });
        assert_eq!(outcome, Ok(()), "{id}");
    }
}

#[test]
fn methods_and_fields_have_the_oracles_names_and_order() {
    for &id in MethodId::ALL {
        let fields = id.fields().expect("every method has fields, be it none");
        let zeros: Vec<FieldBytes> = fields.iter().map(|&(_, kind)| zero(kind)).collect();
        let text = debug_text(id, &zeros);
        let name = id.name().expect("every method has a name");
        assert!(text.starts_with(&debug_prefix(name)), "{name}: {text}");
        let theirs: Vec<&str> =
            text.split_whitespace().filter_map(|word| word.strip_suffix(':')).collect();
        let ours: Vec<&str> = fields
            .iter()
            .map(|&(name, _)| oracle_field_name(name))
            .filter(|name| !HIDDEN.contains(name))
            .collect();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn every_bit_stands_where_the_oracle_expects_it() {
    for &id in MethodId::ALL {
        let fields = id.fields().expect("every method has fields, be it none");
        for (at, &(name, kind)) in fields.iter().enumerate() {
            if kind != FieldKind::Bit || HIDDEN.contains(&name) {
                continue;
            }
            let mut values: Vec<FieldBytes> = fields.iter().map(|&(_, kind)| zero(kind)).collect();
            if let Some(value) = values.get_mut(at) {
                *value = FieldBytes::Bit(true);
            }
            let text = debug_text(id, &values);
            assert!(text.contains(&format!("{}: true", oracle_field_name(name))), "{id}: {text}");
            assert_eq!(text.matches(": true").count(), 1, "{id}: {text}");
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn content_headers_mean_the_same_to_the_oracle(properties in properties(), size: u32) {
        let raw = properties.to_bytes();
        let body_len = usize::try_from(size).unwrap_or(0);
        let mut ours = Vec::new();
        encode_content_header(5, PropertiesRef::parse(&raw)?, body_len, &mut ours);
        let parsed = oracle_decode(&ours);
        let AMQPFrame::Header(5, header) = &parsed else {
            return Err(TestCaseError::fail("not a header frame for the oracle"));
        };
        prop_assert_eq!(header.body_size, u64::from(size));
        prop_assert_eq!(*header.properties.delivery_mode(), properties.delivery_mode);
        prop_assert_eq!(*header.properties.timestamp(), properties.timestamp);
        let app_id = header.properties.app_id().as_ref().map(|text| text.as_str().as_bytes());
        prop_assert_eq!(app_id, properties.app_id.as_ref().map(|text| text.as_bytes()));
        let theirs = oracle_encode(&parsed, ours.len());
        let (frame, _) = decode_frame(&theirs, 0)?.expect("the oracle writes whole frames");
        let header = ContentHeader::decode(frame.payload)?;
        prop_assert_eq!(header.properties.to_owned()?, properties);
        prop_assert_eq!(ours, theirs);
    }
}

#[test]
fn reply_codes_have_the_oracles_names_and_severity() {
    use amq_protocol::protocol::{AMQPHardError, AMQPSoftError};
    for &code in ReplyCode::ALL.iter().filter(|&&code| code != ReplyCode::ReplySuccess) {
        let (soft, hard) =
            (AMQPSoftError::from_id(code.code()), AMQPHardError::from_id(code.code()));
        assert_eq!((soft.is_some(), hard.is_some()), (!code.is_hard(), code.is_hard()), "{code:?}");
        let name = soft.map(|e| e.to_string()).or_else(|| hard.map(|e| e.to_string()));
        let name = name.map(|name| name.replace('-', "_"));
        assert_eq!(name.as_deref(), Some(code.name()));
    }
}
