package interop.spring;

import org.springframework.amqp.rabbit.config.ContainerCustomizer;
import org.springframework.amqp.rabbit.config.DirectRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.boot.amqp.autoconfigure.DirectRabbitListenerContainerFactoryConfigurer;
import org.springframework.boot.amqp.autoconfigure.SimpleRabbitListenerContainerFactoryConfigurer;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** The application: everything that Spring Boot makes of its properties, and quicker recovery. */
@SpringBootApplication(proxyBeanMethods = false)
class Application {
  private static final long RECOVERY_MILLIS = 50;

  @Bean
  ContainerCustomizer<SimpleMessageListenerContainer> simpleRecovery() {
    return container -> container.setRecoveryInterval(RECOVERY_MILLIS);
  }

  @Bean
  ContainerCustomizer<DirectMessageListenerContainer> directRecovery() {
    return container -> container.setRecoveryInterval(RECOVERY_MILLIS);
  }

  /** Boot has a factory of one kind; this one is beside it. */
  @Bean
  DirectRabbitListenerContainerFactory directFactory(
      DirectRabbitListenerContainerFactoryConfigurer boot, ConnectionFactory connections) {
    DirectRabbitListenerContainerFactory factory = new DirectRabbitListenerContainerFactory();
    boot.configure(factory, connections);
    factory.setRecoveryInterval(RECOVERY_MILLIS);
    return factory;
  }

  /** A factory as Boot makes it, for a listener that needs something of its own. */
  static SimpleRabbitListenerContainerFactory simpleFactory(
      SimpleRabbitListenerContainerFactoryConfigurer boot, ConnectionFactory connections) {
    SimpleRabbitListenerContainerFactory factory = new SimpleRabbitListenerContainerFactory();
    boot.configure(factory, connections);
    factory.setRecoveryInterval(RECOVERY_MILLIS);
    return factory;
  }
}
