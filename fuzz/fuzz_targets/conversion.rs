#![no_main]

#[path = "../checks/conversion.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::stored(input);
    checks::received(input);
});
