//! Programs that use the driver oddly.

use super::{OPENS, Program};
use crate::common::graph::Graph;
use crate::common::{self, Driver, UUID, Work, call};
use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Work of threads without an argument of their own.
pub(super) static OF_ALL: AtomicUsize = AtomicUsize::new(0);

extern "C" fn small_thread(_: *mut c_void) -> *mut c_void {
    // SAFETY: the program, which outlives its threads.
    let program = unsafe { &*(OF_ALL.load(SeqCst) as *const Program) };
    assert_eq!(call!(program.driver, cuCtxSetCurrent(1)), 0);
    program.launch_some(70);
    std::ptr::null_mut()
}

/// The first of them is also the first that launches at all.
pub(super) fn small_threads(program: &Program) -> String {
    OF_ALL.store(std::ptr::from_ref(program) as usize, SeqCst);
    for _ in 0..8 {
        let mut threads = [0; 4];
        // SAFETY: attributes and threads of ours, with the least stack that there may be.
        unsafe {
            let mut small: libc::pthread_attr_t = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut small);
            assert_eq!(libc::pthread_attr_setstacksize(&raw mut small, 16 << 10), 0);
            for thread in &mut threads {
                let null = std::ptr::null_mut();
                assert_eq!(libc::pthread_create(thread, &raw const small, small_thread, null), 0);
            }
            threads.iter().for_each(|thread| {
                assert_eq!(libc::pthread_join(*thread, std::ptr::null_mut()), 0)
            });
        }
    }
    program.value().to_string()
}

/// Contexts of the program's own end with work in them; its primary context loses one of two
/// references.
pub(super) fn contexts(program: &Program) -> String {
    let driver = program.driver;
    let mut values = Vec::new();
    for round in 0..20 {
        let mut context = 0_usize;
        assert_eq!(call!(driver, cuCtxCreate_v2(&raw mut context, 0, 0)), 0);
        let own = Program { driver, work: driver.work(8) };
        own.launch_some(30);
        let code = match round % 3 {
            0 => call!(driver, cuCtxDestroy_v2(context)),
            1 => call!(driver, cuCtxDetach(context)),
            _ => {
                let mut primary = 0_usize;
                assert_eq!(call!(driver, cuDevicePrimaryCtxRetain(&raw mut primary, 0)), 0);
                own.wait();
                call!(driver, cuDevicePrimaryCtxRelease_v2(0))
            }
        };
        // SAFETY: a word of the fake driver's, which nothing writes to any more.
        values.push(unsafe { *(own.work.memory as *const u64) });
        assert_eq!((code, call!(driver, cuCtxSetCurrent(1))), (0, 0));
        program.launch_some(30);
    }
    let differs = values.iter().any(|value| *value != values[0]);
    format!("{} {} {differs}", program.value(), values[0])
}

extern "C" fn unloads_and_launches(program: usize) {
    // SAFETY: the program, which waits for this.
    let program = unsafe { &*(program as *const Program) };
    assert_eq!(call!(program.driver, cuModuleUnload(0)), 0);
    assert_eq!(call!(program.driver, cuCtxSetCurrent(1)), 0);
    assert_eq!(program.launch(), 0);
}

pub(super) fn callback(program: &Program) -> String {
    let (stream, of) = (program.work.stream, std::ptr::from_ref(program));
    for _ in 0..20 {
        program.launch_some(10);
        assert_eq!(
            call!(program.driver, cuLaunchHostFunc(stream, unloads_and_launches as *const (), of)),
            0
        );
        program.wait();
    }
    program.value().to_string()
}

pub(super) fn closed(program: &Program) -> String {
    program.launch_some(100);
    program.driver.close();
    program.driver.close();
    let again = Driver::open(&PathBuf::from(std::env::var_os(OPENS).unwrap()));
    let program = Program { driver: again, work: Work { ..program.work } };
    program.launch_some(100);
    program.value().to_string()
}

pub(super) fn lookups(program: &Program) -> String {
    let names = [
        c"cuLaunchKernel",
        c"cuGraphLaunch",
        c"cuGetProcAddress",
        c"cuMemAlloc",
        c"",
        c"\xff\xfe",
        c"cudaMalloc",
    ];
    let mut said = String::new();
    for name in names.map(CStr::as_ptr).into_iter().chain([std::ptr::null()]) {
        for version in [0, -1, 2000, 11_030, 12_000, i32::MAX, i32::MIN] {
            for flags in [0_usize, 1, 2, 3, usize::MAX] {
                let (mut at, mut status) = (0_usize, 7_u64);
                let driver = program.driver;
                let code = call!(
                    driver,
                    cuGetProcAddress_v2(name, &raw mut at, version, flags, &raw mut status)
                );
                let null: *mut u64 = std::ptr::null_mut();
                let without =
                    call!(driver, cuGetProcAddress_v2(name, &raw mut at, version, flags, null));
                let nowhere = call!(driver, cuGetProcAddress(name, null, version, flags));
                said.push_str(&format!("{code} {status} {without} {nowhere} {} ", at != 0));
            }
        }
    }
    said
}

/// More than have a place in the table of those that are paced.
pub(super) fn streams(program: &Program) -> String {
    let driver = program.driver;
    let works: Vec<Work> = (0..5000)
        .map(|_| {
            let mut stream = 0_usize;
            assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, 1)), 0);
            Work { stream, ..program.work }
        })
        .collect();
    let add = |Work { stream, memory, mix }: &Work| {
        driver.launch("cuLaunchKernel", *mix, *stream, *memory, 0)
    };
    works.iter().for_each(|work| assert_eq!(add(work), 0));
    works.iter().for_each(|work| assert_eq!(call!(driver, cuStreamDestroy_v2(work.stream)), 0));
    program.launch_some(10);
    program.value().to_string()
}

pub(super) fn captures(program: &Program) -> String {
    let (driver, stream, graph) =
        (program.driver, program.work.stream, Graph::new(program.driver, program.work.mix));
    for mode in [0, 1, 2, 0] {
        let mut handle = 0_usize;
        program.launch_some(3);
        assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, mode)), 0);
        program.launch_some(120);
        assert_eq!(call!(driver, cuStreamEndCapture(stream, &raw mut handle)), 0);
        let exec = Graph { handle, ..graph }.instantiate();
        (0..3).for_each(|_| assert_eq!(call!(driver, cuGraphLaunch(exec, stream)), 0));
        assert_eq!(call!(driver, cuGraphExecDestroy(exec)), 0);
    }
    // One that is broken by a call that waits, and the next one.
    assert_eq!(call!(driver, cuStreamBeginCapture_v2(stream, 0)), 0);
    let broken = [program.launch(), call!(driver, cuStreamSynchronize(stream)), program.launch()];
    let mut handle = 0_usize;
    let end = call!(driver, cuStreamEndCapture(stream, &raw mut handle));
    program.launch_some(3);
    format!("{broken:?} {end} {}", program.value())
}

pub(super) fn passed(program: &Program) -> String {
    let (driver, mut word) = (program.driver, 0_usize);
    let codes = [
        call!(driver, cuCtxResetPersistingL2Cache()),
        call!(driver, cuCtxSetLimit(0, 1024)),
        call!(driver, cuCtxPushCurrent_v2(1)),
        call!(driver, cuProfilerStart()),
        call!(driver, cuGetExportTable(&raw mut word, UUID.as_ptr())),
    ];
    program.launch_some(10);
    format!("{codes:?} {}", program.value())
}

pub(super) fn refused(program: &Program) -> String {
    let (driver, Work { stream, memory, mix }) = (program.driver, &program.work);
    let mut exec = 0_usize;
    program.launch_some(1);
    let codes = [
        driver.launch("cuLaunchKernel", 7, *stream, *memory, 1),
        driver.launch("cuLaunchKernel", *mix, 0x7777_0000, *memory, 1),
        call!(driver, cuGraphLaunch(0x7777_0000, *stream)),
        call!(driver, cuGraphInstantiateWithFlags(&raw mut exec, 0x7777_0000, 0)),
        call!(driver, cuGraphExecDestroy(0x7777_0000)),
        call!(driver, cuStreamSynchronize(0x7777_0000)),
        call!(driver, cuStreamEndCapture(*stream, &raw mut exec)),
        call!(driver, cuCtxSetCurrent(0)),
        driver.launch("cuLaunchKernel", *mix, *stream, *memory, 1),
        call!(driver, cuCtxSynchronize()),
        call!(driver, cuCtxSetCurrent(1)),
    ];
    format!("{codes:?} {}", program.value())
}
