//! Lists of a program, which another of its threads may change at any time.

/// Returns a copy of a list, so that the driver can be given what was looked at. It is empty if the
/// list is null. `None`: there is no memory for it.
///
/// # Safety
///
/// The list is null, or has `count` entries.
pub(crate) unsafe fn copied<T: Copy>(list: *const T, count: usize) -> Option<Vec<T>> {
    let mut copy = Vec::new();
    if list.is_null() || count == 0 {
        return Some(copy);
    }
    copy.try_reserve_exact(count).ok()?;
    // SAFETY: `# Safety` demands `count` entries, and there is room for them. They are copied as
    // bytes, because a program need not align its list.
    unsafe {
        let bytes = count * size_of::<T>();
        std::ptr::copy_nonoverlapping(list.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), bytes);
        copy.set_len(count);
    }
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_of_a_list_stays_as_it_was_read() {
        let mut list = [1_usize, 2, 3];
        // SAFETY: a list of three, none, and a null one.
        let copies = unsafe {
            let none = std::ptr::null::<usize>();
            [copied(list.as_ptr(), 3), copied(list.as_ptr(), 0), copied(none, 3)]
        };
        list.fill(7);
        assert_eq!(copies.map(Option::unwrap_or_default), [vec![1, 2, 3], vec![], vec![]]);
        assert_eq!(list, [7; 3]);
        // SAFETY: no entry is read, because there is no memory for a copy.
        assert_eq!(unsafe { copied(list.as_ptr(), usize::MAX) }, None);
    }
}
