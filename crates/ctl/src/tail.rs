//! `stream tail`: messages as lines of JSON, asked for page by page as they are printed.

use crate::failure::Failure;
use crate::fields::number;
use crate::run;
use crate::verb::Invocation;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Asks for a page of messages.
const ROUTE: &str = "GET /leveret/streams/{vhost}/{name}/messages";
/// Interval at which a command that follows asks a stream that has nothing new.
const POLL: Duration = Duration::from_millis(200);

/// Prints messages until the stream has no more, or as many as are wanted. Without `--follow` the last one is
/// the stream's last when the command began. A closed output ends the command.
pub(crate) fn tail(invocation: &Invocation, output: &mut dyn Write) -> Result<(), Failure> {
    let mut request = invocation.request()?;
    let mut left = invocation.number("count").map(i64::unsigned_abs);
    let mut end = None;
    while left != Some(0) {
        let page = run::ask(invocation, ROUTE, request.clone())?;
        let end = *end.get_or_insert_with(|| number(&page, "end"));
        let is_over = !invocation.flag("follow") && number(&page, "next") >= end;
        for field in ["id", "next"] {
            request.insert(field.to_owned(), number(&page, field).into());
        }
        let messages =
            page.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if !messages.iter().all(|message| writeln!(output, "{message}").is_ok()) || is_over {
            return Ok(());
        }
        if let Some(left) = &mut left {
            *left = left.saturating_sub(messages.len() as u64);
            request.insert("count".to_owned(), (*left).into());
        }
        if messages.is_empty() {
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}
