//! The windows beside a naive model that counts transfers without wrapping around.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum WindowEvent {
    /// The client sends a transfer.
    Receive,
    /// The server sends one if it may.
    Send,
    /// The client tells a window, not having seen this many of the transfers that were sent.
    Flow {
        n_unseen: u64,
        window: u32,
    },
    Hold(bool),
}

fn any_event() -> impl Strategy<Value = WindowEvent> {
    let window = prop_oneof![0..20_u32, Just(u32::MAX), any::<u32>()];
    prop_oneof![
        6 => Just(WindowEvent::Receive),
        6 => Just(WindowEvent::Send),
        2 => (0..30_u64, window).prop_map(|(n_unseen, window)| WindowEvent::Flow { n_unseen, window }),
        1 => any::<bool>().prop_map(WindowEvent::Hold),
    ]
}

fn session(next_outgoing_id: u32, incoming_window: u32) -> SessionWindows {
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: SerialNumber::new(next_outgoing_id),
        incoming_window,
        outgoing_window: 0,
        handle_max: u32::MAX,
        offered_capabilities: amqp10::Symbols::NONE,
        desired_capabilities: amqp10::Symbols::NONE,
        properties: amqp10::MapRef::EMPTY,
    };
    SessionWindows::new(&begin, false)
}

/// Transfers counted from the session's begin on.
struct NaiveWindows {
    n_received: u64,
    /// The number up to which the client may send.
    received_max: u64,
    is_held: bool,
    n_sent: u64,
    /// The number up to which the server may send.
    sent_max: u64,
}

#[expect(clippy::cast_possible_truncation, reason = "ids are the lowest bits")]
fn id(first: u32, n: u64) -> u32 {
    first.wrapping_add(n as u32)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_as_in_the_naive_model(
        (first_in, first_out) in prop_oneof![
            Just((0, 0)),
            (u32::MAX - 100..=u32::MAX, u32::MAX - 100..=u32::MAX),
            any::<(u32, u32)>(),
        ],
        window in 0..20_u32,
        events in prop::collection::vec(any_event(), 0..900),
    ) {
        let mut windows = session(first_in, window);
        windows.next_outgoing_id = SerialNumber::new(first_out);
        let mut naive = NaiveWindows {
            n_received: 0,
            received_max: INCOMING_WINDOW.into(),
            is_held: false,
            n_sent: 0,
            sent_max: window.into(),
        };
        for event in events {
            match event {
                WindowEvent::Receive => {
                    naive.n_received += 1;
                    let result = windows.receive_transfer();
                    if naive.n_received > naive.received_max + u64::from(INCOMING_WINDOW) {
                        prop_assert!(result.is_err());
                        return Ok(());
                    }
                    let left = naive.received_max.saturating_sub(naive.n_received);
                    let opens = left <= u64::from(INCOMING_WINDOW / 2) && !naive.is_held;
                    if opens {
                        naive.received_max = naive.n_received + u64::from(INCOMING_WINDOW);
                    }
                    prop_assert_eq!(result, Ok(opens));
                }
                WindowEvent::Send if windows.can_send() => {
                    naive.n_sent += 1;
                    windows.send_transfer();
                }
                WindowEvent::Send => {}
                WindowEvent::Flow { n_unseen, window } => {
                    let n_seen = naive.n_sent.saturating_sub(n_unseen);
                    naive.sent_max = naive.n_sent.max(n_seen + u64::from(window));
                    let flow = Flow::of_session(
                        SerialNumber::new(id(first_out, n_seen)),
                        window,
                        SerialNumber::new(id(first_in, naive.n_received)),
                        0,
                    );
                    prop_assert_eq!(windows.receive_flow(&flow), Ok(()));
                }
                WindowEvent::Hold(is_held) => {
                    if windows.hold(is_held) {
                        let n = if is_held { 0 } else { INCOMING_WINDOW };
                        naive.received_max = naive.n_received + u64::from(n);
                    }
                    naive.is_held = is_held;
                }
            }
            let told = windows.flow();
            let left = naive.received_max.saturating_sub(naive.n_received);
            prop_assert_eq!(u64::from(told.incoming_window), left);
            prop_assert_eq!(told.next_incoming_id.map(SerialNumber::bits), Some(id(first_in, naive.n_received)));
            prop_assert_eq!(told.next_outgoing_id.bits(), id(first_out, naive.n_sent));
            prop_assert_eq!(windows.can_send(), naive.sent_max > naive.n_sent);
        }
    }
}

#[test]
fn a_flow_that_leads_ends_the_session() {
    let mut windows = session(0, 10);
    let flow = Flow::of_session(SerialNumber::new(1), 5, SerialNumber::new(0), 0);
    let fault = windows.receive_flow(&flow).unwrap_err();
    assert_eq!(fault.condition, Condition::WindowViolation);
    assert_eq!(fault.text, "next-incoming-id from FLOW (1) leads next-outgoing-id (0)");
}

#[test]
fn a_client_that_has_not_seen_the_begin_counts_from_the_first_id() {
    let mut windows = session(0, 10);
    (0..3).for_each(|_| windows.send_transfer());
    let flow = Flow {
        next_incoming_id: None,
        ..Flow::of_session(SerialNumber::new(0), 4, SerialNumber::new(0), 0)
    };
    windows.receive_flow(&flow).unwrap();
    assert_eq!(windows.remote_incoming_window, 1);
}

#[test]
fn an_overrun_window_ends_the_session() {
    let mut windows = session(0, 0);
    windows.hold(true);
    for _ in 0..400 {
        assert_eq!(windows.receive_transfer(), Ok(false));
    }
    let fault = windows.receive_transfer().unwrap_err();
    assert_eq!(fault.text, "incoming window violation (tolerated excess tranfers: 400)");
}

/// All that a wide window let out may be on its way when the window is closed.
#[test]
fn a_wide_window_is_closed_without_loss() {
    let mut windows = session(0, 0);
    windows.make_room(1_000);
    // The room is more than twice of what is left.
    assert_eq!(windows.receive_transfer(), Ok(true));
    assert_eq!(windows.flow().incoming_window, 2_000);
    windows.hold(true);
    for _ in 0..2_000 {
        assert_eq!(windows.receive_transfer(), Ok(false));
    }
    let fault = windows.receive_transfer().unwrap_err();
    assert_eq!(fault.text, "incoming window violation (tolerated excess tranfers: 2000)");
}
