//! Tests for plans, as tables of facts and the effects that follow from them.

#[cfg(test)]
mod due;
#[cfg(test)]
mod handling;
#[cfg(test)]
mod message;
#[cfg(test)]
mod support;
