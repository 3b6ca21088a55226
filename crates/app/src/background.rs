//! How background work fails: it says so in the log, and goes on.
//!
//! Nobody waits for an answer here. Whatever was not done is found again by the next turn, because reconcilers look at the database;
//! so nothing is kept, and nothing is retried at once.

use chorus_store::StoreError;

/// Reports that a step was not done.
pub(crate) fn report<T>(step: &str, result: Result<T, StoreError>) {
    if let Err(error) = result {
        tracing::warn!(error = &error as &dyn std::error::Error, "could not {step}; it is tried again");
    }
}

/// One of many steps was taken. What is wrong with one row keeps no other from its turn: it is reported, and passed over. What
/// hinders the store hinders all of them, and ends this turn.
pub(crate) fn each<T: Default>(step: &str, result: Result<T, StoreError>) -> Result<T, StoreError> {
    match result {
        Err(StoreError::Unexpected(_) | StoreError::Panicked | StoreError::Conflict(_)) => {
            report(step, result);
            Ok(T::default())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_row_is_passed_over_and_a_bad_store_is_not() {
        assert!(matches!(each("", Ok(7)), Ok(7)));
        for of_row in
            [StoreError::Unexpected("".into()), StoreError::Panicked, StoreError::Conflict("".into())]
        {
            assert!(matches!(each("", Err(of_row)), Ok(0)));
        }
        for of_all in [StoreError::Closed, StoreError::Overloaded, StoreError::Full("".into())] {
            assert!(each::<i32>("", Err(of_all)).is_err());
        }
    }
}
