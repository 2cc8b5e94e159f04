//! Pages that have holders alone.

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
        self.holders.hold(holder);
    }

    pub(crate) fn release(&self, holder: u32, _: spans::Time) {
        self.holders.release(holder);
    }
}
