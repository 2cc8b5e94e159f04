"""colocate.py: arithmetic of pairs, turns of their ways, and runs during which the host was slow."""

import contextlib
import io
import math
import subprocess
import types
import unittest
from unittest import mock

import colocate
import figures

Way = colocate.Way


def samples(begin, end, work, wake=100.0):
    """Samples of a host each 5 ms, whose work takes what this function of time says, in microseconds."""
    count = round((end - begin) / 0.005)
    return [(begin + 0.005 * at, wake, work(begin + 0.005 * at)) for at in range(count)]


class Pairs(unittest.TestCase):
    def test_kept_counts_steps_of_the_first_ones_window_alone(self):
        first = [10 + at / 100 for at in range(401)]
        second = [at / 10 for at in range(80, 200)]  # its speed alone is 20 a second
        pair = figures.Pair(first, second, first, 20.0)
        self.assertAlmostEqual(pair.kept(), 50.0)
        self.assertAlmostEqual(pair.standstill(), 100.0)
        self.assertAlmostEqual(pair.begin(), 1.0)

    def test_target_is_met_by_the_share_of_late_steps(self):
        alone = [at / 1000 for at in range(3000)]
        ends, now = [], 0.0
        for at in range(2100):
            now += 0.001 if at % 50 else 0.0012  # one in fifty is late
            ends.append(now)
        self.assertEqual(figures.Pair(ends, ends, alone, 1.0).met(1.10), (0, 1))
        self.assertEqual(figures.Pair(ends, ends, alone, 1.0).met(1.25), (1, 1))

    def test_pooled_steps_are_compared_with_all_alone(self):
        p99, late = figures.pooled([1.0] * 95 + [1.2] * 5, [1.0] * 100, 1.10)
        self.assertAlmostEqual(p99, 1.2)
        self.assertAlmostEqual(late, 5.0)


class Hosts(unittest.TestCase):
    def test_slow_spell_shows_in_its_slice(self):
        spell = lambda at: 300.0 if 1.0 <= at < 1.5 else 150.0
        host = figures.Host(samples(0, 4, spell), 0, 4)
        self.assertAlmostEqual(host.slowest(), 400.0)
        self.assertAlmostEqual(host.p99(), 400.0)
        after = figures.Host(samples(0, 4, spell), 2, 4)
        self.assertAlmostEqual(after.slowest(), 250.0, msg="samples from before its begin do not count")

    def test_single_late_wake_up_makes_no_slow_slice(self):
        all_of = samples(0, 4, lambda _: 150.0)
        all_of[333] = (all_of[333][0], 20_000.0, 150.0)
        self.assertAlmostEqual(figures.Host(all_of, 0, 4).slowest(), 250.0)

    def test_host_without_samples_says_nothing(self):
        host = figures.Host([], 0, 4)
        self.assertTrue(math.isnan(host.p99()) and math.isnan(host.slowest()))
        self.assertEqual(figures.steady([host.slowest()] * 3), [True] * 3)

    def test_runs_of_a_slow_host_are_found_among_all(self):
        slowest = [250, 251, 400, 249, math.nan, 310, 290]
        self.assertEqual(figures.steady(slowest), [True, True, False, True, True, False, True])
        # More than half of all runs are slow: the fastest quarter still says what steady is.
        self.assertEqual(figures.steady([400, 400, 250, 250, 410, 420, 390]), [False, False, True, True] + [False] * 3)

    def test_runs_of_a_way_count_if_half_of_them_are_steady(self):
        is_steady = [True, False, True, True, False, False]
        self.assertEqual(colocate.steady_runs([0, 1, 2], is_steady), ([0, 2], "2 runs, 1 left out"))
        self.assertEqual(colocate.steady_runs([0, 2], is_steady), ([0, 2], "2 runs"))
        kept, note = colocate.steady_runs([1, 3, 4, 5], is_steady)
        self.assertEqual((kept, note), ([1, 3, 4, 5], "4 runs, during 3 of which the host was slow"))

    def test_steps_alone_of_runs_that_are_left_out_do_not_count(self):
        table = colocate.Table(None, False)
        key, other = ("llm", True, ""), ("llm", False, "")
        table.rows = [dict(key=one) for one in (key, key, key, other)]
        table.alone_lengths = [[1.0], [5.0], [2.0], [3.0]]
        is_steady = [True, False, True, True]
        self.assertEqual(table.all_alone([0], is_steady), [1.0, 2.0], "of all ways")
        self.assertEqual(table.all_alone([0, 1], is_steady), [1.0, 5.0, 2.0], "all runs of this way count")
        self.assertEqual(table.all_alone([3], is_steady), [3.0])

    def test_probe_answers_with_samples_since_the_last_question(self):
        probe = colocate.Probe()
        self.addCleanup(probe.process.kill)
        found = []
        while len(found) < 10:
            found += probe.samples()
        times = [woken for woken, _, _ in found]
        self.assertEqual(times, sorted(set(times)), "none comes twice")
        self.assertTrue(all(wake >= 0 and work > 0 for _, wake, work in found), found)
        probe.end()
        self.assertEqual(probe.samples(), [], "a probe that has ended")


class Tables(unittest.TestCase):
    def test_row_has_each_column_and_the_longest_step(self):
        ends = [at / 1000 for at in range(100)]
        result = dict(p50=1.0, p99=1.5, p999=2.0, max=9.0, per_s=1000.0, marks=ends, ends=ends)
        table = colocate.Table(None, False)
        with contextlib.redirect_stdout(io.StringIO()):
            table.add("llm+train", Way("mps"), result, result, result)
        values = table.rows[0]["values"]
        self.assertEqual([len(values), len(colocate.FORMATS)], [len(colocate.COLUMNS)] * 2)
        self.assertAlmostEqual(values[colocate.COLUMNS.index("max x")], 6.0)


class Daemons(unittest.TestCase):
    def test_mps_that_does_not_end_in_time_costs_no_results(self):
        def late(env):
            raise subprocess.TimeoutExpired("nvidia-cuda-mps-control", 30)

        mps, said = colocate.Mps(), io.StringIO()
        mps.env = {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"}
        with mock.patch.object(colocate, "end_mps", late), contextlib.redirect_stdout(said):
            mps.end()
        self.assertIn("# MPS: ", said.getvalue())
        self.assertIsNone(mps.env)


class Turns(unittest.TestCase):
    RUNS = [(pair, Way(way)) for way in ("alone", "reef:0", "mps") for pair in ("llm+train", "unet+train")]

    def test_each_repetition_has_each_way(self):
        args = types.SimpleNamespace(repetitions=2)
        order = [f"{pair.split('+')[0]} {way.text}" for pair, way in colocate.in_turns(args, self.RUNS)]
        once = ["llm reef:0", "llm mps", "unet reef:0", "unet mps"]
        self.assertEqual(order, ["llm alone", "unet alone"] + once * 2)

    def test_programs_of_a_session_are_shared(self):
        self.assertEqual(colocate.programs_of(self.RUNS), 6 + 3, "train once in each of three sessions")
        threads = [("llm+train", Way(way)) for way in ("mps", "mps:20", "mps:20+slo:1.10")]
        self.assertEqual(colocate.programs_of(threads), 2 + 3)

    def test_runs_beyond_the_budget_are_listed(self):
        args = types.SimpleNamespace(seconds=2.0, settle=3.0, later_settle=None, alone=1.0, budget=60.0)
        order = [("llm+train", Way("slo:1.10")), ("llm+train", Way("mps"))]
        self.assertAlmostEqual(colocate.seconds_of(args, order[0][1], True), 6.9)
        sessions = dict.fromkeys([way.session for _, way in order], object())
        late = colocate.time.monotonic() - 59
        self.assertEqual(colocate.run_all(args, sessions, order, None, late), ["llm+train slo:1.10", "llm+train mps"])
        self.assertEqual(colocate.run_all(args, {}, order, None, late + 59), ["llm+train slo:1.10", "llm+train mps"])

    def test_later_runs_with_a_target_settle_for_less(self):
        class Session:
            settled = []

            def run(self, pair, way, settle):
                self.settled.append(settle)
                return ()

        table = types.SimpleNamespace(add=lambda *_: None)
        args = types.SimpleNamespace(seconds=2.0, settle=8.0, later_settle=1.0, alone=1.0, budget=60.0)
        order = [("llm+train", Way("slo:1.10")), ("llm+train", Way("slices"))] * 3
        sessions = dict.fromkeys([way.session for _, way in order], Session())
        self.assertEqual(colocate.run_all(args, sessions, order, table, colocate.time.monotonic()), [])
        self.assertEqual(Session.settled, [8.0, 0.7, 1.0, 0.7, 1.0, 0.7])


if __name__ == "__main__":
    unittest.main()
