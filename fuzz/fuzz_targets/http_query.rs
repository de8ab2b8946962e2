#![no_main]

#[path = "../checks/http_query.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::query(input));
