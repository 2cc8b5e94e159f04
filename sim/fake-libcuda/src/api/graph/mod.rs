//! Graphs: captured or built, asked about, cloned, instantiated, updated and launched.

mod ask;
mod capture;
mod exec;
mod nodes;
mod params;
