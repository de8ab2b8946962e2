package interop.scenarios;

import static interop.scenarios.Desk.numbers;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import interop.harness.Suite;
import interop.scenarios.Desk.Mortal;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** Queues that are full. */
final class RuleLengths {
  private RuleLengths() {}

  static void register(Suite suite) {
    suite.add("rule-max-length-drop-head", Desk.body(RuleLengths::dropHead));
    suite.add("rule-max-length-reject", Desk.body(RuleLengths::reject));
    suite.add("rule-max-length-reject-dlx", Desk.body(RuleLengths::rejectToDeadLetters));
    suite.add("rule-max-length-bytes", Desk.body(RuleLengths::bytes));
    suite.add("rule-max-length-counts-ready", Desk.body(RuleLengths::countsReady));
    suite.add("rule-max-length-unconfirmed", Desk.body(RuleLengths::unconfirmed));
    suite.add("rule-max-length-fanout", Desk.body(RuleLengths::fanout));
  }

  private static List<Boolean> acked(Desk desk, String queue, int n) throws Exception {
    List<Boolean> acked = new ArrayList<>();
    for (String text : numbers(0, n)) {
      acked.add(desk.publish(queue, text));
    }
    return acked;
  }

  private static void dropHead(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-max-length", 3);
    desk.publishAll(mortal.queue(), numbers(0, 5));
    desk.awaitReady(mortal.dead(), 2);
    List<GetResponse> letters = desk.drain(mortal.dead());
    Check.equal(numbers(0, 2), letters.stream().map(Desk::text).toList(), "dead letters");
    Check.equal(List.of("maxlen", "maxlen"), Desk.reasons(letters), "reasons");
    Check.equal(numbers(2, 5), desk.bodies(mortal.queue()), "kept");
  }

  private static void reject(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-max-length", 2, "x-overflow", "reject-publish");
    Check.equal(List.of(true, true, false, false), acked(desk, mortal.queue(), 4), "acked");
    AtomicInteger returns = new AtomicInteger();
    desk.channel.addReturnListener(returned -> returns.incrementAndGet());
    Check.that(!desk.publish("", mortal.queue(), "m", Desk.persistent().build(), true), "mandatory is acked");
    Check.equal(0, returns.get(), "returns");
    Check.equal(numbers(0, 2), desk.bodies(mortal.queue()), "kept");
    Check.that(desk.publish(mortal.queue(), "room again"), "nacked although there is room");
    Check.equal(0, desk.ready(mortal.dead()), "dead letters");
  }

  private static void rejectToDeadLetters(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-max-length", 2, "x-overflow", "reject-publish-dlx");
    Check.equal(List.of(true, true, false), acked(desk, mortal.queue(), 3), "acked");
    GetResponse letter = desk.one(mortal.dead());
    Check.equal("2", Desk.text(letter), "dead letter");
    Check.equal("maxlen", Desk.death(letter, "reason"), "reason");
    Check.equal(numbers(0, 2), desk.bodies(mortal.queue()), "kept");
  }

  private static void bytes(Desk desk) throws Exception {
    Mortal mortal = desk.mortal("q", "x-max-length-bytes", 10);
    desk.publishAll(mortal.queue(), List.of("aaaa", "bbbb", "cccc"));
    desk.awaitReady(mortal.dead(), 1);
    Check.equal(List.of("bbbb", "cccc"), desk.bodies(mortal.queue()), "kept");
    desk.publish(mortal.queue(), "longer than all");
    desk.awaitReady(mortal.dead(), 2);
    Check.equal(List.of("aaaa", "longer than all"), desk.bodies(mortal.dead()), "dead letters");
    Check.equal(0, desk.ready(mortal.queue()), "ready");
  }

  private static void countsReady(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-max-length", 2);
    desk.publishAll(queue, numbers(0, 2));
    Channel holder = desk.connection.createChannel();
    holder.basicGet(queue, false);
    holder.basicGet(queue, false);
    desk.publishAll(queue, numbers(2, 4));
    desk.awaitReady(queue, 2);
    holder.basicNack(2, true, true);
    holder.close();
    desk.awaitReady(queue, 2);
    Check.equal(numbers(2, 4), desk.bodies(queue), "kept");
  }

  private static void unconfirmed(Desk desk) throws Exception {
    String queue = desk.queue("q", "x-max-length", 1, "x-overflow", "reject-publish");
    Channel plain = desk.connection.createChannel();
    for (String text : numbers(0, 3)) {
      Lab.publish(plain, "", queue, text);
    }
    Check.ready(plain, queue, 1);
    Check.equal(numbers(0, 1), desk.bodies(queue), "kept");
  }

  private static void fanout(Desk desk) throws Exception {
    String exchange = desk.exchange("x", "fanout");
    String wide = desk.bound("wide", exchange, "");
    String narrow = desk.queue("narrow", "x-max-length", 1, "x-overflow", "reject-publish");
    desk.channel.queueBind(narrow, exchange, "");
    Check.that(desk.publish(exchange, "", "0", Desk.persistent().build(), false), "the first is nacked");
    Check.that(!desk.publish(exchange, "", "1", Desk.persistent().build(), false), "the second is acked");
    Check.equal(numbers(0, 1), desk.bodies(narrow), "in the full queue");
    Check.equal(numbers(0, 2), desk.bodies(wide), "in the other queue");
  }
}
