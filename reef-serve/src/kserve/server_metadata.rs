//! What the server calls itself, and what of the protocol it has.

use crate::server::Server;

/// What the server calls itself.
pub(crate) const NAME: &str = "reef";

/// Extensions of the protocol that are there.
const EXTENSIONS: [&str; 9] = [
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
    "system_shared_memory",
    "trace",
];

/// Extensions of the protocol that are there, on the devices that the daemon has.
pub(crate) fn extensions(server: &Server) -> Vec<&'static str> {
    let cuda = server.has_cuda().then_some("cuda_shared_memory");
    let mut all: Vec<_> = EXTENSIONS.into_iter().chain(cuda).collect();
    all.sort_unstable();
    all
}
