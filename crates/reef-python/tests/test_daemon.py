"""Tests of the client of a daemon, with the real one on the CPU device."""

import asyncio
import gc
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import reef

SIZE = 32
COMMAND = shutil.which("reef")


def image(seed=0, size=SIZE):
    return np.random.default_rng(seed).random((1, 3, size, size), dtype=np.float32)


class Connecting(unittest.TestCase):
    def test_threads_run_while_one_waits_for_a_busy_daemon(self):
        code = """
import os, socket, tempfile, threading
from reef import _reef
place = tempfile.mkdtemp(prefix="reef-py-")
listener = socket.socket(socket.AF_UNIX)
listener.bind(place + "/http.sock")
listener.listen(0)
others = []
while True:  # until no other connection fits its queue
    others.append(socket.socket(socket.AF_UNIX))
    others[-1].setblocking(False)
    try:
        others[-1].connect(place + "/http.sock")
    except BlockingIOError:
        break
connects = threading.Thread(target=_reef.daemon_socket, args=(place, "http.sock"), daemon=True)
connects.start()
connects.join(0.1)
print(connects.is_alive(), flush=True)
os.unlink(place + "/http.sock")
os.rmdir(place)
os._exit(0)
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("True\n", 0), run.stderr)


    def test_part_of_an_address_that_has_no_effect_is_refused(self):
        import ssl

        tcp, context = "http://127.0.0.1:9", ssl.create_default_context()
        for address, options in [
            ("", {}),
            ("http://user:word@127.0.0.1:9", {}),
            (f"{tcp}/prefix", {}),
            (f"{tcp}?token=x", {}),
            (tcp, {"context": context}),
            ("/nowhere", {"context": context}),
            (tcp, {"token": ""}),
            (tcp, {"token": "of-a-file\n"}),
            (tcp, {"token": "\u00e9"}),
        ]:
            with self.subTest(address, **options), self.assertRaises(reef.InvalidError) as raised:
                reef.connect(address, **options)
            self.assertNotIn("of-a-file", str(raised.exception))
        with self.assertRaises(reef.UnavailableError):
            reef.connect(f"{tcp}/", token="t0k.en~")


class Process:
    """A daemon with the model `tiny` loaded and `large` and `free` not."""

    def __init__(self, **settings):
        self.folder = Path(tempfile.mkdtemp(prefix="reef-py-"))
        self.sockets = self.folder / "sockets"
        for name, size in [("tiny", SIZE), ("large", 160)]:
            (self.folder / "models" / name / "1").mkdir(parents=True)
            network = "resnet18" if name == "tiny" else "resnet50"
            text = f'network = "{network}"\nsize = {size}\nseed = 1\n'
            (self.folder / "models" / name / "model.toml").write_text(text)
        self.write_embedding()
        self.settings = settings
        self.start()

    def write_embedding(self):
        import test_onnx

        if test_onnx.onnx is not None:
            place = self.folder / "models/embedding/1"
            place.mkdir(parents=True)
            (place / "model.onnx").write_bytes(test_onnx.embedding().SerializeToString())

    def start(self):
        settings = {"models.load": '["tiny"]', "limits.connects_per_second": "0", **self.settings}
        flags = [flag for key, value in settings.items() for flag in ("--set", f"{key}={value}")]
        models = str(self.folder / "models")
        command = [COMMAND, "serve", "--device", "cpu:0?units=2", "--repository", models]
        log = open(self.folder / "log", "ab")
        self.child = subprocess.Popen(
            [*command, "--socket-dir", str(self.sockets), *flags], stdout=log, stderr=log
        )
        log.close()
        end = time.monotonic() + 60
        while True:
            try:
                with reef.connect(self.sockets) as daemon:
                    if "tiny" in daemon.models():
                        return
            except reef.Error as error:
                if self.child.poll() is not None or time.monotonic() > end:
                    raise AssertionError((self.folder / "log").read_text()) from error
            time.sleep(0.05)  # sleep: poll of a condition

    def kill(self):
        self.child.kill()
        self.child.wait()

    def end(self):
        self.kill()
        shutil.rmtree(self.folder)


class Answers(unittest.TestCase):
    """Values that threads make for others, as those of requests over HTTP."""

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_forked_process_does_not_wait_for_a_thread_of_its_parent(self):
        code = """
import os, threading
import reef
from reef._daemon import _Answer
goes_on = threading.Event()
answer = _Answer(goes_on.wait)
threading.Thread(target=answer.make, daemon=True).start()
child = os.fork()
if child == 0:
    try:
        answer.wait(None)
    except reef.Error as error:
        os._exit(7 if "fork" in str(error) else 2)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
goes_on.set()
assert answer.wait(None) and answer.value
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("7\n", 0), run.stderr)

    def test_error_of_any_kind_ends_a_wait(self):
        from reef._daemon import _Answer

        def function():
            raise SystemExit(1)  # not an Exception, and neither is a panic of the compiled part

        answer = _Answer(function)
        threading.Thread(target=answer.make).start()
        with self.assertRaisesRegex(reef.Error, "SystemExit"):
            answer.wait(60.0)

    def test_answers_are_awaited_without_threads(self):
        from reef._daemon import _Answer

        class Source:
            def _read(self, answer):
                return answer.value

            def _give(self, answer):
                pass

            def _leave(self, answer, request):
                pass

        async def wait(answer):
            return await reef.Future(Source(), answer, answer)

        async def all_of_them():
            before, answers = set(threading.enumerate()), [_Answer(lambda: 7) for _ in range(50)]
            jobs = [asyncio.ensure_future(wait(answer)) for answer in answers]
            await asyncio.sleep(0)  # sleep: until they wait
            found = set(threading.enumerate()) - before
            for answer in answers:
                threading.Thread(target=answer.make, daemon=True).start()
            return found, await asyncio.wait_for(asyncio.gather(*jobs), 60)

        self.assertEqual(asyncio.run(all_of_them()), (set(), [7] * 50))

    def test_timeout_may_be_any_number(self):
        from reef._daemon import _Answer

        goes_on = threading.Event()
        answer = _Answer(goes_on.wait)
        threading.Thread(target=answer.make, daemon=True).start()
        for timeout in (0.0, -1.0, float("-inf"), float("nan")):
            self.assertIsNone(answer.wait(timeout))
        threading.Timer(0.1, goes_on.set).start()
        for timeout in (float("inf"), 1e300):
            self.assertIsNotNone(answer.wait(timeout))

    def test_closed_daemon_takes_no_more_requests(self):
        from reef._daemon import Daemon, Model

        class Connections:
            def infer(self, model, body, length):
                goes_on.wait(60)
                output = {"name": "y", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}
                return {"outputs": [output]}, bytearray(4), 0

            def close(self):
                pass

        goes_on = threading.Event()
        ports = [(reef.Port(name, (1,), "float32"),) for name in "xy"]
        model, x = Model("one", (), *ports, ("FP32",)), np.zeros(1, np.float32)
        daemon = Daemon(Connections(), False)
        client, job = daemon.real_time(), daemon.submit(model, x)
        daemon.close()
        goes_on.set()
        self.assertEqual(job.result(timeout=60).tolist(), [0.0])
        for call in (lambda: daemon.run(model, x), lambda: client.submit(model, x), daemon.models):
            with self.assertRaisesRegex(reef.CancelledError, "closed"):
                call()
        daemon.close()
        client.close()


@unittest.skipIf(COMMAND is None, "no command reef in PATH")
class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = Process(**{"listen.http": "127.0.0.1:0"})
        cls.sockets = cls.process.sockets
        cls.daemon = reef.connect(cls.sockets)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()
        cls.process.end()

    def test_all_ways_give_the_output_of_the_library(self):
        with reef.open("cpu:0?units=1") as device, device.real_time() as rt:
            net = device.load("resnet18", batch=1, input_size=SIZE, seed=1)
            expected = [rt.run(net, image(seed)) for seed in range(2)]
        model = self.daemon.model("tiny")
        self.assertEqual(model.inputs, (reef.Port("input", (1, 3, SIZE, SIZE), "float32"),))
        with reef.connect(self.sockets, shared_memory=False) as http:
            for daemon in (self.daemon, http):
                for client in (daemon, daemon.real_time(), daemon.best_effort()):
                    for seed, wanted in enumerate(expected):
                        found = client.run("tiny", image(seed))
                        self.assertEqual((found.shape, found.dtype), (wanted.shape, wanted.dtype))
                        self.assertTrue(np.array_equal(found, wanted))
                    self.assertTrue(np.array_equal(client.run(model, input=image()), expected[0]))
            self.assertEqual(len(http._sessions), 0)
        self.assertEqual(list(self.daemon._sessions), ["tiny"])

    def test_server_that_is_not_a_daemon_is_named(self):
        from http.server import BaseHTTPRequestHandler, HTTPServer

        class Page(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"<html>")

            def log_message(self, *_):
                pass

        with HTTPServer(("127.0.0.1", 0), Page) as server:
            threading.Thread(target=server.handle_request, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}"
            with self.assertRaisesRegex(reef.UnavailableError, f"{address} is not a daemon: GET /v2 must be"):
                reef.connect(address)

    def test_trace_and_metrics_have_the_request(self):
        found = []
        recorder = threading.Thread(target=lambda: found.append(self.daemon.trace(0.5)))
        recorder.start()
        with self.daemon.real_time() as rt:
            while recorder.is_alive():
                rt.run("tiny", image())
        recorder.join()
        events = json.loads(found[0])
        self.assertIn("tiny", str(events))
        self.assertIn("reef_", self.daemon.metrics())
        self.assertIsInstance(json.loads(self.daemon.trace(np.float64(0.01))), dict)
        for seconds in (0, 61, float("nan")):
            with self.assertRaises(reef.InvalidError):
                self.daemon.trace(seconds)

    def test_request_through_shared_memory_has_times(self):
        with self.daemon.real_time() as rt:
            job = rt.submit("tiny", image())
            job.result()
            self.assertGreater(job.timing.device, 0)
            self.assertGreaterEqual(job.timing.total, job.timing.device)
            with self.assertRaises(reef.UnsupportedError):
                job.cancel()

    def test_model_of_several_inputs_goes_over_http(self):
        if not (self.process.folder / "models/embedding/1/model.onnx").exists():
            self.skipTest("onnx is not installed")
        model = self.daemon.load("embedding")
        self.assertEqual([port.dtype for port in model.inputs], ["int64", "bool"])
        mask = np.array([[True], [True], [False]])
        masked, sums = self.daemon.run("embedding", np.array([4, 0, 2]), mask=mask)
        table = np.arange(20, dtype=np.float32).reshape(5, 4)
        self.assertTrue(np.array_equal(masked, table[[4, 0, 2]] * mask))
        self.assertTrue(np.array_equal(sums, masked.sum(1)))
        sums[0] = 1  # the caller's own memory
        self.assertIn("embedding", self.daemon.models())
        self.daemon.unload("embedding")
        with self.assertRaises(reef.Error):
            self.daemon.run("embedding", np.array([4, 0, 2]), mask=mask)

    def test_arrays_with_dlpack_are_taken(self):
        class Foreign:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        expected = self.daemon.run("tiny", image())
        self.assertTrue(np.array_equal(self.daemon.run("tiny", Foreign(image())), expected))

    def test_futures_of_one_connection_end_in_any_order(self):
        with self.daemon.best_effort() as be:
            expected = [be.run("tiny", image(seed)) for seed in range(4)]
            for order in ([3, 1, 0, 2], [0, 1, 2, 3]):
                jobs = [be.submit("tiny", image(seed)) for seed in range(4)]
                with self.assertRaises(reef.BusyError):
                    be.submit("tiny", image())
                for seed in order:
                    self.assertTrue(np.array_equal(jobs[seed].result(timeout=60), expected[seed]))

    def test_abandoned_requests_free_their_places(self):
        with self.daemon.best_effort() as be:
            expected = be.run("tiny", image())
            for _ in range(10):
                try:
                    be.submit("tiny", image(1))
                except reef.BusyError:
                    time.sleep(0.01)  # sleep: the request that is in the way ends
                gc.collect()
            end = time.monotonic() + 60
            while True:
                try:
                    self.assertTrue(np.array_equal(be.run("tiny", image()), expected))
                    break
                except reef.BusyError:
                    self.assertLess(time.monotonic(), end)

    def test_threads_share_a_client(self):
        for shared_memory in (True, False):
            outputs = []
            with reef.connect(self.sockets, shared_memory=shared_memory) as daemon:
                rt = daemon.real_time()
                expected = [rt.run("tiny", image(seed)) for seed in range(3)]

                def work(seed):
                    for _ in range(10):
                        outputs.append((seed, rt.run("tiny", image(seed))))

                threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
                [thread.start() for thread in threads]
                [thread.join() for thread in threads]
            self.assertEqual(len(outputs), 30)
            for seed, output in outputs:
                self.assertTrue(np.array_equal(output, expected[seed]))

    def test_tasks_of_asyncio_wait(self):
        async def all_of_them(client):
            return await asyncio.gather(*(client.submit("tiny", image(seed)) for seed in range(4)))

        with self.daemon.best_effort() as be:
            outputs = asyncio.run(all_of_them(be))
            for seed, output in enumerate(outputs):
                self.assertTrue(np.array_equal(output, be.run("tiny", image(seed))))

    def test_wrong_requests_are_refused_in_the_daemons_words(self):
        for what, wrong, kind, words in [
            ("tiny", image(size=31), reef.InvalidError, "must be float32 (1, 3, 32, 32)"),
            ("nothing", image(), reef.NotFoundError, "nothing"),
            ("large", image(), reef.Error, "large"),
            ("no/name?", image(), reef.Error, ""),
        ]:
            with self.subTest(what), self.assertRaises(kind) as raised:
                self.daemon.run(what, wrong)
            self.assertIn(words, str(raised.exception))
        with self.assertRaises(reef.InvalidError):
            self.daemon.real_time(period=1.0)

    def test_input_may_be_written_once_submit_has_returned(self):
        for shared_memory, count in ((True, 4), (False, 24)):  # over HTTP: more than it has threads
            with reef.connect(self.sockets, shared_memory=shared_memory) as daemon:
                expected, x = daemon.run("tiny", image()), image()
                jobs = []
                for _ in range(count):
                    np.copyto(x, image())
                    jobs.append(daemon.submit("tiny", x))
                    x.fill(0.25)
                for job in jobs:
                    self.assertTrue(np.array_equal(job.result(), expected))

    def test_deadline_ends_a_request(self):
        for shared_memory in (True, False):
            with reef.connect(self.sockets, shared_memory=shared_memory) as daemon:
                with self.assertRaises(reef.DeadlineError) as raised:
                    daemon.run("tiny", image(), deadline=1e-6)
                self.assertIsInstance(raised.exception, TimeoutError)
                self.assertEqual(daemon.run("tiny", image(), deadline=60).shape, (1, 1000))
                for wrong in (-1.0, float("nan"), float("inf")):
                    with self.assertRaisesRegex(reef.InvalidError, "deadline"):
                        daemon.run("tiny", image(), deadline=wrong)

    def test_interrupt_ends_a_wait(self):
        self.daemon.load("large")
        for shared_memory in (True, False):
            with reef.connect(self.sockets, shared_memory=shared_memory) as daemon:
                be = daemon.best_effort()
                be.run("large", image(size=160))
                timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
                with self.assertRaises(KeyboardInterrupt):
                    timer.start()  # here, as the signal may come before the next line
                    for _ in range(1000):
                        be.run("large", image(size=160))
                timer.join()
        self.daemon.unload("large")

    def test_interrupt_after_an_answer_was_taken_keeps_it(self):
        expected = self.daemon.run("tiny", image())

        def interrupted(call):
            def function(argument):
                call(argument)
                raise KeyboardInterrupt

            return function

        for what in ("_request", "_network"):
            job = self.daemon.submit("tiny", image())
            part, name = getattr(job, what), "wait" if what == "_request" else "_read"
            call = interrupted(getattr(part, name))
            with mock.patch.object(part, name, call), self.assertRaises(KeyboardInterrupt):
                job.result()
            self.assertTrue(np.array_equal(job.result(timeout=60), expected))

    def test_forked_process_gets_an_exception(self):
        code = f"""
import os, reef, numpy
daemon = reef.connect({str(self.sockets)!r})
x = numpy.zeros((1, 3, 32, 32), numpy.float32)
expected = daemon.run("tiny", x)
job = daemon.submit("tiny", x)
child = os.fork()
if child == 0:
    for call in (lambda: daemon.run("tiny", x), job.result, daemon.models):
        try:
            call()
            raise SystemExit(1)
        except reef.Error as error:
            assert "fork" in str(error), error
    del job, daemon
    own = reef.connect({str(self.sockets)!r})
    raise SystemExit(7 if numpy.array_equal(own.run("tiny", x), expected) else 2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert numpy.array_equal(job.result(), expected)
assert numpy.array_equal(daemon.run("tiny", x), expected)
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("7\n", 0), run.stderr)

    def test_wrong_addresses_are_refused(self):
        with self.assertRaises(reef.UnavailableError) as raised:
            reef.connect(self.process.folder / "nowhere")
        self.assertIn("no daemon at", str(raised.exception))
        self.assertTrue(str(raised.exception).endswith("or name it with reef.connect(FOLDER)"), str(raised.exception))
        with self.assertRaisesRegex(reef.InvalidError, r"got 'localhost:8000': did you mean http://localhost:8000\?"):
            reef.connect("localhost:8000")
        self.assertIsInstance(raised.exception, ConnectionError)
        for address in ("ftp://host", "http://", "http://host:x", "http://host:70000", "http://[::1"):
            with self.assertRaises(reef.InvalidError):
                reef.connect(address)
        with self.assertRaises(reef.UnavailableError):
            reef.connect("http://127.0.0.1:9")
        with self.assertRaisesRegex(reef.InvalidError, "^token must go with http://HOST:PORT "):
            reef.connect(self.process.folder, token="secret")
        context = ssl.create_default_context()
        for address in ("http://127.0.0.1:9", self.process.folder, None):
            with self.assertRaisesRegex(reef.InvalidError, "^context must go with https://HOST:PORT, got "):
                reef.connect(address, context=context)
        open_to_all = self.process.folder / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        with self.assertRaises(reef.DeniedError) as raised:
            reef.connect(open_to_all)
        self.assertIsInstance(raised.exception, PermissionError)


class Texts(unittest.TestCase):
    """Texts over HTTP, with a stand-in for the connections."""

    def test_texts_go_in_and_out_as_the_protocol_has_them(self):
        from reef._daemon import Daemon, Model

        class Connections:
            def infer(self, model, body, length):
                tensors.append((json.loads(body[:length])["inputs"][0], body[length:]))
                output = {"name": "y", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": 10}}
                return {"outputs": [output]}, bytearray(b"\2\0\0\0ab\0\0\0\0"), 0

        tensors = []
        ports = [(reef.Port(name, (-1,), "object"),) for name in "xy"]
        model = Model("words", (), *ports, ("BYTES",))
        daemon = Daemon(Connections(), False)
        for given in (["a", b"bc"], np.array(["a", "bc"], object)):
            self.assertEqual(daemon.run(model, given).tolist(), [b"ab", b""])
            head, data = tensors.pop()
            self.assertEqual((head["datatype"], head["shape"], head["parameters"]), ("BYTES", [2], {"binary_data_size": 11}))
            self.assertEqual(data, b"\1\0\0\0a\2\0\0\0bc")
        daemon.run(model, ["é", b"\xff"])  # which NumPy alone cannot hold as one type of texts
        self.assertEqual(tensors.pop()[1], b"\2\0\0\0\xc3\xa9\1\0\0\0\xff")
        with self.assertRaisesRegex(reef.InvalidError, "input x: each text must be str or bytes"):
            daemon.run(model, [7, "a"])


@unittest.skipIf(COMMAND is None, "no command reef in PATH")
class Changing(unittest.TestCase):
    """Daemons that end, reload and refuse."""

    def test_restarted_daemon_serves_the_same_client(self):
        process = Process()
        try:
            with reef.connect(process.sockets) as daemon:
                expected = daemon.run("tiny", image())
                process.kill()
                for _ in range(2):
                    with self.assertRaises(reef.UnavailableError):
                        daemon.run("tiny", image())
                process.start()
                self.assertTrue(np.array_equal(daemon.run("tiny", image()), expected))
                process.kill()
                text = 'network = "resnet18"\nsize = 64\nseed = 1\n'
                (process.folder / "models/tiny/model.toml").write_text(text)
                process.start()
                for _ in range(2):  # the connection that has ended, and the other shape
                    with self.assertRaises(reef.Error):
                        daemon.run("tiny", image())
                self.assertEqual(daemon.run("tiny", image(size=64)).shape, (1, 1000))
        finally:
            process.end()

    def test_model_of_another_shape_is_seen_after_one_error(self):
        process = Process()
        try:
            for shared_memory in (True, False):
                with reef.connect(process.sockets, shared_memory=shared_memory) as daemon:
                    with reef.connect(process.sockets) as other:
                        for size in (64, SIZE):
                            daemon.run("tiny", image(size=96 - size))
                            text = f'network = "resnet18"\nsize = {size}\nseed = 1\n'
                            (process.folder / "models/tiny/model.toml").write_text(text)
                            other.load("tiny")
                            with self.assertRaises(reef.Error):
                                for _ in range(1000):  # the old one may answer for a while
                                    daemon.run("tiny", image(size=96 - size))
                            self.assertEqual(daemon.run("tiny", image(size=size)).shape, (1, 1000))
        finally:
            process.end()

    def test_tcp_needs_the_token_and_real_time_the_right(self):
        folder = Path(tempfile.mkdtemp(prefix="reef-py-token-"))
        (folder / "token").write_text("secret-of-the-test\n")
        (folder / "token").chmod(0o600)
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = Process(
            **{
                "listen.http": f"127.0.0.1:{port}",
                "listen.token_file": str(folder / "token"),
                "rights.owner": "{ control = true }",
            }
        )
        try:
            address = f"http://127.0.0.1:{port}"
            with self.assertRaises(reef.DeniedError):
                reef.connect(address)
            for daemon in [
                reef.connect(address, token="secret-of-the-test"),
                reef.connect(process.sockets),
                reef.connect(process.sockets, shared_memory=False),
            ]:
                with daemon, daemon.best_effort() as be, daemon.real_time() as rt:
                    self.assertEqual(be.run("tiny", image()).shape, (1, 1000))
                    with self.assertRaises(reef.DeniedError) as raised:
                        rt.run("tiny", image())
                    self.assertIn("rights.", str(raised.exception))
        finally:
            process.end()
            shutil.rmtree(folder)


class Sessions(unittest.TestCase):
    def test_other_models_do_not_wait_for_one_that_connects(self):
        from reef import _daemon

        begins, may_end = threading.Event(), threading.Event()

        def connect(folder, model, *args):
            if model == "slow":
                begins.set()
                may_end.wait(600)
            return mock.Mock(model=model, **{"is_lost.return_value": False})

        daemon = _daemon.Daemon(mock.Mock(folder=None), True)
        with mock.patch.object(_daemon._reef, "Session", connect):
            slow = threading.Thread(target=daemon._session, args=("slow",))
            slow.start()
            begins.wait(60)
            quick = threading.Thread(target=daemon._session, args=("quick",), daemon=True)
            quick.start()
            quick.join(60)
            is_done = not quick.is_alive()
            may_end.set()
            slow.join()
        self.assertTrue(is_done)
        self.assertEqual(daemon._session("slow").model, "slow")

    def test_connection_that_was_lost_is_made_again(self):
        from reef import _daemon

        first, second = made = [mock.Mock(**{"is_lost.return_value": False}) for _ in range(2)]
        daemon = _daemon.Daemon(mock.Mock(folder=None), True)
        with mock.patch.object(_daemon._reef, "Session", side_effect=list(made)):
            self.assertIs(daemon._session("tiny"), first)
            self.assertIs(daemon._session("tiny"), first)
            first.is_lost.return_value = True
            self.assertIs(daemon._session("tiny"), second)


if __name__ == "__main__":
    unittest.main()
