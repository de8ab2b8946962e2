package interop.scenarios;

import static interop.scenarios.Desk.headers;
import static interop.scenarios.Desk.numbers;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Exchange types that are names and arguments to client libraries. */
final class ExchangeTypes {
  private static final List<String> KEYS = numbers(0, 400);
  private static final int HOUR_MILLIS = 3_600_000;

  private ExchangeTypes() {}

  static void register(Suite suite) {
    suite.add("type-consistent-hash", Desk.body(ExchangeTypes::consistentHash));
    suite.add("type-consistent-hash-property", Desk.body(ExchangeTypes::consistentHashProperty));
    suite.add("type-modulus-hash", Desk.body(ExchangeTypes::modulusHash));
    suite.add("type-sharded", Desk.body(ExchangeTypes::sharded));
    suite.add("type-random", Desk.body(ExchangeTypes::random));
    suite.add("type-recent-history", Desk.body(ExchangeTypes::recentHistory));
    suite.add("type-jms-topic", Desk.body(ExchangeTypes::jmsTopic));
    suite.add("type-deduplication", Desk.body(ExchangeTypes::deduplication));
    suite.add("type-delayed", Desk.body(ExchangeTypes::delayed));
    suite.add("type-delayed-restart", 60, Desk.body(ExchangeTypes::delayedRestart));
  }

  /** Publishes each key so many times, then waits for all confirms. */
  private static void publishKeys(Desk desk, String exchange, int times) throws Exception {
    for (String key : KEYS) {
      for (int i = 0; i < times; i++) {
        Lab.publish(desk.channel, exchange, key, key);
      }
    }
    desk.channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
  }

  /** The keys found in a queue, each of which has to be there so many times. */
  private static Set<String> homes(Desk desk, String queue, int times) throws Exception {
    Map<String, Integer> counts = new HashMap<>();
    for (GetResponse message : desk.drain(queue)) {
      counts.merge(message.getEnvelope().getRoutingKey(), 1, Integer::sum);
    }
    counts.forEach((key, count) -> Check.equal(times, count, "messages with key " + key));
    return counts.keySet();
  }

  private static void allOnce(List<Set<String>> homes) {
    List<String> all = new ArrayList<>();
    homes.forEach(all::addAll);
    Check.equal(KEYS.size(), all.size(), "keys in all queues");
    Check.equal(new HashSet<>(KEYS), new HashSet<>(all), "keys");
  }

  private static void consistentHash(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-consistent-hash");
    String one = desk.bound("q1", exchange, "1");
    String three = desk.bound("q2", exchange, "3");
    publishKeys(desk, exchange, 2);
    Set<String> ofOne = homes(desk, one, 2);
    Set<String> ofThree = homes(desk, three, 2);
    allOnce(List.of(ofOne, ofThree));
    Check.that(!ofOne.isEmpty() && ofOne.size() < ofThree.size(), ofOne.size() + " and " + ofThree.size());
    String late = desk.bound("q3", exchange, "2");
    publishKeys(desk, exchange, 1);
    Set<String> moved = homes(desk, late, 1);
    Check.that(!moved.isEmpty(), "nothing moved");
    ofOne.removeAll(moved);
    ofThree.removeAll(moved);
    Check.equal(ofOne, homes(desk, one, 1), "left with the first");
    Check.equal(ofThree, homes(desk, three, 1), "left with the second");
    Channel channel = desk.connection.createChannel();
    Check.channelCloses(channel, 406, "PRECONDITION_FAILED - The binding key must be an integer: <<\"none\">>",
        () -> channel.queueBind(late, exchange, "none"));
  }

  private static void consistentHashProperty(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-consistent-hash", "hash-property", "message_id");
    List<String> queues = List.of(desk.bound("q1", exchange, "1"), desk.bound("q2", exchange, "1"));
    for (String id : numbers(0, 50)) {
      BasicProperties properties = Desk.persistent().messageId(id).build();
      desk.publish(exchange, "a", id, properties, false);
      desk.publish(exchange, "b", id, properties, false);
    }
    for (String queue : queues) {
      List<String> found = desk.bodies(queue);
      Check.that(!found.isEmpty(), "an empty queue");
      Check.equal(found.size(), 2 * new HashSet<>(found).size(), "messages of ids that are here");
    }
    Channel channel = desk.connection.createChannel();
    Check.channelCloses(channel, 406, "PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive",
        () -> channel.exchangeDeclare(desk.lab.name("both"), "x-consistent-hash", true, false,
            Desk.arguments("hash-property", "message_id", "hash-header", "user")));
  }

  private static void modulusHash(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-modulus-hash");
    String first = desk.bound("q1", exchange, "");
    String second = desk.bound("q2", exchange, "");
    publishKeys(desk, exchange, 2);
    Set<String> ofFirst = homes(desk, first, 2);
    Set<String> ofSecond = homes(desk, second, 2);
    allOnce(List.of(ofFirst, ofSecond));
    Check.that(!ofFirst.isEmpty() && !ofSecond.isEmpty(), "an empty queue");
  }

  private static void setShards(Desk desk, String exchange, int number) throws Exception {
    desk.ctl("set_policy", "--apply-to", "exchanges", exchange, "^" + exchange + "$",
        "{\"shards-per-node\": " + number + "}");
  }

  /** Waits for so many deliveries to all of these together, of which each has to get some. */
  private static void allDelivered(List<Inbox> inboxes, int expected) throws Exception {
    Check.eventually(expected, "deliveries", () -> inboxes.stream().mapToInt(Inbox::waiting).sum());
    for (Inbox inbox : inboxes) {
      Check.that(!inbox.take(inbox.waiting()).isEmpty(), "a consumer without a message");
    }
  }

  private static void sharded(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-modulus-hash");
    setShards(desk, exchange, 2);
    desk.lab.later(() -> desk.ctl("clear_policy", exchange));
    String first = desk.channel.queueDeclare(exchange, true, false, false, Map.of()).getQueue();
    Check.that(first.startsWith("sharding: " + exchange + " - ") && first.endsWith(" - 0"), first);
    List<String> shards =
        numbers(0, 3).stream().map(number -> first.substring(0, first.length() - 1) + number).toList();
    shards.forEach(desk.lab::deleteQueueLater);
    List<Inbox> inboxes = new ArrayList<>();
    inboxes.add(desk.consumer(exchange, true));
    inboxes.add(desk.consumer(exchange, true));
    publishKeys(desk, exchange, 2);
    allDelivered(inboxes, 2 * KEYS.size());
    setShards(desk, exchange, 3);
    inboxes.add(desk.consumer(exchange, true));
    publishKeys(desk, exchange, 1);
    allDelivered(inboxes, KEYS.size());
    for (String shard : shards) {
      Check.equal(0, desk.ready(shard), "left in " + shard);
    }
    Channel channel = desk.connection.createChannel();
    Check.channelCloses(channel, 406, "PRECONDITION_FAILED - Can't delete sharded queue: <<\"" + exchange + "\">>",
        () -> channel.queueDelete(exchange));
  }

  private static void random(Desk desk) throws Exception {
    for (String type : List.of("x-random", "x-local-random")) {
      String exchange = desk.exchange(type, type);
      String first = desk.bound(type + ".q1", exchange, "");
      String second = desk.bound(type + ".q2", exchange, "");
      publishKeys(desk, exchange, 1);
      int ofFirst = desk.drain(first).size();
      int ofSecond = desk.drain(second).size();
      Check.equal(KEYS.size(), ofFirst + ofSecond, type);
      Check.that(ofFirst > 0 && ofSecond > 0, type + ": " + ofFirst + " and " + ofSecond);
    }
  }

  private static void recentHistory(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-recent-history", "x-recent-history-length", 3);
    for (String text : numbers(1, 5)) {
      desk.publish(exchange, "key", text, Desk.persistent().build(), false);
    }
    desk.publish(exchange, "key", "5", headers("x-recent-history-no-store", true), false);
    Check.equal(numbers(2, 5), desk.bodies(desk.bound("q", exchange, "")), "history");
  }

  private static void jmsTopic(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-jms-topic");
    String first = desk.queue("q1");
    String second = desk.queue("q2");
    desk.channel.queueBind(first, exchange, "",
        Map.of("rabbitmq_jms_selector", "colour = 'blue' AND weight BETWEEN 1 AND 10"));
    desk.channel.queueBind(second, exchange, "",
        Map.of("rjms_erlang_selector", "{'like',{'ident',<<\"colour\">>},<<\"r%\">>,no_escape}."));
    desk.publish(exchange, "key", "1", headers("colour", "blue", "weight", 5), false);
    desk.publish(exchange, "key", "2", headers("colour", "blue", "weight", 11), false);
    desk.publish(exchange, "key", "3", headers("colour", "red", "weight", 5), false);
    Check.equal(List.of("1"), desk.bodies(first), "by the SQL selector");
    Check.equal(List.of("3"), desk.bodies(second), "by the term");
  }

  private static void deduplication(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-message-deduplication", "x-cache-size", 10);
    String queue = desk.bound("q", exchange, "");
    List<String> names = List.of("a", "b", "a");
    for (int i = 0; i < names.size(); i++) {
      desk.publish(exchange, "key", "" + (i + 1), headers("x-deduplication-header", names.get(i)), false);
    }
    desk.publish(exchange, "key", "4", Desk.persistent().build(), false);
    desk.publish(exchange, "key", "5", Desk.persistent().build(), false);
    Check.equal(List.of("1", "2", "4", "5"), desk.bodies(queue), "first of each name, and without one");
  }

  private static void delay(Desk desk, String exchange, String key, int millis, String text) throws Exception {
    desk.publish(exchange, key, text, headers("x-delay", millis), false);
  }

  private static Object delayOf(GetResponse message) {
    Map<String, Object> headers = message.getProps().getHeaders();
    return headers == null ? null : String.valueOf(headers.get("x-delay"));
  }

  private static void delayed(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "x-delayed-message", "x-delayed-type", "topic");
    String queue = desk.bound("q", exchange, "a.*");
    String other = desk.bound("other", exchange, "#");
    delay(desk, exchange, "a.b", 300, "late");
    delay(desk, exchange, "a.b", 100, "soon");
    delay(desk, exchange, "a.b", HOUR_MILLIS, "cancelled");
    desk.publish(exchange, "a.b", "now", Desk.persistent().build(), false);
    delay(desk, exchange, "b", 100, "also soon");
    desk.awaitReady(queue, 3);
    desk.awaitReady(other, 4);
    List<GetResponse> found = desk.drain(queue);
    Check.equal(List.of("now", "soon", "late"), found.stream().map(Desk::text).toList(), "order");
    Check.equal(Arrays.asList(null, "-100", "-300"), found.stream().map(ExchangeTypes::delayOf).toList(), "x-delay");
    Check.equal("late", desk.bodies(other).get(3), "last in the other queue");
    Channel channel = desk.connection.createChannel();
    Check.channelCloses(channel, 406,
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type",
        () -> channel.exchangeDeclare(desk.lab.name("untyped"), "x-delayed-message", true));
  }

  private static void delayedRestart(Desk desk) throws Exception {
    Restarts.needsOwnNode(desk.lab);
    String exchange = desk.exchange("x", "x-delayed-message", "x-delayed-type", "direct");
    String queue = desk.bound("q", exchange, "key");
    for (int i = 0; i < 100; i++) {
      delay(desk, exchange, "key", 1_500 + 5 * i, Integer.toString(i));
    }
    delay(desk, exchange, "key", HOUR_MILLIS, "listed");
    desk.lab.node().kill9();
    desk.lab.node().start();
    Desk after = desk.again();
    after.awaitReady(queue, 100);
    Check.equal(numbers(0, 100), after.bodies(queue), "order");
    String waiting = desk.ctl("list_delayed_messages", exchange, "--formatter", "json");
    Matcher id = Pattern.compile("\"id\": *\"?([^,\"}]+)").matcher(waiting);
    Check.that(id.find() && waiting.contains("\"key\""), "listed: " + waiting);
    desk.ctl("cancel_delayed_message", exchange, id.group(1));
    Check.that(!id.find(), "more than one is listed: " + waiting);
    String left = desk.ctl("list_delayed_messages", exchange, "--formatter", "json");
    Check.that(!left.contains("\"id\""), "left: " + left);
  }
}
