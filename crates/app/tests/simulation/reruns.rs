//! Acts whose transaction is run again, as after a conflict with another one.
