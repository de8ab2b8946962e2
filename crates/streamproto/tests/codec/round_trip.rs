//! Round trips: a frame that is decoded and encoded again is the same, and one that is cut short
//! or prolonged is noticed.

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use streamproto::{CommandId, Key, ToClient, ToServer, WireError};

use crate::grammar::{TO_CLIENT, TO_SERVER, frame};

type Commands = &'static [(u16, u16, &'static str)];
type Again = fn(&[u8]) -> Result<Vec<u8>, WireError>;

fn again_to_server(frame: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut out = b"before".to_vec();
    ToServer::decode(frame)?.encode_frame(&mut out);
    Ok(out)
}

fn again_to_client(frame: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut out = b"before".to_vec();
    ToClient::decode(frame)?.encode_frame(&mut out);
    Ok(out)
}

/// The bytes that encoding the same command again gives.
fn whole(frame: &[u8]) -> Vec<u8> {
    let size = u32::try_from(frame.len()).expect("small");
    [b"before", &size.to_be_bytes()[..], frame].concat()
}

fn for_every_command(commands: Commands, check: impl Fn(&[u8]) -> Result<(), TestCaseError>) {
    for &command in commands {
        let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
        let outcome = TestRunner::new(config).run(&frame(command), |frame| check(&frame));
        assert_eq!(outcome, Ok(()), "{command:04x?}");
    }
}

fn survives(commands: Commands, again: Again) {
    for_every_command(commands, |frame| {
        let out = again(frame).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(out, whole(frame));
        Ok(())
    });
}

/// A shorter or longer frame is refused, or is one of its own that has exactly these bytes: an
/// array that may be left out, a code without the rest of a response, a chunk of any length; or the
/// byte behind an answer to a `ConsumerUpdate`, which is ignored.
fn changes_are_noticed(commands: Commands, again: Again) {
    for_every_command(commands, |frame| {
        for cut in 0..frame.len() {
            let cut = frame.get(..cut).unwrap_or_default();
            prop_assert!(again(cut).is_err() || again(cut) == Ok(whole(cut)));
        }
        let longer = [frame, &[0]].concat();
        let ignored = frame.starts_with(b"\x80\x1a") && again(&longer) == Ok(whole(frame));
        prop_assert!(ignored || again(&longer).is_err() || again(&longer) == Ok(whole(&longer)));
        Ok(())
    });
}

#[test]
fn every_command_to_a_server_survives_decoding_and_encoding() {
    survives(TO_SERVER, again_to_server);
    changes_are_noticed(TO_SERVER, again_to_server);
}

#[test]
fn every_command_to_a_client_survives_decoding_and_encoding() {
    survives(TO_CLIENT, again_to_client);
    changes_are_noticed(TO_CLIENT, again_to_client);
}

#[test]
fn the_grammar_and_the_codec_know_the_same_commands() {
    let words = |commands: Commands| -> HashSet<CommandId> {
        commands.iter().map(|&(key, version, _)| CommandId { key, version }).collect()
    };
    let codes = |commands: Commands| -> HashSet<CommandId> {
        let alone =
            commands.iter().filter(|(key, _, fields)| *key > 0x8000 && *fields == "u32 u16");
        alone.map(|&(key, version, _)| CommandId { key, version }).collect()
    };
    let known = |ids: &[CommandId]| -> HashSet<CommandId> { ids.iter().copied().collect() };
    assert_eq!(words(TO_SERVER), &known(ToServer::IDS) | &codes(TO_SERVER));
    assert_eq!(words(TO_CLIENT), &known(ToClient::IDS) | &codes(TO_CLIENT));
    let all = &words(TO_SERVER) | &words(TO_CLIENT);
    for &key in Key::ALL {
        assert_eq!(Key::from_code(key.code()), Some(key));
        let versions = all.iter().filter(|id| id.key == key.code()).map(|id| id.version);
        assert_eq!(versions.max(), Some(key.version_max()), "{}", key.name());
    }
    assert_eq!(Key::ALL.len(), 31);
}
