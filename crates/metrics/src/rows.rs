//! Tables of figures: a line for each.

/// Rows of name, type, value and meaning.
macro_rules! rows {
    ($($kind:ident $name:ident |$($it:pat_param),+| $value:expr => $help:literal;)*) => {
        &[$((stringify!($name), crate::text::Kind::$kind, |$($it),+| $value, $help)),*]
    };
}

pub(crate) use rows;
