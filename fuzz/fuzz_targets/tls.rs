#![no_main]

#[path = "../checks/tls.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::session(input);
    checks::certificate(input);
});
