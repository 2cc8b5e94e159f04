//! Operators that move elements: shapes, slices, what indices say.

pub(super) mod boxes;
pub(super) mod indexed;
pub(super) mod movement;
pub(super) mod resize;
pub(super) mod selected;
pub(super) mod shapes;
pub(super) mod slices;
