//! The way in which a document is imported.

use crate::password::HashAlgorithm;
use routing::Name;
use std::fmt;

/// The way in which a document is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportRules<'r> {
    /// The virtual host for a document of a single one; its users and virtual hosts are not regarded then.
    pub into: Option<&'r Name>,
    /// The hash of passwords that are hashed now, and of hashes that say nothing else.
    pub hashing: HashAlgorithm,
    /// Whether to refuse what RabbitMQ refuses, where it would be left out otherwise.
    pub is_strict: bool,
    /// The user that gets all permissions in virtual hosts that are made.
    pub importer: Option<&'r str>,
    /// The question, asked before each object, whether to go on: a long document takes its time.
    pub goes_on: Option<GoesOn<'r>>,
}

/// Whether work is to go on.
#[derive(Clone, Copy)]
pub struct GoesOn<'r>(pub &'r dyn Fn() -> bool);

impl fmt::Debug for GoesOn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GoesOn")
    }
}
