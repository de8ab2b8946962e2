package interop.harness;

import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The scenarios of interop/TLS.md, which run when interop/tls/run has made certificates. */
public final class Tls {
  /** Connects, publishes a body and takes it back; fails when it is not let in. */
  public interface Steps {
    void run(Node node, String id, Case connect) throws Exception;
  }

  /** How the client connects. */
  public record Case(String version, String certificate, String authority) {
    public boolean external() {
      return certificate != null;
    }

    /** As Java's clients take it. */
    public SSLContext context() throws Exception {
      KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
      trusted.load(null, null);
      try (InputStream pem = Files.newInputStream(file(authority + "_certificate.pem"))) {
        trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
      }
      TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      trust.init(trusted);
      SSLContext context = SSLContext.getInstance(version);
      context.init(keys(), trust.getTrustManagers(), null);
      return context;
    }

    private KeyManager[] keys() throws Exception {
      if (certificate == null) {
        return null;
      }
      KeyStore own = KeyStore.getInstance("PKCS12");
      try (InputStream file = new FileInputStream(file(certificate + ".p12").toFile())) {
        own.load(file, PASSWORD.toCharArray());
      }
      KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
      keys.init(own, PASSWORD.toCharArray());
      return keys.getKeyManagers();
    }
  }

  public static final byte[] BODY = "hare".repeat(25_000).getBytes(java.nio.charset.StandardCharsets.UTF_8);
  private static final String PASSWORD = "interop";

  private Tls() {}

  /** Whether these scenarios are to run, and no others. */
  public static boolean wanted() {
    return System.getenv("INTEROP_TLS") != null;
  }

  /** The port of a variable. */
  public static int port(String variable) {
    return Integer.parseInt(System.getenv(variable));
  }

  private static Path file(String name) {
    return Path.of(System.getenv("INTEROP_TLS"), name);
  }

  /** All of them. */
  public static Suite suite(String name, Steps steps) {
    Suite suite = new Suite(name);
    add(suite, "tls-1.2", steps, new Case("TLSv1.2", null, "ca"), false);
    add(suite, "tls-1.3", steps, new Case("TLSv1.3", null, "ca"), false);
    add(suite, "tls-external-1.2", steps, new Case("TLSv1.2", "client", "ca"), false);
    add(suite, "tls-external-1.3", steps, new Case("TLSv1.3", "client", "ca"), false);
    add(suite, "tls-expired", steps, new Case("TLSv1.3", "expired", "ca"), true);
    add(suite, "tls-revoked", steps, new Case("TLSv1.2", "revoked", "ca"), true);
    add(suite, "tls-foreign", steps, new Case("TLSv1.2", "foreign", "ca"), true);
    add(suite, "tls-unknown-ca", steps, new Case("TLSv1.3", null, "foreign_ca"), true);
    return suite;
  }

  private static void add(Suite suite, String id, Steps steps, Case connect, boolean isRefused) {
    suite.add(id, (node, name) -> {
      try {
        steps.run(node, name, connect);
      } catch (AssertionError wrong) {
        throw wrong;
      } catch (Exception error) {
        if (!isRefused) {
          throw error;
        }
        return;
      }
      Expect.that(!isRefused, "it is let in");
    });
  }
}
