//! The kubelet's calls for claims.

use super::api::call::{Api, Call};
use super::checkpoint::Checkpoint;
use super::claim::{self, Allocated, Prepared};
use super::claim_file;
use super::config::ClaimsConfig;
use super::proto::v1::dra_plugin_server::DraPlugin;
use super::proto::v1::{
    Claim, Device, NodePrepareResourceResponse, NodePrepareResourcesRequest,
    NodePrepareResourcesResponse, NodeUnprepareResourceResponse, NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
};
use crate::error::Result;
use crate::node::gpu::Gpu;
use crate::node::state::State;
use reef_guest::limit::{MAX_JOBS, WHOLE, percent};
use reef_guest::page::Class;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// The kubelet's calls about claims. Calls share no state: each reads the prepared claims from the
/// checkpoint.
#[derive(Clone)]
pub(super) struct Driver {
    pub(super) config: Arc<ClaimsConfig>,
    pub(super) api: Arc<dyn Api>,
    pub(super) state: watch::Receiver<State>,
}

impl Driver {
    /// The socket for calls about claims.
    pub(super) fn socket(config: &ClaimsConfig) -> PathBuf {
        config.home().join("dra.sock")
    }

    /// Writes the files of all prepared claims again, as the folder is empty after the machine was
    /// started.
    ///
    /// # Errors
    ///
    /// The checkpoint can't be read.
    pub(super) fn replay(&self) -> Result<usize> {
        let checkpoint = Checkpoint::open(&self.config.home())?;
        let gpus = self.gpus();
        for (uid, claim) in &checkpoint.claims {
            if let Err(error) = self.write(uid, claim, &gpus) {
                tracing::warn!("claim {}/{}: {error}", claim.namespace, claim.name);
            }
        }
        claim_file::sweep(&self.config.cdi, &checkpoint.claims);
        Ok(checkpoint.claims.len())
    }

    fn gpus(&self) -> Vec<Gpu> {
        self.state.borrow().gpus.clone()
    }

    fn write(&self, uid: &str, claim: &Prepared, gpus: &[Gpu]) -> Result<()> {
        claim_file::write(&self.config, uid, claim, gpus)
    }

    async fn prepare(&self, asked: &Claim) -> std::result::Result<Vec<Device>, String> {
        check_uid(&asked.uid)?;
        let claim = match self.prepared(&asked.uid)? {
            Some(claim) => claim,
            None => self.admit(asked, self.fetch(asked).await?)?,
        };
        self.write(&asked.uid, &claim, &self.gpus()).map_err(|error| error.to_string())?;
        Ok(self.devices(&asked.uid, &claim))
    }

    fn prepared(&self, uid: &str) -> std::result::Result<Option<Prepared>, String> {
        let checkpoint = Checkpoint::open(&self.config.home());
        checkpoint.map(|mut it| it.claims.remove(uid)).map_err(|error| error.to_string())
    }

    async fn fetch(&self, asked: &Claim) -> std::result::Result<Prepared, String> {
        check_name(&asked.namespace)?;
        check_name(&asked.name)?;
        let (namespace, name) = (&asked.namespace, &asked.name);
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}");
        let found =
            self.api.call(Call::Get, &path, None).await.map_err(|error| error.to_string())?;
        let found = found.ok().map_err(|why| format!("the API server: {why}"))?;
        claim::read(&found, &asked.uid, &self.config.name)
    }

    /// Notes a claim as prepared if the GPUs have room for it.
    fn admit(&self, asked: &Claim, claim: Prepared) -> std::result::Result<Prepared, String> {
        let gpus = self.gpus();
        claim.devices.iter().try_for_each(|it| claim_file::gpu(&it.device, &gpus).map(drop))?;
        let open = || -> Result<_> { Checkpoint::open(&self.config.home()) };
        let mut checkpoint = open().map_err(|error| error.to_string())?;
        let others: Vec<_> = checkpoint
            .claims
            .iter()
            .filter(|(uid, _)| **uid != asked.uid)
            .map(|(_, it)| it)
            .collect();
        claim.devices.iter().try_for_each(|device| has_room(&claim, device, &others))?;
        checkpoint.claims.insert(asked.uid.clone(), claim.clone());
        checkpoint.save().map_err(|error| error.to_string())?;
        Ok(claim)
    }

    fn devices(&self, uid: &str, claim: &Prepared) -> Vec<Device> {
        let device = |(number, it): (usize, &Allocated)| Device {
            request_names: vec![it.request.clone()],
            pool_name: self.config.name.clone(),
            device_name: it.device.clone(),
            cdi_device_ids: vec![claim_file::id(uid, number)],
            share_id: it.share.clone(),
        };
        claim.devices.iter().enumerate().map(device).collect()
    }

    /// The file is removed first: a claim without an entry and with a file would keep that file for
    /// ever.
    fn unprepare(&self, uid: &str) -> std::result::Result<(), String> {
        check_uid(uid)?;
        let forget = || -> Result<()> {
            let mut checkpoint = Checkpoint::open(&self.config.home())?;
            claim_file::remove(&self.config.cdi, uid)?;
            match checkpoint.claims.remove(uid) {
                Some(_) => checkpoint.save(),
                None => Ok(()),
            }
        };
        forget().map_err(|error| error.to_string())
    }
}

/// The API server and the scheduler know what is allocated; this is for the case that they were
/// wrong, or don't count.
fn has_room(
    claim: &Prepared,
    device: &Allocated,
    others: &[&Prepared],
) -> std::result::Result<(), String> {
    let name = &device.device;
    let neighbours: Vec<_> =
        others.iter().filter(|it| it.devices.iter().any(|it| it.device == *name)).collect();
    if neighbours.len() >= MAX_JOBS {
        return Err(format!(
            "device {name}: {} claims are prepared, {MAX_JOBS} at most",
            neighbours.len()
        ));
    }
    let part = |it: &Prepared| match it.granted.class() {
        Class::RealTime => u64::from(it.granted.compute.unwrap_or(0)),
        Class::BestEffort => 0,
    };
    let left = u64::from(WHOLE).saturating_sub(neighbours.iter().map(|it| part(it)).sum());
    if part(claim) <= left {
        return Ok(());
    }
    Err(format!(
        "device {name}: {} % of its time asked for class rt, {} % are left next to other claims",
        percent(part(claim)),
        percent(left)
    ))
}

/// It becomes part of a file's name.
fn check_uid(uid: &str) -> std::result::Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !uid.is_empty() && uid.len() <= 64 && uid.bytes().all(is_plain) {
        return Ok(());
    }
    Err(format!("{uid:?} isn't the UID of a claim"))
}

/// It becomes part of a path.
fn check_name(name: &str) -> std::result::Result<(), String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain);
    if is_name && !name.starts_with('.') {
        return Ok(());
    }
    Err(format!("{name:?} isn't the name of a claim or its namespace"))
}

#[tonic::async_trait]
impl DraPlugin for Driver {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> std::result::Result<Response<NodePrepareResourcesResponse>, Status> {
        let mut answer = NodePrepareResourcesResponse::default();
        for claim in request.into_inner().claims {
            let prepared = self.prepare(&claim).await;
            let response = prepared.map_or_else(
                |why| {
                    let error = format!("claim {}/{}: {why}", claim.namespace, claim.name);
                    tracing::warn!("{error}");
                    NodePrepareResourceResponse { devices: vec![], error }
                },
                |devices| NodePrepareResourceResponse { devices, error: String::new() },
            );
            answer.claims.insert(claim.uid, response);
        }
        Ok(Response::new(answer))
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> std::result::Result<Response<NodeUnprepareResourcesResponse>, Status> {
        let mut answer = NodeUnprepareResourcesResponse::default();
        for claim in request.into_inner().claims {
            let named = |why| format!("claim {}/{}: {why}", claim.namespace, claim.name);
            let error = self.unprepare(&claim.uid).map_err(named).err().unwrap_or_default();
            answer.claims.insert(claim.uid, NodeUnprepareResourceResponse { error });
        }
        Ok(Response::new(answer))
    }
}
