//! `reef bench`: measurements, each next to its baselines in one run.
//!
//! Each bench is a folder: `args`, what is asked for; `measure`, which gives rows; `report`, which
//! shows them; `run`, which calls the three within the frame of [`device_bench`].

pub(crate) mod churn;
pub(crate) mod cluster;
pub(crate) mod colocate;
pub(crate) mod command;
pub(crate) mod device_bench;
pub(crate) mod disb;
pub(crate) mod hung;
pub(crate) mod launch;
pub(crate) mod local;
pub(crate) mod networks;
pub(crate) mod policy;
pub(crate) mod saturate;
pub(crate) mod sides;
pub(crate) mod start;
