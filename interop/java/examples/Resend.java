import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;

/** Publishes jobs and keeps each until it is confirmed: Resend URI QUEUE COUNT */
public final class Resend {
  /** Unconfirmed jobs: further ones are left where they come from. */
  private static final int WINDOW = 200;
  /** Time without an answer. */
  private static final long TIMEOUT_NS =
      TimeUnit.SECONDS.toNanos(Long.parseLong(System.getenv().getOrDefault("RESEND_TIMEOUT_S", "30")));
  private static final long NACK_PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(100);
  private static final long TICK_MS = 100;
  private static final long RECONNECT_MS_MIN = 100;
  private static final long RECONNECT_MS_MAX = 5_000;

  /** A job that is not confirmed. */
  private static final class Job {
    private final String id;
    private final byte[] body;
    private long tag;
    private int tries;
    private long dueAt;

    Job(int number) {
      id = "job-" + number;
      body = "work".getBytes();
    }
  }

  private final ConnectionFactory factory = new ConnectionFactory();
  private final String queue;
  private final Iterator<Job> jobs;
  private final Map<String, Job> kept = new LinkedHashMap<>();
  /** By delivery tag, which counts from 1 on every connection. */
  private final TreeMap<Long, Job> unanswered = new TreeMap<>();
  private long published;

  Resend(String uri, String queue, Iterator<Job> jobs) throws Exception {
    factory.setUri(uri);
    factory.setAutomaticRecoveryEnabled(false); // it publishes nothing again; this class does
    this.queue = queue;
    this.jobs = jobs;
  }

  void run() throws InterruptedException {
    long pauseMs = RECONNECT_MS_MIN;
    while (!isDone()) {
      try (Connection connection = factory.newConnection()) {
        pauseMs = RECONNECT_MS_MIN;
        publishOn(connection.createChannel());
      } catch (IOException | TimeoutException | ShutdownSignalException lost) {
        System.err.println("publishing goes on after: " + lost);
      }
      if (!isDone()) {
        Thread.sleep(pauseMs);
        pauseMs = Math.min(2 * pauseMs, RECONNECT_MS_MAX);
      }
    }
  }

  /** Until everything is confirmed or the channel is closed. */
  private void publishOn(Channel channel) throws IOException, InterruptedException {
    channel.queueDeclare(queue, true, false, false, Map.of("x-confirm-on", "ack"));
    channel.confirmSelect();
    channel.addConfirmListener(
        (tag, multiple) -> settle(tag, multiple, true),
        (tag, multiple) -> settle(tag, multiple, false));
    forgetConnection();
    for (Job job = next(channel); job != null; job = next(channel)) {
      BasicProperties properties = new BasicProperties.Builder().messageId(job.id).build();
      channel.basicPublish("", queue, properties, job.body);
    }
  }

  private synchronized boolean isDone() {
    return kept.isEmpty() && !jobs.hasNext();
  }

  private synchronized void forgetConnection() {
    unanswered.clear();
    for (Job job : kept.values()) {
      job.tries = 0;
      job.dueAt = System.nanoTime();
    }
  }

  /** Waits for the next job to publish: one that is overdue, or a new one while there is room. */
  private synchronized Job next(Channel channel) throws InterruptedException {
    while (channel.isOpen() && !isDone()) {
      long now = System.nanoTime();
      Job job = kept.values().stream().filter(one -> one.dueAt - now <= 0).findFirst().orElse(null);
      if (job == null && kept.size() < WINDOW && jobs.hasNext()) {
        job = jobs.next();
        kept.put(job.id, job);
      }
      if (job != null) {
        job.tag = channel.getNextPublishSeqNo();
        job.dueAt = now + (TIMEOUT_NS << Math.min(job.tries, 10));
        job.tries++;
        published++;
        unanswered.put(job.tag, job);
        return job;
      }
      wait(TICK_MS);
    }
    return null;
  }

  private synchronized void settle(long tag, boolean multiple, boolean isAck) {
    Map<Long, Job> answered = unanswered.subMap(multiple ? 0 : tag, true, tag, true);
    List<Map.Entry<Long, Job>> entries = new ArrayList<>(answered.entrySet());
    for (Map.Entry<Long, Job> entry : entries) {
      Job job = entry.getValue();
      if (isAck) {
        kept.remove(job.id); // whichever publish of the job it answers
      } else if (job.tag == entry.getKey()) {
        job.dueAt = System.nanoTime() + NACK_PAUSE_NS;
      }
    }
    answered.clear();
    notifyAll();
  }

  public static void main(String[] arguments) throws Exception {
    int count = Integer.parseInt(arguments[2]);
    Iterator<Job> jobs = IntStream.range(0, count).mapToObj(Job::new).iterator();
    Resend publisher = new Resend(arguments[0], arguments[1], jobs);
    publisher.run();
    System.out.println(count + " jobs confirmed, " + publisher.published + " publishes");
  }
}
