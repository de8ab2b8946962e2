package interop.tutorials;

import static interop.tutorials.Lesson.bytes;
import static interop.tutorials.Lesson.expect;
import static interop.tutorials.Lesson.next;
import static interop.tutorials.Lesson.text;

import com.rabbitmq.client.Channel;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Tutorials three, four and five: everybody, by severity, by pattern. */
final class Routing {
  /** Published last, to show that nothing came between. */
  private static final String LAST = "the last one";

  private Routing() {}

  static void publishSubscribe(Lesson lesson) throws Exception {
    String exchange = lesson.name("logs");
    BlockingQueue<String> screen = subscribe(lesson, exchange, "fanout", "");
    BlockingQueue<String> file = subscribe(lesson, exchange, "fanout", "");
    Channel emit = emitter(lesson, exchange, "fanout");
    emit.basicPublish(exchange, "", null, bytes("info: Hello World!"));
    emit.basicPublish(exchange, "", null, bytes(LAST));
    for (BlockingQueue<String> log : List.of(screen, file)) {
      expect(" info: Hello World!", next(log));
      expect(" " + LAST, next(log));
    }
    emit.exchangeDelete(exchange);
  }

  static void routing(Lesson lesson) throws Exception {
    String exchange = lesson.name("direct_logs");
    BlockingQueue<String> file = subscribe(lesson, exchange, "direct", "error", "last");
    BlockingQueue<String> screen =
        subscribe(lesson, exchange, "direct", "info", "warning", "error", "last");
    Channel emit = emitter(lesson, exchange, "direct");
    for (String severity : new String[] {"info", "debug", "warning", "error"}) {
      emit.basicPublish(exchange, severity, null, bytes("Run. Run. Or it will explode."));
    }
    emit.basicPublish(exchange, "last", null, bytes(LAST));
    expect("error Run. Run. Or it will explode.", next(file));
    expect("last " + LAST, next(file));
    for (String severity : new String[] {"info", "warning", "error"}) {
      expect(severity + " Run. Run. Or it will explode.", next(screen));
    }
    expect("last " + LAST, next(screen));
    emit.exchangeDelete(exchange);
  }

  static void topics(Lesson lesson) throws Exception {
    String exchange = lesson.name("topic_logs");
    BlockingQueue<String> all = subscribe(lesson, exchange, "topic", "#");
    BlockingQueue<String> kernel = subscribe(lesson, exchange, "topic", "kern.*", "last");
    BlockingQueue<String> critical = subscribe(lesson, exchange, "topic", "*.critical", "last");
    BlockingQueue<String> both =
        subscribe(lesson, exchange, "topic", "kern.*", "*.critical", "last");
    Channel emit = emitter(lesson, exchange, "topic");
    for (String key : new String[] {"kern.critical", "kern.info", "cron.critical", "auth.info"}) {
      emit.basicPublish(exchange, key, null, bytes("A critical kernel error"));
    }
    emit.basicPublish(exchange, "last", null, bytes(LAST));
    expectKeys(all, "kern.critical", "kern.info", "cron.critical", "auth.info");
    expectKeys(kernel, "kern.critical", "kern.info");
    expectKeys(critical, "kern.critical", "cron.critical");
    expectKeys(both, "kern.critical", "kern.info", "cron.critical");
    emit.exchangeDelete(exchange);
  }

  private static void expectKeys(BlockingQueue<String> received, String... keys)
      throws InterruptedException {
    for (String key : keys) {
      expect(key + " A critical kernel error", next(received));
    }
    expect("last " + LAST, next(received));
  }

  private static Channel emitter(Lesson lesson, String exchange, String type) throws Exception {
    Channel channel = lesson.program();
    channel.exchangeDeclare(exchange, type);
    return channel;
  }

  /** A program with a temporary queue; it notes the key and the text of what it gets. */
  private static BlockingQueue<String> subscribe(
      Lesson lesson, String exchange, String type, String... keys) throws Exception {
    Channel channel = emitter(lesson, exchange, type);
    String queue = channel.queueDeclare().getQueue();
    for (String key : keys) {
      channel.queueBind(queue, exchange, key);
    }
    BlockingQueue<String> received = new LinkedBlockingQueue<>();
    channel.basicConsume(queue, true,
        (tag, delivery) -> received.add(
            delivery.getEnvelope().getRoutingKey() + " " + text(delivery.getBody())),
        tag -> {});
    return received;
  }
}
