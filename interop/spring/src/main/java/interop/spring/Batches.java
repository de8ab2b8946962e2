package interop.spring;

import interop.harness.Expect;
import interop.harness.Suite;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.batch.SimpleBatchingStrategy;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.core.BatchingRabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.amqp.autoconfigure.SimpleRabbitListenerContainerFactoryConfigurer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.stereotype.Component;

/** Many messages in one call of a listener, and many in one message. */
final class Batches {
  private static final int BATCH = 10;
  private static final int MESSAGES = 95;

  private Batches() {}

  static void register(Suite suite) {
    suite.add("batch-listener", Lab.body(Batches::listener));
    suite.add("batch-template", Lab.body(Batches::template));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Declarables stock(@Value("${interop.prefix}") String prefix) {
      return new Declarables(new Queue(prefix + ".stock"), new Queue(prefix + ".pallets"));
    }

    @Bean
    SimpleRabbitListenerContainerFactory batching(
        SimpleRabbitListenerContainerFactoryConfigurer boot, ConnectionFactory connections) {
      SimpleRabbitListenerContainerFactory factory = Application.simpleFactory(boot, connections);
      factory.setBatchListener(true);
      factory.setConsumerBatchEnabled(true);
      factory.setBatchSize(BATCH);
      factory.setReceiveTimeout(500L);
      return factory;
    }
  }

  @Component
  static class Handlers {
    final Received<List<String>> batches = new Received<>();
    final Received<String> pallets = new Received<>();

    @RabbitListener(id = "stock", queues = "${interop.prefix}.stock", containerFactory = "batching",
        autoStartup = "false")
    void stock(List<String> batch) {
      batches.add(batch);
    }

    @RabbitListener(id = "pallets", queues = "${interop.prefix}.pallets", autoStartup = "false")
    void pallet(String text) {
      pallets.add(text);
    }
  }

  /** A batch is acknowledged as a whole. */
  private static void listener(Lab lab) throws Exception {
    List<String> sent = lab.sendNumbers("stock", MESSAGES);
    lab.awaitReady("stock", MESSAGES);
    SimpleMessageListenerContainer container = lab.container("stock", SimpleMessageListenerContainer.class);
    container.start();
    List<String> received = new ArrayList<>();
    int batches = 0;
    while (received.size() < MESSAGES) {
      List<String> batch = lab.bean(Handlers.class).batches.take();
      Expect.that(batch.size() <= BATCH, "a batch of " + batch.size());
      received.addAll(batch);
      batches++;
    }
    Expect.equal(sent, received, "all batches");
    Expect.that(batches < MESSAGES / 2, batches + " batches");
    container.stop();
    lab.awaitReady("stock", 0);
  }

  /** The template puts several messages into one, which the container takes apart. */
  private static void template(Lab lab) throws Exception {
    ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
    scheduler.initialize();
    try {
      BatchingRabbitTemplate template = new BatchingRabbitTemplate(lab.bean(ConnectionFactory.class),
          new SimpleBatchingStrategy(BATCH, 100_000, 600_000), scheduler);
      List<String> sent = Lab.numbers(3 * BATCH + 1);
      sent.forEach(text -> template.convertAndSend("", lab.name("pallets"), text));
      lab.awaitReady("pallets", 3);
      template.flush();
      lab.awaitReady("pallets", 4);
      lab.container("pallets", SimpleMessageListenerContainer.class).start();
      List<String> received = lab.bean(Handlers.class).pallets.take(sent.size());
      Expect.equal(new HashSet<>(sent), new HashSet<>(received), "taken apart");
    } finally {
      scheduler.shutdown();
    }
  }
}
