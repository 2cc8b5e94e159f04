//! Where a program says what of it is worth a profile.

use super::declare::hooks;
use crate::profile::range::range;

hooks! {
    cuProfilerStart() |real| range(true, real);
    cuProfilerStop() |real| range(false, real);
}
