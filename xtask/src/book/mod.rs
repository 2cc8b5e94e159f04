//! `cargo xtask book`: checks the documents, and makes a book of them.
//!
//! In: all Markdown files of the repository, `docs/SUMMARY.md`, the list of the book's pages, and
//! scripts, of which each must be text of its language.
//! Out: faults, each with its file and line, or a copy of the pages that mdBook renders.
//!
//! The copy has the repository's layout, so that one relative link leads to the same page in both.

mod calls;
pub(crate) mod check;
mod commands;
mod diagrams;
mod links;
mod markdown;
mod named;
mod render;
mod scripts;
mod summary;
mod variables;
