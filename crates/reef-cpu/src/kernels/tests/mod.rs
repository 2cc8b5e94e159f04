//! Every operator against its definition, over odd shapes and random ones, and its blocks against
//! the contract of preemption.
//!
//! In: operators of odd shapes (`table`) and of random ones (`drawn`), and what they should give
//! ([`reference`]). Out: that blocks give it (`values`), stopped or not (`stops`), and that all
//! else is refused (`refused`). Invariant: nothing outside of an output is written.
//! [`timing`] measures, if it is asked to.

mod case;
mod drawn;
mod layers;
mod ops;
pub(super) mod reference;
mod refused;
mod stops;
mod table;
pub(super) mod timing;
mod values;
