#![no_main]

#[path = "../checks/filter.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::filter(input));
