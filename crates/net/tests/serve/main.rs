//! Real sockets against a broker over a disk in memory; the client is made of the codec.

#[cfg(test)]
mod client;
#[cfg(test)]
mod proxied;
#[cfg(test)]
#[cfg(debug_assertions)]
mod walk;

#[cfg(test)]
mod tests {
    use crate::client::{Client, Said, Site, properties};
    use amqp091::method::{
        BasicAck, BasicConsume, BasicGet, BasicPublish, BasicReject, ChannelClose, ChannelCloseOk,
        ChannelOpen, ConfirmSelect, ConnectionClose, ConnectionCloseOk, QueueDeclare,
    };
    use amqp091::{ShortString, Table, TableRef, Value};
    use std::sync::Arc;
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
        // The socket stays open for the client to close it, and is nobody's connection any more.
        assert!(publisher.is_open());
        drop(consumer);
        site.wait_until_empty().await;
        assert!(publisher.is_open());
    }

    /// A publisher, and a consumer's connection, of a queue that confirms on what `mode` says.
    async fn confirming_on(site: &Site, mode: &str) -> (Client, Client) {
        let mut publisher = Client::open(site.address, "guest").await;
        publisher.call(1, ConfirmSelect::default(), "confirm.select-ok").await;
        let mut arguments = Table::new();
        arguments.push(ShortString::from_static("x-confirm-on"), Value::from(mode));
        let arguments = arguments.to_bytes();
        let declare = QueueDeclare { arguments: TableRef::trusted(&arguments), ..declare(mode) };
        publisher.call(1, declare, "queue.declare-ok").await;
        (publisher, Client::open(site.address, "guest").await)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_publisher_hears_once_its_messages_were_acknowledged() {
        let site = Site::start(None);
        for mode in ["ack", "ack-direct"] {
            let (mut publisher, mut consumer) = confirming_on(&site, mode).await;
            let consume = BasicConsume { queue: mode.as_bytes(), ..BasicConsume::default() };
            consumer.call(1, consume, "basic.consume-ok").await;
            for n in 0..1000_u32 {
                publisher.put_message(1, publish(mode), &n.to_be_bytes());
            }
            publisher.flush().await;
            for _ in 0..1000 {
                consumer.delivery().await;
            }
            // The next thing the publisher hears is not a confirm.
            publisher.call(1, ConfirmSelect::default(), "confirm.select-ok").await;
            consumer.put(1, BasicAck { delivery_tag: 600, multiple: true });
            consumer.flush().await;
            while publisher.hear().await != Said::Ack(600) {}
            consumer.put(1, BasicAck { delivery_tag: 1000, multiple: true });
            consumer.flush().await;
            while publisher.hear().await != Said::Ack(1000) {}
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_publisher_hears_once_its_messages_were_written_to_who_acknowledges_nothing() {
        let site = Site::start(None);
        for mode in ["ack", "ack-direct"] {
            let (mut publisher, mut consumer) = confirming_on(&site, mode).await;
            let queue = mode.as_bytes();
            let consume = BasicConsume { queue, no_ack: true, ..BasicConsume::default() };
            consumer.call(1, consume, "basic.consume-ok").await;
            // One at a time, so that publishers' threads write, then many.
            for n in 1..=100_u64 {
                publisher.put_message(1, publish(mode), &n.to_be_bytes());
                publisher.flush().await;
                assert_eq!(publisher.hear().await, Said::Ack(n));
                assert_eq!(consumer.delivery().await, (n, n.to_be_bytes().to_vec()));
            }
            let body = [7; 1000];
            for _ in 101..=2000 {
                publisher.put_message(1, publish(mode), &body);
            }
            publisher.flush().await;
            for _ in 101..=2000 {
                assert_eq!(consumer.delivery().await.1, body);
            }
            while publisher.hear().await != Said::Ack(2000) {}
            consumer.put(1, BasicGet { queue: b"none", no_ack: true, ..BasicGet::default() });
            consumer.flush().await;
            assert!(matches!(consumer.hear().await, Said::Closed(404, _)));
            publisher.put_message(1, publish(mode), b"got");
            // The answer to this comes when the message is in the queue.
            publisher.call(1, ConfirmSelect::default(), "confirm.select-ok").await;
            consumer.put(1, ChannelCloseOk {});
            consumer.call(1, ChannelOpen::default(), "channel.open-ok").await;
            consumer.put(1, BasicGet { queue, no_ack: true, ..BasicGet::default() });
            consumer.flush().await;
            assert_eq!(consumer.delivery().await, (1, b"got".to_vec()));
            assert_eq!(publisher.hear().await, Said::Ack(2001));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_rejects_what_its_queue_keeps_no_record_of_loses_its_channel() {
        let site = Site::start(None);
        let mode = "ack-direct";
        let (mut publisher, mut consumer) = confirming_on(&site, mode).await;
        let consume = BasicConsume { queue: mode.as_bytes(), ..BasicConsume::default() };
        consumer.call(1, consume, "basic.consume-ok").await;
        for body in [b"a", b"b"] {
            publisher.put_message(1, publish(mode), body);
        }
        publisher.flush().await;
        assert_eq!(consumer.delivery().await, (1, b"a".to_vec()));
        assert_eq!(consumer.delivery().await, (2, b"b".to_vec()));
        consumer.put(1, BasicReject { delivery_tag: 1, requeue: true });
        consumer.flush().await;
        let text = "NOT_IMPLEMENTED - basic.reject and basic.nack are not implemented for queue \
                    'ack-direct' in vhost '/': it confirms on ack-direct (x-confirm-on)";
        assert_eq!(consumer.hear().await, Said::Closed(540, text.to_owned()));
        consumer.put(1, ChannelCloseOk {});
        consumer.call(1, ChannelOpen::default(), "channel.open-ok").await;
        let get = BasicGet { queue: mode.as_bytes(), ..BasicGet::default() };
        for (tag, body) in [(1, b"a"), (2, b"b")] {
            consumer.put(1, get);
            consumer.flush().await;
            assert_eq!(consumer.delivery().await, (tag, body.to_vec()));
        }
        consumer.put(1, BasicAck { delivery_tag: 2, multiple: true });
        consumer.flush().await;
        assert_eq!(publisher.hear().await, Said::Ack(2));
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
    async fn while_listeners_are_suspended_nobody_connects_and_nobody_has_to_go() {
        let site = Site::start(None);
        let mut before = Client::open(site.address, "guest").await;
        for _ in 0..3 {
            site.suspended.send_replace(true);
            while tokio::net::TcpStream::connect(site.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
            before.call(1, declare("q"), "queue.declare-ok").await;
            site.suspended.send_replace(false);
            while tokio::net::TcpStream::connect(site.address).await.is_err() {
                tokio::task::yield_now().await;
            }
            let mut after = Client::open(site.address, "guest").await;
            after.call(1, declare("q"), "queue.declare-ok").await;
        }
        site.suspended.send_replace(true);
        while tokio::net::TcpStream::connect(site.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        drop(before);
        site.wait_until_empty().await;
        site.server.stop(Duration::from_secs(20)).await;
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
        let n_ready = queue.stat().n_ready;
        assert!(n_ready > 1000, "{n_ready} are left in the queue");
        for n in 1..=n_messages {
            let (tag, received) = consumer.delivery().await;
            assert_eq!(tag, n);
            assert!(received == body);
        }
    }
}
