package interop.scenarios;

import static interop.scenarios.Lab.body;
import static interop.scenarios.Lab.publishNumbers;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import interop.harness.Suite;
import java.util.List;
import java.util.Map;

/** Deliveries, acknowledgements, and consumers. */
final class Consuming {
  private static final String REPLY_TO = "amq.rabbitmq.reply-to";

  private Consuming() {}

  static void register(Suite suite) {
    suite.add("consume-prefetch", body(Consuming::prefetch));
    suite.add("qos-per-consumer", body(Consuming::qosPerConsumer));
    suite.add("ack-multiple", body(Consuming::ackMultiple));
    suite.add("nack-requeue-order", body(Consuming::nackRequeueOrder));
    suite.add("nack-discard", body(Consuming::nackDiscard));
    suite.add("reject-requeue", body(Consuming::rejectRequeue));
    suite.add("reject-discard", body(Consuming::rejectDiscard));
    suite.add("basic-get", body(Consuming::basicGet));
    suite.add("basic-get-empty", body(Consuming::basicGetEmpty));
    suite.add("basic-recover", body(Consuming::basicRecover));
    suite.add("unknown-delivery-tag-406", body(Consuming::unknownDeliveryTag));
    suite.add("consumer-cancel", body(Consuming::cancel));
    suite.add("consumer-cancel-notify", body(Consuming::cancelNotify));
    suite.add("consumer-exclusive-403", body(Consuming::exclusiveConsumer));
    suite.add("consumer-priority", body(Consuming::priority));
    suite.add("consumer-tag-server-made", body(Consuming::serverMadeTag));
    suite.add("direct-reply-to", body(Consuming::directReplyTo));
  }

  private static void prefetch(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 20);
    Channel consuming = channel.getConnection().createChannel();
    consuming.basicQos(5);
    Inbox inbox = new Inbox(consuming);
    consuming.basicConsume(queue, false, inbox);
    for (int i = 0; i < 20; i++) {
      if (i == 4 || i == 5) {
        Check.ready(channel, queue, 15 - Math.max(0, i - 4));
      }
      Delivery got = inbox.take();
      Check.equal(Integer.toString(i), Inbox.body(got), "body");
      Check.equal(i + 1L, got.getEnvelope().getDeliveryTag(), "delivery tag");
      Check.that(!got.getEnvelope().isRedeliver(), "redelivered is set on " + i);
      if (i == 4) {
        Check.equal(0, inbox.waiting(), "deliveries beyond the prefetch");
      }
      if (i >= 4) {
        consuming.basicAck(i - 3L, false);
      }
    }
  }

  private static void qosPerConsumer(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String first = lab.queue(channel, "qa");
    String second = lab.queue(channel, "qb");
    publishNumbers(channel, first, 10);
    publishNumbers(channel, second, 10);
    Channel consuming = channel.getConnection().createChannel();
    Inbox a = new Inbox(consuming);
    Inbox b = new Inbox(consuming);
    consuming.basicQos(2);
    consuming.basicConsume(first, false, a);
    consuming.basicQos(3);
    consuming.basicConsume(second, false, b);
    Check.equal(List.of("0", "1"), a.bodies(2), "a");
    Check.equal(List.of("0", "1", "2"), b.bodies(3), "b");
    Check.ready(channel, first, 8);
    Check.ready(channel, second, 7);
    Check.equal(0, a.waiting() + b.waiting(), "deliveries beyond the prefetch");
  }

  private static void ackMultiple(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 10);
    Channel consuming = channel.getConnection().createChannel();
    Inbox inbox = new Inbox(consuming);
    consuming.basicConsume(queue, false, inbox);
    inbox.take(10);
    consuming.basicAck(7, true);
    consuming.close();
    Check.ready(channel, queue, 3);
    getAll(channel, queue, true, "7", "8", "9");
  }

  private static void nackRequeueOrder(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 5);
    Inbox inbox = new Inbox(channel);
    String tag = channel.basicConsume(queue, false, inbox);
    inbox.take(5);
    channel.basicCancel(tag);
    channel.basicNack(2, false, true);
    channel.basicNack(0, true, true);
    Check.ready(channel, queue, 5);
    getAll(channel, queue, true, "0", "1", "2", "3", "4");
  }

  private static void nackDiscard(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 3);
    Channel consuming = channel.getConnection().createChannel();
    Inbox inbox = new Inbox(consuming);
    consuming.basicConsume(queue, false, inbox);
    inbox.take(3);
    consuming.basicNack(3, true, false);
    consuming.close();
    getAll(channel, queue, true);
  }

  private static void rejectRequeue(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 2);
    GetResponse first = get(channel, queue, "0", false);
    get(channel, queue, "1", false);
    channel.basicReject(first.getEnvelope().getDeliveryTag(), true);
    Check.ready(channel, queue, 1);
    get(channel, queue, "0", true);
  }

  private static void rejectDiscard(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 1);
    Channel getting = channel.getConnection().createChannel();
    GetResponse got = get(getting, queue, "0", false);
    getting.basicReject(got.getEnvelope().getDeliveryTag(), false);
    getting.close();
    getAll(channel, queue, true);
  }

  private static void basicGet(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 3);
    Channel getting = channel.getConnection().createChannel();
    GetResponse first = get(getting, queue, "0", false);
    Check.equal(2, first.getMessageCount(), "message-count of the first get-ok");
    Check.equal(1L, first.getEnvelope().getDeliveryTag(), "first delivery tag");
    GetResponse second = getting.basicGet(queue, true);
    Check.equal(1, second.getMessageCount(), "message-count of the second get-ok");
    Check.equal("1", new String(second.getBody()), "second body");
    getting.close();
    Check.ready(channel, queue, 2);
    get(channel, queue, "0", true);
    get(channel, queue, "2", false);
  }

  private static void basicGetEmpty(Lab lab) throws Exception {
    Channel channel = lab.channel();
    Check.that(channel.basicGet(lab.queue(channel, "q"), false) == null, "something was got");
  }

  private static void basicRecover(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 3);
    for (int i = 0; i < 3; i++) {
      get(channel, queue, Integer.toString(i), false);
    }
    channel.basicRecover(true);
    Check.ready(channel, queue, 3);
    getAll(channel, queue, true, "0", "1", "2");
  }

  private static void unknownDeliveryTag(Lab lab) throws Exception {
    Connection connection = lab.connect();
    Channel fresh = connection.createChannel();
    Check.channelCloses(fresh, 406, "PRECONDITION_FAILED - unknown delivery tag 99",
        () -> fresh.basicAck(99, false));
    Channel twice = connection.createChannel();
    String queue = lab.queue(twice, "q");
    publishNumbers(twice, queue, 1);
    GetResponse got = get(twice, queue, "0", false);
    Check.channelCloses(twice, 406, "PRECONDITION_FAILED - unknown delivery tag 1", () -> {
      twice.basicAck(got.getEnvelope().getDeliveryTag(), false);
      twice.basicAck(got.getEnvelope().getDeliveryTag(), false);
    });
  }

  private static void cancel(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    publishNumbers(channel, queue, 4);
    Channel consuming = channel.getConnection().createChannel();
    consuming.basicQos(2);
    Inbox inbox = new Inbox(consuming);
    String tag = consuming.basicConsume(queue, false, inbox);
    inbox.take(2);
    consuming.basicCancel(tag);
    consuming.basicAck(1, false);
    consuming.basicAck(2, false);
    // The answer on the same channel shows that both acks were read and accepted.
    Check.equal(2, consuming.queueDeclarePassive(queue).getMessageCount(), "ready");
    Check.equal(0, inbox.waiting(), "deliveries after cancel-ok");
  }

  private static void cancelNotify(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    Channel consuming = lab.channel();
    Inbox inbox = new Inbox(consuming);
    consuming.basicConsume(queue, false, inbox);
    channel.queueDelete(queue);
    inbox.awaitServerCancel();
    lab.queue(consuming, "again");
  }

  private static void exclusiveConsumer(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String taken = lab.queue(channel, "q");
    String owned = lab.queue(channel, "q2");
    channel.basicConsume(taken, false, new Inbox(channel));
    Channel late = lab.channel();
    Check.channelCloses(late, 403,
        "ACCESS_REFUSED - queue '" + taken + "' in vhost '/' in exclusive use",
        () -> late.basicConsume(taken, false, "late", false, true, Map.of(), new Inbox(late)));
    channel.basicConsume(owned, false, "owner", false, true, Map.of(), new Inbox(channel));
    Channel second = late.getConnection().createChannel();
    Check.channelCloses(second, 403,
        "ACCESS_REFUSED - queue '" + owned + "' in vhost '/' in exclusive use",
        () -> second.basicConsume(owned, false, new Inbox(second)));
  }

  private static void priority(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    Inbox low = prioritized(lab.channel(), queue, 1);
    Inbox high = prioritized(lab.channel(), queue, 10);
    publishNumbers(channel, queue, 6);
    List<Delivery> first = high.take(2);
    Check.equal(List.of("0", "1"), first.stream().map(Inbox::body).toList(), "high");
    Check.equal(List.of("2", "3"), low.bodies(2), "low");
    Check.ready(channel, queue, 2);
    high.getChannel().basicAck(first.get(0).getEnvelope().getDeliveryTag(), false);
    Check.equal("4", Inbox.body(high.take()), "after the ack");
    Check.ready(channel, queue, 1);
    Check.equal(0, low.waiting() + high.waiting(), "deliveries beyond the prefetch");
  }

  private static Inbox prioritized(Channel channel, String queue, int priority) throws Exception {
    channel.basicQos(2);
    Inbox inbox = new Inbox(channel);
    channel.basicConsume(queue, false, Map.of("x-priority", priority), inbox);
    return inbox;
  }

  private static void serverMadeTag(Lab lab) throws Exception {
    Channel channel = lab.channel();
    String queue = lab.queue(channel, "q");
    String tag = channel.basicConsume(queue, false, "", new Inbox(channel));
    Check.startsWith("amq.ctag-", tag, "consumer tag");
  }

  private static void directReplyTo(Lab lab) throws Exception {
    Channel server = lab.channel();
    String queue = lab.queue(server, "q");
    Inbox requests = new Inbox(server);
    server.basicConsume(queue, true, requests);
    Channel client = lab.channel();
    Inbox replies = new Inbox(client);
    client.basicConsume(REPLY_TO, true, replies);
    BasicProperties ask =
        new BasicProperties.Builder().replyTo(REPLY_TO).correlationId("c-7").build();
    client.basicPublish("", queue, ask, Lab.bytes("ping"));
    BasicProperties asked = requests.take().getProperties();
    Check.startsWith(REPLY_TO + ".", asked.getReplyTo(), "reply-to seen by the server");
    BasicProperties answer =
        new BasicProperties.Builder().correlationId(asked.getCorrelationId()).build();
    server.basicPublish("", asked.getReplyTo(), answer, Lab.bytes("pong"));
    Delivery reply = replies.take();
    Check.equal("pong", Inbox.body(reply), "reply");
    Check.equal("c-7", reply.getProperties().getCorrelationId(), "correlation-id");
  }

  private static GetResponse get(Channel channel, String queue, String body, boolean redelivered)
      throws Exception {
    GetResponse got = channel.basicGet(queue, false);
    Check.that(got != null, "nothing to get, expected " + body);
    Check.equal(body, new String(got.getBody()), "got");
    Check.equal(redelivered, got.getEnvelope().isRedeliver(), "redelivered of " + body);
    return got;
  }

  /** Gets exactly these messages, then nothing. */
  private static void getAll(Channel channel, String queue, boolean redelivered, String... bodies)
      throws Exception {
    for (String body : bodies) {
      get(channel, queue, body, redelivered);
    }
    Check.that(channel.basicGet(queue, true) == null, "more than " + bodies.length + " messages");
  }
}
