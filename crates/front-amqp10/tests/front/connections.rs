//! Connections and sessions: from the first byte to the last.

use crate::harness::{M, Talk, begin, consumer, flow, init, open, publisher, whole};
use amqp10::{Close, End, Open, Performative, ProtocolLayer};
use edge::Mechanism;
use front_amqp10::ConnectionSettings;

#[test]
fn a_connection_opens_and_closes() {
    let mut talk = Talk::new(ConnectionSettings::default());
    talk.log_in();
    let bytes = talk.bytes();
    assert_eq!(bytes[..8], ProtocolLayer::Sasl.header());
    let mechanisms = b"\x00\x53\x40\xc0\x14\x01\xe0\x11\x02\xa3\x05PLAIN\x08AMQPLAIN";
    assert_eq!(bytes[16..16 + mechanisms.len()], *mechanisms);
    assert!(
        bytes.ends_with(b"\x02\x01\x00\x00\x00\x53\x44\xc0\x03\x01\x50\x00AMQP\x00\x01\x00\x00")
    );
    talk.says(&Performative::Open(Box::new(Open { hostname: Some("vhost:v"), ..open() })));
    assert_eq!(talk.hears(), ["open leveret"]);
    assert_eq!(talk.takes_asked(), ["login me", "open v"]);
    assert_eq!(talk.front.client().unwrap().channel_max, 63);
    talk.says(&Performative::Close(Close { error: None }));
    assert_eq!(talk.hears(), [""; 0]);
    assert_eq!(talk.takes_asked(), ["close"]);
    talk.front.closed();
    assert_eq!(talk.hears(), ["close"]);
    assert!(talk.front.close_mode().is_some());
}

#[test]
fn the_servers_open_tells_its_limits() {
    let mut talk = Talk::new(ConnectionSettings {
        capabilities: vec!["ANONYMOUS-RELAY"],
        ..ConnectionSettings::default()
    });
    talk.log_in();
    talk.says(&Performative::Open(Box::new(Open {
        channel_max: 7,
        hostname: Some("host"),
        ..open()
    })));
    assert_eq!(talk.takes_asked(), ["login me", "open /"]);
    let mut n_opens = 0;
    talk.hears_each(|_, performative, _| {
        let Performative::Open(open) = performative else { panic!("{performative:?}") };
        assert_eq!((open.max_frame_size, open.channel_max), (131_072, 7));
        assert_eq!(open.idle_time_out, Some(30_000));
        assert!(open.offered_capabilities.contains("ANONYMOUS-RELAY"));
        assert_eq!(open.properties.get("product"), Some(amqp10::ValueRef::Str("RabbitMQ")));
        n_opens += 1;
    });
    assert_eq!(n_opens, 1);
}

#[test]
fn what_is_no_sasl_is_told_that_sasl_comes_first() {
    for header in [&b"AMQP\x00\x01\x00\x00"[..], b"AMQP\x02\x01\x00\x00", b"GET / HTTP/1.1\r\n"] {
        let mut talk = Talk::new(ConnectionSettings::default());
        talk.sends(header);
        assert_eq!(talk.bytes(), ProtocolLayer::Sasl.header());
        assert!(talk.front.close_mode().is_some());
    }
}

#[test]
fn a_refused_login_is_told_after_a_while() {
    for (mechanism, response, refuses) in
        [("PLAIN", &b"\0me\0no"[..], true), ("NONE", b"", false), ("PLAIN", b"me", false)]
    {
        let mut talk = Talk::new(ConnectionSettings::default());
        talk.refuses = refuses;
        talk.sends(&ProtocolLayer::Sasl.header());
        talk.sends(&init(mechanism, response));
        talk.bytes();
        talk.front.tell_refusal();
        assert!(talk.bytes().ends_with(b"\x00\x53\x44\xc0\x03\x01\x50\x01"));
        assert!(talk.front.close_mode().is_some() && talk.front.failure().is_some());
    }
}

#[test]
fn a_challenge_is_answered() {
    let mechanisms = vec![Mechanism::CrDemo];
    let mut talk = Talk::new(ConnectionSettings { mechanisms, ..ConnectionSettings::default() });
    talk.sends(&ProtocolLayer::Sasl.header());
    talk.sends(&init("RABBIT-CR-DEMO", b"me"));
    assert_eq!(talk.takes_asked(), [""; 0]);
    let mut answer = Vec::new();
    let response = amqp10::SaslResponse { response: b"My password is pw" };
    amqp10::SaslPerformative::Response(response).encode_frame(&mut answer);
    talk.sends(&answer);
    assert_eq!(talk.takes_asked(), ["login me"]);
}

#[test]
fn a_wrong_open_is_told_with_an_open_and_a_close() {
    let cases = [
        (
            Open { max_frame_size: 511, ..open() },
            "close amqp:frame-size-too-small 'max_frame_size (511) < minimum maximum frame size (512)'",
        ),
        (
            Open { idle_time_out: Some(999), ..open() },
            "close amqp:not-allowed 'idle-time-out (999 ms) < minimum idle-time-out (1000 ms)'",
        ),
    ];
    for (open, close) in cases {
        let mut talk = Talk::new(ConnectionSettings::default());
        talk.log_in();
        talk.says(&Performative::Open(Box::new(open)));
        assert_eq!(talk.hears(), ["open leveret", close]);
    }
    let mut talk = Talk::new(ConnectionSettings::default());
    talk.log_in();
    talk.refuses = true;
    talk.says(&Performative::Open(Box::new(open())));
    assert_eq!(talk.hears(), ["open leveret", "close amqp:not-found 'no'"]);
    // The client answers, and the connection ends.
    talk.says(&Performative::Close(Close { error: None }));
    assert!(talk.front.close_mode().is_some());
}

#[test]
fn sessions_begin_and_end_on_their_channels() {
    let mut talk = Talk::begun();
    talk.says_on(5, &Performative::Begin(Box::new(begin())));
    assert_eq!(talk.hears(), ["begin Some(5) on 5"]);
    talk.says_on(5, &Performative::End(End { error: None }));
    assert_eq!(talk.hears(), ["end on 5"]);
    assert_eq!(talk.takes_asked(), ["begin 5", "end 5"]);
    // A frame for a session that is gone is passed over, and the channel may be used again.
    talk.says_on(5, &Performative::Flow(flow(0, 0)));
    talk.says_on(5, &Performative::Begin(Box::new(begin())));
    assert_eq!(talk.hears(), ["begin Some(5) on 5"]);
}

#[test]
fn a_fault_ends_its_session_alone() {
    let mut talk = Talk::begun();
    talk.says_on(1, &Performative::Begin(Box::new(begin())));
    talk.says(&Performative::Begin(Box::new(begin())));
    assert_eq!(
        talk.hears(),
        ["begin Some(1) on 1", "end amqp:illegal-state 'channel 0 has a session already'"]
    );
    // Until the client's end nothing counts on that channel; the other one goes on.
    talk.says(&Performative::Flow(amqp10::Flow { echo: true, ..flow(0, 0) }));
    talk.says_on(1, &Performative::Flow(amqp10::Flow { echo: true, ..flow(0, 0) }));
    assert_eq!(talk.hears(), ["flow 0+400 on 1"]);
    talk.says(&Performative::End(End { error: None }));
    talk.says(&Performative::Begin(Box::new(begin())));
    assert_eq!(talk.hears(), ["begin Some(0)"]);
}

#[test]
fn faults_that_close_the_connection() {
    let framing = "close amqp:connection:framing-error";
    let cases: &[(&[u8], String)] = &[
        (
            b"\x00\x03\x0d\x40\x02\x00\x00\x00",
            format!("{framing} 'frame size (200000 bytes) > maximum frame size (131072 bytes)'"),
        ),
        (
            b"\x00\x00\x00\x08\x02\x01\x00\x00",
            format!("{framing} 'unexpected frame type 1 in amqp mode (expected 0)'"),
        ),
        (
            b"\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x53\x77",
            format!("{framing} 'a frame has no known performative'"),
        ),
        (
            b"\x00\x00\x00\x0c\x02\x00\x00\x40\x00\x53\x17\x45",
            format!("{framing} 'channel number (64) exceeds maximum channel number (63)'"),
        ),
    ];
    for (bytes, close) in cases {
        let mut talk = Talk::begun();
        talk.sends(bytes);
        assert_eq!(talk.hears(), [close.as_str()]);
        assert_eq!(talk.takes_asked(), ["close"]);
    }
    let mut talk = Talk::begun();
    talk.says(&Performative::Open(Box::new(open())));
    assert_eq!(talk.hears(), ["close amqp:illegal-state 'the connection is open already'"]);
}

#[test]
fn an_alarm_closes_the_windows_of_all_sessions() {
    let mut talk = Talk::begun();
    talk.says(&Performative::Attach(Box::new(publisher(0))));
    talk.says(&Performative::Attach(Box::new(consumer(1))));
    talk.hears();
    talk.front.hold(true);
    talk.front.hold(true);
    assert_eq!(talk.hears(), ["flow 0+0"]);
    talk.transfers(whole(0, 0), M);
    assert_eq!(talk.published.len(), 1);
    talk.says_on(1, &Performative::Begin(Box::new(begin())));
    talk.hears_each(|channel, performative, _| {
        let Performative::Begin(begin) = performative else { panic!("{performative:?}") };
        assert_eq!((channel, begin.incoming_window), (1, 0));
    });
    talk.front.hold(false);
    assert_eq!(talk.hears(), ["flow 1+400", "flow 0+400 on 1"]);
}
