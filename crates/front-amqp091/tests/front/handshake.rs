use crate::harness::{Talk, client_properties};
use amqp091::method::{
    BasicAck, ChannelOpen, ConnectionOpen, ConnectionSecureOk, ConnectionStartOk, ConnectionTuneOk,
};
use amqp091::{Method, ProtocolHeader, TableRef, decode_frame};
use edge::{AuthFailure, CloseMode, Proof, Step};
use front_amqp091::{Mechanism, Settings};
use session::{Error, ErrorKind, Negotiated};

fn start_ok<'a>(
    properties: &'a [u8],
    mechanism: &'a str,
    response: &'a [u8],
) -> ConnectionStartOk<'a> {
    ConnectionStartOk {
        client_properties: TableRef::trusted(properties),
        mechanism: mechanism.as_bytes(),
        response,
        locale: b"en_US",
    }
}

fn started() -> Talk {
    let mut talk = Talk::new(Settings::default());
    talk.gets(&ProtocolHeader::encode_amqp([0, 0, 9, 1]));
    talk.bytes();
    talk
}

#[test]
fn the_server_introduces_itself() {
    let mut talk = Talk::new(Settings::default());
    // 0-9 is taken for 0-9-1.
    talk.gets(&ProtocolHeader::encode_amqp([1, 1, 0, 9]));
    let bytes = talk.bytes();
    let (frame, _) = decode_frame(&bytes, 8192).unwrap().unwrap();
    let Method::ConnectionStart(start) = Method::decode(frame.payload).unwrap() else {
        panic!("not a start");
    };
    assert_eq!((start.version_major, start.version_minor), (0, 9));
    assert_eq!(start.mechanisms, b"PLAIN AMQPLAIN");
    assert_eq!(start.locales, b"en_US");
    let text = |name: &[u8]| start.server_properties.get(name).unwrap().as_bytes().unwrap();
    assert_eq!((text(b"product"), text(b"version")), (&b"RabbitMQ"[..], &b"4.4.0"[..]));
    let capabilities = start.server_properties.get(b"capabilities").unwrap().as_table().unwrap();
    assert_eq!(capabilities.iter().count(), 9);
    assert_eq!(capabilities.get(b"basic.nack").unwrap().as_bool(), Some(true));
}

#[test]
fn other_protocols_are_told_ours_and_closed() {
    for header in [*b"AMQP\0\0\x0a\0", *b"AMQP\x03\x01\0\0", *b"GET / HT", *b"whatever"] {
        let mut talk = Talk::new(Settings::default());
        assert!(matches!(talk.gets(&header), Step::Close));
        assert_eq!(talk.hears(), ["AMQP [0, 0, 9, 1]"]);
        assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
        assert!(matches!(talk.gets(b"more"), Step::Close));
        assert_eq!(talk.input, b"");
    }
}

/// Where AMQP 1.0 is served beside, its clients are handed over before anything is said, and all others but
/// those of old versions are told of it.
#[test]
fn clients_of_amqp10_are_handed_over_where_it_is_served() {
    let beside = || {
        let mut talk = Talk::new(Settings::default());
        talk.front = talk.front.beside_amqp10(true);
        talk
    };
    let mut talk = beside();
    assert!(matches!(talk.gets(b"AMQP\x03\x01\0\0"), Step::SpeaksOther));
    assert_eq!((talk.bytes(), talk.input.as_slice()), (vec![], &b"AMQP\x03\x01\0\0"[..]));
    let others = [
        (*b"AMQP\0\x01\0\0", "AMQP [3, 1, 0, 0]"),
        (*b"AMQP\x02\x01\0\0", "AMQP [3, 1, 0, 0]"),
        (*b"whatever", "AMQP [3, 1, 0, 0]"),
        (*b"AMQP\x01\x01\x08\0", "AMQP [0, 0, 9, 1]"),
        (*b"AMQP\0\0\x0a\0", "AMQP [0, 0, 9, 1]"),
    ];
    for (header, answer) in others {
        let mut talk = beside();
        assert!(matches!(talk.gets(&header), Step::Close));
        assert_eq!(talk.hears(), [answer]);
    }
}

#[test]
fn a_login_is_handed_out_and_negotiation_kept() {
    let mut talk = started();
    let properties = client_properties().to_bytes();
    let step = talk.says(0, start_ok(&properties, "PLAIN", b"\0bob\0secret"));
    let Step::Authenticate(login) = step else { panic!("{step:?}") };
    assert_eq!(login.mechanism, "PLAIN");
    assert_eq!((login.user.as_str(), login.proof.password()), ("bob", Some(&b"secret"[..])));
    assert_eq!(login.client_properties, client_properties());
    assert!(!format!("{login:?}").contains("secret"));
    talk.front.authenticated(Ok(()));
    assert_eq!(talk.hears(), ["0 connection.tune"]);
    talk.says(0, ConnectionTuneOk { channel_max: 10, frame_max: 8192, heartbeat: 600 });
    let agreed = Negotiated { channel_max: 10, frame_max: 8192, heartbeat_s: 600 };
    assert_eq!(talk.front.negotiated(), agreed);
}

#[test]
fn a_refused_login_is_explained_only_to_those_who_can_read_it() {
    let properties = client_properties().to_bytes();
    for (properties, hears) in [
        (
            &properties[..],
            &["0 connection.close 403 ACCESS_REFUSED - Login was refused using authentication \
               mechanism AMQPLAIN. For details see the broker logfile. (0,0)"][..],
        ),
        (b"", &[]),
    ] {
        let mut talk = started();
        let response = b"\x05LOGINS\0\0\0\x03bob\x08PASSWORDS\0\0\0\x01x";
        let step = talk.says(0, start_ok(properties, "AMQPLAIN", response));
        assert!(matches!(step, Step::Authenticate(_)));
        talk.front.authenticated(Err(AuthFailure::Refused));
        assert_eq!(talk.hears(), hears);
        assert_eq!(talk.close_mode, Some(CloseMode::Hold(3000)));
    }
}

#[test]
fn mechanisms_that_are_not_offered_are_unknown() {
    for (name, what) in
        [("ANONYMOUS", "invalid"), ("RABBIT-CR-DEMO", "invalid"), ("CRAM", "unknown")]
    {
        let mut talk = started();
        assert!(matches!(talk.says(0, start_ok(b"", name, b"")), Step::Close));
        let close = format!(
            "0 connection.close 503 COMMAND_INVALID - {what} authentication mechanism '{name}' \
             (10,11)"
        );
        assert_eq!(talk.hears(), [close]);
    }
    let mechanisms = vec![Mechanism::Anonymous];
    let mut talk = Talk::new(Settings { mechanisms, ..Settings::default() });
    talk.gets(&ProtocolHeader::encode_amqp([0, 0, 9, 1]));
    assert!(matches!(talk.says(0, start_ok(b"", "ANONYMOUS", b"x")), Step::Authenticate(_)));
}

#[test]
fn a_password_is_asked_for() {
    let mechanisms = vec![Mechanism::CrDemo];
    let challenged = || {
        let mut talk =
            Talk::new(Settings { mechanisms: mechanisms.clone(), ..Settings::default() });
        talk.gets(&ProtocolHeader::encode_amqp([0, 0, 9, 1]));
        talk.bytes();
        talk.says(0, start_ok(&client_properties().to_bytes(), "RABBIT-CR-DEMO", b"bob"));
        let bytes = talk.bytes();
        let (frame, _) = decode_frame(&bytes, 8192).unwrap().unwrap();
        let Method::ConnectionSecure(secure) = Method::decode(frame.payload).unwrap() else {
            panic!("not a challenge");
        };
        assert_eq!(secure.challenge, b"Please tell me your password");
        talk
    };
    let mut talk = challenged();
    let step = talk.says(0, ConnectionSecureOk { response: b"My password is secret" });
    let Step::Authenticate(login) = step else { panic!("{step:?}") };
    assert_eq!((login.user.as_str(), login.proof.password()), ("bob", Some(&b"secret"[..])));
    assert_eq!(login.client_properties, client_properties());
    talk.front.authenticated(Ok(()));
    assert_eq!(talk.hears(), ["0 connection.tune"]);
    let mut talk = challenged();
    expect_silence(&mut talk, |talk| talk.says(0, ConnectionSecureOk { response: b"secret" }));
}

/// A malformed response fails as a login, and is held in silence whatever the client can read.
fn expect_silence(talk: &mut Talk, say: impl FnOnce(&mut Talk) -> Step) {
    let step = say(talk);
    let Step::Authenticate(login) = step else { panic!("{step:?}") };
    assert!(matches!(login.proof, Proof::Malformed));
    talk.front.authenticated(Err(AuthFailure::Malformed));
    assert_eq!(talk.hears(), [""; 0]);
    assert_eq!(talk.close_mode, Some(CloseMode::Hold(3000)));
}

#[test]
fn malformed_responses_are_held_in_silence() {
    let properties = client_properties().to_bytes();
    for (mechanism, response) in [
        ("PLAIN", &b"\0bob"[..]),
        ("PLAIN", b""),
        ("PLAIN", b"eve\0bob\0secret"),
        ("PLAIN", b"\0bob\0sec\0ret"),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x03bob"),
        ("AMQPLAIN", b"\x05LOG"),
    ] {
        let start_ok = start_ok(&properties, mechanism, response);
        expect_silence(&mut started(), |talk| talk.says(0, start_ok));
    }
}

#[test]
fn values_out_of_range_end_the_handshake_in_silence() {
    for (channel_max, frame_max, text) in [
        (0, 131_072, "negotiated channel_max = 0 is higher than the maximum allowed value (2047)"),
        (2048, 0, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (1, 0, "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"),
        (1, 8191, "negotiated frame_max = 8191 is lower than the minimum allowed value (8192)"),
    ] {
        let mut talk = started();
        talk.says(0, start_ok(b"", "PLAIN", b"\0a\0b"));
        talk.front.authenticated(Ok(()));
        talk.bytes();
        let tune_ok = ConnectionTuneOk { channel_max, frame_max, heartbeat: 0 };
        assert!(matches!(talk.says(0, tune_ok), Step::Close));
        assert_eq!(talk.hears(), [""; 0]);
        assert_eq!(talk.close_mode, Some(CloseMode::Hold(3000)));
        assert_eq!(talk.front.failure(), Some(text));
    }
}

#[test]
fn an_unknown_vhost_is_refused_and_the_close_answered() {
    let mut talk = started();
    talk.says(0, start_ok(b"", "PLAIN", b"\0a\0b"));
    talk.front.authenticated(Ok(()));
    talk.bytes();
    talk.says(0, ConnectionTuneOk { channel_max: 1, frame_max: 8192, heartbeat: 0 });
    talk.says(0, ConnectionOpen { virtual_host: b"nope", ..ConnectionOpen::default() });
    talk.front.opened(talk.now, Err(Error::new(ErrorKind::NotAllowed, "vhost nope not found")));
    let close = "0 connection.close 530 NOT_ALLOWED - vhost nope not found (10,40)";
    assert_eq!(talk.hears(), [close]);
    assert_eq!(talk.close_mode, None);
    assert!(matches!(talk.says(0, amqp091::method::ConnectionCloseOk {}), Step::Close));
    talk.bytes();
    assert_eq!(talk.close_mode, Some(CloseMode::Linger(1000)));
}

#[test]
fn methods_out_of_turn_are_refused() {
    let unexpected = "unexpected method in connection state starting";
    let mut talk = started();
    talk.says(0, ConnectionOpen::default());
    let close = format!("0 connection.close 504 CHANNEL_ERROR - {unexpected} (10,40)");
    assert_eq!(talk.hears(), [close]);
    let mut talk = started();
    talk.says(1, ChannelOpen::default());
    let close = "0 connection.close 505 UNEXPECTED_FRAME - the connection is not open yet (0,0)";
    assert_eq!(talk.hears(), [close]);
}

#[test]
fn a_frame_that_is_too_large_before_tuning_is_refused_at_its_header() {
    let mut talk = started();
    talk.gets(&[1, 0, 0, 0, 0, 0x40, 0]);
    let hears = talk.hears();
    assert!(hears[0].starts_with("0 connection.close 501 FRAME_ERROR - type 1"), "{hears:?}");
    assert!(matches!(talk.says(1, BasicAck::default()), Step::Close));
}
