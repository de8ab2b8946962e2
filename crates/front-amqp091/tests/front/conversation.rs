use crate::harness::{Talk, publish};
use amqp091::content::{encode_body, encode_content_header};
use amqp091::method::{
    AccessRequest, BasicAck, BasicGet, BasicNack, BasicPublish, BasicQos, BasicRecover,
    BasicReject, ChannelClose, ChannelCloseOk, ChannelFlow, ChannelOpen, ConfirmSelect,
    ConnectionClose, ConnectionUpdateSecret, ExchangeDelete, QueueDeclare, QueueDelete,
};
use amqp091::{PropertiesRef, TableRef};
use edge::{CloseMode, Step};
use front_amqp091::{Immediate, Settings};
use session::{ChannelId, Error, ErrorKind, Event, Flag};

fn open(channels: &[u16]) -> Talk {
    Talk::open(Settings::default(), channels)
}

#[test]
fn a_small_publish_is_taken_where_it_lies() {
    let mut talk = open(&[1]);
    let mut bytes = publish(1, "k", b"\x10\0\x02", b"hello", 131_072);
    bytes.extend(publish(1, "k2", b"\x08\0\x05", b"", 131_072));
    talk.gets(&bytes);
    assert_eq!(
        talk.asked,
        [
            "publish ch1 ex/k [10, 0, 2] 5 bytes 99162322 persistent",
            "publish ch1 ex/k2 [8, 0, 5] 0 bytes 0 inspect",
        ]
    );
}

#[test]
fn large_and_interleaved_publishes_are_gathered() {
    let mut talk = open(&[1, 2]);
    let method = BasicPublish { routing_key: b"a", mandatory: true, ..BasicPublish::default() };
    let mut bytes = Vec::new();
    method.encode_frame(1, &mut bytes);
    bytes.extend(publish(2, "b", b"\0\0", b"between", 131_072));
    encode_content_header(1, PropertiesRef::EMPTY, 6, &mut bytes);
    encode_body(1, b"abc", 131_072, &mut bytes);
    bytes.extend(publish(2, "b", b"\0\0", &[7; 300_000], 131_072));
    encode_body(1, b"def", 131_072, &mut bytes);
    talk.gets(&bytes);
    let sum = |n: usize| (0..n).fold(0_u32, |sum, _| sum.wrapping_mul(31) + 7);
    assert_eq!(
        talk.asked,
        [
            "publish ch2 ex/b [0, 0] 7 bytes 4078332936".to_owned(),
            format!("publish ch2 ex/b [0, 0] 300000 bytes {}", sum(300_000)),
            "publish ch1 /a [0, 0] 6 bytes 2870581347 mandatory".to_owned(),
        ]
    );
}

#[test]
fn a_body_over_the_limit_is_read_and_then_refused() {
    let settings = Settings { message_bytes_max: 1000, ..Settings::default() };
    let mut talk = Talk::open(settings, &[1]);
    let bytes = publish(1, "k", b"\0\0", &[0; 20_000], 8192);
    let (most, rest) = bytes.split_at(bytes.len() - 1);
    talk.gets(most);
    assert_eq!(talk.hears(), [""; 0]);
    talk.gets(rest);
    talk.gets(&publish(1, "k", b"\0\0", b"ignored", 8192));
    assert_eq!(
        talk.hears(),
        ["1 channel.close 406 PRECONDITION_FAILED - message size 20000 is larger than configured \
          max size 1000 (60,40)"]
    );
    assert_eq!(talk.asked.len(), 1);
    let mut header = Vec::new();
    BasicPublish::default().encode_frame(2, &mut header);
    encode_content_header(2, PropertiesRef::EMPTY, (512 << 20) + 1, &mut header);
    talk.says(2, ChannelOpen::default());
    talk.bytes();
    talk.gets(&header);
    assert_eq!(
        talk.hears(),
        ["0 connection.close 501 FRAME_ERROR - content body size 536870913 exceeds maximum \
          allowed size 536870912 (60,40)"]
    );
}

#[test]
fn a_channel_is_opened_closed_and_opened_again() {
    let mut talk = open(&[5]);
    talk.says(5, ChannelClose::default());
    assert_eq!(talk.hears(), ["5 channel.close-ok"]);
    talk.says(5, ChannelOpen::default());
    assert_eq!(talk.hears(), ["5 channel.open-ok"]);
    talk.says(5, ChannelOpen::default());
    assert_eq!(
        talk.hears(),
        ["0 connection.close 504 CHANNEL_ERROR - second 'channel.open' seen (20,10)"]
    );
}

#[test]
fn nothing_counts_on_a_channel_the_server_closed_until_the_client_has_answered() {
    let mut talk = open(&[1]);
    let error = Error::new(ErrorKind::NotFound, "no exchange 'ex' in vhost '/'");
    talk.event(Event::ChannelFailed { channel: ChannelId(1), error, origin: None });
    assert_eq!(
        talk.hears(),
        ["1 channel.close 404 NOT_FOUND - no exchange 'ex' in vhost '/' (60,40)"]
    );
    talk.gets(&publish(1, "k", b"\0\0", &[1; 100_000], 8192));
    talk.says(1, BasicAck { delivery_tag: 9, multiple: false });
    assert_eq!(talk.asked, [""; 0]);
    talk.says(1, ChannelCloseOk {});
    talk.says(1, ChannelOpen::default());
    assert_eq!(talk.hears(), ["1 channel.open-ok"]);
}

/// Frames that a thread may still send while another closes the channel, or hears that it is closed: all
/// methods but those two that begin and end it, well-formed or not, and messages whole and in parts.
fn late_frames(channel: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for class in [10, 20, 30, 40, 50, 60, 70, 85, 90_u16] {
        for method in 0..=121_u16 {
            if !matches!((class, method), (20, 10 | 40)) {
                bytes.extend([1, 0, channel.to_le_bytes()[0], 0, 0, 0, 8]);
                bytes.extend([class.to_be_bytes(), method.to_be_bytes(), [1, 1], [0, 1]].concat());
                bytes.push(0xCE);
            }
        }
    }
    BasicAck { delivery_tag: 9, multiple: false }.encode_frame(channel, &mut bytes);
    bytes.extend(publish(channel, "k", b"\0\0", b"small", 8192));
    bytes.extend(publish(channel, "k", b"\0\0", &[1; 100_000], 8192));
    encode_body(channel, b"more", 8192, &mut bytes);
    encode_content_header(channel, PropertiesRef::EMPTY, 5, &mut bytes);
    bytes
}

#[test]
fn nothing_counts_on_a_channel_that_was_closed_until_it_is_opened_again() {
    for closed_by_server in [false, true] {
        for at_once in [false, true] {
            let mut talk = open(&[1, 100]);
            let mut bytes = Vec::new();
            if closed_by_server {
                let error = Error::new(ErrorKind::NotFound, "gone");
                let channel = ChannelId(100);
                talk.event(Event::ChannelFailed { channel, error, origin: None });
                assert_eq!(talk.hears(), ["100 channel.close 404 NOT_FOUND - gone (60,40)"]);
                bytes.extend(late_frames(100));
                ChannelCloseOk {}.encode_frame(100, &mut bytes);
            } else {
                ChannelClose::default().encode_frame(100, &mut bytes);
            }
            if !at_once {
                talk.gets(&std::mem::take(&mut bytes));
            }
            bytes.extend(late_frames(100));
            for piece in bytes.chunks(3000) {
                talk.gets(piece);
            }
            let answered: &[&str] = if closed_by_server { &[] } else { &["100 channel.close-ok"] };
            assert_eq!(talk.hears(), answered);
            talk.says(100, ChannelClose::default());
            talk.says(100, ChannelOpen::default());
            assert_eq!(talk.hears(), ["100 channel.close-ok", "100 channel.open-ok"]);
            talk.says(1, BasicQos::default());
            assert_eq!(talk.hears(), ["1 basic.qos-ok"]);
            talk.says(2, BasicQos::default());
            let close = "0 connection.close 504 CHANNEL_ERROR - expected 'channel.open' (60,10)";
            assert_eq!(talk.hears(), [close]);
        }
    }
}

/// Settlements of nothing leave no request behind them, and hold the outbox.
#[test]
fn a_close_behind_settlements_of_nothing_is_answered() {
    let mut talk = open(&[1, 2]);
    talk.says(1, ChannelClose::default());
    assert_eq!(talk.hears(), ["1 channel.close-ok"]);
    let mut bytes = Vec::new();
    BasicAck { delivery_tag: 0, multiple: true }.encode_frame(2, &mut bytes);
    ChannelClose::default().encode_frame(1, &mut bytes);
    talk.gets(&bytes);
    assert_eq!(talk.hears(), ["1 channel.close-ok"]);
}

#[test]
fn closes_that_cross_are_both_answered() {
    let mut talk = open(&[1]);
    let error = Error::new(ErrorKind::NotFound, "gone");
    talk.event(Event::ChannelFailed { channel: ChannelId(1), error, origin: None });
    talk.says(1, ChannelClose::default());
    assert_eq!(
        talk.hears(),
        ["1 channel.close 404 NOT_FOUND - gone (60,40)", "1 channel.close-ok"]
    );
    talk.says(1, ChannelCloseOk {});
    talk.says(1, ChannelOpen::default());
    // The same for clients that forget to answer the server's close.
    let error = Error::new(ErrorKind::NotFound, "gone");
    talk.event(Event::ChannelFailed { channel: ChannelId(1), error, origin: None });
    talk.says(1, ChannelClose::default());
    talk.bytes();
    talk.says(1, ChannelOpen::default());
    assert_eq!(talk.hears(), ["1 channel.open-ok"]);
}

#[test]
fn errors_of_the_client_stand_in_line_with_its_requests() {
    let mut talk = open(&[1]);
    let mut bytes = Vec::new();
    ConfirmSelect { no_wait: false }.encode_frame(1, &mut bytes);
    BasicAck { delivery_tag: 3, multiple: false }.encode_frame(1, &mut bytes);
    ConfirmSelect { no_wait: false }.encode_frame(1, &mut bytes);
    ChannelOpen::default().encode_frame(2, &mut bytes);
    talk.gets(&bytes);
    assert_eq!(
        talk.hears(),
        [
            "1 confirm.select-ok",
            "1 channel.close 406 PRECONDITION_FAILED - unknown delivery tag 3 (60,80)",
            "2 channel.open-ok",
        ]
    );
}

#[test]
fn a_close_is_answered_after_everything_before() {
    let mut talk = open(&[1]);
    let mut bytes = Vec::new();
    BasicQos { prefetch_count: 5, ..BasicQos::default() }.encode_frame(1, &mut bytes);
    ConnectionClose { reply_code: 200, ..ConnectionClose::default() }.encode_frame(0, &mut bytes);
    bytes.extend(publish(1, "late", b"\0\0", b"x", 8192));
    assert!(matches!(talk.gets(&bytes), Step::Close));
    assert_eq!(talk.asked.len(), 2);
    assert_eq!(talk.hears(), ["1 basic.qos-ok", "0 connection.close-ok"]);
    assert_eq!(talk.close_mode, Some(CloseMode::Hold(30_000)));
}

#[test]
fn it_is_the_client_that_closes_the_socket_after_the_answer_to_its_close() {
    for (heartbeat_s, ms) in [(0, 30_000), (1, 1_000), (29, 29_000), (30, 30_000), (600, 30_000)] {
        let mut talk = Talk::new(Settings::default());
        talk.handshake(heartbeat_s);
        talk.says(0, ConnectionClose::default());
        assert_eq!(talk.hears(), ["0 connection.close-ok"]);
        assert_eq!(talk.close_mode, Some(CloseMode::Hold(ms)), "heartbeat {heartbeat_s} s");
    }
}

#[test]
fn connection_closes_that_cross_end_the_connection() {
    let mut talk = open(&[1]);
    let error = Error::new(ErrorKind::ConnectionForced, "broker forced connection closure");
    talk.event(Event::ConnectionFailed { channel: None, error, origin: None });
    talk.gets(&publish(1, "late", b"\0\0", &[0; 50_000], 131_072));
    assert!(matches!(talk.says(0, ConnectionClose::default()), Step::Close));
    assert_eq!(
        talk.hears(),
        [
            "0 connection.close 320 CONNECTION_FORCED - broker forced connection closure (0,0)",
            "0 connection.close-ok",
        ]
    );
    assert_eq!(talk.asked, [""; 0]);
}

#[test]
fn what_needs_no_broker_is_answered_in_turn() {
    let mut talk = open(&[1]);
    let mut bytes = Vec::new();
    ConfirmSelect { no_wait: false }.encode_frame(1, &mut bytes);
    ChannelFlow { active: true }.encode_frame(1, &mut bytes);
    AccessRequest::default().encode_frame(1, &mut bytes);
    talk.gets(&bytes);
    assert_eq!(talk.hears(), ["1 confirm.select-ok", "1 channel.flow-ok", "1 access.request-ok"]);
}

#[test]
fn requests_carry_what_was_asked() {
    let mut talk = open(&[1]);
    let declare = QueueDeclare {
        queue: b"ab",
        durable: true,
        no_wait: true,
        arguments: TableRef::parse(b"\x01xt\x01").unwrap(),
        ..QueueDeclare::default()
    };
    talk.says(1, declare);
    talk.says(1, ExchangeDelete { exchange: b"e", if_unused: true, ..ExchangeDelete::default() });
    talk.says(1, QueueDelete { queue: b"q", if_empty: true, ..QueueDelete::default() });
    talk.says(0, ConnectionUpdateSecret { new_secret: b"s", reason: b"r" });
    assert_eq!(
        talk.asked,
        [
            "ch1 DeclareQueue(QueueDeclaration { queue: \"ab\", passive: false, durable: true, \
             exclusive: false, auto_delete: false, arguments: Table([(\"x\", Bool(true))]) }) nowait",
            "ch1 DeleteExchange { exchange: \"e\", if_unused: true }",
            "ch1 DeleteQueue { queue: \"q\", if_unused: No, if_empty: Yes }",
            "ch0 UpdateSecret { secret: [115] }",
        ]
    );
    let hears = talk.bytes();
    assert!(crate::harness::frames(&hears).contains(&"0 connection.update-secret-ok".to_owned()));
}

#[test]
fn settlements_become_the_messages_they_settle() {
    let mut talk = open(&[1, 2]);
    talk.consume(1, 7, "c", Flag::No);
    talk.consume(2, 8, "c", Flag::No);
    for position in 0..5 {
        talk.deliver(7, position * 10, message::Body::Borrowed(b"x"));
        talk.deliver(8, position, message::Body::Borrowed(b"x"));
    }
    talk.says(1, BasicNack { delivery_tag: 2, multiple: true, requeue: true });
    talk.says(1, BasicReject { delivery_tag: 4, requeue: true });
    talk.says(1, BasicReject { delivery_tag: 3, requeue: false });
    talk.says(2, BasicAck { delivery_tag: 0, multiple: true });
    assert_eq!(
        talk.asked,
        [
            "Released ch1 link7 at0",
            "Released ch1 link7 at10",
            "Modified ch1 link7 at30",
            "Rejected ch1 link7 at20",
            "Accepted ch2 link8 at0",
            "Accepted ch2 link8 at1",
            "Accepted ch2 link8 at2",
            "Accepted ch2 link8 at3",
            "Accepted ch2 link8 at4",
        ]
    );
    talk.bytes();
    talk.says(2, BasicAck { delivery_tag: 0, multiple: true });
    assert_eq!(talk.hears(), [""; 0]);
    talk.says(2, BasicAck { delivery_tag: 5, multiple: true });
    let close = "2 channel.close 406 PRECONDITION_FAILED - unknown delivery tag 5 (60,80)";
    assert_eq!(talk.hears(), [close]);
    talk.says(1, BasicAck { delivery_tag: 0, multiple: false });
    let close = "1 channel.close 406 PRECONDITION_FAILED - unknown delivery tag 0 (60,80)";
    assert_eq!(talk.hears(), [close]);
}

/// The flag is read on both decoding paths: the fast one, and frame by frame.
#[test]
fn an_immediate_publish_is_accepted_if_configured() {
    let settings = Settings { immediate: Immediate::Honour, ..Settings::default() };
    let mut talk = Talk::open(settings, &[1]);
    let method = BasicPublish { routing_key: b"k", immediate: true, ..BasicPublish::default() };
    let mut bytes = Vec::new();
    method.encode_frame(1, &mut bytes);
    encode_content_header(1, PropertiesRef::EMPTY, 6, &mut bytes);
    encode_body(1, b"abcdef", 131_072, &mut bytes);
    method.encode_frame(1, &mut bytes);
    encode_content_header(1, PropertiesRef::EMPTY, 6, &mut bytes);
    encode_body(1, b"abc", 131_072, &mut bytes);
    encode_body(1, b"def", 131_072, &mut bytes);
    talk.gets(&bytes);
    assert_eq!(talk.asked.len(), 2);
    for asked in &talk.asked {
        assert!(asked.ends_with(" immediate inspect"), "{asked}");
    }
}

#[test]
fn features_the_server_does_not_have_end_the_connection() {
    let cases: [(amqp091::Method<'_>, &str); 5] = [
        (
            BasicPublish { immediate: true, ..BasicPublish::default() }.into(),
            "immediate=true (60,40)",
        ),
        (BasicRecover { requeue: false }.into(), "requeue=false (60,110)"),
        (amqp091::method::BasicRecoverAsync::default().into(), "requeue=false (60,100)"),
        (ChannelFlow { active: false }.into(), "active=false (20,20)"),
        (
            BasicQos { prefetch_size: 1, ..BasicQos::default() }.into(),
            "prefetch_size!=0 (1) (60,10)",
        ),
    ];
    for (method, text) in cases {
        let mut talk = open(&[1]);
        talk.says(1, method);
        assert_eq!(talk.hears(), [format!("0 connection.close 540 NOT_IMPLEMENTED - {text}")]);
    }
}

#[test]
fn what_a_get_is_about_to_bring_can_be_settled_in_the_same_read() {
    let mut talk = open(&[1]);
    let mut bytes = Vec::new();
    for delivery_tag in 1..=2 {
        BasicGet::default().encode_frame(1, &mut bytes);
        BasicReject { delivery_tag, requeue: true }.encode_frame(1, &mut bytes);
    }
    BasicAck { delivery_tag: 3, multiple: false }.encode_frame(1, &mut bytes);
    talk.gets(&bytes);
    assert_eq!(
        talk.hears(),
        [
            "1 basic.get-ok 1 left 0",
            "1 header 0",
            "1 basic.get-ok 2 left 0",
            "1 header 0",
            "1 channel.close 406 PRECONDITION_FAILED - unknown delivery tag 3 (60,80)",
        ]
    );
    assert_eq!(talk.asked.len(), 5, "two of each, and the failure: {:?}", talk.asked);
}
