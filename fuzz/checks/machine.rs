//! Whatever bytes are read as commands to a quorum queue or as its written form, this must hold. Shared by the
//! fuzz targets and by an ordinary test of the crate, which needs no fuzzer.

use queue::Machine;
use queue::machine::{Command, Effects};
use stdx::record::Reader;

/// A sequence of commands: each lies within the input, and is written as it was.
pub(crate) fn command(input: &[u8]) {
    let mut reader = Reader::new(input);
    loop {
        let before = reader.rest();
        let Ok((now_ms, command)) = Command::read(&mut reader) else { return };
        let read = before.len() - reader.rest().len();
        let mut written = Vec::new();
        command.write(now_ms, &mut written);
        assert_eq!(Some(&written[..]), before.get(..read));
    }
}

fn written(machine: &Machine) -> Vec<u8> {
    let mut form = Vec::new();
    machine.write(&mut form);
    form
}

/// A written form behind its length, then commands: what is taken for a machine is one, and behaves like
/// itself restored.
pub(crate) fn form(input: &[u8]) {
    let mut reader = Reader::new(input);
    let Some(mut machine) = reader.bytes().ok().and_then(|form| Machine::restore(form).ok()) else {
        return;
    };
    while let Ok((now_ms, command)) = Command::read(&mut reader) {
        let form = written(&machine);
        let mut restored = Machine::restore(&form).expect("it was written");
        assert_eq!(written(&restored), form);
        let (mut effects, mut again) = (Effects::default(), Effects::default());
        machine.apply(now_ms, &command, &mut effects);
        restored.apply(now_ms, &command, &mut again);
        assert_eq!(effects, again);
        assert_eq!(written(&machine), written(&restored));
    }
}
