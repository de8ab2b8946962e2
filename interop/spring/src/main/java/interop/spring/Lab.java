package interop.spring;

import interop.harness.Expect;
import interop.harness.Node;
import interop.harness.Suite;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.IntStream;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Exchange;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageListenerContainer;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueInformation;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.RabbitListenerEndpointRegistry;
import org.springframework.boot.Banner;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** The running application, started by the first scenario, and what scenarios ask of it. */
final class Lab {
  /** The steps of a scenario. */
  interface Steps {
    void run(Lab lab) throws Exception;
  }

  private static Lab running;

  private final Node node;
  private final String prefix;
  private final ConfigurableApplicationContext context;

  private Lab(Node node) {
    byte[] nonce = new byte[4];
    new SecureRandom().nextBytes(nonce);
    this.node = node;
    this.prefix = "interop.spring." + HexFormat.of().formatHex(nonce);
    this.context = new SpringApplicationBuilder(Application.class)
        .bannerMode(Banner.Mode.OFF)
        .web(WebApplicationType.NONE)
        .registerShutdownHook(false)
        .run("--spring.rabbitmq.addresses=" + node.uri(), "--interop.prefix=" + prefix);
  }

  static Suite.Body body(Steps steps) {
    return (node, id) -> {
      if (running == null) {
        running = new Lab(node);
      }
      steps.run(running);
    };
  }

  /** Deletes what was declared and ends the application, if a scenario has started one. */
  static void end() {
    if (running == null) {
      return;
    }
    RabbitAdmin admin = running.admin();
    running.bean(RabbitListenerEndpointRegistry.class).stop();
    running.context.getBeansOfType(Queue.class).values().forEach(queue -> admin.deleteQueue(queue.getName()));
    for (Declarables declared : running.context.getBeansOfType(Declarables.class).values()) {
      declared.getDeclarablesByType(Queue.class).forEach(queue -> admin.deleteQueue(queue.getName()));
      declared.getDeclarablesByType(Exchange.class).forEach(exchange -> admin.deleteExchange(exchange.getName()));
    }
    running.context.close();
  }

  Node node() {
    return node;
  }

  <T> T bean(Class<T> type) {
    return context.getBean(type);
  }

  /** The template Boot makes: correlated confirms, returns, everything mandatory. */
  RabbitTemplate template() {
    return bean(RabbitTemplate.class);
  }

  RabbitAdmin admin() {
    return bean(RabbitAdmin.class);
  }

  /** The name the application has for a queue or exchange. */
  String name(String what) {
    return prefix + "." + what;
  }

  <C extends MessageListenerContainer> C container(String id, Class<C> type) {
    return type.cast(bean(RabbitListenerEndpointRegistry.class).getListenerContainer(id));
  }

  /** Sends "0", "1", ... to a queue, on one channel to keep their order; returns what was sent. */
  List<String> sendNumbers(String queue, int n) {
    List<String> sent = numbers(n);
    template().invoke(channel -> {
      sent.forEach(text -> channel.convertAndSend("", name(queue), text));
      return null;
    });
    return sent;
  }

  static List<String> numbers(int n) {
    return IntStream.range(0, n).mapToObj(Integer::toString).toList();
  }

  /** The next message of a queue; fails when there is none in time. */
  Message receive(String queue) {
    Message message = template().receive(name(queue), Expect.WAIT_SECONDS * 1000);
    Expect.that(message != null, "nothing in " + queue);
    return message;
  }

  long ready(String queue) {
    return info(queue).getMessageCount();
  }

  void awaitReady(String queue, long expected) throws Exception {
    Expect.eventually(expected, "ready in " + queue, () -> ready(queue));
  }

  void awaitConsumers(String queue, int expected) throws Exception {
    Expect.eventually(expected, "consumers of " + queue, () -> info(queue).getConsumerCount());
  }

  private QueueInformation info(String queue) {
    QueueInformation info = admin().getQueueInfo(name(queue));
    Expect.that(info != null, "no queue " + queue);
    return info;
  }
}
