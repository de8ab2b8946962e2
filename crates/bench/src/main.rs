//! The two tools alone, without the broker around them: quick to build when only they change.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|word| word == "perf").is_some() {
        return perf::run(args);
    }
    // With or without its name in front.
    drop(args.next_if(|word| word == "bench"));
    bench::run(args)
}
