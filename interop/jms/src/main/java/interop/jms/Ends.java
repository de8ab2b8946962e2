package interop.jms;

import static interop.harness.Expect.equal;
import static interop.harness.Expect.that;
import static interop.jms.Bench.WAIT_MILLIS;
import static interop.jms.Bench.body;
import static interop.jms.Bench.send;
import static interop.jms.Bench.takeTexts;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import interop.harness.Skip;
import interop.harness.Suite;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Connections that are refused or ended, and what the end of a node leaves. */
final class Ends {
  private Ends() {}

  static void register(Suite suite) {
    suite.add("connection", body(Ends::connection));
    suite.add("connection-refused", body(Ends::refused));
    suite.add("connection-closed-by-operator", body(Ends::closedByOperator));
    suite.add("restart-durable", 60, body(Ends::restart));
  }

  private static void connection(Bench bench) throws Exception {
    Connection connection = bench.connection();
    that(connection.getMetaData().getJMSProviderName() != null, "no name of the provider");
    for (int i = 0; i < 20; i++) {
      connection.createSession(i % 2 == 0, Session.AUTO_ACKNOWLEDGE);
    }
    connection.close();
    connection.close();
  }

  private static void refused(Bench bench) throws Exception {
    try {
      bench.factory().createConnection(bench.node.user(), "wrong").close();
      throw new AssertionError("a wrong password is taken");
    } catch (JMSSecurityException refused) {
      // As it should.
    }
    RMQConnectionFactory factory = bench.factory();
    factory.setVirtualHost(bench.name("nowhere"));
    try {
      factory.createConnection().close();
      throw new AssertionError("a virtual host that is not there is taken");
    } catch (JMSException refused) {
      // As it should.
    }
  }

  private static void closedByOperator(Bench bench) throws Exception {
    String vhost = bench.name("vhost");
    bench.node.ctl("await_startup");
    bench.node.ctl("add_vhost", vhost);
    bench.node.ctl("set_permissions", "-p", vhost, bench.node.user(), ".*", ".*", ".*");
    RMQConnectionFactory factory = bench.factory();
    factory.setVirtualHost(vhost);
    Connection connection = bench.connection(factory);
    BlockingQueue<JMSException> told = new LinkedBlockingQueue<>();
    connection.setExceptionListener(told::add);
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    session.createConsumer(session.createQueue("q")).setMessageListener(message -> {});
    bench.node.ctl("close_all_connections", "-p", vhost, "enough");
    JMSException end = told.poll(WAIT_MILLIS, TimeUnit.MILLISECONDS);
    that(end != null, "the listener is not told");
    that(String.valueOf(end.getCause()).contains("CONNECTION_FORCED"), "told: " + end.getCause());
    bench.node.ctl("delete_vhost", vhost);
  }

  /** Persistent messages and durable subscriptions outlive the node. */
  private static void restart(Bench bench) throws Exception {
    if (!bench.node.restartable()) {
      throw new Skip("restarts need a node of our own");
    }
    String subscription = bench.name("subscription");
    Connection connection = bench.connection();
    Session tx = connection.createSession(true, Session.SESSION_TRANSACTED);
    Queue queue = bench.queue(tx);
    Topic topic = tx.createTopic(bench.name("t"));
    tx.createDurableSubscriber(topic, subscription).close();
    try (MessageProducer producer = tx.createProducer(queue)) {
      producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
      producer.send(tx.createTextMessage("gone"));
    }
    send(tx, queue, "stays");
    send(tx, topic, "stays too");
    tx.commit();
    send(tx, queue, "not committed");
    bench.node.kill9();
    bench.node.start();
    Session session = bench.session();
    equal(List.of("stays"), takeTexts(session.createConsumer(queue), 1), "messages");
    bench.ready(queue, 0);
    equal(List.of("stays too"),
        takeTexts(session.createDurableSubscriber(topic, subscription), 1), "of the topic");
  }
}
