package interop.harness;

/** Thrown by a scenario that cannot run against this broker; the message is the reason. */
public final class Skip extends RuntimeException {
  public Skip(String reason) {
    super(reason);
  }
}
