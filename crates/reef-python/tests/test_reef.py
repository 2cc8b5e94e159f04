"""Tests of the package on the CPU device: python -m unittest discover crates/reef-python/tests"""

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import reef

SIZE = 32
COMMAND = shutil.which("reef")


def image(seed=0, size=SIZE):
    return np.random.default_rng(seed).random((1, 3, size, size), dtype=np.float32)


class Networks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = reef.open("cpu:0?units=2")
        cls.net = cls.device.load("resnet18", batch=1, input_size=SIZE)

    @classmethod
    def tearDownClass(cls):
        cls.device.close()

    def test_both_classes_give_the_same_output(self):
        x = image()
        with self.device.real_time() as rt, self.device.best_effort(weight=2) as be:
            first = rt.run(self.net, x)
            self.assertEqual((first.shape, first.dtype), ((1, 1000), np.float32))
            self.assertTrue(np.isfinite(first).all() and first.std() > 0)
            self.assertTrue(np.array_equal(first, be.run(self.net, x)))
            self.assertFalse(np.array_equal(first, rt.run(self.net, image(1))))
            name = self.net.inputs[0].name
            self.assertTrue(np.array_equal(first, rt.run(self.net, **{name: x})))

    def test_request_preempts_best_effort_work(self):
        before = self.device.stats().preemptions
        with self.device.real_time() as rt, self.device.best_effort() as be:
            jobs = [be.submit(self.net, image(seed)) for seed in range(4)]
            timing = rt.submit(self.net, image())
            timing.result()
            outputs = [job.result() for job in jobs]
            alone = [rt.run(self.net, image(seed)) for seed in range(4)]
        for output, expected in zip(outputs, alone):
            self.assertTrue(np.array_equal(output, expected), "nothing is lost")
        self.assertGreater(self.device.stats().preemptions, before)
        self.assertGreater(timing.timing.total, 0)
        self.assertIsNotNone(timing.timing.delay)

    def test_wrong_inputs_are_named(self):
        with self.device.real_time() as rt:
            for inputs, named, word in [
                ((image(size=31),), {}, "must be float32 (1, 3, 32, 32), got float32 (1, 3, 31, 31)"),
                ((image().astype(np.float64),), {}, "got float64"),
                ((), {}, "got 0"),
                ((image(), image()), {}, "got 2"),
                ((), {"nothing": image()}, "no further input 'nothing'"),
                (("text",), {}, "str must be an array in the host's memory"),
                (({"input": image()},), {}, "dict must be an array in the host's memory: inputs by name are keywords"),
                (([[1.0]],), {}, "got float32 (1, 1)"),
            ]:
                with self.assertRaisesRegex(reef.InvalidError, ".*"):
                    try:
                        rt.run(self.net, *inputs, **named)
                    except reef.InvalidError as error:
                        self.assertIn(word, str(error))
                        raise
            self.assertEqual(rt.run(self.net, image()).shape, (1, 1000), "memory is given back")

    def test_arrays_that_are_not_contiguous_are_copied(self):
        x = image()
        with self.device.real_time() as rt:
            expected = rt.run(self.net, x)
            turned = np.asfortranarray(x)
            self.assertFalse(turned.flags.c_contiguous)
            self.assertTrue(np.array_equal(expected, rt.run(self.net, turned)))
            self.assertTrue(np.array_equal(expected, rt.run(self.net, x.tolist())))

    def test_arrays_with_a_mask_are_refused(self):
        x = image()
        with self.device.real_time() as rt:
            expected = rt.run(self.net, x)
            self.assertTrue(np.array_equal(expected, rt.run(self.net, np.ma.masked_array(x))))
            with self.assertRaisesRegex(reef.InvalidError, "masked values must be filled"):
                rt.run(self.net, np.ma.masked_array(x, mask=x > 0.5))

    def test_arrays_are_in_one_piece_aligned_and_of_their_shape(self):
        from reef._network import checked

        bytes_after_one = np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.uint8)[1:]
        unaligned = bytes_after_one.view(np.float32).reshape(2, 3)
        self.assertFalse(unaligned.flags.aligned)
        for array in (unaligned, unaligned.T, np.matrix(unaligned), np.float32(7), np.array(7, np.float32)):
            made = checked("x", np.shape(array), "float32", array)
            self.assertTrue(made.flags.c_contiguous and made.flags.aligned and type(made) is np.ndarray)
            self.assertEqual(made.shape, np.shape(array))
            self.assertTrue(np.array_equal(made, array))

    def test_more_requests_than_instances_are_refused(self):
        net = self.device.load("resnet18", batch=1, input_size=SIZE, instances=2)
        with self.device.best_effort() as be:
            jobs = [be.submit(net, image()) for _ in range(2)]
            with self.assertRaises(reef.BusyError):
                be.submit(net, image())
            jobs[0].result()
            jobs.append(be.submit(net, image()))
            self.assertTrue(np.array_equal(jobs[1].result(), jobs[2].result()))

    def test_result_that_is_not_kept_gives_its_memory_back(self):
        net = self.device.load("resnet18", batch=1, input_size=SIZE, instances=1)
        with self.device.best_effort() as be:
            for _ in range(3):
                be.submit(net, image())
                gc.collect()
                end = time.monotonic() + 60
                while True:
                    try:
                        be.submit(net, image()).result()
                        break
                    except reef.BusyError:
                        self.assertLess(time.monotonic(), end)
                        time.sleep(0.001)  # sleep: poll of a condition

    def test_threads_share_a_client(self):
        expected, outputs = {}, []
        with self.device.real_time() as rt:
            for seed in range(3):
                expected[seed] = rt.run(self.net, image(seed))

            def work(seed):
                for _ in range(5):
                    outputs.append((seed, rt.run(self.net, image(seed))))

            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        self.assertEqual(len(outputs), 15)
        for seed, output in outputs:
            self.assertTrue(np.array_equal(output, expected[seed]))

    def test_tasks_of_asyncio_lose_nothing(self):
        net = self.device.load("resnet18", batch=1, input_size=SIZE, instances=4)

        async def one(be, places, seed):
            async with places:
                return await be.submit(net, image(seed % 3))

        async def all_of_them(be):
            places = asyncio.Semaphore(4)
            return await asyncio.gather(*(one(be, places, seed) for seed in range(40)))

        with self.device.best_effort() as be, self.device.real_time() as rt:
            outputs = asyncio.run(all_of_them(be))
            expected = [rt.run(self.net, image(seed)) for seed in range(3)]
        self.assertEqual(len(outputs), 40)
        for seed, output in enumerate(outputs):
            self.assertTrue(np.array_equal(output, expected[seed % 3]))

    def test_urgent_task_of_asyncio_does_not_wait_behind_others(self):
        async def wait(job):
            return await job

        async def both(device, net):
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            with device.real_time() as rt, device.best_effort() as be:
                waiting = asyncio.ensure_future(wait(be.submit(net, image())))
                await asyncio.sleep(0)  # sleep: until it waits
                output = await asyncio.wait_for(wait(rt.submit(net, image())), 60)
            with self.assertRaises(reef.CancelledError):
                await waiting
            return output

        with reef.open("cpu:0?units=1", "rt-only") as device:  # which runs no best-effort work
            net = device.load("resnet18", batch=1, input_size=SIZE)
            self.assertEqual(asyncio.run(both(device, net)).shape, (1, 1000))

    def test_awaits_of_one_request_share_a_thread(self):
        async def wait(job):
            return await job

        async def threads(device, net):
            before = set(threading.enumerate())
            with device.best_effort() as be:
                job = be.submit(net, image())
                waiting = [asyncio.ensure_future(wait(job)) for _ in range(50)]
                await asyncio.sleep(0)  # sleep: until they wait
                found = set(threading.enumerate()) - before
            for each in waiting:
                with self.assertRaises(reef.CancelledError):
                    await asyncio.wait_for(each, 60)
            return [thread.name for thread in found]

        with reef.open("cpu:0?units=1", "rt-only") as device:  # which runs no best-effort work
            net = device.load("resnet18", batch=1, input_size=SIZE)
            self.assertEqual(asyncio.run(threads(device, net)), ["reef-await"])

    def test_result_has_a_timeout(self):
        net = self.device.load("resnet50", batch=1, input_size=64)
        with self.device.best_effort() as be:
            job = be.submit(net, image(size=64))
            with self.assertRaises(TimeoutError):
                job.result(timeout=0.0)
            with self.assertRaises(reef.UnsupportedError):
                job.cancel()
            self.assertEqual(job.result().shape, (1, 1000))
            self.assertTrue(job.done())

    def test_interrupt_ends_a_wait(self):
        net = self.device.load("resnet152", batch=1, input_size=224)
        with self.device.best_effort() as be:
            jobs = [be.submit(net, image(size=224)) for _ in range(3)]
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            with self.assertRaises(KeyboardInterrupt):
                timer.start()  # here, as the signal may come before the next line
                jobs[-1].result()
                time.sleep(60)  # sleep: until the signal, as the request may have ended before
            timer.join()
            jobs[-1].result()

    def test_interrupt_at_the_end_of_a_request_keeps_its_output(self):
        net = self.device.load("resnet152", batch=1, input_size=224)
        with self.device.best_effort() as be:
            job, next_job = (be.submit(net, image(size=224)) for _ in range(2))

            def handler(*_):
                next_job.result()  # so that the job, which is before it, has ended as well
                raise KeyboardInterrupt

            previous = signal.signal(signal.SIGINT, handler)
            try:
                timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
                with self.assertRaises(KeyboardInterrupt):
                    timer.start()  # here, as the signal may come before the next line
                    job.result()
                    time.sleep(60)  # sleep: until the signal, as the request may have ended before
                timer.join()
            finally:
                signal.signal(signal.SIGINT, previous)
            self.assertTrue(np.array_equal(job.result(), next_job.result()))

    def test_handler_of_a_signal_may_wait_for_what_it_interrupts(self):
        code = """
import os, signal, threading, time, numpy, reef
device = reef.open("cpu:0?units=1")
net, be = device.load("resnet50", input_size=224), device.best_effort()
x, found = numpy.zeros((1, 3, 224, 224), numpy.float32), []
jobs = [be.submit(net, x) for _ in range(2)]

def handler(*_):
    found.append(jobs[-1].result())
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, handler)
try:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    jobs[-1].result()
    time.sleep(60)  # sleep: until the signal, as the request may have ended before
except KeyboardInterrupt:
    print(numpy.array_equal(found[0], jobs[-1].result()), flush=True)
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=180, text=True)
        self.assertEqual((run.stdout, run.returncode), ("True\n", 0), run.stderr)

    def test_interrupt_after_an_output_was_read_keeps_it(self):
        with self.device.best_effort() as be:
            job = be.submit(self.net, image())
            read = job._network._read

            def interrupted(request):
                read(request)
                raise KeyboardInterrupt

            with mock.patch.object(job._network, "_read", interrupted), self.assertRaises(KeyboardInterrupt):
                job.result()
            self.assertTrue(np.array_equal(job.result(), be.run(self.net, image())))

    def test_closed_client_cancels_what_waits(self):
        be = self.device.best_effort()
        be.close()
        with self.assertRaises(reef.CancelledError):
            be.submit(self.net, image())

    def test_requests_of_a_closed_client_end_as_its_docs_say(self):
        with reef.open("cpu:0?units=1", "rt-only") as device:  # which runs no best-effort work
            net = device.load("resnet18", batch=1, input_size=SIZE)
            with device.real_time() as rt, device.best_effort() as be:
                urgent, waiting = (client.submit(net, image()) for client in (rt, be))
            self.assertEqual(urgent.result().shape, (1, 1000))
            with self.assertRaises(reef.CancelledError):
                waiting.result()


@unittest.skipIf(COMMAND is None, "the command reef is not installed")
class EightBits(unittest.TestCase):
    """`REEF_TEST_DEVICE="cuda:0?precision=fp16"` runs it where kernels of 8 bits are."""

    def test_scales_reach_the_device(self):
        name = os.environ.get("REEF_TEST_DEVICE", "cpu:0?units=2")
        with tempfile.TemporaryDirectory() as folder, reef.open(name) as device:
            scales = os.path.join(folder, "int8.json")
            words = ["model", "calibrate", "resnet18", "--size", str(SIZE), "--format", "int8"]
            subprocess.run([COMMAND, *words, "--out", scales], check=True, capture_output=True)

            def load(scales):
                return device.load("resnet18", input_size=SIZE, seed=1, scales=scales)

            with self.assertRaisesRegex(reef.FileError, "none.json"):
                load(os.path.join(folder, "none.json"))
            if not name.startswith("cuda"):
                with self.assertRaisesRegex(reef.UnsupportedError, "resnet18 in int8: "):
                    load(scales)
                return
            with device.real_time() as rt:
                floats, eight = (rt.run(load(scales), image()) for scales in [None, scales])
            self.assertFalse(np.array_equal(floats, eight))
            self.assertLess(np.abs(floats - eight).max(), 0.2 * np.abs(floats).max())


class Futures(unittest.TestCase):
    def test_timeout_includes_the_wait_for_another_thread(self):
        class Request:
            def wait(self, timeout):
                timeouts.append(timeout)

        class Lock:  # of which another thread releases its hold after 40 s
            def acquire(self, blocking=True, timeout=-1):
                if blocking:
                    timeouts.append(timeout)
                    clock.monotonic.return_value += 40.0
                return blocking

            def release(self):
                pass

        timeouts, clock = [], mock.Mock()
        clock.monotonic.return_value = 100.0
        future = reef.Future(mock.Mock(), object(), Request())
        future._lock = Lock()
        with mock.patch("reef._request.time", clock), self.assertRaises(TimeoutError):
            future.result(timeout=60.0)
        self.assertEqual(timeouts, [60.0, 20.0])


class Devices(unittest.TestCase):
    def test_cpu_is_there(self):
        self.assertIn("cpu", reef.devices())
        self.assertIn("reef", reef.schedulers())
        with reef.open("cpu:0?units=3") as device:
            self.assertEqual(device.units, 3)

    def test_unknown_names_are_refused(self):
        for what, args in [
            ("device", ("nothing:0",)),
            ("scheduler", ("cpu:0", "nothing")),
        ]:
            with self.subTest(what), self.assertRaises(reef.Error):
                reef.open(*args)
        with reef.open("cpu:0") as device:
            with self.assertRaises(reef.NotFoundError):
                device.load("nothing")
            with self.assertRaises(reef.InvalidError):
                device.load("resnet18", instances=0)
            with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                file.write(b"no network")
                file.flush()
                with self.assertRaises(reef.FileError):
                    device.load(file.name)

    def test_wrong_kinds_of_arguments_are_named(self):
        with reef.open("cpu:0?units=1") as device, device.real_time() as rt, device.best_effort() as be:
            for named, said in [
                ({"batch": "2"}, "batch must be an int, got str"),
                ({"input_size": 32.0}, "input_size must be an int, got float"),
                ({"seed": None}, "seed must be an int, got NoneType"),
                ({"shape": {"tokens": 128}}, r"shape\['tokens'\] must be a sequence of ints, as \[128\], got 128"),
                ({"shape": {"tokens": ["x"]}}, r"shape\['tokens'\] must be an int, got str"),
                ({"weights": 7}, "weights must be a name or a path, got int"),
                ({"what": None}, "what must be a name or a path or the bytes of an ONNX file, got NoneType"),
            ]:
                with self.subTest(named), self.assertRaisesRegex(TypeError, said):
                    device.load(**{"what": "resnet18", **named})
            for named, said in [
                ({"batch": -1}, "batch must be from 0 to 18446744073709551615, got -1"),
                ({"input_size": 2**64}, "input_size must be from 0"),
                ({"instances": -1}, "instances must be from 1 to 18446744073709551615, got -1"),
            ]:
                with self.subTest(named), self.assertRaisesRegex(reef.InvalidError, said):
                    device.load("resnet18", **named)
            net = device.load("resnet18", batch=np.int64(1), input_size=np.int32(32))
            self.assertEqual(net.inputs[0].shape, (1, 3, 32, 32), "numbers of NumPy")
            for call in (rt.run, rt.submit, be.run, be.submit):
                with self.assertRaisesRegex(TypeError, "what must be a Network or a Slot of a device, got str"):
                    call("resnet18", image())

    def test_closed_device_is_an_error(self):
        device = reef.open("cpu:0")
        device.close()
        with self.assertRaises(reef.CancelledError):
            device.real_time()

    def test_device_is_there_as_long_as_a_client_or_a_request(self):
        def client(make):
            device = reef.open("cpu:0?units=1")
            return device.load("resnet18", input_size=SIZE), make(device)

        for make in (reef.Device.real_time, reef.Device.best_effort):
            net, opened = client(make)
            gc.collect()
            self.assertEqual(opened.run(net, image()).shape, (1, 1000))
            job = opened.submit(net, image())
            del opened
            gc.collect()
            self.assertEqual(job.result().shape, (1, 1000))

    def test_interrupt_ends_the_wait_of_a_close(self):
        code = """
import os, signal, threading, time, numpy, reef
x = numpy.zeros((1, 3, 224, 224), numpy.float32)

def is_early():
    device = reef.open("cpu:0?units=1")
    net, rt = device.load("resnet50", input_size=224), device.real_time()
    jobs = [rt.submit(net, x) for _ in range(8)]  # for which the device's end waits
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        device.close()
        time.sleep(60)  # sleep: until the signal, as the close may have ended before
    except KeyboardInterrupt:
        return not all(job.done() for job in jobs)

end = time.monotonic() + 60
while not is_early():  # on a busy machine the signal may be late
    assert time.monotonic() < end
print("early", flush=True)
os._exit(0)
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=180, text=True)
        self.assertEqual((run.stdout, run.returncode), ("early\n", 0), run.stderr)

    def test_threads_run_while_a_device_is_dropped(self):
        code = """
import sys, threading, time, numpy, reef
sys.setswitchinterval(1000.0)  # a thread that doesn't release the interpreter's lock keeps it
x = numpy.zeros((1, 3, 224, 224), numpy.float32)

def runs():
    device = reef.open("cpu:0?units=1")
    net, rt = device.load("resnet50", input_size=224), device.real_time()
    lock, others = threading.Lock(), []
    lock.acquire()
    thread = threading.Thread(target=lambda: others.append(lock.acquire()))
    thread.start()
    rt.submit(net, x)  # for which the device's end waits
    lock.release()
    del net, rt, device
    found = len(others) > 0
    thread.join()
    return found

end = time.monotonic() + 60
while not runs():  # on a busy machine the other thread may be late
    assert time.monotonic() < end
print("runs")
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=180, text=True)
        self.assertEqual((run.stdout, run.returncode), ("runs\n", 0), run.stderr)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_forked_process_gets_an_exception_and_ends(self):
        code = """
import os, reef
device = reef.open("cpu:0")
net = device.load("resnet18", input_size=32)
child = os.fork()
if child == 0:
    try:
        device.real_time()
    except reef.Error as error:
        assert "fork" in str(error), error
        del net, device
        raise SystemExit(7)
    raise SystemExit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("7\n", 0), run.stderr)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_forked_process_does_not_wait_where_its_parent_waits(self):
        code = """
import os, threading, numpy, reef
device = reef.open("cpu:0?units=1", "rt-only")  # which runs no best-effort work
net = device.load("resnet18", input_size=32)
be = device.best_effort()
job = be.submit(net, numpy.zeros((1, 3, 32, 32), numpy.float32))
def wait():
    try:
        job.result()
    except reef.CancelledError:
        pass
waits = threading.Thread(target=wait)
waits.start()
while not job._lock.locked():
    pass
child = os.fork()
if child == 0:
    try:
        job.result()
    except reef.Error as error:
        os._exit(7 if "fork" in str(error) else 2)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
be.close()
waits.join()
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("7\n", 0), run.stderr)

    def test_handler_of_a_signal_may_use_a_state_that_runs(self):
        port = reef.Port("x", (1,), "float32")
        network = mock.Mock(inputs=(port,), outputs=(reef.Port("y", (1,), "float32"),))
        network.name = "n"
        state, found = reef.State(network, {"x": "y"}, None), []

        class Client:
            def run(self, *_, out):  # as where a handler runs
                found.append(state.values()["x"].tolist())
                for call in (lambda: state.run(self), state.reset):
                    with self_of_test.assertRaises(reef.BusyError):
                        call()
                return "new"

        self_of_test = self
        thread = threading.Thread(target=state.run, args=(Client(),), daemon=True)
        thread.start()
        thread.join(60)
        self.assertEqual(found, [[0.0]])
        self.assertEqual(state.values(), {"x": "new"})

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_forked_process_does_not_wait_for_locks_of_its_parent(self):
        code = """
import os, threading, numpy, reef

class Native:  # of a network whose sizes are open
    name = "sums"
    inputs = lambda self: [("x", [-1], "float32")]
    outputs = lambda self: [("y", [-1], "float32")]
    shapes = lambda self: [("x", [1])]
    is_open = lambda self: True
    switches = lambda self: []

class Client:
    def run(self, network, *inputs, out):
        runs.set()
        goes_on.wait()
        raise reef.CancelledError("over")

def run():
    try:
        state.run(Client())
    except reef.CancelledError:
        pass

runs, goes_on, x = threading.Event(), threading.Event(), numpy.zeros(2, numpy.float32)
net = reef.Network(Native())
state = reef.State(net, {"x": "y"}, {"x": x})
thread = threading.Thread(target=run)
thread.start()
runs.wait()
net._lock.acquire()
child = os.fork()
if child == 0:
    for call in (lambda: state.run(Client()), state.values, state.reset, lambda: net._for([x], {})):
        try:
            call()
            os._exit(1)
        except reef.Error as error:
            if "fork" not in str(error):
                os._exit(2)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
goes_on.set()
thread.join()
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("7\n", 0), run.stderr)

    def test_import_is_quick(self):
        code = "import time; t = time.process_time(); import reef; print(time.process_time() - t)"
        times = [
            float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
            for _ in range(5)
        ]
        self.assertLess(min(times), 0.05)


if __name__ == "__main__":
    unittest.main()
