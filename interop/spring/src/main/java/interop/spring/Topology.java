package interop.spring;

import interop.harness.Expect;
import interop.harness.Suite;
import org.springframework.amqp.AmqpIOException;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.ExchangeBuilder;
import org.springframework.amqp.core.FanoutExchange;
import org.springframework.amqp.core.HeadersExchange;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Exchanges, queues and bindings that are beans, declared by the admin when it connects. */
final class Topology {
  private Topology() {}

  static void register(Suite suite) {
    suite.add("declarables", Lab.body(Topology::declarables));
    suite.add("declarables-again", Lab.body(Topology::declaredAgain));
    suite.add("declarable-inequivalent", Lab.body(Topology::inequivalent));
    suite.add("queue-priorities", Lab.body(Topology::priorities));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Declarables shipping(@Value("${interop.prefix}") String prefix) {
      FanoutExchange unrouted = ExchangeBuilder.fanoutExchange(prefix + ".unrouted").build();
      TopicExchange shipping = ExchangeBuilder.topicExchange(prefix + ".shipping")
          .alternate(prefix + ".unrouted").build();
      HeadersExchange urgent = ExchangeBuilder.headersExchange(prefix + ".urgent").internal().build();
      Queue parcels = QueueBuilder.durable(prefix + ".parcels").ttl(600_000).expires(600_000)
          .maxLength(1_000).overflow(QueueBuilder.Overflow.rejectPublish).lazy().build();
      Queue express = new Queue(prefix + ".express", false, true, true);
      Queue lost = QueueBuilder.durable(prefix + ".lost").build();
      return new Declarables(unrouted, shipping, urgent, parcels, express, lost,
          BindingBuilder.bind(parcels).to(shipping).with("parcel.#"),
          BindingBuilder.bind(urgent).to(shipping).with("parcel.#"),
          BindingBuilder.bind(express).to(urgent).where("class").matches("express"),
          BindingBuilder.bind(lost).to(unrouted));
    }

    @Bean
    Queue ranked(@Value("${interop.prefix}") String prefix) {
      return QueueBuilder.durable(prefix + ".ranked").maxPriority(5).build();
    }
  }

  private static void declarables(Lab lab) {
    RabbitTemplate template = lab.template();
    String shipping = lab.name("shipping");
    template.convertAndSend(shipping, "parcel.small", "1");
    template.convertAndSend(shipping, "parcel", "2", message -> {
      message.getMessageProperties().setHeader("class", "express");
      return message;
    });
    template.convertAndSend(shipping, "letter", "3");
    Expect.equal("1", text(lab, "parcels"), "first parcel");
    Expect.equal("2", text(lab, "parcels"), "second parcel");
    Expect.equal("3", text(lab, "lost"), "what the alternate exchange got");
    Expect.equal("2", text(lab, "express"), "express parcel");
  }

  /** What was deleted by hand is back when the admin declares everything again. */
  private static void declaredAgain(Lab lab) {
    RabbitAdmin admin = lab.admin();
    Expect.that(admin.deleteQueue(lab.name("parcels")), "the queue is deleted");
    Expect.equal(null, admin.getQueueInfo(lab.name("parcels")), "queue after its deletion");
    Expect.that(admin.deleteExchange(lab.name("shipping")), "the exchange is deleted");
    admin.initialize();
    lab.template().convertAndSend(lab.name("shipping"), "parcel.again", "back");
    Expect.equal("back", text(lab, "parcels"), "parcel");
    Binding binding = BindingBuilder.bind(new Queue(lab.name("lost")))
        .to(new TopicExchange(lab.name("shipping"))).with("letter");
    admin.declareBinding(binding);
    lab.template().convertAndSend(lab.name("shipping"), "letter", "bound");
    admin.removeBinding(binding);
    Expect.equal("bound", text(lab, "lost"), "letter");
  }

  /** Spring reads the reply text to tell a mismatch from other failures. */
  private static void inequivalent(Lab lab) {
    Queue other = QueueBuilder.durable(lab.name("ranked")).maxPriority(6).build();
    try {
      lab.admin().declareQueue(other);
    } catch (AmqpIOException refused) {
      String text = "inequivalent arg 'x-max-priority' for queue '" + other.getName()
          + "' in vhost '/': received '6' but current is '5'";
      String given = String.valueOf(refused.getCause().getCause().getMessage());
      Expect.that(given.contains("PRECONDITION_FAILED - " + text), "reply text: " + given);
      return;
    }
    throw new AssertionError("the other queue was accepted");
  }

  private static void priorities(Lab lab) throws Exception {
    int[] priorities = {0, 9, 1, 5, 1};
    for (int priority : priorities) {
      lab.template().convertAndSend("", lab.name("ranked"), "p" + priority, message -> {
        message.getMessageProperties().setPriority(priority);
        return message;
      });
    }
    lab.awaitReady("ranked", priorities.length);
    for (String expected : new String[] {"p9", "p5", "p1", "p1", "p0"}) {
      Expect.equal(expected, text(lab, "ranked"), "next by priority");
    }
  }

  private static String text(Lab lab, String queue) {
    return new String(lab.receive(queue).getBody());
  }
}
