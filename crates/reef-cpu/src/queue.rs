//! The submitting end of a hardware queue.

use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::hardware::cpu::Cpu;
use crate::hardware::hw_queue::{FAILED, Handle};
use crate::hardware::task::{Item, Message, Pad};
use crate::hardware::work::Work;
use crate::kernel::RUN;
use reef_core::dkp::Padding;
use reef_core::{Copy, Drained, Error, Fill, Launch, Result, Seq};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};

/// A queue of the software device.
#[derive(Debug)]
pub struct Queue {
    pub(crate) device: Cpu,
    pub(crate) handle: Handle,
    /// Its running blocks are not waited for.
    pub(crate) is_abandoned: bool,
}

impl Queue {
    fn push(
        &self,
        seq: Seq,
        work: Work,
        record: Option<&Checkpoint>,
        pad: Option<Pad>,
    ) -> Result<()> {
        for (buffer, offset, bytes) in work.ranges().into_iter().flatten() {
            buffer.check_range(offset, bytes)?;
        }
        let record = record.cloned().unwrap_or_else(|| Checkpoint::new(work.blocks()));
        check_record(&record, &work)?;
        if let Some(pad) = &pad {
            check_record(&pad.record, &pad.work)?;
        }
        self.check()?;
        record.failed().map_or(Ok(()), Err)?;
        let item = Item { seq, work: Arc::new(work), record, pad };
        self.device.shared().post(Message::Item(self.handle.id, item));
        Ok(())
    }

    /// Number of completed commands, unless the queue has failed.
    fn check(&self) -> Result<u64> {
        let done = self.handle.done.load(Ordering::SeqCst);
        if done == FAILED {
            self.device.shared().change(|hardware| hardware.queue(self.handle.id).check())?;
        }
        Ok(done)
    }
}

/// A block outside its kernel's grid must never run.
fn check_record(record: &Checkpoint, work: &Work) -> Result<()> {
    let (have, want) = (record.total(), work.blocks());
    if have == want {
        return Ok(());
    }
    Err(Error::invalid("checkpoint", format!("must be of a launch of {want} blocks, got {have}")))
}

impl reef_core::Queue for Queue {
    type Backend = Cpu;

    fn launch(
        &mut self,
        seq: Seq,
        launch: &Launch<Cpu>,
        resume: Option<&Checkpoint>,
    ) -> Result<()> {
        self.push(seq, Work::Kernel(launch.clone()), resume, None)
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        rt: &Launch<Cpu>,
        padding: &Padding,
        be: &Launch<Cpu>,
        record: &Checkpoint,
    ) -> Result<()> {
        let pad = Pad {
            work: Arc::new(Work::Kernel(be.clone())),
            record: record.clone(),
            quota: padding.be_blocks,
            rt_units: padding.rt_units,
            stop: Arc::new(AtomicU8::new(RUN)),
        };
        self.push(seq, Work::Kernel(rt.clone()), None, Some(pad))
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Cpu>) -> Result<()> {
        self.push(seq, Work::Copy(copy.clone()), None, None)
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Cpu>) -> Result<()> {
        if !fill.bytes.is_multiple_of(4) {
            return Err(Error::invalid(
                "fill",
                format!("must be of whole words, got {} bytes", fill.bytes),
            ));
        }
        self.push(seq, Work::Fill(fill.clone()), None, None)
    }

    fn record(&mut self, seq: Seq, event: &Event) -> Result<()> {
        event.clear();
        self.push(seq, Work::Event(event.clone()), None, None)
    }

    fn completed(&mut self) -> Result<Seq> {
        self.check().map(Seq)
    }

    fn padding_ended(&mut self) -> Result<Seq> {
        let done = self.check()?; // first: no block begins next to what has ended
        let id = self.handle.id;
        let oldest = self.device.shared().change(|hardware| hardware.queue(id).oldest_padding());
        Ok(Seq(oldest.map_or(done, |oldest| oldest.min(done))))
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Cpu>>> {
        self.device.shared().change(|hardware| hardware.try_drain(self.handle.id))
    }

    fn abandon(&mut self) {
        self.device.shared().change(|hardware| hardware.abandon(self.handle.id));
        self.is_abandoned = true;
    }

    fn wake(&mut self, thread: Thread) -> bool {
        self.device.shared().change(|hardware| hardware.queue(self.handle.id).set_waker(thread));
        true
    }

    fn wake_at(&mut self, seq: Seq) {
        // The store here and the poll of `done` that follows, against the store of `done` and the
        // look here: both are `SeqCst`, so one side sees the other's.
        self.handle.wake_at.store(seq.0, Ordering::SeqCst);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while !self.device.shared().change(|hardware| hardware.abandon(self.handle.id))
            && !self.is_abandoned
        {
            thread::yield_now();
        }
        self.device.shared().change(|hardware| hardware.close(self.handle.id));
    }
}
