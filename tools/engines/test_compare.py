"""compare.py of examples/pytorch and examples/serving: figures, ways with programs on the driver for tests, and a daemon."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parents[1] / "examples/pytorch/compare.py"
SERVING = HERE.parents[1] / "examples/serving/compare.py"


def module(script):
    spec = importlib.util.spec_from_file_location("compare", script)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


compare, serving = module(SCRIPT), module(SERVING)


def texts(file):
    """All texts of a drawing."""
    return [text.text for text in ElementTree.parse(file).getroot().iter("{http://www.w3.org/2000/svg}text")]


def program(*lines):
    """A program that has written these lines."""
    one = compare.Program.__new__(compare.Program)
    one.lines = [line.split() for line in lines]
    return one


class Figures(unittest.TestCase):
    def test_kept_counts_steps_of_the_measured_time_alone(self):
        train = program("ready", "step 0 1.0", "step 4 2.0", "step 8 4.0", "step 12 6.0", "step 100 7.0")
        self.assertAlmostEqual(compare.steps(train, 2.0, 6.0), 8.0)
        self.assertAlmostEqual(compare.steps(train, 3.0, 5.0), 4.0, msg="parts of two steps")
        self.assertAlmostEqual(compare.steps(train, 0.0, 1.5), 2.0, msg="nothing before the first mark")
        self.assertEqual(compare.steps(program("ready"), 0, 1), 0.0)

    def test_latency_leaves_out_what_came_before_or_after(self):
        came = [f"request {at / 10} 0.010" for at in range(10, 110)]
        serve = program("ready", "request 0.5 9.0", *came, "request 11.0 9.0", "warning: a line of another kind")
        found = compare.latency(serve, 1.0, 11.0)
        self.assertEqual((found["requests"], round(found["p50"]), round(found["p99"])), (100, 10, 10))
        with self.assertRaisesRegex(compare.Unable, "no request"):
            compare.latency(serve, 20.0, 30.0)

    def test_ways_without_time_or_means_are_listed(self):
        args = types.SimpleNamespace(budget=0.0, out=Path(tempfile.mkdtemp(prefix="reef-compare-")))
        self.addCleanup(shutil.rmtree, args.out)
        one = compare.Comparison(args)
        one.begin -= 1
        one.run("shared")
        self.assertEqual(one.left, [("shared", "no time was left of 0 s")])


@unittest.skipIf(shutil.which("reef") is None, "the command reef is not in PATH")
class Ways(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="reef-compare-"))
        self.addCleanup(shutil.rmtree, self.folder)
        command = Path(shutil.which("reef")).resolve()
        os.symlink(command, self.folder / "reef")
        found = [command.parent, command.parent.parent / "lib/reef"]
        shims = [place / "libreef_cuda_shim.so" for place in found]
        os.symlink(next(shim for shim in shims if shim.exists()), self.folder / "libreef_cuda_shim.so")

    def compare(self, *options, train=None):
        stub = f"{shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'compare_stub.py'))}"
        python_path = f"{HERE}:{os.environ.get('PYTHONPATH', '')}"
        environment = {**os.environ, "PYTHONPATH": python_path, "REEF_FAKE_KERNEL_NS": "1000000"}
        library = os.environ.get("REEF_CUDA")
        if library and not (self.folder / "libcuda.so.1").exists():
            os.symlink(library, self.folder / "libcuda.so.1")
            environment["LD_LIBRARY_PATH"] = str(self.folder)
        command = [sys.executable, str(SCRIPT), str(self.folder), "--seconds", "1", "--settle", "0.3"]
        command += ["--settle-target", "0.3", "--serve", f"{stub} serve", "--train", train or f"{stub} train"]
        command += ["--out", str(self.folder / "out"), *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    def test_each_way_has_latency_and_what_is_kept(self):
        done = self.compare("--ways", "alone,shared,reef,reef-target,mps")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads((self.folder / "out/compare.json").read_text())
        rows = {row["way"]: row for row in found["rows"]}
        for way in ["shared", "reef", "reef-target"]:
            self.assertIn(way, rows, done.stdout)
            self.assertGreater(rows[way]["requests"], 5, done.stdout)
            self.assertGreater(rows[way]["kept"], 1, done.stdout)
        self.assertIsNone(rows["alone"]["kept"])
        if shutil.which("nvidia-cuda-mps-control") is None:
            self.assertEqual(found["left_out"], [dict(way="mps", why="no nvidia-cuda-mps-control")])
        self.assertIn("both as they are", texts(self.folder / "out/compare.svg"))

    def test_program_that_ends_is_named_with_its_last_line(self):
        fails = f"{shlex.quote(sys.executable)} -c 'import sys; sys.exit(\"no such data\")'"
        done = self.compare("--ways", "shared", train=fails)
        self.assertEqual(done.returncode, 1, "no way ran")
        self.assertIn("left out: shared: train: ended with 1: no such data", done.stdout)

    def test_folder_without_the_command_is_refused(self):
        (self.folder / "reef").unlink()
        done = self.compare("--ways", "reef")
        self.assertEqual(done.returncode, 2)
        self.assertIn("reef: no such file: cargo build", done.stderr)
        done = self.compare("--ways", "fastest")
        self.assertIn("--ways: must be among alone, shared,", done.stderr)


class Serving(unittest.TestCase):
    """examples/serving: the daemon's ways."""

    def test_figures_of_a_row_are_relative_to_those_alone(self):
        alone = [1.0, 2.0, 4.0], 50.0
        found = serving.row("reef", [2.0, 3.0, 5.0, 6.0], 40.0, alone)
        self.assertEqual((found["p50"], found["p99"], found["growth"]), (5.0, 6.0, 1.5))
        self.assertEqual((found["kept"], found["requests"]), (80.0, 4))
        self.assertIsNone(serving.row("alone", [1.0], None, alone)["kept"])

    @unittest.skipIf(shutil.which("reef") is None, "the command reef is not in PATH")
    def test_each_way_has_a_row_and_a_bar(self):
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, str(SERVING), str(Path(shutil.which("reef")).parent), "--device", "cpu:0?units=1"]
            command += ["--rt", "mobilenet_v3_small", "--be", "mobilenet_v2", "--every", "100", "--seconds", "0.5"]
            done = subprocess.run([*command, "--out", out], capture_output=True, text=True, timeout=500)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads((Path(out) / "compare.json").read_text())
            self.assertEqual([row["way"] for row in rows], serving.WAYS)
            for row in rows:
                self.assertGreater(row["requests"], 0, done.stdout)
                self.assertEqual(row["kept"] is None, row["way"] == "alone", done.stdout)
            said = texts(Path(out) / "compare.svg")
            self.assertEqual(set(serving.WAYS) - set(said), set())
            self.assertIn("mobilenet_v2 kept, %", said)


if __name__ == "__main__":
    unittest.main()
