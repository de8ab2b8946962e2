#![no_main]

#[path = "../checks/amqp10_management.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::amqp10_management(input));
