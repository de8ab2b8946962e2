package interop.spring;

import interop.harness.Expect;
import interop.harness.Suite;
import java.util.List;
import java.util.Map;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.DirectExchange;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.retry.RejectAndDontRequeueRecoverer;
import org.springframework.amqp.rabbit.retry.RepublishMessageRecoverer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.amqp.autoconfigure.SimpleRabbitListenerContainerFactoryConfigurer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.stereotype.Component;

/** Listeners that fail: tried again in memory, by redelivery, and by way of dead letters. */
final class Retries {
  private static final int RETRIES = 2;
  private static final int WAIT_MILLIS = 100;

  private Retries() {}

  static void register(Suite suite) {
    suite.add("retry-republish-recoverer", Lab.body(Retries::stateless));
    suite.add("retry-stateful-dead-letter", Lab.body(Retries::stateful));
    suite.add("retry-loop-with-ttl", Lab.body(Retries::loop));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Declarables failures(@Value("${interop.prefix}") String prefix) {
      DirectExchange dead = new DirectExchange(prefix + ".dead");
      Queue failed = new Queue(prefix + ".failed");
      Queue rejected = new Queue(prefix + ".rejected");
      Queue fragile = new Queue(prefix + ".fragile");
      Queue repeating = QueueBuilder.durable(prefix + ".repeating")
          .deadLetterExchange(dead.getName()).deadLetterRoutingKey("rejected").build();
      return new Declarables(dead, failed, rejected, fragile, repeating,
          BindingBuilder.bind(failed).to(dead).with("failed"),
          BindingBuilder.bind(rejected).to(dead).with("rejected"));
    }

    /** Rejected work waits in a queue whose messages expire back to where they came from. */
    @Bean
    Declarables retryLoop(@Value("${interop.prefix}") String prefix) {
      DirectExchange work = new DirectExchange(prefix + ".work");
      DirectExchange retry = new DirectExchange(prefix + ".retry");
      Queue jobs = QueueBuilder.durable(prefix + ".jobs").deadLetterExchange(retry.getName()).build();
      Queue waiting = QueueBuilder.durable(prefix + ".waiting").ttl(WAIT_MILLIS)
          .deadLetterExchange(work.getName()).build();
      return new Declarables(work, retry, jobs, waiting,
          BindingBuilder.bind(jobs).to(work).with("job"),
          BindingBuilder.bind(waiting).to(retry).with("job"));
    }

    @Bean
    SimpleRabbitListenerContainerFactory republishing(SimpleRabbitListenerContainerFactoryConfigurer boot,
        ConnectionFactory connections, RabbitTemplate template, @Value("${interop.prefix}") String prefix) {
      SimpleRabbitListenerContainerFactory factory = Application.simpleFactory(boot, connections);
      factory.setAdviceChain(RetryInterceptorBuilder.stateless().maxRetries(RETRIES).backOffOptions(1, 1, 1)
          .recoverer(new RepublishMessageRecoverer(template, prefix + ".dead", "failed").includeStackTrace(true))
          .build());
      return factory;
    }

    @Bean
    SimpleRabbitListenerContainerFactory redelivering(
        SimpleRabbitListenerContainerFactoryConfigurer boot, ConnectionFactory connections) {
      SimpleRabbitListenerContainerFactory factory = Application.simpleFactory(boot, connections);
      factory.setAdviceChain(RetryInterceptorBuilder.stateful().maxRetries(RETRIES).backOffOptions(1, 1, 1)
          .recoverer(new RejectAndDontRequeueRecoverer()).build());
      return factory;
    }
  }

  @Component
  static class Handlers {
    final Received<Message> fragile = new Received<>();
    final Received<Message> repeating = new Received<>();
    final Received<Message> jobs = new Received<>();

    @RabbitListener(queues = "${interop.prefix}.fragile", containerFactory = "republishing")
    void fragile(Message message) {
      fragile.add(message);
      throw new IllegalStateException("this one always fails");
    }

    @RabbitListener(queues = "${interop.prefix}.repeating", containerFactory = "redelivering")
    void repeating(Message message) {
      repeating.add(message);
      throw new IllegalStateException("this one too");
    }

    @RabbitListener(queues = "${interop.prefix}.jobs")
    void job(Message message) {
      jobs.add(message);
      if (deaths(message, "rejected") < RETRIES) {
        throw new AmqpRejectAndDontRequeueException("later, perhaps");
      }
    }
  }

  private static void stateless(Lab lab) throws Exception {
    lab.sendNumbers("fragile", 1);
    List<Message> tries = lab.bean(Handlers.class).fragile.take(RETRIES + 1);
    Expect.that(tries.stream().noneMatch(m -> m.getMessageProperties().isRedelivered()), "tried by redelivery");
    Message failed = lab.receive("failed");
    Expect.equal("0", new String(failed.getBody()), "body");
    Map<String, Object> headers = failed.getMessageProperties().getHeaders();
    Expect.equal("this one always fails", headers.get(RepublishMessageRecoverer.X_EXCEPTION_MESSAGE), "message");
    Expect.equal("", headers.get(RepublishMessageRecoverer.X_ORIGINAL_EXCHANGE), "exchange");
    Expect.equal(lab.name("fragile"), headers.get(RepublishMessageRecoverer.X_ORIGINAL_ROUTING_KEY), "key");
    String trace = String.valueOf(headers.get(RepublishMessageRecoverer.X_EXCEPTION_STACKTRACE));
    Expect.that(trace.contains("IllegalStateException"), "stack trace: " + trace);
    lab.bean(Handlers.class).fragile.nothingMore();
  }

  /** Every try is a delivery of its own; the last rejection makes a dead letter of the message. */
  private static void stateful(Lab lab) throws Exception {
    lab.template().convertAndSend("", lab.name("repeating"), "again", message -> {
      message.getMessageProperties().setMessageId("stateful");
      return message;
    });
    Message rejected = lab.receive("rejected");
    List<Message> tries = lab.bean(Handlers.class).repeating.take(RETRIES + 1);
    Expect.equal(List.of(false, true, true),
        tries.stream().map(m -> m.getMessageProperties().isRedelivered()).toList(), "redelivered");
    Expect.equal(1L, deaths(rejected, "rejected"), "count of the rejection");
    Map<String, ?> death = rejected.getMessageProperties().getXDeathHeader().get(0);
    Expect.equal(lab.name("repeating"), death.get("queue"), "queue it died in");
    Expect.equal(List.of(lab.name("repeating")), death.get("routing-keys"), "its keys");
    Expect.equal("rejected", rejected.getMessageProperties().getReceivedRoutingKey(), "dead letter's key");
    Map<String, Object> headers = rejected.getMessageProperties().getHeaders();
    Expect.equal("rejected", headers.get("x-first-death-reason"), "first death's reason");
    Expect.equal(lab.name("repeating"), headers.get("x-first-death-queue"), "first death's queue");
  }

  private static void loop(Lab lab) throws Exception {
    Received<Message> jobs = lab.bean(Handlers.class).jobs;
    lab.template().convertAndSend(lab.name("work"), "job", "flaky");
    for (long tried = 0; tried <= RETRIES; tried++) {
      Message job = jobs.take();
      Expect.equal(tried, deaths(job, "rejected"), "rejections before try " + tried);
      Expect.equal(tried, deaths(job, "expired"), "expiries before try " + tried);
      if (tried > 0) {
        List<?> newestFirst = job.getMessageProperties().getXDeathHeader().stream().map(d -> d.get("queue")).toList();
        Expect.equal(List.of(lab.name("waiting"), lab.name("jobs")), newestFirst, "queues of the deaths");
      }
    }
    lab.awaitReady("waiting", 0);
    lab.awaitReady("jobs", 0);
    jobs.nothingMore();
  }

  private static long deaths(Message message, String reason) {
    List<Map<String, ?>> deaths = message.getMessageProperties().getXDeathHeader();
    return deaths == null ? 0 : deaths.stream().filter(death -> reason.equals(death.get("reason")))
        .mapToLong(death -> (Long) death.get("count")).sum();
  }
}
