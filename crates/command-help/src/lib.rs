//! Command lines as data, which the tools give and man pages and shell completions are made from.
//! Knows names and texts. Never what a command does, or how it is parsed.
//! Start reading at [`CommandHelp`].

/// A command of a tool.
#[derive(Clone, Debug, Default)]
pub struct CommandHelp {
    /// The word that calls the command.
    pub name: &'static str,
    /// The meaning in one line; empty where the list that shows the command has its own.
    pub about: String,
    /// The whole usage line, where options and arguments do not tell it.
    pub usage: Option<String>,
    /// The command's options, in the order of its help.
    pub options: Vec<OptionHelp>,
    /// The command's arguments that are no options, in order.
    pub arguments: Vec<ArgumentHelp>,
    /// The commands below it.
    pub commands: Vec<Self>,
}

/// An option of a command.
#[derive(Clone, Debug)]
pub struct OptionHelp {
    /// The long name, without the dashes.
    pub long: &'static str,
    /// The short name, without the dash; may have several letters.
    pub short: Option<String>,
    /// The value's name, for options that take one.
    pub value: Option<&'static str>,
    /// The meaning, in a few words.
    pub help: String,
}

/// An argument of a command that is no option.
#[derive(Clone, Debug)]
pub struct ArgumentHelp {
    /// The name, as usage lines have it.
    pub name: &'static str,
    /// Whether several may be given.
    pub is_many: bool,
    /// Whether it must be there.
    pub is_required: bool,
    /// The words that the argument can be; any word if empty.
    pub values: Vec<&'static str>,
}
