//! The classic queue's core.

use crate::{N_OPERATIONS, Piece, Work};
use queue::{AckMode, Checkout, ConsumerKey, CreditMode, Fifo, MessageAttrs, QueuePolicy, Return};
use std::hint::black_box;
use stdx::UnixMs;

pub(crate) const PIECES: &[Piece] = &[
    ("queue/auto-ack", auto_ack),
    ("queue/backlog", backlog),
    ("queue/deadlines", deadlines),
    ("queue/eight-consumers", eight_consumers),
    ("queue/expire", expire),
    ("queue/priorities", priorities),
    ("queue/requeue", requeue),
    ("queue/settle", || settle(1)),
    ("queue/settle-backwards", || settle(-1)),
];

fn consumer(fifo: &mut Fifo, settling: AckMode, prefetch: Option<u32>) -> ConsumerKey {
    fifo.consumers_mut().attach(Checkout {
        settling,
        credit_mode: CreditMode::of_prefetch(prefetch),
        priority: 0,
    })
}

/// Everything that is ready goes to consumers.
fn deliver(fifo: &mut Fifo) {
    while let Some(assigned) = fifo.next_delivery() {
        black_box(assigned);
    }
}

fn auto_ack() -> Work {
    let mut fifo = Fifo::new();
    consumer(&mut fifo, AckMode::Auto, None);
    Box::new(move || {
        fifo.enqueue(N_OPERATIONS);
        deliver(&mut fifo);
    })
}

/// A backlog: no consumer takes the messages; then one takes them message by message.
fn backlog() -> Work {
    let mut fifo = Fifo::new();
    let consumer = fifo.consumers_mut().attach_passive();
    Box::new(move || {
        for _ in 0..N_OPERATIONS {
            fifo.enqueue(1);
        }
        while fifo.take(consumer, AckMode::Auto).is_some() {}
    })
}

/// Every message is delivered and settled, in the order of delivery or against it.
fn settle(direction: i8) -> Work {
    let mut fifo = Fifo::new();
    let consumer = consumer(&mut fifo, AckMode::Manual, None);
    Box::new(move || {
        let first = fifo.enqueue(N_OPERATIONS);
        deliver(&mut fifo);
        for n in 0..N_OPERATIONS {
            let n = if direction > 0 { n } else { N_OPERATIONS - 1 - n };
            fifo.settle(consumer, black_box(first + n)).expect("it is held");
        }
    })
}

/// Consumers with a prefetch limit take turns.
fn eight_consumers() -> Work {
    let mut fifo = Fifo::new();
    for _ in 0..8 {
        consumer(&mut fifo, AckMode::Manual, Some(10));
    }
    Box::new(move || {
        fifo.enqueue(N_OPERATIONS);
        while let Some(assigned) = fifo.next_delivery() {
            fifo.settle(assigned.consumer, assigned.position).expect("it is held");
        }
    })
}

/// Every message is delivered, given back, delivered again and settled.
fn requeue() -> Work {
    let mut fifo = Fifo::new();
    let consumer = consumer(&mut fifo, AckMode::Manual, Some(100));
    let mut gone = Vec::new();
    Box::new(move || {
        fifo.enqueue(N_OPERATIONS);
        while let Some(first) = fifo.next_delivery() {
            fifo.give_back(
                consumer,
                first.position,
                Return::Released,
                UnixMs::from_raw(0),
                &mut gone,
            )
            .expect("it is held");
            let again = fifo.next_delivery().expect("it is back");
            fifo.settle(consumer, again.position).expect("it is held");
        }
    })
}

/// Messages of five priorities in turn are delivered and settled.
fn priorities() -> Work {
    let mut fifo = Fifo::with_policy(QueuePolicy { priority_max: 4, ..QueuePolicy::default() });
    let consumer = consumer(&mut fifo, AckMode::Manual, None);
    Box::new(move || {
        for n in 0..N_OPERATIONS {
            let priority = (n * 3 % 5) as u8;
            fifo.put(&MessageAttrs { priority, ..MessageAttrs::default() }, UnixMs::from_raw(0));
        }
        while let Some(assigned) = fifo.next_delivery() {
            fifo.settle(consumer, assigned.position).expect("it is held");
        }
    })
}

/// Messages of a queue with a time to live are delivered and settled, ten in a millisecond.
fn deadlines() -> Work {
    let mut fifo = Fifo::new();
    let consumer = consumer(&mut fifo, AckMode::Manual, None);
    let mut now = 0;
    Box::new(move || {
        for _ in 0..N_OPERATIONS {
            now += 1;
            let deadline_ms = Some(now / 10 + 60_000);
            fifo.put(
                &MessageAttrs {
                    deadline_ms: deadline_ms.map(UnixMs::from_raw),
                    ..MessageAttrs::default()
                },
                UnixMs::from_raw(now / 10),
            );
        }
        while let Some(assigned) = fifo.next_delivery() {
            fifo.settle(consumer, assigned.position).expect("it is held");
        }
    })
}

/// Messages with a time to live of their own expire, each in the middle of the queue.
fn expire() -> Work {
    let mut fifo = Fifo::new();
    let mut gone = Vec::new();
    Box::new(move || {
        fifo.enqueue(1);
        for n in 0..N_OPERATIONS {
            let deadline_ms = Some(n * 7_919 % 10_000);
            fifo.put(
                &MessageAttrs {
                    deadline_ms: deadline_ms.map(UnixMs::from_raw),
                    ..MessageAttrs::default()
                },
                UnixMs::from_raw(0),
            );
        }
        gone.clear();
        fifo.messages_mut().expire(UnixMs::from_raw(10_100), u64::MAX, &mut gone);
        black_box(&gone);
    })
}
