//! `reef bench colocate`: what a real-time network pays for company, and what the company keeps.

pub(crate) mod args;
pub(crate) mod arrivals;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod run;
