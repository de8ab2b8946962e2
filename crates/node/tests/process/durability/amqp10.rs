//! Clients of AMQP 1.0 in a round, beside those of AMQP 0-9-1: each goes on until its connection breaks.

use super::Random;
use super::ledger::{
    COPIES, Delivery, FANOUT, Id, Ledger, N_CONSUMED, N_QUEUES, body, properties, queue_name, size,
};
use amqp10::{
    DeliveryState, Disposition, Flow, FrameType, Header, MessageRef, Performative, Properties,
    Role, Section, SerialNumber, Transfer, ValueRef, decode_frame, frame_size, put_frame,
};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use testing::amqp10_client;
use testing::amqp10_peer::Peer;

/// Publishes of a client that are not answered.
const WINDOW: usize = 100;
const TRANSIENT_ONE_IN: usize = 12;
const CREDIT: u32 = 100;
const SESSION_WINDOW: u32 = 1_000;

/// A client with a session and one link.
pub(super) struct Client {
    socket: TcpStream,
    out: Vec<u8>,
}

impl Client {
    /// A publisher to the nodes that its messages name, or a consumer of a queue.
    pub(super) fn connect(address: SocketAddr, queue: Option<usize>) -> Self {
        let mut peer = Peer::begun(address, b"\0guest\0guest", "/");
        let from = format!("/queues/{}", queue_name(queue.unwrap_or(0)));
        let attach = match queue {
            None => amqp10_client::publisher_to(0, None),
            Some(_) => amqp10_client::consumer(1, &from),
        };
        peer.says(&Performative::Attach(Box::new(attach)));
        Self { socket: peer.socket, out: Vec::new() }
    }

    fn say(&mut self, performative: &Performative<'_>) {
        performative.encode_frame(0, &mut self.out);
    }

    fn flush(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        self.socket.write_all(&out)
    }

    /// The body of the next frame.
    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut frame = vec![0; 8];
        self.socket.read_exact(&mut frame)?;
        frame.resize(frame_size(&frame).unwrap(), 0);
        self.socket.read_exact(&mut frame[8..])?;
        Ok(decode_frame(&frame, FrameType::Amqp, u32::MAX).unwrap().unwrap().0.body.to_vec())
    }
}

/// Publishes, and notes what is accepted.
pub(super) fn publish(
    client: &mut Client,
    ledger: &Mutex<Ledger>,
    random: &mut Random,
    publisher: u32,
) -> io::Result<()> {
    let (mut n_sent, mut credit_end, mut window_end) = (0_u32, 0_u32, 0_u32);
    let mut unanswered: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    loop {
        while unanswered.len() < WINDOW && n_sent < credit_end.min(window_end) {
            let copies = random.below(8) == 0;
            let queues = if copies { COPIES.into() } else { vec![random.below(N_QUEUES)] };
            put(client, ledger, random, (publisher, n_sent), &queues);
            unanswered.insert(n_sent, queues);
            n_sent += 1;
        }
        client.flush()?;
        let frame = client.frame()?;
        if frame.is_empty() {
            continue;
        }
        match Performative::decode(&frame).unwrap().0 {
            Performative::Flow(flow) => {
                window_end = flow.next_incoming_id.unwrap().bits() + flow.incoming_window;
                if let (Some(count), Some(credit)) = (flow.delivery_count, flow.link_credit) {
                    credit_end = count.bits() + credit;
                }
            }
            Performative::Disposition(told) => {
                assert_eq!(told.state, Some(DeliveryState::ACCEPTED), "all queues are there");
                let mut ledger = ledger.lock().unwrap();
                for n in told.first.bits()..=told.last.unwrap_or(told.first).bits() {
                    let queues = unanswered.remove(&n).expect("one answer each");
                    ledger.confirmed(&queues, (publisher, u64::from(n)));
                }
            }
            Performative::Attach(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn put(
    client: &mut Client,
    ledger: &Mutex<Ledger>,
    random: &mut Random,
    (publisher, n): (u32, u32),
    queues: &[usize],
) {
    let (id, size, durable) =
        ((publisher, u64::from(n)), size(random), random.below(TRANSIENT_ONE_IN) > 0);
    ledger.lock().unwrap().published_sections(queues, id, size, durable);
    let to = match queues {
        [queue] => format!("/queues/{}", queue_name(*queue)),
        _ => format!("/exchanges/{FANOUT}"),
    };
    let message_id = format!("{}.{}", id.0, id.1);
    let properties = Properties {
        to: Some(ValueRef::Str(&to)),
        message_id: Some(ValueRef::Str(&message_id)),
        ..Properties::default()
    };
    let transfer = Transfer { settled: Some(false), ..amqp10_client::transfer(0, n) };
    put_frame(&mut client.out, FrameType::Amqp, 0, |out| {
        transfer.encode(out);
        Header { durable: Some(durable), ..Header::default() }.encode(out);
        Section::Properties(properties).encode(out);
        Section::Data(&body(id, size)).encode(out);
    });
}

/// The queue that a client consumes.
pub(super) fn some_queue(random: &mut Random) -> usize {
    random.below(N_CONSUMED)
}

/// Takes from its queue: accepts most, one by one or several, releases some, keeps some.
pub(super) fn consume(
    client: &mut Client,
    queue: usize,
    ledger: &Mutex<Ledger>,
    random: &mut Random,
) -> io::Result<()> {
    let (mut n_transfers, mut n_seen) = (0, 0);
    let mut held: BTreeMap<u32, Id> = BTreeMap::new();
    let mut sections = Vec::new();
    let mut delivery_id = None;
    client.say(&credit(0, 0));
    loop {
        client.flush()?;
        let frame = client.frame()?;
        if frame.is_empty() {
            continue;
        }
        let (performative, payload) = Performative::decode(&frame).unwrap();
        let Performative::Transfer(transfer) = performative else { continue };
        n_transfers += 1;
        delivery_id = delivery_id.or(transfer.delivery_id);
        sections.extend_from_slice(payload);
        if transfer.more {
            if n_transfers % (SESSION_WINDOW / 4) == 0 {
                client.say(&credit(n_transfers, n_seen));
            }
            continue;
        }
        n_seen += 1;
        let n = delivery_id.take().unwrap().bits();
        let mut ledger = ledger.lock().unwrap();
        let id = delivered(&mut ledger, queue, &std::mem::take(&mut sections));
        held.insert(n, id);
        match random.below(20) {
            0 => {}
            1 => {
                ledger.counts.requeued += 1;
                held.remove(&n);
                client.say(&settled(n, n, DeliveryState::RELEASED));
            }
            2 => {
                held.values().for_each(|id| ledger.acked(queue, *id));
                let (first, last) = (*held.keys().next().unwrap(), n);
                held.clear();
                client.say(&settled(first, last, DeliveryState::ACCEPTED));
            }
            _ => {
                ledger.acked(queue, id);
                held.remove(&n);
                client.say(&settled(n, n, DeliveryState::ACCEPTED));
            }
        }
        drop(ledger);
        if n_seen % (CREDIT / 2) == 0 {
            client.say(&credit(n_transfers, n_seen));
        }
    }
}

fn delivered(ledger: &mut Ledger, queue: usize, sections: &[u8]) -> Id {
    let message = MessageRef::parse(sections).unwrap();
    let header = message.header.unwrap();
    let Some(ValueRef::Str(id)) = message.properties.and_then(|it| it.message_id) else {
        panic!("a message without an id");
    };
    let (publisher, number) = id.split_once('.').unwrap();
    let id = (publisher.parse().unwrap(), number.parse().unwrap());
    let properties = properties(id, header.durable == Some(true)).to_bytes();
    let body: Vec<u8> = message.body.data().flatten().copied().collect();
    let redelivered = !header.first_acquirer;
    ledger.delivered(&Delivery { queue, redelivered, properties: &properties, body: &body })
}

fn credit(n_transfers: u32, n_seen: u32) -> Performative<'static> {
    let (seen, first) = (SerialNumber::new(n_transfers), SerialNumber::new(0));
    let session = Flow::of_session(seen, SESSION_WINDOW, first, SESSION_WINDOW);
    Performative::Flow(Flow {
        handle: Some(1),
        delivery_count: Some(SerialNumber::new(n_seen)),
        link_credit: Some(CREDIT),
        ..session
    })
}

fn settled(first: u32, last: u32, state: DeliveryState<'static>) -> Performative<'static> {
    Performative::Disposition(Disposition {
        role: Role::Receiver,
        first: SerialNumber::new(first),
        last: Some(SerialNumber::new(last)),
        settled: true,
        state: Some(state),
        batchable: false,
    })
}
