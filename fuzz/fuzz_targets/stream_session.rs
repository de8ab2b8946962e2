#![no_main]

#[path = "../checks/stream_session.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::session(input));
