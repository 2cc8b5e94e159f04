//! Sessions over connections that break, through shared memory, and from one server to another.

mod migration;
mod session;
mod shared;
mod support;
