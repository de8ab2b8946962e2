package interop.scenarios;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import interop.harness.Skip;
import interop.harness.Suite;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** A connection with a channel in confirm mode, and the short words in which scenarios of rules are told. */
final class Desk {
  /** The steps of a scenario. */
  interface Steps {
    void run(Desk desk) throws Exception;
  }

  /** A queue and the queue of its dead letters. */
  record Mortal(String queue, String dead) {}

  static final int SOON_MILLIS = 50;
  static final int LATE_MILLIS = 600_000;

  private static final long DEATH_AGE_MAX_MILLIS = 300_000;

  final Lab lab;
  final Connection connection;
  final Channel channel;

  private Desk(Lab lab) throws Exception {
    this.lab = lab;
    this.connection = lab.connect();
    this.channel = connection.createChannel();
    channel.confirmSelect();
  }

  static Suite.Body body(Steps steps) {
    return Lab.body(lab -> steps.run(new Desk(lab)));
  }

  /** The same with a new connection, after the node was restarted. */
  Desk again() throws Exception {
    return new Desk(lab);
  }

  /** Arguments from names and values in turn. */
  static Map<String, Object> arguments(Object... namesAndValues) {
    Map<String, Object> arguments = new HashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      arguments.put((String) namesAndValues[i], namesAndValues[i + 1]);
    }
    return arguments;
  }

  static BasicProperties.Builder persistent() {
    return new BasicProperties.Builder().deliveryMode(2);
  }

  static BasicProperties expiring(int millis) {
    return persistent().expiration(Integer.toString(millis)).build();
  }

  static BasicProperties headers(Object... namesAndValues) {
    return persistent().headers(arguments(namesAndValues)).build();
  }

  String queue(String what, Object... namesAndValues) throws Exception {
    return lab.queue(channel, what, arguments(namesAndValues));
  }

  String exchange(String what, String type, Object... namesAndValues) throws Exception {
    return lab.exchange(channel, what, type, arguments(namesAndValues));
  }

  String bound(String what, String exchange, String key) throws Exception {
    String queue = queue(what);
    channel.queueBind(queue, exchange, key);
    return queue;
  }

  /** A queue with these arguments and a dead-letter exchange. */
  Mortal mortal(String what, Object... namesAndValues) throws Exception {
    String exchange = exchange(what + ".x", "fanout");
    String dead = bound(what + ".dead", exchange, "");
    Map<String, Object> arguments = arguments(namesAndValues);
    arguments.put("x-dead-letter-exchange", exchange);
    return new Mortal(lab.queue(channel, what, arguments), dead);
  }

  /** Publishes to a queue and waits for the confirm; whether it is an ack. */
  boolean publish(String queue, String text) throws Exception {
    return publish("", queue, text, persistent().build(), false);
  }

  boolean publish(String exchange, String key, String text, BasicProperties properties, boolean mandatory)
      throws Exception {
    channel.basicPublish(exchange, key, mandatory, properties, Lab.bytes(text));
    return channel.waitForConfirms(Check.WAIT_SECONDS * 1000);
  }

  void publishAll(String queue, List<String> texts) throws Exception {
    for (String text : texts) {
      Check.that(publish(queue, text), text + " is nacked");
    }
  }

  static List<String> numbers(int from, int to) {
    return IntStream.range(from, to).mapToObj(Integer::toString).toList();
  }

  int ready(String queue) throws Exception {
    return channel.queueDeclarePassive(queue).getMessageCount();
  }

  void awaitReady(String queue, int expected) throws Exception {
    Check.ready(channel, queue, expected);
  }

  /** Everything that is ready, taken. */
  List<GetResponse> drain(String queue) throws Exception {
    List<GetResponse> all = new ArrayList<>();
    for (GetResponse next = channel.basicGet(queue, true); next != null; next = channel.basicGet(queue, true)) {
      all.add(next);
    }
    return all;
  }

  List<String> bodies(String queue) throws Exception {
    return drain(queue).stream().map(Desk::text).toList();
  }

  /** The one message of a queue, which may be on its way. */
  GetResponse one(String queue) throws Exception {
    awaitReady(queue, 1);
    return channel.basicGet(queue, true);
  }

  void rejectOne(String queue) throws Exception {
    try (Channel other = connection.createChannel()) {
      other.basicReject(other.basicGet(queue, false).getEnvelope().getDeliveryTag(), false);
    }
  }

  Inbox consumer(String queue, boolean autoAck, Object... namesAndValues) throws Exception {
    Channel own = connection.createChannel();
    Inbox inbox = new Inbox(own);
    own.basicConsume(queue, autoAck, "", false, false, arguments(namesAndValues), inbox);
    return inbox;
  }

  static String text(GetResponse message) {
    return new String(message.getBody(), StandardCharsets.UTF_8);
  }

  static List<?> deaths(GetResponse message) {
    return (List<?>) message.getProps().getHeaders().get("x-death");
  }

  /** A field of the newest death, as text. */
  static String death(GetResponse message, String field) {
    return String.valueOf(((Map<?, ?>) deaths(message).get(0)).get(field));
  }

  static List<String> reasons(List<GetResponse> letters) {
    return letters.stream().map(letter -> death(letter, "reason")).toList();
  }

  /** A death with texts as strings and without its time, which has to be one of now. */
  static Map<String, Object> timeless(Object death) {
    Map<String, Object> plain = new HashMap<>();
    ((Map<?, ?>) death).forEach((name, value) -> plain.put((String) name, plain(value)));
    Date time = (Date) plain.remove("time");
    Check.that(Math.abs(new Date().getTime() - time.getTime()) < DEATH_AGE_MAX_MILLIS, "time of death: " + time);
    return plain;
  }

  private static Object plain(Object value) {
    if (value instanceof List<?> list) {
      return list.stream().map(String::valueOf).toList();
    }
    return value instanceof Long || value instanceof Date ? value : value.toString();
  }

  boolean isLeveret() {
    return connection.getServerProperties().containsKey("leveret_version");
  }

  /** The version of RabbitMQ that the node gives as its own. */
  int majorVersion() {
    return Integer.parseInt(String.valueOf(connection.getServerProperties().get("version")).split("\\.")[0]);
  }

  void needsMajorVersion(int needed, String otherwise) {
    if (majorVersion() < needed) {
      throw new Skip(otherwise);
    }
  }

  String ctl(String... arguments) throws Exception {
    return lab.node().ctl(arguments);
  }

  /** A connection must be refused with this code and text. */
  void refuses(ConnectionFactory factory, int code, String text) throws Exception {
    try (Connection refused = factory.newConnection()) {
      throw new AssertionError("accepted: " + refused);
    } catch (java.io.IOException failure) {
      String reason = String.valueOf(failure.getCause() == null ? failure : failure.getCause());
      Check.that(reason.contains("reply-code=" + code) && reason.contains(text), "refused with " + reason);
    }
  }
}
