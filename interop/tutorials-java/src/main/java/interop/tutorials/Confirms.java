package interop.tutorials;

import static interop.tutorials.Lesson.bytes;
import static interop.tutorials.Lesson.expect;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmCallback;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Tutorial seven: confirms one by one, in batches, and as they come. */
final class Confirms {
  private static final int MESSAGES_ONE_BY_ONE = 200;
  private static final int MESSAGES = 5_000;
  private static final int BATCH = 100;
  private static final long WAIT_MILLIS = Lesson.WAIT_SECONDS * 1000;

  private Confirms() {}

  static void publisherConfirms(Lesson lesson) throws Exception {
    individually(lesson.program());
    inBatches(lesson.program());
    asynchronously(lesson.program());
  }

  private static void individually(Channel channel) throws Exception {
    String queue = channel.queueDeclare().getQueue();
    channel.confirmSelect();
    for (int i = 0; i < MESSAGES_ONE_BY_ONE; i++) {
      channel.basicPublish("", queue, null, bytes("" + i));
      channel.waitForConfirmsOrDie(WAIT_MILLIS);
    }
    expectReady(channel, queue, MESSAGES_ONE_BY_ONE);
  }

  private static void inBatches(Channel channel) throws Exception {
    String queue = channel.queueDeclare().getQueue();
    channel.confirmSelect();
    for (int i = 1; i <= MESSAGES; i++) {
      channel.basicPublish("", queue, null, bytes("" + i));
      if (i % BATCH == 0) {
        channel.waitForConfirmsOrDie(WAIT_MILLIS);
      }
    }
    expectReady(channel, queue, MESSAGES);
  }

  private static void asynchronously(Channel channel) throws Exception {
    String queue = channel.queueDeclare().getQueue();
    channel.confirmSelect();
    ConcurrentNavigableMap<Long, String> outstanding = new ConcurrentSkipListMap<>();
    AtomicInteger nacked = new AtomicInteger();
    CountDownLatch settled = new CountDownLatch(MESSAGES);
    ConfirmCallback settle = (number, multiple) -> {
      ConcurrentNavigableMap<Long, String> done =
          multiple ? outstanding.headMap(number, true) : outstanding.subMap(number, true, number, true);
      int n = done.size();
      done.clear();
      for (int i = 0; i < n; i++) {
        settled.countDown();
      }
    };
    channel.addConfirmListener(settle, (number, multiple) -> {
      nacked.incrementAndGet();
      settle.handle(number, multiple);
    });
    for (int i = 0; i < MESSAGES; i++) {
      String body = Integer.toString(i);
      outstanding.put(channel.getNextPublishSeqNo(), body);
      channel.basicPublish("", queue, null, bytes(body));
    }
    expect(true, settled.await(Lesson.WAIT_SECONDS, TimeUnit.SECONDS));
    expect(0, nacked.get());
    expect(0, outstanding.size());
    expectReady(channel, queue, MESSAGES);
  }

  private static void expectReady(Channel channel, String queue, int n) throws Exception {
    // Everything is confirmed, so nothing can be on its way to the queue.
    expect(n, channel.queueDeclarePassive(queue).getMessageCount());
  }
}
