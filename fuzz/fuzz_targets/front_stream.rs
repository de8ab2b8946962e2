#![no_main]

#[path = "../checks/front_stream.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::conversation(input));
