//! Clients.

use crate::entry::args::{array_bytes, give, place, time};
use crate::entry::network::{images, read_output, write_input};
use crate::entry::record;
use crate::entry::types::{
    REEF_BEST_EFFORT, REEF_REAL_TIME, reef_class, reef_client, reef_client_options,
    reef_dispatcher, reef_network, reef_request,
};
use crate::fault::{Fault, Result};
use crate::guard::answer;
use crate::handles;
use crate::status::{REEF_TIMEOUT, reef_status};
use reef::{ClientConfig, queue::Config};
use reef_any::{AnyRequest, Client, Dispatcher, Network, Side, Turn};
use std::time::{Duration, Instant};

/// Opens a client of the dispatcher: `REEF_REAL_TIME` or `REEF_BEST_EFFORT`. NULL options: the
/// usual. Any thread.
///
/// # Safety
///
/// `options` is null or as large as its `struct_size`; `client` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_client_open(
    dispatcher: *const reef_dispatcher,
    client_class: reef_class,
    options: *const reef_client_options,
    client: *mut *mut reef_client,
) -> reef_status {
    answer(|| {
        place("client", client)?;
        let dispatcher = handles::get::<Dispatcher>(dispatcher.addr())?;
        // SAFETY: `options` is null or as large as its `struct_size`: reef.h demands it of the
        // program.
        let options = unsafe { record::read(options) }?;
        let opened = opened(&dispatcher, client_class, &options)?;
        // SAFETY: `client` is not null, as `place` has checked, and can be written: reef.h demands
        // it of the program.
        unsafe { give(opened, client) }
    })
}

fn opened(
    dispatcher: &Dispatcher,
    class: reef_class,
    options: &reef_client_options,
) -> Result<Client> {
    record::unused("reef_client_options", options.reserved)?;
    match class {
        REEF_REAL_TIME => {
            check_real_time(options)?;
            Ok(dispatcher.real_time(options.priority)?)
        }
        REEF_BEST_EFFORT => Ok(dispatcher.best_effort(config(options))?),
        _ => Err(Fault::invalid(format!(
            "class {class} (have: REEF_REAL_TIME 1, REEF_BEST_EFFORT 2)"
        ))),
    }
}

/// Refuses options that have no effect on a real-time client.
fn check_real_time(options: &reef_client_options) -> Result<()> {
    let of_best_effort =
        [("weight", options.weight), ("capacity", options.capacity), ("window", options.window)];
    match of_best_effort.iter().find(|(_, given)| *given != 0) {
        None => Ok(()),
        Some((name, given)) => {
            Err(Fault::invalid(format!("{name}: must be 0 for a real-time client, got {given}")))
        }
    }
}

fn config(options: &reef_client_options) -> ClientConfig {
    let mut queue = Config::default();
    if options.capacity > 0 {
        queue = queue.capacity(options.capacity as usize);
    }
    if options.window > 0 {
        queue = queue.window(options.window.into());
    }
    let config = ClientConfig::default().queue(queue).priority(options.priority);
    if options.weight > 0 { config.weight(options.weight) } else { config }
}

/// Frees the client; NULL does nothing.
///
/// Of a best-effort client, what waits ends as REEF_CANCELLED, and this call waits for what runs;
/// what does not stop within ten seconds ends as REEF_LOST. Real-time requests go on. Any thread,
/// also while others wait for requests.
#[unsafe(no_mangle)]
pub extern "C" fn reef_client_free(client: *mut reef_client) -> reef_status {
    answer(|| {
        if !client.is_null() {
            handles::close::<Client>(client.addr())?.close();
        }
        Ok(())
    })
}

/// Submits one inference of the network, on the input that was written last, and returns at once.
///
/// `deadline_us`: in which time it should be finished, for the scheduler `deadline`; negative:
/// none. REEF_BUSY: a request of the network is on its way, or the queue is full. Any thread; calls
/// for one client wait for each other.
///
/// # Safety
///
/// `request` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_client_submit(
    client: *const reef_client,
    network: *const reef_network,
    deadline_us: i64,
    request: *mut *mut reef_request,
) -> reef_status {
    answer(|| {
        place("request", request)?;
        let client = handles::get::<Client>(client.addr())?;
        let network = handles::get::<Network>(network.addr())?;
        let submitted = client.submit(&network, time(deadline_us))?;
        // SAFETY: `request` is not null, as `place` has checked, and can be written: reef.h demands
        // it of the program.
        unsafe { give(submitted, request) }
    })
}

/// One inference of a network for images: writes the input, submits, waits, reads the output. Other
/// threads' calls that work on the network's memory wait until it has ended.
///
/// `timeout_us`: how long it waits, also for other threads' calls; negative: without limit.
/// REEF_TIMEOUT: a real-time request is cancelled as far as the device hasn't got it, a best-effort
/// one goes on; the network is busy until it has ended. Any thread.
///
/// # Safety
///
/// `inputs` values at `input` can be read, or it is null; `outputs` values at `output` can be
/// written, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_client_run(
    client: *const reef_client,
    network: *const reef_network,
    input: *const f32,
    inputs: usize,
    output: *mut f32,
    outputs: usize,
    timeout_us: i64,
) -> reef_status {
    answer(|| {
        let client = handles::get::<Client>(client.addr())?;
        let network = handles::get::<Network>(network.addr())?;
        array_bytes("output", output, outputs, images(&network)?[1].elements())?;
        let (since, limit) = (Instant::now(), time(timeout_us));
        let late = || Fault::new(REEF_TIMEOUT, format!("not within {timeout_us} µs"));
        let mut turn = Turn::take(&network, limit).ok_or_else(late)??;
        // SAFETY: `inputs` values at `input` can be read, or it is null: reef.h demands it of the
        // program.
        unsafe { write_input(&mut turn, input, inputs) }?;
        let request = client.submit_in(&mut turn, Side::Host, None)?;
        let limit = limit.map(|limit| limit.saturating_sub(since.elapsed()));
        finish(&*request, limit).ok_or_else(late)??;
        // SAFETY: `outputs` values at `output` can be written, or it is null: reef.h demands it of
        // the program.
        unsafe { read_output(&turn, output, outputs) }
    })
}

/// Waits until `request` has ended, and cancels it at the end of the time.
fn finish(request: &dyn AnyRequest, limit: Option<Duration>) -> Option<Result<()>> {
    let how = request.wait(limit);
    if how.is_none() {
        let _ = request.cancel(); // best-effort requests go on
    }
    Some(how?.map(drop).map_err(Into::into))
}
