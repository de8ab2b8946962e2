//! What must hold for any input of the AMQP 0-9-1 front. Shared by the fuzz target and by an ordinary
//! test of the crate, which needs no fuzzer.

use amqp091::method::{ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk};
use amqp091::{ProtocolHeader, decode_frame};
use edge::{Step, TaskOutbox as _, WriteBatch};
use front_amqp091::{Connection, Settings};
use session::{Content, Event, Op, Outbox, Request};
use std::io::IoSlice;
use std::sync::Arc;
use stdx::Now;

const NOW: Now = Now::at_ms(0);
const FRAME_MAX: u32 = 8192;

/// A client that says anything once it is let in, in reads whose size the first octet tells: spans
/// lie within the input, no more than a frame is ever kept, and everything answered is frames.
pub(crate) fn conversation(input: &[u8]) {
    let Some((&size, said)) = input.split_first() else { return };
    let mut front = Connection::new(Arc::new(Settings::default()), NOW);
    let outbox = front.outbox();
    let mut kept = Vec::new();
    let mut requests = Vec::new();
    for piece in hello().iter().map(Vec::as_slice).chain(said.chunks(usize::from(size) + 1)) {
        kept.extend_from_slice(piece);
        loop {
            let progress = front.read(NOW, &kept, &mut requests);
            for request in requests.drain(..) {
                check(&request, &kept);
                answer(&*outbox, request);
            }
            kept.drain(..progress.consumed);
            match progress.step {
                Step::Again => {}
                Step::Authenticate(_) => front.authenticated(Ok(())),
                Step::Open { .. } => front.opened(NOW, Ok(())),
                Step::More | Step::Close | Step::SpeaksOther => break,
            }
        }
        assert!(kept.len() <= FRAME_MAX as usize + 8);
    }
    let mut written = Vec::new();
    let mut batch = WriteBatch::default();
    while outbox.try_take(&mut batch) && batch.close_mode.is_none() {
        take(&mut batch, &mut written);
    }
    take(&mut batch, &mut written);
    let mut rest = &written[..];
    while !rest.is_empty() {
        let frame = decode_frame(rest, FRAME_MAX).expect("the server sends frames");
        rest = &rest[frame.expect("and whole ones").1..];
    }
}

fn hello() -> Vec<Vec<u8>> {
    let mut bytes = ProtocolHeader::encode_amqp([0, 0, 9, 1]).to_vec();
    let start_ok = ConnectionStartOk {
        mechanism: b"PLAIN",
        response: b"\0a\0b",
        ..ConnectionStartOk::default()
    };
    start_ok.encode_frame(0, &mut bytes);
    ConnectionTuneOk { channel_max: 9, frame_max: FRAME_MAX, heartbeat: 0 }
        .encode_frame(0, &mut bytes);
    ConnectionOpen::default().encode_frame(0, &mut bytes);
    ChannelOpen::default().encode_frame(1, &mut bytes);
    vec![bytes]
}

fn check(request: &Request, input: &[u8]) {
    let Request::Publish(publish) = request else { return };
    let (head, body) = match &publish.content {
        Content::Inline(body) => (input, body.of(input).len() == body.len as usize),
        Content::Owned(owned) => (&owned.head[..], true),
    };
    assert!(body, "the body lies outside of the input");
    for span in [publish.exchange, publish.routing_key, publish.properties] {
        assert_eq!(span.of(head).len(), span.len as usize);
    }
}

fn answer(outbox: &dyn Outbox, request: Request) {
    let Request::Control(control) = request else { return };
    let channel = control.channel;
    let origin = Some(control.origin);
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are not answered")]
    let event = match control.op {
        Op::OpenChannel => Event::ChannelOpened(channel),
        Op::CloseChannel => Event::ChannelClosed(channel),
        Op::FailChannel(error) => Event::ChannelFailed { channel, error, origin },
        Op::CloseConnection => Event::ConnectionClosed,
        Op::FailConnection(error) => Event::ConnectionFailed { channel: None, error, origin },
        _ => return,
    };
    let mut event = Some(event);
    let waker = outbox.batch(&mut |sink| {
        if let Some(event) = event.take() {
            sink.event(event);
        }
    });
    assert!(waker.is_none(), "nobody sleeps here");
}

fn take(batch: &mut WriteBatch, written: &mut Vec<u8>) {
    while !batch.is_written() {
        let mut slices = [IoSlice::new(&[]); 4];
        let n_slices = batch.fill(&mut slices);
        let before = written.len();
        for slice in &slices[..n_slices] {
            written.extend_from_slice(slice);
        }
        batch.advance(written.len() - before);
    }
}
