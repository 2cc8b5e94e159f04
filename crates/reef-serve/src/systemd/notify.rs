//! Notifications to the service manager, by datagrams to `NOTIFY_SOCKET`.

use crate::server::Server;
use sd_notify::NotifyState::{self, Ready, Reloading, Stopping, Watchdog};
use std::sync::Arc;
use std::time::Duration;

/// Reports that the daemon serves: after the start, and after a reload.
pub(crate) fn ready() {
    tell(&[Ready]);
}

/// Reports a reload, which lasts until [`ready`].
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[Reloading, now]), // systemd matches reloads by this time
        Err(error) => tracing::warn!(%error, "the service manager was not told of a reload"),
    }
}

/// Reports that the daemon accepts nothing more.
pub(crate) fn stopping() {
    tell(&[Stopping]);
}

/// Reports a sign of life at an interval, if the watchdog is enabled. It stops once the I/O threads
/// or the dispatcher of a working device no longer answer.
pub(crate) async fn report_signs_of_life(server: Arc<Server>) {
    let Some(time) = sd_notify::watchdog_enabled().filter(|time| !time.is_zero()) else { return };
    loop {
        let server = server.clone();
        let asked = tokio::task::spawn_blocking(move || {
            server.nodes.iter().for_each(|node| node.wait_for_answer());
        });
        if matches!(tokio::time::timeout(time, asked).await, Ok(Ok(()))) {
            tell(&[Watchdog]);
        }
        tokio::time::sleep(sign_interval(time)).await;
    }
}

/// Returns half of the watchdog's time, as sd_watchdog_enabled(3) recommends.
fn sign_interval(watchdog: Duration) -> Duration {
    watchdog / 2
}

/// Sends a notification. A failure is logged and does not end the daemon.
fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!(%error, ?what, "the service manager was not told");
    }
}
