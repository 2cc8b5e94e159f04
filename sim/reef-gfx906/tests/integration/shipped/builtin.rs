//! kernels/builtin.cu.

use super::guard::{Guard, launch_plain};
use super::shipped;
use crate::common::Mapped;

const BLOCKS: u32 = 5;

#[test]
fn evicted_blocks_list_themselves_and_run_once_later() {
    let append = shipped("builtin", "guarded", "append");
    let mut cells = vec![1_u64; BLOCKS as usize];
    let mut guard = Guard::new([BLOCKS, 1, 1]);
    guard.live = 7;
    let mut memory = Mapped::default();
    let arguments = [memory.map_mut(&mut cells), 5, 0];
    guard.launch(&append, &mut memory, 128, None, &arguments);
    assert_eq!(guard.listed(), [0, 1, 2, 3, 4]);
    assert_eq!(cells, [1; BLOCKS as usize], "nothing has run");

    let list = [3, 1];
    let mut again = Guard { live: 7, epoch: 7, ..Guard::new([BLOCKS, 1, 1]) };
    again.launch(&append, &mut memory, 128, Some(&list), &arguments);
    assert_eq!((again.stopped, &cells[..]), (0, &[1, 8, 1, 8, 1][..]));
}

#[test]
fn blocks_of_a_narrow_launch_take_turns() {
    let append = shipped("builtin", "turns", "append");
    let mut cells = vec![1_u64; BLOCKS as usize];
    let mut memory = Mapped::default();
    let arguments = [memory.map_mut(&mut cells), 5, 0];
    let mut evicted = Guard { live: 7, width: 2, ..Guard::new([BLOCKS, 1, 1]) };
    evicted.launch(&append, &mut memory, 128, None, &arguments);
    assert_eq!(evicted.listed(), [0, 1, 2, 3, 4], "each gives back what would have been its turns");
    assert_eq!(cells, [1; BLOCKS as usize], "nothing has run");

    let list = [4, 0, 3];
    let mut some = Guard { width: 2, ..Guard::new([BLOCKS, 1, 1]) };
    some.launch(&append, &mut memory, 128, Some(&list), &arguments);
    assert_eq!((some.stopped, &cells[..]), (0, &[8, 1, 1, 8, 8][..]));
    let mut all = Guard { width: 2, ..Guard::new([BLOCKS, 1, 1]) };
    all.launch(&append, &mut memory, 128, None, &arguments);
    assert_eq!((all.stopped, &cells[..]), (0, &[29, 8, 8, 29, 29][..]));
}

#[test]
fn a_live_word_that_wrapped_around_is_still_larger() {
    let append = shipped("builtin", "guarded", "append");
    for (live, epoch, stops) in [(2, u32::MAX, 1), (u32::MAX, 2, 0), (4, 4, 0)] {
        let mut cells = [0_u64];
        let mut guard = Guard { live, epoch, ..Guard::new([1, 1, 1]) };
        let mut memory = Mapped::default();
        let arguments = [memory.map_mut(&mut cells), 9, 0];
        guard.launch(&append, &mut memory, 64, None, &arguments);
        assert_eq!(guard.stopped, stops, "live {live}, epoch {epoch}");
        assert_eq!(cells[0], if stops == 1 { 0 } else { 9 });
    }
}

#[test]
fn plain_kernels_note_when_they_begin_and_end_if_they_are_asked() {
    const UNSET: u64 = u64::MAX; // this clock stands at 0
    let append = shipped("builtin", "plain", "append");
    let noted = |blocks, asked: [bool; 2]| {
        let (mut cells, mut times) = (vec![0_u64; BLOCKS as usize], [UNSET; 2]);
        let mut memory = Mapped::default();
        let arguments = [memory.map_mut(&mut cells), 9, 0];
        let at = memory.map_mut(&mut times);
        let words = [0, 1].map(|i| if asked[i] { at + 8 * i as u64 } else { 0 });
        launch_plain(&append, &mut memory, [blocks, 128], words, &arguments);
        assert_eq!(cells[..blocks as usize], vec![9; blocks as usize]);
        times
    };
    assert_eq!(noted(BLOCKS, [false, false]), [UNSET; 2]);
    assert_eq!(noted(BLOCKS, [true, false]), [0, UNSET]);
    assert_eq!(noted(1, [false, true]), [UNSET, 0]);
    assert_eq!(noted(1, [true, true]), [0, 0]);
}

#[test]
fn copies_and_fills_take_every_byte_and_no_other() {
    for (build, shift) in [("plain", 0), ("plain", 4), ("guarded", 0), ("guarded", 4)] {
        let from: Vec<u32> = (0..300).collect();
        let mut to = vec![u32::MAX; 304];
        let mut memory = Mapped::default();
        let (source, target) = (memory.map(&from), memory.map_mut(&mut to));
        // A length that is not a multiple of 16, in chunks of 512 bytes; shifted, not even aligned.
        let arguments = [source, target + shift, 1190, 512];
        let mut launch = |name, blocks, arguments: [u64; 4]| {
            let kernel = shipped("builtin", build, name);
            match build {
                "plain" => launch_plain(&kernel, &mut memory, [blocks, 64], [0; 2], &arguments),
                _ => {
                    let mut guard = Guard::new([blocks, 1, 1]);
                    guard.launch(&kernel, &mut memory, 64, None, &arguments);
                }
            }
        };
        launch("copy", 3, arguments);
        launch("fill", 2, [target + 1200, 3, 0xabcd, 2]);
        let first = shift as usize / 4;
        assert_eq!(to[first..first + 297], from[..297]);
        assert_eq!(to[first + 297] & 0xffff, 297, "two bytes of it");
        assert_eq!(to[300..], [0xabcd, 0xabcd, 0xabcd, u32::MAX], "{build}, {shift}");
    }
}

#[test]
fn the_toy_network_adds_and_multiplies() {
    let a: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..128).map(|i| 0.5 * i as f32).collect();
    let (mut temp, mut out) = (vec![0_f32; 256], vec![0_f32; 256]);
    let mut memory = Mapped::default();
    let [a_at, b_at] = [memory.map(&a), memory.map(&b)];
    let [temp_at, out_at] = [memory.map_mut(&mut temp), memory.map_mut(&mut out)];
    let mut launch = |name, arguments: [u64; 3]| {
        let kernel = shipped("builtin", "guarded", name);
        Guard::new([2, 1, 1]).launch(&kernel, &mut memory, 128, None, &arguments);
    };
    launch("add", [b_at, a_at, temp_at]);
    launch("multiply", [temp_at, a_at, out_at]);
    for i in 0..256 {
        assert_eq!(temp[i], b[i % 128] + a[i]);
        assert_eq!(out[i], temp[i % 128] * a[i]);
    }
}

#[test]
fn counts_are_reported_and_cleared() {
    let report = shipped("builtin", "plain", "report");
    let mut stopped: Vec<u32> = (0..300).collect();
    let (mut host, mut done) = (vec![0_u32; 301], [0_u32]);
    let mut memory = Mapped::default();
    let words = [memory.map_mut(&mut stopped), memory.map_mut(&mut host)];
    let arguments = [words[0], words[1], 300, memory.map_mut(&mut done), 17];
    report.launch(&mut memory, [1, 1, 1], [256, 1, 1], &arguments).expect("runs");
    assert_eq!(host[..300], (0..300).collect::<Vec<u32>>());
    assert_eq!((host[300], stopped, done), (0, vec![0; 300], [17]));
}

#[test]
fn a_word_is_stored_and_the_time_is_stamped() {
    let (mut word, mut time, mut done) = ([0_u32, 1], [u64::MAX], [0_u32]);
    let mut memory = Mapped::default();
    let arguments = [memory.map_mut(&mut word), 0x1_0000_0007];
    let store = shipped("builtin", "plain", "store");
    store.launch(&mut memory, [1, 1, 1], [1, 1, 1], &arguments).expect("runs");
    assert_eq!(word, [7, 1]);
    let arguments = [memory.map_mut(&mut time), memory.map_mut(&mut done), 3];
    let stamp = shipped("builtin", "plain", "stamp");
    stamp.launch(&mut memory, [1, 1, 1], [1, 1, 1], &arguments).expect("runs");
    assert_eq!((time, done), ([0], [3]), "this clock stands still");
}
