//! Parameters are exactly those of the sources.
