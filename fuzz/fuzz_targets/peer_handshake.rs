#![no_main]

#[path = "../checks/peer.rs"]
#[allow(dead_code, reason = "each target uses one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::handshake(input));
