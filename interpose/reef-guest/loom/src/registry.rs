//! Gates of best-effort guests. The rest of this folder needs an operating system.

#[path = "../../src/registry/gates.rs"]
mod gates;
#[path = "../../src/registry/sync.rs"]
mod sync;

mod pass {
    use crate::page::Page;
    use loom::sync::Arc;

    #[derive(Clone, Debug, Default)]
    pub(super) struct Peer {
        pub(super) page: Arc<Page>,
    }

    impl Peer {
        pub(super) fn is(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.page, &other.page)
        }
    }
}
