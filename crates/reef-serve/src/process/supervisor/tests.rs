use super::*;
use crate::suspend::suspensions::Suspender;
use serde_json::json;
use std::sync::Weak;

/// First message of a process.
const READY: &str = r#"{"type":"ready","protocol":1,"inputs":[{"name":"x","datatype":"FP32","shape":[1]}],"outputs":[{"name":"y","datatype":"FP32","shape":[1]}]}"#;

/// Starts a process that is ready at once, and ends with the conversation.
fn ready_supervisor() -> Arc<Supervisor> {
    supervisor_with(None)
}

/// As [`ready_supervisor`], with processes that operators suspend.
fn supervisor_with(suspensions: Option<Arc<Suspensions>>) -> Arc<Supervisor> {
    let lengths = format!("\\{:03o}{}", READY.len(), "\\000".repeat(11));
    let script = format!("printf '{lengths}' >&0; printf %s '{READY}' >&0; exec cat >/dev/null");
    let settings = json!({ "command": ["/bin/sh", "-c", script] });
    let settings = serde_json::from_value(settings).unwrap();
    let role = Role {
        program: Program::new(&settings, &std::env::temp_dir()).unwrap(),
        model: "m".into(),
        version: 1,
        class: "be",
        instance: 0,
        device: "cpu:0".into(),
        max_bytes: 64,
        max_batch: 1,
        residents: None,
        suspensions,
        gpu: None,
        checkpoints: None,
    };
    let supervisor = Supervisor::start(role).unwrap();
    supervisor.ready(&|| false).unwrap();
    supervisor
}

fn take(supervisor: &Supervisor) -> Connection {
    supervisor.take(&[], Duration::from_secs(60), &|| false).unwrap().0
}

/// As when a part waited for its client while the model was unloaded and the process ended.
#[test]
fn discard_after_the_last_process_is_ignored() {
    let supervisor = ready_supervisor();
    let connection = take(&supervisor);
    supervisor.close();
    let mut state = supervisor.state.lock();
    state.signal(Signal::KILL);
    while !matches!(state.phase, Phase::Ended) {
        supervisor.change.wait_for(&mut state, POLL_INTERVAL);
    }
    drop(state);
    supervisor.discard(connection, &Error::Failed("late".into()));
    assert!(matches!(supervisor.state.lock().phase, Phase::Ended), "else its end waits for ever");
    supervisor.end();
}

/// Else it would be killed for not reacting. A model that ends does not wait for it.
#[test]
fn process_that_is_always_there_is_held_while_it_is_suspended() {
    let suspensions = Suspensions::new(Weak::new(), "/nowhere".into(), "/nowhere".into());
    let suspensions = Arc::new(suspensions);
    let supervisor = supervisor_with(Some(suspensions.clone()));
    let pid = number(supervisor.state.lock().pid);
    assert!(!supervisor.is_held());
    suspensions.mark(pid, Suspender::Operator);
    assert!(supervisor.is_held());
    supervisor.close();
    assert!(!supervisor.is_held());
    supervisor.end();
    assert!(!suspensions.is_held(pid), "another process may get its number");
}

/// Else each process from a folder of no use would be followed by another one.
#[test]
fn second_process_is_useless_until_it_has_answered() {
    let supervisor = ready_supervisor();
    let connection = take(&supervisor);
    assert!(!supervisor.state.lock().is_useless(), "the first may have been ended from outside");
    supervisor.state.lock().failures = 1;
    assert!(supervisor.state.lock().is_useless());
    supervisor.give(connection);
    assert!(!supervisor.state.lock().is_useless());
    let pid = supervisor.state.lock().pid;
    supervisor.note_process(pid);
    supervisor.state.lock().failures = 1;
    assert!(supervisor.state.lock().is_useless());
    supervisor.close();
    assert!(!supervisor.state.lock().is_useless(), "it ends because the model is unloaded");
    supervisor.end();
}

/// As when what writes it was killed.
#[test]
fn process_that_was_left_stopped_goes_on() {
    let supervisor = ready_supervisor();
    let (pid, generation) = {
        let state = supervisor.state.lock();
        state.signal(Signal::STOP);
        (state.pid.unwrap(), state.generation)
    };
    waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
    supervisor.go_on(generation);
    waitid(WaitId::Pid(pid), WaitIdOptions::CONTINUED).unwrap();
    supervisor.end();
}

#[test]
fn failure_keeps_the_reason_of_the_kill() {
    let supervisor = ready_supervisor();
    let connection = take(&supervisor);
    supervisor.close(); // no other process follows
    supervisor.discard(connection, &Error::Failed("wrong frame".into()));
    supervisor.end();
    let why = supervisor.state.lock().why.clone().unwrap().to_string();
    assert!(why.starts_with("wrong frame; the process ended: signal: 9"), "{why}");
}

#[test]
fn pause_doubles_up_to_its_maximum() {
    let pauses = [0, 1, 2, 3, 9, 10, u32::MAX].map(|n| pause(n).as_millis());
    assert_eq!(pauses, [0, 100, 200, 400, 25_600, 30_000, 30_000]);
}
