package interop.spring;

import com.rabbitmq.client.Channel;
import interop.harness.Expect;
import interop.harness.Suite;
import java.io.IOException;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.annotation.Exchange;
import org.springframework.amqp.rabbit.annotation.QueueBinding;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.support.AmqpHeaders;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.amqp.autoconfigure.SimpleRabbitListenerContainerFactoryConfigurer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.stereotype.Component;

/** Annotated methods in both kinds of containers, and containers that grow and shrink. */
final class Listeners {
  private static final int MANY = 500;
  private static final int CONSUMERS_MAX = 4;
  private static final long QUICK_MILLIS = 20;
  private static final long WORK_MILLIS = 10;

  private Listeners() {}

  static void register(Suite suite) {
    suite.add("listener-simple", Lab.body(Listeners::simple));
    suite.add("listener-direct-manual-acks", Lab.body(Listeners::direct));
    suite.add("listener-declares-binding", Lab.body(Listeners::declaring));
    suite.add("listener-scales", Lab.body(Listeners::scales));
    suite.add("listener-stops-and-starts", Lab.body(Listeners::stopsAndStarts));
    suite.add("listener-exclusive", Lab.body(Listeners::exclusive));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Queue orders(@Value("${interop.prefix}") String prefix) {
      return new Queue(prefix + ".orders");
    }

    @Bean
    Queue invoices(@Value("${interop.prefix}") String prefix) {
      return new Queue(prefix + ".invoices");
    }

    @Bean
    Queue slow(@Value("${interop.prefix}") String prefix) {
      return new Queue(prefix + ".slow");
    }

    @Bean
    Queue alone(@Value("${interop.prefix}") String prefix) {
      return new Queue(prefix + ".alone");
    }

    @Bean
    SimpleRabbitListenerContainerFactory scaling(
        SimpleRabbitListenerContainerFactoryConfigurer boot, ConnectionFactory connections) {
      SimpleRabbitListenerContainerFactory factory = Application.simpleFactory(boot, connections);
      factory.setConcurrentConsumers(1);
      factory.setMaxConcurrentConsumers(CONSUMERS_MAX);
      factory.setPrefetchCount(1);
      factory.setConsecutiveActiveTrigger(1);
      factory.setConsecutiveIdleTrigger(1);
      factory.setStartConsumerMinInterval(QUICK_MILLIS);
      factory.setStopConsumerMinInterval(QUICK_MILLIS);
      factory.setReceiveTimeout(QUICK_MILLIS);
      return factory;
    }
  }

  @Component
  static class Handlers {
    final Received<String> orders = new Received<>();
    final Received<Message> invoices = new Received<>();
    final Received<String> notices = new Received<>();
    final Received<String> alone = new Received<>();
    final CountDownLatch hurry = new CountDownLatch(1);
    final Received<String> slow = new Received<>();

    @RabbitListener(id = "orders", queues = "${interop.prefix}.orders", concurrency = "2")
    void order(String text) {
      orders.add(text);
    }

    /** Rejects what comes the first time, so that everything is seen twice. */
    @RabbitListener(id = "invoices", queues = "${interop.prefix}.invoices",
        containerFactory = "directFactory", concurrency = "3", ackMode = "MANUAL")
    void invoice(Message message, Channel channel, @Header(AmqpHeaders.DELIVERY_TAG) long tag)
        throws IOException {
      invoices.add(message);
      if (message.getMessageProperties().isRedelivered()) {
        channel.basicAck(tag, false);
      } else {
        channel.basicNack(tag, false, true);
      }
    }

    @RabbitListener(bindings = @QueueBinding(
        value = @org.springframework.amqp.rabbit.annotation.Queue,
        exchange = @Exchange(name = "${interop.prefix}.notices", type = "topic", autoDelete = "true"),
        key = {"notice.*", "alert"}))
    void notice(String text) {
      notices.add(text);
    }

    @RabbitListener(id = "slow", queues = "${interop.prefix}.slow", containerFactory = "scaling")
    void slow(String text) throws InterruptedException {
      hurry.await(WORK_MILLIS, TimeUnit.MILLISECONDS);
      slow.add(text);
    }

    @RabbitListener(id = "alone", queues = "${interop.prefix}.alone", exclusive = true)
    void alone(String text) {
      alone.add(text);
    }
  }

  private static void simple(Lab lab) throws Exception {
    Handlers handlers = lab.bean(Handlers.class);
    lab.awaitConsumers("orders", 2);
    List<String> sent = lab.sendNumbers("orders", MANY);
    List<String> received = handlers.orders.take(MANY);
    Expect.equal(new HashSet<>(sent), new HashSet<>(received), "orders");
    handlers.orders.nothingMore();
  }

  private static void direct(Lab lab) throws Exception {
    lab.awaitConsumers("invoices", 3);
    int invoices = MANY / 5;
    lab.sendNumbers("invoices", invoices);
    List<Message> received = lab.bean(Handlers.class).invoices.take(2 * invoices);
    long repeated = received.stream().filter(m -> m.getMessageProperties().isRedelivered()).count();
    Expect.equal((long) invoices, repeated, "redelivered");
    DirectMessageListenerContainer container = lab.container("invoices", DirectMessageListenerContainer.class);
    container.setConsumersPerQueue(1);
    lab.awaitConsumers("invoices", 1);
    container.stop();
    lab.awaitConsumers("invoices", 0);
    Expect.equal(0L, lab.ready("invoices"), "invoices left");
  }

  private static void declaring(Lab lab) throws Exception {
    String exchange = lab.name("notices");
    lab.template().convertAndSend(exchange, "notice.a", "1");
    lab.template().convertAndSend(exchange, "alert", "2");
    Expect.equal(List.of("1", "2"), lab.bean(Handlers.class).notices.take(2), "notices");
  }

  /** Consumers are added while all are busy and go when they are idle. */
  private static void scales(Lab lab) throws Exception {
    Handlers handlers = lab.bean(Handlers.class);
    SimpleMessageListenerContainer container = lab.container("slow", SimpleMessageListenerContainer.class);
    lab.awaitConsumers("slow", 1);
    List<String> sent = lab.sendNumbers("slow", MANY);
    lab.awaitConsumers("slow", CONSUMERS_MAX);
    handlers.hurry.countDown();
    Expect.equal(new HashSet<>(sent), new HashSet<>(handlers.slow.take(MANY)), "messages");
    Expect.eventually(1, "active consumers", container::getActiveConsumerCount);
    lab.awaitConsumers("slow", 1);
    handlers.slow.nothingMore();
  }

  private static void stopsAndStarts(Lab lab) throws Exception {
    Handlers handlers = lab.bean(Handlers.class);
    SimpleMessageListenerContainer container = lab.container("orders", SimpleMessageListenerContainer.class);
    container.stop();
    lab.awaitConsumers("orders", 0);
    List<String> sent = lab.sendNumbers("orders", 20);
    lab.awaitReady("orders", 20);
    container.start();
    Expect.equal(new HashSet<>(sent), new HashSet<>(handlers.orders.take(20)), "orders");
    handlers.orders.nothingMore();
  }

  /** The second exclusive container gets 403 until the first has gone. */
  private static void exclusive(Lab lab) throws Exception {
    lab.awaitConsumers("alone", 1);
    Received<String> taken = new Received<>();
    SimpleMessageListenerContainer second = new SimpleMessageListenerContainer(lab.bean(ConnectionFactory.class));
    second.setQueueNames(lab.name("alone"));
    second.setExclusive(true);
    second.setRecoveryInterval(QUICK_MILLIS);
    Received<String> refusals = new Received<>();
    second.setExclusiveConsumerExceptionLogger((logger, message, cause) -> refusals.add(String.valueOf(cause)));
    second.setMessageListener(message -> taken.add(new String(message.getBody())));
    second.start();
    try {
      String text = "ACCESS_REFUSED - queue '" + lab.name("alone") + "' in vhost '/' in exclusive use";
      String refusal = refusals.take();
      Expect.that(refusal.contains(text), "refusal: " + refusal);
      lab.sendNumbers("alone", 1);
      Expect.equal("0", lab.bean(Handlers.class).alone.take(), "the first container's message");
      lab.container("alone", SimpleMessageListenerContainer.class).stop();
      lab.sendNumbers("alone", 1);
      Expect.equal("0", taken.take(), "the second container's message");
    } finally {
      second.destroy();
    }
  }
}
