//! What must hold for any expression and any text that it is asked of. Shared by the fuzz target and by an
//! ordinary test of the crate, which needs no fuzzer.

use pattern::{Limits, Pattern, PatternError};

/// The first line is an expression, what follows a text. An expression is refused with a reason in one line, or
/// matches within its steps, the same each time; quoted it finds itself.
pub(crate) fn pattern(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (written, text) = input.split_at(end);
    let Ok(written) = std::str::from_utf8(written) else { return };
    let limits = Limits::NAMES;
    let linear = Pattern::linear(written, &limits).map(|(pattern, _)| pattern);
    for compiled in [
        Pattern::perl(written, &limits),
        Pattern::perl_ignoring_case(written, &limits),
        Pattern::stored(written),
        linear,
    ] {
        match compiled {
            Ok(pattern) => {
                assert_eq!(pattern.as_str(), written);
                let found = pattern.find(text);
                assert_eq!(pattern.find(text), found);
                assert_eq!(pattern.matches(text), found == Ok(true));
                assert!(pattern.steps(text.len()) > 0 || text.is_empty());
            }
            Err(PatternError::Syntax(reason)) => {
                assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
            }
            Err(PatternError::TooLong(_)) => assert!(written.len() > limits.text_bytes_max),
            Err(PatternError::TooLarge | PatternError::TooDear) => {}
        }
    }
    // One character of a quoted text is up to four of an expression.
    if written.len() <= 256 {
        let quoted = Pattern::perl(&pattern::quote(written), &limits)
            .expect("a quoted text is an expression");
        assert_eq!(quoted.find(written.as_bytes()), Ok(true), "{written:?}");
    }
}
