//! Transactions: what a session's coordinator is asked for, and what messages do in them.

use crate::harness::{M, Talk, consumer, disposition, key, publisher, whole};
use amqp10::{
    Accepted, DeliveryOutcome, DeliveryState, Detach, Disposition, End, Performative, Transfer,
};
use front_amqp10::{SentMessage, transaction_ended};
use session::{ChannelId, Position};
use testing::amqp10_client::{controller, declare, discharge, transactional};

const T1: &[u8] = &[0, 0, 0, 0, 0, 1];
const ACCEPTED: DeliveryOutcome<'static> = DeliveryOutcome::Accepted(Accepted {});
/// The channel of the transactions of session 0.
const CHANNEL: u16 = 64;

/// A session with a coordinator on handle 2, a publisher on 0 and a consumer on 1.
fn controlled() -> Talk {
    let mut talk = Talk::begun();
    for attach in [controller(2), publisher(0), consumer(1)] {
        talk.says(&Performative::Attach(Box::new(attach)));
    }
    assert_eq!(
        talk.hears()[..2],
        ["attach 2 Receiver source true target true", "flow 0+400 link 2 0+8"]
    );
    assert_eq!(talk.takes_asked()[0], format!("transactions {CHANNEL}"));
    talk
}

fn asks(talk: &mut Talk, n: u32, request: &[u8]) -> Vec<String> {
    talk.transfers(whole(2, n), request);
    talk.hears()
}

fn declared(talk: &mut Talk) {
    let heard = asks(talk, 0, &declare());
    assert_eq!(heard, ["disposition Receiver 0..=0 true declared [0, 0, 0, 0, 0, 1]"]);
}

fn delivered(talk: &mut Talk, positions: &[u64]) {
    for position in positions {
        let message = SentMessage::in_sections(Position(*position), M);
        talk.front.deliver(key(1), message, &mut Vec::new());
    }
    talk.hears();
}

fn unsettled(first: u32, last: u32, state: Option<DeliveryState<'_>>) -> Performative<'_> {
    let Performative::Disposition(settled) = disposition(first, last, state) else {
        unreachable!("it is one")
    };
    Performative::Disposition(Disposition { settled: false, ..settled })
}

#[test]
fn publishes_and_outcomes_go_to_the_channel_of_the_transaction() {
    let mut talk = controlled();
    declared(&mut talk);
    let state = Some(transactional(T1, None));
    talk.transfers(Transfer { state, ..whole(0, 1) }, M);
    assert_eq!(talk.hears(), ["disposition Receiver 1..=1 true in [0, 0, 0, 0, 0, 1] Accepted"]);
    delivered(&mut talk, &[7, 8, 9]);
    talk.says(&disposition(0, 0, Some(transactional(T1, Some(ACCEPTED)))));
    // What is not settled stays with the client until the commit.
    talk.says(&unsettled(1, 2, Some(transactional(T1, Some(ACCEPTED)))));
    assert_eq!(talk.takes_asked(), ["publish '' 'q' inline 6", "settle 101 7 Accepted"]);
    talk.attaches = false;
    assert_eq!(asks(&mut talk, 2, &discharge(T1, false)), [""; 0]);
    let asked = talk.takes_asked();
    assert_eq!(asked[..2], ["settle 101 8 Accepted", "settle 101 9 Accepted"]);
    assert_eq!(asked[2], format!("discharge {CHANNEL} 1 commits true"));
    // The next one may be asked for before the answer.
    let next = asks(&mut talk, 3, &declare());
    assert_eq!(next, ["disposition Receiver 3..=3 true declared [0, 0, 0, 0, 0, 2]"]);
    transaction_ended(&mut talk.front, ChannelId(0), 1, Ok(()), &mut Vec::new());
    let heard =
        ["disposition Sender 1..=2 true Accepted", "disposition Receiver 2..=2 true Accepted"];
    assert_eq!(talk.hears(), heard);
}

#[test]
fn what_is_rolled_back_and_not_settled_stays_with_the_client() {
    let mut talk = controlled();
    declared(&mut talk);
    delivered(&mut talk, &[7]);
    talk.says(&unsettled(0, 0, Some(transactional(T1, Some(ACCEPTED)))));
    asks(&mut talk, 1, &discharge(T1, true));
    assert_eq!(talk.takes_asked(), [format!("discharge {CHANNEL} 1 commits false")]);
    talk.says(&disposition(0, 0, Some(DeliveryState::RELEASED)));
    assert_eq!(talk.takes_asked(), ["settle 101 7 Released"]);
}

#[test]
fn several_nested_and_unknown_transactions_are_refused() {
    let mut talk = controlled();
    declared(&mut talk);
    let nested = "disposition Receiver 1..=1 true Rejected amqp:not-implemented \
                  'the session has an open transaction'";
    assert_eq!(asks(&mut talk, 1, &declare()), [nested]);
    let unknown = "amqp:transaction:unknown-id 'no open transaction has this id'";
    let rejected = format!("disposition Receiver 2..=2 true Rejected {unknown}");
    assert_eq!(asks(&mut talk, 2, &discharge(b"other", false)), [rejected]);
    let state = Some(transactional(b"other", None));
    talk.transfers(Transfer { state, ..whole(0, 3) }, M);
    assert_eq!(talk.hears(), [format!("detach 0 {unknown}")]);
    delivered(&mut talk, &[7]);
    talk.says(&disposition(0, 0, Some(transactional(b"other", Some(ACCEPTED)))));
    assert_eq!(talk.hears(), [format!("detach 1 {unknown}")]);
    talk.says(&Performative::Attach(Box::new(controller(3))));
    let heard = talk.hears();
    assert_eq!(heard[1], "detach 3 amqp:not-implemented 'the session has a coordinator'");
    assert_eq!(
        asks(&mut talk, 4, M),
        [
            "detach 2 amqp:decode-error 'no request to a coordinator: a field has a value of another type'"
        ]
    );
}

#[test]
fn a_transaction_ends_with_its_link_and_its_session() {
    let detach = Performative::Detach(Detach { handle: 2, closed: true, error: None });
    for (end, asked) in [
        (detach, vec![format!("end {CHANNEL}")]),
        (Performative::End(End { error: None }), vec![format!("end {CHANNEL}"), "end 0".into()]),
    ] {
        let mut talk = controlled();
        declared(&mut talk);
        talk.takes_asked();
        talk.says(&end);
        assert_eq!(talk.takes_asked(), asked);
    }
    // The next coordinator does not know the transaction.
    let mut talk = controlled();
    declared(&mut talk);
    talk.says(&Performative::Detach(Detach { handle: 2, closed: true, error: None }));
    talk.says(&Performative::Attach(Box::new(controller(2))));
    talk.hears();
    let heard = asks(&mut talk, 1, &discharge(T1, false));
    assert!(heard[0].contains("amqp:transaction:unknown-id"), "{heard:?}");
}

#[test]
fn a_transaction_whose_link_is_gone_is_not_committed() {
    let mut talk = controlled();
    declared(&mut talk);
    delivered(&mut talk, &[7]);
    talk.says(&disposition(0, 0, Some(transactional(T1, Some(ACCEPTED)))));
    talk.says(&Performative::Detach(Detach { handle: 1, closed: true, error: None }));
    talk.takes_asked();
    talk.hears();
    let rejected = "disposition Receiver 1..=1 true Rejected amqp:transaction:rollback \
                    'a link of the transaction is detached'";
    assert_eq!(asks(&mut talk, 1, &discharge(T1, false)), [rejected]);
    assert_eq!(talk.takes_asked(), [format!("discharge {CHANNEL} 1 commits false")]);
}
