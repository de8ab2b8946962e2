#![no_main]

#[path = "../checks/amqp10.rs"]
#[allow(dead_code, reason = "each target uses one of the checks")]
mod checks;
#[path = "../checks/amqp10_oracle.rs"]
#[allow(dead_code, reason = "each target uses one of the checks")]
mod oracle;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checks::value(input);
    oracle::value(input);
});
