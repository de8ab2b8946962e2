#![no_main]

#[path = "../checks/front_amqp10.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::conversation(input));
