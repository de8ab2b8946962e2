//! Real sockets against a broker over a disk in memory; the client is made of the codec.

#[cfg(test)]
mod client;

#[cfg(test)]
mod tests {
    use crate::client::{Client, Said, Site, properties};
    use amqp091::method::{
        BasicAck, BasicConsume, BasicGet, BasicPublish, ChannelClose, ConfirmSelect,
        ConnectionClose, ConnectionCloseOk, QueueDeclare,
    };
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    fn declare(queue: &str) -> QueueDeclare<'_> {
        QueueDeclare { queue: queue.as_bytes(), ..QueueDeclare::default() }
    }

    fn publish(queue: &str) -> BasicPublish<'_> {
        BasicPublish { routing_key: queue.as_bytes(), ..BasicPublish::default() }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn messages_go_through_and_are_confirmed_and_acknowledged() {
        let site = Site::start(None);
        let mut publisher = Client::open(site.address, "guest").await;
        publisher.call(1, ConfirmSelect::default(), "confirm.select-ok").await;
        publisher.call(1, declare("q"), "queue.declare-ok").await;
        let mut consumer = Client::open(site.address, "guest").await;
        let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
        consumer.call(1, consume, "basic.consume-ok").await;
        for n in 0..1000_u32 {
            publisher.put_message(1, publish("q"), &n.to_be_bytes());
        }
        publisher.flush().await;
        let mut n_confirmed = 0;
        while n_confirmed < 1000 {
            let said = publisher.hear().await;
            let Said::Ack(tag) = said else { panic!("{said:?} instead of a confirm") };
            n_confirmed = tag;
        }
        for n in 0..1000_u32 {
            let (tag, body) = consumer.delivery().await;
            assert_eq!((tag, body), (u64::from(n) + 1, n.to_be_bytes().to_vec()));
        }
        consumer.put(1, BasicAck { delivery_tag: 1000, multiple: true });
        consumer.call(1, ChannelClose::default(), "channel.close-ok").await;
        let get = BasicGet { queue: b"q", ..BasicGet::default() };
        publisher.call(1, get, "basic.get-empty").await;
        publisher.call(0, ConnectionClose::default(), "connection.close-ok").await;
        assert_eq!(publisher.hear().await, Said::End);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_messages_come_back_whole() {
        let site = Site::start(None);
        let mut client = Client::open(site.address, "guest").await;
        client.call(1, declare("q"), "queue.declare-ok").await;
        for len in [0, 1, 8191, 8192, 65_536, 131_064, 131_065, 5_000_000] {
            let body: Vec<u8> = (0..=250).cycle().take(len).collect();
            client.put_message(1, publish("q"), &body);
            client.flush().await;
            client.put(1, BasicGet { queue: b"q", no_ack: true, ..BasicGet::default() });
            client.flush().await;
            let (_, received) = client.delivery().await;
            assert!(received == body, "{len} bytes came back as {}", received.len());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_wrong_password_is_refused_in_words() {
        let site = Site::start(None);
        let mut client = Client::connect(site.address).await;
        client.log_in("guest", "wrong", &properties()).await;
        assert_eq!(
            client.hear().await,
            Said::Closed(
                403,
                "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For \
                 details see the broker logfile."
                    .to_owned()
            )
        );
        drop(client);
        site.wait_until_empty().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn vhosts_and_connection_limits_are_checked_at_open() {
        let site = Site::start(Some(1));
        let mut first = Client::connect(site.address).await;
        first.handshake("guest", "nope").await;
        let refused = Said::Closed(530, "NOT_ALLOWED - vhost nope not found".to_owned());
        assert_eq!(first.hear().await, refused);
        first.put(0, ConnectionCloseOk {});
        first.flush().await;
        assert_eq!(first.hear().await, Said::End);
        let _open = Client::open(site.address, "guest").await;
        let mut second = Client::connect(site.address).await;
        second.handshake("guest", "/").await;
        let text = "NOT_ALLOWED - connection refused: node connection limit (1) is reached";
        assert_eq!(second.hear().await, Said::Closed(530, text.to_owned()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stopping_server_tells_its_clients() {
        let site = Site::start(None);
        let mut open = Client::open(site.address, "guest").await;
        let mut half = Client::connect(site.address).await;
        assert_eq!(half.hear().await, Said::Method("connection.start"));
        let stopping = {
            let server = Arc::clone(&site.server);
            tokio::spawn(async move { server.stop(Duration::from_secs(20)).await })
        };
        let text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'";
        assert_eq!(open.hear().await, Said::Closed(320, text.to_owned()));
        open.put(0, ConnectionCloseOk {});
        open.flush().await;
        assert_eq!(open.hear().await, Said::End);
        drop(open);
        assert_eq!(half.hear().await, Said::End);
        stopping.await.unwrap();
        assert_eq!(site.server.n_connections(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sockets_that_vanish_leave_nothing_behind() {
        let site = Site::start(None);
        for round in 0..60 {
            let mut client = Client::connect(site.address).await;
            if round % 3 == 1 {
                client.handshake("guest", "/").await;
            }
            if round % 3 == 2 {
                client = Client::open(site.address, "guest").await;
                let queue = QueueDeclare { exclusive: true, ..declare("mine") };
                client.call(1, queue, "queue.declare-ok").await;
                client.put_message(1, publish("mine"), b"x");
                client.flush().await;
            }
            drop(client);
            site.wait_until_empty().await;
            assert!(site.broker.connections.is_empty());
            assert!(site.broker.view().queue("/", "mine").is_none());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_consumer_that_does_not_read_holds_no_more_than_its_outbox() {
        let site = Site::start(None);
        let mut consumer = Client::open(site.address, "guest").await;
        consumer.call(1, declare("q"), "queue.declare-ok").await;
        let consume = BasicConsume { queue: b"q", no_ack: true, ..BasicConsume::default() };
        consumer.call(1, consume, "basic.consume-ok").await;
        let mut publisher = Client::open(site.address, "guest").await;
        publisher.call(1, ConfirmSelect::default(), "confirm.select-ok").await;
        let body = [3; 10_000];
        let n_messages = 4000_u64;
        for _ in 0..n_messages {
            publisher.put_message(1, publish("q"), &body);
            publisher.flush_if_large().await;
        }
        publisher.flush().await;
        while publisher.hear().await != Said::Ack(n_messages) {}
        let queue = site.broker.view().queue("/", "q").unwrap();
        let n_ready = queue.counters.n_ready.load(Ordering::Relaxed);
        assert!(n_ready > 1000, "{n_ready} are left in the queue");
        for n in 1..=n_messages {
            let (tag, received) = consumer.delivery().await;
            assert_eq!(tag, n);
            assert!(received == body);
        }
    }
}
