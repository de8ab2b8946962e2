package interop.jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.eventually;
import static interop.harness.Expect.that;
import static interop.jms.Bench.WAIT_MILLIS;
import static interop.jms.Bench.body;
import static interop.jms.Bench.numbers;
import static interop.jms.Bench.send;
import static interop.jms.Bench.takeTexts;
import static interop.jms.Bench.text;

import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.Topic;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Topics, their subscriptions, and selectors. */
final class Topics {
  /** Conditions, and which of the messages "1", "2" and "3" they are true for. */
  private static final Map<String, List<String>> SELECTORS = selectors();

  private Topics() {}

  static void register(Suite suite) {
    suite.add("topic", body(Topics::topic));
    suite.add("topic-wildcards", body(Topics::wildcards));
    suite.add("topic-not-durable", body(Topics::notDurable));
    suite.add("topic-durable", body(Topics::durable));
    suite.add("topic-shared", body(bench -> shared(bench, false)));
    suite.add("topic-shared-durable", body(bench -> shared(bench, true)));
    suite.add("topic-temporary", body(Topics::temporary));
    suite.add("selector", body(Topics::selector));
    suite.add("selector-invalid", body(Topics::invalid));
    suite.add("selector-durable", body(Topics::durableSelector));
  }

  private static void topic(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("t"));
    MessageConsumer first = session.createConsumer(topic);
    MessageConsumer second = bench.session().createConsumer(topic);
    send(session, topic, numbers(20));
    equal(List.of(numbers(20)), takeTexts(first, 20), "messages of the first");
    equal(List.of(numbers(20)), takeTexts(second, 20), "messages of the second");
  }

  private static void wildcards(Bench bench) throws Exception {
    Session session = bench.session();
    String name = bench.name("t");
    MessageConsumer star = session.createConsumer(session.createTopic(name + ".*.b"));
    MessageConsumer hash = session.createConsumer(session.createTopic(name + ".#"));
    for (String key : List.of(".a.b", ".a.c", ".a.a.b")) {
      send(session, session.createTopic(name + key), key);
    }
    equal(List.of(".a.b", ".a.c", ".a.a.b"), takeTexts(hash, 3), "messages by #");
    equal(List.of(".a.b"), takeTexts(star, 1), "messages by *");
    equal(null, star.receiveNoWait(), "what else comes by *");
  }

  /** Who is not there gets nothing. */
  private static void notDurable(Bench bench) throws Exception {
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("t"));
    send(session, topic, "early");
    MessageConsumer consumer = session.createConsumer(topic);
    send(session, topic, "there");
    equal(List.of("there"), takeTexts(consumer, 1), "messages");
    consumer.close();
    send(session, topic, "between");
    MessageConsumer again = session.createConsumer(topic);
    send(session, topic, "late");
    equal(List.of("late"), takeTexts(again, 1), "messages of another");
  }

  private static void durable(Bench bench) throws Exception {
    String subscription = bench.name("subscription");
    Connection connection = bench.connection();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    Topic topic = session.createTopic(bench.name("t"));
    MessageConsumer consumer = session.createDurableSubscriber(topic, subscription);
    send(session, topic, "there");
    equal(List.of("there"), takeTexts(consumer, 1), "messages");
    connection.close();
    Session other = bench.session();
    send(other, topic, "away");
    MessageConsumer back = other.createDurableSubscriber(topic, subscription);
    equal(List.of("away"), takeTexts(back, 1), "messages after it was away");
    back.close();
    other.unsubscribe(subscription);
    that(!bench.exists(subscription), "the subscription is there still");
  }

  /** Two consumers of one subscription have each message once. */
  private static void shared(Bench bench, boolean durable) throws Exception {
    String name = bench.name("subscription");
    Connection connection = bench.connection();
    BlockingQueue<String> inbox = new LinkedBlockingQueue<>();
    Session publisher = bench.session();
    Topic topic = publisher.createTopic(bench.name("t"));
    for (int i = 0; i < 2; i++) {
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      MessageConsumer consumer = durable
          ? session.createSharedDurableConsumer(topic, name)
          : session.createSharedConsumer(topic, name);
      consumer.setMessageListener(message -> {
        try {
          inbox.add(text(message));
        } catch (jakarta.jms.JMSException wrong) {
          inbox.add(wrong.toString());
        }
      });
    }
    send(publisher, topic, numbers(100));
    Set<String> seen = new TreeSet<>();
    for (int i = 0; i < 100; i++) {
      seen.add(inbox.poll(WAIT_MILLIS, TimeUnit.MILLISECONDS));
    }
    equal(new TreeSet<>(List.of(numbers(100))), seen, "messages");
    equal(durable, bench.exists(name), "a queue of the subscription's name");
    connection.close();
    equal(durable, bench.exists(name), "the same, once the connection is closed");
  }

  private static void temporary(Bench bench) throws Exception {
    Session session = bench.session();
    TemporaryTopic topic = session.createTemporaryTopic();
    MessageConsumer first = session.createConsumer(topic);
    MessageConsumer second = session.createConsumer(topic);
    send(session, topic, "hare");
    equal(List.of("hare"), takeTexts(first, 1), "messages of the first");
    equal(List.of("hare"), takeTexts(second, 1), "messages of the second");
  }

  private static Map<String, List<String>> selectors() {
    Map<String, List<String>> selectors = new LinkedHashMap<>();
    selectors.put("colour = 'blue' AND weight BETWEEN 1 AND 10", List.of("1"));
    selectors.put("weight NOT BETWEEN 1 AND 10", List.of("2"));
    selectors.put("colour IN ('red', 'green')", List.of("2"));
    selectors.put("colour NOT IN ('red', 'green')", List.of("1"));
    selectors.put("colour IS NULL", List.of("3"));
    selectors.put("colour IS NOT NULL", List.of("1", "2"));
    selectors.put("colour LIKE 'r_d'", List.of("2"));
    selectors.put("name LIKE '100!%%' ESCAPE '!'", List.of("2"));
    selectors.put("NOT (weight > 10)", List.of("1"));
    selectors.put("colour <> 'blue'", List.of("2"));
    selectors.put("weight * 2 - 1 >= 29", List.of("2"));
    selectors.put("price / 2 < 1.5 AND price > -1e1", List.of("1"));
    selectors.put("heavy", List.of("2"));
    selectors.put("heavy = FALSE OR price < 3", List.of("1"));
    selectors.put("JMSPriority > 7", List.of("3"));
    selectors.put("JMSType = 'special'", List.of("3"));
    selectors.put("JMSCorrelationID = 'c'", List.of("3"));
    selectors.put("JMSDeliveryMode = 'NON_PERSISTENT'", List.of("3"));
    selectors.put("JMSMessageID LIKE 'ID:%' AND JMSTimestamp > 0", List.of("1", "2", "3"));
    return selectors;
  }

  private static void needsSelectors(Bench bench) throws Exception {
    bench.needsExchangeType("x-jms-topic", Map.of("rjms_version", "3.7.0"));
  }

  private static void selector(Bench bench) throws Exception {
    needsSelectors(bench);
    Connection connection = bench.connection();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    Topic topic = session.createTopic(bench.name("t"));
    Map<String, MessageConsumer> consumers = new LinkedHashMap<>();
    for (String condition : SELECTORS.keySet()) {
      consumers.put(condition, session.createConsumer(topic, condition));
    }
    MessageConsumer all = session.createConsumer(topic);
    sendThree(session, topic);
    equal(List.of("1", "2", "3"), takeTexts(all, 3), "messages without a condition");
    for (Map.Entry<String, List<String>> selector : SELECTORS.entrySet()) {
      MessageConsumer consumer = consumers.get(selector.getKey());
      int n = selector.getValue().size();
      equal(selector.getValue(), takeTexts(consumer, n), selector.getKey());
      equal(null, text(consumer.receiveNoWait()), "what else has " + selector.getKey());
    }
    connection.close();
    eventually(false, "exchanges with conditions",
        () -> bench.node.ctl("list_exchanges", "name", "type").contains("x-jms-topic"));
  }

  private static void sendThree(Session session, Topic topic) throws Exception {
    try (MessageProducer producer = session.createProducer(topic)) {
      Message first = session.createTextMessage("1");
      first.setStringProperty("colour", "blue");
      first.setIntProperty("weight", 5);
      first.setDoubleProperty("price", 2.5);
      producer.send(first);
      Message second = session.createTextMessage("2");
      second.setStringProperty("colour", "red");
      second.setStringProperty("name", "100% wool");
      second.setLongProperty("weight", 15);
      second.setBooleanProperty("heavy", true);
      producer.send(second);
      Message third = session.createTextMessage("3");
      third.setJMSType("special");
      third.setJMSCorrelationID("c");
      producer.send(third, DeliveryMode.NON_PERSISTENT, 8, 0);
    }
  }

  private static void invalid(Bench bench) throws Exception {
    needsSelectors(bench);
    Session session = bench.session();
    Topic topic = session.createTopic(bench.name("t"));
    try {
      session.createConsumer(topic, "colour =");
      throw new AssertionError("accepted");
    } catch (InvalidSelectorException refused) {
      // As it should.
    }
  }

  /** The condition stays with the subscription, until it is asked for with another. */
  private static void durableSelector(Bench bench) throws Exception {
    needsSelectors(bench);
    String subscription = bench.name("subscription");
    Connection connection = bench.connection();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    Topic topic = session.createTopic(bench.name("t"));
    session.createDurableSubscriber(topic, subscription, "colour = 'blue'", false).close();
    sendThree(session, topic);
    connection.close();
    Session back = bench.session();
    MessageConsumer consumer =
        back.createDurableSubscriber(topic, subscription, "colour = 'blue'", false);
    sendThree(back, topic);
    equal(List.of("1"), takeTexts(consumer, 1), "messages");
    consumer.close();
    MessageConsumer other =
        back.createDurableSubscriber(topic, subscription, "colour = 'red'", false);
    sendThree(back, topic);
    equal(List.of("2"), takeTexts(other, 1), "messages by another condition");
    equal(null, other.receiveNoWait(), "what else comes by it");
    other.close();
    back.unsubscribe(subscription);
    that(!bench.exists(subscription), "the subscription is there still");
  }
}
