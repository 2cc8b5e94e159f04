//! Queue operations that `reef_core` asks for.

use crate::driver::event::Event;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::launch::blit::{copy_launch, fill_launch};
use crate::launch::checkpoint::Checkpoint;
use crate::launch::graph::Graph;
use crate::launch::guarded::launch_plain;
use crate::launch::noted::launch_noted;
use crate::launch::queue::hardware_queue::Queue;
use crate::launch::queue::padded::Be;
use crate::launch::timeline::Watch;
use reef_core::dkp::Padding;
use reef_core::{Command, Copy, Drained, Error, Fill, Launch, Result, Seq};
use std::mem::{ManuallyDrop, forget, take};
use std::slice;
use std::thread::Thread;

impl<V: Vendor> reef_core::Queue for Queue<V> {
    type Backend = Gpu<V>;

    fn launch(
        &mut self,
        seq: Seq,
        launch: &Launch<Gpu<V>>,
        resume: Option<&Checkpoint<V>>,
    ) -> Result<()> {
        self.begin_command()?;
        let total = launch.blocks();
        self.retained.launch(seq.0 + 1, launch);
        match resume {
            Some(checkpoint) => self.launch_rest(seq, launch, checkpoint)?,
            None if total == 0 => {}
            None if self.is_stoppable() => self.launch_whole(seq, launch)?,
            None => self.launch_open(seq, |stream| launch_plain(stream, launch))?,
        }
        self.timeline.launch(seq.0 + 1);
        Ok(())
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        rt: &Launch<Gpu<V>>,
        padding: &Padding,
        be: &Launch<Gpu<V>>,
        record: &Checkpoint<V>,
    ) -> Result<()> {
        if !self.gpu.pads() {
            let what = "padding kernel by kernel, without colocation=padded".into();
            return Err(Error::Unsupported { backend: V::NAME, what });
        }
        record.check_total(be.blocks())?;
        if rt.blocks() == 0 {
            return self.launch(seq, rt, None);
        }
        self.launch_real_time(seq, rt, Be { launch: be, record, padding })
    }

    fn launch_graph(
        &mut self,
        seq: Seq,
        graph: &Graph<V>,
        resume: Option<&Checkpoint<V>>,
    ) -> Result<()> {
        self.begin_command()?;
        self.retained.graph(seq.0 + 1, graph);
        match resume {
            Some(checkpoint) => self.resume_graph(seq, graph, checkpoint)?,
            None if self.block_cap.is_some_and(|cap| graph.widest() > cap) => {
                self.resume_graph(seq, graph, &graph.all())?; // launch by launch
            }
            None if self.is_stoppable() && graph.runs_again_on(&self.token) => {
                self.launch_guarded_graph(seq, graph)?;
            }
            None if self.is_stoppable() => self.resume_graph(seq, graph, &graph.all())?,
            None => {
                let exec = graph.plain(&self.gpu, self.runner())?;
                self.launch_open(seq, |stream| exec.launch(stream))?;
            }
        }
        self.timeline.launch(seq.0 + 1);
        Ok(())
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Gpu<V>>) -> Result<()> {
        self.begin_command()?;
        let launch = copy_launch(&self.gpu, copy)?;
        self.retained.copy(seq.0 + 1, copy);
        if !copy.to_host {
            return self.launch(seq, &launch, None);
        }
        // Bytes that the host has read can't be undone: this one is never stopped.
        if launch.blocks() > 0 {
            launch_plain(&self.stream, &launch)?;
        }
        self.launched_free(seq);
        self.timeline.launch(seq.0 + 1);
        Ok(())
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Gpu<V>>) -> Result<()> {
        let launch = fill_launch(&self.gpu, fill)?;
        self.retained.fill(seq.0 + 1, fill);
        self.launch(seq, &launch, None)
    }

    fn record(&mut self, seq: Seq, event: &Event<V>) -> Result<()> {
        self.begin_command()?;
        self.retained.event(seq.0 + 1, event);
        let words = [event.arm(), self.timeline.address(), seq.0 + 1];
        // SAFETY: the kernel's parameters; the event is retained, and the mark outlives the
        // stream's work.
        unsafe { self.stream.launch_one(self.gpu.builtin().stamp, 1, words) }?;
        self.launched_free(seq);
        self.timeline.launch_marked(seq.0 + 1);
        self.newest_event = Some(event.clone());
        Ok(())
    }

    fn launch_between(
        &mut self,
        seq: Seq,
        command: &Command<Gpu<V>>,
        events: [Option<&Event<V>>; 2],
    ) -> Result<bool> {
        if self.is_stoppable() || self.gated.is_some() {
            return Ok(false);
        }
        match command {
            Command::Launch(launch) => self.launch_noting(seq, launch, events),
            Command::Graph(graph) => self.launch_graph_noting(seq, graph, events),
            Command::Copy(copy) => {
                self.retained.copy(seq.0 + 1, copy);
                self.launch_noting(seq, &copy_launch(&self.gpu, copy)?, events)
            }
            Command::Fill(fill) => {
                self.retained.fill(seq.0 + 1, fill);
                self.launch_noting(seq, &fill_launch(&self.gpu, fill)?, events)
            }
            Command::Record(_) | Command::Wait(_) | Command::Host(_) => Ok(false),
        }
    }

    fn completed(&mut self) -> Result<Seq> {
        if self.is_void() {
            return Ok(Seq(self.timeline.done()));
        }
        self.timeline.mark(&self.stream)?;
        let position = self.timeline.poll();
        if self.is_void() {
            return Ok(Seq(self.timeline.done())); // what was seen may be a void launch's end
        }
        let news = self.timeline.note(position);
        if news {
            self.retire();
            self.observe_event();
        }
        let idle = position == self.timeline.launched();
        if news || idle || self.gated.as_ref().is_some_and(|gated| gated.closed_for().is_some()) {
            self.timeout.restart();
        } else {
            self.check_timeout()?;
        }
        let calm = news || idle || self.is_behind_gate();
        self.timeline.check(&self.stream, calm)?;
        Ok(Seq(position))
    }

    fn padding_ended(&mut self) -> Result<Seq> {
        let Seq(done) = self.completed()?;
        let oldest = self.companions.as_mut().and_then(|companions| companions.oldest());
        Ok(Seq(oldest.map_or(done, |oldest| oldest.min(done))))
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Gpu<V>>>> {
        if !self.is_void() {
            return self.drain_whole();
        }
        if !self.draining {
            self.guarded.ask(&self.stream)?;
            self.draining = true;
        }
        if !self.guarded.is_answered() {
            self.check_timeout()?;
            self.timeline.check(&self.stream, false)?;
            return Ok(None);
        }
        self.timeout.restart();
        self.draining = false;
        self.reap().map(Some)
    }

    fn abandon(&mut self) {
        self.stream.abandon();
        if let Some(companions) = &mut self.companions {
            companions.abandon();
        }
    }

    fn is_abandoned(&self) -> bool {
        self.stream.is_abandoned()
    }

    fn release_held(&mut self) {
        if let Some(gated) = &self.gated {
            gated.release_held();
        }
    }

    fn cap_blocks(&mut self, blocks: Option<u32>) {
        self.block_cap = blocks.filter(|_| self.is_stoppable());
    }

    fn run_on(&mut self, percent: u32) {
        self.percent = if self.gpu.has_parts() { percent.clamp(1, 100) } else { 100 };
    }

    /// The device writes signals that threads poll; it wakes no thread.
    fn wake(&mut self, _: Thread) -> bool {
        false
    }
}

impl<V: Vendor> Queue<V> {
    fn launch_noting(
        &mut self,
        seq: Seq,
        launch: &Launch<Gpu<V>>,
        events: [Option<&Event<V>>; 2],
    ) -> Result<bool> {
        if launch.blocks() == 0 {
            return Ok(false);
        }
        let position = seq.0 + 1;
        self.retained.launch(position, launch);
        events.iter().flatten().for_each(|event| self.retained.event(position, event));
        let words = events.map(|event| event.map_or(0, Event::arm));
        launch_noted(&self.stream, &self.gpu, slice::from_ref(launch), words)?;
        match events[1].cloned() {
            Some(end) => {
                self.newest_event = Some(end.clone());
                self.timeline.launch_watched(Watch { position, end, copies: [None, None] });
            }
            None => self.timeline.launch(position),
        }
        Ok(true)
    }

    /// A graph sets words of its own, so that one can't run twice at a time.
    fn launch_graph_noting(
        &mut self,
        seq: Seq,
        graph: &Graph<V>,
        events: [Option<&Event<V>>; 2],
    ) -> Result<bool> {
        let position = seq.0 + 1;
        self.retained.graph(position, graph);
        let noting = graph.noting(&self.gpu, self.runner())?;
        let Some((exec, [start, end])) = noting else { return Ok(false) };
        exec.launch(&self.stream)?;
        for event in events.iter().flatten() {
            event.arm();
        }
        let [to_start, to_end] = events.map(|event| event.cloned());
        self.newest_event = to_end.clone().or(self.newest_event.take());
        let copies = [to_start.map(|to| [start, to]), to_end.map(|to| [end.clone(), to])];
        self.timeline.launch_watched(Watch { position, end, copies });
        Ok(true)
    }
}

impl<V: Vendor> Drop for Queue<V> {
    fn drop(&mut self) {
        reef_core::Queue::release_held(self);
        let _ = self.stream.wait_or_abandon(&mut self.timeout); // then its memory may be freed
        if self.companions.as_mut().is_some_and(|companions| companions.wait()) {
            forget(self.companions.take()); // with all that its blocks use
        }
        if self.stream.is_abandoned() {
            return self.keep_for_ever();
        }
        // SAFETY: dropped here and nowhere else.
        unsafe {
            ManuallyDrop::drop(&mut self.timeline);
            ManuallyDrop::drop(&mut self.guarded);
        }
    }
}

impl<V: Vendor> Queue<V> {
    /// Leaves all that its work on the device may use to that: memory, code and signals, and the
    /// device itself. Timeline and guarded launches are not dropped either.
    #[cold]
    fn keep_for_ever(&mut self) {
        forget(take(&mut self.retained));
        forget(take(&mut self.in_flight));
        forget(self.gated.take());
        forget(self.companions.take());
        forget(self.epoch_signal.take());
        forget(self.newest_event.take());
        forget((self.gpu.clone(), self.preemptor.clone(), self.token.clone()));
    }
}
