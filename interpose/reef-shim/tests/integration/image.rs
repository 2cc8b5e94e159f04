//! Images in memory, as far as they go. The library's own tests can't be built into it, as it
//! exports the driver's names.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../src/limit/image.rs"]
mod reader;

use reef_ptx::image::Footprint;

const CUBIN: &[u8] = include_bytes!("../../../reef-ptx/tests/corpus/scale_in_place.cubin");
const FATBIN: &[u8] = include_bytes!("../../../reef-ptx/tests/bump.fatbin");
const PAGE: usize = 4096;

/// Pages at whose end an image stands, and behind which there is no memory.
struct LastPages {
    begin: *mut u8,
    bytes: usize,
}

impl LastPages {
    fn new(pages: usize) -> Self {
        let (bytes, access) = (pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, whose last page is given back at once.
        let begin = unsafe {
            let begin = libc::mmap(std::ptr::null_mut(), bytes + PAGE, access, flags, -1, 0);
            assert_ne!(begin, libc::MAP_FAILED);
            assert_eq!(libc::munmap(begin.add(bytes), PAGE), 0);
            begin.cast()
        };
        Self { begin, bytes }
    }

    /// Reads an image that ends with the memory.
    fn read(&self, image: &[u8]) -> Result<&[u8], String> {
        // SAFETY: it has room, and another place than the image.
        unsafe {
            let at = self.begin.add(self.bytes - image.len());
            at.copy_from_nonoverlapping(image.as_ptr(), image.len());
            reader::whole(at)
        }
    }
}

impl Drop for LastPages {
    fn drop(&mut self) {
        // SAFETY: memory of `new`.
        unsafe { libc::munmap(self.begin.cast(), self.bytes) };
    }
}

#[test]
fn image_at_the_end_of_memory_is_read_as_a_whole() {
    let pages = LastPages::new(CUBIN.len().div_ceil(PAGE));
    for image in [CUBIN, FATBIN] {
        assert_eq!(pages.read(image), Ok(image));
    }
    assert_eq!(pages.read(b".version 8.0\n\0"), Ok(b".version 8.0\n".as_slice()));
    assert_eq!(pages.read(b"a\0"), Ok(b"a".as_slice()));
    assert!(!Footprint::of(pages.read(CUBIN).unwrap(), 90).is_unknown);
}

#[test]
fn header_that_names_more_than_memory_is_refused() {
    let pages = LastPages::new(CUBIN.len().div_ceil(PAGE));
    let lacking = Err("its headers name more than is there".to_owned());
    for len in [16, 63, 64, CUBIN.len() / 2, CUBIN.len() - 1] {
        assert_eq!(pages.read(&CUBIN[..len]), lacking, "{len} bytes");
    }
    for bytes in [1_u64, 1 << 20, 1 << 33] {
        let mut fatbin = FATBIN.to_vec();
        let named = u64::from_le_bytes(fatbin[8..16].try_into().unwrap());
        fatbin[8..16].copy_from_slice(&(named + bytes).to_le_bytes());
        assert_eq!(pages.read(&fatbin), lacking, "{bytes} more");
    }
    assert_eq!(pages.read(&FATBIN[..15]), lacking);
}

#[test]
fn program_of_the_host_is_not_read_on() {
    let mut program = [0_u8; 64];
    program[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    program[18] = 62; // x86-64
    program[20] = 1;
    program[40..48].copy_from_slice(&(1_u64 << 32).to_le_bytes());
    program[60] = 9; // sections, far away
    let said = LastPages::new(1).read(&program).unwrap_err();
    assert_eq!(said, "this ELF file is not for an NVIDIA GPU");
}

#[test]
fn wrapper_leads_to_its_fatbin() {
    let wrapper = |to: *const u8| [0x1_4662_43b1, to.addr() as u64, 0];
    let read = |wrapper: [u64; 3]| {
        // SAFETY: a wrapper, and what it leads to.
        unsafe { reader::whole(wrapper.as_ptr().cast()).map(<[u8]>::to_vec) }
    };
    assert_eq!(read(wrapper(FATBIN.as_ptr())), Ok(FATBIN.to_vec()));
    let none = Err("its wrapper has no fatbin".to_owned());
    for to in [std::ptr::null(), std::ptr::dangling(), CUBIN.as_ptr()] {
        assert_eq!(read(wrapper(to)), none, "{to:?}");
    }
    // SAFETY: null is allowed.
    assert!(unsafe { reader::whole(std::ptr::null()) }.is_err());
}
