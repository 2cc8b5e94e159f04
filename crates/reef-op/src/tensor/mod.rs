//! Operations on tensors of any rank and element type, and their definitions.
//!
//! In: [`TensorOp`], plain data made by readers of networks. Out: its values, by plain loops over
//! any range of the outputs ([`TensorOp::compute`]). A device runs these loops as its blocks or
//! brings kernels of its own; readers evaluate constants with them, and tests compare with them.
//!
//! There are few kinds, and everything else is made of them:
//!
//! | kind | gives | for example |
//! |---|---|---|
//! | [`Map`] | a formula of elements, broadcast | Add, Where, Gelu, Cast |
//! | [`Move`] | elements from elsewhere, an axis at a time | Transpose, Slice, Pad, Expand, Tile, DepthToSpace |
//! | [`Concat`] | tensors one after the other | Concat |
//! | [`Fold`] | many elements as one | Reduce*, pools, ArgMax |
//! | [`Contract`] | sums of products | MatMul, Gemm, convolutions, Einsum, Resize |
//! | [`Finished`] | a contraction with a formula of its sums | a layer with bias and activation |
//! | [`Depthwise`] | a convolution of each channel by itself, with padding and bias | what Pad, a contraction and Add are together |
//! | [`Eight`] | a convolution between numbers of 8 bits | QLinearConv, or what formulas, Pad and a contraction are together |
//! | [`RowMap`] | a formula of elements and of folds of their row | softmax and normalisations as one |
//! | [`Gather`], [`Scatter`] | what indices say | Gather, GatherND, ScatterElements, OneHot |
//! | [`Scan`] | running sums | CumSum |
//! | [`TopK`] | the largest of each row | TopK |
//! | [`Suppress`] | the best of boxes that overlap | NonMaxSuppression |
//! | [`Attention`] | values weighted by how well keys fit | what MatMul, Softmax and MatMul are together |
//!
//! Invariants: tensors are dense and row-major; after [`TensorOp::check`] no operation reads
//! outside of its inputs; an output depends on the inputs alone, not on the range that it is
//! computed in.

mod array;
mod element;
pub(crate) mod kinds;
mod number;
pub(crate) mod op;
mod spec;
mod stored;
mod view;

pub use array::{Array, ElementType, Values};
pub use element::{Domain, Element};
pub use kinds::attention::{Attention, ScoreStep};
pub use kinds::contract::Contract;
pub use kinds::depthwise::Depthwise;
pub use kinds::eight::Eight;
pub use kinds::finished::Finished;
pub use kinds::fold::{Fold, FoldKind};
pub use kinds::formula::{Binary, Formula, Scalar, Term, Unary};
pub use kinds::indexed::{Gather, Scatter, ScatterKind, Target};
pub use kinds::map::Map;
pub use kinds::movement::{Concat, Move, NOWHERE};
pub use kinds::row_map::{RowMap, RowTerm};
pub use kinds::rows::{Scan, TopK};
pub use kinds::suppress::Suppress;
pub use op::{Kind, TensorOp};
pub use spec::Spec;
pub use stored::{Brain, Half, Stored, Truth};
pub use view::{Placed, View};
