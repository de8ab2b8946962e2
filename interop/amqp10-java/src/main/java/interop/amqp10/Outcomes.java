package interop.amqp10;

import static interop.amqp10.Bench.body;
import static interop.harness.Expect.equal;

import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Management.QueueType;
import interop.harness.Expect;
import interop.harness.Suite;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** What consumers say of deliveries, and what comes of it. */
final class Outcomes {
  private Outcomes() {}

  static void register(Suite suite) {
    suite.add("outcomes", body(Outcomes::requeued));
    suite.add("batch-outcomes", body(Outcomes::batches));
    suite.add("rejected-is-dead-lettered", body(bench -> discarded(bench, QueueType.CLASSIC)));
    suite.add("rejected-is-dead-lettered-quorum", body(bench -> discarded(bench, QueueType.QUORUM)));
    suite.add("modified-annotations", body(Outcomes::annotations));
    suite.add("detached-gives-back", body(Outcomes::detached));
  }

  private static Inbox consume(Bench bench, String queue) {
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(queue).messageHandler(inbox).build();
    return inbox;
  }

  private static List<Object> header(Inbox.Delivery delivery) {
    return List.of(delivery.message().firstAcquirer(), delivery.message().deliveryCount());
  }

  private static void requeued(Bench bench) throws Exception {
    String queue = bench.quorum();
    bench.publishNumbers(queue, 1);
    Inbox inbox = consume(bench, queue);
    Inbox.Delivery first = inbox.next();
    equal(List.of(true, 0L), header(first), "the first time");
    first.context().requeue();
    Inbox.Delivery second = inbox.next();
    equal(List.of(false, 0L), header(second), "after 'released'");
    second.context().requeue(Map.of(), true);
    Inbox.Delivery third = inbox.next();
    equal(List.of(false, 1L), header(third), "after 'modified' with a failure");
    third.context().accept();
    bench.waitMessages(queue, 0);
  }

  private static void batches(Bench bench) throws Exception {
    String queue = bench.quorum();
    bench.publishNumbers(queue, 60);
    Inbox inbox = consume(bench, queue);
    List<Inbox.Delivery> deliveries = inbox.next(60);
    Consumer.BatchContext even = deliveries.get(0).context().batch(30);
    Consumer.BatchContext odd = deliveries.get(0).context().batch(30);
    for (int n = 0; n < 60; n++) {
      (n % 2 == 0 ? even : odd).add(deliveries.get(n).context());
    }
    even.accept();
    odd.requeue();
    for (int n = 1; n < 60; n += 2) {
      inbox.accept(List.of(Integer.toString(n)));
    }
    bench.waitMessages(queue, 0);
  }

  private static void discarded(Bench bench, QueueType type) throws Exception {
    String dead = bench.declaring("dead").type(type).declare().name();
    String queue = bench.declaring("q").type(type).deadLetterExchange("").deadLetterRoutingKey(dead)
        .declare().name();
    bench.publishNumbers(queue, 2);
    List<Inbox.Delivery> deliveries = consume(bench, queue).next(2);
    deliveries.get(0).context().discard();
    deliveries.get(1).context().discard(Map.of("x-why", "enough"));
    List<Inbox.Delivery> letters = consume(bench, dead).next(2);
    Inbox.Delivery letter = letters.get(0);
    equal("1", letters.get(1).text(), "the second dead letter");
    equal(List.of("0", "rejected", queue),
        List.of(letter.text(), letter.message().annotation("x-first-death-reason"),
            letter.message().annotation("x-first-death-queue")), "dead letter");
    equal(List.of(false, 1L), header(letter), "header of a dead letter");
    bench.waitMessages(queue, 0);
  }

  private static void annotations(Bench bench) throws Exception {
    String dead = bench.declaring("dead").type(QueueType.QUORUM).declare().name();
    String queue = bench.declaring("q").type(QueueType.QUORUM).deadLetterExchange("")
        .deadLetterRoutingKey(dead).declare().name();
    bench.publishNumbers(queue, 1);
    Inbox inbox = consume(bench, queue);
    inbox.next().context().requeue(Map.of("x-by", "java", "x-tries", 1), true);
    Inbox.Delivery second = inbox.next();
    equal(List.of("java", 1, 1L), List.of(second.message().annotation("x-by"),
        second.message().annotation("x-tries"), second.message().deliveryCount()), "the second time");
    long begin = System.nanoTime();
    second.context().delayedRetry(Duration.ofMillis(700), true);
    Inbox.Delivery third = inbox.next();
    Expect.that(System.nanoTime() - begin >= 690_000_000L, "it comes too early");
    equal(2L, third.message().deliveryCount(), "failures");
    third.context().discard(Map.of("x-why", "enough"));
    Inbox.Delivery letter = consume(bench, dead).next();
    equal(List.of("java", 1, "enough"), List.of(letter.message().annotation("x-by"),
        letter.message().annotation("x-tries"), letter.message().annotation("x-why")), "dead letter");
  }

  private static void detached(Bench bench) throws Exception {
    String queue = bench.queue();
    bench.publishNumbers(queue, 10);
    Inbox inbox = new Inbox();
    Consumer consumer = bench.connection.consumerBuilder().queue(queue).messageHandler(inbox).build();
    equal(10, inbox.next(10).size(), "messages");
    consumer.close();
    Inbox again = consume(bench, queue);
    List<Inbox.Delivery> deliveries = again.next(10);
    equal(Bench.numbers(0, 10), deliveries.stream().map(Inbox.Delivery::text).toList(), "bodies");
    equal(false, deliveries.get(0).message().firstAcquirer(), "nobody acquires them first");
  }
}
