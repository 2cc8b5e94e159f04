"""CRIU on this machine, for scripts that skip aloud where it cannot be used."""
import ctypes
import os
import re
import subprocess


def may_trace():
    """Whether this process may trace a child, as CRIU does."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        seize = 0x4206  # PTRACE_SEIZE, which the child's end ends
        return ctypes.CDLL(None, use_errno=True).ptrace(seize, child.pid, None, None) == 0
    finally:
        child.kill()
        child.wait()


def missing():
    """What the machine lacks, if anything."""
    criu = os.environ.get("REEF_CRIU", "criu")
    try:
        said = subprocess.run([criu, "--version"], text=True, capture_output=True).stdout
    except OSError as error:
        return f"no CRIU: {error}; tools/criu_build.sh builds it"
    version = re.search(r"Version: (\d+)\.", said)
    if not version or int(version[1]) < 4:
        return f"{criu}: must be CRIU 4 or newer, got {said.strip()!r}; tools/criu_build.sh builds it"
    if os.geteuid() != 0:
        return "CRIU needs root"
    if not may_trace():
        return "this machine does not allow ptrace"
    return None
