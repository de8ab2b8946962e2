#![no_main]

#[path = "../checks/address.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::address(input));
