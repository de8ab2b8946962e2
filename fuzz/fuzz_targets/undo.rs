#![no_main]

#[path = "../checks/undo.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::file(input));
