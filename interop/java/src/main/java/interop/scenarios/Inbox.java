package interop.scenarios;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A consumer that keeps what it is given until the scenario asks for it. */
final class Inbox extends DefaultConsumer {
  private final LinkedBlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
  private final CountDownLatch cancelled = new CountDownLatch(1);

  Inbox(Channel channel) {
    super(channel);
  }

  @Override
  public void handleDelivery(
      String tag, Envelope envelope, BasicProperties properties, byte[] body) {
    deliveries.add(new Delivery(envelope, properties, body));
  }

  @Override
  public void handleCancel(String tag) {
    cancelled.countDown();
  }

  /** The next delivery; fails when none comes in time. */
  Delivery take() throws InterruptedException {
    Delivery next = deliveries.poll(Check.WAIT_SECONDS, TimeUnit.SECONDS);
    Check.that(next != null, "no delivery after " + Check.WAIT_SECONDS + " s");
    return next;
  }

  List<Delivery> take(int n) throws InterruptedException {
    List<Delivery> all = new ArrayList<>(n);
    for (int i = 0; i < n; i++) {
      Delivery next = deliveries.poll(Check.WAIT_SECONDS, TimeUnit.SECONDS);
      Check.that(next != null, i + " of " + n + " deliveries after " + Check.WAIT_SECONDS + " s");
      all.add(next);
    }
    return all;
  }

  /** The bodies of the next {@code n} deliveries. */
  List<String> bodies(int n) throws InterruptedException {
    return take(n).stream().map(Inbox::body).toList();
  }

  int waiting() {
    return deliveries.size();
  }

  void awaitServerCancel() throws InterruptedException {
    Check.that(cancelled.await(Check.WAIT_SECONDS, TimeUnit.SECONDS), "no basic.cancel");
  }

  static String body(Delivery delivery) {
    return new String(delivery.getBody(), StandardCharsets.UTF_8);
  }
}
