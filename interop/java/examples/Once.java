import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.TimeoutException;

/**
 * Publishes jobs to a quorum queue, each exactly once however often it reconnects: Once URI QUEUE
 * PUBLISHER COUNT
 */
public final class Once {
  /** Unconfirmed jobs: further ones are left where they come from. */
  private static final int WINDOW = 200;
  private static final long TICK_MS = 100;
  private static final long RECONNECT_MS = 100;

  private final ConnectionFactory factory = new ConnectionFactory();
  private final String queue;
  private final String name;
  private final long count;
  /** Jobs without a confirm by publishing id. */
  private final TreeMap<Long, byte[]> kept = new TreeMap<>();
  /** Publishing ids by delivery tag, which counts from 1 on every connection. */
  private final TreeMap<Long, Long> unanswered = new TreeMap<>();
  /** Publishing ids of jobs to be published again. */
  private final Queue<Long> again = new ArrayDeque<>();
  private long lastId;
  private long published;

  Once(String uri, String queue, String name, long count) throws Exception {
    factory.setUri(uri);
    factory.setAutomaticRecoveryEnabled(false); // it publishes nothing again; this class does
    this.queue = queue;
    this.name = name;
    this.count = count;
  }

  void run() throws InterruptedException {
    while (!isDone()) {
      try (Connection connection = factory.newConnection()) {
        publishOn(connection.createChannel());
      } catch (IOException | TimeoutException | ShutdownSignalException lost) {
        System.err.println("publishing goes on after: " + lost);
        Thread.sleep(RECONNECT_MS);
      }
    }
  }

  /** Until everything is confirmed. */
  private void publishOn(Channel channel) throws IOException, InterruptedException {
    channel.queueDeclare(queue, true, false, false, Map.of("x-queue-type", "quorum"));
    channel.confirmSelect();
    channel.addConfirmListener(
        (tag, multiple) -> settle(tag, multiple, true),
        (tag, multiple) -> settle(tag, multiple, false));
    forgetConnection();
    for (Long id = next(channel); id != null; id = next(channel)) {
      Map<String, Object> headers = Map.of("x-publisher-id", name, "x-publishing-id", id);
      byte[] job;
      synchronized (this) {
        unanswered.put(channel.getNextPublishSeqNo(), id);
        job = kept.get(id);
        published++;
      }
      channel.basicPublish("", queue, new BasicProperties.Builder().headers(headers).build(), job);
    }
  }

  private synchronized boolean isDone() {
    return kept.isEmpty() && lastId == count;
  }

  /** All that have no confirm are published again: the queue drops what it has. */
  private synchronized void forgetConnection() {
    unanswered.clear();
    again.clear();
    again.addAll(kept.keySet());
  }

  /** Waits for the next job to publish: one again, or a new one while there is room. */
  private synchronized Long next(Channel channel) throws InterruptedException {
    while (!isDone()) {
      if (!channel.isOpen()) {
        throw new AlreadyClosedException(channel.getCloseReason());
      }
      if (!again.isEmpty()) {
        return again.remove();
      }
      if (kept.size() < WINDOW && lastId < count) {
        kept.put(++lastId, ("job-" + (lastId - 1)).getBytes());
        return lastId;
      }
      wait(TICK_MS);
    }
    return null;
  }

  private synchronized void settle(long tag, boolean multiple, boolean isAck) {
    Map<Long, Long> answered = unanswered.subMap(multiple ? 0 : tag, true, tag, true);
    for (Long id : new ArrayList<>(answered.values())) {
      if (isAck) {
        kept.remove(id);
      } else {
        again.add(id); // refused, and not in the queue: it may come again
      }
    }
    answered.clear();
    notifyAll();
  }

  public static void main(String[] arguments) throws Exception {
    long count = Long.parseLong(arguments[3]);
    Once publisher = new Once(arguments[0], arguments[1], arguments[2], count);
    publisher.run();
    System.out.println(count + " jobs confirmed, " + publisher.published + " publishes");
  }
}
