//! What benches and the demo run: networks with weights and pictures, requests that arrive, clients
//! that never pause; and how much of their work is done.

pub(crate) mod baselines;
pub(crate) mod clients;
pub(crate) mod clock;
pub(crate) mod kept;
pub(crate) mod networks;
pub(crate) mod preempted;
pub(crate) mod program;
pub(crate) mod requests;
pub(crate) mod tensors;
