//! Performatives of any content, and their round trips.

use amqp10::{
    AmqpError, Attach, Begin, Close, Condition, Coordinator, Declared, DeliveryOutcome,
    DeliveryState, DeliveryTag, Detach, Disposition, End, Flow, LinkTarget, MapRef, Modified, Open,
    PassingState, Performative, Received, ReceiverSettleMode, Rejected, Role, SenderSettleMode,
    SerialNumber, SourceTerminus, Symbol, Symbols, TargetTerminus, TerminusDurability,
    TransactionalState, ValueRef, put_map,
};
use proptest::prelude::*;

/// An attach with nothing but what it must have.
pub(crate) const fn attach() -> Attach<'static> {
    Attach {
        name: "l",
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: None,
        target: None,
        unsettled: MapRef::EMPTY,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Symbols::NONE,
        desired_capabilities: Symbols::NONE,
        properties: MapRef::EMPTY,
    }
}

/// Values of which a performative is made.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// The performative that is made.
    kind: u8,
    /// Which of its optional fields are there.
    present: u32,
    numbers: [u32; 6],
    text: String,
    bytes: Vec<u8>,
    symbols: Vec<String>,
    map: Vec<u8>,
}

pub(crate) fn any_parts() -> impl Strategy<Value = Parts> {
    let number = || prop_oneof![Just(0_u32), 0..300_u32, any::<u32>()];
    let numbers = prop::array::uniform6(number());
    let symbol = || "[ -~]{0,30}";
    let symbols = prop::collection::vec(prop_oneof![5 => symbol(), 1 => "[a-z]{250,300}"], 0..4);
    let map = prop::collection::btree_map(symbol(), number(), 0..4).prop_map(|entries| {
        let mut out = Vec::new();
        put_map(&mut out, |items| {
            entries.iter().for_each(|(key, n)| items.put_symbol(key, ValueRef::U32(*n)));
        });
        out
    });
    let texts = (".{0,40}", prop::collection::vec(any::<u8>(), 0..32));
    (0..9_u8, any::<u32>(), numbers, texts, symbols, map).prop_map(
        |(kind, present, numbers, (text, bytes), symbols, map)| Parts {
            kind,
            present,
            numbers,
            text,
            bytes,
            symbols,
            map,
        },
    )
}

impl Parts {
    /// Calls `each` with the performative.
    pub(crate) fn with(&self, each: impl FnOnce(&Performative<'_>)) {
        let symbols: Vec<&str> = self.symbols.iter().map(String::as_str).collect();
        each(&self.performative(Symbols::Listed(&symbols)));
    }

    fn has(&self, bit: u32) -> bool {
        self.present >> bit & 1 == 1
    }

    fn map(&self) -> MapRef<'_> {
        match ValueRef::decode(&self.map) {
            Ok((ValueRef::Map(map), _)) => map,
            _ => MapRef::EMPTY,
        }
    }

    fn error(&self) -> Option<AmqpError<'_>> {
        self.has(8).then(|| AmqpError {
            condition: Symbol(
                Condition::ALL[self.present as usize % Condition::ALL.len()].as_str(),
            ),
            description: self.has(9).then_some(&*self.text),
            info: if self.has(10) { self.map() } else { MapRef::EMPTY },
        })
    }

    fn outcome(&self) -> DeliveryOutcome<'_> {
        match self.present >> 11 & 3 {
            0 => DeliveryOutcome::Accepted(amqp10::Accepted {}),
            1 => DeliveryOutcome::Rejected(Rejected { error: self.error() }),
            2 => DeliveryOutcome::Released(amqp10::Released {}),
            _ => DeliveryOutcome::Modified(Modified {
                delivery_failed: self.has(13),
                undeliverable_here: self.has(14),
                message_annotations: self.map(),
            }),
        }
    }

    fn state(&self) -> Option<DeliveryState<'_>> {
        let [n, m, ..] = self.numbers;
        let state = match self.present >> 15 & 7 {
            0 => return None,
            1 => DeliveryState::Passing(PassingState::Received(Received {
                section_number: n,
                section_offset: u64::from(m) << 16,
            })),
            2 => DeliveryState::Passing(PassingState::Declared(Declared { txn_id: &self.bytes })),
            3 => DeliveryState::Passing(PassingState::Transactional(TransactionalState {
                txn_id: &self.bytes,
                outcome: self.has(18).then(|| self.outcome()),
            })),
            _ => DeliveryState::Outcome(self.outcome()),
        };
        Some(state)
    }

    fn source<'a>(&'a self, symbols: Symbols<'a>) -> SourceTerminus<'a> {
        SourceTerminus {
            address: self.has(0).then_some(ValueRef::Str(&self.text)),
            durable: TerminusDurability::UnsettledState,
            expiry_policy: Symbol(if self.has(1) { "never" } else { "session-end" }),
            timeout: self.numbers[0],
            dynamic: self.has(2),
            distribution_mode: self.has(3).then_some(Symbol("move")),
            filter: Some(self.map()),
            default_outcome: self.has(19).then(|| DeliveryState::Outcome(self.outcome())),
            outcomes: symbols,
            ..SourceTerminus::default()
        }
    }

    fn target<'a>(&'a self, symbols: Symbols<'a>) -> LinkTarget<'a> {
        if self.has(4) {
            let capabilities =
                Symbols::Listed(&["amqp:local-transactions", "amqp:multi-txns-per-ssn"]);
            return LinkTarget::Coordinator(Coordinator { capabilities });
        }
        LinkTarget::Terminus(TargetTerminus {
            address: self.has(5).then_some(ValueRef::Str(&self.text)),
            durable: TerminusDurability::None,
            expiry_policy: Symbol("link-detach"),
            timeout: self.numbers[1],
            dynamic: self.has(6),
            dynamic_node_properties: self.map(),
            capabilities: symbols,
        })
    }

    fn role(&self) -> Role {
        if self.has(7) { Role::Sender } else { Role::Receiver }
    }

    fn attach<'a>(&'a self, symbols: Symbols<'a>) -> Attach<'a> {
        let [n0, n1, n2, ..] = self.numbers;
        Attach {
            name: &self.text,
            handle: n0,
            role: self.role(),
            snd_settle_mode: SenderSettleMode::Settled,
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: self.has(20).then(|| self.source(symbols)),
            target: self.has(21).then(|| self.target(symbols)),
            initial_delivery_count: self.has(22).then_some(SerialNumber::new(n1)),
            max_message_size: self.has(23).then_some(u64::from(n2) << 20),
            properties: self.map(),
            ..attach()
        }
    }

    fn performative<'a>(&'a self, symbols: Symbols<'a>) -> Performative<'a> {
        let [n0, n1, n2, n3, n4, n5] = self.numbers;
        let (role, error) = (self.role(), self.error());
        match self.kind {
            0 => Performative::Open(Box::new(Open {
                container_id: &self.text,
                hostname: self.has(0).then_some(&self.text),
                max_frame_size: n0,
                channel_max: short(n1),
                idle_time_out: self.has(1).then_some(n2),
                outgoing_locales: symbols,
                incoming_locales: Symbols::NONE,
                offered_capabilities: Symbols::NONE,
                desired_capabilities: symbols,
                properties: self.map(),
            })),
            1 => Performative::Begin(Box::new(Begin {
                remote_channel: self.has(0).then_some(short(n0)),
                next_outgoing_id: SerialNumber::new(n1),
                incoming_window: n2,
                outgoing_window: n3,
                handle_max: n4,
                offered_capabilities: symbols,
                desired_capabilities: Symbols::NONE,
                properties: self.map(),
            })),
            2 => Performative::Attach(Box::new(self.attach(symbols))),
            3 => Performative::Flow(Flow {
                handle: self.has(0).then_some(n4),
                delivery_count: self.has(1).then_some(SerialNumber::new(n5)),
                link_credit: self.has(2).then_some(n0),
                available: self.has(3).then_some(n1),
                drain: self.has(4),
                echo: self.has(5),
                properties: self.map(),
                ..Flow::of_session(SerialNumber::new(n0), n1, SerialNumber::new(n2), n3)
            }),
            4 => Performative::Transfer(amqp10::Transfer {
                handle: n0,
                delivery_id: self.has(0).then_some(SerialNumber::new(n1)),
                delivery_tag: self.has(1).then_some(DeliveryTag(&self.bytes)),
                message_format: self.has(2).then_some(n2),
                settled: self.has(3).then(|| self.has(4)),
                more: self.has(5),
                state: self.state(),
                aborted: self.has(6),
                ..amqp10::Transfer::on(0)
            }),
            5 => Performative::Disposition(Disposition {
                role,
                first: SerialNumber::new(n0),
                last: self.has(0).then_some(SerialNumber::new(n1)),
                settled: self.has(1),
                state: self.state(),
                batchable: self.has(2),
            }),
            6 => Performative::Detach(Detach { handle: n0, closed: self.has(0), error }),
            7 => Performative::End(End { error }),
            _ => Performative::Close(Close { error }),
        }
    }
}

fn short(n: u32) -> u16 {
    u16::try_from(n & 0xffff).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn performatives_come_back(parts in any_parts(), payload in any::<Vec<u8>>()) {
        parts.with(|performative| {
            let mut body = Vec::new();
            performative.encode(&mut body);
            let n_bytes = body.len();
            body.extend_from_slice(&payload);
            let decoded = Performative::decode(&body);
            assert_eq!(decoded, Ok((performative.clone(), &body[n_bytes..])));
            // Nothing that is cut off is taken for whole.
            for n in 0..n_bytes {
                assert!(Performative::decode(&body[..n]).is_err());
            }
        });
    }
}
