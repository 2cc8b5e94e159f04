//! Work of benches and the demo: networks with weights and images, requests that arrive, clients
//! that never pause; and the throughput that they keep.

pub(crate) mod baselines;
pub(crate) mod calibrate;
pub(crate) mod clients;
pub(crate) mod clock;
pub(crate) mod networks;
pub(crate) mod preempted;
pub(crate) mod program;
pub(crate) mod requests;
pub(crate) mod stopping;
pub(crate) mod tensors;
pub(crate) mod throughput;
