package interop.spring;

import interop.harness.Expect;
import interop.harness.Suite;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.amqp.autoconfigure.SimpleRabbitListenerContainerFactoryConfigurer;
import org.springframework.boot.amqp.autoconfigure.RabbitProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.stereotype.Component;
import org.springframework.transaction.support.TransactionTemplate;

/** Transacted channels, beside those that confirm: a channel does one or the other. */
final class Transactions {
  private Transactions() {}

  static void register(Suite suite) {
    suite.add("transaction-commit-and-rollback", Lab.body(Transactions::template));
    suite.add("transaction-of-listener", Lab.body(Transactions::listener));
  }

  @Configuration(proxyBeanMethods = false)
  static class Beans {
    @Bean
    Declarables accounts(@Value("${interop.prefix}") String prefix) {
      return new Declarables(new Queue(prefix + ".ledger"), new Queue(prefix + ".payments"));
    }

    @Bean(defaultCandidate = false)
    CachingConnectionFactory unconfirmed(RabbitProperties properties) {
      CachingConnectionFactory connections = new CachingConnectionFactory();
      connections.setAddresses(properties.determineAddresses());
      connections.setUsername(properties.determineUsername());
      connections.setPassword(properties.determinePassword());
      return connections;
    }

    @Bean(defaultCandidate = false)
    RabbitTemplate transacted(@Qualifier("unconfirmed") ConnectionFactory connections) {
      RabbitTemplate template = new RabbitTemplate(connections);
      template.setChannelTransacted(true);
      return template;
    }

    @Bean
    RabbitTransactionManager transactions(@Qualifier("unconfirmed") ConnectionFactory connections) {
      return new RabbitTransactionManager(connections);
    }

    @Bean
    SimpleRabbitListenerContainerFactory transacting(SimpleRabbitListenerContainerFactoryConfigurer boot,
        @Qualifier("unconfirmed") ConnectionFactory connections, RabbitTransactionManager manager) {
      SimpleRabbitListenerContainerFactory factory = Application.simpleFactory(boot, connections);
      factory.setChannelTransacted(true);
      factory.setTransactionManager(manager);
      return factory;
    }
  }

  @Component
  static class Handlers {
    final Received<Boolean> redelivered = new Received<>();
    private final RabbitTemplate template;
    private final String ledger;

    Handlers(@Qualifier("transacted") RabbitTemplate template, @Value("${interop.prefix}.ledger") String ledger) {
      this.template = template;
      this.ledger = ledger;
    }

    /** Writes to the ledger, then fails the first time. */
    @RabbitListener(queues = "${interop.prefix}.payments", containerFactory = "transacting")
    void pay(Message message) {
      boolean again = message.getMessageProperties().isRedelivered();
      template.convertAndSend("", ledger, again ? "second" : "first");
      redelivered.add(again);
      if (!again) {
        throw new IllegalStateException("after the ledger was written");
      }
    }
  }

  private static void template(Lab lab) throws Exception {
    RabbitTemplate transacted = lab.bean(Handlers.class).template;
    TransactionTemplate transaction = new TransactionTemplate(lab.bean(RabbitTransactionManager.class));
    transaction.executeWithoutResult(status -> {
      transacted.convertAndSend("", lab.name("ledger"), "rolled back");
      status.setRollbackOnly();
    });
    transaction.executeWithoutResult(status -> {
      transacted.convertAndSend("", lab.name("ledger"), "1");
      transacted.convertAndSend("", lab.name("ledger"), "2");
      Expect.equal(0L, lab.ready("ledger"), "ready before the commit");
    });
    lab.awaitReady("ledger", 2);
    transaction.executeWithoutResult(status -> {
      Expect.equal("1", transacted.receiveAndConvert(lab.name("ledger"), 1_000), "received and put back");
      status.setRollbackOnly();
    });
    lab.awaitReady("ledger", 2);
    Message again = lab.receive("ledger");
    Expect.equal("1", new String(again.getBody()), "first after the rollback");
    Expect.that(again.getMessageProperties().isRedelivered(), "not marked as redelivered");
    Expect.equal("2", new String(lab.receive("ledger").getBody()), "second");
  }

  /** What a failed listener has sent is rolled back together with its acknowledgement. */
  private static void listener(Lab lab) throws Exception {
    Received<Boolean> redelivered = lab.bean(Handlers.class).redelivered;
    lab.sendNumbers("payments", 1);
    Expect.equal(false, redelivered.take(), "redelivered");
    Expect.equal(true, redelivered.take(), "redelivered");
    Expect.equal("second", new String(lab.receive("ledger").getBody()), "ledger");
    Expect.equal(0L, lab.ready("ledger"), "also in the ledger");
    redelivered.nothingMore();
  }
}
