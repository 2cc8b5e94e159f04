//! Work and devices for tests and benches.
//!
//! *In*: any [`Device`](crate::Device). *Out*: [cells](cells), whose values show whether each block
//! ran once; a device for this crate's unit tests, which does what a test says. *Invariant*: the
//! cells use nothing but the kernel `append`, which every device has.

pub(crate) mod cells;
#[cfg(test)]
pub(crate) mod fake;
