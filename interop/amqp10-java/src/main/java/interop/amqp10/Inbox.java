package interop.amqp10;

import static interop.harness.Expect.equal;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Message;
import interop.harness.Expect;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Keeps what a consumer is given, in its order. */
final class Inbox implements Consumer.MessageHandler {
  record Delivery(Consumer.Context context, Message message) {
    String text() {
      return new String(message.body(), UTF_8);
    }
  }

  private final BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();

  @Override
  public void handle(Consumer.Context context, Message message) {
    deliveries.add(new Delivery(context, message));
  }

  Delivery next() throws Exception {
    Delivery delivery = deliveries.poll(Expect.WAIT_SECONDS, TimeUnit.SECONDS);
    Expect.that(delivery != null, "no message came");
    return delivery;
  }

  List<Delivery> next(int count) throws Exception {
    List<Delivery> taken = new ArrayList<>();
    while (taken.size() < count) {
      taken.add(next());
    }
    return taken;
  }

  /** Takes as many messages as there are texts, accepts them and compares their bodies. */
  void accept(List<String> texts) throws Exception {
    List<Delivery> taken = next(texts.size());
    equal(texts, taken.stream().map(Delivery::text).toList(), "bodies");
    taken.forEach(delivery -> delivery.context().accept());
  }

  int size() {
    return deliveries.size();
  }
}
