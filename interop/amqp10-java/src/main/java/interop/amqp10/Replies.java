package interop.amqp10;

import static interop.amqp10.Bench.body;
import static interop.harness.Expect.equal;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Requester;
import com.rabbitmq.client.amqp.Responder;
import interop.harness.Expect;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Requests and their replies. */
final class Replies {
  private static final Responder.Handler ECHO = (context, request) ->
      context.message(("re: " + new String(request.body(), UTF_8)).getBytes(UTF_8));

  private Replies() {}

  static void register(Suite suite) {
    suite.add("replies", body(Replies::volatileQueue));
    suite.add("replies-to-a-queue", body(Replies::namedQueue));
    suite.add("requester-is-alive", body(Replies::isAlive));
    suite.add("replies-between-protocols", body(Replies::betweenProtocols));
  }

  private static void asks(Requester requester) throws Exception {
    List<CompletableFuture<Message>> replies = new ArrayList<>();
    for (String text : Bench.numbers(0, 100)) {
      replies.add(requester.publish(requester.message(text.getBytes(UTF_8))));
    }
    for (int n = 0; n < 100; n++) {
      equal("re: " + n, text(replies.get(n)), "reply");
    }
  }

  private static String text(CompletableFuture<Message> reply) throws Exception {
    return new String(reply.get(Expect.WAIT_SECONDS, TimeUnit.SECONDS).body(), UTF_8);
  }

  private static void volatileQueue(Bench bench) throws Exception {
    String queue = bench.queue();
    bench.connect().responderBuilder().requestQueue(queue).handler(ECHO).build();
    try (Requester requester =
        bench.connection.requesterBuilder().requestAddress().queue(queue).requester().build()) {
      asks(requester);
    }
  }

  private static void namedQueue(Bench bench) throws Exception {
    String queue = bench.queue();
    String answers = bench.declaring("answers").declare().name();
    bench.connect().responderBuilder().requestQueue(queue).handler(ECHO).build();
    try (Requester requester = bench.connection.requesterBuilder().requestAddress().queue(queue).requester()
        .replyToQueue(answers).build()) {
      asks(requester);
    }
    bench.waitMessages(answers, 0);
  }

  private static void isAlive(Bench bench) throws Exception {
    String queue = bench.queue();
    BlockingQueue<Boolean> told = new LinkedBlockingQueue<>();
    CompletableFuture<Void> gone = new CompletableFuture<>();
    bench.connection.responderBuilder().requestQueue(queue).handler((context, request) -> {
      told.add(context.isRequesterAlive(request));
      gone.orTimeout(Expect.WAIT_SECONDS, TimeUnit.SECONDS).join();
      told.add(context.isRequesterAlive(request));
      return null;
    }).build();
    try (Connection other = bench.connect()) {
      Requester requester = other.requesterBuilder().requestAddress().queue(queue).requester().build();
      requester.publish(requester.message());
      equal(true, told.poll(Expect.WAIT_SECONDS, TimeUnit.SECONDS), "while it waits");
    }
    gone.complete(null);
    equal(false, told.poll(Expect.WAIT_SECONDS, TimeUnit.SECONDS), "once it is gone");
  }

  private static void betweenProtocols(Bench bench) throws Exception {
    String queue = bench.queue();
    Channel channel = bench.amqp091();
    try (Requester requester =
        bench.connection.requesterBuilder().requestAddress().queue(queue).requester().build()) {
      CompletableFuture<Message> reply = requester.publish(requester.message("a".getBytes(UTF_8)));
      GetResponse request = null;
      while (request == null) {
        request = channel.basicGet(queue, true);
      }
      BasicProperties properties = new BasicProperties.Builder()
          .correlationId(request.getProps().getMessageId()).build();
      channel.basicPublish("", request.getProps().getReplyTo(), properties, "of 0-9-1".getBytes(UTF_8));
      equal("of 0-9-1", text(reply), "reply of AMQP 0-9-1");
    }
    bench.connection.responderBuilder().requestQueue(queue).handler(ECHO).build();
    BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    channel.basicConsume("amq.rabbitmq.reply-to", true, (tag, delivery) -> heard.add(
        delivery.getProperties().getCorrelationId() + " " + new String(delivery.getBody(), UTF_8)), tag -> {});
    channel.basicPublish("", queue, new BasicProperties.Builder().correlationId("c").messageId("c")
        .replyTo("amq.rabbitmq.reply-to").build(), "b".getBytes(UTF_8));
    equal("c re: b", heard.poll(Expect.WAIT_SECONDS, TimeUnit.SECONDS), "reply of AMQP 1.0");
  }
}
