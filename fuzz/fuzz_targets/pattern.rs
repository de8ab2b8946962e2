#![no_main]

#[path = "../checks/pattern.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::pattern(input));
