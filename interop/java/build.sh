# Sourced by the Java suites: builds the one in the current folder and writes its class path to target/classpath.

build_java() { # suite
  for tool in java mvn; do
    command -v "$tool" >/dev/null || { echo "interop/$1: $tool is missing, suite left out" >&2; exit 77; }
  done
  # Maven takes seconds to find that there is nothing to do.
  [ ! -e target/classpath ] || [ -n "$(find pom.xml src ../java/harness ../java/examples -newer target/classpath -print -quit)" ] ||
    return 0
  # One build at a time, since Maven's repository has one writer. Maven resets the terminal's colours even where there
  # are none.
  flock "${TMPDIR:-/tmp}/leveret-interop-maven.lock" \
    mvn -q -B compile dependency:build-classpath -Dmdep.outputFile=target/classpath 2>&1 | sed 's/\x1b\[0m//g' >&2
  touch target/classpath
}
