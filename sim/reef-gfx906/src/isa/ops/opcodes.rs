//! The tables of all kinds, one after the other.

use super::{
    bytes, compare, convert, cross, double, float, flow, global, half, int, lds, packed, scalar,
    scalar_memory, scratch, short, wide,
};
use crate::isa::inst::Op;

/// All lines.
pub(in crate::isa) fn all() -> impl Iterator<Item = &'static Op> {
    let tables: [&'static [Op]; 16] = [
        bytes::OPS,
        convert::OPS,
        cross::OPS,
        double::OPS,
        float::OPS,
        flow::OPS,
        global::OPS,
        half::OPS,
        int::OPS,
        lds::OPS,
        packed::OPS,
        scalar::OPS,
        scalar_memory::OPS,
        scratch::OPS,
        short::OPS,
        wide::OPS,
    ];
    tables.into_iter().chain(compare::TABLES).flatten()
}
