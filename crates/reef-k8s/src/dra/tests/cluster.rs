//! An API server in memory.

use crate::dra::api::call::{Api, Call, Reply};
use crate::error::{Error, Result};
use crate::tests::node::FakeNode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Name of the node.
pub(super) const NODE: &str = "node-1";

#[derive(Debug, Default)]
struct Objects {
    by_path: BTreeMap<String, Value>,
    version: u64,
    calls: Vec<(Call, String)>,
    is_away: bool,
}

/// Objects by their paths, each with a version.
#[derive(Debug, Default)]
pub(super) struct Cluster(Mutex<Objects>);

impl Cluster {
    /// A cluster with the node.
    pub(super) fn new() -> Self {
        let cluster = Self::default();
        cluster.put(&format!("/api/v1/nodes/{NODE}"), json!({ "metadata": { "uid": "node-uid" } }));
        cluster
    }

    fn with<T>(&self, inspect: impl FnOnce(&mut Objects) -> T) -> T {
        inspect(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn put(&self, path: &str, object: Value) {
        self.with(|all| all.by_path.insert(path.to_owned(), object));
    }

    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.with(|all| all.by_path.get(path).cloned())
    }

    pub(super) fn remove(&self, path: &str) {
        self.with(|all| all.by_path.remove(path));
    }

    /// The API server stops or starts to answer.
    pub(super) fn is_away(&self, is_away: bool) {
        self.with(|all| all.is_away = is_away);
    }

    /// Number of calls of a kind.
    pub(super) fn calls(&self, call: Call, of: &str) -> usize {
        self.with(|all| all.calls.iter().filter(|it| it.0 == call && it.1.contains(of)).count())
    }

    /// A claim for a GPU, allocated, with the class of its device class.
    pub(super) fn allocate(&self, uid: &str, minor: u32, class: &str, claim: Value) {
        self.put(&path(uid), object(uid, minor, class, claim));
    }
}

/// Path of a claim, whose name is its UID.
pub(super) fn path(uid: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/claim-{uid}")
}

/// Name of a GPU for the scheduler.
pub(super) fn device(minor: u32) -> String {
    FakeNode::uuid(minor).to_ascii_lowercase()
}

/// An allocated claim.
pub(super) fn object(uid: &str, minor: u32, class: &str, claim: Value) -> Value {
    let config = |source: &str, parameters: Value| {
        let opaque = json!({ "driver": "reef.dev", "parameters": parameters });
        json!({ "source": source, "requests": ["gpu"], "opaque": opaque })
    };
    json!({
        "metadata": { "namespace": "team", "name": format!("claim-{uid}"), "uid": uid },
        "spec": { "devices": {} },
        "status": { "allocation": { "devices": {
            "results": [{
                "request": "gpu", "driver": "reef.dev", "pool": NODE, "device": device(minor),
                "shareID": "share-1",
                "consumedCapacity": { "claims": "1", "compute": "0" },
            }],
            "config": [config("FromClass", json!({ "class": class })), config("FromClaim", claim)],
        }}},
    })
}

#[tonic::async_trait]
impl Api for Cluster {
    async fn call(&self, call: Call, path: &str, body: Option<&Value>) -> Result<Reply> {
        self.with(|all| {
            all.calls.push((call, path.to_owned()));
            if all.is_away {
                return Err(Error::Failed("API server: no answer".into()));
            }
            let path = match (call, body) {
                (Call::Post, Some(body)) => {
                    format!("{path}/{}", body["metadata"]["name"].as_str().unwrap())
                }
                _ => path.to_owned(),
            };
            let missing = json!({ "kind": "Status", "message": format!("{path} not found") });
            let found = all.by_path.get(&path).cloned();
            let (status, body) = match (call, found, body) {
                (Call::Get, Some(found), _) => (200, found),
                (Call::Get | Call::Put, None, _) => (404, missing),
                (Call::Post, Some(_), _) => (409, json!({ "message": "it is there" })),
                (_, _, body) => {
                    all.version += 1;
                    let mut object = body.unwrap().clone();
                    object["metadata"]["resourceVersion"] = all.version.to_string().into();
                    all.by_path.insert(path, object.clone());
                    (200, object)
                }
            };
            Ok(Reply { status, body })
        })
    }
}
