//! Error handling of background work: an error is logged, and the work continues.
//!
//! Nobody waits for an answer here. The next turn finds unfinished work again, because reconcilers read the
//! database. So nothing is kept, and nothing is retried at once.

use chorus_store::StoreError;

/// Reports that a step was not done.
pub fn report<T>(step: &str, result: Result<T, StoreError>) {
    if let Err(error) = result {
        tracing::warn!(error = &error as &dyn std::error::Error, "could not {step}; it is tried again");
    }
}

/// Handles the result of one of many steps. An error of one row is logged and does not stop the others. An
/// error of the store affects all of them and ends this turn.
pub fn each<T: Default>(step: &str, result: Result<T, StoreError>) -> Result<T, StoreError> {
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
