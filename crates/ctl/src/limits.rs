//! The verbs that set the limits of alarms: a share of memory, or a size with its unit.

use crate::failure::{Failure, Invalid};
use crate::output::Answer;
use crate::verb::Invocation;
use crate::{run, units};
use serde_json::{Map, Value};

/// The differences between the two verbs.
struct Kind {
    route: &'static str,
    /// The word before a value of the other kind.
    word: &'static str,
    /// Whether `word` is followed by a size; otherwise a size stands without it.
    word_means_size: bool,
    /// Largest share of memory.
    share_max: f64,
}

const MEMORY: Kind = Kind {
    route: "PUT /leveret/limits/memory",
    word: "absolute",
    word_means_size: true,
    share_max: 1.0,
};
const DISK: Kind = Kind {
    route: "PUT /leveret/limits/disk",
    word: "mem_relative",
    word_means_size: false,
    share_max: f64::INFINITY,
};

fn kind_of(invocation: &Invocation) -> Kind {
    if invocation.verb.name() == "set_disk_free_limit" { DISK } else { MEMORY }
}

/// Whether the parameters make sense.
pub(crate) fn check(invocation: &Invocation) -> Result<(), Invalid> {
    request(invocation, &kind_of(invocation)).map(drop)
}

/// Sets the limit on the node.
pub(crate) fn set(invocation: &Invocation) -> Result<Answer, Failure> {
    let kind = kind_of(invocation);
    let request = request(invocation, &kind).unwrap_or_default();
    run::ask(invocation, kind.route, request).map(|_| Answer::Done)
}

fn request(invocation: &Invocation, kind: &Kind) -> Result<Map<String, Value>, Invalid> {
    let (limit, value) = (invocation.param("limit"), invocation.param("value"));
    let (text, is_size) = match (limit == kind.word, value) {
        (true, "") => return Err(Invalid::TooFew),
        (true, value) => (value, kind.word_means_size),
        (false, "") => (limit, !kind.word_means_size),
        (false, _) => return Err(Invalid::TooMany),
    };
    if is_size {
        let bytes = units::bytes_of(text).ok_or_else(|| bad(text))?;
        return Ok(Map::from_iter([("bytes".to_owned(), bytes.into())]));
    }
    let share: f64 = text.parse().map_err(|_| bad(text))?;
    if !(0.0..=kind.share_max).contains(&share) || share.is_infinite() {
        let text = "The threshold should be a fraction between 0.0 and 1.0";
        return Err(Invalid::BadArgument(text.to_owned()));
    }
    Ok(Map::from_iter([("of_memory".to_owned(), share.into())]))
}

fn bad(text: &str) -> Invalid {
    Invalid::BadArgument(format!("'{text}' is neither a number nor a size such as 500MB"))
}
