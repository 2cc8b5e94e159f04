//! What benches and the demo run: networks with weights and pictures, clients that never pause.

pub(crate) mod clients;
pub(crate) mod networks;
