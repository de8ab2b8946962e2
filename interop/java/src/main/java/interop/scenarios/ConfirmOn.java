package interop.scenarios;

import static interop.scenarios.Desk.numbers;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmCallback;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import interop.harness.Skip;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;

/** Publishers that are told once their messages were consumed. */
final class ConfirmOn {
  private static final List<String> MODES = List.of("ack", "ack-direct");

  private ConfirmOn() {}

  static void register(Suite suite) {
    suite.add("confirm-on-ack", body(ConfirmOn::ack));
    suite.add("confirm-on-enqueue", body(ConfirmOn::enqueue));
    suite.add("confirm-on-requeue", body(ConfirmOn::requeue));
    suite.add("confirm-on-discard", body(ConfirmOn::discard));
    suite.add("confirm-on-limits", body(ConfirmOn::limits));
    suite.add("confirm-on-two-queues", body(ConfirmOn::twoQueues));
    suite.add("confirm-on-dead-letter", body(ConfirmOn::deadLetter));
    suite.add("confirm-on-direct-540", body(ConfirmOn::direct540));
    suite.add("confirm-on-auto-ack", body(ConfirmOn::autoAck));
    suite.add("confirm-on-timeout", body(ConfirmOn::timeout));
    suite.add("confirm-on-direct-timeout", body(ConfirmOn::directTimeout));
    suite.add("restart-confirm-on", 60, body(ConfirmOn::restart));
  }

  private static Suite.Body body(Desk.Steps steps) {
    return Desk.body(desk -> {
      if (!desk.isLeveret()) {
        throw new Skip("only Leveret confirms after consuming");
      }
      steps.run(desk);
    });
  }

  /** A channel with confirm handlers, which keep the texts of what was acked and nacked. */
  private static final class Publisher {
    private final Channel channel;
    private final NavigableMap<Long, String> waiting = new ConcurrentSkipListMap<>();
    private final List<String> acked = new ArrayList<>();
    private final List<String> nacked = new ArrayList<>();

    Publisher(Desk desk) throws Exception {
      channel = desk.lab.channel();
      channel.confirmSelect();
      channel.addConfirmListener(into(acked), into(nacked));
    }

    private ConfirmCallback into(List<String> heard) {
      return (tag, multiple) -> {
        synchronized (this) {
          NavigableMap<Long, String> settled =
              multiple ? waiting.headMap(tag, true) : waiting.subMap(tag, true, tag, true);
          heard.addAll(settled.values());
          settled.clear();
        }
      };
    }

    void publish(String queue, String... texts) throws Exception {
      publish("", queue, texts);
    }

    void publish(String exchange, String key, String[] texts) throws Exception {
      int deliveryMode = 2;
      for (String text : texts) {
        waiting.put(channel.getNextPublishSeqNo(), text);
        BasicProperties properties = new BasicProperties.Builder().deliveryMode(deliveryMode).build();
        channel.basicPublish(exchange, key, properties, Lab.bytes(text));
        deliveryMode = 3 - deliveryMode;
      }
    }

    private synchronized List<List<String>> heard() {
      return List.of(acked.stream().sorted().toList(), nacked.stream().sorted().toList());
    }

    /** Exactly these were settled, and nothing else is. */
    void hears(List<String> acks, List<String> nacks) throws Exception {
      List<List<String>> expected =
          List.of(acks.stream().sorted().toList(), nacks.stream().sorted().toList());
      Check.eventually(expected, "acks and nacks", this::heard);
      for (int i = 0; i < 2; i++) {
        // What the node had to say before is heard after this.
        channel.exchangeDeclarePassive("amq.direct");
      }
      Check.equal(expected, heard(), "acks and nacks after round trips");
    }
  }

  private static String confirmingOn(Desk desk, String mode, String what, Object... namesAndValues)
      throws Exception {
    Map<String, Object> arguments = new HashMap<>(Desk.arguments(namesAndValues));
    arguments.put("x-confirm-on", mode);
    return desk.lab.queue(desk.channel, what, arguments);
  }

  /** "3", or "3 again" when it is redelivered. */
  private static List<String> flagged(List<Delivery> deliveries) {
    return deliveries.stream()
        .map(it -> Inbox.body(it) + (it.getEnvelope().isRedeliver() ? " again" : ""))
        .toList();
  }

  private static long tag(Delivery delivery) {
    return delivery.getEnvelope().getDeliveryTag();
  }

  private static void ack(Desk desk) throws Exception {
    for (String mode : MODES) {
      Publisher publisher = new Publisher(desk);
      String queue = confirmingOn(desk, mode, mode);
      List<String> all = numbers(0, 4);
      publisher.publish(queue, all.toArray(String[]::new));
      publisher.hears(List.of(), List.of());
      Inbox inbox = desk.consumer(queue, false);
      List<Delivery> deliveries = inbox.take(4);
      publisher.hears(List.of(), List.of());
      inbox.getChannel().basicAck(tag(deliveries.get(1)), true);
      publisher.hears(all.subList(0, 2), List.of());
      inbox.getChannel().basicAck(tag(deliveries.get(2)), false);
      publisher.hears(all.subList(0, 3), List.of());
      inbox.getChannel().basicAck(tag(deliveries.get(3)), false);
      publisher.hears(all, List.of());
    }
  }

  private static void enqueue(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    publisher.publish(confirmingOn(desk, "enqueue", "q"), "kept");
    publisher.hears(List.of("kept"), List.of());
  }

  private static void requeue(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    String queue = confirmingOn(desk, "ack", "q");
    Inbox inbox = desk.consumer(queue, false);
    publisher.publish(queue, "back");
    inbox.getChannel().basicReject(tag(inbox.take()), true);
    Delivery second = inbox.take();
    inbox.getChannel().basicNack(tag(second), false, true);
    Delivery third = inbox.take();
    Check.equal(List.of("back again", "back again"), flagged(List.of(second, third)), "deliveries");
    publisher.hears(List.of(), List.of());
    inbox.getChannel().basicAck(tag(third), false);
    List<String> heard = new ArrayList<>(List.of("back"));
    publisher.hears(heard, List.of());
    for (String mode : MODES) {
      String lossy = confirmingOn(desk, mode, mode);
      publisher.publish(lossy, mode);
      try (Connection lost = desk.lab.connect()) {
        Channel channel = lost.createChannel();
        Inbox loser = new Inbox(channel);
        channel.basicConsume(lossy, false, loser);
        loser.take();
      }
      Inbox other = desk.consumer(lossy, false);
      Delivery again = other.take();
      Check.equal(List.of(mode + " again"), flagged(List.of(again)), "deliveries");
      publisher.hears(heard, List.of());
      other.getChannel().basicAck(tag(again), false);
      heard.add(mode);
      publisher.hears(heard, List.of());
    }
  }

  private static void discard(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    List<String> heard = new ArrayList<>();
    String rejecting = confirmingOn(desk, "ack", "rejecting");
    publisher.publish(rejecting, "rejected");
    Inbox inbox = desk.consumer(rejecting, false);
    inbox.getChannel().basicReject(tag(inbox.take()), false);
    heard.add("rejected");
    publisher.hears(List.of(), heard);
    publisher.publish(confirmingOn(desk, "ack", "expiring", "x-message-ttl", 50), "expired");
    heard.add("expired");
    publisher.hears(List.of(), heard);
    String purged = confirmingOn(desk, "ack", "purged");
    publisher.publish(purged, "purged");
    publisher.hears(List.of(), heard);
    desk.channel.queuePurge(purged);
    heard.add("purged");
    publisher.hears(List.of(), heard);
    publisher.publish(purged, "deleted");
    publisher.hears(List.of(), heard);
    desk.channel.queueDelete(purged);
    heard.add("deleted");
    publisher.hears(List.of(), heard);
    publisher.publish(confirmingOn(desk, "ack", "dropping", "x-max-length", 1), "dropped", "stays");
    heard.add("dropped");
    publisher.hears(List.of(), heard);
    String refusing =
        confirmingOn(desk, "ack", "refusing", "x-max-length", 1, "x-overflow", "reject-publish");
    publisher.publish(refusing, "taken", "refused");
    heard.add("refused");
    publisher.hears(List.of(), heard);
  }

  private static void limits(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    String few = confirmingOn(desk, "ack", "few", "x-confirm-on-max-pending", 2);
    publisher.publish(few, "1", "2", "3");
    publisher.hears(List.of(), List.of("3"));
    Inbox inbox = desk.consumer(few, false);
    inbox.getChannel().basicAck(tag(inbox.take(2).get(0)), false);
    publisher.hears(List.of("1"), List.of("3"));
    publisher.publish(few, "4");
    publisher.hears(List.of("1"), List.of("3"));
    Check.equal(List.of("4"), inbox.bodies(1), "deliveries");
    String small = confirmingOn(desk, "ack", "small", "x-confirm-on-max-pending-bytes", 5);
    publisher.publish(small, "1234", "56");
    publisher.hears(List.of("1"), List.of("3", "56"));
    String served = confirmingOn(desk, "ack", "served", "x-confirm-on-no-consumer", "nack");
    publisher.publish(served, "nobody");
    publisher.hears(List.of("1"), List.of("3", "56", "nobody"));
    Inbox server = desk.consumer(served, false);
    publisher.publish(served, "somebody");
    server.getChannel().basicAck(tag(server.take()), false);
    publisher.hears(List.of("1", "somebody"), List.of("3", "56", "nobody"));
  }

  private static void twoQueues(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    String exchange = desk.exchange("x", "fanout");
    List<Inbox> inboxes = new ArrayList<>();
    for (String mode : MODES) {
      String queue = confirmingOn(desk, mode, mode);
      desk.channel.queueBind(queue, exchange, "");
      inboxes.add(desk.consumer(queue, false));
    }
    desk.bound("plain", exchange, "");
    Inbox recorded = inboxes.get(0);
    Inbox direct = inboxes.get(1);
    publisher.publish(exchange, "", new String[] {"both"});
    recorded.getChannel().basicAck(tag(recorded.take()), false);
    publisher.hears(List.of(), List.of());
    direct.getChannel().basicAck(tag(direct.take()), false);
    publisher.hears(List.of("both"), List.of());
    publisher.publish(exchange, "", new String[] {"one"});
    recorded.getChannel().basicReject(tag(recorded.take()), false);
    publisher.hears(List.of("both"), List.of("one"));
    direct.getChannel().basicAck(tag(direct.take()), false);
    publisher.hears(List.of("both"), List.of("one"));
  }

  private static void deadLetter(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    String dead = confirmingOn(desk, "ack", "dead");
    String queue = confirmingOn(
        desk, "ack", "q", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead);
    publisher.publish(queue, "1", "2");
    Inbox inbox = desk.consumer(queue, false);
    inbox.getChannel().basicNack(tag(inbox.take(2).get(1)), true, false);
    Inbox undertaker = desk.consumer(dead, false);
    List<Delivery> letters = undertaker.take(2);
    publisher.hears(List.of(), List.of());
    undertaker.getChannel().basicAck(tag(letters.get(0)), false);
    publisher.hears(List.of("1"), List.of());
    undertaker.getChannel().basicReject(tag(letters.get(1)), false);
    publisher.hears(List.of("1"), List.of("2"));
  }

  private static void direct540(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    String queue = confirmingOn(desk, "ack-direct", "q");
    publisher.publish(queue, "1", "2");
    Inbox inbox = desk.consumer(queue, false);
    Delivery first = inbox.take(2).get(0);
    String text = "NOT_IMPLEMENTED - basic.reject and basic.nack are not implemented for queue '"
        + queue + "' in vhost '/': it confirms on ack-direct (x-confirm-on)";
    Check.channelCloses(
        inbox.getChannel(), 540, text, () -> inbox.getChannel().basicReject(tag(first), true));
    publisher.hears(List.of(), List.of());
    Inbox other = desk.consumer(queue, false);
    List<Delivery> again = other.take(2);
    Check.equal(List.of("1 again", "2 again"), flagged(again), "deliveries");
    other.getChannel().basicAck(tag(again.get(1)), true);
    publisher.hears(List.of("1", "2"), List.of());
  }

  private static void autoAck(Desk desk) throws Exception {
    for (String mode : MODES) {
      Publisher publisher = new Publisher(desk);
      String queue = confirmingOn(desk, mode, mode);
      publisher.publish(queue, "1", "2");
      publisher.hears(List.of(), List.of());
      Inbox inbox = desk.consumer(queue, true);
      Check.equal(List.of("1", "2"), inbox.bodies(2), "deliveries");
      publisher.hears(List.of("1", "2"), List.of());
      inbox.getChannel().close();
      publisher.publish(queue, "3");
      publisher.hears(List.of("1", "2"), List.of());
      Check.equal("3", Desk.text(desk.channel.basicGet(queue, true)), "body");
      publisher.hears(List.of("1", "2", "3"), List.of());
    }
  }

  private static void timeout(Desk desk) throws Exception {
    for (String mode : MODES) {
      Publisher publisher = new Publisher(desk);
      String queue = confirmingOn(desk, mode, mode, "x-confirm-timeout", 300);
      publisher.publish(queue, "ready");
      publisher.hears(List.of(), List.of("ready"));
      Check.that(desk.channel.basicGet(queue, true) == null, "what was refused is given out");
      Inbox inbox = desk.consumer(queue, false);
      publisher.publish(queue, "held", "lost");
      List<Delivery> deliveries = inbox.take(2);
      List<String> refused = List.of("ready", "held", "lost");
      publisher.hears(List.of(), refused);
      inbox.getChannel().basicAck(tag(deliveries.get(0)), false);
      inbox.getChannel().close();
      publisher.hears(List.of(), refused);
      Check.that(desk.channel.basicGet(queue, true) == null, "what came back is given out");
    }
  }

  private static void directTimeout(Desk desk) throws Exception {
    Publisher publisher = new Publisher(desk);
    String queue = confirmingOn(desk, "ack-direct", "q", "x-consumer-timeout", 500);
    publisher.publish(queue, "1", "2");
    Inbox inbox = desk.consumer(queue, false);
    String text = "PRECONDITION_FAILED - delivery acknowledgement on channel "
        + inbox.getChannel().getChannelNumber() + " timed out. Timeout value used: 500 ms. This"
        + " timeout value can be configured, see consumers doc guide to learn more";
    Check.channelCloses(inbox.getChannel(), 406, text, () -> inbox.take(2));
    publisher.hears(List.of(), List.of());
    Inbox other = desk.consumer(queue, false);
    List<Delivery> again = other.take(2);
    Check.equal(List.of("1 again", "2 again"), flagged(again), "deliveries");
    other.getChannel().basicAck(tag(again.get(1)), true);
    publisher.hears(List.of("1", "2"), List.of());
  }

  private static void restart(Desk desk) throws Exception {
    Restarts.needsOwnNode(desk.lab);
    for (String mode : MODES) {
      Desk before = desk.again();
      Publisher publisher = new Publisher(before);
      String queue = confirmingOn(before, mode, mode);
      publisher.publish(queue, "before");
      publisher.hears(List.of(), List.of());
      desk.lab.node().kill9();
      desk.lab.node().start();
      Desk after = desk.again();
      publisher = new Publisher(after);
      publisher.publish(queue, "again");
      publisher.hears(List.of(), List.of());
      Inbox inbox = after.consumer(queue, false);
      Delivery again = inbox.take();
      Check.equal(List.of("again"), flagged(List.of(again)), "deliveries");
      inbox.getChannel().basicAck(tag(again), false);
      publisher.hears(List.of("again"), List.of());
    }
  }
}
