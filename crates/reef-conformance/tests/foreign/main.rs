//! A backend that REEF doesn't know takes the suite with one line, and the suite finds what is
//! wrong with it.

mod dozing;
mod faults;
mod toy;

reef_conformance::suite!(foreign, crate::toy::Toy, "");
