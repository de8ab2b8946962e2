//! Errors of bindings.

use std::borrow::Cow;

use thiserror::Error;

/// The most `#` in one binding key of a topic exchange: each multiplies the work of matching.
pub(crate) const TOPIC_HASHES_MAX: usize = 2;

/// The most words in one binding key of a topic exchange; a key of 255 bytes cannot have more.
pub(crate) const TOPIC_WORDS_MAX: usize = 256;

/// The error of a refused binding. The texts are RabbitMQ's; its reply code is 406.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BindingError {
    /// Every `#` multiplies the work of matching, so their number is limited.
    #[error(
        "Topic binding key '{key}' uses {hashes} '#' wildcards, at most {} are allowed",
        TOPIC_HASHES_MAX
    )]
    TooManyHashes {
        /// The binding key.
        key: String,
        /// The number of its words that are `#`.
        hashes: usize,
    },
    /// The words of a topic key are levels of a tree.
    #[error("Topic binding key has {words} words, at most {} are allowed", TOPIC_WORDS_MAX)]
    TooManyWords {
        /// The number of words.
        words: usize,
    },
    /// `x-match` is text, but none of the four known ones; as an Erlang term.
    #[error("Invalid x-match field value {0}; expected all, any, all-with-x, or any-with-x")]
    MatchValue(String),
    /// `x-match` is not text.
    #[error("Invalid x-match field type {kind} (value {value}); expected longstr")]
    MatchType {
        /// The type's name.
        kind: Cow<'static, str>,
        /// The value as an Erlang term.
        value: String,
    },
    /// The key is a weight, but no number; as an Erlang term.
    #[error("The binding key must be an integer: {0}")]
    WeightNoInteger(String),
    /// The key is a weight of nothing.
    #[error("The binding key must be greater than 0")]
    WeightNotPositive,
    /// The key is too large a weight.
    #[error("The binding key must be at most {}", u32::MAX)]
    WeightTooLarge,
    /// The exchange chooses without looking at keys.
    #[error("Non empty binding '{0}' key not permitted")]
    KeyNotEmpty(String),
    /// A selector cannot be read; as text, and why.
    #[error("cannot parse selector '{0}': {1}")]
    Selector(String, String),
    /// The exchange leads to queues only.
    #[error("Destination not found")]
    NotToExchanges,
}
