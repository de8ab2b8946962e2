//! Threads deliver while one task takes: nothing is lost, nobody sleeps for ever.

use crate::harness::Talk;
use edge::{TaskOutbox as _, WriteBatch};
use front_amqp091::Settings;
use message::{Body, MessageRef};
use session::{Delivery, Flag, LinkId, Outbox, Position, Room};
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A task that sleeps on a condition variable.
#[derive(Default)]
struct Sleeper {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.bell.notify_one();
    }
}

impl Sleeper {
    fn sleep(&self) {
        let woken = self.woken.lock().unwrap();
        let limit = Duration::from_secs(20);
        let (mut woken, result) =
            self.bell.wait_timeout_while(woken, limit, |woken| !*woken).unwrap();
        assert!(!result.timed_out(), "the task was never woken");
        *woken = false;
    }
}

/// Links whose consumers found no room, as the broker keeps them.
#[derive(Default)]
struct Paused {
    links: Mutex<HashSet<LinkId>>,
    bell: Condvar,
}

impl Paused {
    fn wait_for(&self, link: LinkId) {
        let links = self.links.lock().unwrap();
        let limit = Duration::from_secs(20);
        let (_links, result) =
            self.bell.wait_timeout_while(links, limit, |links| links.contains(&link)).unwrap();
        assert!(!result.timed_out(), "link {} was never resumed", link.0);
    }
}

const N_LINKS: u64 = 3;
const N_EACH: u64 = 4_000;
const BODY: [u8; 1500] = [7; 1500];

#[test]
fn nothing_is_lost_between_full_and_drained() {
    let talk = Talk::open(Settings::default(), &[1]);
    for link in 1..=N_LINKS {
        talk.consume(1, link, "c", Flag::Yes);
    }
    let outbox = Arc::clone(&talk.outbox);
    let paused = Arc::new(Paused::default());
    std::thread::scope(|scope| {
        for link in 1..=N_LINKS {
            let (outbox, paused) = (Arc::clone(&outbox), Arc::clone(&paused));
            scope.spawn(move || deliver_all(LinkId(link), &*outbox, &paused));
        }
        let (sleeper, mut batch) = (Arc::new(Sleeper::default()), WriteBatch::default());
        let waker = Waker::from(Arc::clone(&sleeper));
        let mut n_bytes = 0;
        let frame_bytes = 8 + 4 + 2 + 8 + 1 + 3 + 4 + 8 + 14 + 8 + BODY.len();
        let expected = frame_bytes * usize::try_from(N_LINKS * N_EACH).unwrap();
        while n_bytes < expected {
            match outbox.poll_take(&mut Context::from_waker(&waker), &mut batch) {
                Poll::Ready(()) => {
                    n_bytes += batch.n_left();
                    batch.advance(batch.n_left());
                    let mut links = paused.links.lock().unwrap();
                    for link in batch.resume().drain(..) {
                        assert!(links.remove(&link), "resumed without being paused");
                    }
                    drop(links);
                    paused.bell.notify_all();
                }
                Poll::Pending => sleeper.sleep(),
            }
        }
        assert_eq!(n_bytes, expected);
        // The last ones may have found no room.
        while outbox.try_take(&mut batch) {
            for link in batch.resume().drain(..) {
                paused.links.lock().unwrap().remove(&link);
            }
            paused.bell.notify_all();
        }
    });
}

fn deliver_all(link: LinkId, outbox: &dyn Outbox, paused: &Paused) {
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
        paused.wait_for(link);
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
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
