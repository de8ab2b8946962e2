//! Messages from a publisher to a consumer, again and again.

use crate::client::{Client, FRAME_MAX, start};
use amqp091::content::encode_content;
use amqp091::method::{
    BasicAck, BasicConsume, BasicPublish, BasicQos, ConfirmSelect, ExchangeDeclare, QueueBind,
};
use amqp091::{Properties, PropertiesRef};
use broker::Broker;
use counting::Tally;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Serialises the tests: allocations are counted over all threads, the log's one included.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Nothing here takes long; more than this is a hang.
const DEADLINE: Duration = Duration::from_secs(120);
const EXCHANGE: &[u8] = b"fan";

/// The way messages leave the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Messages stay in their queues.
    Not,
    /// A consumer gets them, and need not say anything.
    AutoAck,
    /// A consumer acknowledges each, with at most so many outstanding; 0 for no limit.
    Acked { prefetch: u16 },
}

/// A workload: its queues, messages and way of consuming.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) n_queues: u64,
    /// Every message goes to all queues instead of one after the other.
    pub(crate) fan_out: bool,
    pub(crate) durable: bool,
    pub(crate) confirmed: bool,
    /// `x-confirm-on` of the queues.
    pub(crate) confirm_on: &'static str,
    pub(crate) taken: Taken,
    pub(crate) properties: Properties,
    pub(crate) body_bytes: usize,
    /// Publishes in one read.
    pub(crate) batch: u64,
    /// Reads until everything has its size, and reads that count.
    pub(crate) n_rounds: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            name: "auto-ack",
            n_queues: 1,
            fan_out: false,
            durable: false,
            confirmed: false,
            confirm_on: "enqueue",
            taken: Taken::AutoAck,
            properties: Properties::default(),
            body_bytes: 12,
            batch: 500,
            n_rounds: 60,
        }
    }
}

impl Workload {
    /// Messages that count.
    pub(crate) const fn n_messages(&self) -> u64 {
        self.n_rounds * self.batch
    }

    /// The allocations of the workload once everything has its size.
    pub(crate) fn allocates(&self) -> Tally {
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let run = async {
            let broker = start(dir.path()).await;
            let mut flow = Flow::start(&broker, self).await;
            for _ in 0..self.n_rounds {
                flow.round().await;
            }
            let before = counting::in_process();
            for _ in 0..self.n_rounds {
                flow.round().await;
            }
            let tally = counting::in_process().since(before);
            broker.stop().unwrap();
            tally
        };
        runtime.block_on(async { tokio::time::timeout(DEADLINE, run).await }).expect("a hang")
    }

    /// One read of publishes.
    fn input(&self) -> Vec<u8> {
        let properties = self.properties.to_bytes();
        let properties = PropertiesRef::parse(&properties).unwrap();
        let body = vec![b'x'; self.body_bytes];
        let mut input = Vec::new();
        for n in 0..self.batch {
            let key = queue(n % self.n_queues);
            let publish = if self.fan_out {
                BasicPublish { exchange: EXCHANGE, ..BasicPublish::default() }
            } else {
                BasicPublish { routing_key: key.as_bytes(), ..BasicPublish::default() }
            };
            publish.encode_frame(1, &mut input);
            encode_content(1, properties, &body, FRAME_MAX, &mut input);
        }
        input
    }
}

fn queue(n: u64) -> String {
    format!("queue-{n}")
}

/// A publisher, and a consumer of all its queues.
struct Flow<'a> {
    workload: &'a Workload,
    publisher: Client,
    consumer: Client,
    input: Vec<u8>,
    acks: Vec<u8>,
    n_acked: u64,
    n_published: u64,
}

impl<'a> Flow<'a> {
    async fn start(broker: &Arc<Broker>, workload: &'a Workload) -> Self {
        let mut publisher = Client::connect(broker).await;
        let mut consumer = Client::connect(broker).await;
        let exchange = EXCHANGE;
        publisher.ask(ExchangeDeclare { exchange, kind: b"fanout", ..Default::default() }).await;
        if workload.confirmed {
            publisher.ask(ConfirmSelect::default()).await;
        }
        if let Taken::Acked { prefetch } = workload.taken {
            consumer.ask(BasicQos { prefetch_count: prefetch, ..BasicQos::default() }).await;
        }
        for n in 0..workload.n_queues {
            let name = queue(n);
            let queue = name.as_bytes();
            consumer.declare(&name, workload.durable, workload.confirm_on).await;
            consumer.ask(QueueBind { queue, exchange, ..QueueBind::default() }).await;
            if workload.taken != Taken::Not {
                let no_ack = workload.taken == Taken::AutoAck;
                consumer.ask(BasicConsume { queue, no_ack, ..BasicConsume::default() }).await;
            }
        }
        let input = workload.input();
        Self { workload, publisher, consumer, input, acks: Vec::new(), n_acked: 0, n_published: 0 }
    }

    /// One read of publishes, on its whole way.
    async fn round(&mut self) {
        self.publisher.say(&self.input).await;
        self.n_published += self.workload.batch;
        if self.workload.taken != Taken::Not {
            self.consume().await;
        }
        while self.workload.confirmed && self.publisher.heard.n_confirmed < self.n_published {
            self.publisher.listen().await;
        }
    }

    async fn consume(&mut self) {
        let n_copies = if self.workload.fan_out { self.workload.n_queues } else { 1 };
        while self.consumer.heard.n_deliveries < n_copies * self.n_published {
            self.consumer.listen().await;
            if let Taken::Acked { .. } = self.workload.taken {
                self.acknowledge().await;
            }
        }
    }

    async fn acknowledge(&mut self) {
        self.acks.clear();
        for delivery_tag in self.n_acked + 1..=self.consumer.heard.n_deliveries {
            BasicAck { delivery_tag, multiple: false }.encode_frame(1, &mut self.acks);
        }
        self.n_acked = self.consumer.heard.n_deliveries;
        self.consumer.say(&self.acks).await;
    }
}
