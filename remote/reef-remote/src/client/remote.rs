//! The device's handle, and the types that it names.

use super::connection::Connection;
use super::event::Event;
use super::graph::Graph;
use super::objects::{Buffer, Handle, Kernel};
use super::preemptor::Checkpoint;
use crate::error::NAME;
use reef_core::{Backend, Result};
use reef_wire::Cold;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A device of a server. It is opened by `ADDRESS/DEVICE`.
#[derive(Debug, Clone)]
pub struct Remote(pub(super) Arc<Connection>);

impl Backend for Remote {
    const NAME: &'static str = NAME;
    type Buffer = Buffer;
    type Kernel = Kernel;
    type Event = Event;
    type Checkpoint = Checkpoint;
    type Graph = Graph;
}

impl Remote {
    /// Makes up a name, for an object that a message makes without a reply.
    pub(super) fn handle(&self, tag: u8) -> Handle {
        Handle { connection: self.0.clone(), id: self.0.mint(tag) }
    }

    /// Has the server make an object, under a name that the message is given, and returns it with
    /// the reply.
    pub(super) fn make<M: Cold, R: DeserializeOwned>(
        &self,
        tag: u8,
        message: impl FnOnce(u64) -> M,
    ) -> Result<(Handle, R)> {
        let id = self.0.mint(tag);
        match self.0.call_unlatched(&message(id.bits())) {
            Ok(reply) => Ok((Handle { connection: self.0.clone(), id }, reply)),
            Err(error) => {
                self.0.release(id); // it was not made
                Err(error)
            }
        }
    }
}
