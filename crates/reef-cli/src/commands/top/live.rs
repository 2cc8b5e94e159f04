//! The screen of `reef top`: one thread looks at the daemon, this one draws and listens to keys.
//!
//! The terminal is given back as it was, however it ends: by a key, an error, a panic, or a signal
//! that asks it to end. After such a signal the process dies of it, as without a handler.

use super::screen::Screen;
use super::view::View;
use super::watch::Watch;
use crate::remote::daemon::Error;
use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two polls of the keyboard.
const TICK: Duration = Duration::from_millis(50);

type Update = Result<Option<View>, Error>;

/// Shows the daemon until `q` is pressed or a signal comes.
pub(crate) fn run(watch: Watch, interval: Duration) -> Result<()> {
    let signals = Signals::listen().context("signals")?; // while the terminal is still as it was
    let mut screen = Screen::new(watch.daemon.name(), interval);
    let (sender, updates) = channel();
    let (stop, stopped) = channel();
    let poller = thread::spawn(move || poll(watch, interval, &sender, &stopped));
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let shown = show(&mut terminal, &mut screen, &updates, &signals);
    drop(terminal); // it shows the cursor
    ratatui::restore();
    drop(stop); // so that the thread doesn't sleep the rest of its interval
    drop(updates);
    signals.obey()?; // without a wait for the thread, whose daemon may be silent
    let _ = poller.join(); // its panic would have been printed
    shown
}

/// The last signal that asked us to end; 0 before the first. Written by handlers only.
struct Signals(Arc<AtomicUsize>);

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let last = Arc::new(AtomicUsize::new(0));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register_usize(signal, last.clone(), signal as usize)?;
        }
        Ok(Self(last))
    }

    fn last(&self) -> Option<i32> {
        match self.0.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// Applies the default action of the last signal, which ends the process. Returns if there was
    /// none.
    fn obey(&self) -> std::io::Result<()> {
        self.last().map_or(Ok(()), signal_hook::low_level::emulate_default_handler)
    }
}

/// Polls the daemon once each interval until `stopped` hangs up.
fn poll(mut watch: Watch, interval: Duration, updates: &Sender<Update>, stopped: &Receiver<()>) {
    let mut next = Instant::now();
    while updates.send(watch.poll()).is_ok() {
        next = (next + interval).max(Instant::now());
        let rest = next.saturating_duration_since(Instant::now());
        if stopped.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    screen: &mut Screen,
    updates: &Receiver<Update>,
    signals: &Signals,
) -> Result<()> {
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        while !event::poll(TICK)? {
            if signals.last().is_some() {
                return Ok(());
            }
            let Ok(first) = updates.try_recv() else { continue };
            match first {
                Ok(view) => screen.update(view),
                Err(error) if error.is_gone() => screen.lose(error.short()),
                Err(refused) => return Err(refused.into()),
            }
            terminal.draw(|frame| screen.draw(frame))?;
        }
        if is_end(&event::read()?) {
            return Ok(());
        }
    }
}

/// `q`, Escape or Ctrl-C, which is a key like others in a raw terminal.
fn is_end(event: &Event) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return false;
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_keys_end_it() {
        let key = |code, modifiers| is_end(&Event::Key(KeyEvent::new(code, modifiers)));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(key(KeyCode::Esc, KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(!is_end(&Event::Resize(80, 24)));
    }
}
