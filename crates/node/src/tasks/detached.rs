//! Work that completes even if its caller stops waiting.
//!
//! It runs where it is awaited, without the cost of a task. It becomes a task only if it is dropped halfway,
//! because the client hung up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

pub struct FinishDetached<T: Send + 'static> {
    /// Gone when it has ended, also by a panic.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    tasks: TaskTracker,
}

impl<T: Send + 'static> FinishDetached<T> {
    pub fn new(tasks: &TaskTracker, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), tasks: tasks.clone() }
    }
}

impl<T: Send + 'static> Future for FinishDetached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for FinishDetached<T> {
    fn drop(&mut self) {
        // Without a runtime nothing can go on: the whole program is ending.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::panic::AssertUnwindSafe;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn it_ends_where_it_is_awaited() {
        let tasks = TaskTracker::new();
        assert_eq!(FinishDetached::new(&tasks, async { 7 }).await, 7);
        assert!(tasks.is_empty(), "no task was needed");
    }

    #[tokio::test]
    async fn it_ends_when_nobody_waits() {
        let tasks = TaskTracker::new();
        let (go, gone) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let work = FinishDetached::new(&tasks, async move {
            gone.await.ok();
            done.send(7).ok();
        });
        assert!(work.now_or_never().is_none(), "it waits, and is then dropped");
        go.send(()).unwrap();
        assert_eq!(ended.await, Ok(7));
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn a_panic_is_its_end() {
        let tasks = TaskTracker::new();
        let work = FinishDetached::new(&tasks, async { panic!("for the test") });
        assert!(AssertUnwindSafe(work).catch_unwind().await.is_err());
        assert!(tasks.is_empty());
    }
}
