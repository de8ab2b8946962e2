//! Two peers over pipes of bytes, cut anywhere: what the client publishes is answered once and comes back
//! whole and in order, whatever its frames, its windows and the sizes of reads are.

use crate::harness::{Talk, begin, consumer, flow, id, key, message, open, publisher, whole};
use amqp10::{
    Begin, DeliveryOutcome, DeliveryState, Disposition, Flow, FrameType, Open, Performative, Role,
    Transfer, put_frame,
};
use front_amqp10::{ConnectionSettings, SentMessage};
use proptest::prelude::*;
use session::{ChannelId, Confirmation, ConsumerCredit, Position};
use std::collections::VecDeque;

/// Publishers of the client; the handle behind theirs is its consumer's.
const N_PUBLISHERS: u32 = 3;
const CONSUMER: u32 = N_PUBLISHERS;

/// The client's end of the session.
struct PipeClient {
    talk: Talk,
    /// Messages that are to be published, with the bytes of them that are gone, by link.
    to_publish: Vec<VecDeque<(Vec<u8>, usize)>>,
    /// The id of the delivery that has begun on each link.
    begun: Vec<Option<u32>>,
    credit: Vec<u32>,
    next_delivery_id: u32,
    n_transfers_out: u32,
    n_transfers_in: u32,
    /// The transfers that the server takes.
    remote_window: u32,
    own_window: u32,
    n_answered: u32,
    /// Messages that the broker has handed on.
    n_delivered: u64,
    /// The part of a message that has arrived.
    arriving: Vec<u8>,
    arrived: Vec<Vec<u8>>,
}

impl PipeClient {
    fn new(messages: &[Vec<u8>], read_bytes: usize, own_window: u32, frame_bytes_max: u32) -> Self {
        let open = Open { max_frame_size: frame_bytes_max, ..open() };
        let begin = Begin { incoming_window: own_window, ..begin() };
        let mut talk = Talk::begun_with(ConnectionSettings::default(), open, begin);
        talk.read_bytes = read_bytes;
        (0..N_PUBLISHERS).for_each(|n| talk.says(&Performative::Attach(Box::new(publisher(n)))));
        talk.says(&Performative::Attach(Box::new(consumer(CONSUMER))));
        let n_links = N_PUBLISHERS as usize;
        let mut to_publish = vec![VecDeque::new(); n_links];
        for (n, message) in messages.iter().enumerate() {
            to_publish[n % n_links].push_back((message.clone(), 0));
        }
        Self {
            talk,
            to_publish,
            begun: vec![None; n_links],
            credit: vec![0; n_links],
            next_delivery_id: 0,
            n_transfers_out: 0,
            n_transfers_in: 0,
            remote_window: 0,
            own_window,
            n_answered: 0,
            n_delivered: 0,
            arriving: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Sends the next part of a message on a link, if credit and window let it.
    fn publish(&mut self, link: usize, n_bytes: usize) {
        let begins = self.begun[link].is_none();
        if self.remote_window == 0 || (begins && self.credit[link] == 0) {
            return;
        }
        let Some((message, n_sent)) = self.to_publish[link].front_mut() else { return };
        let part = &message[*n_sent..message.len().min(*n_sent + n_bytes)];
        let more = *n_sent + part.len() < message.len();
        let mut transfer = Transfer { more, ..whole(u32::try_from(link).unwrap(), 0) };
        transfer.delivery_id = begins.then(|| id(self.next_delivery_id));
        let mut bytes = Vec::new();
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            transfer.encode(out);
            out.extend_from_slice(part);
        });
        *n_sent += part.len();
        if begins {
            self.begun[link] = Some(self.next_delivery_id);
            self.next_delivery_id += 1;
            self.credit[link] -= 1;
        }
        if !more {
            self.begun[link] = None;
            self.to_publish[link].pop_front();
        }
        self.remote_window -= 1;
        self.n_transfers_out += 1;
        self.talk.sends(&bytes);
    }

    /// The broker hands what was published on to the consumer, answers it, and tells the consumer's credit.
    fn broker(&mut self) {
        for message in std::mem::take(&mut self.talk.published) {
            let delivery = SentMessage::in_sections(Position(self.n_delivered), &message);
            self.talk.front.deliver(key(CONSUMER), delivery, &mut Vec::new());
            self.n_delivered += 1;
            let n = self.n_delivered;
            self.talk.front.answer(ChannelId(0), n, n, Confirmation::Accepted);
        }
        let delivery_count = u32::try_from(self.n_delivered).unwrap();
        let credit = ConsumerCredit {
            delivery_count,
            credit: 9,
            available: 0,
            drain: false,
            is_active: None,
        };
        self.talk.front.flowed(key(CONSUMER), credit);
    }

    /// Takes everything that the server has sent.
    fn hear(&mut self) {
        let mut settle = Vec::new();
        let mut talk = std::mem::replace(&mut self.talk, Talk::new(ConnectionSettings::default()));
        talk.hears_each(|_, performative, payload| match performative {
            Performative::Flow(it) => self.flowed(it),
            Performative::Transfer(it) => {
                self.n_transfers_in += 1;
                assert!(self.own_window > 0, "the server keeps to the window");
                self.own_window -= 1;
                self.arriving.extend_from_slice(payload);
                settle.extend(it.delivery_id);
                if !it.more {
                    self.arrived.push(std::mem::take(&mut self.arriving));
                }
            }
            Performative::Disposition(it) => {
                let accepted = DeliveryOutcome::Accepted(amqp10::Accepted {});
                assert_eq!(it.state, Some(DeliveryState::Outcome(accepted)));
                let last = it.last.unwrap_or(it.first);
                self.n_answered += last.since(it.first) + 1;
            }
            Performative::Attach(_) => {}
            Performative::Open(_)
            | Performative::Begin(_)
            | Performative::Detach(_)
            | Performative::End(_)
            | Performative::Close(_) => panic!("{performative:?}"),
        });
        self.talk = talk;
        if let [first, .., last] | [first @ last] = settle[..] {
            self.talk.says(&Performative::Disposition(Disposition {
                role: Role::Receiver,
                first,
                last: Some(last),
                settled: true,
                state: Some(DeliveryState::ACCEPTED),
                batchable: false,
            }));
        }
    }

    fn flowed(&mut self, it: &Flow<'_>) {
        let next = it.next_incoming_id.unwrap();
        self.remote_window =
            (it.incoming_window).saturating_sub(id(self.n_transfers_out).since(next));
        if let (Some(handle), Some(credit)) = (it.handle, it.link_credit)
            && handle < N_PUBLISHERS
        {
            self.credit[handle as usize] = credit;
        }
    }

    fn open_window(&mut self, window: u32) {
        self.own_window = window;
        let windows = flow(self.n_transfers_in, self.n_transfers_out);
        self.talk.says(&Performative::Flow(Flow { incoming_window: window, ..windows }));
    }
}

#[derive(Clone, Debug)]
enum PipeEvent {
    Publish { link: usize, n_bytes: usize },
    Broker,
    Hear,
    Window(u32),
}

fn any_event() -> impl Strategy<Value = PipeEvent> {
    prop_oneof![
        6 => (0..N_PUBLISHERS as usize, 1..200_usize)
            .prop_map(|(link, n_bytes)| PipeEvent::Publish { link, n_bytes }),
        2 => Just(PipeEvent::Broker),
        2 => Just(PipeEvent::Hear),
        1 => (0..5_u32).prop_map(PipeEvent::Window),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn messages_are_answered_once_and_come_back_in_order(
        sizes in prop::collection::vec(prop_oneof![1..20_usize, 1..2000_usize], 1..30),
        read_bytes in prop_oneof![2 => Just(1), 1 => 1..40_usize, 1 => Just(usize::MAX)],
        frame_bytes_max in prop_oneof![Just(512), Just(u32::MAX)],
        window in 0..4_u32,
        events in prop::collection::vec(any_event(), 0..200),
    ) {
        let messages: Vec<Vec<u8>> =
            (0..).zip(&sizes).map(|(n, size)| message(&vec![n; *size])).collect();
        let mut client = PipeClient::new(&messages, read_bytes, window, frame_bytes_max);
        client.hear();
        for event in events {
            match event {
                PipeEvent::Publish { link, n_bytes } => client.publish(link, n_bytes),
                PipeEvent::Broker => client.broker(),
                PipeEvent::Hear => client.hear(),
                PipeEvent::Window(window) => {
                    client.hear();
                    client.open_window(window);
                }
            }
        }
        // The rest, in turns.
        for turn in 0.. {
            (0..N_PUBLISHERS as usize).for_each(|link| client.publish(link, 700));
            client.broker();
            client.hear();
            client.open_window(3);
            client.hear();
            if client.arrived.len() == messages.len() {
                break;
            }
            prop_assert!(turn < 2000, "{} of {} arrived", client.arrived.len(), messages.len());
        }
        prop_assert_eq!(client.n_answered as usize, messages.len());
        prop_assert_eq!(client.talk.front.n_waiting_bytes(), 0);
        let n_settled = client.talk.takes_asked().iter().filter(|it| it.starts_with("settle")).count();
        prop_assert_eq!(n_settled, messages.len());
        // Each link's messages come in their order, and all of them whole.
        for link in 0..N_PUBLISHERS as usize {
            let of_link = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
                let is_it = |message: &&Vec<u8>| usize::from(*message.last().unwrap()) % N_PUBLISHERS as usize == link;
                all.iter().filter(is_it).cloned().collect()
            };
            prop_assert_eq!(of_link(&client.arrived), of_link(&messages));
        }
    }
}
