//! Thunks: functions that jump to the real driver, one for each of its names without a hook.

use super::slots::{SLOTS, bind};

macro_rules! thunk {
    ($name:ident, $slot:literal) => {
        reef_guest::thunk!($name, $slot, SLOTS, first_call);
    };
}

reef_guest::first_call!(first_call, bind);

include!(concat!(env!("OUT_DIR"), "/thunks.rs"));
