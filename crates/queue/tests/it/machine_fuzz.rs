//! The checks of the fuzz targets on the committed corpus and on random input, without a fuzzer.

#[path = "../../../../fuzz/checks/machine.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

use inputs::{corpus, run};
use proptest::sample::select;

#[test]
fn commands() {
    run("machine_command", checks::command, select(corpus("machine_command")));
}

#[test]
fn written_forms() {
    run("machine_form", checks::form, select(corpus("machine_form")));
}
