package interop.scenarios;

import static interop.scenarios.Lab.body;
import static interop.scenarios.Lab.publish;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import interop.harness.Suite;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Exchange types, bindings, and declaring again. */
final class Exchanges {
  private Exchanges() {}

  static void register(Suite suite) {
    suite.add("exchange-direct", body(Exchanges::direct));
    suite.add("exchange-fanout", body(Exchanges::fanout));
    suite.add("exchange-topic", body(Exchanges::topic));
    suite.add("exchange-headers-all", body(Exchanges::headersAll));
    suite.add("exchange-headers-any", body(Exchanges::headersAny));
    suite.add("exchange-headers-all-with-x", body(Exchanges::headersAllWithX));
    suite.add("exchange-headers-any-with-x", body(Exchanges::headersAnyWithX));
    suite.add("exchange-default", body(Exchanges::defaultExchange));
    suite.add("exchange-alternate", body(Exchanges::alternate));
    suite.add("exchange-internal", body(Exchanges::internal));
    suite.add("exchange-auto-delete", body(Exchanges::autoDelete));
    suite.add("exchange-to-exchange", body(Exchanges::exchangeToExchange));
    suite.add("passive-missing-404", body(Exchanges::passiveMissing));
    suite.add("redeclare-inequivalent-406", body(Exchanges::redeclareInequivalent));
  }

  private static void direct(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "direct");
    String first = lab.queue(channel, "q1");
    String second = lab.queue(channel, "q2");
    channel.queueBind(first, exchange, "a");
    channel.queueBind(second, exchange, "a");
    channel.queueBind(second, exchange, "b");
    publishKeys(channel, exchange, "a", "b", "c");
    Check.equal(List.of("a"), drain(channel, first), "q1");
    Check.equal(List.of("a", "b"), drain(channel, second), "q2");
  }

  private static void fanout(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "fanout");
    String first = lab.queue(channel, "q1");
    String second = lab.queue(channel, "q2");
    channel.queueBind(first, exchange, "a");
    channel.queueBind(second, exchange, "b");
    publishKeys(channel, exchange, "c", "d");
    Check.equal(List.of("c", "d"), drain(channel, first), "q1");
    Check.equal(List.of("c", "d"), drain(channel, second), "q2");
  }

  private static void topic(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "topic");
    String oneWord = lab.queue(channel, "q1");
    String prefix = lab.queue(channel, "q2");
    String all = lab.queue(channel, "q3");
    String single = lab.queue(channel, "q4");
    channel.queueBind(oneWord, exchange, "a.*.c");
    channel.queueBind(prefix, exchange, "a.#");
    channel.queueBind(all, exchange, "#");
    channel.queueBind(single, exchange, "*");
    publishKeys(channel, exchange, "a.b.c", "a..c", "a", "a.b.c.d", "", "x");
    Check.equal(List.of("a.b.c", "a..c"), drain(channel, oneWord), "a.*.c");
    Check.equal(List.of("a.b.c", "a..c", "a", "a.b.c.d"), drain(channel, prefix), "a.#");
    Check.equal(List.of("a.b.c", "a..c", "a", "a.b.c.d", "", "x"), drain(channel, all), "#");
    Check.equal(List.of("a", "x"), drain(channel, single), "*");
  }

  private static void headersAll(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "headers");
    String queue = headersQueue(lab, channel, exchange, "all", Map.of("k", 1, "s", "v"));
    publishHeaders(channel, exchange, List.of(
        Map.of("k", 1, "s", "v"),
        Map.of("k", 1),
        Map.of("k", "1", "s", "v"),
        Map.of("k", 1, "s", "v", "more", true)));
    Check.equal(List.of("0", "3"), drain(channel, queue), "matched by all");
  }

  private static void headersAny(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "headers");
    String queue = headersQueue(lab, channel, exchange, "any", Map.of("k", 1, "s", "v"));
    publishHeaders(channel, exchange, List.of(
        Map.of("k", 1),
        Map.of("s", "v"),
        Map.of("k", 2, "s", "w"),
        Map.of()));
    Check.equal(List.of("0", "1"), drain(channel, queue), "matched by any");
  }

  private static void headersAllWithX(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "headers");
    Map<String, Object> pattern = Map.of("k", 1, "x-tag", "t");
    String withX = headersQueue(lab, channel, exchange, "all-with-x", pattern);
    String plain = headersQueue(lab, channel, exchange, "all", pattern);
    publishHeaders(channel, exchange, List.of(Map.of("k", 1, "x-tag", "t"), Map.of("k", 1)));
    Check.equal(List.of("0"), drain(channel, withX), "matched by all-with-x");
    Check.equal(List.of("0", "1"), drain(channel, plain), "matched by all");
  }

  private static void headersAnyWithX(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.exchange(channel, "x", "headers");
    Map<String, Object> pattern = Map.of("k", 1, "x-tag", "t");
    String withX = headersQueue(lab, channel, exchange, "any-with-x", pattern);
    String plain = headersQueue(lab, channel, exchange, "any", pattern);
    publishHeaders(channel, exchange,
        List.of(Map.of("x-tag", "t"), Map.of("k", 1), Map.of("k", 2)));
    Check.equal(List.of("0", "1"), drain(channel, withX), "matched by any-with-x");
    Check.equal(List.of("1"), drain(channel, plain), "matched by any");
  }

  private static void defaultExchange(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    channel.confirmSelect();
    publish(channel, "", queue, "hello");
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
    Check.equal(List.of("hello"), drain(channel, queue), "by the default exchange");
    Check.channelCloses(channel, 403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
        () -> channel.queueBind(queue, "", "key"));
  }

  private static void alternate(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String alternate = lab.exchange(channel, "ae", "fanout");
    String exchange = lab.exchange(channel, "x", "direct", Map.of("alternate-exchange", alternate));
    String routed = lab.queue(channel, "q1");
    String caught = lab.queue(channel, "q2");
    channel.queueBind(routed, exchange, "a");
    channel.queueBind(caught, alternate, "");
    BlockingQueue<String> returned = returns(channel);
    channel.confirmSelect();
    publish(channel, exchange, "a", "one");
    channel.basicPublish(exchange, "b", true, new BasicProperties(), Lab.bytes("two"));
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
    Check.equal(List.of("one"), drain(channel, routed), "q1");
    GetResponse got = channel.basicGet(caught, true);
    Check.that(got != null, "nothing came through the alternate exchange");
    Check.equal("two", new String(got.getBody(), StandardCharsets.UTF_8), "body");
    Check.equal(exchange, got.getEnvelope().getExchange(), "exchange of the delivery");
    Check.equal("b", got.getEnvelope().getRoutingKey(), "key of the delivery");
    Check.equal(0, returned.size(), "returns");
  }

  private static void internal(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String internal = lab.name("i");
    channel.exchangeDeclare(internal, "fanout", true, false, true, Map.of());
    lab.deleteExchangeLater(internal);
    String exchange = lab.exchange(channel, "x", "direct");
    String queue = lab.queue(channel, "q");
    channel.queueBind(queue, internal, "");
    channel.exchangeBind(internal, exchange, "k");
    publishKeys(channel, exchange, "k");
    Check.equal(List.of("k"), drain(channel, queue), "through the internal exchange");
    Check.channelCloses(channel, 403,
        "ACCESS_REFUSED - cannot publish to internal exchange '" + internal + "' in vhost '/'",
        () -> publish(channel, internal, "k", "direct"));
  }

  private static void autoDelete(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.name("x");
    channel.exchangeDeclare(exchange, "fanout", false, true, Map.of());
    String first = lab.queue(channel, "q1");
    String second = lab.queue(channel, "q2");
    channel.queueBind(first, exchange, "");
    channel.queueBind(second, exchange, "");
    channel.queueUnbind(first, exchange, "");
    channel.exchangeDeclarePassive(exchange);
    channel.queueUnbind(second, exchange, "");
    Check.channelCloses(channel, 404, "NOT_FOUND - no exchange '" + exchange + "' in vhost '/'",
        () -> channel.exchangeDeclarePassive(exchange));
  }

  private static void exchangeToExchange(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String source = lab.exchange(channel, "s", "topic");
    String target = lab.exchange(channel, "d", "fanout");
    String queue = lab.queue(channel, "q");
    channel.exchangeBind(target, source, "a.#");
    channel.exchangeBind(source, target, "a.#");
    channel.queueBind(queue, target, "");
    publishKeys(channel, source, "a.b", "z");
    Check.equal(List.of("a.b"), drain(channel, queue), "through both exchanges");
    channel.exchangeUnbind(target, source, "a.#");
    BlockingQueue<String> returned = returns(channel);
    channel.basicPublish(source, "a.b", true, new BasicProperties(), Lab.bytes("late"));
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
    Check.equal("late", returned.poll(), "returned after the unbind");
  }

  private static void passiveMissing(Lab lab) throws Exception {
    Channel first = lab.channel();
    String missing = lab.name("missing");
    Check.channelCloses(first, 404, "NOT_FOUND - no queue '" + missing + "' in vhost '/'",
        () -> first.queueDeclarePassive(missing));
    Channel second = first.getConnection().createChannel();
    Check.channelCloses(second, 404, "NOT_FOUND - no exchange '" + missing + "' in vhost '/'",
        () -> second.exchangeDeclarePassive(missing));
  }

  private static void redeclareInequivalent(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q", Map.of("x-message-ttl", 60_000));
    channel.queueDeclare(queue, true, false, false, Map.of("x-message-ttl", 60_000));
    // The same number in another integer width is the same argument.
    channel.queueDeclare(queue, true, false, false, Map.of("x-message-ttl", 60_000L));
    Check.channelCloses(channel, 406,
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '" + queue
            + "' in vhost '/': received '70000' but current is '60000'",
        () -> channel.queueDeclare(queue, true, false, false, Map.of("x-message-ttl", 70_000)));
    Channel next = channel.getConnection().createChannel();
    String exchange = lab.exchange(next, "x", "direct");
    next.exchangeDeclare(exchange, "direct", true);
    Check.channelCloses(next, 406,
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange '" + exchange
            + "' in vhost '/': received 'fanout' but current is 'direct'",
        () -> next.exchangeDeclare(exchange, "fanout", true));
  }

  private static String headersQueue(
      Lab lab, Channel channel, String exchange, String match, Map<String, Object> pattern)
      throws Exception {
    String queue = lab.queue(channel, match);
    Map<String, Object> arguments = new HashMap<>(pattern);
    arguments.put("x-match", match);
    channel.queueBind(queue, exchange, "", arguments);
    return queue;
  }

  /** Publishes one message per key, with the key as its body, and waits for the confirms. */
  private static void publishKeys(Channel channel, String exchange, String... keys)
      throws Exception {
    channel.confirmSelect();
    for (String key : keys) {
      publish(channel, exchange, key, key);
    }
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
  }

  /** Publishes one message per header table, with its position as body. */
  private static void publishHeaders(
      Channel channel, String exchange, List<Map<String, Object>> tables) throws Exception {
    channel.confirmSelect();
    for (int i = 0; i < tables.size(); i++) {
      BasicProperties properties = new BasicProperties.Builder().headers(tables.get(i)).build();
      channel.basicPublish(exchange, "", properties, Lab.bytes(Integer.toString(i)));
    }
    channel.waitForConfirmsOrDie(Check.WAIT_SECONDS * 1000);
  }

  /** Gets everything that is ready; complete, because the publishes before it were confirmed. */
  private static List<String> drain(Channel channel, String queue) throws Exception {
    List<String> bodies = new ArrayList<>();
    for (GetResponse got = channel.basicGet(queue, true);
        got != null;
        got = channel.basicGet(queue, true)) {
      bodies.add(new String(got.getBody(), StandardCharsets.UTF_8));
    }
    return bodies;
  }

  /** The bodies the server returns on this channel from now on. */
  private static BlockingQueue<String> returns(Channel channel) {
    BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
    channel.addReturnListener(
        returned -> bodies.add(new String(returned.getBody(), StandardCharsets.UTF_8)));
    return bodies;
  }
}
