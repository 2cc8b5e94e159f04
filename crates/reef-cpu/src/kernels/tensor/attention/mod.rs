//! Attention of singles: products by the tuned product of a tile, softmax while keys go by.
//!
//! In: an operation that was checked, and its inputs. Out: rows of the output. A block has some
//! rows that see the same keys. It takes these a tile at a time: scores of the tile, powers of what
//! they are below the largest so far, products with values, which are scaled down whenever a larger
//! score comes (Milakov and Gimelshein 2018; Dao et al. 2022). So it needs memory for its rows and
//! a tile of keys, however many there are.
//!
//! Invariants: rows are in the unit's scratch memory until nothing can stop the block any more; it
//! polls the stop word after each product of a tile and each row.

pub(super) mod heads;
mod scores;
mod shape;
