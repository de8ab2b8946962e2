//! Transactions of AMQP 1.0 over a socket, seen by a client of AMQP 0-9-1.

use crate::site::Site;
use amqp10::{
    Accepted, DeliveryOutcome, Disposition, FrameType, Performative, Released, Role, SerialNumber,
    Transfer, put_frame,
};
use amqp091::method::{QueueDeclare, QueueDelete};
use amqp091::{ShortString, Table, TableRef, Value};
use front_amqp091::Settings;
use testing::amqp10_client::{controller, declare, discharge, message, transactional, transfer};
use testing::amqp10_peer::Peer;
use testing::client::Client;

const CONTROL: u32 = 2;

/// A client with a publisher and a consumer of the queue `q`, and the transactions of its session.
struct Controller {
    peer: Peer,
    /// The deliveries that it has sent.
    n_sent: u32,
    /// The transactions that it has begun.
    n_begun: u8,
}

impl Controller {
    fn new(site: &Site) -> Self {
        let mut peer = Peer::begun(site.address, b"\0guest\0guest", "/");
        peer.says(&Performative::Attach(Box::new(controller(CONTROL))));
        peer.attaches(Role::Sender, "/queues/q");
        peer.attaches(Role::Receiver, "/queues/q");
        for role in ["Receiver", "Receiver", "Sender"] {
            assert_eq!(peer.hears(), format!("attach {role}"));
        }
        Self { peer, n_sent: 0, n_begun: 0 }
    }

    fn name(&self) -> [u8; 6] {
        [0, 0, 0, 0, 0, self.n_begun]
    }

    fn sends(&mut self, transfer: Transfer<'_>, message: &[u8]) {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            transfer.encode(out);
            out.extend_from_slice(message);
        });
        self.peer.sends(&bytes);
        self.n_sent += 1;
    }

    fn begins(&mut self) {
        self.n_begun += 1;
        self.sends(transfer(CONTROL, self.n_sent), &declare());
        self.is_told("accepted false");
    }

    fn publishes(&mut self, body: &[u8]) {
        let name = self.name();
        let state = Some(transactional(&name, None));
        self.sends(Transfer { state, ..transfer(0, self.n_sent) }, &message(body));
        self.is_told("accepted false");
    }

    fn ends(&mut self, fail: bool) {
        let request = discharge(&self.name(), fail);
        self.sends(transfer(CONTROL, self.n_sent), &request);
    }

    fn is_told(&mut self, outcome: &str) {
        let n = self.n_sent - 1;
        assert_eq!(self.peer.hears(), format!("settled {n}..={n} {outcome}"));
    }

    fn accepts(&mut self, n: u32, settled: bool) {
        self.settles(n, settled, DeliveryOutcome::Accepted(Accepted {}));
    }

    fn settles(&mut self, n: u32, settled: bool, outcome: DeliveryOutcome<'_>) {
        let name = self.name();
        let outcome = Some(outcome);
        self.peer.says(&Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: SerialNumber::new(n),
            last: None,
            settled,
            state: Some(transactional(&name, outcome)),
            batchable: false,
        }));
    }
}

fn made(site: &Site, kind: &str) -> Client {
    let mut old = Client::guest(site.address);
    let arguments =
        Table::from_iter([(ShortString::from_static("x-queue-type"), Value::from(kind))]);
    let arguments = arguments.to_bytes();
    let arguments = TableRef::trusted(&arguments);
    let declare = QueueDeclare { queue: b"q", durable: true, arguments, ..QueueDeclare::default() };
    assert_eq!(old.ask(1, declare), "queue.declare-ok");
    old
}

fn body_of(old: &mut Client) -> Option<Vec<u8>> {
    old.get("q").map(|got| got.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_publishes_all_or_nothing() {
    for kind in ["classic", "quorum"] {
        let site = Site::start_with(Settings::default(), |_| {});
        let mut old = made(&site, kind);
        let mut controller = Controller::new(&site);
        controller.begins();
        controller.publishes(b"lost");
        controller.ends(true);
        controller.is_told("accepted true");
        controller.begins();
        controller.publishes(b"one");
        controller.publishes(b"two");
        assert_eq!(body_of(&mut old), None, "it is not committed");
        controller.ends(false);
        controller.is_told("accepted true");
        assert_eq!(body_of(&mut old), Some(b"one".to_vec()));
        assert_eq!(body_of(&mut old), Some(b"two".to_vec()));
        // Without its queue none of it is published; the next transaction has nothing of it.
        controller.begins();
        controller.publishes(b"nowhere");
        old.ask(1, QueueDelete { queue: b"q", ..QueueDelete::default() });
        controller.peer.hears();
        controller.ends(false);
        controller.is_told("accepted false amqp:transaction:rollback");
        drop(made(&site, kind));
        controller.begins();
        controller.ends(false);
        controller.is_told("accepted true");
        assert_eq!(body_of(&mut old), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_gives_back_to_a_queue_which_takes_nothing_back_fails() {
    let site = Site::start_with(Settings::default(), |_| {});
    let mut old = Client::guest(site.address);
    let arguments =
        Table::from_iter([(ShortString::from_static("x-confirm-on"), Value::from("ack-direct"))]);
    let arguments = arguments.to_bytes();
    let arguments = TableRef::trusted(&arguments);
    let declare = QueueDeclare { queue: b"q", arguments, ..QueueDeclare::default() };
    assert_eq!(old.ask(1, declare), "queue.declare-ok");
    let mut controller = Controller::new(&site);
    controller.peer.gives_credit(0, 1);
    old.put_publish("q", false, b"a");
    old.flush();
    assert_eq!(controller.peer.hears(), "transfer 0 a");
    controller.begins();
    controller.publishes(b"b");
    controller.settles(0, true, DeliveryOutcome::Released(Released {}));
    controller.ends(false);
    assert_eq!(controller.peer.hears(), "detach amqp:not-implemented");
    controller.is_told("accepted false amqp:transaction:rollback");
    drop(controller);
    let message = loop {
        if let Some(message) = old.get("q") {
            break message;
        }
    };
    assert_eq!((&*message.body, message.redelivered), (b"a".as_slice(), true));
    assert_eq!(body_of(&mut old), None, "nothing of it was published");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_settles_all_or_nothing() {
    for kind in ["classic", "quorum"] {
        let site = Site::start_with(Settings::default(), |_| {});
        let mut old = made(&site, kind);
        ["a", "b", "c"].iter().for_each(|body| old.put_publish("q", false, body.as_bytes()));
        old.flush();
        let mut controller = Controller::new(&site);
        controller.peer.gives_credit(0, 3);
        for (n, body) in ["a", "b", "c"].iter().enumerate() {
            assert_eq!(controller.peer.hears(), format!("transfer {n} {body}"));
        }
        controller.begins();
        controller.accepts(0, true);
        controller.accepts(1, false);
        controller.ends(true);
        controller.is_told("accepted true");
        // What the client has settled comes again, what it has not is its own.
        controller.peer.gives_credit(3, 1);
        assert_eq!(controller.peer.hears(), "transfer 3 a again");
        controller.begins();
        controller.accepts(1, false);
        controller.accepts(3, true);
        controller.ends(false);
        assert_eq!(controller.peer.hears(), "settled 1..=1 accepted true");
        controller.is_told("accepted true");
        // A client that is gone has committed nothing.
        controller.begins();
        controller.accepts(2, true);
        controller.publishes(b"d");
        drop(controller);
        let mut other = Controller::new(&site);
        other.peer.gives_credit(0, 2);
        assert_eq!(other.peer.hears(), "transfer 0 c again");
        drop(other);
        assert_eq!(
            old.ask(1, QueueDelete { queue: b"q", ..QueueDelete::default() }),
            "queue.delete-ok"
        );
    }
}
