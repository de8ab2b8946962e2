#![no_main]

#[path = "../checks/http_connection.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::connection(input));
