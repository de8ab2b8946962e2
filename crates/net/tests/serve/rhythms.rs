//! Clients that send and acknowledge in many rhythms, some of which have their input gather: each message
//! arrives, each is confirmed, and others are served meanwhile.

use crate::site::Site;
use crate::tunnel;
use amqp091::Method;
use amqp091::method::{BasicAck, BasicConsume, BasicQos, ConfirmSelect, QueueDeclare};
use broker::Alarm;
use front_amqp091::Settings;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use testing::client::{Client, DEADLINE, Login};

const N_MESSAGES: u64 = 4_000;
/// Publishes that are written together.
const N_TOGETHER: u64 = 2;
/// Publishes of more bytes than ever gather.
const N_BLOCKED: u64 = 100;
/// Clients are tried at so many paces, each with a longer gap between its writes, ...
const N_PACES: u128 = 8;
const GAP: Duration = Duration::from_micros(10);
/// ... for so long, ...
const EACH_PACE_MS: u128 = 20;
/// ... but not for ever. That is no time: on a busy machine a client is slow.
const N_WRITES_MAX: u64 = 5_000_000;

/// The way that clients take to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Tls,
    /// Through a proxy that says who they are.
    Proxied,
}

/// A publisher and a consumer.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    /// Publishes without a confirm, at most; `None` if none is confirmed.
    window: Option<u64>,
    /// The consumer's; 0 for none.
    prefetch: u16,
    /// Deliveries that are acknowledged at once.
    acks_each: u64,
    /// Whether both are one connection.
    is_one: bool,
    heartbeat_s: u16,
    way: Way,
}

const USUAL: Rhythm = Rhythm {
    window: Some(200),
    prefetch: 200,
    acks_each: 1,
    is_one: false,
    heartbeat_s: 0,
    way: Way::Plain,
};

const RHYTHMS: [Rhythm; 16] = [
    USUAL,
    Rhythm { window: Some(1), ..USUAL },
    Rhythm { window: Some(2), ..USUAL },
    Rhythm { window: Some(10), ..USUAL },
    Rhythm { window: None, ..USUAL },
    Rhythm { acks_each: 100, ..USUAL },
    Rhythm { acks_each: 500, prefetch: 0, ..USUAL },
    Rhythm { prefetch: 1, ..USUAL },
    Rhythm { prefetch: 1, window: Some(1), ..USUAL },
    Rhythm { is_one: true, ..USUAL },
    Rhythm { is_one: true, window: Some(10), prefetch: 10, ..USUAL },
    Rhythm { heartbeat_s: 1, ..USUAL },
    Rhythm { way: Way::Tls, ..USUAL },
    Rhythm { way: Way::Tls, window: None, acks_each: 100, ..USUAL },
    Rhythm { way: Way::Tls, is_one: true, ..USUAL },
    Rhythm { way: Way::Proxied, ..USUAL },
];

/// A broker whose sockets hold what the system likes: small ones are readable whatever they hold. And the
/// address that its clients connect to.
fn site(way: Way) -> (Site, SocketAddr) {
    let tls = (way == Way::Tls).then(tunnel::certificates);
    let site = Site::start_over(tls, Settings::default(), |settings| {
        settings.receive_buffer_bytes = None;
        settings.proxy_protocol = way == Way::Proxied;
    });
    let address = if way == Way::Tls { tunnel::to(site.address) } else { site.address };
    (site, address)
}

fn connect(way: Way, address: SocketAddr, heartbeat_s: u16) -> Client {
    let header: &[u8] = b"PROXY TCP4 127.0.0.1 192.0.2.1 56324 5672\r\n";
    let before = if way == Way::Proxied { header } else { b"" };
    let mut client = Client::login(address, Login { before, heartbeat_s, ..Login::default() });
    client.open_channel(1);
    client
}

fn declare(client: &mut Client) {
    let queue = QueueDeclare { queue: b"q", ..QueueDeclare::default() };
    assert_eq!(client.ask(1, queue), "queue.declare-ok");
}

impl Rhythm {
    fn connect(&self, address: SocketAddr) -> Client {
        connect(self.way, address, self.heartbeat_s)
    }

    /// Has a client publish and consume so many messages, until it has heard of each.
    fn talk(&self, client: &mut Client, n_publishes: u64, n_deliveries: u64) {
        let window = self.window.unwrap_or(u64::MAX);
        let n_confirms = self.window.map_or(0, |_| n_publishes);
        let (mut n_published, mut n_confirmed, mut n_delivered) = (0, 0, 0);
        loop {
            while n_published < n_publishes && n_published < window.saturating_add(n_confirmed) {
                client.put_publish("q", false, b"a message");
                n_published += 1;
                if n_published % N_TOGETHER == 0 || n_published == window + n_confirmed {
                    client.flush();
                }
            }
            client.flush();
            if n_confirmed == n_confirms && n_delivered == n_deliveries {
                return;
            }
            let frame = client.next();
            if let Method::BasicAck(ack) = frame.method() {
                n_confirmed = ack.delivery_tag;
                continue;
            }
            let Method::BasicDeliver(deliver) = frame.method() else {
                panic!("{self:?}: {}", frame.show())
            };
            n_delivered += 1;
            assert_eq!(deliver.delivery_tag, n_delivered, "{self:?}");
            let _header_and_body = (client.next(), client.next());
            if n_delivered % self.acks_each == 0 || n_delivered == n_deliveries {
                client.say(1, BasicAck { delivery_tag: n_delivered, multiple: true });
            }
        }
    }

    fn run(&self) {
        let (_site, address) = site(self.way);
        let mut publisher = self.connect(address);
        declare(&mut publisher);
        if self.window.is_some() {
            publisher.select_confirms();
        }
        let consume = |client: &mut Client| {
            let qos = BasicQos { prefetch_count: self.prefetch, ..BasicQos::default() };
            assert_eq!(client.ask(1, qos), "basic.qos-ok");
            let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
            assert_eq!(client.ask(1, consume), "basic.consume-ok");
        };
        let mut bystander = self.connect(address);
        if self.is_one {
            consume(&mut publisher);
            beside_a_bystander(&mut bystander, || {
                self.talk(&mut publisher, N_MESSAGES, N_MESSAGES);
            });
        } else {
            let mut consumer = self.connect(address);
            consume(&mut consumer);
            beside_a_bystander(&mut bystander, || {
                thread::scope(|scope| {
                    scope.spawn(|| self.talk(&mut publisher, N_MESSAGES, 0));
                    self.talk(&mut consumer, 0, N_MESSAGES);
                });
            });
            consumer.close();
        }
        publisher.close();
        assert!(bystander.get("q").is_none(), "{self:?}: not all is acknowledged");
    }
}

/// Has clients talk while somebody else publishes and gets a message at a time on a connection of their own.
fn beside_a_bystander(bystander: &mut Client, talk: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let talking = scope.spawn(talk);
        while !talking.is_finished() {
            bystander.round_trip();
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_arrive_and_are_settled_in_every_rhythm() {
    for rhythm in RHYTHMS {
        rhythm.run();
    }
}

fn wait_until_none_gathers(site: &Site) {
    let begin = Instant::now();
    while site.server.n_gathering() > 0 {
        assert!(begin.elapsed() < DEADLINE, "input gathers for ever");
        thread::yield_now();
    }
}

/// Publishes what goes to no queue, at one pace after the other, until the node finds it to be one at which
/// input gathers.
fn publish_until_it_gathers(site: &Site, publisher: &mut Client) {
    wait_until_none_gathers(site);
    let begin = Instant::now();
    let mut n_written = 0;
    while site.server.n_gathering() == 0 {
        assert!(n_written < N_WRITES_MAX, "nothing gathers");
        let n_paces = begin.elapsed().as_millis() / EACH_PACE_MS % N_PACES + 1;
        let next = Instant::now() + GAP * u32::try_from(n_paces).unwrap();
        for _ in 0..N_TOGETHER {
            publisher.put_publish("nowhere", false, b"a message");
        }
        publisher.flush();
        n_written += 1;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
    }
}

/// The last that is said before a publisher goes, or says no more.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// The beginning of a frame.
    Part,
    End,
    /// An answer that the publisher does not read: its socket is reset.
    Answer,
}

/// The rest of the publishes is less than would make the socket readable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_that_gather_arrive_whatever_comes_after_them() {
    for way in [Way::Plain, Way::Tls, Way::Proxied] {
        let (site, address) = site(way);
        let mut consumer = connect(way, address, 0);
        declare(&mut consumer);
        consumer.consume("q", true);
        for last in [Last::Part, Last::End, Last::Answer] {
            let mut publisher = connect(way, address, 0);
            publish_until_it_gathers(&site, &mut publisher);
            publisher.put_publish("q", false, b"the last");
            publisher.flush();
            match last {
                Last::Part => publisher.write(&[1, 0, 1]),
                Last::End => publisher.shut_up(),
                Last::Answer => publisher.say(1, ConfirmSelect::default()),
            }
            assert_eq!(consumer.message().unwrap().body, b"the last", "{way:?} {last:?}");
        }
        consumer.close();
        site.wait_until_empty().await;
    }
}

/// Nothing ticks during an alarm for a publisher whose publishes gathered before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_that_gather_wait_for_the_end_of_an_alarm() {
    let (site, address) = site(Way::Plain);
    let mut consumer = connect(Way::Plain, address, 0);
    declare(&mut consumer);
    consumer.consume("q", true);
    let mut publisher = connect(Way::Plain, address, 0);
    for _ in 0..3 {
        publish_until_it_gathers(&site, &mut publisher);
        site.broker.alarms.set(Alarm::Memory, true);
        // More than has to be there before they are read.
        for _ in 0..N_BLOCKED {
            publisher.put_publish("q", false, b"while it is blocked");
        }
        publisher.flush();
        assert!(publisher.next().show().starts_with("connection.blocked"));
        wait_until_none_gathers(&site);
        site.broker.alarms.set(Alarm::Memory, false);
        for _ in 0..N_BLOCKED {
            assert_eq!(consumer.message().unwrap().body, b"while it is blocked");
        }
        assert_eq!(publisher.next().show(), "connection.unblocked");
    }
}
