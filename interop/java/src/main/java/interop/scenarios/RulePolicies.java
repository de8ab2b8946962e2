package interop.scenarios;

import static interop.scenarios.Desk.SOON_MILLIS;
import static interop.scenarios.Desk.numbers;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import interop.harness.Suite;
import interop.scenarios.Desk.Mortal;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Rules an operator sets while the node runs, through its command-line tool. */
final class RulePolicies {
  private static final String TRACE = "amq.rabbitmq.trace";

  private RulePolicies() {}

  static void register(Suite suite) {
    suite.add("rule-policy-live", Desk.body(RulePolicies::live));
    suite.add("rule-policy-cleared", Desk.body(RulePolicies::cleared));
    suite.add("rule-policy-priority", Desk.body(RulePolicies::priority));
    suite.add("rule-policy-and-argument", Desk.body(RulePolicies::policyAndArgument));
    suite.add("rule-operator-policy", Desk.body(RulePolicies::operatorPolicy));
    suite.add("rule-policy-exchange", Desk.body(RulePolicies::ofExchange));
    suite.add("rule-vhost-limits", Desk.body(RulePolicies::vhostLimits));
    suite.add("rule-user-limits", Desk.body(RulePolicies::userLimits));
    suite.add("rule-vhost-deleted", Desk.body(RulePolicies::vhostDeleted));
    suite.add("rule-firehose", Desk.body(RulePolicies::firehose));
    suite.add("rule-restart-survives", 60, Desk.body(RulePolicies::restart));
  }

  /** Sets a policy that is cleared when the scenario ends; {@code kind} is the word after {@code set_}. */
  private static String set(Desk desk, String kind, String what, int priority, String applyTo, String pattern,
      String definition) throws Exception {
    String name = desk.lab.name(what);
    desk.ctl("set_" + kind, "--priority", Integer.toString(priority), "--apply-to", applyTo, name,
        "^" + pattern + "$", definition);
    desk.lab.later(() -> desk.ctl("clear_" + kind, name));
    return name;
  }

  private static String set(Desk desk, String what, int priority, String pattern, String definition)
      throws Exception {
    return set(desk, "policy", what, priority, "queues", pattern, definition);
  }

  private static void live(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "fanout");
    String dead = desk.bound("dead", exchange, "");
    String queue = desk.queue("q");
    desk.publishAll(queue, numbers(0, 5));
    String deadLetters = "\"dead-letter-exchange\": \"" + exchange + "\"";
    set(desk, "length", 0, queue, "{\"max-length\": 3, " + deadLetters + "}");
    desk.awaitReady(queue, 3);
    desk.publish(queue, "5");
    desk.awaitReady(queue, 3);
    desk.awaitReady(dead, 3);
    Check.equal(numbers(0, 3), desk.bodies(dead), "dead letters");
    Check.equal(3, desk.channel.queuePurge(queue).getMessageCount(), "kept");
    set(desk, "ttl", 1, queue, "{\"message-ttl\": " + SOON_MILLIS + ", " + deadLetters + "}");
    desk.publish(queue, "6");
    Check.equal("expired", Desk.death(desk.one(dead), "reason"), "reason");
  }

  private static void cleared(Desk desk) throws Exception {
    String queue = desk.queue("q");
    String policy = set(desk, "policy", 0, queue, "{\"max-length\": 1}");
    desk.publishAll(queue, numbers(0, 3));
    desk.awaitReady(queue, 1);
    desk.ctl("clear_policy", policy);
    desk.ctl("set_policy", policy, "^nothing$", "{\"max-length\": 1}"); // to be cleared at the end
    desk.publishAll(queue, numbers(3, 6));
    Check.equal(numbers(2, 6), desk.bodies(queue), "kept");
  }

  private static void priority(Desk desk) throws Exception {
    String queue = desk.queue("q");
    set(desk, "low", 1, queue, "{\"max-length\": 1}");
    set(desk, "high", 10, queue, "{\"max-length\": 3}");
    desk.publishAll(queue, numbers(0, 5));
    Check.equal(numbers(2, 5), desk.bodies(queue), "kept");
  }

  private static void policyAndArgument(Desk desk) throws Exception {
    String byPolicy = desk.queue("policy", "x-max-length", 4);
    String byArgument = desk.queue("argument", "x-max-length", 1);
    set(desk, "both", 0, desk.lab.name(".*"), "{\"max-length\": 2}");
    desk.publishAll(byPolicy, numbers(0, 5));
    desk.publishAll(byArgument, numbers(0, 5));
    Check.equal(numbers(3, 5), desk.bodies(byPolicy), "by the policy");
    Check.equal(numbers(4, 5), desk.bodies(byArgument), "by the argument");
  }

  private static void operatorPolicy(Desk desk) throws Exception {
    String queue = desk.queue("q");
    set(desk, "user", 0, queue, "{\"max-length\": 4, \"overflow\": \"reject-publish\"}");
    String operators = set(desk, "operator_policy", "operator", 0, "queues", queue, "{\"max-length\": 2}");
    desk.publishAll(queue, numbers(0, 2));
    Check.that(!desk.publish(queue, "too much"), "a third message is acked");
    desk.ctl("set_operator_policy", operators, "^nothing$", "{\"max-length\": 2}");
    desk.publishAll(queue, numbers(2, 4));
    Check.equal(numbers(0, 4), desk.bodies(queue), "kept");
  }

  private static void ofExchange(Desk desk) throws Exception {
    String alternate = desk.exchange("alternate", "fanout");
    String exchange = desk.exchange("x", "direct");
    String queue = desk.bound("q", alternate, "");
    desk.publish(exchange, "key", "lost", Desk.persistent().build(), false);
    set(desk, "policy", "policy", 0, "exchanges", exchange, "{\"alternate-exchange\": \"" + alternate + "\"}");
    AtomicInteger returns = new AtomicInteger();
    desk.channel.addReturnListener(returned -> returns.incrementAndGet());
    desk.publish(exchange, "key", "found", Desk.persistent().build(), true);
    Check.equal(List.of("found"), desk.bodies(queue), "in the alternate exchange's queue");
    Check.equal(0, returns.get(), "returns");
  }

  private static String vhost(Desk desk) throws Exception {
    String vhost = desk.lab.name("vhost");
    desk.ctl("add_vhost", vhost);
    desk.ctl("set_permissions", "--vhost", vhost, desk.lab.node().user(), ".*", ".*", ".*");
    return vhost;
  }

  private static ConnectionFactory into(Desk desk, String vhost) {
    ConnectionFactory factory = desk.lab.factory();
    factory.setVirtualHost(vhost);
    return factory;
  }

  private static void vhostLimits(Desk desk) throws Exception {
    String vhost = vhost(desk);
    desk.lab.later(() -> desk.ctl("delete_vhost", vhost));
    desk.ctl("set_vhost_limits", "--vhost", vhost, "{\"max-connections\": 1, \"max-queues\": 1}");
    Connection connection = desk.lab.connect(into(desk, vhost));
    connection.createChannel().queueDeclare("first", false, false, false, null);
    Channel channel = connection.createChannel();
    String text = "PRECONDITION_FAILED - cannot declare queue 'second': queue limit in vhost '" + vhost
        + "' (1) is reached";
    Check.channelCloses(channel, 406, text, () -> channel.queueDeclare("second", false, false, false, null));
    connection.createChannel().queueDeclare("first", false, false, false, null);
    desk.refuses(into(desk, vhost), 530, "NOT_ALLOWED - access to vhost '" + vhost + "' refused for user '"
        + desk.lab.node().user() + "': connection limit (1) is reached");
    desk.ctl("clear_vhost_limits", "--vhost", vhost);
    desk.lab.connect(into(desk, vhost)).createChannel().queueDeclare("second", false, false, false, null);
  }

  private static void userLimits(Desk desk) throws Exception {
    String user = desk.lab.name("user");
    desk.ctl("add_user", user, "secret");
    desk.lab.later(() -> desk.ctl("delete_user", user));
    desk.ctl("set_permissions", user, ".*", ".*", ".*");
    desk.ctl("set_user_limits", user, "{\"max-connections\": 1, \"max-channels\": 1}");
    ConnectionFactory factory = desk.lab.factory();
    factory.setUsername(user);
    factory.setPassword("secret");
    Connection connection = desk.lab.connect(factory);
    desk.refuses(factory, 530,
        "NOT_ALLOWED - connection refused for user '" + user + "': user connection limit (1) is reached");
    connection.createChannel();
    Check.connectionCloses(connection, 530, "NOT_ALLOWED - number of channels opened for user '" + user
        + "' has reached the maximum allowed user limit of ...", connection::createChannel);
  }

  private static void vhostDeleted(Desk desk) throws Exception {
    String vhost = vhost(desk);
    Connection connection = desk.lab.connect(into(desk, vhost));
    CompletableFuture<ShutdownSignalException> shutdown = new CompletableFuture<>();
    connection.addShutdownListener(shutdown::complete);
    connection.createChannel().queueDeclare("q", false, false, false, null);
    desk.ctl("delete_vhost", vhost);
    ShutdownSignalException signal = shutdown.get(Check.WAIT_SECONDS, TimeUnit.SECONDS);
    AMQP.Connection.Close close = (AMQP.Connection.Close) signal.getReason();
    Check.equal(320, close.getReplyCode(), "reply code");
    if (desk.majorVersion() >= 4) {
      Check.equal("CONNECTION_FORCED - vhost '" + vhost + "' is deleted", close.getReplyText(), "reply text");
    }
    desk.refuses(into(desk, vhost), 530, "NOT_ALLOWED - vhost " + vhost + " not found");
  }

  /** What is published and delivered, told to the trace exchange while an operator wants it. */
  private static void firehose(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "direct");
    String queue = desk.bound("q", exchange, "key");
    String told = desk.bound("told", TRACE, "publish." + exchange);
    desk.channel.queueBind(told, TRACE, "deliver." + queue);
    desk.publish(exchange, "key", "before", Desk.persistent().build(), false);
    desk.ctl("trace_on");
    desk.lab.later(() -> desk.ctl("trace_off"));
    desk.publish(exchange, "key", "traced", Desk.persistent().messageId("m").build(), false);
    desk.channel.queuePurge(queue);
    desk.publish(exchange, "key", "taken", Desk.persistent().build(), false);
    Check.equal(List.of("taken"), desk.bodies(queue), "in the queue");
    desk.awaitReady(told, 3);
    List<GetResponse> messages = desk.drain(told);
    Check.equal(List.of("publish traced", "publish taken", "deliver taken"),
        messages.stream().map(RulePolicies::traced).toList(), "told");
    Map<String, Object> headers = messages.get(0).getProps().getHeaders();
    Check.equal(exchange, headers.get("exchange_name").toString(), "exchange");
    Check.equal("[key]", headers.get("routing_keys").toString(), "keys");
    Check.equal("[" + queue + "]", headers.get("routed_queues").toString(), "queues");
    Check.equal("m", ((Map<?, ?>) headers.get("properties")).get("message_id").toString(), "message id");
    Check.equal(0, messages.get(2).getProps().getHeaders().get("redelivered"), "redelivered");
    desk.ctl("trace_off");
    desk.publish(exchange, "key", "after", Desk.persistent().build(), false);
    Check.equal(List.of("after"), desk.bodies(queue), "in the queue");
    Check.equal(0, desk.ready(told), "told afterwards");
  }

  private static String traced(GetResponse message) {
    return message.getEnvelope().getRoutingKey().split("\\.")[0] + " " + Desk.text(message);
  }

  private static void restart(Desk desk) throws Exception {
    Restarts.needsOwnNode(desk.lab);
    Mortal expiring = desk.mortal("expiring", "x-message-ttl", 1_500);
    Mortal rejected = desk.mortal("rejected");
    String ranked = desk.queue("ranked", "x-max-priority", 5);
    String limited = desk.queue("limited");
    set(desk, "policy", 0, limited, "{\"max-length\": 2}");
    desk.publish(expiring.queue(), "waits");
    desk.publish(rejected.queue(), "letter");
    desk.rejectOne(rejected.queue());
    desk.awaitReady(rejected.dead(), 1);
    for (int priority : new int[] {1, 3, 2}) {
      desk.publish("", ranked, Integer.toString(priority), Desk.persistent().priority(priority).build(), false);
    }
    desk.lab.node().kill9();
    desk.lab.node().start();
    Desk after = desk.again();
    Check.equal(List.of("3", "2", "1"), after.bodies(ranked), "order by priority");
    Check.equal(List.of("rejected"), Desk.reasons(after.drain(rejected.dead())), "the dead letter's reason");
    after.publishAll(limited, numbers(0, 4));
    Check.equal(numbers(2, 4), after.bodies(limited), "kept by the policy");
    Check.equal("expired", Desk.death(after.one(expiring.dead()), "reason"), "reason");
  }
}
