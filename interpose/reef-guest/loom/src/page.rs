//! Pages that have holders alone.
//!
//! `hold` and `release` call what those of `Page` call, without the spans of time that these note
//! afterwards: no gate reads them.

pub(crate) mod spans {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Time;

    impl Time {
        pub(crate) fn now() -> Self {
            Self
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) holders: crate::hold::holders::Holders,
}

impl Page {
    pub(crate) fn hold(&self, holder: u32, _: spans::Time) {
        self.holders.add(holder);
    }

    pub(crate) fn release(&self, holder: u32, _: spans::Time) {
        self.holders.take(holder);
    }
}
