"""Queues, limits, traces and clusters on the CPU device."""

import json
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import reef

SIZE = 32


def image(seed=0):
    return np.random.default_rng(seed).random((1, 3, SIZE, SIZE), dtype=np.float32)


class Queues(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = reef.open("cpu:0?units=2")
        cls.addClassCleanup(cls.device.close)
        cls.net = cls.device.load("resnet18", input_size=SIZE)
        cls.other = cls.device.load("mobilenet_v2", input_size=64)

    def test_networks_of_one_queue_run_in_order(self):
        x = np.zeros(self.other.inputs[0].shape, np.float32)
        with self.device.best_effort() as be:
            jobs = [be.submit(self.net, image()), be.submit(self.other, x), be.submit(self.net, image(1))]
            last = jobs.pop().result()
            self.assertTrue(all(job.done() for job in jobs), "earlier ones have ended")
        with self.device.real_time() as rt:
            self.assertTrue(np.array_equal(last, rt.run(self.net, image(1))))

    def test_sizes_of_a_queue_hold_and_wrong_ones_are_refused(self):
        with self.device.best_effort(capacity=16, window=1) as be:
            with self.assertRaisesRegex(reef.InvalidError, "commands, the client's capacity is 16"):
                be.run(self.net, image())
        with self.device.best_effort(capacity=256, window=1) as be:
            self.assertEqual(be.run(self.net, image()).shape, (1, 1000))
        numbers = ("capacity", -1), ("weight", -1), ("weight", 2**32), ("window", -1), ("priority", 2**31)
        wrong = [{"capacity": 100}, {"weight": 0}, {"window": 0}, *({name: value} for name, value in numbers)]
        for options in wrong:
            with self.assertRaises(reef.InvalidError, msg=str(options)):
                self.device.best_effort(**options)

    def test_use_of_the_device_is_counted(self):
        with self.device.real_time() as rt, self.device.best_effort() as be:
            self.assertEqual(rt.usage(), (0.0, 0, 0))
            for _ in range(3):
                rt.run(self.net, image())
            be.run(self.net, image())
            self.assertEqual(rt.usage()[1:], (3, 0))
            self.assertGreater(rt.usage().served, 0)
            end = time.monotonic() + 60
            while be.usage().served == 0.0:  # it is charged at the next pass of the dispatcher
                self.assertLess(time.monotonic(), end)
                be.run(self.net, image())
            self.assertIsNone(be.usage().requests)
        with self.assertRaises(reef.CancelledError):
            rt.usage()


class Budgets(unittest.TestCase):
    def test_budgets_are_granted_up_to_the_reserve(self):
        with reef.open("cpu:0?units=1", reserve=0.25) as device:
            net = device.load("resnet18", input_size=SIZE)
            first = device.real_time(rate=(0.01, 0.005))
            with self.assertRaisesRegex(reef.BusyError, "30.0 % of the device, of which 25.0 % are left"):
                device.real_time(rate=(0.01, 0.003))
            with device.real_time(rate=(0.01, 0.0025)) as second:
                self.assertEqual(second.run(net, image()).shape, (1, 1000))
            first.close()
            with device.real_time(rate=(0.01, 0.0075)), device.real_time() as rt:
                self.assertEqual(rt.run(net, image()).shape, (1, 1000))

    def test_requests_beyond_a_budget_are_late(self):
        with reef.open("cpu:0?units=1", reserve=0.1) as device:
            net = device.load("resnet18", input_size=SIZE)
            with device.real_time(rate=(3600.0, 1e-6)) as rt:
                for _ in range(3):
                    rt.run(net, image())
                self.assertEqual(rt.usage()[1:], (3, 2), "the first one used the budget up")

    def test_wrong_budgets_are_refused(self):
        with reef.open("cpu:0?units=1") as device, self.assertRaisesRegex(reef.InvalidError, "reserve"):
            device.real_time(rate=(0.01, 0.005))
        with reef.open("cpu:0?units=1", reserve=0.0) as device:
            for rate in [(0.01, 0.02), (0.01, 0.0), (-1.0, 0.1), (float("nan"), 0.1)]:
                with self.assertRaises(reef.InvalidError, msg=str(rate)):
                    device.real_time(rate=rate)
        for reserve in [1.0, -0.1, float("nan")]:
            with self.assertRaises(reef.InvalidError, msg=str(reserve)):
                reef.open("cpu:0?units=1", reserve=reserve)


class Traces(unittest.TestCase):
    def test_recording_has_requests_preemptions_and_blocks(self):
        with reef.open("cpu:0?units=2") as device, tempfile.TemporaryDirectory() as folder:
            net = device.load("resnet18", input_size=SIZE)
            file = Path(folder, "trace.json")
            with device.real_time() as rt, device.best_effort() as be:
                rt.run(net, image())
                with device.recording(file):
                    jobs = [be.submit(net, image()) for _ in range(4)]
                    rt.run(net, image())
                    [job.result() for job in jobs]
                    with self.assertRaises(reef.BusyError):
                        device.trace(0.0)
                rt.run(net, image())
            events = json.loads(file.read_text())["traceEvents"]
        begins = [event["name"] for event in events if event["ph"] == "b"]
        self.assertEqual((begins.count("rt"), begins.count("be")), (1, 4), "those inside alone")
        self.assertEqual(begins.count("rt") + begins.count("be"), begins.count("queue"))
        names = {event["name"] for event in events}
        self.assertIn("preemption", names)
        self.assertTrue(any(name.startswith("RT ") for name in names))
        self.assertTrue(any(name.startswith("BE ") for name in names))

    def test_trace_of_a_time_is_a_file_and_ends_with_an_error(self):
        with reef.open("cpu:0?units=1") as device:
            net = device.load("resnet18", input_size=SIZE)
            stop = threading.Event()

            def work():
                with device.real_time() as rt:
                    while not stop.is_set():
                        rt.run(net, image())

            thread = threading.Thread(target=work)
            thread.start()
            try:
                trace = device.trace(0.2)
            finally:
                stop.set()
                thread.join()
            self.assertIsInstance(trace, bytes)
            self.assertTrue(any(event["name"] == "rt" for event in json.loads(trace)["traceEvents"]))
            with self.assertRaises(ZeroDivisionError), tempfile.TemporaryDirectory() as folder:
                with device.recording(Path(folder, "trace")):
                    raise ZeroDivisionError
            self.assertEqual(json.loads(device.trace(0.0))["displayTimeUnit"], "ns")
            for seconds in [-1.0, 61.0, float("nan")]:
                with self.assertRaises(reef.InvalidError):
                    device.trace(seconds)


class Clusters(unittest.TestCase):
    def setUp(self):
        self.cluster = reef.open_cluster(["cpu:0?units=1", "cpu:1?units=1"])
        self.net = self.cluster.load("resnet18", input_size=SIZE)
        with reef.open("cpu:0?units=1") as device, device.real_time() as rt:
            self.expected = rt.run(device.load("resnet18", input_size=SIZE), image())

    def test_real_time_clients_are_apart(self):
        with self.cluster.real_time(self.net, load=0.3) as one, self.cluster.real_time(self.net, load=0.3) as two:
            self.assertEqual({one.node, two.node}, {0, 1})
            for client in (one, two):
                self.assertTrue(np.array_equal(client.run(image()), self.expected))
                self.assertGreater(client.timing.total, 0)
            self.assertEqual([node.clients for node in self.cluster.nodes()], [1, 1])
            self.assertGreater(self.cluster.nodes()[0].promised, 40 << 20)
        self.assertEqual([node.clients for node in self.cluster.nodes()], [0, 0])

    def test_client_moves_when_its_device_is_lost(self):
        with self.cluster.real_time(self.net) as rt, self.cluster.best_effort(self.net) as be:
            before = {rt: rt.node, be: be.node}
            for client in (rt, be):
                self.assertTrue(np.array_equal(client.run(image()), self.expected))
            self.cluster.mark_lost(rt.node, "pulled out")
            for client in (rt, be):
                self.assertTrue(np.array_equal(client.run(image()), self.expected))
                self.assertEqual(client.node, 1 - before[rt])
            self.assertEqual(rt.moves, 1)
            self.assertIn("pulled out", self.cluster.nodes()[before[rt]].lost)

    def test_client_that_stays_ends_with_its_device(self):
        with self.cluster.real_time(self.net, moves=False) as rt:
            self.cluster.mark_lost(rt.node)
            with self.assertRaises(reef.DeviceLostError):
                rt.run(image())

    def test_interrupt_ends_a_wait(self):
        code = """
import os, signal, threading, time, numpy, reef
cluster = reef.open_cluster("cpu:0?units=1", "rt-only")  # which runs no best-effort work
net = cluster.load("resnet18", input_size=32)
be, x = cluster.best_effort(net), numpy.zeros((1, 3, 32, 32), numpy.float32)
for call in (lambda: be.run(x), be.close):
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        call()
        time.sleep(60)  # sleep: until the signal, as it may have come before the first call waited
    except KeyboardInterrupt:
        print("interrupted", flush=True)
os._exit(0)
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("interrupted\n" * 2, 0), run.stderr)

    def test_memory_that_is_not_there_is_refused(self):
        for node in (0, 1):
            self.cluster.limit_memory(node, 1 << 20)
        with self.assertRaisesRegex(reef.Error, "no device takes"):
            self.cluster.best_effort(self.net)

    def test_wrong_arguments_are_refused(self):
        other = reef.open_cluster("cpu:0?units=1").load("resnet18", input_size=SIZE)
        with self.cluster.best_effort(self.net) as be:
            for call in [
                lambda: be.run(),
                lambda: be.run(image()[:, :1]),
                lambda: self.cluster.best_effort(other),
                lambda: self.cluster.best_effort(self.net, load=2.0),
                lambda: self.cluster.mark_lost(2),
                lambda: self.cluster.limit_memory(7, 1),
                lambda: self.cluster.limit_memory(0, -1),
                lambda: self.cluster.mark_lost(-1),
                lambda: self.cluster.best_effort(self.net, memory=-1),
                lambda: reef.open_cluster([]),
            ]:
                with self.assertRaises(reef.Error):
                    call()
            with self.assertRaisesRegex(reef.InvalidError, "devices must name at least one device"):
                reef.open_cluster([])
            self.assertTrue(np.array_equal(be.run(**{self.net.inputs[0].name: image()}), self.expected))
        with self.assertRaises(reef.CancelledError):
            be.run(image())


if __name__ == "__main__":
    unittest.main()
