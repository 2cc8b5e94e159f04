#!/usr/bin/env python3
"""Makes the image of deploy/container without Docker, and runs it: each step of the last stage of its Containerfile, in a root by
debootstrap. Programs that the first stage compiles are taken from a folder, if its command makes them.

container_check.py BUILT [ROOT]: BUILT is target/release. ROOT is a Debian root, which is not changed. Needs root.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).parents[1]
RECIPE = TOP / "deploy/container/Containerfile"


def instructions():
    text = "\n".join(line for line in RECIPE.read_text().splitlines() if not line.startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            word, rest = line.split(maxsplit=1)
            yield word, rest


def stages():
    found = []
    for word, rest in instructions():
        if word == "FROM":
            found.append((rest, []))
        else:
            found[-1][1].append((word, rest))
    return found


def made_by(command):
    """Names of what a `cargo build` of packages makes."""
    words = shlex.split(command)
    packages = [words[k + 1] for k, word in enumerate(words) if word == "-p"]
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=TOP, check=True, capture_output=True
    )
    for package in json.loads(metadata.stdout)["packages"]:
        for target in package["targets"] if package["name"] in packages else []:
            if "bin" in target["kind"]:
                yield target["name"]
            if "cdylib" in target["kind"]:
                yield f"lib{target['name']}.so"


def inside(root, user, environment, command, **options):
    variables = [f"{name}={value}" for name, value in environment.items()]
    switch = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    call = ["chroot", root, *switch, "env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *variables]
    return [*call, *command]


def main(built, root):
    (_, build), (base, steps) = stages()
    (compiled,) = [rest for word, rest in build if word == "RUN"]
    made = set(made_by(compiled))
    user, environment, call, default = None, {}, [], []
    for word, rest in steps:
        if word == "RUN":
            subprocess.run(inside(root, None, {}, ["sh", "-c", rest]), check=True)
        elif word == "COPY":
            *sources, to = shlex.split(rest)
            if sources[0] == "--from=build":
                files = [Path(built) / Path(one).name for one in sources[1:]]
                missing = [file.name for file in files if file.name not in made]
                assert not missing, f"the first stage does not make {missing}"
            else:
                files = [TOP / one for one in sources]
            place = Path(root) / to.lstrip("/")
            for file in files:
                target = place / file.name if to.endswith("/") else place
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
        elif word == "USER":
            user = rest
        elif word == "ENV":
            environment.update(one.split("=", 1) for one in shlex.split(rest))
        elif word == "ENTRYPOINT":
            call = json.loads(rest)
        elif word == "CMD":
            default = json.loads(rest)
        else:
            assert word in ("EXPOSE", "STOPSIGNAL"), word
    print(f"{len(steps)} steps of the stage from {base}")

    def run(*command, extra=None):
        return subprocess.run(
            inside(root, user, {**environment, **(extra or {})}, command), capture_output=True, text=True
        )

    said = run(*call, "--version")
    assert said.returncode == 0, said.stderr
    # A container runtime for GPUs calls this; the libraries must not become the driver of all programs.
    subprocess.run(inside(root, None, {}, ["ldconfig"]), check=True)
    known = run("ldconfig", "-p").stdout
    assert "libcuda" not in known and "libnvidia-ml" not in known and "libcudart" not in known, known
    found = run(*call, "exec", "--explain", "--call-profile", "--", "true", extra={"REEF_CUDA": "/bin/true"})
    assert "lib/reef/libreef_cuda_shim.so" in found.stderr, found.stderr

    # As `podman run` of its first lines: a model, a token, the ports.
    model = Path(root) / "models/tiny/1"
    model.mkdir(parents=True)
    (model.parent / "model.toml").write_text('network = "resnet18"\nsize = 32\nseed = 1\n')
    token = Path(root) / "etc/reef/token"
    token.write_text("a token of this check\n")
    os.chown(token, int(user), int(user))
    token.chmod(0o600)
    daemon = subprocess.Popen(inside(root, user, environment, [*call, *default]))
    try:
        end = time.monotonic() + 120
        while curl("/v2/health/ready") != "200":
            assert daemon.poll() is None and time.monotonic() < end, "the daemon is not ready"
            time.sleep(0.1)
        assert curl("/v2/models/tiny") == "401", "a client without the token is refused"
        assert curl("/v2/models/tiny", "-H", "authorization: Bearer a token of this check") == "200"
        daemon.terminate()
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
    print(f"{said.stdout.strip()}: ready as user {user}, asks for its token, ends by SIGTERM")


def curl(path, *options):
    call = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *options, f"http://127.0.0.1:8000{path}"]
    return subprocess.run(call, capture_output=True, text=True).stdout


if os.environ.get("CHECKED_ROOT"):
    main(sys.argv[1], os.environ["CHECKED_ROOT"])
elif os.geteuid() != 0 or not shutil.which("debootstrap") and len(sys.argv) < 3:
    print("skipped: the image: needs root and debootstrap")
else:
    # In mounts of its own: an overlay over the root.
    with tempfile.TemporaryDirectory() as work:
        root = sys.argv[2] if len(sys.argv) > 2 else f"{work}/root"
        if len(sys.argv) < 3:
            subprocess.run(["debootstrap", "--variant=minbase", "trixie", root], check=True, stdout=subprocess.DEVNULL)
        script = """
            mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work /mnt/merged
            mount -t overlay none -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/merged
            mount --rbind /dev /mnt/merged/dev && mount -t proc none /mnt/merged/proc && mount -t tmpfs none /mnt/merged/tmp
            exec env CHECKED_ROOT=/mnt/merged "$2" "$3" "$4"
        """
        call = ["unshare", "--mount", "bash", "-euc", script, "check", root, sys.executable, __file__, sys.argv[1]]
        sys.exit(subprocess.run(call).returncode)
