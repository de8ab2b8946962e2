//! The number of a method. Its name stands in the table of [`method`](crate::method).

/// Class and method number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId {
    /// The class, such as 60 for basic.
    pub class: u16,
    /// The method within its class.
    pub method: u16,
}
