//! Violations that the daemon has found on its devices, from its metrics.

use super::daemon;
use std::collections::BTreeSet;
use std::path::Path;

/// The metric that is 1 for each violation.
const METRIC: &str = "reef_violation{";

/// Violations at the last poll.
#[derive(Debug, Default)]
pub(crate) struct Violations(BTreeSet<String>);

impl Violations {
    /// Asks the daemon of this folder, and logs what has come and gone since. A daemon that doesn't
    /// say changes nothing.
    pub(crate) async fn poll(&mut self, folder: &Path) {
        let Ok(text) = daemon::get(folder, "/metrics").await else { return };
        let (came, went) = self.update(&text);
        came.iter().for_each(|labels| tracing::warn!("violation: {labels}"));
        went.iter().for_each(|labels| tracing::info!("no violation any more: {labels}"));
    }

    fn update(&mut self, text: &str) -> (Vec<String>, Vec<String>) {
        let labels = |line: &str| Some(line.strip_prefix(METRIC)?.rsplit_once("} ")?.0.to_owned());
        let now: BTreeSet<_> = text.lines().filter_map(labels).collect();
        let changes = (
            now.difference(&self.0).cloned().collect(),
            self.0.difference(&now).cloned().collect(),
        );
        self.0 = now;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::node::FakeNode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    const UNMANAGED: &str = r#"kind="unmanaged",device="00",pid="7",job="""#;

    #[test]
    fn violation_is_reported_once_when_it_comes_and_goes() {
        let mut violations = Violations::default();
        let text = format!(
            "# TYPE reef_violation gauge\nreef_violation{{{UNMANAGED}}} 1\nreef_violations_total{{kind=\"page\"}} 3\n"
        );
        assert_eq!(violations.update(&text), (vec![UNMANAGED.to_owned()], vec![]));
        assert_eq!(violations.update(&text), (vec![], vec![]));
        assert_eq!(violations.update(""), (vec![], vec![UNMANAGED.to_owned()]));
    }

    #[tokio::test]
    async fn daemon_that_does_not_answer_changes_nothing() {
        let node = FakeNode::new();
        let folder = node.folder.join("run");
        let mut violations = Violations::default();
        violations.poll(&folder).await;
        let listener = UnixListener::bind(folder.join("http.sock")).unwrap();
        let daemon = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let body = format!("reef_violation{{{UNMANAGED}}} 1\n");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        violations.poll(&folder).await;
        assert!(daemon.await.unwrap().starts_with("GET /metrics HTTP/1.1\r\n"));
        assert_eq!(violations.0.len(), 1);
        violations.poll(&folder).await; // without a listener
        assert_eq!(violations.0.len(), 1);
    }
}
