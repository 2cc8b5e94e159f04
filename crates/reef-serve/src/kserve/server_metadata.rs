//! Name and extensions of the server, for metadata.

use crate::server::Server;

/// Name of the server.
pub(crate) const NAME: &str = "reef";

/// Supported extensions of the protocol on every device.
const EXTENSIONS: [&str; 10] = [
    "binary_tensor_data",
    "classification",
    "logging",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "sequence",
    "statistics",
    "system_shared_memory",
    "trace",
];

/// Returns the extensions supported on the daemon's devices.
pub(crate) fn extensions(server: &Server) -> Vec<&'static str> {
    let cuda = server.has_cuda().then_some("cuda_shared_memory");
    let mut all: Vec<_> = EXTENSIONS.into_iter().chain(cuda).collect();
    all.sort_unstable();
    all
}
