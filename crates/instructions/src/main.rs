//! Runs one small piece of the hot path, for `cargo xtask instructions` to count its instructions
//! under callgrind: counts hardly differ from run to run, so that a loss of a few per cent shows.
//! Knows the pure cores. Never sockets, files, clocks.
//! Start reading at [`measured`], then `codec`.

mod codec;
mod conversion;
mod front;
mod queue;
mod record;
mod routing;
mod streams;

use std::io::Write as _;
use std::process::ExitCode;

/// Operations in one measured run: enough that what begins and ends a run does not count.
const N_OPERATIONS: u64 = 500;

/// A piece of work: `N_OPERATIONS` operations. It is run once to get everything its size, and once
/// measured.
type Work = Box<dyn FnMut()>;

/// A named piece, and how it is made ready.
type Piece = (&'static str, fn() -> Work);

fn pieces() -> impl Iterator<Item = &'static Piece> {
    [
        codec::PIECES,
        conversion::PIECES,
        front::PIECES,
        queue::PIECES,
        record::PIECES,
        routing::PIECES,
        streams::PIECES,
    ]
    .into_iter()
    .flatten()
}

/// Callgrind counts what happens in here: the name is known to `cargo xtask instructions`.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "--list" {
        for (name, _) in pieces() {
            drop(writeln!(std::io::stdout(), "{name} {N_OPERATIONS}"));
        }
        return ExitCode::SUCCESS;
    }
    let Some((_, prepare)) = pieces().find(|(known, _)| *known == name) else {
        drop(writeln!(std::io::stderr(), "usage: instructions --list | NAME"));
        return ExitCode::from(2);
    };
    // The stack of a thread lies at the same place in its page whatever the environment is. The first
    // one does not, and copying to it takes more or fewer instructions with that place.
    let measured = std::thread::spawn(|| {
        let mut work = prepare();
        work();
        measured(&mut work);
    });
    if measured.join().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_piece_runs_again_and_again_under_its_own_name() {
        let mut names = BTreeSet::new();
        for (name, prepare) in pieces() {
            assert!(names.insert(*name), "{name} is there twice");
            let mut work = prepare();
            for _ in 0..3 {
                measured(&mut work);
            }
        }
    }
}
