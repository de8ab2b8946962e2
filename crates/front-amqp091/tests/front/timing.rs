use crate::harness::{START, Talk, later};
use amqp091::frame::HEARTBEAT;
use edge::Tick;
use front_amqp091::Settings;
use session::{Error, ErrorKind, Event};
use stdx::MonotonicMs;

#[test]
fn the_client_hears_something_twice_per_interval() {
    let mut talk = Talk::new(Settings::default());
    talk.handshake(8);
    assert!(matches!(talk.front.tick(talk.now), Tick::Next(Some(_))));
    talk.now = later(START, 2_000);
    talk.front.tick(talk.now);
    // The answers of the handshake went out meanwhile.
    assert_eq!(talk.hears(), [""; 0]);
    talk.now = later(START, 4_000);
    assert_eq!(
        talk.front.tick(talk.now),
        Tick::Next(Some(MonotonicMs::from_raw(START.monotonic_ms.get() + 8_000)))
    );
    assert_eq!(talk.hears(), ["0 heartbeat"]);
    talk.now = later(START, 8_000);
    talk.front.tick(talk.now);
    assert_eq!(talk.hears(), ["0 heartbeat"]);
    talk.now = later(START, 12_000);
    talk.event(Event::Blocked { reason: "low on disk" });
    // Something was sent at a time that is not known.
    assert_eq!(
        talk.front.tick(talk.now),
        Tick::Next(Some(MonotonicMs::from_raw(START.monotonic_ms.get() + 14_000)))
    );
    assert_eq!(talk.hears(), ["0 connection.blocked low on disk"]);
    talk.now = later(START, 14_000);
    talk.front.tick(talk.now);
    assert_eq!(talk.hears(), ["0 heartbeat"]);
}

#[test]
fn a_silent_client_is_dead_after_two_and_a_half_intervals() {
    let mut talk = Talk::new(Settings::default());
    talk.handshake(10);
    talk.now = later(START, 20_000);
    talk.gets(&HEARTBEAT);
    talk.now = later(START, 44_999);
    assert!(!matches!(talk.front.tick(talk.now), Tick::Dead(_)));
    talk.now = later(START, 45_000);
    assert_eq!(talk.front.tick(talk.now), Tick::Dead("missed heartbeats from client"));
}

#[test]
fn a_client_that_is_not_listened_to_is_not_taken_for_dead() {
    let mut talk = Talk::new(Settings::default());
    talk.handshake(10);
    talk.front.set_reading(talk.now, false);
    talk.now = later(START, 1_000_000);
    assert!(!matches!(talk.front.tick(talk.now), Tick::Dead(_)));
    talk.front.set_reading(talk.now, true);
    assert!(!matches!(talk.front.tick(talk.now), Tick::Dead(_)));
    talk.now = later(talk.now, 25_000);
    assert!(matches!(talk.front.tick(talk.now), Tick::Dead(_)));
}

#[test]
fn a_handshake_and_a_close_have_their_time() {
    let mut talk = Talk::new(Settings::default());
    assert_eq!(
        talk.front.tick(START),
        Tick::Next(Some(MonotonicMs::from_raw(START.monotonic_ms.get() + 10_000)))
    );
    assert_eq!(talk.front.tick(later(START, 10_000)), Tick::Dead("handshake timeout"));
    let mut talk = Talk::open(Settings::default(), &[]);
    let error = Error::new(ErrorKind::ConnectionForced, "shutdown");
    talk.event(Event::ConnectionFailed { channel: None, error, origin: None });
    talk.gets(b"");
    assert!(!matches!(talk.front.tick(later(START, 29_999)), Tick::Dead(_)));
    assert!(matches!(talk.front.tick(later(START, 30_000)), Tick::Dead(_)));
    let mut talk = Talk::new(Settings::default());
    talk.handshake(4);
    let error = Error::new(ErrorKind::ConnectionForced, "shutdown");
    talk.event(Event::ConnectionFailed { channel: None, error, origin: None });
    talk.gets(b"");
    assert!(!matches!(talk.front.tick(later(START, 3_999)), Tick::Dead(_)));
    assert!(matches!(talk.front.tick(later(START, 4_000)), Tick::Dead(_)));
}

#[test]
fn a_connection_without_traffic_becomes_idle_once() {
    let mut talk = Talk::open(Settings::default(), &[1]);
    assert_eq!(
        talk.front.tick(START),
        Tick::Next(Some(MonotonicMs::from_raw(START.monotonic_ms.get() + 1000)))
    );
    assert_eq!(talk.front.tick(later(START, 1000)), Tick::Idle(None));
    assert_eq!(talk.front.tick(later(START, 5000)), Tick::Next(None));
    talk.front.wrote(later(START, 6000));
    assert_eq!(
        talk.front.tick(later(START, 6000)),
        Tick::Next(Some(MonotonicMs::from_raw(START.monotonic_ms.get() + 7000)))
    );
}
