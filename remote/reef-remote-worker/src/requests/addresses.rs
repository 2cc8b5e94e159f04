//! Addresses among the arguments of the table's calls.

use reef_remote_calls::{Call, MAX_ARGS, Spec};

/// Memory that a call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedMemory {
    /// Bytes from an address on.
    Range(u64, u64),
    /// An allocation, or null.
    Allocation(u64),
}

/// Returns the memory that a call names by its arguments.
pub(crate) fn named(spec: &'static Spec, args: &[usize; MAX_ARGS]) -> Vec<NamedMemory> {
    let is = |call: Call| std::ptr::eq(spec, call.spec());
    let word = |at: usize| args[at] as u64;
    let fill = |bytes: u64| vec![NamedMemory::Range(word(0), word(2).saturating_mul(bytes))];
    let rows = |bytes: u64| {
        let row = word(3).saturating_mul(bytes);
        vec![NamedMemory::Range(word(0), span(row, word(1), word(4)).unwrap_or(u64::MAX))]
    };
    if is(Call::cuMemcpyDtoDAsync_v2) {
        vec![NamedMemory::Range(word(0), word(2)), NamedMemory::Range(word(1), word(2))]
    } else if is(Call::cuMemsetD8Async) {
        fill(1)
    } else if is(Call::cuMemsetD16Async) {
        fill(2)
    } else if is(Call::cuMemsetD32Async) {
        fill(4)
    } else if is(Call::cuMemsetD2D8Async) {
        rows(1)
    } else if is(Call::cuMemsetD2D16Async) {
        rows(2)
    } else if is(Call::cuMemsetD2D32Async) {
        rows(4)
    } else if is(Call::cuStreamWaitValue32_v2) || is(Call::cuStreamWriteValue32_v2) {
        vec![NamedMemory::Range(word(1), 4)]
    } else if is(Call::cuStreamWaitValue64_v2) || is(Call::cuStreamWriteValue64_v2) {
        vec![NamedMemory::Range(word(1), 8)]
    } else if is(Call::cuMemGetAddressRange_v2) || is(Call::cuPointerGetAttribute) {
        vec![NamedMemory::Range(word(2), 1)]
    } else if is(Call::cuMemFree_v2) || is(Call::cuMemFreeAsync) {
        vec![NamedMemory::Allocation(word(0))]
    } else {
        Vec::new()
    }
}

/// Memory that a fill in a graph names: `CUDA_MEMSET_NODE_PARAMS`.
pub(crate) fn filled(params: &[u64]) -> NamedMemory {
    let &[at, pitch, value_and_element, width, height, ..] = params else {
        return NamedMemory::Allocation(u64::MAX); // it is shorter: nothing is there
    };
    let element = value_and_element >> 32;
    if !matches!(element, 1 | 2 | 4) {
        return NamedMemory::Range(at, u64::MAX); // there is no such fill
    }
    let row = width.saturating_mul(element);
    NamedMemory::Range(at, span(row, pitch, height).unwrap_or(u64::MAX))
}

/// Bytes from the first row's begin to the last one's end. `None`: rows overlap, so that it is not
/// known what the driver makes of them, or there are more bytes than addresses.
pub(crate) fn span(row: u64, pitch: u64, rows: u64) -> Option<u64> {
    match rows {
        0 => Some(0),
        1 => Some(row),
        _ if row == 0 => Some(0),
        rows if pitch >= row => pitch.checked_mul(rows - 1)?.checked_add(row),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_remote_calls::{Arg, CALLS};

    fn of(call: Call, words: &[usize]) -> Vec<NamedMemory> {
        let mut args = [0; MAX_ARGS];
        args[..words.len()].copy_from_slice(words);
        named(call.spec(), &args)
    }

    #[test]
    fn bytes_of_elements_and_rows_are_counted() {
        assert_eq!(of(Call::cuMemsetD32Async, &[64, 0, 5]), [NamedMemory::Range(64, 20)]);
        let two = [NamedMemory::Range(64, 9), NamedMemory::Range(128, 9)];
        assert_eq!(of(Call::cuMemcpyDtoDAsync_v2, &[64, 128, 9]), two);
        assert_eq!(
            of(Call::cuMemsetD2D16Async, &[64, 100, 0, 3, 4]),
            [NamedMemory::Range(64, 306)]
        );
        assert_eq!(of(Call::cuMemsetD2D8Async, &[64, 100, 0, 3, 0]), [NamedMemory::Range(64, 0)]);
        let single = [NamedMemory::Range(64, 6)];
        assert_eq!(of(Call::cuMemsetD2D16Async, &[64, 0, 0, 3, 1]), single);
        let none = [NamedMemory::Range(64, u64::MAX)];
        for pitch in [0, 5] {
            assert_eq!(of(Call::cuMemsetD2D16Async, &[64, pitch, 0, 3, 2]), none, "{pitch}");
        }
        assert_eq!(filled(&[64, 0, 4 << 32, 3, 2, 0]), none[0]);
        assert_eq!(filled(&[64, 100, 3 << 32, 3, 2, 0]), none[0]);
        let huge = of(Call::cuMemsetD2D32Async, &[64, usize::MAX, 0, usize::MAX, usize::MAX]);
        assert_eq!(huge, [NamedMemory::Range(64, u64::MAX)]);
        for call in [Call::cuPointerGetAttribute, Call::cuMemGetAddressRange_v2] {
            assert_eq!(of(call, &[8, 2, 64]), [NamedMemory::Range(64, 1)]);
        }
        assert_eq!(filled(&[64, 100, 4 << 32, 3, 2, 0]), NamedMemory::Range(64, 112));
    }

    /// A new line of the table with numbers of 64 bits must say whether they are addresses.
    #[test]
    fn each_call_with_long_words_is_known() {
        // Sizes, indexes, flags and counts.
        const OTHERS: [&str; 15] = [
            "cuCtxSetLimit",
            "cuMemPoolTrimTo",
            "cuMemAllocAsync",
            "cuMemAllocFromPoolAsync",
            "cuFuncGetParamInfo",
            "cuKernelGetParamInfo",
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
            "cuGraphInstantiateWithFlags",
            "cuGraphAddEmptyNode",
            "cuGraphAddChildGraphNode",
            "cuGraphAddMemsetNode",
            "cuGraphAddDependencies",
            "cuMemAlloc_v2",
            "cuMemAllocPitch_v2",
        ];
        for spec in CALLS.iter().filter(|spec| spec.args.contains(&Arg::Word64)) {
            let name = spec.name.to_str().unwrap();
            let has_addresses = !named(spec, &[1; MAX_ARGS]).is_empty();
            assert!(has_addresses != OTHERS.contains(&name), "{name}");
        }
    }
}
