//! `reef top`: what a daemon does, again and again.
//!
//! On a terminal it is a screen; elsewhere, or with `--json`, each interval gives a line. When the
//! daemon goes, that is said, and it is waited for. Sessions of other machines' programs are shown
//! without a daemon too.

pub(crate) mod guests;
pub(crate) mod jobs;
pub(crate) mod lines;
pub(crate) mod live;
mod rates;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod sessions;
mod tables;
pub(crate) mod view;
pub(crate) mod watch;
