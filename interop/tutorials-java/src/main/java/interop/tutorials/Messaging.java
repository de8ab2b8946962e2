package interop.tutorials;

import static interop.tutorials.Lesson.bytes;
import static interop.tutorials.Lesson.expect;
import static interop.tutorials.Lesson.next;
import static interop.tutorials.Lesson.text;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.MessageProperties;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Tutorials one, two and six: a queue between two programs, a queue of work, remote calls. */
final class Messaging {
  private static final int TASKS = 12;
  private static final Map<String, Object> QUORUM = Map.of("x-queue-type", "quorum");

  private Messaging() {}

  static void helloWorld(Lesson lesson) throws Exception {
    String queue = lesson.name("hello");
    Channel sender = lesson.program();
    sender.queueDeclare(queue, true, false, false, QUORUM);
    sender.basicPublish("", queue, null, bytes("Hello World!"));

    Channel receiver = lesson.program();
    BlockingQueue<String> received = new LinkedBlockingQueue<>();
    receiver.queueDeclare(queue, true, false, false, QUORUM);
    receiver.basicConsume(queue, true,
        (tag, delivery) -> received.add(text(delivery.getBody())), tag -> {});
    expect("Hello World!", next(received));
    receiver.queueDelete(queue);
  }

  /** Two fair workers; one dies in the middle of a task, which the other then does. */
  static void workQueues(Lesson lesson) throws Exception {
    String queue = lesson.name("task_queue");
    Channel dying = lesson.program();
    dying.queueDeclare(queue, true, false, false, QUORUM);
    dying.basicQos(1);
    BlockingQueue<String> begun = new LinkedBlockingQueue<>();
    dying.basicConsume(queue, false,
        (tag, delivery) -> begun.add(text(delivery.getBody())), tag -> {});

    Channel newTask = lesson.program();
    for (int i = 0; i < TASKS; i++) {
      newTask.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("task " + i));
    }
    String unfinished = next(begun);

    Channel worker = lesson.program();
    worker.basicQos(1);
    BlockingQueue<String> done = new LinkedBlockingQueue<>();
    worker.basicConsume(queue, false, (tag, delivery) -> {
      String repeated = delivery.getEnvelope().isRedeliver() ? " again" : "";
      worker.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
      done.add(text(delivery.getBody()) + repeated);
    }, tag -> {});
    List<String> results = new ArrayList<>();
    for (int i = 0; i < TASKS - 1; i++) {
      results.add(next(done));
    }
    // With a prefetch of one the unfinished task kept the first worker from getting more.
    expect(0, begun.size());
    dying.getConnection().abort();
    results.add(next(done));
    expect(unfinished + " again", results.get(TASKS - 1));
    results.sort(Comparator.comparingInt(task -> Integer.parseInt(task.split(" ")[1])));
    expect("task 0 again", results.get(0));
    expect("task " + (TASKS - 1), results.get(TASKS - 1));
    newTask.queueDelete(queue);
  }

  static void rpc(Lesson lesson) throws Exception {
    String queue = lesson.name("rpc_queue");
    Channel server = lesson.program();
    server.queueDeclare(queue, true, false, false, QUORUM);
    server.queuePurge(queue);
    server.basicQos(1);
    server.basicConsume(queue, false, (tag, request) -> {
      BasicProperties reply = new BasicProperties.Builder()
          .correlationId(request.getProperties().getCorrelationId()).build();
      long answer = fibonacci(Integer.parseInt(text(request.getBody())));
      server.basicPublish("", request.getProperties().getReplyTo(), reply, bytes("" + answer));
      server.basicAck(request.getEnvelope().getDeliveryTag(), false);
    }, tag -> {});

    Channel client = lesson.program();
    long a = 0;
    long b = 1;
    for (int n = 0; n < 32; n++) {
      expect(Long.toString(a), call(client, queue, Integer.toString(n)));
      long sum = a + b;
      a = b;
      b = sum;
    }
    server.queueDelete(queue);
  }

  /** One call, with a callback queue of its own. */
  private static String call(Channel client, String queue, String argument) throws Exception {
    String callback = client.queueDeclare().getQueue();
    String correlationId = UUID.randomUUID().toString();
    BasicProperties properties = new BasicProperties.Builder()
        .correlationId(correlationId).replyTo(callback).build();
    client.basicPublish("", queue, properties, bytes(argument));
    BlockingQueue<String> answers = new LinkedBlockingQueue<>();
    String tag = client.basicConsume(callback, true, (consumerTag, delivery) -> {
      if (correlationId.equals(delivery.getProperties().getCorrelationId())) {
        answers.add(text(delivery.getBody()));
      }
    }, consumerTag -> {});
    String answer = next(answers);
    client.basicCancel(tag);
    return answer;
  }

  private static long fibonacci(int n) {
    long a = 0;
    long b = 1;
    for (int i = 0; i < n; i++) {
      long sum = a + b;
      a = b;
      b = sum;
    }
    return a;
  }
}
