//! Serves one request on stdin, as the hidden command of `reef` does. For machines that have this
//! program alone:
//!
//!     echo '{"folder":"/tmp/r","pids":[47],"op":{"Suspend":{"timeout_ms":5000}}}' | checkpointer
//!     echo '{"folder":"/tmp/r","pids":[47],"op":{"Resume":{"to":null}}}' | checkpointer

fn main() -> std::io::Result<()> {
    let named = std::env::var_os("REEF_CUDA");
    reef_suspend::helper::serve(named, &mut std::io::stdin().lock(), &mut std::io::stdout().lock())
}
