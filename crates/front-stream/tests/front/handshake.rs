//! From the client's properties to an open virtual host, and how that fails.

use crate::harness::{PORT, Talk, later};
use edge::{CloseMode, Mechanism, Tick};
use front_stream::Settings;
use proptest::prelude::*;
use streamproto::command::{
    Close, Heartbeat, Open, OpenResponse, PeerProperties, Property, SaslAuthenticate,
    SaslHandshake, Tune, TuneResponse,
};
use streamproto::{CodeResponse, Key, List, ResponseCode, ToClient};

fn code(key: Key, correlation_id: u32, code: ResponseCode) -> String {
    format!("{:?}", ToClient::Code(CodeResponse { key, correlation_id, code }))
}

fn login(data: &[u8]) -> SaslAuthenticate<'_> {
    SaslAuthenticate { correlation_id: 3, mechanism: "PLAIN", data }
}

#[test]
fn a_client_comes_in_step_by_step() {
    let settings = Settings { advertised_host: "hare".to_owned(), ..Settings::default() };
    let mut talk = Talk::new(settings);
    assert!(!talk.front.has_begun());
    talk.begin();
    let heard = talk.hears();
    assert!(heard[0].contains("key: \"product\", value: \"RabbitMQ\""), "{}", heard[0]);
    assert!(heard[1].contains("mechanisms: [\"PLAIN\", \"AMQPLAIN\"]"), "{}", heard[1]);
    talk.says(&login(b"\0me\0pw"));
    let tune = Tune { frame_max: 1_048_576, heartbeat_secs: 60 };
    let ok = ResponseCode::OK;
    assert_eq!(
        talk.hears(),
        [code(Key::SaslAuthenticate, 3, ok), format!("{:?}", ToClient::Tune(tune))]
    );
    talk.says(&TuneResponse { frame_max: 0, heartbeat_secs: 5 });
    assert_eq!(
        (talk.front.negotiated().frame_max, talk.front.negotiated().heartbeat_s),
        (1_048_576, 5)
    );
    talk.says(&Open { correlation_id: 9, virtual_host: "burrow" });
    let port = PORT.to_string();
    let properties = [
        Property { key: "advertised_host", value: "hare" },
        Property { key: "advertised_port", value: &port },
    ];
    let opened = OpenResponse { correlation_id: 9, code: ok, properties: List::of(&properties) };
    assert_eq!(talk.hears(), [format!("{:?}", ToClient::OpenResponse(opened))]);
    assert_eq!(talk.asked, ["login me pw", "open burrow"]);
    assert_eq!(talk.front.tick(later(12_499)), Tick::Idle(Some(later(12_500).monotonic_ms)));
    assert!(
        matches!(talk.front.tick(later(12_500)), Tick::Dead(_)),
        "it said nothing for 2.5 intervals"
    );
}

#[test]
fn a_login_that_is_refused_is_answered_after_three_seconds() {
    let mut talk = Talk::new(Settings::default());
    talk.begin();
    talk.hears();
    talk.refuses = true;
    talk.says(&login(b"\0me\0no"));
    let failed = code(Key::SaslAuthenticate, 3, ResponseCode::AUTHENTICATION_FAILURE);
    // It is not listened to meanwhile.
    talk.says(&login(b"\0me\0pw"));
    assert_eq!((talk.hears(), talk.hears_later(2_999), &talk.close_mode), (vec![], vec![], &None));
    assert_eq!(talk.hears_later(3_000), [failed]);
    assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
    assert_eq!(talk.asked, ["login me no"]);
}

#[test]
fn mechanisms_and_responses_are_checked() {
    for (mechanism, data, expected) in [
        ("SCRAM", &b"\0me\0pw"[..], ResponseCode::SASL_MECHANISM_NOT_SUPPORTED),
        ("ANONYMOUS", b"", ResponseCode::SASL_MECHANISM_NOT_SUPPORTED),
    ] {
        let mut talk = Talk::new(Settings::default());
        talk.begin();
        talk.hears();
        talk.says(&SaslAuthenticate { correlation_id: 7, mechanism, data });
        assert_eq!(talk.hears(), [code(Key::SaslAuthenticate, 7, expected)]);
        assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
        assert!(talk.front.failure().is_some() && talk.asked.is_empty());
    }
}

#[test]
fn a_malformed_response_is_answered_after_three_seconds() {
    for data in [&b"me"[..], b"\0me", b"eve\0me\0pw", b"\0me\0p\0w"] {
        let mut talk = Talk::new(Settings::default());
        talk.begin();
        talk.hears();
        talk.says(&login(data));
        assert_eq!((talk.hears(), talk.hears_later(2_999)), (vec![], vec![]));
        let answer = code(Key::SaslAuthenticate, 3, ResponseCode::SASL_ERROR);
        assert_eq!(talk.hears_later(3_000), [answer]);
        assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
    }
}

#[test]
fn a_challenge_is_answered() {
    let mechanisms = vec![Mechanism::CrDemo];
    let mut talk = Talk::new(Settings { mechanisms, ..Settings::default() });
    talk.begin();
    talk.hears();
    let mechanism = "RABBIT-CR-DEMO";
    talk.says(&SaslAuthenticate { correlation_id: 3, mechanism, data: b"me" });
    let heard = talk.hears();
    assert!(heard[0].contains("SaslAuthenticateResponse") && heard.len() == 1, "{heard:?}");
    talk.says(&SaslAuthenticate { correlation_id: 4, mechanism, data: b"My password is pw" });
    assert_eq!(talk.asked, ["login me pw"]);
    assert_eq!(talk.hears()[0], code(Key::SaslAuthenticate, 4, ResponseCode::OK));
}

#[test]
fn a_virtual_host_that_is_refused_is_answered_after_three_seconds() {
    let mut talk = Talk::new(Settings::default());
    talk.begin();
    talk.says(&login(b"\0me\0pw"));
    talk.says(&Tune { frame_max: 0, heartbeat_secs: 0 });
    talk.hears();
    talk.refuses = true;
    talk.says(&Open { correlation_id: 5, virtual_host: "x" });
    assert_eq!(talk.hears(), [""; 0]);
    assert!(talk.hears_later(3_000)[0].contains("ResponseCode(12)"));
    assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
    assert_eq!(talk.front.failure(), Some("no"));
}

#[test]
fn the_order_of_steps_is_kept_and_heartbeats_are_heard_at_any() {
    let mut talk = Talk::new(Settings::default());
    talk.says(&Heartbeat {});
    talk.says(&PeerProperties::default());
    talk.hears();
    talk.says(&Open { correlation_id: 1, virtual_host: "/" });
    assert_eq!(talk.hears(), [""; 0]);
    assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
    let mut talk = Talk::new(Settings::default());
    talk.says(&Close::default());
    assert_eq!(talk.hears(), [""; 0]);
    assert!(talk.close_mode.is_some());
}

#[test]
fn frames_are_small_until_a_virtual_host_is_open() {
    let mut talk = Talk::new(Settings::default());
    talk.begin();
    talk.says(&login(b"\0me\0pw"));
    talk.says(&Tune { frame_max: 1_000_000, heartbeat_secs: 0 });
    talk.hears();
    talk.sends(&8193_u32.to_be_bytes());
    assert_eq!(talk.hears(), [""; 0]);
    assert!(talk.close_mode.is_some());
    assert!(talk.front.failure().is_some_and(|why| why.contains("8192")));
}

#[test]
fn credentials_are_renewed_by_the_same_user_and_mechanism_alone() {
    let mut talk = Talk::open(Settings::default());
    talk.says(&login(b"\0me\0new"));
    talk.says(&SaslAuthenticate { correlation_id: 8, ..login(b"\0me\0newer") });
    assert_eq!(talk.asked, ["login me new", "login me newer"]);
    let ok = ResponseCode::OK;
    let answers = [3, 8].map(|id| code(Key::SaslAuthenticate, id, ok));
    assert_eq!(talk.hears(), answers);
    talk.says(&login(b"\0you\0new"));
    let refused = ResponseCode::SASL_CANNOT_CHANGE_USERNAME;
    assert_eq!(talk.hears_later(3_000), [code(Key::SaslAuthenticate, 3, refused)]);
    assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
    let mut talk = Talk::open(Settings::default());
    talk.says(&SaslAuthenticate { mechanism: "AMQPLAIN", ..login(b"") });
    let refused = ResponseCode::SASL_CANNOT_CHANGE_MECHANISM;
    assert_eq!(talk.hears_later(3_000), [code(Key::SaslAuthenticate, 3, refused)]);
    let mut talk = Talk::open(Settings::default());
    talk.refuses = true;
    talk.says(&login(b"\0me\0no"));
    let refused = ResponseCode::AUTHENTICATION_FAILURE;
    assert_eq!(talk.hears_later(3_000), [code(Key::SaslAuthenticate, 3, refused)]);
    assert!(talk.close_mode.is_some());
}

proptest! {
    /// However a conversation is cut into reads, the client is told the same.
    #[test]
    fn reads_may_be_cut_anywhere(cut in 1..40_usize) {
        let mut whole = Vec::new();
        for bytes in [
            crate::harness::frame(&PeerProperties { correlation_id: 1, ..PeerProperties::default() }),
            crate::harness::frame(&SaslHandshake { correlation_id: 2 }),
            crate::harness::frame(&login(b"\0me\0pw")),
            crate::harness::frame(&Tune { frame_max: 0, heartbeat_secs: 0 }),
            crate::harness::frame(&Open { correlation_id: 4, virtual_host: "/" }),
            crate::harness::frame(&Close { correlation_id: 5, ..Close::default() }),
        ] {
            whole.extend(bytes);
        }
        let (mut cut_up, mut at_once) = (Talk::new(Settings::default()), Talk::new(Settings::default()));
        whole.chunks(cut).for_each(|piece| cut_up.sends(piece));
        at_once.sends(&whole);
        prop_assert_eq!(cut_up.bytes(), at_once.bytes());
        prop_assert_eq!(&cut_up.asked, &at_once.asked);
        prop_assert_eq!(cut_up.asked.last().map(String::as_str), Some("1600000005 CloseConnection"));
    }
}
