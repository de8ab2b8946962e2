#![no_main]

#[path = "../checks/link_filters.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::link_filters(input));
