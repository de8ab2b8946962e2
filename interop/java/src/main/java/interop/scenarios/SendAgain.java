package interop.scenarios;

import static interop.scenarios.Lab.body;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import interop.harness.Suite;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * The publishers of docs/confirm-after-consume.md and docs/exactly-once.md, which send again what is not
 * confirmed.
 */
final class SendAgain {
  private static final int JOBS = 2000;
  /** Is published once the node has been killed for the last time. */
  private static final String HELD = "job-1901";
  private static final long DEADLINE_SECONDS = 45;
  private static final int ONCE_JOBS = 10_000;

  private SendAgain() {}

  static void register(Suite suite) {
    suite.add("restart-send-again", 60, body(SendAgain::sendAgain));
    suite.add("restart-exactly-once", 60, body(SendAgain::exactlyOnce));
  }

  private static void exactlyOnce(Lab lab) throws Exception {
    Restarts.needsOwnNode(lab);
    String queue = lab.name("q");
    Process publisher = new ProcessBuilder(
        "java", "-cp", System.getProperty("java.class.path"), "Once",
        lab.node().uri(), queue, "publisher", String.valueOf(ONCE_JOBS))
        .inheritIO().redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    try {
      for (int count : List.of(2_000, 5_000)) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        while (countIn(lab, queue) < count) {
          Check.that(System.nanoTime() < deadline, "in vain waited for " + count + " jobs");
        }
        lab.node().kill9();
        lab.node().start();
      }
      Check.that(publisher.waitFor(DEADLINE_SECONDS, TimeUnit.SECONDS), "the publisher goes on");
    } finally {
      publisher.destroyForcibly();
    }
    Check.equal(0, publisher.exitValue(), "exit status");
    Channel channel = lab.connect().createChannel();
    for (int number = 0; number < ONCE_JOBS; number++) {
      Check.equal("job-" + number, new String(channel.basicGet(queue, true).getBody()), "the next job");
    }
    Check.equal(null, channel.basicGet(queue, true), "a job that came twice");
  }

  /** 0 before the publisher has declared the queue. */
  private static long countIn(Lab lab, String queue) throws Exception {
    try (Connection connection = lab.connect()) {
      return connection.createChannel().messageCount(queue);
    } catch (IOException missing) {
      return 0;
    }
  }

  private static void sendAgain(Lab lab) throws Exception {
    Restarts.needsOwnNode(lab);
    String queue = lab.name("q");
    Channel channel = lab.connect(Restarts.recovering(lab)).createChannel();
    channel.queueDeclare(queue, true, false, false, Map.of("x-confirm-on", "ack"));
    channel.basicQos(50);
    Worker worker = new Worker(channel);
    channel.basicConsume(queue, false, worker);
    ProcessBuilder program = new ProcessBuilder(
        "java", "-cp", System.getProperty("java.class.path"), "Resend",
        lab.node().uri(), queue, String.valueOf(JOBS));
    program.environment().put("RESEND_TIMEOUT_S", "1");
    Process publisher = program.inheritIO().redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    try {
      for (int count : List.of(500, 1200)) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        while (worker.seen.size() < count) {
          Check.that(System.nanoTime() < deadline, "in vain waited for " + count + " jobs");
          Thread.sleep(2);
        }
        lab.node().kill9();
        lab.node().start();
      }
      Check.that(publisher.waitFor(DEADLINE_SECONDS, TimeUnit.SECONDS), "the publisher goes on");
    } finally {
      publisher.destroyForcibly();
    }
    Check.equal(0, publisher.exitValue(), "exit status");
    List<String> missing = new ArrayList<>();
    for (int number = 0; number < JOBS; number++) {
      if (!worker.acknowledged.contains("job-" + number)) {
        missing.add("job-" + number);
      }
    }
    Check.equal(List.of(), missing, "jobs that are not done");
    Check.that(worker.seen.get(HELD) > 1, "not published again without an answer");
  }

  /** Acknowledges jobs; refuses one in ten the first time, and holds one until it is sent again. */
  private static final class Worker extends DefaultConsumer {
    private final Map<String, Integer> seen = new ConcurrentHashMap<>();
    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();

    Worker(Channel channel) {
      super(channel);
    }

    @Override
    public void handleDelivery(
        String tag, Envelope envelope, BasicProperties properties, byte[] body) {
      String job = properties.getMessageId();
      boolean isFirst = seen.merge(job, 1, Integer::sum) == 1;
      try {
        if (isFirst && job.endsWith("0")) {
          getChannel().basicReject(envelope.getDeliveryTag(), false);
        } else if (!isFirst || !job.equals(HELD)) {
          acknowledged.add(job);
          getChannel().basicAck(envelope.getDeliveryTag(), false);
        }
      } catch (AlreadyClosedException | IOException lost) {
        // The job is sent again.
      }
    }
  }
}
