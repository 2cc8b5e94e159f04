#!/usr/bin/env python3
"""Makes the image of deploy/container without Docker, and runs it: each step of the last stage of its Containerfile, in a root by
debootstrap. Programs that the first stage compiles are taken from a folder, if its command makes them.

container_check.py BUILT [ROOT] [--oci FOLDER]: BUILT is target/release. ROOT is a Debian root, which is not changed. Needs root.
With --oci the image is written to FOLDER as an OCI layout: the root is its first layer, and what the steps changed its second. Then
it is read again, each digest is compared, and its entry point runs in a root of its layers alone.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).parents[1]
RECIPE = TOP / "deploy/container/Containerfile"
# Time of all files of an image, so that the same files give the same image.
MOMENT = int(subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=TOP, capture_output=True, text=True).stdout or 0)


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


class Layout:
    """An image as files: https://github.com/opencontainers/image-spec, by digests."""

    KIND = "application/vnd.oci.image."

    def __init__(self, folder):
        self.folder, self.blobs = Path(folder), Path(folder) / "blobs/sha256"
        self.blobs.mkdir(parents=True)

    def put(self, kind, content):
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return {"mediaType": self.KIND + kind, "digest": f"sha256:{digest}", "size": len(content)}

    def layer(self, folder):
        """Adds a folder as a layer; returns its description, and the digest of what is packed."""
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path in sorted(Path(folder).rglob("*")):
                name = path.relative_to(folder)
                if name.parts[0] in ("dev", "proc", "sys", "tmp") and len(name.parts) > 1:
                    continue
                assert not path.is_char_device(), f"{name}: a step removes a file of the root"
                one = archive.gettarinfo(path, str(name))
                one.mtime, one.uname, one.gname = MOMENT, "", ""
                with open(path, "rb") if one.isreg() else io.BytesIO() as content:
                    archive.addfile(one, content)
        packed = gzip.compress(plain.getvalue(), 6, mtime=0)
        return self.put("layer.v1.tar+gzip", packed), "sha256:" + hashlib.sha256(plain.getvalue()).hexdigest()

    def finish(self, name, settings, layers):
        config = {"architecture": "amd64", "os": "linux", "config": settings}
        config["rootfs"] = {"type": "layers", "diff_ids": [plain for _, plain in layers]}
        config = self.put("config.v1+json", json.dumps(config).encode())
        manifest = {"schemaVersion": 2, "mediaType": self.KIND + "manifest.v1+json", "config": config}
        manifest = self.put("manifest.v1+json", json.dumps({**manifest, "layers": [one for one, _ in layers]}).encode())
        manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
        (self.folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


def read_layout(folder, root):
    """Unpacks the layers of an image into an empty folder; returns its settings."""

    def blob(description):
        content = (Path(folder) / "blobs" / description["digest"].replace(":", "/")).read_bytes()
        found = f"sha256:{hashlib.sha256(content).hexdigest()}", len(content)
        assert found == (description["digest"], description["size"]), f"{description}: got {found}"
        return content

    (manifest,) = json.loads((Path(folder) / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(manifest))
    config = json.loads(blob(manifest["config"]))
    for layer, digest in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        plain = gzip.decompress(blob(layer))
        assert digest == f"sha256:{hashlib.sha256(plain).hexdigest()}", digest
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            archive.extractall(root, numeric_owner=True)
    return config["config"]


def check_layout(folder):
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)  # its user enters it
        settings = read_layout(folder, root)
        environment = dict(one.split("=", 1) for one in settings["Env"])
        call = inside(root, settings["User"], environment, [*settings["Entrypoint"], "--version"])
        said = subprocess.run(call, capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        print(f"image {folder}: {said.stdout.strip()} as user {settings['User']} in a root of its layers alone")


def main(built, root, oci):
    (_, build), (base, steps) = stages()
    (compiled,) = [rest for word, rest in build if word == "RUN"]
    made = set(made_by(compiled))
    user, environment, call, default, ports, signal = None, {}, [], [], {}, None
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
        elif word == "EXPOSE":
            ports = {f"{port}/tcp": {} for port in rest.split()}
        else:
            assert word == "STOPSIGNAL", word
            signal = rest
    print(f"{len(steps)} steps of the stage from {base}")
    if oci:
        settings = {"User": user, "Env": [f"{name}={value}" for name, value in environment.items()]}
        settings |= {"Entrypoint": call, "Cmd": default, "ExposedPorts": ports, "StopSignal": signal}
        layout = Layout(oci)
        layers = [layout.layer(os.environ["CHECKED_BASE"]), layout.layer("/mnt/upper")]
        layout.finish("reef", settings, layers)
        check_layout(oci)

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
    found = run(*call, "exec", "--explain", "--call-profile", "--", "true", extra={"REEF_CUDA": "/bin/false"})
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("built")
    parser.add_argument("root", nargs="?")
    parser.add_argument("--oci", metavar="FOLDER")
    return parser.parse_args()


def in_mounts(args, root):
    """Does it in mounts of its own: an overlay over the root."""
    script = """
        mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work /mnt/merged
        mount -t overlay none -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/merged
        mount --rbind /dev /mnt/merged/dev && mount -t proc none /mnt/merged/proc && mount -t tmpfs none /mnt/merged/tmp
        export CHECKED_BASE=$1 CHECKED_ROOT=/mnt/merged
        shift
        exec "$@"
    """
    call = ["unshare", "--mount", "bash", "-euc", script, "check", root, sys.executable, __file__, args.built]
    return subprocess.run([*call, *(["--oci", args.oci] if args.oci else [])]).returncode


def begin(args):
    if os.environ.get("CHECKED_ROOT"):
        return main(args.built, os.environ["CHECKED_ROOT"], args.oci)
    if os.geteuid() != 0 or not args.root and not shutil.which("debootstrap"):
        return print("skipped: the image: needs root and debootstrap")
    if args.oci and Path(args.oci).exists():
        return f"{args.oci}: must not exist"
    with tempfile.TemporaryDirectory() as work:
        root = args.root or f"{work}/root"
        if not args.root:
            subprocess.run(["debootstrap", "--variant=minbase", "trixie", root], check=True, stdout=subprocess.DEVNULL)
        return in_mounts(args, os.path.realpath(root))


sys.exit(begin(arguments()))
