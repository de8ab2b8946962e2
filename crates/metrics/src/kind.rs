//! The types of figures.

stdx::named! {
    /// The types of figures.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Kind {
        Counter = "counter",
        Gauge = "gauge",
        Histogram = "histogram",
        Summary = "summary",
        Untyped = "untyped",
    }
}

/// Name and value of a label; a label without a name is none.
pub(crate) type Label<'l> = (&'l str, &'l str);
