package interop.scenarios;

import static interop.scenarios.Desk.LATE_MILLIS;
import static interop.scenarios.Desk.SOON_MILLIS;
import static interop.scenarios.Desk.expiring;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import interop.harness.Skip;
import interop.harness.Suite;
import interop.scenarios.Desk.Mortal;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** Messages and queues whose time is over. */
final class RuleExpiry {
  /** An argument that is refused, its value, and why. */
  private record Refused(String name, Object value, String why) {}

  private static final List<Refused> REFUSED = List.of(
      new Refused("x-message-ttl", -1, "{value_negative,-1}"),
      new Refused("x-message-ttl", "soon", "\"expected integer, got longstr\""),
      new Refused("x-expires", 0, "{value_zero,0}"),
      new Refused("x-max-length", -1, "{value_negative,-1}"),
      new Refused("x-max-priority", 256, "{max_value_exceeded,256}"),
      new Refused("x-overflow", "bad", "invalid_overflow"),
      new Refused("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
      new Refused("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"));

  private RuleExpiry() {}

  static void register(Suite suite) {
    suite.add("rule-ttl-queue", Desk.body(RuleExpiry::ofQueue));
    suite.add("rule-ttl-message", Desk.body(RuleExpiry::ofMessage));
    suite.add("rule-ttl-smaller-wins", Desk.body(RuleExpiry::smallerWins));
    suite.add("rule-ttl-in-the-middle", Desk.body(RuleExpiry::inTheMiddle));
    suite.add("rule-ttl-zero", Desk.body(RuleExpiry::zero));
    suite.add("rule-ttl-unacked", Desk.body(RuleExpiry::unacked));
    suite.add("rule-ttl-keeps-order", Desk.body(RuleExpiry::keepsOrder));
    suite.add("rule-expires", Desk.body(RuleExpiry::expires));
    suite.add("rule-arguments-refused-406", Desk.body(RuleExpiry::argumentsRefused));
  }

  private static void ofQueue(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-message-ttl", SOON_MILLIS);
    desk.publishAll(mortal.queue(), List.of("1", "2"));
    desk.awaitReady(mortal.dead(), 2);
    List<GetResponse> letters = desk.drain(mortal.dead());
    Check.equal(List.of("1", "2"), letters.stream().map(Desk::text).toList(), "dead letters");
    Check.equal(List.of("expired", "expired"), Desk.reasons(letters), "reasons");
    Check.equal(0, desk.ready(mortal.queue()), "ready");
  }

  private static void ofMessage(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q");
    desk.publish("", mortal.queue(), "soon", expiring(SOON_MILLIS), false);
    desk.publish("", mortal.queue(), "late", expiring(LATE_MILLIS), false);
    GetResponse letter = desk.one(mortal.dead());
    Check.equal("soon", Desk.text(letter), "dead letter");
    Check.equal(null, letter.getProps().getExpiration(), "expiration of the dead letter");
    Check.equal(Integer.toString(SOON_MILLIS), Desk.death(letter, "original-expiration"), "original expiration");
    GetResponse kept = desk.one(mortal.queue());
    Check.equal(Integer.toString(LATE_MILLIS), kept.getProps().getExpiration(), "expiration of the other");
  }

  private static void smallerWins(Desk desk) throws Exception {
    Mortal shorter = desk.mortal("short", "x-message-ttl", SOON_MILLIS);
    Mortal longer = desk.mortal("long", "x-message-ttl", LATE_MILLIS);
    desk.publish("", shorter.queue(), "by the queue's", expiring(LATE_MILLIS), false);
    desk.publish("", longer.queue(), "by its own", expiring(SOON_MILLIS), false);
    desk.awaitReady(shorter.dead(), 1);
    desk.awaitReady(longer.dead(), 1);
  }

  private static void inTheMiddle(Desk desk) throws Exception {
    if (!desk.isLeveret()) {
      throw new Skip("only the message at the head expires there");
    }
    Mortal mortal = desk.mortal("q");
    desk.publish(mortal.queue(), "head");
    desk.publish("", mortal.queue(), "middle", expiring(SOON_MILLIS), false);
    desk.publish(mortal.queue(), "tail");
    Check.equal("middle", Desk.text(desk.one(mortal.dead())), "dead letter");
    Check.equal(List.of("head", "tail"), desk.bodies(mortal.queue()), "the others");
  }

  private static void zero(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-message-ttl", 0);
    desk.publish(mortal.queue(), "nobody waits");
    desk.awaitReady(mortal.dead(), 1);
    Inbox inbox = desk.consumer(mortal.queue(), true);
    desk.publish(mortal.queue(), "somebody waits");
    Check.equal(List.of("somebody waits"), inbox.bodies(1), "delivered");
    inbox.getChannel().basicCancel(inbox.getConsumerTag());
    desk.publish(mortal.queue(), "nobody again");
    desk.awaitReady(mortal.dead(), 2);
    Check.equal(List.of("nobody waits", "nobody again"), desk.bodies(mortal.dead()), "dead letters");
  }

  /** The death of another message shows that the time is over for both. */
  private static void unacked(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-message-ttl", 4 * SOON_MILLIS);
    desk.publish(mortal.queue(), "held");
    Channel holder = desk.connection.createChannel();
    long tag = holder.basicGet(mortal.queue(), false).getEnvelope().getDeliveryTag();
    desk.publish(mortal.queue(), "not held");
    Check.equal("not held", Desk.text(desk.one(mortal.dead())), "first dead letter");
    holder.basicNack(tag, false, true);
    Check.equal("held", Desk.text(desk.one(mortal.dead())), "second dead letter");
  }

  private static void keepsOrder(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-message-ttl", 6 * SOON_MILLIS);
    desk.publishAll(mortal.queue(), Desk.numbers(0, 3));
    Channel holder = desk.connection.createChannel();
    holder.basicGet(mortal.queue(), false);
    holder.basicGet(mortal.queue(), false);
    holder.basicNack(2, true, true);
    desk.awaitReady(mortal.dead(), 3);
    Check.equal(Desk.numbers(0, 3), desk.bodies(mortal.dead()), "dead letters");
  }

  private static void expires(Desk desk) throws Exception {
    String unused = desk.queue("unused", "x-expires", 200);
    String used = desk.queue("used", "x-expires", 200);
    Inbox inbox = desk.consumer(used, true);
    AtomicInteger returns = new AtomicInteger();
    desk.channel.addReturnListener(returned -> returns.incrementAndGet());
    Check.eventually(true, "the unused queue is gone", () -> isUnroutable(desk, returns, unused));
    Check.that(!isUnroutable(desk, returns, used), "a queue with a consumer expired");
    inbox.getChannel().basicCancel(inbox.getConsumerTag());
    Check.eventually(true, "the other queue is gone", () -> isUnroutable(desk, returns, used));
  }

  /** Whether a queue is gone, asked in a way that is no use of it: returns come before confirms. */
  private static boolean isUnroutable(Desk desk, AtomicInteger returns, String queue) throws Exception {
    int before = returns.get();
    desk.publish("", queue, "still there?", Desk.persistent().build(), true);
    return returns.get() > before;
  }

  private static void argumentsRefused(Desk desk) throws Exception {
    String queue = desk.lab.name("q");
    for (Refused refused : REFUSED) {
      Channel channel = desk.connection.createChannel();
      String text = "PRECONDITION_FAILED - invalid arg '" + refused.name + "' for queue '" + queue
          + "' in vhost '/': " + refused.why;
      Check.channelCloses(channel, 406, text, () -> channel.queueDeclare(queue, true, false, false,
          Desk.arguments(refused.name, refused.value)));
    }
  }
}
