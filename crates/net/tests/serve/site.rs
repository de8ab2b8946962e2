//! A node on a socket, for clients to talk to.

use admission::{Admission, Descriptors};
use amqp091::Method;
use auth::{Authenticator, Rules};
use broker::Broker;
use front_amqp10::ConnectionSettings as AmqpSettings;
use front_amqp091::{OutboxBudget, Settings};
use log::WalOptions;
use net::{Clock, ListenAddress, Listener, Protocol, Server, ServerSettings, Service, Timers};
use segments::Disk;
use session::ConversionTotals;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use testing::MemoryDisk;
use testing::client::{Client, DEADLINE};
use tokio::sync::watch;

static NODES: RwLock<()> = RwLock::new(());

/// A node's hold on [`NODES`].
enum Process {
    Shared { _nodes: RwLockReadGuard<'static, ()> },
    Alone { _nodes: RwLockWriteGuard<'static, ()> },
}

/// A node.
pub(crate) struct Site {
    pub(crate) broker: Arc<Broker>,
    pub(crate) server: Arc<Server>,
    pub(crate) address: SocketAddr,
    /// Whether listeners are suspended.
    pub(crate) suspended: watch::Sender<bool>,
    _process: Process,
}

impl Site {
    pub(crate) fn start(max_connections: Option<u64>) -> Self {
        Self::start_with(Settings::default(), |settings| settings.max_connections = max_connections)
    }

    /// With settings of its sockets other than those of most tests.
    pub(crate) fn start_with(front: Settings, change: impl FnOnce(&mut ServerSettings)) -> Self {
        Self::start_over(None, front, change)
    }

    /// As [`Self::start_with`], over TLS if there are certificates.
    pub(crate) fn start_over(
        tls: Option<Arc<tls::Context>>,
        front: Settings,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        Self::start_shared(tls, (front, of_amqp10()), change)
    }

    /// With settings of AMQP 1.0 other than those of most tests.
    pub(crate) fn start_amqp10(change: impl FnOnce(&mut AmqpSettings)) -> Self {
        let mut settings = of_amqp10();
        change(&mut settings);
        Self::start_shared(None, (Settings::default(), settings), |_| {})
    }

    /// Counting what is converted.
    pub(crate) fn start_counting(conversions: &Arc<ConversionTotals>) -> Self {
        let budget = Arc::new(OutboxBudget::counting(Arc::clone(conversions)));
        let front = Settings { budget: Arc::clone(&budget), ..Settings::default() };
        Self::start_shared(None, (front, AmqpSettings { budget, ..of_amqp10() }), |_| {})
    }

    fn start_shared(
        tls: Option<Arc<tls::Context>>,
        (front, other): (Settings, AmqpSettings),
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        let nodes = NODES.read().unwrap_or_else(PoisonError::into_inner);
        let protocol = Protocol::Amqp091(Arc::new(front));
        let service = Service { protocol, other: Some(Protocol::Amqp10(Arc::new(other))), tls };
        Self::start_in(Process::Shared { _nodes: nodes }, service, change)
    }

    /// With no other node in the process.
    pub(crate) fn start_alone() -> Self {
        let nodes = NODES.write().unwrap_or_else(PoisonError::into_inner);
        let protocol = Protocol::Amqp091(Arc::new(Settings::default()));
        let service = Service { protocol, other: None, tls: None };
        Self::start_in(Process::Alone { _nodes: nodes }, service, |_settings| {})
    }

    fn start_in(
        process: Process,
        service: Service,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
        let wal = WalOptions { segment_bytes: 1 << 24, ..WalOptions::default() };
        let broker = Broker::open(disk, wal).unwrap();
        let administering = Arc::clone(&broker);
        tokio::task::block_in_place(move || {
            tokio::runtime::Handle::current().block_on(async move {
                for command in testing::first_user() {
                    administering.apply_definition(command).await.unwrap();
                }
            });
        });
        let one = ListenAddress::One("127.0.0.1:0".parse().unwrap());
        let listener = Listener::bind(one, 128, service).unwrap();
        let address = listener.address;
        let rules = Rules { loopback_users: vec!["guest".to_owned()], anonymous: None };
        let mut settings = ServerSettings {
            nodelay: true,
            keepalive: true,
            proxy_protocol: false,
            tls_handshake_timeout_ms: 10_000,
            cert_login: tls::LoginFrom::CommonName,
            send_buffer_bytes: Some(1 << 16),
            receive_buffer_bytes: Some(1 << 16),
            max_connections: None,
            admission: Admission::new(Arc::new(Descriptors::new(1 << 20))),
        };
        change(&mut settings);
        let suspended = watch::Sender::new(false);
        let server = Server::new(
            Arc::clone(&broker),
            Authenticator::new(rules),
            settings,
            Clock::start(),
            Timers::start().unwrap(),
        );
        tokio::spawn(Arc::clone(&server).accept(listener, suspended.subscribe()));
        Self { broker, server, address, suspended, _process: process }
    }

    pub(crate) async fn wait_until_empty(&self) {
        let empty = async {
            while self.server.n_connections() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, empty).await.expect("connections are left behind");
    }
}

fn of_amqp10() -> AmqpSettings {
    let capabilities = vec![front_amqp10::LINK_PAIR];
    AmqpSettings { capabilities, ..AmqpSettings::default() }
}

/// The number up to which the next frame confirms.
pub(crate) fn confirmed(client: &mut Client) -> u64 {
    let frame = client.next();
    let Method::BasicAck(ack) = frame.method() else {
        panic!("{} instead of a confirm", frame.show())
    };
    ack.delivery_tag
}

/// The tag and body of the next message.
pub(crate) fn delivery(client: &mut Client) -> (u64, Vec<u8>) {
    let message = client.message().unwrap();
    (message.tag, message.body)
}
