//! Sizes of global variables, read from code. The library's own tests can't be built into it, as it
//! exports the driver's names.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[allow(dead_code)] // the library uses more of it
#[path = "../../src/limit/image/mod.rs"]
mod images;

use images::read::size;
use images::size::Size;
use proptest::prelude::*;

/// Returns the size of an image on any device.
fn size_of(image: &[u8]) -> Size {
    images::read::size_of(image, 0)
}

fn text(text: &str) -> u64 {
    size_of(text.as_bytes()).data
}

#[test]
fn variables_of_texts_are_counted_by_type_and_sides() {
    assert_eq!(text(".visible .global .align 4 .b8 g[268435456];"), 256 << 20);
    assert_eq!(
        text(".global .f32 a[8][ 16 ],\n b, c[0x10];\n.global .v4 .u32 d[2];"),
        4 * (145 + 8)
    );
    assert_eq!(text(".global .v2 .b64 a[2U]; .global .u16 b[] = {1, 2, {3}};"), 38);
    assert_eq!(text(".global .b8 a[010]; .weak .global .attribute(.managed) .b16 b[0b11];"), 14);
    assert_eq!(text(".global .align 8 .b8 a[4] = {255, 0, 0, 0};\n.global .u64 b = a;"), 12);
}

#[test]
fn texts_without_variables_take_nothing() {
    let empty = "// .global .b8 a[9];\n/* .global .b8 b[9]; */ .file 1 \".global .b8 c[9];\"\n\
                 .shared .b8 d[9]; .const .b8 e[9]; ld.global.u32 %r1, [%rd1+8]; st.global.v4.f32 [g], {1};";
    assert_eq!(text(empty), 0);
    assert_eq!((text(""), text(".global"), text("a")), (0, 0, 0));
}

#[test]
fn unreadable_sizes_count_as_the_largest() {
    for size in ["99999999999999999999", "N", "0xffffffffffffffff"] {
        assert_eq!(text(&format!(".global .b64 a[{size}];")), u64::MAX, "{size}");
    }
}

/// Machine code with these sections, of which none but the names is there.
fn machine(sections: &[(&str, u64)]) -> Vec<u8> {
    let mut names = vec![0];
    let mut headers = Vec::new();
    for (name, bytes) in sections.iter().chain(&[(".shstrtab", 0)]) {
        let mut header = [0_u8; 64];
        header[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
        header[32..40].copy_from_slice(&bytes.to_le_bytes());
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        headers.push(header);
    }
    let count = headers.len();
    let at = 64 + names.len() as u64;
    headers[count - 1][24..32].copy_from_slice(&64_u64.to_le_bytes());
    headers[count - 1][32..40].copy_from_slice(&(names.len() as u64).to_le_bytes());
    let mut image = vec![0_u8; 64];
    image[..4].copy_from_slice(b"\x7fELF");
    image[40..48].copy_from_slice(&at.to_le_bytes());
    image[60..62].copy_from_slice(&(count as u16).to_le_bytes());
    image[62..64].copy_from_slice(&(count as u16 - 1).to_le_bytes());
    image.extend(names);
    headers.iter().for_each(|header| image.extend(header));
    image
}

/// A fat binary of entries: kind, flags, bytes when unpacked, and bytes.
fn fat(entries: &[(u16, u64, usize, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, flags, unpacked, bytes) in entries {
        let mut header = [0_u8; 64];
        header[..2].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&64_u32.to_le_bytes());
        header[8..16].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        header[16..20].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        header[28] = 90;
        header[40..48].copy_from_slice(&flags.to_le_bytes());
        header[56..64].copy_from_slice(&(*unpacked as u64).to_le_bytes());
        body.extend(header);
        body.extend(*bytes);
    }
    let mut image = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    image.extend((body.len() as u64).to_le_bytes());
    image.extend(body);
    image
}

#[test]
fn sections_with_variables_and_code_are_counted() {
    let image = machine(&[
        (".nv.global", 256 << 20),
        (".nv.global.init", 16),
        (".text.kernel", 512),
        (".nv.shared.kernel", 1 << 16),
        (".nv.info", 100),
    ]);
    let found = size_of(&image);
    assert_eq!((found.data, found.code, found.is_unknown), ((256 << 20) + 16, 512, false));
    // SAFETY: an image that is there as a whole, and a program's way to say where a fat binary is.
    unsafe {
        assert_eq!(size(image.as_ptr(), 9), found);
        let fat = fat(&[(2, 0, 0, &image)]);
        assert_eq!(size(fat.as_ptr(), 9), found);
        let wrapper = [0x1_4662_43b1, fat.as_ptr() as u64, 0];
        assert_eq!(size(wrapper.as_ptr().cast(), 9), found);
        assert_eq!(size(std::ptr::null(), 9).data, 0);
        assert_eq!(size(c".global .b8 a[7];".as_ptr().cast(), 9).data, 7);
    }
}

#[test]
fn of_a_fat_binary_the_largest_machine_code_counts() {
    let (small, large) = (machine(&[(".nv.global", 10)]), machine(&[(".nv.global", 20)]));
    let text = b".global .b8 a[30];\0";
    let found = size_of(&fat(&[(2, 0, 0, &small), (2, 0, 0, &large), (1, 0, 0, text)]));
    assert_eq!(found.data, 20, "text isn't loaded where there is machine code");
    assert_eq!(size_of(&fat(&[(1, 0, 0, text)])).data, 30);
    let both = fat(&[(2, 0, 0, &large), (1, 0, 0, text)]);
    let on = |major: u32| images::read::size_of(&both, major).data;
    assert_eq!((on(9), on(8)), (20, 30), "machine code of 9.0 is none for 8.x");
}

#[test]
fn packed_entries_are_read_or_said_to_be_unknown() {
    // ".global .b8 a[" as literals, eight times "9" by a copy of itself, and "];" at the end.
    let mut packed = vec![0xf4, 0x00];
    packed.extend(b".global .b8 a[9");
    packed.extend([1, 0, 0x20]);
    packed.extend(b"];");
    let unpacked = 15 + 8 + 2;
    let found = size_of(&fat(&[(1, 0x2000, unpacked, &packed)]));
    assert_eq!((found.data, found.is_unknown), (999_999_999, false));
    assert!(size_of(&fat(&[(1, 0x2000, unpacked - 3, &packed)])).is_unknown, "more than it says");
    assert!(size_of(&fat(&[(2, 0x8000, 100, b"(\xb5/\xfd")])).is_unknown);
}

/// Files of NVIDIA's compiler:
/// `REEF_TEST_IMAGES="FILE BYTES FILE BYTES" cargo test -p reef-shim --test integration image`.
#[test]
fn files_of_the_compiler_are_read() {
    let files = std::env::var("REEF_TEST_IMAGES").unwrap_or_default();
    let words: Vec<_> = files.split_whitespace().collect();
    for pair in words.chunks_exact(2) {
        let found = size_of(&std::fs::read(pair[0]).unwrap());
        assert_eq!(found.data.to_string(), pair[1], "{}: {found:?}", pair[0]);
    }
}

proptest! {
    #[test]
    fn broken_images_are_read_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0..400_usize, to in any::<u8>(), cut in 0..500_usize, which in 0..4_usize,
    ) {
        let machine = machine(&[(".nv.global", 10), (".text.a", 4)]);
        let packed = fat(&[(1, 0x2000, 100, &bytes), (2, 0, 0, &machine)]);
        let mut image = [bytes, machine, packed, b".global .b8 a[3] = {1, 2};".to_vec()][which].clone();
        if let Some(byte) = image.get_mut(at) {
            *byte = to;
        }
        image.truncate(cut);
        let _ = size_of(&image); // whatever it says
    }
}
