package interop.jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;
import static interop.jms.Bench.WAIT_MILLIS;
import static interop.jms.Bench.body;
import static interop.jms.Bench.numbers;
import static interop.jms.Bench.send;
import static interop.jms.Bench.takeTexts;
import static interop.jms.Bench.text;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.jms.admin.RMQDestination;
import interop.harness.Suite;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Queues, and what a message may say of how it is to be delivered. */
final class Queues {
  private Queues() {}

  static void register(Suite suite) {
    suite.add("queue", body(Queues::queue));
    suite.add("queue-listener", body(Queues::listener));
    suite.add("queue-of-amqp", body(Queues::ofAmqp));
    suite.add("queue-browser", body(Queues::browser));
    suite.add("queue-priority", body(Queues::priority));
    suite.add("queue-time-to-live", body(Queues::timeToLive));
    suite.add("queue-delivery-delay", body(Queues::deliveryDelay));
    suite.add("queue-stopped-connection", body(Queues::stoppedConnection));
  }

  private static void queue(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session);
    equal(null, session.createConsumer(queue).receiveNoWait(), "what an empty queue gives");
    send(session, queue, numbers(100));
    bench.ready(queue, 100);
    equal(List.of(numbers(100)), takeTexts(session.createConsumer(queue), 100), "messages");
    bench.ready(queue, 0);
  }

  private static void listener(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session);
    BlockingQueue<Message> inbox = new LinkedBlockingQueue<>();
    Session other = bench.session();
    other.createConsumer(queue).setMessageListener(inbox::add);
    send(session, queue, numbers(100));
    for (String expected : numbers(100)) {
      equal(expected, text(inbox.poll(WAIT_MILLIS, TimeUnit.MILLISECONDS)), "a message");
    }
  }

  /** A destination that names exchange, key and queue: bodies are as other clients have them. */
  private static void ofAmqp(Bench bench) throws Exception {
    try (com.rabbitmq.client.Connection connection = Bench.amqp(bench.node)) {
      Channel channel = connection.createChannel();
      String name = bench.name("q");
      channel.queueDeclare(name, true, false, false, null);
      RMQDestination destination = new RMQDestination("d", "", name, name);
      Session session = bench.session();
      AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder()
          .headers(Map.of("JMSType", "TextMessage", "ears", 2)).correlationId("c")
          .messageId("m").priority(3).build();
      channel.basicPublish("", name, properties, "hare".getBytes(StandardCharsets.UTF_8));
      MessageConsumer consumer = session.createConsumer(destination);
      Message got = consumer.receive(WAIT_MILLIS);
      equal("hare", text(got), "what another client sent");
      equal(2, got.getIntProperty("ears"), "its header");
      equal("c", got.getJMSCorrelationID(), "its correlation id");
      equal("m", got.getJMSMessageID(), "its message id");
      equal(3, got.getJMSPriority(), "its priority");
      Message sent = session.createTextMessage("hound");
      sent.setLongProperty("long", 1L << 40);
      sent.setFloatProperty("float", 0.5f);
      sent.setBooleanProperty("boolean", true);
      session.createProducer(destination).send(sent, DeliveryMode.PERSISTENT, 7, 0);
      bench.ready(session.createQueue(name), 1);
      GetResponse response = channel.basicGet(name, true);
      equal("hound", new String(response.getBody(), StandardCharsets.UTF_8), "body");
      equal(7, response.getProps().getPriority(), "priority");
      equal(2, response.getProps().getDeliveryMode(), "delivery mode");
      Map<String, Object> headers = response.getProps().getHeaders();
      equal(1L << 40, headers.get("long"), "a long header");
      equal(0.5f, headers.get("float"), "a float header");
      equal(true, headers.get("boolean"), "a truth value");
    }
  }

  private static void browser(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session);
    try (MessageProducer producer = session.createProducer(queue)) {
      for (String text : numbers(10)) {
        Message message = session.createTextMessage(text);
        message.setIntProperty("number", Integer.parseInt(text));
        producer.send(message);
      }
    }
    bench.ready(queue, 10);
    for (int round = 0; round < 2; round++) {
      try (QueueBrowser browser = session.createBrowser(queue)) {
        equal(List.of(numbers(10)), browse(browser), "what is looked at");
      }
      bench.ready(queue, 10);
    }
    try (QueueBrowser browser = session.createBrowser(queue, "number > 7")) {
      equal(List.of("8", "9"), browse(browser), "what is looked at by a selector");
    }
    bench.ready(queue, 10);
    equal(List.of(numbers(10)), takeTexts(session.createConsumer(queue), 10), "messages");
  }

  private static List<String> browse(QueueBrowser browser) throws Exception {
    List<String> texts = new ArrayList<>();
    for (Enumeration<?> left = browser.getEnumeration(); left.hasMoreElements();) {
      texts.add(text((Message) left.nextElement()));
    }
    return texts;
  }

  private static void priority(Bench bench) throws Exception {
    Session session = bench.session();
    RMQDestination queue =
        new RMQDestination(bench.name("q"), true, false, Map.of("x-max-priority", 9));
    List<Message> sent = new ArrayList<>();
    try (MessageProducer producer = session.createProducer(queue)) {
      for (int priority : new int[] {4, 0, 9, 4, 1}) {
        Message message = session.createTextMessage("p" + priority);
        producer.send(message, DeliveryMode.PERSISTENT, priority, 0);
        sent.add(message);
      }
    }
    bench.ready(queue, 5);
    List<Message> taken = Bench.take(session.createConsumer(queue), 5);
    equal(List.of("p9", "p4", "p4", "p1", "p0"), Bench.texts(taken), "messages");
    equal(sent.get(2).getJMSMessageID(), taken.get(0).getJMSMessageID(), "message id");
    equal(9, taken.get(0).getJMSPriority(), "priority");
  }

  private static void timeToLive(Bench bench) throws Exception {
    Session session = bench.session();
    Queue queue = bench.queue(session);
    try (MessageProducer producer = session.createProducer(queue)) {
      producer.setTimeToLive(50);
      producer.send(session.createTextMessage("short"));
      producer.setTimeToLive(WAIT_MILLIS);
      producer.send(session.createTextMessage("long"));
    }
    bench.ready(queue, 1);
    Message message = Bench.take(session.createConsumer(queue), 1).get(0);
    equal("long", text(message), "what is left");
    that(message.getJMSExpiration() > message.getJMSTimestamp(), "it is to expire");
  }

  private static void deliveryDelay(Bench bench) throws Exception {
    bench.needsExchangeType("x-delayed-message", Map.of("x-delayed-type", "headers"));
    Session session = bench.session();
    Queue queue = bench.queue(session);
    try (MessageProducer producer = session.createProducer(queue)) {
      for (int delay : new int[] {600, 300, 0}) {
        producer.setDeliveryDelay(delay);
        producer.send(session.createTextMessage("d" + delay));
      }
    }
    List<Message> taken = Bench.take(session.createConsumer(queue), 3);
    equal(List.of("d0", "d300", "d600"), Bench.texts(taken), "messages");
    long late = System.currentTimeMillis() - taken.get(2).getJMSDeliveryTime();
    that(late >= 0, "it came " + -late + " ms too early");
  }

  /** Nothing is given out while the connection is stopped, and all afterwards. */
  private static void stoppedConnection(Bench bench) throws Exception {
    jakarta.jms.Connection connection = bench.connection();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    Queue queue = bench.queue(session);
    BlockingQueue<Message> inbox = new LinkedBlockingQueue<>();
    session.createConsumer(queue).setMessageListener(inbox::add);
    connection.stop();
    send(bench.session(), queue, numbers(10));
    bench.ready(queue, 10);
    equal(0, inbox.size(), "messages of a stopped connection");
    connection.start();
    for (String expected : numbers(10)) {
      equal(expected, text(inbox.poll(WAIT_MILLIS, TimeUnit.MILLISECONDS)), "a message");
    }
  }
}
