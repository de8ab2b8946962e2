package interop.scenarios;

import static interop.scenarios.Desk.SOON_MILLIS;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import interop.harness.Suite;
import interop.scenarios.Desk.Mortal;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Where dead letters go and what they carry. */
final class RuleDeadLetters {
  private RuleDeadLetters() {}

  static void register(Suite suite) {
    suite.add("rule-dead-letter-headers", Desk.body(RuleDeadLetters::headers));
    suite.add("rule-dead-letter-counts", Desk.body(RuleDeadLetters::counts));
    suite.add("rule-dead-letter-reasons", Desk.body(RuleDeadLetters::reasons));
    suite.add("rule-dead-letter-keys", Desk.body(RuleDeadLetters::keys));
    suite.add("rule-dead-letter-missing-exchange", Desk.body(RuleDeadLetters::missingExchange));
    suite.add("rule-dead-letter-cycle", Desk.body(RuleDeadLetters::cycle));
    suite.add("rule-dead-letter-forged", Desk.body(RuleDeadLetters::forged));
    suite.add("rule-dead-letter-mandatory", Desk.body(RuleDeadLetters::mandatory));
    suite.add("rule-dead-letter-not", Desk.body(RuleDeadLetters::notDead));
    suite.add("rule-dead-letter-alternate", Desk.body(RuleDeadLetters::alternate));
    suite.add("rule-dead-letter-full", Desk.body(RuleDeadLetters::full));
    suite.add("rule-dead-letter-priority", Desk.body(RuleDeadLetters::priority));
  }

  /** A queue whose dead letters go to another queue by its name. */
  private static String leadingTo(Desk desk, String what, String next, Object... more) throws Exception {
    Map<String, Object> arguments = Desk.arguments(more);
    arguments.put("x-dead-letter-exchange", "");
    arguments.put("x-dead-letter-routing-key", next);
    return desk.lab.queue(desk.channel, what, arguments);
  }

  private static void headers(Desk desk) throws Exception {
    String source = desk.exchange("source", "direct");
    Mortal second = desk.mortal("second");
    String first = leadingTo(desk, "first", second.queue());
    desk.channel.queueBind(first, source, "key");
    BasicProperties properties = Desk.persistent().expiration(Integer.toString(SOON_MILLIS))
        .headers(Desk.arguments("own", 1)).messageId("m").build();
    desk.publish(source, "key", "body", properties, false);
    desk.awaitReady(second.queue(), 1);
    desk.rejectOne(second.queue());
    GetResponse letter = desk.one(second.dead());
    Map<String, Object> expired = Map.of("count", 1L, "reason", "expired", "queue", first, "exchange", source,
        "routing-keys", List.of("key"), "original-expiration", Integer.toString(SOON_MILLIS));
    Map<String, Object> rejected = Map.of("count", 1L, "reason", "rejected", "queue", second.queue(),
        "exchange", "", "routing-keys", List.of(second.queue()));
    Check.equal(List.of(rejected, expired), Desk.deaths(letter).stream().map(Desk::timeless).toList(), "x-death");
    Check.equal(Map.of("exchange", source, "queue", first, "reason", "expired"),
        summary(letter, "x-first-death-"), "first death");
    if (desk.majorVersion() >= 4) {
      Check.equal(Map.of("exchange", "", "queue", second.queue(), "reason", "rejected"),
          summary(letter, "x-last-death-"), "last death");
    }
    Check.equal(1, letter.getProps().getHeaders().get("own"), "a header of its own");
    Check.equal("m", letter.getProps().getMessageId(), "message id");
    Check.equal(null, letter.getProps().getExpiration(), "expiration");
    Check.equal(second.queue(), letter.getEnvelope().getRoutingKey(), "routing key");
    Check.that(!letter.getEnvelope().isRedeliver(), "redelivered is set");
  }

  /** The headers that begin so, without that. */
  private static Map<String, String> summary(GetResponse letter, String prefix) {
    Map<String, String> found = new TreeMap<>();
    letter.getProps().getHeaders().forEach((name, value) -> {
      if (name.startsWith(prefix)) {
        found.put(name.substring(prefix.length()), value.toString());
      }
    });
    return found;
  }

  private static String counted(Object death) {
    Map<String, Object> plain = Desk.timeless(death);
    return plain.get("queue") + " " + plain.get("reason") + " " + plain.get("count");
  }

  private static List<String> counted(GetResponse letter) {
    return Desk.deaths(letter).stream().map(RuleDeadLetters::counted).toList();
  }

  private static void counts(Desk desk) throws Exception {
    String work = leadingTo(desk, "work", desk.lab.name("wait"));
    String wait = leadingTo(desk, "wait", work, "x-message-ttl", SOON_MILLIS);
    desk.publish(work, "again");
    for (int i = 0; i < 3; i++) {
      desk.awaitReady(work, 1);
      desk.rejectOne(work);
    }
    GetResponse letter = desk.one(work);
    Check.equal(List.of(wait + " expired 3", work + " rejected 3"), counted(letter), "deaths");
    Check.equal("rejected", letter.getProps().getHeaders().get("x-first-death-reason").toString(), "first reason");
  }

  private static void reasons(Desk desk) throws Exception {
    String work = leadingTo(desk, "work", desk.lab.name("wait"));
    String wait = leadingTo(desk, "wait", work);
    desk.publish("", work, "body", Desk.expiring(SOON_MILLIS), false);
    desk.awaitReady(wait, 1);
    desk.rejectOne(wait);
    desk.awaitReady(work, 1);
    desk.rejectOne(work);
    List<String> expected = List.of(work + " rejected 1", wait + " rejected 1", work + " expired 1");
    List<String> found = counted(desk.one(wait));
    if (desk.majorVersion() < 4) { // the entries of one queue stood together
      expected = expected.stream().sorted().toList();
      found = found.stream().sorted().toList();
    }
    Check.equal(expected, found, "deaths");
  }

  private static void keys(Desk desk) throws Exception {
    String source = desk.exchange("source", "direct");
    String dead = desk.exchange("dead", "direct");
    String kept = desk.bound("kept", dead, "original");
    String copied = desk.bound("copied", dead, "copy");
    String renamed = desk.bound("renamed", dead, "other");
    String plain = desk.queue("plain", "x-dead-letter-exchange", dead);
    String keyed = desk.queue("keyed", "x-dead-letter-exchange", dead, "x-dead-letter-routing-key", "other");
    desk.channel.queueBind(plain, source, "original");
    desk.channel.queueBind(keyed, source, "original");
    desk.publish(source, "original", "body", Desk.headers("CC", List.of("copy")), false);
    desk.rejectOne(plain);
    for (String queue : List.of(kept, copied)) {
      GetResponse letter = desk.one(queue);
      Check.equal("original", letter.getEnvelope().getRoutingKey(), "routing key");
      Check.equal("[original, copy]", Desk.death(letter, "routing-keys"), "keys of the death");
    }
    desk.rejectOne(keyed);
    Check.equal("other", desk.one(renamed).getEnvelope().getRoutingKey(), "routing key");
    Check.equal(0, desk.ready(kept) + desk.ready(copied), "letters by the old keys");
  }

  private static void missingExchange(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-dead-letter-exchange", desk.lab.name("nowhere"));
    desk.publishAll(queue, List.of("1", "2"));
    desk.rejectOne(queue);
    Check.equal(List.of("2"), desk.bodies(queue), "left");
  }

  /** Two queues that expire into each other, each with a witness of what dies in it. */
  private static void cycle(Desk desk) throws Exception {
    String ofFirst = desk.exchange("x1", "fanout");
    String ofSecond = desk.exchange("x2", "fanout");
    String firstWitness = desk.bound("w1", ofFirst, "");
    String secondWitness = desk.bound("w2", ofSecond, "");
    String first = desk.queue("q1", "x-message-ttl", SOON_MILLIS, "x-dead-letter-exchange", ofFirst);
    String second = desk.queue("q2", "x-message-ttl", SOON_MILLIS, "x-dead-letter-exchange", ofSecond);
    desk.channel.queueBind(second, ofFirst, "");
    desk.channel.queueBind(first, ofSecond, "");
    desk.publish(first, "once around");
    desk.awaitReady(secondWitness, 1);
    desk.publish(first, "the next");
    desk.awaitReady(secondWitness, 2);
    for (String witness : List.of(firstWitness, secondWitness)) {
      Check.equal(List.of("once around", "the next"), desk.bodies(witness), "deaths");
    }
    Check.equal(0, desk.ready(first) + desk.ready(second), "left");
  }

  private static void forged(Desk desk) throws Exception {
    desk.needsMajorVersion(4, "a client's x-death counts there");
    Mortal mortal = desk.mortal("q");
    Map<String, Object> claimed = Desk.arguments("count", 7L, "reason", "rejected", "queue", mortal.queue(),
        "exchange", "", "routing-keys", List.of(mortal.queue()));
    desk.publish("", mortal.queue(), "body", Desk.headers("x-death", List.of(claimed)), false);
    desk.rejectOne(mortal.queue());
    Check.equal(List.of(mortal.queue() + " rejected 1"), counted(desk.one(mortal.dead())), "deaths");
  }

  /** What is returned is a message that no queue took, not a dead letter that none takes. */
  private static void mandatory(Desk desk) throws Exception {
    String unbound = desk.exchange("x", "fanout");
    String queue = desk.queue("q", "x-message-ttl", 0, "x-dead-letter-exchange", unbound);
    AtomicInteger returns = new AtomicInteger();
    desk.channel.addReturnListener(returned -> returns.incrementAndGet());
    Check.that(desk.publish("", queue, "1", Desk.persistent().build(), true), "nacked");
    desk.awaitReady(queue, 0);
    String witness = desk.bound("witness", unbound, "");
    Check.that(desk.publish("", queue, "2", Desk.persistent().build(), true), "nacked");
    Check.equal("2", Desk.text(desk.one(witness)), "dead letter");
    Check.equal(0, returns.get(), "returns");
  }

  private static void notDead(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q");
    desk.publishAll(mortal.queue(), List.of("acked", "purged"));
    Channel holder = desk.connection.createChannel();
    holder.basicAck(holder.basicGet(mortal.queue(), false).getEnvelope().getDeliveryTag(), false);
    Check.equal(1, desk.channel.queuePurge(mortal.queue()).getMessageCount(), "purged");
    desk.publishAll(mortal.queue(), List.of("rejected", "deleted"));
    desk.rejectOne(mortal.queue());
    Check.equal(1, desk.channel.queueDelete(mortal.queue()).getMessageCount(), "deleted");
    Check.equal("rejected", Desk.text(desk.one(mortal.dead())), "dead letter");
  }

  private static void alternate(Desk desk) throws Exception {
    String other = desk.exchange("other", "fanout");
    String found = desk.bound("found", other, "");
    String dead = desk.exchange("dead", "direct", "alternate-exchange", other);
    String queue = desk.queue("q", "x-dead-letter-exchange", dead);
    desk.publish(queue, "body");
    desk.rejectOne(queue);
    GetResponse letter = desk.one(found);
    Check.equal(dead, letter.getEnvelope().getExchange(), "exchange");
    Check.equal(queue, letter.getEnvelope().getRoutingKey(), "routing key");
    Check.equal(queue, Desk.death(letter, "queue"), "queue of the death");
  }

  /** Letters of one queue travel in order: once the marker has come, the one before it has been refused. */
  private static void full(Desk desk) throws Exception {
    String source = desk.exchange("source", "fanout");
    String dead = desk.exchange("dead", "direct");
    String narrow = desk.queue("narrow", "x-max-length", 1, "x-overflow", "reject-publish");
    String witness = desk.bound("witness", dead, "marker");
    String queue = desk.queue("q", "x-dead-letter-exchange", dead);
    desk.channel.queueBind(queue, source, "");
    for (String key : List.of("1", "2", "3")) {
      desk.channel.queueBind(narrow, dead, key);
    }
    for (String key : List.of("1", "2", "marker", "3")) {
      desk.publish(source, key, key, Desk.persistent().build(), false);
    }
    desk.rejectOne(queue);
    desk.awaitReady(narrow, 1);
    desk.rejectOne(queue);
    desk.rejectOne(queue);
    desk.awaitReady(witness, 1);
    Check.equal("1", Desk.text(desk.one(narrow)), "first dead letter");
    desk.rejectOne(queue);
    Check.equal("3", Desk.text(desk.one(narrow)), "next dead letter");
  }

  private static void priority(Desk desk) throws Exception {
    String ranked = desk.queue("ranked", "x-max-priority", 3);
    String queue = leadingTo(desk, "q", ranked);
    for (int priority : new int[] {1, 3, 2}) {
      desk.publish("", queue, Integer.toString(priority), Desk.persistent().priority(priority).build(), false);
      desk.rejectOne(queue);
    }
    desk.awaitReady(ranked, 3);
    Check.equal(List.of("3", "2", "1"), desk.bodies(ranked), "dead letters");
  }
}
