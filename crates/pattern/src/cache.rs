//! Expressions that were compiled lately, by their texts: a scrape that asks with the same one again and
//! again compiles it once.

use crate::Pattern;
use std::collections::VecDeque;
use std::sync::Mutex;

/// The most expressions that are kept.
const PATTERNS_MAX: usize = 32;
/// The most bytes of the programs and texts of expressions that are kept.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// The expressions, the latest first, and whether each ignores case.
static LATELY: Mutex<VecDeque<(bool, Pattern)>> = Mutex::new(VecDeque::new());

pub(crate) struct Cache;

impl Cache {
    pub(crate) fn get(text: &str, ignores_case: bool) -> Option<Pattern> {
        let mut lately = stdx::lock(&LATELY);
        let is_it =
            |(ignores, it): &(bool, Pattern)| *ignores == ignores_case && it.as_str() == text;
        let at = lately.iter().position(is_it)?;
        let found = lately.remove(at)?;
        let pattern = found.1.clone();
        lately.push_front(found);
        Some(pattern)
    }

    pub(crate) fn put(ignores_case: bool, pattern: &Pattern) {
        let bytes = |pattern: &Pattern| pattern.0.program_bytes + pattern.0.text.len();
        let mut lately = stdx::lock(&LATELY);
        lately.push_front((ignores_case, pattern.clone()));
        let mut n_bytes: usize = lately.iter().map(|(_, it)| bytes(it)).sum();
        while lately.len() > PATTERNS_MAX || n_bytes > BYTES_MAX {
            let Some((_, gone)) = lately.pop_back() else { break };
            n_bytes -= bytes(&gone);
        }
    }
}
