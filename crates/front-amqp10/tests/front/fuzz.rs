//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use crate::harness::{begin, consumer, flow, id, message, publisher, whole};
use crate::management;
use amqp10::{
    Begin, DeliveryState, Detach, Disposition, End, Flow, FrameType, Performative, Role, Transfer,
    put_frame,
};
use proptest::prelude::*;

#[path = "../../../../fuzz/checks/address.rs"]
mod address_checks;
#[path = "../../../../fuzz/checks/front_amqp10.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;
#[path = "../../../../fuzz/checks/amqp10_management.rs"]
mod management_checks;

use inputs::corpus;

#[test]
fn the_corpus_holds() {
    let conversations = corpus("front_amqp10");
    assert!(conversations.len() >= 6);
    inputs::run_in_pieces(&conversations, checks::conversation);
    let requests = corpus("amqp10_management");
    requests.iter().for_each(|request| management_checks::amqp10_management(request));
    assert!(requests.len() >= 6);
    corpus("amqp10_address").iter().for_each(|address| address_checks::address(address));
}

proptest! {
    #[test]
    fn any_address_is_a_node_or_refused(
        start in prop_oneof!["", "/queues/", "/exchanges/", "/queue/", "/amq/queue/", "/exchange/", "/topic/"],
        rest in prop_oneof![".{0,40}", "[a-z%/0-9A-F]{0,30}"],
    ) {
        address_checks::address(format!("{start}{rest}").as_bytes());
    }

    /// A committed request with a few other bytes.
    #[test]
    fn any_bytes_are_a_request_or_refused(
        which: prop::sample::Index, at: prop::sample::Index, new in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let requests = corpus("amqp10_management");
        let mut request = requests[which.index(requests.len())].clone();
        let at = at.index(request.len());
        let end = request.len().min(at + new.len());
        request.splice(at..end, new);
        management_checks::amqp10_management(&request);
    }
}

/// Numbers of which a client's frame is made.
#[derive(Clone, Debug)]
struct FrameParts {
    kind: u8,
    channel: u16,
    handle: u32,
    number: u32,
    other: u32,
    flags: u8,
    n_bytes: usize,
}

fn any_frame() -> impl Strategy<Value = FrameParts> {
    let number = || prop_oneof![6 => 0..8_u32, 1 => any::<u32>()];
    let place = (0..20_u8, prop_oneof![8 => 0..2_u16, 1 => 0..6_u16], 0..5_u32);
    (place, number(), number(), any::<u8>(), 0..300_usize).prop_map(
        |((kind, channel, handle), number, other, flags, n_bytes)| FrameParts {
            kind,
            channel,
            handle,
            number,
            other,
            flags,
            n_bytes,
        },
    )
}

impl FrameParts {
    const fn has(&self, bit: u8) -> bool {
        self.flags >> bit & 1 == 1
    }

    fn performative(&self) -> Performative<'static> {
        let Self { kind, handle, number, other, .. } = *self;
        let windows = Flow { incoming_window: other, ..flow(number, number) };
        match kind {
            0 | 1 => Performative::Begin(Box::new(Begin {
                incoming_window: number,
                next_outgoing_id: id(other),
                ..begin()
            })),
            2 => Performative::End(End { error: None }),
            3..=5 if self.has(6) => Performative::Attach(Box::new(management::requests(handle))),
            6..=8 if self.has(6) => Performative::Attach(Box::new(management::responses(handle))),
            3..=5 => Performative::Attach(Box::new(publisher(handle))),
            6..=8 => Performative::Attach(Box::new(consumer(handle))),
            9 => Performative::Detach(Detach { handle, closed: self.has(0), error: None }),
            10 | 11 => Performative::Flow(Flow { echo: self.has(0), ..windows }),
            12 | 13 => Performative::Flow(Flow {
                handle: Some(handle),
                delivery_count: self.has(0).then(|| id(number)),
                link_credit: self.has(1).then_some(other),
                drain: self.has(2),
                echo: self.has(3),
                ..windows
            }),
            14 | 15 => Performative::Disposition(Disposition {
                role: if self.has(0) { Role::Sender } else { Role::Receiver },
                first: id(number),
                last: self.has(1).then(|| id(other)),
                settled: self.has(2),
                state: self.has(3).then_some(DeliveryState::ACCEPTED),
                batchable: false,
            }),
            _ => Performative::Transfer(Transfer {
                delivery_id: self.has(0).then(|| id(number)),
                settled: self.has(1).then(|| self.has(2)),
                more: self.has(3),
                aborted: self.has(4) && self.has(5),
                ..whole(handle, 0)
            }),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_frame(out, FrameType::Amqp, self.channel, |out| {
            self.performative().encode(out);
            if self.kind > 17 {
                out.resize(out.len() + self.n_bytes, 1);
            } else if self.kind > 15 {
                out.extend_from_slice(&message(&vec![1; self.n_bytes]));
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_conversations_hold(
        size in any::<u8>(),
        frames in prop::collection::vec(any_frame(), 0..60),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2),
    ) {
        let mut input = vec![size];
        for channel in 0..2 {
            Performative::Begin(Box::new(begin())).encode_frame(channel, &mut input);
        }
        frames.iter().for_each(|frame| frame.put(&mut input));
        checks::conversation(&input);
        for (at, byte) in changes {
            let at = at.index(input.len());
            input[at] = byte;
        }
        checks::conversation(&input);
    }
}
