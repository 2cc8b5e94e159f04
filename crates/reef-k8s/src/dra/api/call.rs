//! One call to the API server, and the trait of its transport.

use crate::error::Result;
use serde_json::Value;

/// Kind of a call about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dra) enum Call {
    Get,
    Post,
    Put,
}

/// Answer to a call.
#[derive(Clone, Debug)]
pub(in crate::dra) struct Reply {
    /// A status of HTTP.
    pub(in crate::dra) status: u16,
    /// The object, or a `Status` that says why there is none.
    pub(in crate::dra) body: Value,
}

/// Transport of calls: a cluster's API server, or a test.
#[tonic::async_trait]
pub(in crate::dra) trait Api: Send + Sync {
    /// # Errors
    ///
    /// No answer was had. An answer that says no isn't one of these.
    async fn call(&self, call: Call, path: &str, body: Option<&Value>) -> Result<Reply>;
}

impl Reply {
    /// The object.
    ///
    /// # Errors
    ///
    /// The status isn't one of success: it, and what was said.
    pub(in crate::dra) fn ok(self) -> std::result::Result<Value, String> {
        match self.status {
            200..300 => Ok(self.body),
            status => {
                Err(format!("{status}: {}", self.body["message"].as_str().unwrap_or("no reason")))
            }
        }
    }
}
