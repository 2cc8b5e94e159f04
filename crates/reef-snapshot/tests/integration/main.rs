//! Snapshots through the public interface, on the software device.

mod common;
mod cuts;
mod damage;
mod networks;
mod process;
