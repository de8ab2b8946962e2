package interop.spring;

import interop.harness.Expect;
import interop.harness.Node;
import interop.harness.Skip;
import interop.harness.Suite;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.core.AnonymousQueue;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.FanoutExchange;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.amqp.autoconfigure.SimpleRabbitListenerContainerFactoryConfigurer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.stereotype.Component;

/** Queues, the node and containers that go away while work is under way. */
final class Recovery {
  private static final int MESSAGES = 1_000;
  private static final long RETRY_NANOS = TimeUnit.MILLISECONDS.toNanos(20);
  private static final long RESTART_SECONDS = 60;

  private Recovery() {}

  static void register(Suite suite) {
    suite.add("recovery-queue-deleted", Lab.body(Recovery::queueDeleted));
    suite.add("recovery-node-killed", RESTART_SECONDS, Lab.body(Recovery::nodeKilled));
    suite.add("container-stops-gracefully", Lab.body(Recovery::graceful));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Declarables lasting(@Value("${interop.prefix}") String prefix, AnonymousQueue passing) {
      FanoutExchange everyone = new FanoutExchange(prefix + ".everyone");
      return new Declarables(new Queue(prefix + ".volatile"), new Queue(prefix + ".lasting"),
          new Queue(prefix + ".lengthy"), everyone, BindingBuilder.bind(passing).to(everyone));
    }

    /** Exclusive: it goes with its connection, and the admin declares it for the next one. */
    @Bean
    AnonymousQueue passing() {
      return new AnonymousQueue();
    }

    @Bean
    SimpleRabbitListenerContainerFactory patient(
        SimpleRabbitListenerContainerFactoryConfigurer boot, ConnectionFactory connections) {
      SimpleRabbitListenerContainerFactory factory = Application.simpleFactory(boot, connections);
      factory.setMissingQueuesFatal(false);
      factory.setFailedDeclarationRetryInterval(50L);
      return factory;
    }
  }

  @Component
  static class Handlers {
    final Received<String> changeable = new Received<>();
    final Set<String> lasting = ConcurrentHashMap.newKeySet();
    final Received<String> everyone = new Received<>();
    final Received<String> lengthy = new Received<>();
    final CountDownLatch began = new CountDownLatch(1);
    final CompletableFuture<Void> stopping = new CompletableFuture<>();

    @RabbitListener(queues = "${interop.prefix}.volatile", containerFactory = "patient")
    void changeable(String text) {
      changeable.add(text);
    }

    @RabbitListener(queues = "${interop.prefix}.lasting")
    void lasting(String text) {
      lasting.add(text);
    }

    @RabbitListener(id = "everyone", queues = "#{passing.name}")
    void everyone(String text) {
      everyone.add(text);
    }

    @RabbitListener(id = "lengthy", queues = "${interop.prefix}.lengthy", containerFactory = "patient")
    void lengthy(String text) throws Exception {
      began.countDown();
      stopping.get(Expect.WAIT_SECONDS, TimeUnit.SECONDS);
      lengthy.add(text);
    }
  }

  /** The node cancels the consumer; the container consumes again once the queue is back. */
  private static void queueDeleted(Lab lab) throws Exception {
    lab.awaitConsumers("volatile", 1);
    lab.admin().deleteQueue(lab.name("volatile"));
    lab.admin().declareQueue(new Queue(lab.name("volatile")));
    lab.awaitConsumers("volatile", 1);
    lab.sendNumbers("volatile", 1);
    Expect.equal("0", lab.bean(Handlers.class).changeable.take(), "message");
  }

  private static void nodeKilled(Lab lab) throws Exception {
    Node node = lab.node();
    if (!node.restartable()) {
      throw new Skip("restarts need a node of our own");
    }
    Handlers handlers = lab.bean(Handlers.class);
    CountDownLatch half = new CountDownLatch(MESSAGES / 2);
    CompletableFuture<Void> publisher = CompletableFuture.runAsync(() -> publishAll(lab, half));
    Expect.that(half.await(RESTART_SECONDS, TimeUnit.SECONDS), "half is never published");
    node.kill9();
    node.start();
    publisher.get(RESTART_SECONDS, TimeUnit.SECONDS);
    Expect.eventually(new HashSet<>(Lab.numbers(MESSAGES)), "consumed", () -> handlers.lasting);
    Expect.eventually(true, "the exclusive queue is back", () -> reachesEveryone(lab));
  }

  private static boolean reachesEveryone(Lab lab) throws Exception {
    CorrelationData correlation = new CorrelationData("everyone");
    lab.template().convertAndSend(lab.name("everyone"), "", "hello", correlation);
    boolean routed = Publishing.confirm(correlation).ack() && correlation.getReturned() == null;
    if (routed) {
      Expect.equal("hello", lab.bean(Handlers.class).everyone.take(), "message to everyone");
    }
    return routed;
  }

  /** Publishes every number until it has been confirmed. */
  private static void publishAll(Lab lab, CountDownLatch progress) {
    for (String text : Lab.numbers(MESSAGES)) {
      while (!published(lab, text)) {
        LockSupport.parkNanos(RETRY_NANOS);
      }
      progress.countDown();
    }
  }

  private static boolean published(Lab lab, String text) {
    try {
      CorrelationData correlation = new CorrelationData(text);
      lab.template().convertAndSend("", lab.name("lasting"), text, correlation);
      return Publishing.confirm(correlation).ack();
    } catch (AmqpException disconnected) {
      return false;
    } catch (Exception unexpected) {
      throw new IllegalStateException(unexpected);
    }
  }

  /** What a listener has begun it ends; the rest stays in the queue. */
  private static void graceful(Lab lab) throws Exception {
    Handlers handlers = lab.bean(Handlers.class);
    SimpleMessageListenerContainer container = lab.container("lengthy", SimpleMessageListenerContainer.class);
    container.setForceStop(true);
    List<String> sent = lab.sendNumbers("lengthy", 3);
    Expect.that(handlers.began.await(Expect.WAIT_SECONDS, TimeUnit.SECONDS), "never begins");
    CountDownLatch stopped = new CountDownLatch(1);
    container.stop(stopped::countDown);
    Expect.eventually(false, "active", container::isActive);
    handlers.stopping.complete(null);
    Expect.that(stopped.await(Expect.WAIT_SECONDS, TimeUnit.SECONDS), "never stops");
    lab.awaitReady("lengthy", 2);
    Expect.equal(sent.get(0), handlers.lengthy.take(), "what was begun");
    handlers.lengthy.nothingMore();
    Expect.equal("1", new String(lab.receive("lengthy").getBody()), "next in the queue");
  }
}
