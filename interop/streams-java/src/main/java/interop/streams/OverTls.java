package interop.streams;

import static interop.harness.Expect.WAIT_SECONDS;
import static interop.harness.Expect.that;

import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.EnvironmentBuilder;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.sasl.DefaultSaslConfiguration;
import interop.harness.Node;
import interop.harness.Tls;
import io.netty.handler.ssl.ClientAuth;
import io.netty.handler.ssl.IdentityCipherSuiteFilter;
import io.netty.handler.ssl.JdkSslContext;
import java.util.Arrays;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The scenarios of interop/TLS.md. */
final class OverTls {
  private OverTls() {}

  static void run(Node node, String id, Tls.Case connect) throws Exception {
    String stream = "interop.streams-java." + id + "." + UUID.randomUUID();
    EnvironmentBuilder builder = Environment.builder()
        .host("localhost").port(Tls.port("INTEROP_TLS_STREAM_PORT"))
        .tls().sslContext(new JdkSslContext(connect.context(), true, null,
            IdentityCipherSuiteFilter.INSTANCE, null, ClientAuth.NONE, new String[] {connect.version()}, false))
        .environmentBuilder();
    if (connect.external()) {
      builder.saslConfiguration(DefaultSaslConfiguration.EXTERNAL);
    }
    BlockingQueue<byte[]> bodies = new LinkedBlockingQueue<>();
    try (Environment environment = builder.build()) {
      environment.streamCreator().stream(stream).create();
      try (Producer producer = environment.producerBuilder().stream(stream).build()) {
        producer.send(producer.messageBuilder().addData(Tls.BODY).build(),
            status -> that(status.isConfirmed(), "not confirmed"));
        // Closed before its stream goes. The client may close it while it handles the metadata update: one thread
        // awaits the answer of Unsubscribe under a lock that the thread which reads answers waits for, 10 s a try.
        try (Consumer consumer = environment.consumerBuilder().stream(stream).offset(OffsetSpecification.first())
            .messageHandler((context, message) -> bodies.add(message.getBodyAsBinary())).build()) {
          that(Arrays.equals(Tls.BODY, bodies.poll(WAIT_SECONDS, TimeUnit.SECONDS)), "another body");
        }
      }
      environment.deleteStream(stream);
    }
  }
}
