//! Pointers of C as what they mean.

use crate::fault::{Fault, Result};
use crate::handles::{self, Kind};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::time::Duration;

/// The text at `text`, called `what` in errors.
///
/// # Safety
///
/// Null, or a string that ends with a zero byte and stays as it is for as long as the answer is
/// used.
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str> {
    // SAFETY: `text` is null, or a string that ends with a zero byte and stays as it is: this
    // function demands it.
    let text = unsafe { optional_text(what, text) }?;
    text.ok_or_else(|| Fault::invalid(format!("{what} is null")))
}

/// Like [`text`]; `None` if it is null.
///
/// # Safety
///
/// Like [`text`].
pub(crate) unsafe fn optional_text<'a>(what: &str, text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: `text` is not null, so it is a string that ends with a zero byte and stays as it is:
    // `text` demands it.
    let text = unsafe { CStr::from_ptr(text) };
    let is_utf8 = text.to_str().map(Some);
    is_utf8.map_err(|error| Fault::invalid(format!("{what} is not valid UTF-8: {error}")))
}

/// Gives C a handle of `object` at `to`.
///
/// # Safety
///
/// `to` is not null, and can be written.
pub(crate) unsafe fn give<T: Kind, H>(object: T, to: *mut *mut H) -> Result<()> {
    let handle = handles::open(object)?;
    // SAFETY: `to` can be written: `give` demands it.
    unsafe { to.write_unaligned(ptr::without_provenance_mut(handle)) };
    Ok(())
}

/// Refuses a null pointer to a place that is called `what`.
pub(crate) fn place<T>(what: &str, place: *const T) -> Result<()> {
    if place.is_null() {
        return Err(Fault::invalid(format!("{what} is null")));
    }
    Ok(())
}

/// The bytes of `count` values of an array, of which there are to be `want`.
pub(crate) fn array_bytes(
    what: &str,
    array: *const f32,
    count: usize,
    want: usize,
) -> Result<usize> {
    if count != want {
        return Err(Fault::invalid(format!("{what} must have {want} values, got {count}")));
    }
    place(what, array)?;
    Ok(count * size_of::<f32>())
}

/// Refuses another number of bytes than `want`, and null unless there are none.
pub(crate) fn data_bytes<T>(what: &str, data: *const T, bytes: usize, want: usize) -> Result<()> {
    if bytes != want {
        return Err(Fault::invalid(format!("{what} must have {want} bytes, got {bytes}")));
    }
    if want > 0 { place(what, data) } else { Ok(()) }
}

/// Gives C a text: as much of it as fits `size` bytes with a zero byte at its end, and the bytes of
/// the whole with that.
///
/// # Safety
///
/// `size` bytes at `name` can be written, or `size` is 0; `needed` is null or can be written.
pub(crate) unsafe fn give_text(
    whole: &str,
    name: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> Result<()> {
    if size > 0 {
        place("name", name)?;
        let cut = &whole[..whole.floor_char_boundary(size - 1)];
        // SAFETY: `size` bytes at `name` can be written: `give_text` demands it. `cut` and a zero
        // byte are `size` bytes at most.
        unsafe {
            ptr::copy_nonoverlapping(cut.as_ptr(), name.cast(), cut.len());
            name.add(cut.len()).write(0);
        }
    }
    if !needed.is_null() {
        // SAFETY: `needed` is not null, so it can be written: `give_text` demands it.
        unsafe { needed.write_unaligned(whole.len() + 1) };
    }
    Ok(())
}

/// A time in microseconds; `None` if it is negative.
pub(crate) fn time(micros: i64) -> Option<Duration> {
    u64::try_from(micros).ok().map(Duration::from_micros)
}
