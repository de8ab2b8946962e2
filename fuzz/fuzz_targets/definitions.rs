#![no_main]

#[path = "../checks/definitions.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::document(input));
