package interop.perftest;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What one run of PerfTest printed, and whether it was a good run. */
final class Report {
  private static final Pattern TROUBLE =
      Pattern.compile("Exception|\\bERROR\\b|\\bWARN\\b|\\bat [a-z]+\\.[a-z.]+\\(|recover|shutdown");
  /** Wide, because a short run has a burst at its start. */
  private static final double RATE_TOLERANCE = 0.5;

  private final int exitCode;
  private final List<String> output;
  private final boolean confirms;

  Report(int exitCode, List<String> output, boolean confirms) {
    this.exitCode = exitCode;
    this.output = output;
    this.confirms = confirms;
  }

  /** Fails unless the run ended well and messages (and confirms) flowed. */
  void check() {
    require(exitCode == 0, "exit code " + exitCode);
    // Consumers that are cut off at the end of the run may complain; that is the tool's own doing.
    output.stream()
        .takeWhile(line -> !line.startsWith("test stopped"))
        .filter(line -> TROUBLE.matcher(line).find())
        .forEach(line -> require(false, "it says: " + line));
    require(peak("received") > 0 && receivedPerSecond() > 0, "nothing received");
    require(peak("returned") == 0, "messages were returned");
    if (confirms) {
      require(peak("confirmed") > 0, "nothing confirmed");
      require(peak("nacked") == 0, "messages were nacked");
    }
  }

  /** Fails unless a rate is about the one asked for. */
  void near(String what, long actual, long wanted) {
    require(Math.abs(actual - wanted) <= wanted * RATE_TOLERANCE,
        what + " " + actual + "/s instead of about " + wanted + "/s");
  }

  long sentPerSecond() {
    return average("sending");
  }

  long receivedPerSecond() {
    return average("receiving");
  }

  /** The highest value of one of the per-second figures; 0 where it is not printed. */
  private long peak(String figure) {
    Pattern pattern = Pattern.compile("\\b" + figure + ": (\\d+) msg/s");
    return output.stream()
        .map(pattern::matcher)
        .filter(Matcher::find)
        .mapToLong(found -> Long.parseLong(found.group(1)))
        .max()
        .orElse(0);
  }

  private long average(String direction) {
    Pattern pattern = Pattern.compile("\\b" + direction + " rate avg: (\\d+) msg/s");
    return output.stream()
        .map(pattern::matcher)
        .filter(Matcher::find)
        .mapToLong(found -> Long.parseLong(found.group(1)))
        .findFirst()
        .orElse(0);
  }

  private void require(boolean holds, String otherwise) {
    if (!holds) {
      throw new AssertionError(otherwise);
    }
  }

  @Override
  public String toString() {
    return "sent " + sentPerSecond() + "/s, received " + receivedPerSecond() + "/s";
  }
}
