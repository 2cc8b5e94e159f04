//! Requests.

use crate::entry::args::{place, time};
use crate::entry::record;
use crate::entry::types::{REEF_UNKNOWN, reef_request, reef_timing};
use crate::fault::{Fault, Result};
use crate::guard::answer;
use crate::handles;
use crate::status::{REEF_BUSY, REEF_TIMEOUT, reef_status};
use reef_any::{AnyRequest, Request, Times};
use std::time::Duration;

/// Waits until the request has ended, and says how: REEF_OK if it finished.
///
/// `timeout_us`: how long; 0: looks and doesn't wait; negative: without limit. REEF_TIMEOUT: it
/// goes on. Any thread. REEF_BUSY: it is a real-time request, and another thread waits for it
/// already.
#[unsafe(no_mangle)]
pub extern "C" fn reef_request_wait(request: *const reef_request, timeout_us: i64) -> reef_status {
    answer(|| {
        let request = handles::get::<Request>(request.addr())?;
        match wait(&**request, timeout_us) {
            Some(how) => how.map(drop),
            None => Err(Fault::new(REEF_TIMEOUT, format!("not within {timeout_us} µs"))),
        }
    })
}

fn wait(request: &dyn AnyRequest, timeout_us: i64) -> Option<Result<Times>> {
    let how = match time(timeout_us) {
        Some(Duration::ZERO) => request.poll(),
        limit => request.wait(limit),
    };
    Some(how?.map_err(Into::into))
}

/// Takes back what the device hasn't got of a real-time request: that then ends as REEF_CANCELLED,
/// at once or when what the device has has ended. `cancelled`, if it isn't NULL, gets 1, or 0 if
/// the device has all of it or it has ended.
///
/// REEF_UNSUPPORTED: best-effort requests are cancelled by `reef_client_free`. Any thread.
///
/// # Safety
///
/// `cancelled` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_request_cancel(
    request: *const reef_request,
    cancelled: *mut i32,
) -> reef_status {
    answer(|| {
        let was_cancelled = handles::get::<Request>(request.addr())?.cancel()?;
        if !cancelled.is_null() {
            // SAFETY: `cancelled` is not null, so it can be written: reef.h demands it of the
            // program.
            unsafe { cancelled.write_unaligned(was_cancelled.into()) };
        }
        Ok(())
    })
}

/// When a request that finished was where. REEF_BUSY: it has not ended; another error: how it
/// ended. Any thread.
///
/// # Safety
///
/// `timing` is null or as large as its `struct_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_request_get_timing(
    request: *const reef_request,
    timing: *mut reef_timing,
) -> reef_status {
    answer(|| {
        place("reef_timing", timing)?;
        let how = handles::get::<Request>(request.addr())?.poll();
        let times = how.ok_or_else(|| Fault::new(REEF_BUSY, "the request has not ended"))??;
        // SAFETY: `timing` is not null, as `place` has checked, so it is as large as its
        // `struct_size`: reef.h demands it of the program.
        unsafe { record::write(in_nanos(times), timing) }
    })
}

fn in_nanos(times: Times) -> reef_timing {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(REEF_UNKNOWN);
    reef_timing {
        struct_size: 0,
        reserved: 0,
        delay_ns: times.delay.map_or(REEF_UNKNOWN, nanos),
        device_ns: times.device.map_or(REEF_UNKNOWN, nanos),
        total_ns: nanos(times.total),
    }
}

/// Frees the handle; NULL does nothing. The request goes on, and its network is busy until it has
/// ended. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn reef_request_free(request: *mut reef_request) -> reef_status {
    answer(|| {
        if request.is_null() {
            return Ok(());
        }
        handles::close::<Request>(request.addr()).map(drop)
    })
}
