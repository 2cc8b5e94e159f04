//! Tenants of a server, and bounds of what their sessions have together.
//!
//! *In*: a file of rights; what sessions are about to take. *Out*: an account for each session, and
//! refusals in words. *Invariant*: the sessions of a tenant together never have more than its
//! bounds, and what each has for itself. What a session has goes back when it is over.

pub(super) mod accounts;
pub(super) mod resource;
