//! Command lines as data, which the tools give and man pages and shell completions are made from.
//! Knows names and texts. Never what a command does, or how it is parsed.
//! Start reading at [`CommandHelp`].

/// A command of a tool.
#[derive(Clone, Debug, Default)]
pub struct CommandHelp {
    /// The word that calls it.
    pub name: &'static str,
    /// One line; empty where whoever shows the command has one.
    pub about: String,
    /// The whole usage line, where options and arguments do not tell it.
    pub usage: Option<String>,
    /// Its options, in the order of its help.
    pub options: Vec<OptionHelp>,
    /// Its arguments that are no options, in order.
    pub arguments: Vec<ArgumentHelp>,
    /// The commands below it.
    pub commands: Vec<Self>,
}

/// An option of a command.
#[derive(Clone, Debug)]
pub struct OptionHelp {
    /// Without the dashes.
    pub long: &'static str,
    /// Without the dash; may have several letters.
    pub short: Option<String>,
    /// The value's name, for options that take one.
    pub value: Option<&'static str>,
    /// The meaning, in a few words.
    pub help: &'static str,
}

/// An argument of a command that is no option.
#[derive(Clone, Debug)]
pub struct ArgumentHelp {
    /// As usage lines have it.
    pub name: &'static str,
    /// Whether several may be given.
    pub is_many: bool,
    /// Whether it must be there.
    pub is_required: bool,
    /// The words it can be; any word if empty.
    pub values: Vec<&'static str>,
}
