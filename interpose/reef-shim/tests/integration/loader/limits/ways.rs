//! Ways to hold memory of a device: none of them passes the limit, and each gets what fits.

use super::Job;
use crate::common::graph::Graph;
use crate::common::{self, Driver, FAKE, SHIM, call, library};
use std::ffi::CString;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Way of allocation that a program uses.
const WAY: &str = "REEF_TEST_WAY";
/// The limit here, what each step takes, and how often it is tried.
const LIMIT: u64 = 256 << 20;
const PIECE: usize = 64 << 20;
const STEPS: u64 = 16;

/// A program that holds more with each step: a code.
struct Holder {
    driver: Driver,
    step: usize,
    stream: usize,
}

/// `CUmemAllocationProp` and `CUmemPoolProps` begin so: pinned, which handles, where (1: a device),
/// its number.
fn place(location: u32) -> [u32; 24] {
    let mut place = [0; 24];
    place[..4].copy_from_slice(&[1, 1, location, 0]);
    place
}

/// Words of `CUDA_MEM_ALLOC_NODE_PARAMS`: `PIECE` bytes on the first device.
fn node(bytes: usize) -> [usize; 15] {
    let mut words = [0; 15];
    (words[0], words[1], words[13]) = (1, 1, bytes);
    words
}

/// Machine code of 9.0 that has no variables.
const CUBIN: &[u8] = include_bytes!("../../../../../reef-ptx/tests/corpus/scale_in_place.cubin");

/// Fatbin of that machine code and a text.
fn fatbin(text: &[u8]) -> Vec<u8> {
    let entry = |kind: u8, code: &[u8]| {
        let mut head = [0_u8; 64];
        head[..8].copy_from_slice(&[kind, 0, 1, 1, 64, 0, 0, 0]);
        head[8..16].copy_from_slice(&(code.len() as u64).to_le_bytes());
        head[28] = 90;
        [&head[..], code].concat()
    };
    let entries = [entry(2, CUBIN), entry(1, text)].concat();
    let head = [0xba55_ed50 | 1 << 32 | 16 << 48, entries.len() as u64];
    [head.map(u64::to_le_bytes).concat(), entries].concat()
}

/// Returns what a call does while another thread repeats a step.
pub(super) fn while_repeated<T>(step: impl Fn() + Sync, call: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                step();
            }
        });
        let done = call();
        is_over.store(true, Relaxed);
        done
    })
}

/// Passes on an error.
macro_rules! must {
    ($code:expr) => {
        match $code {
            0 => {}
            code => return code,
        }
    };
}

impl Holder {
    fn piece(&self, handle: &mut usize) -> u32 {
        let driver = self.driver;
        call!(driver, cuMemCreate(std::ptr::from_mut(handle), PIECE, place(1).as_ptr(), 0))
    }

    fn pool(&self, location: u32, is_destroyed: bool) -> u32 {
        let (driver, mut pool, mut at) = (self.driver, 0_usize, 0_usize);
        must!(call!(driver, cuMemPoolCreate(&raw mut pool, place(location).as_ptr())));
        let code = call!(driver, cuMemAllocFromPoolAsync(&raw mut at, PIECE, pool, self.stream));
        must!(call!(driver, cuStreamSynchronize(self.stream)));
        if is_destroyed {
            must!(call!(driver, cuMemPoolDestroy(pool)));
        }
        code
    }

    /// A piece that is there by a file alone, and its import.
    fn export(&self) -> u32 {
        let (driver, [mut handle, mut import], mut file) = (self.driver, [0_usize; 2], 0_i32);
        must!(self.piece(&mut handle));
        must!(call!(driver, cuMemExportToShareableHandle(&raw mut file, handle, 1, 0)));
        must!(call!(driver, cuMemRelease(handle)));
        must!(call!(driver, cuMemImportFromShareableHandle(&raw mut import, file, 1)));
        call!(driver, cuMemMap((self.step + 1) << 40, PIECE, 0, import, 0))
    }

    /// Memory that is there by a file alone, which was asked for in the memory's middle.
    fn range(&self) -> u32 {
        let (driver, mut at, mut file) = (self.driver, 0_usize, 0_i32);
        must!(call!(driver, cuMemAlloc_v2(&raw mut at, PIECE)));
        let middle = at + PIECE / 2;
        must!(call!(driver, cuMemGetHandleForAddressRange(&raw mut file, middle, 4096, 1, 0)));
        call!(driver, cuMemFree_v2(at))
    }

    fn graph(&self, how: &str) -> u32 {
        let driver = self.driver;
        let graph = Graph::new(driver, 0);
        let (mut node_of, mut words) = (0_usize, node(PIECE));
        match how {
            "any" => {
                let mut params = [0_usize; 32];
                params[0] = 10;
                params[2..17].copy_from_slice(&words);
                let params = params.as_mut_ptr();
                must!(call!(driver, cuGraphAddNode(&raw mut node_of, graph.handle, 0, 0, params)));
            }
            "captured" => return self.captured(),
            _ => {
                let (to, words) = (&raw mut node_of, words.as_mut_ptr());
                must!(call!(driver, cuGraphAddMemAllocNode(to, graph.handle, 0, 0, words)));
            }
        }
        if how == "overwritten" {
            return self.overwritten_graph(graph.handle);
        }
        if how == "again" {
            // Eight pieces behind each other, of which one is there at a time, and one that stays.
            let mut last = node_of;
            for _ in 0..8 {
                let (to, after) = (&raw mut last, [last]);
                let (graph, after) = (graph.handle, after.as_ptr());
                let mut more = node(PIECE);
                must!(call!(
                    driver,
                    cuGraphAddMemAllocNode(to, graph, after, 1, more.as_mut_ptr())
                ));
                let after = [last];
                must!(call!(driver, cuGraphAddMemFreeNode(to, graph, after.as_ptr(), 1, more[14])));
            }
        }
        if how == "child" {
            // No graph with memory may be cloned: from CUDA 12.9 on, a child may be moved.
            let outer = Graph::new(driver, 0);
            must!(outer.any(&[], 4, [graph.handle, 1, 0, 0, 0]).0);
            return self.run(outer.instantiate(), false);
        }
        self.run(graph.instantiate(), how == "upload")
    }

    fn captured(&self) -> u32 {
        let (driver, [mut at, mut graph, mut exec]) = (self.driver, [0_usize; 3]);
        must!(call!(driver, cuStreamBeginCapture_v2(self.stream, 2)));
        must!(call!(driver, cuMemAllocAsync(&raw mut at, PIECE, self.stream)));
        must!(call!(driver, cuStreamEndCapture(self.stream, &raw mut graph)));
        must!(call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)));
        self.run(exec, false)
    }

    /// Launches or uploads a graph, twice, as memory that it has is not taken again.
    fn run(&self, exec: usize, uploads: bool) -> u32 {
        let driver = self.driver;
        for _ in 0..2 {
            must!(if uploads {
                call!(driver, cuGraphUpload(exec, self.stream))
            } else {
                call!(driver, cuGraphLaunch(exec, self.stream))
            });
        }
        call!(driver, cuStreamSynchronize(self.stream))
    }

    fn module(&self, how: &str) -> u32 {
        let driver = self.driver;
        let (space, bytes) = match how {
            "odd" => ("global", (1 << 20) + 1),
            "constants" => ("const", 1 << 20),
            _ => ("global", PIECE),
        };
        let text = format!(
            ".version 7.0\n.target sm_70\n.address_size 64\n.visible .{space} .align 4 .b8 g[{bytes}];\n"
        );
        let (text, mut module) = (CString::new(text).unwrap(), 0_usize);
        let (to, image) = (&raw mut module, text.as_ptr());
        match how {
            "data" => call!(driver, cuModuleLoadData(to, image)),
            "options" => call!(driver, cuModuleLoadDataEx(to, image, 0, 0, 0)),
            "odd" => {
                for _ in 0..32 {
                    must!(call!(driver, cuModuleLoadData(to, image)));
                }
                0
            }
            "constants" => {
                for _ in 0..PIECE / bytes {
                    must!(call!(driver, cuModuleLoadData(to, image)));
                }
                0
            }
            "forced" => {
                let image = fatbin(text.as_bytes_with_nul());
                call!(driver, cuModuleLoadData(to, image.as_ptr()))
            }
            "file" => {
                let path = std::env::temp_dir().join(format!("module-{}", std::process::id()));
                std::fs::write(&path, text.as_bytes()).unwrap();
                let name = CString::new(path.to_str().unwrap()).unwrap();
                let code = call!(driver, cuModuleLoad(to, name.as_ptr()));
                std::fs::remove_file(path).unwrap();
                code
            }
            "bare" => {
                must!(call!(driver, cuCtxSetCurrent(0)));
                let code = call!(driver, cuLibraryLoadData(to, image, 0, 0, 0, 0, 0, 0));
                must!(call!(driver, cuCtxSetCurrent(1)));
                code
            }
            _ => call!(driver, cuLibraryLoadData(to, image, 0, 0, 0, 0, 0, 0)),
        }
    }

    /// A piece that a sparse array has, and no handle.
    fn sparse(&self) -> u32 {
        let (driver, [mut array, mut handle]) = (self.driver, [0_usize; 2]);
        let deep = [4096_usize, 4096, 0, 1 << 32 | 0x20, 0x40];
        must!(call!(driver, cuArray3DCreate_v2(&raw mut array, deep.as_ptr())));
        must!(self.piece(&mut handle));
        let mut region = [0_u64; 12];
        (region[1], region[7], region[8]) = (array as u64, 1, handle as u64);
        must!(call!(driver, cuMemMapArrayAsync(region.as_ptr(), 1, self.stream)));
        call!(driver, cuMemRelease(handle))
    }

    /// A piece that a multicast object has, and no handle.
    fn multicast(&self, by_address: bool) -> u32 {
        let (driver, [mut object, mut handle]) = (self.driver, [0_usize; 2]);
        let of = [1_u64, PIECE as u64, 0, 0];
        must!(call!(driver, cuMulticastCreate(&raw mut object, of.as_ptr())));
        must!(self.piece(&mut handle));
        let at = (self.step + 1) << 40;
        if by_address {
            must!(call!(driver, cuMemMap(at, PIECE, 0, handle, 0)));
            must!(call!(driver, cuMulticastBindAddr(object, 0, at, PIECE, 0)));
            must!(call!(driver, cuMemUnmap(at, PIECE)));
        } else {
            must!(call!(driver, cuMulticastBindMem(object, 0, handle, 0, PIECE, 0)));
        }
        call!(driver, cuMemRelease(handle))
    }

    /// Array in levels, each of which has all layers or faces.
    fn layers(&self, [width, height, layers]: [usize; 3], flags: usize) -> u32 {
        let (driver, mut array) = (self.driver, 0_usize);
        let (of, levels) = ([width, height, layers, 1 << 32 | 0x20, flags], width.ilog2() + 1);
        call!(driver, cuMipmappedArrayCreate(&raw mut array, of.as_ptr(), levels))
    }

    /// Arrays of which the driver pads each row or level.
    fn padded(&self, levels: usize, sides: [usize; 3]) -> u32 {
        let (driver, mut array) = (self.driver, 0_usize);
        let [width, height, count] = sides;
        let of = [width, height, 0, 1 << 32 | 0x20, 0];
        for _ in 0..count {
            must!(match levels {
                0 =>
                    call!(driver, cuArrayCreate_v2(&raw mut array, [width, height, of[3]].as_ptr())),
                _ => call!(driver, cuMipmappedArrayCreate(&raw mut array, of.as_ptr(), levels)),
            });
        }
        0
    }

    fn odd(&self) -> u32 {
        let (driver, mut at) = (self.driver, 0_usize);
        for _ in 0..32 {
            must!(call!(driver, cuMemAlloc_v2(&raw mut at, (1 << 20) + 1)));
        }
        0
    }

    /// A piece that another thread maps to an address as soon as it is free, before the call that
    /// ends the mapping there has returned.
    fn mapped_at_once(&self) -> u32 {
        let (driver, [mut former, mut handle]) = (self.driver, [0_usize; 2]);
        let (at, bytes) = ((self.step + 1) << 40, 2 << 20);
        must!(self.piece(&mut handle));
        must!(call!(driver, cuMemCreate(&raw mut former, bytes, place(1).as_ptr(), 0)));
        must!(call!(driver, cuMemMap(at, bytes, 0, former, 0)));
        must!(call!(driver, cuMemRelease(former)));
        let has_begun = AtomicBool::new(false);
        let code = std::thread::scope(|scope| {
            scope.spawn(|| {
                has_begun.store(true, Relaxed);
                while call!(driver, cuMemMap(at, PIECE, 0, handle, 0)) != 0 {}
            });
            while !has_begun.load(Relaxed) {
                std::hint::spin_loop();
            }
            call!(driver, cuMemUnmap(at, bytes))
        });
        must!(code);
        call!(driver, cuMemRelease(handle))
    }

    /// A piece whose address another thread overwrites by that of memory that ends then.
    fn overwritten(&self) -> u32 {
        let (driver, mut other) = (self.driver, 0_usize);
        must!(call!(driver, cuMemAlloc_v2(&raw mut other, 2 << 20)));
        let at = AtomicUsize::new(0);
        let overwrite = || at.store(other, Relaxed);
        must!(while_repeated(overwrite, || {
            while at.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
            call!(driver, cuMemAlloc_v2(at.as_ptr(), PIECE))
        }));
        call!(driver, cuMemFree_v2(other))
    }

    /// Memory of a destroyed pool whose address another thread overwrites by that of memory that
    /// ends then.
    fn overwritten_in_pool(&self) -> u32 {
        let (driver, [mut other, mut pool]) = (self.driver, [0_usize; 2]);
        must!(call!(driver, cuMemAllocAsync(&raw mut other, 512, self.stream)));
        must!(call!(driver, cuMemPoolCreate(&raw mut pool, place(1).as_ptr())));
        let at = AtomicUsize::new(0);
        let overwrite = || at.store(other, Relaxed);
        must!(while_repeated(overwrite, || {
            while at.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
            let to = at.as_ptr();
            call!(driver, cuMemAllocFromPoolAsync(to, PIECE, pool, self.stream))
        }));
        must!(call!(driver, cuMemFreeAsync(other, self.stream)));
        must!(call!(driver, cuStreamSynchronize(self.stream)));
        call!(driver, cuMemPoolDestroy(pool))
    }

    /// An executable graph whose handle another thread takes as soon as it is there.
    fn overwritten_graph(&self, graph: usize) -> u32 {
        let driver = self.driver;
        let [at, taken] = [1, 1].map(AtomicUsize::new);
        let take = || match at.swap(1, Relaxed) {
            1 => {}
            exec => taken.store(exec, Relaxed),
        };
        must!(while_repeated(take, || {
            call!(driver, cuGraphInstantiateWithFlags(at.as_ptr(), graph, 0))
        }));
        let exec = taken.into_inner().max(at.into_inner());
        self.run(exec, false)
    }

    /// A pool whose location another thread changes all the time: the device or the host. Those of
    /// the host hold nothing of the device, so the next one is tried.
    fn changed_pool(&self) -> u32 {
        let (driver, fake) = (self.driver, Driver::open(&library(FAKE)));
        let taken = || {
            let [mut taken, mut peak] = [0_u64; 2];
            assert_eq!(call!(fake, reef_fake_memory(&raw mut taken, &raw mut peak)), 0);
            taken
        };
        let words = place(1).map(AtomicU32::new);
        let change = || [2, 1].into_iter().for_each(|location| words[2].store(location, Relaxed));
        let before = taken();
        while_repeated(change, || {
            loop {
                let [mut pool, mut at] = [0_usize; 2];
                let made = call!(driver, cuMemPoolCreate(&raw mut pool, words.as_ptr()));
                let to = &raw mut at;
                let code = call!(driver, cuMemAllocFromPoolAsync(to, PIECE, pool, self.stream));
                if made != 0 || code != 0 || taken() > before {
                    break made.max(code);
                }
            }
        })
    }

    fn go(&self, way: &str) -> u32 {
        let (driver, limit) = (self.driver, |which: usize, value: usize| {
            let driver = self.driver;
            call!(driver, cuCtxSetLimit(which, (self.step + 1) * value))
        });
        let mut at = 0_usize;
        match way {
            "plain" => call!(driver, cuMemAlloc_v2(&raw mut at, PIECE)),
            "pools" => self.pool(1, true),
            "kept pools" => self.pool(1, false),
            "export" => self.export(),
            "range" => self.range(),
            "stack" => limit(0, PIECE / 8192),
            "printed" => limit(1, PIECE),
            "heap" => limit(2, PIECE),
            "sparse" => self.sparse(),
            "multicast" => self.multicast(false),
            "multicast by address" => self.multicast(true),
            "rows" => self.padded(0, [1, 16384, 64]),
            "levels" => self.padded(17, [1, 1, 960]),
            "arrays" => self.padded(0, [1024, 272, 32]), // of 1,088 KiB
            "layers" => self.layers([8192, 0, 128], 0x01),
            "faces" => self.layers([512, 512, 24], 0x01 | 0x04),
            "odd" => self.odd(),
            "mapped at once" => self.mapped_at_once(),
            "overwritten" => self.overwritten(),
            "overwritten in a pool" => self.overwritten_in_pool(),
            "changed pools" => self.changed_pool(),
            "contexts" => call!(driver, cuCtxCreate_v2(&raw mut at, 0, 0)),
            _ => match way.split_once(' ') {
                Some(("graph", how)) => self.graph(how),
                Some(("module", how)) => self.module(how),
                _ => unreachable!("{way}"),
            },
        }
    }
}

#[test]
#[ignore = "is a program that other tests run"]
fn goes_one_way() {
    // SAFETY: ends this process after some time, in any case.
    unsafe { libc::alarm(60) };
    let driver = Driver::begin();
    let mut stream = 0_usize;
    assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
    let way = std::env::var(WAY).unwrap();
    let mut given = 0;
    let mut code = 0;
    for step in 0..STEPS as usize {
        code = Holder { driver, step, stream }.go(&way);
        if code != 0 {
            break;
        }
        given += 1;
    }
    let (fake, [mut taken, mut peak], [mut left, mut all]) =
        (Driver::open(&library(FAKE)), [0_u64; 2], [0_usize; 2]);
    assert_eq!(call!(fake, reef_fake_memory(&raw mut taken, &raw mut peak)), 0);
    assert_eq!(call!(driver, cuMemGetInfo_v2(&raw mut left, &raw mut all)), 0);
    println!(
        "way: given {given} code {code} peak {} taken {} left {left}",
        peak >> 20,
        taken >> 20
    );
}

/// Makes contexts in several threads at once. Says how many it got.
#[test]
#[ignore = "is a program that other tests run"]
fn makes_contexts_at_once() {
    // SAFETY: ends this process after some time, in any case.
    unsafe { libc::alarm(60) };
    let (driver, begin) = (Driver::open(&library(SHIM)), Barrier::new(8));
    assert_eq!(call!(driver, cuInit(0)), 0);
    let make = || {
        let mut context = 0_usize;
        begin.wait();
        call!(driver, cuCtxCreate_v2(&raw mut context, 0, 0))
    };
    let codes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    println!("contexts: {}", codes.iter().filter(|code| **code == 0).count());
}

/// The first context is not charged, and each further one with what its limits take: 17 MiB.
#[test]
fn contexts_made_at_once_are_charged_but_for_one() {
    let (job, program) = (Job::new("at-once"), "loader::limits::ways::makes_contexts_at_once");
    let output = job.command(program).env("REEF_MEMORY", "40MiB").output().unwrap();
    let [text, said] = [output.stdout, output.stderr];
    let [text, said] = [&text, &said].map(|text| String::from_utf8_lossy(text));
    let made = text.lines().find_map(|line| line.split_once("contexts: ")?.1.parse::<u32>().ok());
    assert_eq!(made, Some(3), "{text} {said}");
}

/// Steps that were given, the last code, and the most that was taken in MiB.
fn went(job: &Job, way: &str) -> (u64, u64, u64) {
    let mut command = job.command("loader::limits::ways::goes_one_way");
    command
        .env(WAY, way)
        .env("REEF_MEMORY", LIMIT.to_string())
        .env("REEF_FAKE_BYTES", "8589934592");
    command.env_remove("REEF_FAKE_MEMORY");
    if way == "module forced" {
        command.env("CUDA_FORCE_PTX_JIT", "1"); // the driver takes the text
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line =
        text.lines().find_map(|line| line.split_once("way: ")).map(|(_, line)| line.to_owned());
    let line =
        line.unwrap_or_else(|| panic!("{way}: {text} {}", String::from_utf8_lossy(&output.stderr)));
    println!("{way}: {line}");
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse().unwrap();
    (number(1), number(3), number(5))
}

#[test]
fn no_way_to_hold_memory_passes_the_limit() {
    let job = Job::new("ways");
    let ways = [
        ("plain", 4),
        ("pools", 4),
        ("kept pools", 4),
        ("export", 4),
        ("range", 4),
        ("graph any", 4),
        ("graph typed", 4),
        ("graph captured", 4),
        ("graph upload", 4),
        ("graph child", 4),
        ("graph again", 2),
        ("stack", 4),
        ("printed", 4),
        ("heap", 4),
        ("module data", 4),
        ("module options", 4),
        ("module odd", 4),
        ("module constants", 4),
        ("module forced", 3), // the machine code counts as well
        ("module file", 4),
        ("module library", 4),
        ("module bare", 4),
        ("sparse", 4),
        ("multicast", 4),
        ("multicast by address", 4),
        ("rows", 2),
        ("levels", 2),
        ("arrays", 4),
        ("layers", 3),
        ("faces", 7),
        ("odd", 4),
        ("mapped at once", 3),
        ("overwritten", 3),
        ("overwritten in a pool", 3),
        ("graph overwritten", 4),
        ("changed pools", 4),
        ("contexts", 5),
    ];
    let mut wrong = Vec::new();
    for (way, least) in ways {
        let (given, code, peak) = went(&job, way);
        if code != 2 || peak > LIMIT >> 20 || given < least {
            wrong.push(format!("{way}: {given} given, code {code}, {peak} MiB"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
