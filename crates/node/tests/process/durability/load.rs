//! The clients of one round: each goes on until its connection breaks.

use super::ledger::{
    COPIES, Delivery, FANOUT, Id, Ledger, N_CONSUMED, N_QUEUES, PURGED, body, properties,
    queue_name, size,
};
use super::{Client, Random};
use amqp091::Method;
use amqp091::method::{BasicAck, BasicGet, BasicNack, BasicQos, QueuePurge};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use testing::client::Message;

/// Unconfirmed messages of a publisher.
const WINDOW: usize = 100;
/// One of so many is transient.
const TRANSIENT_ONE_IN: usize = 12;

/// Publishes on a channel with confirms.
pub(super) fn publish(
    client: &mut Client,
    ledger: &Mutex<Ledger>,
    random: &mut Random,
    publisher: u32,
) -> io::Result<()> {
    let mut number = 0;
    let mut queues_of: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    loop {
        while client.unconfirmed.len() < WINDOW {
            for _ in 0..=random.below(8) {
                number += 1;
                let queues =
                    if random.below(8) == 0 { COPIES.into() } else { vec![random.below(N_QUEUES)] };
                put(client, ledger, random, (publisher, number), &queues);
                queues_of.insert(number, queues);
            }
            client.try_flush()?;
        }
        let confirmed = client.try_confirmed()?;
        let mut ledger = ledger.lock().unwrap();
        for number in confirmed {
            let queues = queues_of.remove(&number).unwrap();
            ledger.confirmed(&queues, (publisher, number));
        }
    }
}

fn put(client: &mut Client, ledger: &Mutex<Ledger>, random: &mut Random, id: Id, queues: &[usize]) {
    let (size, persistent) = (size(random), random.below(TRANSIENT_ONE_IN) > 0);
    ledger.lock().unwrap().published(queues, id, size, persistent);
    let (properties, body) = (properties(id, persistent), body(id, size));
    match queues {
        [queue] => client.put_message("", &queue_name(*queue), &properties, &body),
        _ => client.put_message(FANOUT, "", &properties, &body),
    }
}

/// Makes it a consumer of a queue. Which one.
pub(super) fn start_consuming(client: &mut Client, random: &mut Random) -> usize {
    let queue = random.below(N_CONSUMED);
    let qos = BasicQos { prefetch_count: 100, ..BasicQos::default() };
    assert_eq!(client.ask(1, qos), "basic.qos-ok");
    client.consume(&queue_name(queue), false);
    queue
}

/// Takes from its queue: acknowledges most, one by one or several, gives some back, keeps some.
pub(super) fn consume(
    client: &mut Client,
    queue: usize,
    ledger: &Mutex<Ledger>,
    random: &mut Random,
) -> io::Result<()> {
    let mut unacked = BTreeMap::new();
    while let Some(message) = client.try_message()? {
        let mut ledger = ledger.lock().unwrap();
        let id = ledger.delivered(&delivery(queue, &message));
        unacked.insert(message.tag, id);
        match random.below(20) {
            0 => {}
            1 => {
                ledger.counts.requeued += 1;
                unacked.remove(&message.tag);
                nack(client, message.tag);
            }
            2 => {
                unacked.values().for_each(|id| ledger.acked(queue, *id));
                unacked.clear();
                ack(client, message.tag, true);
            }
            _ => {
                unacked.remove(&message.tag);
                ledger.acked(queue, id);
                ack(client, message.tag, false);
            }
        }
        drop(ledger);
        client.try_flush()?;
    }
    Ok(())
}

pub(super) fn delivery(queue: usize, message: &Message) -> Delivery<'_> {
    let Message { redelivered, properties, body, .. } = message;
    Delivery { queue, redelivered: *redelivered, properties, body }
}

fn ack(client: &mut Client, delivery_tag: u64, multiple: bool) {
    BasicAck { delivery_tag, multiple }.encode_frame(1, &mut client.out);
}

fn nack(client: &mut Client, delivery_tag: u64) {
    BasicNack { delivery_tag, multiple: false, requeue: true }.encode_frame(1, &mut client.out);
}

/// Takes single messages from the heads of queues that nobody consumes, and purges one of them.
pub(super) fn meddle(
    client: &mut Client,
    ledger: &Mutex<Ledger>,
    random: &mut Random,
) -> io::Result<()> {
    loop {
        if random.below(100) == 0 {
            purge(client, ledger)?;
            continue;
        }
        let queue = N_CONSUMED + random.below(N_QUEUES - N_CONSUMED);
        let name = queue_name(queue);
        let get = BasicGet { queue: name.as_bytes(), no_ack: false, ..BasicGet::default() };
        get.encode_frame(1, &mut client.out);
        client.try_flush()?;
        let Some(message) = client.try_message()? else { continue };
        let mut ledger = ledger.lock().unwrap();
        let id = ledger.delivered(&delivery(queue, &message));
        if random.below(4) == 0 {
            ledger.counts.requeued += 1;
            nack(client, message.tag);
        } else {
            ledger.acked(queue, id);
            ack(client, message.tag, false);
        }
        drop(ledger);
        client.try_flush()?;
    }
}

fn purge(client: &mut Client, ledger: &Mutex<Ledger>) -> io::Result<()> {
    ledger.lock().unwrap().purges();
    let name = queue_name(PURGED);
    let purge = QueuePurge { queue: name.as_bytes(), ..QueuePurge::default() };
    purge.encode_frame(1, &mut client.out);
    client.try_flush()?;
    let answer = client.try_next()?;
    if matches!(answer.method(), Method::ConnectionClose(_)) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    assert_eq!(answer.show(), "queue.purge-ok");
    ledger.lock().unwrap().purges();
    Ok(())
}
