//! What must hold for any line of NDJSON. Shared by the fuzz target and by an ordinary test of the crate, which needs
//! no fuzzer.

/// A line is refused with a reason, or is a message: written again it is one line, and the same message.
pub(crate) fn line(input: &[u8]) {
    let written = match http::rewritten(input) {
        Ok(written) => written,
        Err(reason) => return assert!(!reason.is_empty()),
    };
    assert_eq!(written.iter().position(|byte| *byte == b'\n'), Some(written.len() - 1));
    assert_eq!(http::rewritten(&written).as_ref(), Ok(&written));
}
