//! The tool alone, without the broker around it: quick to build when only the tool changes.

use std::process::ExitCode;

fn main() -> ExitCode {
    perf::run(std::env::args_os().skip(1))
}
