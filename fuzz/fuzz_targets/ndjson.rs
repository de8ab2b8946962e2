#![no_main]

#[path = "../checks/ndjson.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::line(input));
