package interop.scenarios;

import static interop.scenarios.Desk.numbers;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import interop.harness.Skip;
import interop.harness.Suite;
import interop.scenarios.Desk.Mortal;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Who is given which message, and how often. */
final class RuleConsumers {
  private RuleConsumers() {}

  static void register(Suite suite) {
    suite.add("rule-priority", Desk.body(RuleConsumers::priority));
    suite.add("rule-priority-requeued", Desk.body(RuleConsumers::priorityRequeued));
    suite.add("rule-round-robin", Desk.body(RuleConsumers::roundRobin));
    suite.add("rule-single-active-failover", Desk.body(RuleConsumers::singleActive));
    suite.add("rule-single-active-keeps", Desk.body(RuleConsumers::singleActiveKeeps));
    suite.add("rule-single-active-exclusive-403", Desk.body(RuleConsumers::singleActiveExclusive));
    suite.add("rule-consumer-priority-wrong-406", Desk.body(RuleConsumers::priorityOfWrongType));
    suite.add("rule-delivery-limit", Desk.body(RuleConsumers::deliveryLimit));
    suite.add("rule-delayed-retry", Desk.body(RuleConsumers::delayedRetry));
    suite.add("rule-single-active-order", Desk.body(RuleConsumers::singleActiveOrder));
    suite.add("rule-single-active-cancel", Desk.body(RuleConsumers::singleActiveCancel));
    suite.add("rule-recover-settles-406", Desk.body(RuleConsumers::recoverSettles));
    suite.add("rule-channel-close-order", Desk.body(RuleConsumers::channelCloseOrder));
  }

  private static void publishRanked(Desk desk, String queue, Integer... priorities) throws Exception {
    for (int i = 0; i < priorities.length; i++) {
      desk.publish("", queue, Integer.toString(i), Desk.persistent().priority(priorities[i]).build(), false);
    }
  }

  private static void priority(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-max-priority", 5);
    publishRanked(desk, queue, null, 0, 9, 5, 1, 200, null);
    List<GetResponse> messages = desk.drain(queue);
    Check.equal(List.of("2", "3", "5", "4", "0", "1", "6"), messages.stream().map(Desk::text).toList(), "order");
    Check.equal(Arrays.asList(9, 5, 200, 1, null, 0, null),
        messages.stream().map(message -> message.getProps().getPriority()).toList(), "priorities");
  }

  private static void priorityRequeued(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-max-priority", 2);
    publishRanked(desk, queue, 1, 2, 1);
    Channel holder = desk.connection.createChannel();
    Check.equal("1", Desk.text(holder.basicGet(queue, false)), "first");
    Check.equal("0", Desk.text(holder.basicGet(queue, false)), "second");
    holder.basicNack(2, true, true);
    desk.awaitReady(queue, 3);
    Check.equal(List.of("1", "0", "2"), desk.bodies(queue), "order after the requeue");
  }

  private static void roundRobin(Desk desk) throws Exception {
    String queue = desk.queue("q");
    List<Inbox> inboxes = List.of(
        desk.consumer(queue, true), desk.consumer(queue, true), desk.consumer(queue, true));
    desk.publishAll(queue, numbers(0, 9));
    for (Inbox inbox : inboxes) {
      inbox.take(3);
    }
    desk.awaitReady(queue, 0);
    Check.equal(0, inboxes.stream().mapToInt(Inbox::waiting).sum(), "beyond three each");
  }

  /** Bodies with whether they are redelivered. */
  private static Map<String, Boolean> seen(List<Delivery> deliveries) {
    Map<String, Boolean> seen = new HashMap<>();
    deliveries.forEach(delivery -> seen.put(Inbox.body(delivery), delivery.getEnvelope().isRedeliver()));
    return seen;
  }

  private static void singleActive(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-single-active-consumer", true);
    Inbox first = desk.consumer(queue, false);
    Inbox second = desk.consumer(queue, false);
    Inbox third = desk.consumer(queue, false);
    desk.publishAll(queue, numbers(0, 2));
    first.take(2);
    first.getChannel().basicCancel(first.getConsumerTag());
    desk.publish(queue, "2");
    Check.equal(Map.of("2", false), seen(second.take(1)), "the second consumer's");
    first.getChannel().basicAck(1, false);
    first.getChannel().close();
    Check.equal(Map.of("1", true), seen(second.take(1)), "left by the first");
    Check.equal(0, third.waiting(), "given to the third before its turn");
    second.getChannel().close();
    Check.equal(Map.of("1", true, "2", true), seen(third.take(2)), "left by the second");
    Check.equal(0, first.waiting(), "given to the first after its cancel");
  }

  private static void singleActiveKeeps(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-single-active-consumer", true);
    Inbox first = desk.consumer(queue, true);
    Inbox second = desk.consumer(queue, true, "x-priority", 10);
    desk.publishAll(queue, numbers(0, 2));
    Check.equal(numbers(0, 2), first.bodies(2), "the first consumer's");
    first.getChannel().basicCancel(first.getConsumerTag());
    desk.publish(queue, "2");
    Check.equal(List.of("2"), second.bodies(1), "the second consumer's");
  }

  private static void singleActiveExclusive(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-single-active-consumer", true);
    Channel channel = desk.connection.createChannel();
    String text = "ACCESS_REFUSED - queue '" + queue + "' in vhost '/' in exclusive use";
    Check.channelCloses(channel, 403, text,
        () -> channel.basicConsume(queue, false, "", false, true, Map.of(), new Inbox(channel)));
  }

  private static void priorityOfWrongType(Desk desk) throws Exception {
    String queue = desk.queue("q");
    Channel channel = desk.connection.createChannel();
    String text = "PRECONDITION_FAILED - invalid arg 'x-priority' for queue '" + queue
        + "' in vhost '/': \"expected integer, got longstr\"";
    Check.channelCloses(channel, 406, text, () -> channel.basicConsume(queue, false, "", false, false,
        Desk.arguments("x-priority", "high"), new Inbox(channel)));
  }

  private static void deliveryLimit(Desk desk) throws Exception {
    // Classic queues have no such limit with RabbitMQ.
    String type = desk.isLeveret() ? "classic" : "quorum";
    Mortal mortal = desk.mortal("q", "x-delivery-limit", 2, "x-queue-type", type);
    desk.publish(mortal.queue(), "poison");
    Inbox inbox = desk.consumer(mortal.queue(), false);
    for (long failures = 0; failures < 3; failures++) {
      Delivery delivery = inbox.take();
      Map<String, Object> headers = delivery.getProperties().getHeaders();
      Object count = headers == null ? null : headers.get("x-delivery-count");
      Check.equal(failures == 0 ? null : failures, count, "x-delivery-count");
      Check.equal(failures > 0, delivery.getEnvelope().isRedeliver(), "redelivered");
      inbox.getChannel().basicReject(delivery.getEnvelope().getDeliveryTag(), true);
    }
    Check.equal("delivery_limit", Desk.death(desk.one(mortal.dead()), "reason"), "reason");
    Check.equal(0, inbox.waiting(), "further deliveries");
  }

  private static String seen(Delivery delivery) {
    return Inbox.body(delivery) + (delivery.getEnvelope().isRedeliver() ? " again" : "");
  }

  private static void delayedRetry(Desk desk) throws Exception {
    if (!desk.isLeveret()) {
      throw new Skip("classic queues do not delay there");
    }
    String queue = desk.queue("q", "x-delayed-retry-type", "failed", "x-delayed-retry-min", 200,
        "x-delayed-retry-max", 300);
    desk.publish(queue, "fails");
    Inbox inbox = desk.consumer(queue, false);
    Channel channel = inbox.getChannel();
    channel.basicReject(inbox.take().getEnvelope().getDeliveryTag(), true);
    desk.publishAll(queue, List.of("overtakes", "is given back"));
    Check.equal("overtakes", seen(inbox.take()), "second delivery");
    channel.basicNack(inbox.take().getEnvelope().getDeliveryTag(), false, true); // no failure: not delayed
    Check.equal(List.of("is given back again", "fails again"),
        inbox.take(2).stream().map(RuleConsumers::seen).toList(), "further deliveries");
  }

  /** When the active consumer's channel ends, the next one goes on where it was. */
  private static void singleActiveOrder(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-single-active-consumer", true);
    Channel ending = desk.lab.channel();
    Channel goingOn = desk.connection.createChannel();
    ending.basicQos(1);
    goingOn.basicQos(1);
    Inbox first = new Inbox(ending);
    Inbox second = new Inbox(goingOn);
    ending.basicConsume(queue, false, first);
    goingOn.basicConsume(queue, false, second);
    desk.publishAll(queue, numbers(0, 3));
    first.take();
    ending.close();
    for (String expected : List.of("0 again", "1", "2")) {
      Delivery next = second.take();
      Check.equal(expected, seen(next), "next");
      goingOn.basicAck(next.getEnvelope().getDeliveryTag(), false);
    }
  }

  /** After a cancel the next one is served at once, whatever the last one still holds. */
  private static void singleActiveCancel(Desk desk) throws Exception {
    desk.needsMajorVersion(4, "the next one waits there until something is published");
    String queue = desk.queue("q", "x-single-active-consumer", true);
    Inbox first = new Inbox(desk.connection.createChannel());
    Inbox second = new Inbox(desk.connection.createChannel());
    for (Inbox inbox : List.of(first, second)) {
      inbox.getChannel().basicQos(1);
      inbox.getChannel().basicConsume(queue, false, inbox);
    }
    desk.publishAll(queue, numbers(0, 2));
    first.take();
    first.getChannel().basicCancel(first.getConsumerTag());
    Check.equal(List.of("1"), second.bodies(1), "after the cancel");
    first.getChannel().basicAck(1, false);
  }

  private static void recoverSettles(Desk desk) throws Exception {
    String queue = desk.queue("q");
    desk.publish(queue, "0");
    for (boolean multiple : new boolean[] {false, true}) {
      Channel holder = desk.connection.createChannel();
      long tag = holder.basicGet(queue, false).getEnvelope().getDeliveryTag();
      holder.basicRecover(true);
      Check.channelCloses(holder, 406, "PRECONDITION_FAILED - unknown delivery tag " + tag,
          () -> holder.basicAck(tag, multiple));
    }
    Check.equal(List.of("0"), desk.bodies(queue), "in the queue");
  }

  /** What the consumers of a channel held comes back in order when it closes. */
  private static void channelCloseOrder(Desk desk) throws Exception {
    String queue = desk.queue("q");
    Channel closing = desk.connection.createChannel();
    closing.basicQos(2);
    Inbox leaving = new Inbox(closing);
    closing.basicConsume(queue, false, leaving);
    closing.basicConsume(queue, false, leaving);
    Inbox left = desk.consumer(queue, false, "x-priority", -1);
    desk.publishAll(queue, numbers(0, 4));
    leaving.take(4);
    closing.close();
    Check.equal(List.of("0 again", "1 again", "2 again", "3 again"),
        left.take(4).stream().map(RuleConsumers::seen).toList(), "what comes back");
  }
}
