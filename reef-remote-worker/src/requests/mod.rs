//! What each message becomes: calls of the driver.
//!
//! *In*: a message's body, whose numbers are checked here. *Out*: calls, and an answer. *Invariant*:
//! a body that cannot be ends the session, before any call of it is made.

mod copies;
mod images;
mod launches;
mod nodes;
mod reader;
mod table;

pub(crate) use copies::{to_device, to_host};
pub(crate) use images::{Layout, find_function, layout, load};
pub(crate) use launches::{Params, launch};
pub(crate) use nodes::kernel_node;
pub(crate) use table::table_call;
