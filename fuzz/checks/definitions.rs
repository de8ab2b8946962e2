//! What must hold for any document of definitions that is imported. Shared by the fuzz target and by an ordinary
//! test of the crate, which needs no fuzzer.

use meta::definitions::{ImportRules, Origin, export, import};
use meta::{Command, Name, SnapshotOf, State, VhostMetadata};
use stdx::Now;

const ORIGIN: Origin<'static> =
    Origin { rabbitmq_version: "4.3.6", product_version: "1", cluster_name: "c" };

fn commands(state: &State, document: &[u8], into: Option<&Name>) -> Result<Vec<Command>, String> {
    let rules = ImportRules { into, importer: Some("u"), ..ImportRules::default() };
    let planned = import(state, document, rules, &mut || [7; 4]);
    let steps = planned.map_err(|error| error.to_string())?.steps;
    Ok(steps.into_iter().map(|step| step.command).collect())
}

/// A document is refused with a reason, or can be done. Then what it asks for is read from the log as it was
/// written, its facts make the same of another state, what there is by then is read from a snapshot, and its
/// export asks for nothing more.
pub(crate) fn document(input: &[u8]) {
    let vhost = Name::from("/");
    let mut state = State::new();
    let metadata = VhostMetadata::default();
    let made =
        state.apply(Now::default(), &Command::CreateVhost { vhost: vhost.clone(), metadata });
    assert!(made.is_ok());
    let mut follower = state.clone();
    for into in [None, Some(&vhost)] {
        let commands = match commands(&state, input, into) {
            Ok(commands) => commands,
            Err(reason) => {
                assert!(!reason.is_empty());
                continue;
            }
        };
        for command in commands {
            let mut record = Vec::new();
            command.encode(&mut record);
            assert_eq!(Command::decode(&record).as_ref(), Ok(&command));
            let facts = state.apply(Now::default(), &command).expect("a checked command").facts;
            facts.iter().for_each(|fact| drop(follower.replay(&fact.command).expect("it fits")));
        }
        let snapshot = |state: &State| {
            let mut record = Vec::new();
            state.snapshot(SnapshotOf::Everything, &mut record);
            record
        };
        let stored = snapshot(&state);
        assert_eq!(snapshot(&follower), stored);
        let restored = State::restore(&stored).expect("a snapshot is read");
        assert_eq!(snapshot(&restored), stored);
        let exported = serde_json::to_vec(&export(&state, ORIGIN)).expect("an export is JSON");
        assert_eq!(self::commands(&state, &exported, None), Ok(Vec::new()));
    }
}
