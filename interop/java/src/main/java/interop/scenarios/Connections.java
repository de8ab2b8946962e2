package interop.scenarios;

import static interop.scenarios.Lab.body;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.CredentialsProvider;
import com.rabbitmq.client.impl.CredentialsRefreshService;
import interop.harness.Suite;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Opening, authenticating, heartbeats, and losing connections. */
final class Connections {
  private static final List<String> CAPABILITIES = List.of(
      "publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
      "connection.blocked", "consumer_priorities", "authentication_failure_close",
      "per_consumer_qos", "direct_reply_to");
  private static final int CHANNELS = 2000;
  private static final int HEARTBEAT_SECONDS = 1;

  private Connections() {}

  static void register(Suite suite) {
    suite.add("capabilities", body(Connections::capabilities));
    suite.add("channels-2000", 60, body(Connections::manyChannels));
    suite.add("auth-wrong-password-403", body(Connections::wrongPassword));
    suite.add("vhost-unknown-530", body(Connections::unknownVhost));
    suite.add("update-secret", body(Connections::updateSecret));
    suite.add("heartbeat-idle-survives", body(Connections::idleHeartbeats));
    suite.add("heartbeat-silent-peer-closed", body(Connections::silentPeer));
    suite.add("redelivered-after-connection-loss", body(Connections::redeliveredAfterLoss));
  }

  private static void capabilities(Lab lab) throws Exception {
    Map<String, Object> server = lab.connect().getServerProperties();
    Map<?, ?> capabilities = (Map<?, ?>) server.get("capabilities");
    for (String capability : CAPABILITIES) {
      Check.equal(Boolean.TRUE, capabilities.get(capability), capability);
    }
    Check.that(server.get("product") != null && server.get("version") != null,
        "no product or version in " + server);
  }

  private static void manyChannels(Lab lab) throws Exception {
    Connection connection = lab.connect();
    String queue = null;
    for (int i = 0; i < CHANNELS; i++) {
      Channel channel = connection.createChannel();
      Check.that(channel != null, "no channel " + i);
      queue = queue == null ? lab.queue(channel, "q") : queue;
      Check.that(channel.basicGet(queue, true) == null, "a message on channel " + i);
    }
    connection.close();
  }

  private static void wrongPassword(Lab lab) throws Exception {
    ConnectionFactory factory = lab.factory();
    factory.setPassword("wrong");
    try {
      lab.connect(factory);
      throw new AssertionError("logged in with a wrong password");
    } catch (AuthenticationFailureException refused) {
      Check.equal("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
          + " For details see the broker logfile.", refused.getMessage(), "reply text");
    }
  }

  private static void unknownVhost(Lab lab) throws Exception {
    ConnectionFactory factory = lab.factory();
    factory.setVirtualHost("interop-missing");
    try {
      lab.connect(factory);
      throw new AssertionError("opened a vhost that does not exist");
    } catch (IOException refused) {
      ShutdownSignalException signal = (ShutdownSignalException) refused.getCause();
      AMQP.Connection.Close close = (AMQP.Connection.Close) signal.getReason();
      Check.reply(530, "NOT_ALLOWED - vhost interop-missing not found",
          close.getReplyCode(), close.getReplyText());
    }
  }

  private static void updateSecret(Lab lab) throws Exception {
    Refresh refresh = new Refresh();
    ConnectionFactory factory = lab.factory();
    factory.setCredentialsProvider(new Expiring(lab.node().user(), lab.node().password()));
    factory.setCredentialsRefreshService(refresh);
    Connection connection = lab.connect(factory);
    Callable<Boolean> update = refresh.action.get(Check.WAIT_SECONDS, TimeUnit.SECONDS);
    // Sends connection.update-secret and waits for update-secret-ok.
    Check.equal(Boolean.TRUE, update.call(), "update-secret");
    lab.queue(connection.createChannel(), "q");
  }

  /** Credentials that the library must renew some time. */
  private record Expiring(String username, String password) implements CredentialsProvider {
    @Override
    public String getUsername() {
      return username;
    }

    @Override
    public String getPassword() {
      return password;
    }

    @Override
    public Duration getTimeBeforeExpiration() {
      return Duration.ofHours(1);
    }
  }

  /** Keeps the library's own refresh action, for the scenario to call. */
  private static final class Refresh implements CredentialsRefreshService {
    private final CompletableFuture<Callable<Boolean>> action = new CompletableFuture<>();

    @Override
    public String register(CredentialsProvider provider, Callable<Boolean> refreshAction) {
      action.complete(refreshAction);
      return "the one";
    }

    @Override
    public void unregister(CredentialsProvider provider, String registrationId) {}

    @Override
    public boolean isApproachingExpiration(Duration timeBeforeExpiration) {
      return false;
    }
  }

  private static void idleHeartbeats(Lab lab) throws Exception {
    try (Relay relay = new Relay(lab.node().host(), lab.node().port())) {
      Connection connection = lab.connect(throughRelay(lab, relay));
      Check.equal(HEARTBEAT_SECONDS, connection.getHeartbeat(), "negotiated heartbeat");
      // Two eventually-waits in a row: up to 20 s in all.
      Check.eventually(true, "4 heartbeats from the node", () -> relay.heartbeatsFromNode() >= 4);
      Check.eventually(true, "4 heartbeats from the client",
          () -> relay.heartbeatsFromClient() >= 4);
      Check.that(connection.isOpen(), "the connection closed");
      lab.queue(connection.createChannel(), "q");
    }
  }

  private static void silentPeer(Lab lab) throws Exception {
    try (Relay relay = new Relay(lab.node().host(), lab.node().port())) {
      Connection connection = lab.connect(throughRelay(lab, relay));
      connection.createChannel();
      relay.muteClient();
      long begin = System.nanoTime();
      Check.that(relay.awaitNodeClosed(5 * HEARTBEAT_SECONDS + 2),
          "the node kept a silent connection for " + (5 * HEARTBEAT_SECONDS + 2) + " s");
      long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
      Check.that(millis >= HEARTBEAT_SECONDS * 1000L, "closed after only " + millis + " ms");
    }
  }

  private static ConnectionFactory throughRelay(Lab lab, Relay relay) {
    ConnectionFactory factory = lab.factory();
    factory.setHost("127.0.0.1");
    factory.setPort(relay.port());
    factory.setRequestedHeartbeat(HEARTBEAT_SECONDS);
    return factory;
  }

  private static void redeliveredAfterLoss(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    Lab.publishNumbers(channel, queue, 5);
    try (Relay relay = new Relay(lab.node().host(), lab.node().port())) {
      Channel lost = lab.connect(throughRelay(lab, relay)).createChannel();
      lost.basicQos(3);
      Inbox inbox = new Inbox(lost);
      lost.basicConsume(queue, false, inbox);
      inbox.take(3);
      relay.cut();
    }
    Check.ready(channel, queue, 5);
    Inbox inbox = new Inbox(channel);
    channel.basicConsume(queue, false, inbox);
    for (int i = 0; i < 5; i++) {
      Delivery got = inbox.take();
      Check.equal(Integer.toString(i), Inbox.body(got), "body");
      Check.equal(i < 3, got.getEnvelope().isRedeliver(), "redelivered of " + i);
    }
  }
}
