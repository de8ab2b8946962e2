//! The reason for which deny.toml passes over an advisory about `protobuf`: nothing parses its bytes.

use std::fs;
use std::path::Path;

/// Words of what reads values of the engine's types from bytes.
const PARSING: &[&str] =
    &["merge_from", "parse_from", "CodedInputStream", "protobuf", "protocompat"];

fn files(dir: &Path, take: &mut dyn FnMut(&str, &str)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, take);
        } else {
            take(path.to_str().unwrap(), &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn nothing_parses_bytes_with_the_engine() {
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut n_files = 0;
    files(&cluster.join("src"), &mut |name, text| {
        n_files += 1;
        let names_engine = text.contains("raft::") || text.contains("eraftpb");
        assert!(!names_engine || name.ends_with("/engine.rs"), "{name} names the engine");
        for word in PARSING {
            assert!(!text.contains(word), "{name} has {word}");
        }
        // The engine parses a change of members that a message proposes; those are made here alone.
        let is_translated =
            text.contains("=> MessageType::MsgPropose") || text.contains("set_data(");
        assert!(!is_translated, "{name} hands bytes to the engine");
    });
    assert!(n_files > 10, "{n_files}");
    for member in fs::read_dir(cluster.join("..")).unwrap() {
        let member = member.unwrap().path();
        let Ok(manifest) = fs::read_to_string(member.join("Cargo.toml")) else { continue };
        let uses = |name: &str| manifest.lines().any(|line| line.starts_with(name));
        let is_here = member.ends_with("cluster");
        assert!(!uses("protobuf") && (is_here || !uses("raft")), "{}", member.display());
    }
}
