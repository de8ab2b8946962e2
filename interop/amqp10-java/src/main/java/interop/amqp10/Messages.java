package interop.amqp10;

import static interop.amqp10.Bench.N_MESSAGES;
import static interop.amqp10.Bench.body;
import static interop.harness.Expect.equal;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.amqp.AmqpException.AmqpMessageRejectedException;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Management.OverflowStrategy;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Publisher.Status;
import interop.harness.Expect;
import interop.harness.Suite;
import java.util.List;
import java.util.UUID;

/** Messages to queues and exchanges, their outcomes, and what consumers get. */
final class Messages {
  private Messages() {}

  static void register(Suite suite) {
    suite.add("publish-consume", body(bench -> goesThrough(bench, bench.queue())));
    suite.add("publish-consume-quorum", body(bench -> goesThrough(bench, bench.quorum())));
    suite.add("settled-consumer", body(Messages::settledConsumer));
    suite.add("bare-message-is-kept", body(Messages::bareMessage));
    suite.add("unroutable-is-released", body(Messages::unroutable));
    suite.add("full-queue-rejects", body(Messages::fullQueue));
    suite.add("anonymous-terminus", body(Messages::anonymousTerminus));
    suite.add("topic-exchange", body(Messages::topicExchange));
    suite.add("large-messages", body(Messages::large));
    suite.add("credit-is-kept-to", body(Messages::credit));
    suite.add("consumer-priority", body(Messages::priority));
    suite.add("single-active-takes-over", body(Messages::singleActive));
  }

  private static void goesThrough(Bench bench, String queue) throws Exception {
    bench.publishNumbers(queue, N_MESSAGES);
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(queue).initialCredits(50)
        .messageHandler((context, message) -> {
          context.accept();
          inbox.handle(context, message);
        }).build();
    equal(Bench.numbers(0, N_MESSAGES), inbox.next(N_MESSAGES).stream().map(Inbox.Delivery::text).toList(),
        "bodies");
    bench.waitMessages(queue, 0);
  }

  private static void settledConsumer(Bench bench) throws Exception {
    String queue = bench.queue();
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(queue).preSettled().messageHandler(inbox).build();
    bench.publishNumbers(queue, N_MESSAGES);
    equal(N_MESSAGES, inbox.next(N_MESSAGES).size(), "messages");
    bench.waitMessages(queue, 0);
  }

  private static void bareMessage(Bench bench) throws Exception {
    String queue = bench.quorum();
    UUID uuid = UUID.randomUUID();
    try (Publisher publisher = bench.publisher(queue)) {
      Message sent = publisher.message("hello".getBytes(UTF_8)).messageId(7L).correlationId(uuid)
          .to("somewhere").subject("hares").contentType("text/plain").groupId("warren").groupSequence(3)
          .creationTime(1_700_000_000_000L).priority((byte) 3).annotation("x-mine", "yes")
          .property("ears", 2).property("soft", true).propertyUnsigned("long", 7L)
          .property("price", 1.25).propertySymbol("kind", "hare");
      Bench.accepted(publisher, List.of(sent));
    }
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(queue).messageHandler(inbox).build();
    Inbox.Delivery delivery = inbox.next();
    Message message = delivery.message();
    equal(List.of("hello", 7L, uuid, "somewhere", "hares", "text/plain", "warren", 3, 1_700_000_000_000L),
        List.of(delivery.text(), message.messageIdAsLong(), message.correlationIdAsUuid(), message.to(),
            message.subject(), message.contentType(), message.groupId(), message.groupSequence(),
            message.creationTime()), "body and properties");
    equal(List.of(true, (byte) 3, true, 0L),
        List.of(message.durable(), message.priority(), message.firstAcquirer(), message.deliveryCount()), "header");
    equal(List.of(2, true, "7", 1.25, "hare"),
        List.of(message.property("ears"), message.property("soft"), message.property("long").toString(),
            message.property("price"), message.property("kind").toString()), "application properties");
    equal(List.of("yes", queue), List.of(message.annotation("x-mine"), message.annotation("x-routing-key")),
        "annotations");
    delivery.context().accept();
  }

  private static void unroutable(Bench bench) throws Exception {
    try (Publisher publisher =
        bench.connection.publisherBuilder().exchange("amq.direct").key(bench.name("nowhere")).build()) {
      equal(Status.RELEASED, Bench.publish(publisher, List.of(publisher.message())).get(0).status(), "outcome");
    }
  }

  private static void fullQueue(Bench bench) throws Exception {
    String queue =
        bench.declaring("q").maxLength(1).overflowStrategy(OverflowStrategy.REJECT_PUBLISH).declare().name();
    try (Publisher publisher = bench.publisher(queue)) {
      Bench.publishNumbers(publisher, 0, 1);
      Expect.eventually(Status.REJECTED, "outcome",
          () -> Bench.publish(publisher, List.of(publisher.message())).get(0).status());
      Throwable cause = Bench.publish(publisher, List.of(publisher.message())).get(0).failureCause();
      Expect.that(cause instanceof AmqpMessageRejectedException && cause.getMessage().contains(queue),
          "the refusal names its queue: " + cause);
    }
  }

  private static void anonymousTerminus(Bench bench) throws Exception {
    String queue = bench.queue();
    try (Publisher publisher = bench.connection.publisherBuilder().build()) {
      List<Publisher.Context> contexts = Bench.publish(publisher, List.of(
          publisher.message().toAddress().queue(queue).message(),
          publisher.message().toAddress().exchange(bench.name("x")).key("k").message(),
          publisher.message().toAddress().queue(bench.name("nowhere")).message(),
          publisher.message()));
      equal(List.of(Status.ACCEPTED, Status.REJECTED, Status.RELEASED, Status.REJECTED),
          contexts.stream().map(Publisher.Context::status).toList(), "outcomes");
    }
  }

  private static void topicExchange(Bench bench) throws Exception {
    String queue = bench.queue();
    bench.management().binding().sourceExchange("amq.topic").destinationQueue(queue).key("a.*").bind();
    try (Publisher publisher =
            bench.connection.publisherBuilder().exchange("amq.topic").key("a.b/c").build();
        Publisher other = bench.connection.publisherBuilder().exchange("amq.topic").key("b.b").build()) {
      Bench.publishNumbers(publisher, 0, 1);
      equal(Status.RELEASED, Bench.publish(other, List.of(other.message())).get(0).status(), "another key");
    }
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(queue).messageHandler(inbox).build();
    equal("a.b/c", inbox.next().message().annotation("x-routing-key"), "key");
  }

  private static void large(Bench bench) throws Exception {
    String queue = bench.queue();
    byte[] body = "x".repeat(1_000_000).getBytes(UTF_8);
    try (Publisher publisher = bench.publisher(queue)) {
      Bench.accepted(publisher, java.util.Collections.nCopies(5, null).stream()
          .map(none -> publisher.message(body)).toList());
    }
    Inbox inbox = new Inbox();
    bench.connection.consumerBuilder().queue(queue).messageHandler(inbox).build();
    for (Inbox.Delivery delivery : inbox.next(5)) {
      equal(1_000_000, delivery.message().body().length, "size");
      delivery.context().accept();
    }
  }

  private static void credit(Bench bench) throws Exception {
    String queue = bench.queue();
    bench.publishNumbers(queue, 20);
    Inbox inbox = new Inbox();
    Consumer consumer =
        bench.connection.consumerBuilder().queue(queue).initialCredits(7).messageHandler(inbox).build();
    List<Inbox.Delivery> first = inbox.next(7);
    // What a second consumer gets tells that the first one gets no more.
    Inbox other = new Inbox();
    bench.connect().consumerBuilder().queue(queue).messageHandler(other).build();
    other.accept(Bench.numbers(7, 20));
    equal(7L, consumer.unsettledMessageCount(), "unsettled");
    first.forEach(delivery -> delivery.context().accept());
    consumer.pause();
    bench.publishNumbers(queue, 3);
    other.accept(Bench.numbers(0, 3));
    consumer.unpause();
    equal(0, inbox.size(), "what came to the paused one");
  }

  private static void priority(Bench bench) throws Exception {
    String queue = bench.queue();
    Inbox low = new Inbox();
    Inbox high = new Inbox();
    bench.connection.consumerBuilder().queue(queue).messageHandler(low).build();
    bench.connection.consumerBuilder().queue(queue).priority(10).messageHandler(high).build();
    bench.publishNumbers(queue, 20);
    high.accept(Bench.numbers(0, 20));
    equal(0, low.size(), "messages of the other consumer");
  }

  private static void singleActive(Bench bench) throws Exception {
    String queue = bench.declaring("q").singleActiveConsumer(true).declare().name();
    Inbox first = new Inbox();
    Inbox second = new Inbox();
    Consumer active = bench.connection.consumerBuilder().queue(queue).messageHandler(first).build();
    bench.connection.consumerBuilder().queue(queue).messageHandler(second).build();
    bench.publishNumbers(queue, 10);
    first.accept(Bench.numbers(0, 10));
    active.close();
    bench.publishNumbers(queue, 10);
    second.accept(Bench.numbers(0, 10));
    equal(0, first.size(), "what the first got afterwards");
  }
}
