//! A run as one page of HTML.

use crate::result::Run;

/// The page: one file that needs no network.
pub fn html(run: &Run) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>leveret bench {}</title>",
        run.started_at
    )
}
