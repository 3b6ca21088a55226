//! Trace adapters: from what a framework wrote of a run to an evidence bundle.
//!
//! Translators, not authorities: they invent nothing, and warn about what they cannot map.
