package interop.scenarios;

import static interop.scenarios.Lab.body;
import static interop.scenarios.Lab.publish;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Return;
import interop.harness.Suite;
import java.math.BigDecimal;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Date;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** Confirms, returns, properties, sizes and transactions. */
final class Publishing {
  private static final long WAIT_MILLIS = Check.WAIT_SECONDS * 1000;
  private static final int BODY_ACCEPTED = 15_000_000;
  private static final int BODY_REFUSED = 20 * 1024 * 1024;

  private Publishing() {}

  static void register(Suite suite) {
    suite.add("confirm-single", body(Publishing::confirmSingle));
    suite.add("confirm-batch", body(Publishing::confirmBatch));
    suite.add("confirm-mixed", body(Publishing::confirmMixed));
    suite.add("confirm-multiple", body(Publishing::confirmMultiple));
    suite.add("mandatory-return-before-ack", body(Publishing::returnBeforeAck));
    suite.add("publish-missing-exchange-404", body(Publishing::missingExchange));
    suite.add("properties-intact", body(Publishing::propertiesIntact));
    suite.add("body-15mb-intact", body(Publishing::largeBody));
    suite.add("body-20mb-refused", body(Publishing::tooLargeBody));
    suite.add("tx-commit", body(Publishing::txCommit));
    suite.add("tx-rollback", body(Publishing::txRollback));
  }

  private static void confirmSingle(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    channel.confirmSelect();
    Check.equal(1L, channel.getNextPublishSeqNo(), "first sequence number");
    publish(channel, "", queue, "routed");
    channel.waitForConfirmsOrDie(WAIT_MILLIS);
    publish(channel, "", lab.name("missing"), "unroutable");
    channel.waitForConfirmsOrDie(WAIT_MILLIS);
    Check.ready(channel, queue, 1);
  }

  private static void confirmBatch(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    for (int batch = 0; batch < 10; batch++) {
      Lab.publishNumbers(channel, queue, 100);
    }
    Check.ready(channel, queue, 1000);
  }

  private static void confirmMixed(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String durable = lab.queue(channel, "durable");
    String exclusive = lab.name("exclusive");
    channel.queueDeclare(exclusive, false, true, false, Map.of());
    channel.confirmSelect();
    BasicProperties transientBasic = MessageProperties.MINIMAL_BASIC;
    BasicProperties persistent = MessageProperties.MINIMAL_PERSISTENT_BASIC;
    for (int i = 0; i < 500; i++) {
      String queue = i % 2 == 0 ? durable : exclusive;
      BasicProperties properties = i / 2 % 2 == 0 ? transientBasic : persistent;
      channel.basicPublish("", queue, properties, Lab.bytes(Integer.toString(i)));
    }
    channel.waitForConfirmsOrDie(WAIT_MILLIS);
    Inbox fromDurable = new Inbox(channel);
    Inbox fromExclusive = new Inbox(channel);
    Check.ready(channel, durable, 250);
    Check.ready(channel, exclusive, 250);
    channel.basicConsume(durable, true, fromDurable);
    channel.basicConsume(exclusive, true, fromExclusive);
    List<String> even = IntStream.range(0, 250).mapToObj(i -> Integer.toString(2 * i)).toList();
    List<String> odd = IntStream.range(0, 250).mapToObj(i -> Integer.toString(2 * i + 1)).toList();
    Check.equal(even, fromDurable.bodies(250), "order in the durable queue");
    Check.equal(odd, fromExclusive.bodies(250), "order in the exclusive queue");
  }

  private static void confirmMultiple(Lab lab) throws Exception {
    int n = 2000;
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    record Confirm(long tag, boolean multiple, boolean ack) {}
    BlockingQueue<Confirm> confirms = new LinkedBlockingQueue<>();
    channel.addConfirmListener(new ConfirmListener() {
      @Override
      public void handleAck(long tag, boolean multiple) {
        confirms.add(new Confirm(tag, multiple, true));
      }

      @Override
      public void handleNack(long tag, boolean multiple) {
        confirms.add(new Confirm(tag, multiple, false));
      }
    });
    channel.confirmSelect();
    for (int i = 0; i < n; i++) {
      publish(channel, "", queue, "x");
    }
    BitSet settled = new BitSet(n + 1);
    while (settled.cardinality() < n) {
      Confirm confirm = confirms.poll(Check.WAIT_SECONDS, TimeUnit.SECONDS);
      Check.that(confirm != null, "only " + settled.cardinality() + " of " + n + " settled");
      Check.that(confirm.ack, "nack of " + confirm.tag);
      int tag = Math.toIntExact(confirm.tag);
      Check.that(tag >= 1 && tag <= n, "ack of " + tag + ", never published");
      Check.that(!settled.get(tag), "tag " + tag + " settled twice");
      settled.set(confirm.multiple ? 1 : tag, tag + 1);
    }
    channel.queueDeclarePassive(queue);
    Check.equal(0, confirms.size(), "confirms after the last one");
  }

  private static void returnBeforeAck(Lab lab) throws Exception {
    Channel channel = lab.channel();
    BlockingQueue<Object> events = new LinkedBlockingQueue<>();
    channel.addReturnListener(events::add);
    channel.addConfirmListener(
        (tag, multiple) -> events.add("ack"), (tag, multiple) -> events.add("nack"));
    channel.confirmSelect();
    String key = lab.name("missing");
    BasicProperties properties = new BasicProperties.Builder()
        .contentType("text/plain").correlationId("c-1").headers(Map.of("k", 7)).build();
    channel.basicPublish("", key, true, properties, Lab.bytes("come back"));
    Object first = events.poll(Check.WAIT_SECONDS, TimeUnit.SECONDS);
    Object second = events.poll(Check.WAIT_SECONDS, TimeUnit.SECONDS);
    Check.that(first instanceof Return, "first a basic.return, but got " + first);
    Check.equal("ack", second, "after the return");
    Return returned = (Return) first;
    Check.reply(312, "NO_ROUTE", returned.getReplyCode(), returned.getReplyText());
    Check.equal("", returned.getExchange(), "exchange");
    Check.equal(key, returned.getRoutingKey(), "key");
    Check.equal("come back", new String(returned.getBody()), "body");
    Check.equal(properties, returned.getProperties(), "properties");
  }

  private static void missingExchange(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String exchange = lab.name("missing");
    Check.channelCloses(channel, 404, "NOT_FOUND - no exchange '" + exchange + "' in vhost '/'",
        () -> publish(channel, exchange, "k", "lost"));
  }

  private static void propertiesIntact(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    BasicProperties sent = new BasicProperties.Builder()
        .contentType("application/json").contentEncoding("gzip").headers(everyHeaderType())
        .deliveryMode(2).priority(7).correlationId("corr").replyTo("reply")
        .expiration("600000").messageId("m-1").timestamp(new Date(1_700_000_000_000L))
        .type("kind").userId(lab.node().user()).appId("app").build();
    Inbox inbox = new Inbox(channel);
    channel.basicConsume(queue, true, inbox);
    channel.basicPublish("", queue, sent, new byte[0]);
    Delivery got = inbox.take();
    Check.equal(0, got.getBody().length, "body length");
    BasicProperties seen = got.getProperties();
    Check.equal(comparable(sent.getHeaders()), comparable(seen.getHeaders()), "headers");
    Check.equal(sent.builder().headers(null).build(), seen.builder().headers(null).build(),
        "properties");
    channel.basicPublish("", queue, new BasicProperties(), Lab.bytes("bare"));
    Check.equal(new BasicProperties(), inbox.take().getProperties(), "absent properties");
  }

  private static Map<String, Object> everyHeaderType() {
    Map<String, Object> headers = new HashMap<>();
    headers.put("bool", true);
    headers.put("byte", (byte) -5);
    headers.put("short", (short) -300);
    headers.put("int", -70_000);
    headers.put("long", 1L << 40);
    headers.put("float", 1.5f);
    headers.put("double", -2.25d);
    headers.put("decimal", new BigDecimal("12.34"));
    headers.put("string", "gr\u00fc\u00df dich");
    headers.put("bytes", new byte[] {0, 1, (byte) 0xCE, -1});
    headers.put("time", new Date(1_600_000_000_000L));
    headers.put("null", null);
    headers.put("list", Arrays.asList(1, "two", List.of(3L, false), null));
    headers.put("table", Map.of("inner", Map.of("deep", "value"), "n", 9));
    return headers;
  }

  /** A form in which long strings and byte arrays compare by content, with the value's type kept. */
  private static Object comparable(Object value) {
    if (value instanceof Map<?, ?> map) {
      Map<String, Object> out = new HashMap<>();
      map.forEach((key, inner) -> out.put(key.toString(), comparable(inner)));
      return out;
    }
    if (value instanceof List<?> list) {
      List<Object> out = new ArrayList<>();
      list.forEach(inner -> out.add(comparable(inner)));
      return out;
    }
    if (value instanceof LongString text) {
      return text.toString();
    }
    return value instanceof byte[] bytes ? "bytes " + HexFormat.of().formatHex(bytes) : value;
  }

  private static void largeBody(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    byte[] sent = new byte[BODY_ACCEPTED];
    new Random(1).nextBytes(sent);
    channel.confirmSelect();
    channel.basicPublish("", queue, MessageProperties.MINIMAL_PERSISTENT_BASIC, sent);
    channel.waitForConfirmsOrDie(3 * WAIT_MILLIS);
    Inbox inbox = new Inbox(channel);
    channel.basicConsume(queue, true, inbox);
    Check.equal(sha256(sent), sha256(inbox.take().getBody()), "SHA-256 of the body");
  }

  private static String sha256(byte[] bytes) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
  }

  private static void tooLargeBody(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    Check.channelCloses(channel, 406,
        "PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216",
        () -> channel.basicPublish("", queue, new BasicProperties(), new byte[BODY_REFUSED]));
    Channel next = channel.getConnection().createChannel();
    Lab.publishNumbers(next, queue, 1);
    Check.ready(next, queue, 1);
  }

  private static void txCommit(Lab lab) throws Exception {
    Channel observer = lab.channel();
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    channel.txSelect();
    for (int i = 0; i < 3; i++) {
      publish(channel, "", queue, Integer.toString(i));
    }
    // The answer on the same channel shows that the server has read the publishes.
    channel.queueDeclarePassive(queue);
    Check.equal(0, observer.queueDeclarePassive(queue).getMessageCount(), "ready before commit");
    channel.txCommit();
    Check.ready(observer, queue, 3);
    Inbox inbox = new Inbox(channel);
    String tag = channel.basicConsume(queue, false, inbox);
    for (Delivery delivery : inbox.take(3)) {
      channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
    }
    channel.txCommit();
    channel.basicCancel(tag);
    channel.close();
    Check.ready(observer, queue, 0);
    Check.that(observer.basicGet(queue, true) == null, "a message is left after the commit");
  }

  private static void txRollback(Lab lab) throws Exception {
    Channel observer = lab.channel();
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    channel.txSelect();
    publish(channel, "", queue, "no");
    publish(channel, "", queue, "no");
    channel.txRollback();
    publish(channel, "", queue, "yes");
    channel.txCommit();
    Check.ready(observer, queue, 1);
    GetResponse got = channel.basicGet(queue, false);
    Check.equal("yes", new String(got.getBody()), "body");
    channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
    channel.txRollback();
    Check.equal(0, observer.queueDeclarePassive(queue).getMessageCount(), "ready after rollback");
    channel.close(AMQP.REPLY_SUCCESS, "done");
    Check.ready(observer, queue, 1);
    GetResponse again = observer.basicGet(queue, true);
    Check.equal("yes", new String(again.getBody()), "body after the close");
    Check.that(again.getEnvelope().isRedeliver(), "not marked redelivered");
  }
}
