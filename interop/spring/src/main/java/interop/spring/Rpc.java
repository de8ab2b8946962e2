package interop.spring;

import interop.harness.Expect;
import interop.harness.Suite;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.core.AmqpMessageReturnedException;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.AsyncRabbitTemplate;
import org.springframework.amqp.rabbit.RabbitConverterFuture;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.support.AmqpHeaders;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.stereotype.Component;

/** Requests answered by a listener's return value. */
final class Rpc {
  private static final int CALLS = 100;
  private static final String DIRECT = "amq.rabbitmq.reply-to.";

  private Rpc() {}

  static void register(Suite suite) {
    suite.add("rpc-direct-reply-to", Lab.body(Rpc::direct));
    suite.add("rpc-consumer-per-call", Lab.body(Rpc::consumerPerCall));
    suite.add("rpc-temporary-queues", Lab.body(Rpc::temporaryQueues));
    suite.add("rpc-async", Lab.body(Rpc::async));
    suite.add("rpc-unroutable", Lab.body(Rpc::unroutable));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Queue questions(@Value("${interop.prefix}") String prefix) {
      return new Queue(prefix + ".questions");
    }
  }

  @Component
  static class Handlers {
    final Received<String> replyAddresses = new Received<>();

    @RabbitListener(queues = "${interop.prefix}.questions", concurrency = "2")
    String answer(String question, @Header(AmqpHeaders.REPLY_TO) String replyTo) {
      replyAddresses.add(replyTo);
      return "answer to " + question;
    }
  }

  /** One consumer of the pseudo-queue serves all calls, by correlation id. */
  private static void direct(Lab lab) throws Exception {
    Lab.numbers(CALLS).parallelStream().forEach(question -> ask(lab, lab.template(), question));
    Set<String> addresses = addresses(lab, CALLS);
    Expect.that(addresses.stream().allMatch(address -> address.startsWith(DIRECT)), "addresses: " + addresses);
  }

  private static void consumerPerCall(Lab lab) throws Exception {
    RabbitTemplate template = template(lab);
    template.setUseDirectReplyToContainer(false);
    Lab.numbers(10).forEach(question -> ask(lab, template, question));
    Set<String> addresses = addresses(lab, 10);
    Expect.that(addresses.stream().allMatch(address -> address.startsWith(DIRECT)), "addresses: " + addresses);
  }

  private static void temporaryQueues(Lab lab) throws Exception {
    RabbitTemplate template = template(lab);
    template.setUseTemporaryReplyQueues(true);
    Lab.numbers(10).forEach(question -> ask(lab, template, question));
    Set<String> addresses = addresses(lab, 10);
    Expect.that(addresses.stream().allMatch(address -> address.contains("amq.gen-")), "addresses: " + addresses);
  }

  private static void async(Lab lab) throws Exception {
    AsyncRabbitTemplate template = new AsyncRabbitTemplate(template(lab));
    template.start();
    try {
      List<RabbitConverterFuture<String>> answers = Lab.numbers(CALLS).stream()
          .map(question -> template.<String>convertSendAndReceive("", lab.name("questions"), question)).toList();
      for (int i = 0; i < CALLS; i++) {
        Expect.equal("answer to " + i, answers.get(i).get(Expect.WAIT_SECONDS, TimeUnit.SECONDS), "answer");
      }
    } finally {
      template.stop();
    }
    addresses(lab, CALLS);
  }

  private static void unroutable(Lab lab) {
    try {
      lab.template().convertSendAndReceive("", lab.name("nobody"), "anybody there?");
    } catch (AmqpMessageReturnedException returned) {
      Expect.equal(312, returned.getReplyCode(), "reply code");
      return;
    }
    throw new AssertionError("the request was not returned");
  }

  private static RabbitTemplate template(Lab lab) {
    RabbitTemplate template = new RabbitTemplate(lab.bean(ConnectionFactory.class));
    template.setReplyTimeout(Expect.WAIT_SECONDS * 1000);
    return template;
  }

  private static void ask(Lab lab, RabbitTemplate template, String question) {
    Object answer = template.convertSendAndReceive("", lab.name("questions"), question);
    Expect.equal("answer to " + question, answer, "answer");
  }

  private static Set<String> addresses(Lab lab, int calls) throws InterruptedException {
    return new HashSet<>(lab.bean(Handlers.class).replyAddresses.take(calls));
  }
}
