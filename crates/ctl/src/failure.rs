//! Failures of a run: the text on standard error and the exit code, as RabbitMQ's tools have them.

/// Exit codes of sysexits.h that RabbitMQ's tools use.
pub(crate) mod code {
    /// `import_definitions --strict` left something out.
    pub(crate) const LEFT_OUT: u8 = 1;
    /// Wrong arguments.
    pub(crate) const USAGE: u8 = 64;
    /// A wrong value.
    pub(crate) const DATA: u8 = 65;
    /// No such user.
    pub(crate) const NO_USER: u8 = 67;
    /// The node cannot be reached, or said no.
    pub(crate) const UNAVAILABLE: u8 = 69;
    /// The command failed.
    pub(crate) const SOFTWARE: u8 = 70;
    /// The request took too long.
    pub(crate) const TEMPORARY: u8 = 75;
}

/// The end of a run that did not do what was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// Printed to standard error; `None` prints nothing.
    pub(crate) text: Option<String>,
}

impl Failure {
    /// A failure with the line `Error:` above the text, RabbitMQ's usual form.
    pub(crate) fn error(code: u8, text: impl AsRef<str>) -> Self {
        Self { code, text: Some(format!("Error:\n{}", text.as_ref())) }
    }

    /// A failure with the text alone.
    pub(crate) fn bare(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: Some(text.into()) }
    }

    /// A health check that did not pass: exit code 69, the text alone.
    pub(crate) fn check(text: impl Into<String>) -> Self {
        Self::bare(code::UNAVAILABLE, text)
    }
}

/// An error in the arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    TooFew,
    TooMany,
    BadArgument(String),
    BadColumns(Vec<String>),
    BadOptions(Vec<(String, String)>),
    Other(String),
}

impl Invalid {
    pub(crate) const fn code(&self) -> u8 {
        if let Self::BadArgument(_) = self { code::DATA } else { code::USAGE }
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooFew => f.write_str("not enough arguments."),
            Self::TooMany => f.write_str("too many arguments."),
            Self::BadArgument(detail) => write!(f, "Bad argument: {detail}"),
            Self::BadColumns(columns) => {
                write!(f, "Info key(s) {} are not supported", columns.join(","))
            }
            Self::BadOptions(options) => {
                f.write_str("Invalid options for this command:")?;
                options.iter().try_for_each(|(name, value)| write!(f, "\n{name} : {value}"))
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}
