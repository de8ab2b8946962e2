//! The tool under one of its names, and the verbs it has under that name.

use super::{Section, Verb};
use std::fmt;
use stdx::edit_distance;

/// The name the tool was called by, which chooses its verbs.
#[derive(Clone)]
pub(crate) struct Tool {
    name: String,
    tables: &'static [&'static [Verb]],
}

impl Tool {
    pub(crate) fn new(name: &str, tables: &'static [&'static [Verb]]) -> Self {
        Self { name: name.to_owned(), tables }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The tool's verbs. COMPAT: verbs of plugins, `list` and the like, belong to `rabbitmq-plugins` alone.
    /// RabbitMQ's other tools have some of the rest each; here each has them all.
    pub(crate) fn verbs(&self) -> impl Iterator<Item = &'static Verb> + use<> {
        let is_for_plugins = self.name.ends_with("rabbitmq-plugins");
        self.tables.iter().flat_map(|table| table.iter()).filter(move |verb| {
            verb.section == Section::Help || (verb.section == Section::Plugins) == is_for_plugins
        })
    }

    /// The tool's verb of that name.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Verb> {
        self.verbs().find(|verb| verb.name() == name)
    }

    /// The name of the tool's verb that is most like `typed`, if any is like it at all.
    pub(crate) fn suggest(&self, typed: &str) -> Option<&'static str> {
        let (name, distance) = self
            .verbs()
            .map(|verb| (verb.name(), edit_distance(verb.name(), typed)))
            .min_by_key(|&(_, distance)| distance)?;
        (distance <= typed.chars().count() / 3).then_some(name)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::TABLES;

    #[test]
    fn near_misses_are_suggested() {
        let tool = Tool::new("rabbitmqctl", TABLES);
        assert_eq!(tool.suggest("list_queue"), Some("list_queues"));
        assert_eq!(tool.suggest("lst_users"), Some("list_users"));
        assert_eq!(tool.suggest("bogus_command"), None);
    }

    #[test]
    fn names_are_unique_and_every_verb_is_described() {
        let all = || TABLES.iter().flat_map(|table| table.iter());
        let mut names: Vec<&str> = all().map(|verb| verb.name()).collect();
        let n_verbs = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n_verbs);
        for verb in all() {
            assert!(!verb.description.is_empty(), "{}", verb.name());
        }
    }
}
