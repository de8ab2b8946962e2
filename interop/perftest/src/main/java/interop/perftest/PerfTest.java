package interop.perftest;

import interop.harness.Node;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** The tool itself, as a process of its own, the way people start it. */
final class PerfTest {
  private PerfTest() {}

  static Report run(Node node, int seconds, List<String> options) throws Exception {
    List<String> command = new ArrayList<>(List.of(
        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
        // Most of a short run would go into compiling it well.
        "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        "-cp", System.getProperty("java.class.path"), "com.rabbitmq.perf.PerfTest",
        "--uri", node.uri(), "--time", Integer.toString(seconds)));
    command.addAll(options);
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    try (BufferedReader lines = new BufferedReader(
        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      List<String> output = lines.lines().toList();
      boolean confirms = options.contains("-c");
      return new Report(process.waitFor(), output, confirms);
    } finally {
      process.destroyForcibly().waitFor(10, TimeUnit.SECONDS);
    }
  }
}
