//! A client on one device, with its replica there.

use super::demand::Demand;
use super::ledger::LedgerEntry;
use super::node::Node;
use reef_core::{Account, BeClient, Class, ClientConfig, Device, Dispatcher, Result, RtClient};
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
}

/// A client that can be placed: [`RtClient`] and [`BeClient`].
pub trait PlacedClient<D: Device>: Sized + sealed::Sealed {
    /// Class of its work.
    const CLASS: Class;

    /// Opens one.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    fn open(dispatcher: &Dispatcher<D>, config: ClientConfig) -> Result<Self>;
}

impl<D: Device> sealed::Sealed for RtClient<D> {}
impl<D: Device> sealed::Sealed for BeClient<D> {}

impl<D: Device> PlacedClient<D> for RtClient<D> {
    const CLASS: Class = Class::RealTime;

    /// Charges an account of its own: periods go by the clock of one device.
    fn open(dispatcher: &Dispatcher<D>, config: ClientConfig) -> Result<Self> {
        let mut client = dispatcher.real_time()?.priority(config.priority);
        client.charge(&Account::new(config.rate));
        Ok(client)
    }
}

impl<D: Device> PlacedClient<D> for BeClient<D> {
    const CLASS: Class = Class::BestEffort;

    fn open(dispatcher: &Dispatcher<D>, config: ClientConfig) -> Result<Self> {
        dispatcher.best_effort(config)
    }
}

/// Makes on a device what a client runs there.
pub(super) type Build<D, M, E> = Box<dyn Fn(&Node<D>) -> Result<M, E> + Send + Sync>;

/// Specification of a client, for placing it.
pub(super) struct Spec<D: Device, M, E> {
    pub(super) demand: Demand,
    pub(super) config: ClientConfig,
    pub(super) build: Build<D, M, E>,
}

/// A client with what it runs, on one device. Fields are dropped in this order: the client waits
/// for what runs of it.
#[derive(Debug)]
pub(super) struct Assignment<D: Device, C, M> {
    pub(super) client: C,
    pub(super) replica: M,
    _entered: LedgerEntry,
    pub(super) node: Arc<Node<D>>,
}

/// A client and its replica on a device that is lost. They are dropped with the client of the
/// cluster and not before its next request: what frees memory of a lost device may hang.
#[derive(Debug)]
pub(super) struct LostAssignment<C, M> {
    _client: C,
    _replica: M,
}

impl<D: Device, C, M> Assignment<D, C, M> {
    /// Leaves a device that is lost, whose ledger doesn't have the client any more.
    pub(super) fn leave(self) -> LostAssignment<C, M> {
        LostAssignment { _client: self.client, _replica: self.replica }
    }
}

impl<D: Device, C: PlacedClient<D>, M> Assignment<D, C, M> {
    /// Makes what it runs, then opens the client.
    pub(super) fn take<E: From<reef_core::Error>>(
        node: Arc<Node<D>>,
        entered: LedgerEntry,
        spec: &Spec<D, M, E>,
    ) -> Result<Self, E> {
        let replica = (spec.build)(&node)?;
        let client = C::open(node.dispatcher(), spec.config)?;
        Ok(Self { client, replica, _entered: entered, node })
    }
}
