"""A daemon with two models and a client of each: latency of the first, and what is kept of the second.

compare.py FOLDER [--device NAME] [--rt MODEL] [--be MODEL] [--every MS] [--seconds S] [--out DIR]

FOLDER has `reef`, such as target/release. The first client asks for a small model, and pauses for
--every after each answer. The second asks for a large one without a pause. The ways:

    alone             each client by itself
    one class         both best-effort: requests take turns
    streams           two classes, each in streams of its own, without preemption
    stream-priority   the same, and the first client's streams have the higher priority
    reef              two classes, and real-time requests preempt

Each way has a daemon of its own, and all clients have had an answer before anything counts. Then
they run for S seconds, and until each has an answer of that time. *Kept* is the number of the second
client's answers per second, by that alone. Prints a table, and writes compare.json and compare.svg
to DIR [.].
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))
import bars  # noqa: E402

WAYS = ["alone", "one class", "streams", "stream-priority", "reef"]
START = 120  # seconds until a daemon or a client must have answered


class Daemon:
    """`reef serve` with both models, and a folder of its own."""

    def __init__(self, args, scheduler):
        self.folder = Path(tempfile.mkdtemp(prefix="reef-compare-"))
        command = [str(args.folder / "reef"), "serve", "--device", args.device, "--socket-dir", str(self.folder / "sockets")]
        command += ["--load", f"{args.rt},{args.be}", "--set", "models.builtin=true", "--set", f'scheduler="{scheduler}"']
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + START
        while "\nready\n" not in (self.folder / "log").read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text().strip().splitlines()
                self.end()
                raise SystemExit(f"no daemon: {said[-1] if said else 'it does not start'}")
            time.sleep(0.05)

    def end(self):
        end(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


class Client:
    """`reef request` in a class, with the time at which each answer was seen."""

    def __init__(self, args, daemon, model, of_class, every):
        self.answers, self.has_answer = [], threading.Event()
        command = [str(args.folder / "reef"), "request", model, "--class", of_class, "--continuous", "--json"]
        command += ["--sleep", f"{every}ms", "--socket-dir", str(daemon.folder / "sockets")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.answers.append((time.monotonic(), json.loads(line)["latency_ms"]))
            self.has_answer.set()

    def wait(self):
        if not self.has_answer.wait(START):
            raise SystemExit("a client has no answer")

    def between(self, begin, until):
        return [latency for seen, latency in list(self.answers) if begin <= seen < until]


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def measure(args, scheduler, clients):
    """Runs clients of (model, class, pause); returns the latencies of each, and the time in which they were."""
    daemon, running = Daemon(args, scheduler), []
    try:
        running = [Client(args, daemon, *client) for client in clients]
        for client in running:
            client.wait()
        begin = time.monotonic()
        until = begin + args.seconds
        while time.monotonic() < until or not all(client.between(begin, until) for client in running):
            if time.monotonic() > begin + args.seconds + START:
                raise SystemExit(f"a client had no answer within {START} s")
            time.sleep(0.02)
            until = max(until, time.monotonic())
    finally:
        for client in running:
            end(client.process)
        daemon.end()
    return [client.between(begin, until) for client in running], until - begin


def clients(args, way):
    first = (args.rt, "be" if way == "one class" else "rt", args.every)
    return [first, (args.be, "be", 0)]


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def row(way, latencies, rate, alone):
    """Figures of a way: the first client's latencies, and the second one's answers per second."""
    p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
    growth = p99 / percentile(alone[0], 0.99)
    kept = None if rate is None else 100 * rate / alone[1]
    return dict(way=way, p50=p50, p99=p99, growth=growth, kept=kept, requests=len(latencies))


def line(one):
    kept = "–" if one["kept"] is None else f"{one['kept']:.0f} %"
    cells = [one["way"], f"{one['p50']:.2f}", f"{one['p99']:.2f}", f"{one['growth']:.2f}", kept, str(one["requests"])]
    return "| " + " | ".join(cells) + " |"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--device", default="auto", help="device of the daemon [auto]")
    parser.add_argument("--rt", default="resnet18", help="model of the first client [resnet18]")
    parser.add_argument("--be", default="resnet152", help="model of the second client [resnet152]")
    parser.add_argument("--every", type=float, default=10, metavar="MS", help="pause of the first client [10]")
    parser.add_argument("--seconds", type=float, default=5, help="time of which the figures are [5]")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of compare.json and compare.svg [.]")
    args = parser.parse_args()
    if not (args.folder / "reef").is_file():
        parser.error(f"{args.folder / 'reef'}: no such file: cargo build --release -p reef-cli makes it")
    return args


def main():
    args = arguments()
    first, second = clients(args, "reef")
    [latencies], _ = measure(args, "reef", [first])
    [answers], seconds = measure(args, "reef", [second])
    alone = latencies, len(answers) / seconds
    rows = [row("alone", latencies, None, alone)]
    print("| | p50, ms | p99, ms | p99 ÷ alone | kept | requests |\n|---|--:|--:|--:|--:|--:|")
    print(line(rows[0]), flush=True)
    for way in WAYS[1:]:
        scheduler = "reef" if way == "one class" else way
        [latencies, answers], seconds = measure(args, scheduler, clients(args, way))
        rows.append(row(way, latencies, len(answers) / seconds, alone))
        print(line(rows[-1]), flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "compare.json").write_text(json.dumps(rows, indent=1) + "\n")
    drawn = [{**one, "name": one["way"], "is_reef": one["way"] == "reef"} for one in rows]
    text = bars.drawing(f"p99 of {args.rt}, ms", f"{args.be} kept, %", drawn)
    (args.out / "compare.svg").write_text(text)


if __name__ == "__main__":
    main()
