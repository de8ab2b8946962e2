package interop.scenarios;

import static interop.scenarios.Lab.body;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import interop.harness.Node;
import interop.harness.Skip;
import interop.harness.Suite;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What survives the end of the node's process, and how the library gets over it. */
final class Restarts {
  private static final int PERSISTENT = 1000;
  private static final int TRANSIENT = 200;
  private static final int BATCH = 20;
  private static final int CONFIRMS_BEFORE_KILL = 300;
  private static final int CONFIRMS_WANTED = 1000;

  private Restarts() {}

  static void register(Suite suite) {
    suite.add("restart-durable-survives", 60, body(lab -> survives(lab, Node::kill9)));
    suite.add("restart-clean-stop-survives", 60, body(lab -> survives(lab, Node::stop)));
    suite.add("restart-client-recovery", 60, body(Restarts::clientRecovery));
  }

  private interface Ending {
    void end(Node node) throws Exception;
  }

  /** The durable definitions both restart scenarios look for afterwards. */
  private record Topology(
      String source, String exchange, String queue, String transientQueue,
      Map<String, Object> arguments) {}

  private static void survives(Lab lab, Ending ending) throws Exception {
    needsOwnNode(lab);
    Topology topology = declare(lab);
    try (Connection connection = lab.connect()) {
      fill(connection.createChannel(), topology.queue);
    }
    ending.end(lab.node());
    lab.node().start();
    Channel channel = lab.channel();
    channel.exchangeDeclarePassive(topology.source);
    channel.exchangeDeclarePassive(topology.exchange);
    channel.queueDeclarePassive(topology.queue);
    channel.exchangeDeclare(topology.source, "topic", true);
    channel.queueDeclare(topology.queue, true, false, false, topology.arguments);
    checkContents(channel, topology.queue);
    channel.confirmSelect();
    Lab.publish(channel, topology.source, "a.b", "through the bindings");
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
    GetResponse routed = channel.basicGet(topology.queue, true);
    Check.that(routed != null, "a durable binding is gone");
    Check.equal("through the bindings", new String(routed.getBody()), "routed body");
    Check.channelCloses(channel, 404,
        "NOT_FOUND - no queue '" + topology.transientQueue + "' in vhost '/'",
        () -> channel.queueDeclarePassive(topology.transientQueue));
  }

  private static Topology declare(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String source = lab.exchange(channel, "source", "topic");
    String exchange = lab.exchange(channel, "x", "direct");
    channel.exchangeBind(exchange, source, "a.#");
    Map<String, Object> arguments = Map.of("x-message-ttl", 3_600_000, "x-max-length", 100_000);
    String queue = lab.queue(channel, "q", arguments);
    channel.queueBind(queue, exchange, "a.b");
    String transientQueue = lab.name("transient");
    channel.queueDeclare(transientQueue, false, false, false, Map.of());
    channel.getConnection().close();
    return new Topology(source, exchange, queue, transientQueue, arguments);
  }

  private static void fill(Channel channel, String queue) throws Exception {
    channel.confirmSelect();
    for (int i = 0; i < PERSISTENT; i++) {
      BasicProperties properties = new BasicProperties.Builder()
          .deliveryMode(2).headers(Map.of("n", i)).build();
      channel.basicPublish("", queue, properties, Lab.bytes("persistent " + i));
      if (i % (PERSISTENT / TRANSIENT) == 0) {
        channel.basicPublish("", queue, new BasicProperties(), Lab.bytes("transient"));
      }
    }
    channel.waitForConfirmsOrDie(2 * Check.WAIT_SECONDS * 1000);
  }

  /** Every persistent message, in order, with its header; transient ones may be among them. */
  private static void checkContents(Channel channel, String queue) throws Exception {
    int next = 0;
    for (GetResponse got = channel.basicGet(queue, true);
        got != null;
        got = channel.basicGet(queue, true)) {
      String text = new String(got.getBody());
      if (text.equals("transient")) {
        continue;
      }
      Check.equal("persistent " + next, text, "message after the restart");
      Check.equal(Map.of("n", next), got.getProps().getHeaders(), "headers of " + next);
      next++;
    }
    Check.equal(PERSISTENT, next, "persistent messages after the restart");
  }

  private static void clientRecovery(Lab lab) throws Exception {
    needsOwnNode(lab);
    String queue = lab.queue(lab.channel(), "q");
    Connection consuming = lab.connect(recovering(lab));
    Seen seen = new Seen(consuming.createChannel());
    seen.getChannel().basicQos(50);
    seen.getChannel().basicConsume(queue, false, seen);
    Channel publishing = lab.connect(recovering(lab)).createChannel();
    publishing.confirmSelect();
    FutureTask<Void> restart = new FutureTask<>(() -> {
      lab.node().kill9();
      lab.node().start();
      return null;
    });
    List<String> confirmed;
    try {
      confirmed = publishAcrossRestart(publishing, queue, restart);
    } finally {
      // Also when the scenario fails: the next one needs the node.
      restart.run();
      restart.get();
    }
    Check.eventually(0, "confirmed messages never consumed", () -> {
      Set<String> missing = new HashSet<>(confirmed);
      missing.removeAll(seen.bodies);
      return missing.size();
    });
    Check.equal(List.of(), seen.unmarked, "repeated without redelivered=true");
  }

  /** Publishes until enough is confirmed; the restart begins in between. */
  private static List<String> publishAcrossRestart(
      Channel channel, String queue, FutureTask<Void> restart) throws Exception {
    List<String> confirmed = new ArrayList<>();
    int lost = 0;
    while (confirmed.size() < CONFIRMS_WANTED || lost == 0) {
      if (confirmed.size() == CONFIRMS_BEFORE_KILL && lost == 0) {
        new Thread(restart, "restart").start();
      }
      // A batch sent again carries other texts, so that a text seen twice was delivered twice.
      List<String> batch = new ArrayList<>();
      for (int i = 0; i < BATCH; i++) {
        batch.add((confirmed.size() + i) + " after " + lost);
      }
      if (publishBatch(channel, queue, batch)) {
        confirmed.addAll(batch);
      } else {
        lost++;
        Check.eventually(true, "publisher recovered", channel::isOpen);
      }
    }
    return confirmed;
  }

  static ConnectionFactory recovering(Lab lab) {
    ConnectionFactory factory = lab.factory();
    factory.setAutomaticRecoveryEnabled(true);
    factory.setTopologyRecoveryEnabled(true);
    factory.setNetworkRecoveryInterval(100);
    return factory;
  }

  /** True when all of the batch was confirmed; false when the connection was lost before. */
  private static boolean publishBatch(Channel channel, String queue, List<String> batch)
      throws Exception {
    try {
      for (String text : batch) {
        Lab.publish(channel, "", queue, text);
      }
      return channel.waitForConfirms(Check.WAIT_SECONDS * 1000);
    } catch (ShutdownSignalException | IOException lost) {
      return false;
    } catch (TimeoutException late) {
      throw new AssertionError("no confirms for a batch", late);
    }
  }

  /** Acks everything and remembers it. */
  private static final class Seen extends DefaultConsumer {
    private final Set<String> bodies = ConcurrentHashMap.newKeySet();
    private final List<String> unmarked = Collections.synchronizedList(new ArrayList<>());

    Seen(Channel channel) {
      super(channel);
    }

    @Override
    public void handleDelivery(
        String tag, Envelope envelope, BasicProperties properties, byte[] body) {
      String text = Inbox.body(new Delivery(envelope, properties, body));
      if (!bodies.add(text) && !envelope.isRedeliver()) {
        unmarked.add(text);
      }
      try {
        getChannel().basicAck(envelope.getDeliveryTag(), false);
      } catch (AlreadyClosedException | IOException lost) {
        // The message comes again after the recovery. An exception that left this method would
        // make the library close the channel for good.
      }
    }
  }

  static void needsOwnNode(Lab lab) {
    if (!lab.node().restartable()) {
      throw new Skip("the broker is not ours to restart");
    }
  }
}
