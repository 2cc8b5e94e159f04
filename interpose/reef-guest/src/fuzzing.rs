//! Entry points for the targets in `fuzz/`.

use crate::page::layout::{BYTES, Page};
use crate::page::spans::{MAX_SPANS, Time};

/// Decodes bytes as a daemon or a guest does that received them from the socket.
pub fn message(bytes: &[u8]) {
    crate::join::wire::understand(bytes);
}

/// Uses a page that its guest has filled with these bytes, as a daemon does.
pub fn page(bytes: &[u8]) {
    let page = Box::new(Page::default());
    let length = bytes.len().min(size_of::<Page>()).min(BYTES);
    // SAFETY: a page is atomics alone, which may have any value, and this one is not shared.
    unsafe {
        let to = std::ptr::from_ref(&*page).cast_mut().cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length);
    }
    let _ = page.identity(); // any value is allowed
    page.hold(3, Time(7));
    assert!(page.holders.has(3) && page.spans.behind(0).len() <= MAX_SPANS);
    page.clear(Time(9));
    assert!(!page.holders.is_held() && page.spans.since().is_none());
}
