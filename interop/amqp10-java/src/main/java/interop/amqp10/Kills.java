package interop.amqp10;

import static interop.amqp10.Bench.N_MESSAGES;
import static interop.amqp10.Bench.body;
import static interop.harness.Expect.eventually;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.Management.QueueType;
import com.rabbitmq.client.amqp.Publisher;
import interop.harness.Skip;
import interop.harness.Suite;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;

/** Connections that end under a publisher and a consumer, which go on by themselves. */
final class Kills {
  private static final int MAX_IN_FLIGHT = 100;

  /** What ends a connection. */
  private interface Blow {
    void strike() throws Exception;
  }

  private Kills() {}

  static void register(Suite suite) {
    suite.add("closed-connection-recovers",
        body(bench -> recovers(bench, () -> bench.node.ctl("close_all_connections", "by the suite"))));
    suite.add("restart-kill-9", 60, body(bench -> {
      if (!bench.node.restartable()) {
        throw new Skip("restarts need a node of our own");
      }
      recovers(bench, () -> {
        bench.node.kill9();
        bench.node.start();
      });
    }));
  }

  private static void recovers(Bench bench, Blow blow) throws Exception {
    String queue = bench.declaring("q").type(QueueType.QUORUM).declare().name();
    String exclusive = bench.management().queue(bench.name("exclusive")).exclusive(true).declare().name();
    bench.management().binding().sourceExchange("amq.topic").destinationQueue(exclusive).key(queue).bind();
    Inbox own = new Inbox();
    bench.connection.consumerBuilder().queue(exclusive).messageHandler(own).build();
    Set<String> accepted = ConcurrentHashMap.newKeySet();
    Set<String> seen = ConcurrentHashMap.newKeySet();
    bench.connection.consumerBuilder().queue(queue).messageHandler((context, message) -> {
      seen.add(new String(message.body(), UTF_8));
      context.accept();
    }).build();
    AtomicBoolean done = new AtomicBoolean();
    Publisher publisher = bench.publisher(queue);
    Thread publishing = new Thread(() -> publishUntil(publisher, done, accepted), "publisher");
    publishing.setDaemon(true);
    publishing.start();
    for (int round = 0; round < 2; round++) {
      goesOn(accepted);
      blow.strike();
    }
    goesOn(accepted);
    done.set(true);
    publishing.join();
    eventually(true, "all that was accepted is seen", () -> seen.containsAll(accepted));
    try (Publisher other = bench.connection.publisherBuilder().exchange("amq.topic").key(queue).build()) {
      Bench.publishNumbers(other, 0, 1);
    }
    own.next();
  }

  private static void goesOn(Set<String> accepted) throws Exception {
    int before = accepted.size();
    eventually(true, "accepted messages", () -> accepted.size() >= before + N_MESSAGES);
  }

  private static void publishUntil(Publisher publisher, AtomicBoolean done, Set<String> accepted) {
    Semaphore inFlight = new Semaphore(MAX_IN_FLIGHT);
    for (int n = 0; !done.get(); n++) {
      String text = Integer.toString(n);
      inFlight.acquireUninterruptibly();
      try {
        publisher.publish(publisher.message(text.getBytes(UTF_8)), context -> {
          inFlight.release();
          if (context.status() == Publisher.Status.ACCEPTED) {
            accepted.add(text);
          }
        });
      } catch (AmqpException notYet) {
        // It connects again.
        inFlight.release();
      }
    }
  }
}
