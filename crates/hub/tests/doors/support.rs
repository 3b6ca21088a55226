//! Shared by the tests of the doors: a real hub, a client for it, and waiting for a condition.

mod client;
mod hub;

pub(crate) use client::{Answer, Inbox, envelope, failure, mcp_tool, members, text_of};
pub(crate) use hub::{Setup, TestHub};

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Turns each case, an `async fn(Setup)`, into a test on SQLite and one on PostgreSQL.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::support::Setup::new()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::support::Setup::postgres()).await;
            })+
        }
    };
}
pub(crate) use on_both;

/// The bound of every wait for something that is immediate on a quiet machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// The host name of every test hub.
pub(crate) const HOST: &str = "chorus.example";
/// The operator key of every test hub.
pub(crate) const OPERATOR: &str = "co_0123456789abcdef0123456789abcdef";

/// Repeats a call until its result satisfies the condition.
pub(crate) async fn eventually<T: Debug, F: Future<Output = T>>(
    ask: impl Fn() -> F,
    wanted: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "still {answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
