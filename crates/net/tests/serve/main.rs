//! Real sockets against a broker over a disk in memory; the client is made of the codec.

#[cfg(test)]
mod amqp10;
#[cfg(test)]
mod amqp10_links;
#[cfg(test)]
mod amqp10_management;
#[cfg(test)]
mod amqp10_transactions;
#[cfg(test)]
mod gathering;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod proxied;
#[cfg(test)]
mod rhythms;
#[cfg(test)]
mod site;
#[cfg(test)]
mod stream_session;
#[cfg(test)]
mod tunnel;
#[cfg(test)]
#[cfg(debug_assertions)]
mod walk;

#[cfg(test)]
mod tests {
    use crate::site::{Site, confirmed, delivery};
    use amqp091::method::{
        BasicAck, BasicConsume, BasicGet, BasicReject, ChannelClose, ChannelCloseOk, ChannelOpen,
        ConnectionClose, ConnectionCloseOk, QueueDeclare,
    };
    use amqp091::{ShortString, Table, TableRef, Value};
    use std::sync::Arc;
    use std::time::Duration;
    use testing::client::{Client, HEADER, Login};

    fn declare(queue: &str) -> QueueDeclare<'_> {
        QueueDeclare { queue: queue.as_bytes(), ..QueueDeclare::default() }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn messages_go_through_and_are_confirmed_and_acknowledged() {
        let site = Site::start(None);
        let mut publisher = Client::guest(site.address);
        publisher.select_confirms();
        assert_eq!(publisher.ask(1, declare("q")), "queue.declare-ok");
        let mut consumer = Client::guest(site.address);
        let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
        assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
        for n in 0..1000_u32 {
            publisher.put_publish("q", false, &n.to_be_bytes());
        }
        publisher.flush();
        let mut n_confirmed = 0;
        while n_confirmed < 1000 {
            n_confirmed = confirmed(&mut publisher);
        }
        for n in 0..1000_u32 {
            let (tag, body) = delivery(&mut consumer);
            assert_eq!((tag, body), (u64::from(n) + 1, n.to_be_bytes().to_vec()));
        }
        consumer.say(1, BasicAck { delivery_tag: 1000, multiple: true });
        assert_eq!(consumer.ask(1, ChannelClose::default()), "channel.close-ok");
        let get = BasicGet { queue: b"q", ..BasicGet::default() };
        assert_eq!(publisher.ask(1, get), "basic.get-empty");
        assert_eq!(publisher.ask(0, ConnectionClose::default()), "connection.close-ok");
        // The socket stays open for the client to close it, and is nobody's connection any more.
        assert!(publisher.is_open());
        drop(consumer);
        site.wait_until_empty().await;
        assert!(publisher.is_open());
    }

    /// A flood is read on before so many are woken, and what there is of it wakes them all the same, also
    /// where it pauses within a frame.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_flood_is_dealt_out_in_turn_and_leaves_none_of_many_consumers_asleep() {
        const N_CONSUMERS: usize = 100;
        const N_MESSAGES: usize = 20_000;
        /// More than a small read, and no multiple of a message.
        const PIECE_BYTES: usize = 40_001;
        let site = Site::start(None);
        let mut publisher = Client::guest(site.address);
        assert_eq!(publisher.ask(1, declare("q")), "queue.declare-ok");
        let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
        let mut consumers: Vec<Client> =
            (0..N_CONSUMERS).map(|_| Client::guest(site.address)).collect();
        for consumer in &mut consumers {
            assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
        }
        for n in 0..N_MESSAGES {
            publisher.put_publish("q", false, &n.to_be_bytes());
        }
        let flood = std::mem::take(&mut publisher.out);
        let bytes_each = flood.len() / N_MESSAGES;
        let (mut n_bytes, mut n) = (0, 0);
        for piece in flood.chunks(PIECE_BYTES) {
            publisher.write(piece);
            n_bytes += piece.len();
            while n < n_bytes / bytes_each {
                let (tag, body) = delivery(&mut consumers[n % N_CONSUMERS]);
                let expected = (n / N_CONSUMERS + 1) as u64;
                assert_eq!((tag, body), (expected, n.to_be_bytes().to_vec()));
                n += 1;
            }
        }
        assert_eq!(n, N_MESSAGES);
    }

    /// A publisher, and a consumer's connection, of a queue that confirms on what `mode` says.
    fn confirming_on(site: &Site, mode: &str) -> (Client, Client) {
        let mut publisher = Client::guest(site.address);
        publisher.select_confirms();
        let mut arguments = Table::new();
        arguments.push(ShortString::from_static("x-confirm-on"), Value::from(mode));
        let arguments = arguments.to_bytes();
        let declare = QueueDeclare { arguments: TableRef::trusted(&arguments), ..declare(mode) };
        assert_eq!(publisher.ask(1, declare), "queue.declare-ok");
        (publisher, Client::guest(site.address))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_publisher_hears_once_its_messages_were_acknowledged() {
        let site = Site::start(None);
        for mode in ["ack", "ack-direct"] {
            let (mut publisher, mut consumer) = confirming_on(&site, mode);
            let consume = BasicConsume { queue: mode.as_bytes(), ..BasicConsume::default() };
            assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
            for n in 0..1000_u32 {
                publisher.put_publish(mode, false, &n.to_be_bytes());
            }
            publisher.flush();
            for _ in 0..1000 {
                delivery(&mut consumer);
            }
            // The next thing the publisher hears is not a confirm.
            publisher.select_confirms();
            consumer.say(1, BasicAck { delivery_tag: 600, multiple: true });
            while confirmed(&mut publisher) != 600 {}
            consumer.say(1, BasicAck { delivery_tag: 1000, multiple: true });
            while confirmed(&mut publisher) != 1000 {}
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_publisher_hears_once_its_messages_were_written_to_who_acknowledges_nothing() {
        let site = Site::start(None);
        for mode in ["ack", "ack-direct"] {
            let (mut publisher, mut consumer) = confirming_on(&site, mode);
            let queue = mode.as_bytes();
            let consume = BasicConsume { queue, no_ack: true, ..BasicConsume::default() };
            assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
            // One at a time, so that publishers' threads write, then many.
            for n in 1..=100_u64 {
                publisher.put_publish(mode, false, &n.to_be_bytes());
                publisher.flush();
                assert_eq!(confirmed(&mut publisher), n);
                assert_eq!(delivery(&mut consumer), (n, n.to_be_bytes().to_vec()));
            }
            let body = [7; 1000];
            for _ in 101..=2000 {
                publisher.put_publish(mode, false, &body);
            }
            publisher.flush();
            for _ in 101..=2000 {
                assert_eq!(delivery(&mut consumer).1, body);
            }
            while confirmed(&mut publisher) != 2000 {}
            consumer.say(1, BasicGet { queue: b"none", no_ack: true, ..BasicGet::default() });
            assert!(consumer.next().show().starts_with("channel.close 404"));
            publisher.put_publish(mode, false, b"got");
            // The answer to this comes when the message is in the queue.
            publisher.select_confirms();
            consumer.say(1, ChannelCloseOk {});
            assert_eq!(consumer.ask(1, ChannelOpen::default()), "channel.open-ok");
            consumer.say(1, BasicGet { queue, no_ack: true, ..BasicGet::default() });
            assert_eq!(delivery(&mut consumer), (1, b"got".to_vec()));
            assert_eq!(confirmed(&mut publisher), 2001);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_rejects_what_its_queue_keeps_no_record_of_loses_its_channel() {
        let site = Site::start(None);
        let mode = "ack-direct";
        let (mut publisher, mut consumer) = confirming_on(&site, mode);
        let consume = BasicConsume { queue: mode.as_bytes(), ..BasicConsume::default() };
        assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
        for body in [b"a", b"b"] {
            publisher.put_publish(mode, false, body);
        }
        publisher.flush();
        assert_eq!(delivery(&mut consumer), (1, b"a".to_vec()));
        assert_eq!(delivery(&mut consumer), (2, b"b".to_vec()));
        consumer.say(1, BasicReject { delivery_tag: 1, requeue: true });
        let text = "NOT_IMPLEMENTED - basic.reject and basic.nack are not implemented for queue \
                    'ack-direct' in vhost '/': it confirms on ack-direct (x-confirm-on)";
        assert_eq!(consumer.next().show(), format!("channel.close 540 {text}"));
        consumer.say(1, ChannelCloseOk {});
        assert_eq!(consumer.ask(1, ChannelOpen::default()), "channel.open-ok");
        let get = BasicGet { queue: mode.as_bytes(), ..BasicGet::default() };
        for (tag, body) in [(1, b"a"), (2, b"b")] {
            consumer.say(1, get);
            assert_eq!(delivery(&mut consumer), (tag, body.to_vec()));
        }
        consumer.say(1, BasicAck { delivery_tag: 2, multiple: true });
        assert_eq!(confirmed(&mut publisher), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_messages_come_back_whole() {
        let site = Site::start(None);
        let mut client = Client::guest(site.address);
        assert_eq!(client.ask(1, declare("q")), "queue.declare-ok");
        for len in [0, 1, 8191, 8192, 65_536, 131_064, 131_065, 5_000_000] {
            let body: Vec<u8> = (0..=250).cycle().take(len).collect();
            client.put_publish("q", false, &body);
            client.flush();
            client.say(1, BasicGet { queue: b"q", no_ack: true, ..BasicGet::default() });
            let (_, received) = delivery(&mut client);
            assert!(received == body, "{len} bytes came back as {}", received.len());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_wrong_password_is_refused_in_words() {
        let site = Site::start(None);
        let login = Login { password: "wrong", ..Login::default() };
        let mut client = Client::introduced(site.address, login);
        assert_eq!(
            client.next().show(),
            "connection.close 403 ACCESS_REFUSED - Login was refused using authentication mechanism \
             PLAIN. For details see the broker logfile."
        );
        drop(client);
        site.wait_until_empty().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn vhosts_and_connection_limits_are_checked_at_open() {
        let site = Site::start(Some(1));
        let login = Login { vhost: "nope", ..Login::default() };
        let mut first = Client::asking(site.address, login);
        let refused = "connection.close 530 NOT_ALLOWED - vhost nope not found";
        assert_eq!(first.next().show(), refused);
        first.say(0, ConnectionCloseOk {});
        assert!(first.try_next().is_err());
        let _open = Client::guest(site.address);
        let mut second = Client::asking(site.address, Login::default());
        let text = "NOT_ALLOWED - connection refused: node connection limit (1) is reached";
        assert_eq!(second.next().show(), format!("connection.close 530 {text}"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stopping_server_tells_its_clients() {
        let site = Site::start(None);
        let mut open = Client::guest(site.address);
        let mut half = Client::raw(site.address);
        half.write(HEADER);
        assert_eq!(half.next().show(), "connection.start");
        let stopping = {
            let server = Arc::clone(&site.server);
            tokio::spawn(async move { server.stop(Duration::from_secs(20)).await })
        };
        let text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'";
        assert_eq!(open.next().show(), format!("connection.close 320 {text}"));
        open.say(0, ConnectionCloseOk {});
        assert!(open.try_next().is_err());
        drop(open);
        assert!(half.try_next().is_err());
        stopping.await.unwrap();
        assert_eq!(site.server.n_connections(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn while_listeners_are_suspended_nobody_connects_and_nobody_has_to_go() {
        let site = Site::start(None);
        let mut before = Client::guest(site.address);
        for _ in 0..3 {
            site.suspended.send_replace(true);
            while tokio::net::TcpStream::connect(site.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
            assert_eq!(before.ask(1, declare("q")), "queue.declare-ok");
            site.suspended.send_replace(false);
            while tokio::net::TcpStream::connect(site.address).await.is_err() {
                tokio::task::yield_now().await;
            }
            let mut after = Client::guest(site.address);
            assert_eq!(after.ask(1, declare("q")), "queue.declare-ok");
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
            let mut client = Client::raw(site.address);
            client.write(HEADER);
            if round % 3 == 1 {
                client.ask_to_open(Login::default());
            }
            if round % 3 == 2 {
                client = Client::guest(site.address);
                let queue = QueueDeclare { exclusive: true, ..declare("mine") };
                assert_eq!(client.ask(1, queue), "queue.declare-ok");
                client.put_publish("mine", false, b"x");
                client.flush();
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
        let mut consumer = Client::guest(site.address);
        assert_eq!(consumer.ask(1, declare("q")), "queue.declare-ok");
        let consume = BasicConsume { queue: b"q", no_ack: true, ..BasicConsume::default() };
        assert_eq!(consumer.ask(1, consume), "basic.consume-ok");
        let mut publisher = Client::guest(site.address);
        publisher.select_confirms();
        let body = [3; 10_000];
        let n_messages = 4000_u64;
        for _ in 0..n_messages {
            publisher.put_publish("q", false, &body);
            if publisher.out.len() > 100_000 {
                publisher.flush();
            }
        }
        publisher.flush();
        while confirmed(&mut publisher) != n_messages {}
        let queue = site.broker.view().queue("/", "q").unwrap();
        let n_ready = queue.local_stat().n_ready;
        assert!(n_ready > 1000, "{n_ready} are left in the queue");
        for n in 1..=n_messages {
            let (tag, received) = delivery(&mut consumer);
            assert_eq!(tag, n);
            assert!(received == body);
        }
    }
}
