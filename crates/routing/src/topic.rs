//! Topic exchanges: a tree of the words of the binding keys.
//!
//! ```text
//! binding keys  a.b, a.*, a.#        root -a-> . -b-> [q1]
//!                                              -*-> [q2]
//!                                              -#-> [q3]
//! ```
//! Words are separated by `.`; an empty word counts as a word, an empty key has none. `*` stands for
//! exactly one word, `#` for any number of them. Nodes are shared between the snapshots of the tree;
//! a change copies those on its path.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::destination::Destination;
use crate::error::{BindingError, TOPIC_HASHES_MAX, TOPIC_WORDS_MAX};
use crate::name::{QueueId, RoutingKey};
use crate::small_map::SmallMap;
use crate::targets::Targets;

/// Refuses binding keys that would make matching or the tree too costly.
pub(crate) fn check_key(key: &RoutingKey) -> Result<(), BindingError> {
    let words = Words(start(key)).count();
    if words > TOPIC_WORDS_MAX {
        return Err(BindingError::TooManyWords { words });
    }
    let hashes = Words(start(key)).filter(|word| *word == b"#").count();
    if hashes > TOPIC_HASHES_MAX {
        return Err(BindingError::TooManyHashes { key: key.to_text().into_owned(), hashes });
    }
    Ok(())
}

/// The rest of a key: `None` after the last word.
type Rest<'k> = Option<&'k [u8]>;

fn start(key: &[u8]) -> Rest<'_> {
    (!key.is_empty()).then_some(key)
}

/// The first word and what follows it.
fn split(key: &[u8]) -> (&[u8], Rest<'_>) {
    let mut parts = key.splitn(2, |byte| *byte == b'.');
    (parts.next().unwrap_or_default(), parts.next())
}

struct Words<'k>(Rest<'k>);

impl<'k> Iterator for Words<'k> {
    type Item = &'k [u8];

    fn next(&mut self) -> Option<&'k [u8]> {
        let (word, rest) = split(self.0?);
        self.0 = rest;
        Some(word)
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    words: SmallMap<RoutingKey, Arc<Self>>,
    star: Option<Arc<Self>>,
    hash: Option<Arc<Self>>,
    targets: Targets,
}

impl Node {
    fn child_mut(&mut self, word: &[u8]) -> &mut Arc<Self> {
        match word {
            b"*" => self.star.get_or_insert_default(),
            b"#" => self.hash.get_or_insert_default(),
            _ => {
                if self.words.get(word).is_none() {
                    self.words.insert(RoutingKey::from(word), Arc::default());
                }
                self.words.get_mut(word).expect("the word was inserted if it was missing")
            }
        }
    }

    fn has_children(&self) -> bool {
        self.star.is_some() || self.hash.is_some() || !self.words.is_empty()
    }

    /// Takes the destination out below `rest` and prunes what becomes empty.
    /// The recursion is as deep as the key has words, which [`check_key`] limits.
    fn remove(&mut self, rest: Rest<'_>, destination: &Destination) {
        let Some(key) = rest else {
            self.targets.remove(destination);
            return;
        };
        let (word, rest) = split(key);
        match word {
            b"*" => remove_below(&mut self.star, rest, destination),
            b"#" => remove_below(&mut self.hash, rest, destination),
            _ => {
                let Some(child) = self.words.get_mut(word) else { return };
                let node = Arc::make_mut(child);
                node.remove(rest, destination);
                if node.is_empty() {
                    self.words.remove(word);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.targets.is_empty() && !self.has_children()
    }
}

fn remove_below(slot: &mut Option<Arc<Node>>, rest: Rest<'_>, destination: &Destination) {
    let Some(child) = slot else { return };
    let node = Arc::make_mut(child);
    node.remove(rest, destination);
    if node.is_empty() {
        *slot = None;
    }
}

/// All binding keys of one topic exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie(Node);

/// A node reached, and the part of the routing key that is left there.
struct Visit<'t, 'k> {
    node: &'t Node,
    rest: Rest<'k>,
    /// False where the node's `#` was followed already from an earlier word of the key.
    follow_hash: bool,
}

impl Trie {
    /// Adds one binding. The key must have passed [`check_key`].
    pub(crate) fn add(&mut self, key: &[u8], destination: &Destination) {
        let mut node = &mut self.0;
        for word in Words(start(key)) {
            node = Arc::make_mut(node.child_mut(word));
        }
        node.targets.add(destination);
    }

    /// Removes one binding that was added.
    pub(crate) fn remove(&mut self, key: &[u8], destination: &Destination) {
        self.0.remove(start(key), destination);
    }

    /// Hands over the destinations of every matching binding key; some may come several times.
    pub(crate) fn find<'t>(&'t self, key: &[u8], mut found: impl FnMut(&'t Targets)) {
        let mut open: SmallVec<[Visit<'t, '_>; 16]> = SmallVec::new();
        open.push(Visit { node: &self.0, rest: start(key), follow_hash: true });
        while let Some(Visit { node, rest, follow_hash }) = open.pop() {
            if let Some(hash) = node.hash.as_deref().filter(|_| follow_hash) {
                if hash.has_children() {
                    follow(hash, rest, &mut open);
                } else {
                    found(&hash.targets);
                }
            }
            let Some(key) = rest else {
                if !node.targets.is_empty() {
                    found(&node.targets);
                }
                continue;
            };
            let (word, rest) = split(key);
            for child in [node.words.get(word), node.star.as_ref()].into_iter().flatten() {
                open.push(Visit { node: child, rest, follow_hash: true });
            }
        }
    }
}

/// A pattern of keys, as bindings of topic exchanges have it.
#[derive(Clone, Debug)]
pub struct TopicPattern(Trie);

impl TopicPattern {
    /// Parses a binding key.
    ///
    /// # Errors
    /// The key has too many words or `#`.
    pub fn new(pattern: &str) -> Result<Self, BindingError> {
        check_key(&RoutingKey::from(pattern.as_bytes()))?;
        let mut trie = Trie::default();
        trie.add(pattern.as_bytes(), &Destination::Queue(QueueId(0)));
        Ok(Self(trie))
    }

    /// Whether the pattern matches a key.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let mut is_found = false;
        self.0.find(key.as_bytes(), |targets| is_found |= !targets.is_empty());
        is_found
    }
}

/// A `#` may swallow any number of words. A second `#` right below it is followed once only: from
/// the first position it reaches all that the others would.
fn follow<'t, 'k>(hash: &'t Node, rest: Rest<'k>, open: &mut SmallVec<[Visit<'t, 'k>; 16]>) {
    open.push(Visit { node: hash, rest, follow_hash: true });
    let mut rest = rest;
    while let Some(key) = rest {
        rest = split(key).1;
        open.push(Visit { node: hash, rest, follow_hash: false });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn find(trie: &Trie, key: &str) -> BTreeSet<Destination> {
        let mut all = BTreeSet::new();
        trie.find(key.as_bytes(), |targets| all.extend(targets.iter().cloned()));
        all
    }

    fn matches(pattern: &str, key: &str) -> bool {
        TopicPattern::new(pattern).unwrap().matches(key)
    }

    #[test]
    fn table_of_patterns() {
        let yes = [
            ("", ""),
            ("#", ""),
            ("#", "a"),
            ("#", "a.b.c"),
            ("*", "a"),
            ("a.*.b", "a..b"),
            ("*.*", "."),
            ("#.#", "a"),
            ("#.#", ""),
            ("a.#", "a"),
            ("a.#", "a.b.c"),
            ("#.b", "b"),
            ("#.b", "a.a.b"),
            ("#.a.#", "b.a.b"),
            ("#.*", "a"),
            ("*.#", "a.b"),
            ("a.#.b.#", "a.x.b"),
            ("#.a.b.#", "a.a.b"),
            ("a*", "a*"),
            ("a.", "a."),
        ];
        for (pattern, key) in yes {
            assert!(matches(pattern, key), "'{pattern}' must match '{key}'");
        }
        let no = [
            ("*", ""),
            ("*.#", ""),
            ("", "a"),
            ("a", ""),
            ("a.b", "a"),
            ("a", "a.b"),
            ("*", "a.b"),
            ("a*", "ab"),
            ("#.b", "b.a"),
            ("#.a.#", "b.c"),
            ("a.", "a"),
            ("*", "."),
        ];
        for (pattern, key) in no {
            assert!(!matches(pattern, key), "'{pattern}' must not match '{key}'");
        }
    }

    #[test]
    fn costly_keys_are_refused() {
        let error = check_key(&RoutingKey::from("#.a.#.#")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Topic binding key '#.a.#.#' uses 3 '#' wildcards, at most 2 are allowed"
        );
        assert_eq!(check_key(&RoutingKey::from("#.#.##.a#")), Ok(()));
        assert_eq!(check_key(&RoutingKey::from(".".repeat(255).as_str())), Ok(()));
        let long = RoutingKey::from(".".repeat(256).as_str());
        assert_eq!(check_key(&long), Err(BindingError::TooManyWords { words: 257 }));
    }

    #[test]
    fn the_work_of_two_hashes_is_bounded() {
        let mut trie = Trie::default();
        for word in 0..100u64 {
            trie.add(format!("#.{word}.#").as_bytes(), &Destination::Queue(QueueId(word)));
        }
        trie.add(b"#.#", &Destination::Queue(QueueId(1_000)));
        let key = ".".repeat(255);
        let mut n_found = 0;
        trie.find(key.as_bytes(), |_| n_found += 1);
        assert_eq!(n_found, 1);
    }

    fn word() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["a", "b", "", "ab", "*", "#"])
    }

    fn key() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!["a", "b", "", "ab", "c"]), 0..6)
            .prop_map(|words| words.join("."))
    }

    fn pattern() -> impl Strategy<Value = String> {
        prop::collection::vec(word(), 0..6)
            .prop_map(|words| words.join("."))
            .prop_filter("at most two #", |key| check_key(&RoutingKey::from(key.as_str())).is_ok())
    }

    fn model(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&b"#", rest)), None) => model(rest, key),
            (Some((&b"#", rest)), Some((_, tail))) => model(rest, key) || model(pattern, tail),
            (Some((word, rest)), Some((first, tail))) => {
                (*word == b"*" || word == first) && model(rest, tail)
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn finds_what_a_naive_matcher_finds(
            patterns in prop::collection::vec(pattern(), 0..24),
            gone in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            keys in prop::collection::vec(key(), 1..6),
        ) {
            let mut trie = Trie::default();
            let mut present: Vec<(u64, String)> = Vec::new();
            for (id, pattern) in (0..).zip(patterns) {
                trie.add(pattern.as_bytes(), &Destination::Queue(QueueId(id)));
                present.push((id, pattern));
            }
            let before = (trie.clone(), present.clone());
            for index in gone {
                if !present.is_empty() {
                    let (id, pattern) = present.remove(index.index(present.len()));
                    trie.remove(pattern.as_bytes(), &Destination::Queue(QueueId(id)));
                }
            }
            // The second pair is the tree after the removals, the first the untouched snapshot.
            for (trie, present) in [&before, &(trie, present)] {
                for key in &keys {
                    let words: Vec<&[u8]> = Words(start(key.as_bytes())).collect();
                    let expected: BTreeSet<_> = (present.iter())
                        .filter(|(_, p)| {
                            model(&Words(start(p.as_bytes())).collect::<Vec<_>>(), &words)
                        })
                        .map(|(id, _)| Destination::Queue(QueueId(*id)))
                        .collect();
                    prop_assert_eq!(find(trie, key), expected);
                }
                if present.is_empty() {
                    prop_assert!(trie.0.is_empty());
                }
            }
        }
    }
}
