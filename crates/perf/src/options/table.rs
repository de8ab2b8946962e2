//! Tables of options: the text of `--help`, with those of the originals that do something else here. Ours
//! stand last. `docs/load-tool.md` says how they differ from PerfTest 2.25, omq and stream-perf-test.
//!
//! ```text
//!  -x,--producers <n>      connections that publish    an option, with its value if it takes one
//! *-f,--flag <flag>        persistent, mandatory ...   ... of which there may be several
//! ?-e,--exchange <name>    exchange to publish to      ... which may be left out: as if there were no option
//! =-d,--durable <bool>     queues are durable          ... which may be left out: then it is true
//! !-E,--exclusive          queues are shared ...       an error, with the reason and what comes nearest
//! ~-nty,--netty                                        taken, and reported to have no effect
//! ```

/// Whether an option does something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// An option that does what the original's does.
    Yes,
    /// An option that tunes the original itself.
    NoEffect,
    /// The original has it; here it is an error, with the reason and what comes nearest.
    Refused,
}

/// One option.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Its line in `--help`.
    pub(crate) line: &'static str,
    /// Without the dash; may have several letters.
    pub(crate) short: Option<&'static str>,
    /// Without the dashes.
    pub(crate) long: &'static str,
    /// The value's name in `--help`, for options that take one.
    pub(crate) value: Option<&'static str>,
    pub(crate) help: &'static str,
    pub(crate) support: Support,
    pub(crate) values: Values,
}

/// The number of words behind an option that are its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// One.
    One,
    /// One, or none: then it is as if the option were not there.
    Optional,
    /// `true` or `false`, or none: then it is `true`.
    Switch,
    /// All up to the next option, as in `-f persistent mandatory`.
    Many,
}

/// The options of a table.
pub(crate) fn read(table: &'static str) -> Vec<Opt> {
    table.lines().map(row).collect()
}

fn row(line: &'static str) -> Opt {
    let (mark, line) = line.split_at_checked(1).unwrap_or_default();
    let (names, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (short, long) = match names.split_once(",--") {
        Some((short, long)) => (short.strip_prefix('-'), long),
        None => (None, names.trim_start_matches('-')),
    };
    let (value, help) = match rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((value, help)) => (Some(value), help),
        None => (None, rest),
    };
    Opt {
        line,
        short,
        long,
        value,
        help: help.trim_start(),
        support: match mark {
            "!" => Support::Refused,
            "~" => Support::NoEffect,
            _ => Support::Yes,
        },
        values: match mark {
            "*" => Values::Many,
            "?" => Values::Optional,
            "=" => Values::Switch,
            _ => Values::One,
        },
    }
}
