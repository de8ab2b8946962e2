package interop.streams;

import static interop.harness.Expect.eventually;
import static interop.harness.Expect.that;
import static interop.streams.Bench.body;

import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.Resource;
import interop.harness.Node;
import interop.harness.Skip;
import interop.harness.Suite;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** What a program is told when an operator, or the end of the node, ends its connections. */
final class ThrownOut {
  private static final long TOLD_MILLIS =
      Long.parseLong(System.getenv().getOrDefault("INTEROP_TOLD_MS", "1000"));
  private static final String STREAM = "s";
  private static final String PASSWORD = "ears";

  private ThrownOut() {}

  static void register(Suite suite) {
    suite.add("stream-thrown-out", body(ThrownOut::byOperator));
    suite.add("restart-stream-thrown-out", 60, body(ThrownOut::byTheEndOfTheNode));
  }

  /** Ends the connections of a user or a virtual host. */
  private interface Way {
    void throwOut(String user, String vhost) throws Exception;
  }

  private static void byOperator(Bench bench) throws Exception {
    List<Way> ways = List.of(
        (user, vhost) -> bench.node.ctl("close_all_connections", "-p", vhost, "enough"),
        (user, vhost) -> bench.node.ctl("delete_user", user),
        (user, vhost) -> bench.node.ctl("delete_vhost", vhost));
    for (int at = 0; at < ways.size(); at++) {
      try (Guests guests = new Guests(bench, "-" + at)) {
        ways.get(at).throwOut(guests.user, guests.vhost);
        guests.areTold("way " + at);
        if (at == 0) {
          eventually(true, "who is told connects again", guests::areBack);
        }
      }
    }
  }

  private static void byTheEndOfTheNode(Bench bench) throws Exception {
    if (!bench.node.restartable()) {
      throw new Skip("ends need a node of our own");
    }
    try (Guests guests = new Guests(bench, "")) {
      FutureTask<Void> end = new FutureTask<>(() -> {
        bench.node.stop();
        return null;
      });
      new Thread(end, "end").start();
      guests.areTold("the end of the node");
      end.get();
    } finally {
      bench.node.start();
    }
  }

  /** A publisher and a consumer with a user and a virtual host of their own. */
  private static final class Guests implements AutoCloseable {
    private final Node node;
    private final String user;
    private final String vhost;
    private final CountDownLatch untold = new CountDownLatch(2);
    private final AtomicInteger opened = new AtomicInteger();
    private final Environment environment;

    Guests(Bench bench, String suffix) throws Exception {
      node = bench.node;
      user = bench.name("hare" + suffix);
      vhost = bench.name("burrow" + suffix);
      node.ctl("await_startup");
      node.ctl("add_user", user, PASSWORD);
      node.ctl("add_vhost", vhost);
      node.ctl("set_permissions", "-p", vhost, user, ".*", ".*", ".*");
      environment = bench.environmentOf(user, PASSWORD, vhost);
      environment.streamCreator().stream(STREAM).create();
      Producer producer = environment.producerBuilder().stream(STREAM).listeners(told()).build();
      Bench.publishNumbers(producer, 0, 1);
      environment.consumerBuilder().stream(STREAM)
          .offset(OffsetSpecification.first()).listeners(told())
          .messageHandler((context, message) -> {}).build();
    }

    /** Counts once that what was open is not any more, and how often one is open. */
    private Resource.StateListener told() {
      return context -> {
        if (context.previousState() == Resource.State.OPEN) {
          untold.countDown();
        } else if (context.currentState() == Resource.State.OPEN) {
          opened.incrementAndGet();
        }
      };
    }

    void areTold(String how) throws Exception {
      that(untold.await(TOLD_MILLIS, TimeUnit.MILLISECONDS),
          how + ": " + untold.getCount() + " of 2 are not told within " + TOLD_MILLIS + " ms");
    }

    boolean areBack() {
      return opened.get() == 4;
    }

    @Override
    public void close() throws Exception {
      environment.close();
      try {
        node.ctl("delete_user", user);
        node.ctl("delete_vhost", vhost);
      } catch (IllegalStateException gone) {
        // With the node, or the scenario's own doing.
      }
    }
  }
}
