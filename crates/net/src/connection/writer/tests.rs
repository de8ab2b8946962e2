//! Tasks deliver; inline wakers and the connection's task write: nothing is lost, no task sleeps for ever.

use super::{Flushed, N_OUTSIDE_WRITES_MAX, OUTSIDE_SPAN, OutsideWrites, Writer};
use crate::socket;
use edge::TaskOutbox as _;
use front_amqp091::{ClientOutbox, Connection, Settings};
use message::{Body, MessageRef};
use session::{ChannelId, Delivery, Event, LinkId, Outbox, Position, Room, ShortString, Sink};
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use stdx::Now;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

mod files;

const N_LINKS: u64 = 3;
const N_EACH: u64 = 8_000;
const BODY: [u8; 1500] = [7; 1500];
/// Method, content header and body frame of one delivery.
const FRAMES_BYTES: usize = 8 + 4 + 2 + 8 + 1 + 3 + 4 + 8 + 14 + 8 + BODY.len();
const PATIENCE: Duration = Duration::from_secs(60);

/// Links that found no room.
#[derive(Default)]
struct Paused {
    links: Mutex<HashSet<LinkId>>,
    changed: Notify,
}

impl Paused {
    async fn wait_until(&self, is_so: impl Fn(&HashSet<LinkId>) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so(&self.links.lock().unwrap()) {
                return;
            }
            changed.await;
        }
    }
}

fn outbox() -> Arc<ClientOutbox> {
    let now = Now::at_ms(0);
    let outbox = Connection::new(Arc::new(Settings::default()), now).outbox();
    let consumer_tag = ShortString::from_static("c");
    let waker = outbox.batch(&mut |sink: &mut dyn Sink| {
        sink.event(Event::ChannelOpened(ChannelId(1)));
        for link in 1..=N_LINKS {
            sink.event(Event::Attached {
                channel: ChannelId(1),
                link: LinkId(link),
                consumer_tag: &consumer_tag,
                no_ack: true,
                filters: None,
                answer: false,
            });
        }
    });
    assert!(waker.is_none(), "nobody sleeps yet");
    outbox
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

async fn deliver_all(link: LinkId, outbox: Arc<ClientOutbox>, paused: Arc<Paused>) {
    let message = MessageRef {
        exchange: b"ex",
        routing_key: b"key",
        properties: b"\0\0",
        body: Body::Borrowed(&BODY),
        persistent: false,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    };
    for position in 0..N_EACH {
        paused.wait_until(|links| !links.contains(&link)).await;
        let position = Position(position);
        let delivery = Delivery {
            position,
            redelivered: false,
            n_failed: 0,
            settled_by_write: false,
            message: &message,
        };
        let waker = outbox.batch(&mut |sink| {
            if sink.deliver(link, delivery) == Room::Full {
                paused.links.lock().unwrap().insert(link);
                paused.changed.notify_waiters();
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        // Few at first, so that they are written inline; then so many that the socket is full.
        if position.0 < N_EACH / 2 {
            tokio::task::yield_now().await;
        }
    }
}

async fn write_all(writer: Arc<Writer>, paused: Arc<Paused>) {
    let mut resume = Vec::new();
    loop {
        poll_fn(|cx| writer.poll_ready(cx)).await;
        while writer.flush(4, &mut resume).unwrap() == Flushed::TaskNeeded {
            let mut links = paused.links.lock().unwrap();
            for link in resume.drain(..) {
                assert!(links.remove(&link), "resumed without being paused");
            }
            drop(links);
            paused.changed.notify_waiters();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn everything_is_written_by_somebody() {
    let (mut client, server) = connected().await;
    let (_from_peer, to_peer) = socket::plain(server);
    let (outbox, paused) = (outbox(), Arc::new(Paused::default()));
    let writer = Writer::new(Some(to_peer), Arc::<ClientOutbox>::clone(&outbox));
    let writing = tokio::spawn(write_all(Arc::clone(&writer), Arc::clone(&paused)));
    let delivering: Vec<_> = (1..=N_LINKS)
        .map(|link| tokio::spawn(deliver_all(LinkId(link), outbox.clone(), paused.clone())))
        .collect();
    let opened_bytes = 8 + 4 + 4;
    let expected = opened_bytes + FRAMES_BYTES * usize::try_from(N_LINKS * N_EACH).unwrap();
    let reading = async {
        // Not before the socket is full.
        paused.wait_until(|links| !links.is_empty()).await;
        let (mut n_read, mut buffer) = (0, vec![0; 64 * 1024]);
        while n_read < expected {
            n_read += client.read(&mut buffer).await.unwrap();
        }
        n_read
    };
    let n_read = tokio::time::timeout(PATIENCE, reading).await.expect("somebody sleeps for ever");
    assert_eq!(n_read, expected);
    for one in delivering {
        one.await.unwrap();
    }
    assert!(writer.has_written());
    writing.abort();
}

/// Puts in a message that nobody acknowledges, as a publisher's thread does.
async fn deliver_unacknowledged(outbox: Arc<ClientOutbox>, position: u64) {
    let message = MessageRef {
        exchange: b"ex",
        routing_key: b"key",
        properties: b"\0\0",
        body: Body::Borrowed(&BODY),
        persistent: false,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    };
    let position = Position(position);
    let delivery = Delivery {
        position,
        redelivered: false,
        n_failed: 0,
        settled_by_write: true,
        message: &message,
    };
    let waker = outbox.batch(&mut |sink| {
        sink.deliver(LinkId(1), delivery);
    });
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn settled(outbox: &ClientOutbox) -> Vec<u64> {
    let mut settles = Vec::new();
    while outbox.take_settled(&mut settles) {}
    settles.iter().map(|settle| settle.position.0).collect()
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("somebody sleeps for ever")
}

/// The publisher's thread writes; the task sleeps, and hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_task_is_woken_by_what_another_thread_has_settled_by_writing_it() {
    let (mut client, server) = connected().await;
    let (_from_peer, to_peer) = socket::plain(server);
    let outbox = outbox();
    let writer = Writer::new(Some(to_peer), Arc::<ClientOutbox>::clone(&outbox));
    let mut resume = Vec::new();
    assert_eq!(writer.flush(4, &mut resume).unwrap(), Flushed::Done);
    for position in 0..100 {
        let mut ready = Box::pin(poll_fn(|cx| writer.poll_ready(cx)));
        let asleep = poll_fn(|cx| Poll::Ready(ready.as_mut().poll(cx).is_pending())).await;
        assert!(asleep, "nothing is to be done before message {position}");
        assert!(!outbox.has_settled());
        let delivering = tokio::spawn(deliver_unacknowledged(Arc::clone(&outbox), position));
        in_time(ready).await;
        delivering.await.unwrap();
        assert!(
            writer.take_written_inline() && !writer.take_written_inline(),
            "once for message {position}"
        );
        let flushed = writer.flush(4, &mut resume).unwrap();
        assert_eq!(flushed, Flushed::TaskNeeded, "message {position}");
        assert_eq!(settled(&outbox), [position]);
        assert_eq!(writer.flush(4, &mut resume).unwrap(), Flushed::Done);
        assert!(!writer.take_written_inline(), "that was the task itself");
        let mut frames = vec![0; if position == 0 { 16 } else { 0 } + FRAMES_BYTES];
        in_time(client.read_exact(&mut frames)).await.unwrap();
    }
}

/// A thread that is not the runtime's writes what it has put in, while nobody polls the task.
#[tokio::test]
async fn thread_outside_the_runtime_writes_itself() {
    let (mut client, server) = connected().await;
    let (_from_peer, to_peer) = socket::plain(server);
    let outbox = outbox();
    let writer = Writer::new(Some(to_peer), Arc::<ClientOutbox>::clone(&outbox));
    assert_eq!(writer.flush(4, &mut Vec::new()).unwrap(), Flushed::Done);
    let asleep = poll_fn(|cx| Poll::Ready(writer.poll_ready(cx).is_pending())).await;
    assert!(asleep, "nothing is to be done yet");
    let sending = std::thread::spawn(move || {
        let mut delivering = Box::pin(deliver_unacknowledged(outbox, 0));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(delivering.as_mut().poll(&mut cx).is_ready());
    });
    in_time(client.read_exact(&mut [0; 16 + FRAMES_BYTES])).await.unwrap();
    sending.join().unwrap();
    assert!(writer.take_written_inline());
}

#[test]
fn thread_outside_the_runtime_writes_seldom() {
    let now = std::time::Instant::now();
    let mut writes = OutsideWrites { since: None, n: 0 };
    for span in 0..3 {
        let now = now + OUTSIDE_SPAN * span;
        let n_admitted = (0..100).filter(|_| writes.admit(now)).count();
        assert_eq!(u32::try_from(n_admitted).unwrap(), N_OUTSIDE_WRITES_MAX, "in span {span}");
        assert!(!writes.admit(now + OUTSIDE_SPAN - Duration::from_nanos(1)));
    }
}

/// A delivery that does not fit the socket is not settled, and one that fits is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_does_not_read_is_not_settled() {
    const N: u64 = 20_000;
    let (mut client, server) = connected().await;
    let (_from_peer, to_peer) = socket::plain(server);
    let outbox = outbox();
    let writer = Writer::new(Some(to_peer), Arc::<ClientOutbox>::clone(&outbox));
    for position in 0..N {
        deliver_unacknowledged(Arc::clone(&outbox), position).await;
    }
    assert!(!outbox.has_settled(), "nothing was written");
    let mut resume = Vec::new();
    // More than any socket holds on its own.
    assert_eq!(writer.flush(4, &mut resume).unwrap(), Flushed::TaskNeeded);
    let mut all = settled(&outbox);
    assert!(!all.is_empty() && (all.len() as u64) < N, "{} were settled", all.len());
    assert!(writer.is_behind());
    let (mut n_read, mut buffer) = (0, vec![0; 64 * 1024]);
    let n_bytes = 16 + FRAMES_BYTES * usize::try_from(N).unwrap();
    while n_read < n_bytes {
        tokio::select! {
            n = in_time(client.read(&mut buffer)) => n_read += n.unwrap(),
            () = poll_fn(|cx| writer.poll_ready(cx)) => {
                while writer.flush(4, &mut resume).unwrap() == Flushed::TaskNeeded {
                    all.extend(settled(&outbox));
                    resume.clear();
                }
            }
        }
    }
    while writer.flush(4, &mut resume).unwrap() == Flushed::TaskNeeded {
        all.extend(settled(&outbox));
        resume.clear();
    }
    assert_eq!(all, (0..N).collect::<Vec<_>>());
}
