//! The signal that ends an agent.

use tokio::sync::watch;

/// A flag that becomes `true` when the agent is to stop.
pub type Stop = watch::Receiver<bool>;

/// Waits until the agent is to stop. A dropped sender counts as a stop.
pub(super) async fn stopped(stop: &mut Stop) {
    stop.wait_for(|stop| *stop).await.ok();
}
