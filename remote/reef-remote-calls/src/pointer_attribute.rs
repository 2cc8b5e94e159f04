//! Attributes of addresses, by their numbers in `CUpointer_attribute`.

/// Returns the bytes of an attribute of an address. `None`: it is not told, as it has a handle of
/// the driver's or an address of its host in it, or is not known.
pub fn pointer_attribute_len(attribute: u32) -> Option<usize> {
    match attribute {
        2 | 9 | 15 => Some(4),           // memory type, device, direct access
        6 | 8 | 10 | 13 | 14 => Some(4), // flags
        3 | 7 | 11 | 12 | 20 => Some(8), // device pointer, numbers of buffer and block, range
        _ => None,
    }
}
