#!/usr/bin/env python3
"""What best-effort work keeps next to a closed real-time loop, and what that costs the loop: REEF's points and its rivals'.

    tools/curve.py [-b REEF] [-o FOLDER] [--device cuda:0] [--seconds 1] [--parts pad,kernels,split,mps]
                   [--rt-model resnet50] [--be-model resnet152]

Two networks of reef, a ResNet-152 next to a ResNet-50 by default: `pad` by REEF with so many blocks at a time, no block stopped, by
stream priorities, and with targets of latency; `kernels` padded kernel by kernel; `split` by green contexts that keep so many
multiprocessors for real-time work; `mps` as two processes under MPS, the best-effort one with a part of the threads. All ratios are
to the two networks alone, without MPS, from `pad`. Writes curve.json and curve.svg; parts that FOLDER has are not measured again. Needs Python alone, and for `mps`
NVIDIA's MPS.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#7f7f7f", "#ff7f0e")


def saturate(options):
    return [options.reef, "bench", "saturate", "--rt-model", options.rt_model, "--be-model", options.be_model]


def pad(options, name, *more):
    """The rows of `reef bench saturate`, by policy."""
    folder = os.path.join(options.out, name)
    if not os.path.exists(os.path.join(folder, "saturate.json")):
        command = [*saturate(options), "--time", f"{options.seconds}s", "--out", folder, *more]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "saturate.json")) as file:
        return {row["policy"]: row for row in json.load(file)["rows"]}


class Base:
    """Both networks alone."""

    def __init__(self, rows):
        self.p99 = rows["rt-only (alone)"]["rt_p99_ms"]
        self.rate = rows["BE alone"]["be_inferences_per_second"]

    def point(self, group, label, p99, rate):
        return {"group": group, "label": label, "rt": round(p99 / self.p99, 3), "be": round(100 * rate / self.rate, 1)}

    def of(self, group, label, row):
        return self.point(group, label, row["rt_p99_ms"], row["be_inferences_per_second"])


def by_reef(options):
    blocks = ("--colocated-blocks", options.blocks) if options.blocks else ()
    targets = ("--slo", options.slo) if options.slo else ()
    rows = pad(options, "pad", "--device", options.device, *blocks, *targets)
    base, points = Base(rows), []
    for policy, row in rows.items():
        if policy == "none" or policy.startswith("narrow"):
            points.append(base.of("reef, so many blocks", policy.removeprefix("narrow "), row))
        elif policy.startswith("target"):
            points.append(base.of("reef, a target", policy.removeprefix("target "), row))
        elif policy.startswith("stream"):
            points.append(base.of(policy, "", row))
    return base, points


def by_kernels(options, base):
    rows = pad(options, "kernels", "--device", with_option(options.device, "colocation=padded"))
    for policy, row in rows.items():
        if row["rt_p99_ms"] is not None and not policy.startswith("stream"):
            yield base.of("kernel by kernel", policy, row)


def by_green_contexts(options, base):
    for free in options.free.split(","):
        rows = pad(options, f"split-{free}", "--device", with_option(options.device, f"split={free}"))
        yield base.of("green contexts, so many for RT", free, rows["stream-priority"])


def with_option(device, option):
    return device + ("&" if "?" in device else "?") + option


class Mps:
    """NVIDIA's server, with folders of its own."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="reef-mps-")
        os.environ.update({f"CUDA_MPS_{name}_DIRECTORY": self.folder.name for name in ("PIPE", "LOG")})
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)

    def __exit__(self, *_):
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False)
        for name in ("PIPE", "LOG"):
            del os.environ[f"CUDA_MPS_{name}_DIRECTORY"]
        self.folder.cleanup()


def side(options, which, seconds, name, threads=100):
    """Starts one side as a process of its own; returns it when it measures."""
    environment = dict(os.environ, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(threads))
    command = [*saturate(options), "--device", options.device, "--class", which, "--time", f"{seconds}s"]
    command += ["--out", os.path.join(options.out, name)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    said = []
    for line in process.stderr:
        said.append(line)
        if "alone" in line.lower():
            return process
    sys.exit(f"{' '.join(command)}: it ended before it measured: {''.join(said)}")


def ends(process):
    process.stderr.read()
    if process.wait() != 0:
        sys.exit("one side failed")


def row_of(options, name):
    with open(os.path.join(options.out, name, "saturate.json")) as file:
        return json.load(file)["rows"][0]


def colocated(options, name, short, long, threads):
    """Measures `short` within `long`."""
    if not os.path.exists(os.path.join(options.out, name, "saturate.json")):
        parts = {"rt": 100, "be": threads}
        other = side(options, long, options.seconds + 40, f"{name}-{long}", parts[long])
        ends(side(options, short, options.seconds, name, parts[short]))
        if other.poll() is not None:
            sys.exit(f"{name}: the other side ended first; give it more time")
        other.terminate()
        other.wait()
    return row_of(options, name)


def by_mps(options, base):
    with Mps():
        for threads in map(int, options.threads.split(",")):
            rt = colocated(options, f"mps-{threads}-rt", "rt", "be", threads)
            be = colocated(options, f"mps-{threads}-be", "be", "rt", threads)
            yield base.point("MPS, % of threads", str(threads), rt["rt_p99_ms"], be["be_inferences_per_second"])


def draw(points, path, caption):
    """Points in the plane: what best-effort work keeps, and real-time work's tail."""
    width, height, left, bottom = 860, 480, 60, 50
    most = max(point["rt"] for point in points) * 1.03
    x = lambda be: left + be / 100 * (width - left - 220)
    y = lambda rt: height - bottom - (rt - 0.98) / (most - 0.98) * (height - bottom - 40)
    text = lambda at, up, words, more="": f'<text x="{at:.0f}" y="{up:.0f}" font-size="12" {more}>{words}</text>'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">']
    out += ['<rect width="100%" height="100%" fill="white"/>', text(left, 22, caption)]
    for be in range(0, 101, 20):
        out += [f'<path d="M{x(be):.0f} {y(0.98):.0f}V40" stroke="#ddd"/>', text(x(be) - 8, height - 30, f"{be}")]
    step = 0.05 if most < 1.6 else 0.25
    for rt in (1 + step * i for i in range(int((most - 1) / step) + 1)):
        out += [f'<path d="M{left} {y(rt):.0f}H{x(100):.0f}" stroke="#ddd"/>', text(22, y(rt) + 4, f"{rt:.2f}")]
    out += [text(x(30), height - 10, "best-effort work kept, %"), text(8, 36, "RT p99 ÷ alone")]
    groups = list(dict.fromkeys(point["group"] for point in points))
    for index, group in enumerate(groups):
        its, colour = [point for point in points if point["group"] == group], COLOURS[index % len(COLOURS)]
        line = " ".join(f"{x(point['be']):.1f},{y(point['rt']):.1f}" for point in sorted(its, key=lambda one: one["be"]))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}"/>')
        for point in its:
            at, up = x(point["be"]), y(point["rt"])
            out += [f'<circle cx="{at:.1f}" cy="{up:.1f}" r="4" fill="{colour}"/>', text(at + 6, up - 5, point["label"])]
        out.append(text(x(100) + 12, 60 + 20 * index, group, f'fill="{colour}"'))
    with open(path, "w") as file:
        file.write("\n".join([*out, "</svg>", ""]))


def main():
    say = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    say.add_argument("-b", "--reef", default="target/gpu/reef")
    say.add_argument("-o", "--out", default="curve_results")
    say.add_argument("--device", default="cuda:0")
    say.add_argument("--seconds", type=float, default=1.0, help="of each row")
    say.add_argument("--blocks", default="16,33,66,132,2000", help="best-effort blocks at a time")
    say.add_argument("--slo", default="1.05,1.1,1.2", help="targets of the latency of real-time work")
    # Drivers give 8 multiprocessors at a time on sm_90.
    say.add_argument("--free", default="40,72,104", help="multiprocessors for real-time work")
    say.add_argument("--threads", default="100,75,50,25", help="of the best-effort process under MPS, in percent")
    say.add_argument("--rt-model", default="resnet50")
    say.add_argument("--be-model", default="resnet152")
    say.add_argument("--parts", default="pad,kernels,split,mps", help="`pad` is always measured")
    options = say.parse_args()
    os.makedirs(options.out, exist_ok=True)
    base, points = by_reef(options)
    others = {"kernels": by_kernels, "split": by_green_contexts, "mps": by_mps}
    for name in options.parts.split(","):
        for point in others[name](options, base) if name in others else ():
            points.append(point)
            print(json.dumps(point, ensure_ascii=False), flush=True)
    with open(os.path.join(options.out, "curve.json"), "w") as file:
        json.dump({"device": options.device, "points": points}, file, indent=1, ensure_ascii=False)
    draw(points, os.path.join(options.out, "curve.svg"), f"{options.be_model} next to a closed loop of {options.rt_model}")
    for point in points:
        print(f"{point['group']:32} {point['label']:>6}  RT p99 x {point['rt']:.3f}  BE {point['be']:5.1f} %")


main()
