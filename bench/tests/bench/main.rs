//! Tests of the benchmark program from outside.

#[cfg(test)]
mod figures;
