//! Enums whose values have names.

/// An enum whose values have names, as texts, in the order of the declaration:
///
/// ```
/// stdx::named! {
///     /// The sides of a coin.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Side {
///         /// The one with the face.
///         Head = "head",
///         /// The other.
///         Tail = "tail",
///     }
/// }
/// assert_eq!(Side::ALL.map(Side::as_str), Side::NAMES);
/// assert_eq!(Side::of_name("tail"), Some(Side::Tail));
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $visible:vis enum $name:ident { $($(#[$of_value:meta])* $value:ident = $text:literal,)* }
    ) => {
        $(#[$meta])*
        $visible enum $name { $($(#[$of_value])* $value,)* }

        #[allow(dead_code, reason = "few enums need all of them")]
        impl $name {
            /// The names of all values.
            $visible const NAMES: [&'static str; [$($text),*].len()] = [$($text),*];

            /// All values.
            $visible const ALL: [Self; Self::NAMES.len()] = [$(Self::$value),*];

            /// The name of the value.
            $visible const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text),* }
            }

            /// The value of that name.
            #[must_use]
            $visible fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == name)
            }
        }
    };
}
