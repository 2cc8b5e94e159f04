"""Arrays of other libraries on the CPU device: DLPack in and out, and slots that are filled in place."""

import ctypes
import gc
import os
import subprocess
import sys
import unittest

import numpy as np
import reef

try:
    import torch
except ImportError:
    torch = None

SIZE = 32
CPU = (1, 0)
FLOAT32 = (2, 32, 1)
READ_ONLY = 1


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype = ctypes.c_char_p
capsule_name.argtypes = [ctypes.py_object]
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = ctypes.c_void_p
capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Producer:
    """A library's array, whose every part a test chooses. Counts calls of the deleter."""

    def __init__(
        self, array, device=CPU, says=None, dtype=FLOAT32, shape=None, strides=None, offset=0, version=None, flags=0
    ):
        self.array, self.device, self.says, self.dtype = array, device, says or device, dtype
        self.shape = array.shape if shape is None else shape
        self.strides, self.offset, self.version, self.flags = strides, offset, version, flags
        self.deleted, self.calls, self.capsule = 0, [], None

    def __dlpack_device__(self):
        return self.says

    def __dlpack__(self, **options):
        if self.version is None and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.calls.append(options)
        if self.capsule is None:
            self.capsule = self.make()
        return self.capsule

    def make(self):
        numbers = lambda values: (ctypes.c_int64 * max(1, len(values)))(*values)
        self.sizes = numbers(self.shape)
        self.steps = None if self.strides is None else numbers(self.strides)
        self.managed = Managed() if self.version is None else Versioned()
        tensor = self.managed.tensor
        tensor.data = self.array.ctypes.data
        tensor.device = (ctypes.c_int32 * 2)(*self.device)
        tensor.ndim = len(self.shape)
        tensor.code, tensor.bits, tensor.lanes = self.dtype
        tensor.shape = self.sizes
        tensor.strides = self.steps
        tensor.byte_offset = self.offset
        self.deleter = self.managed.deleter = DELETER(lambda _: self.count())
        if self.version is not None:
            self.managed.version = (ctypes.c_uint32 * 2)(*self.version)
            self.managed.flags = self.flags
        name = b"dltensor" if self.version is None else b"dltensor_versioned"
        return new_capsule(ctypes.addressof(self.managed), name, None)

    def count(self):
        self.deleted += 1


class Modern(Producer):
    """A library that always has a version. The package remembers which type of array has none."""


def image(seed=0):
    return np.random.default_rng(seed).random((1, 3, SIZE, SIZE), dtype=np.float32)


class Arrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = reef.open("cpu:0?units=2")
        cls.net = cls.device.load("resnet18", batch=1, input_size=SIZE, instances=2)
        cls.rt = cls.device.real_time()
        cls.expected = [cls.rt.run(cls.net, image(seed)) for seed in range(4)]

    @classmethod
    def tearDownClass(cls):
        cls.rt.close()
        cls.device.close()

    def assert_same(self, output, seed):
        self.assertTrue(np.array_equal(np.asarray(output), self.expected[seed]))

    def test_memory_of_others_is_read_and_released_once(self):
        whole = np.concatenate([np.full(16, np.nan, np.float32), image(1).ravel()])
        strides = (3 * SIZE * SIZE, SIZE * SIZE, SIZE, 1)
        first_is_free = (7, SIZE * SIZE, SIZE, 1)
        for what, options in [
            ("without a version", {}),
            ("version 1.0", {"version": (1, 0)}),
            ("a later 1.x", {"version": (1, 9)}),
            ("read-only", {"version": (1, 0), "flags": READ_ONLY}),
            ("with strides", {"strides": strides}),
            ("a stride of one value", {"strides": first_is_free}),
            ("pinned", {"device": (3, 0)}),
        ]:
            with self.subTest(what):
                producer = (Modern if "version" in options else Producer)(image(1), **options)
                self.assert_same(self.rt.run(self.net, producer), 1)
                self.assertEqual(producer.deleted, 1)
                self.assertEqual(capsule_name(producer.capsule)[:5], b"used_")
                has_version = "version" in options
                self.assertEqual(producer.calls, [{"max_version": (1, 0)} if has_version else {}])
        producer = Producer(whole, shape=image().shape, offset=64)
        self.assert_same(self.rt.run(self.net, producer), 1)
        self.assertEqual(producer.deleted, 1)

    def test_memory_that_does_not_fit_is_refused_and_released_once(self):
        shape = image().shape
        for what, options, word in [
            ("type", {"dtype": (2, 64, 1)}, r"must be float32 \(1, 3, 32, 32\), got float64 \(1, 3, 32, 32\)"),
            ("lanes", {"dtype": (2, 32, 4)}, "got float32x4"),
            ("shape", {"shape": (1, 3, SIZE, SIZE - 1)}, r"got float32 \(1, 3, 32, 31\)"),
            ("dimensions", {"shape": shape[1:]}, r"got float32 \(3, 32, 32\)"),
            ("size below 0", {"shape": (1, 3, SIZE, -1)}, r"got float32 \(1, 3, 32, -1\)"),
            ("version", {"version": (2, 0)}, "host's memory"),
        ]:
            with self.subTest(what):
                producer = Producer(image(), **options)
                with self.assertRaisesRegex(reef.InvalidError, word):
                    self.rt.run(self.net, producer)
                self.assertEqual(producer.deleted, 0 if what == "version" else 1)
        self.assert_same(self.rt.run(self.net, image()), 0)

    def test_used_capsule_is_refused(self):
        producer = Producer(image())
        self.rt.run(self.net, producer)
        with self.assertRaises(reef.InvalidError):
            self.rt.run(self.net, producer)
        self.assertEqual(producer.deleted, 1)

    def test_memory_of_another_device_is_refused_unread(self):
        for device, name in [((2, 0), "cuda:0"), ((10, 1), "hip:1"), ((8, 0), "metal:0"), ((77, 3), "77:3")]:
            producer = Producer(image(), device=device)
            with self.assertRaisesRegex(reef.InvalidError, f"input input must be on the host, got an array on .*{name}"):
                self.rt.run(self.net, producer)
            self.assertEqual((producer.calls, producer.deleted), ([], 0))

    def test_memory_that_is_not_where_its_owner_says_is_refused(self):
        producer = Producer(image(), device=(2, 0), says=CPU)
        with self.assertRaisesRegex(reef.InvalidError, "must be where it says"):
            self.rt.run(self.net, producer)
        self.assertEqual(producer.deleted, 1)

    def test_errors_of_a_producer_are_named(self):
        class Broken(Producer):
            def __dlpack__(self, **options):
                raise BufferError("gone away")

        class NotACapsule(Producer):
            def __dlpack__(self, **options):
                return 7

        class Nowhere(Producer):
            def __dlpack_device__(self):
                raise ValueError("no device")

            def __dlpack__(self, **options):
                raise ValueError("no device")

        class Odd(Producer):
            def __dlpack_device__(self):
                return "cpu"

            def __dlpack__(self, **options):
                raise LookupError("of any kind")

        for kind, word in [(Broken, "gone away"), (NotACapsule, ""), (Nowhere, "no device"), (Odd, "of any kind")]:
            with self.subTest(kind.__name__), self.assertRaisesRegex(reef.InvalidError, word):
                self.rt.run(self.net, kind(image()))
        self.assert_same(self.rt.run(self.net, image()), 0)

    def test_outputs_on_the_device_are_kept_while_something_has_them(self):
        kept = [self.rt.run(self.net, image(seed), out="device") for seed in range(4)]
        views = [np.from_dlpack(output) for output in kept[:2]] + [output.numpy() for output in kept[2:]]
        del kept
        for _ in range(10):
            self.rt.run(self.net, image(3), out="device")
        for seed, view in enumerate(views):
            self.assert_same(view, seed)

    def test_outputs_that_are_dropped_give_their_memory_back(self):
        def address(output):
            return output.numpy().ctypes.data

        addresses = {address(self.rt.run(self.net, image(), out="device")) for _ in range(50)}
        self.assertLessEqual(len(addresses), 3)
        held = [self.rt.run(self.net, image(), out="device") for _ in range(10)]
        self.assertEqual(len({address(output) for output in held}), 10)

    def test_array_says_what_it_is(self):
        output = self.rt.run(self.net, image(), out="device")
        self.assertIsInstance(output, reef.Array)
        self.assertEqual((output.shape, output.dtype, output.nbytes, len(output)), ((1, 1000), "float32", 4000, 1))
        self.assertEqual((output.__dlpack_device__(), output.device_name), (CPU, "cpu"))
        self.assertEqual(repr(output), "<reef.Array float32 (1, 1000) on cpu>")
        self.assertEqual(np.asarray(output, dtype=np.float64).dtype, np.float64)
        self.assertEqual(np.asarray(output).ctypes.data, output.numpy().ctypes.data)
        self.assertNotEqual(np.array(output).ctypes.data, output.numpy().ctypes.data)
        for copy, is_same in ((None, True), (False, True), (True, False)):
            made = output.__array__(np.float32, copy=copy)
            self.assertEqual(made.ctypes.data == output.numpy().ctypes.data, is_same)
        with self.assertRaises(ValueError):
            output.__array__(np.float64, copy=False)
        self.assertTrue(output.numpy().flags.writeable)
        for options in [{"dl_device": (2, 0)}, {"copy": True}]:
            with self.assertRaises(BufferError):
                output.__dlpack__(**options)

    def test_capsules_have_the_version_that_is_asked_for(self):
        output = self.rt.run(self.net, image(1), out="device")
        for options, name, kind in [
            ({}, b"dltensor", Managed),
            ({"max_version": (0, 8)}, b"dltensor", Managed),
            ({"max_version": None}, b"dltensor", Managed),
            ({"max_version": (1, 0)}, b"dltensor_versioned", Versioned),
            ({"max_version": (2, 1), "stream": None, "dl_device": CPU, "copy": False}, b"dltensor_versioned", Versioned),
        ]:
            capsule = output.__dlpack__(**options)
            self.assertEqual(capsule_name(capsule), name)
            managed = ctypes.cast(capsule_pointer(capsule, name), ctypes.POINTER(kind)).contents
            tensor = managed.tensor
            self.assertEqual((tensor.code, tensor.bits, tensor.lanes), FLOAT32)
            self.assertEqual([tensor.shape[:2], tensor.strides[:2]], [[1, 1000], [1000, 1]])
            self.assertEqual(tensor.data + tensor.byte_offset, output.numpy().ctypes.data)
            if kind is Versioned:
                self.assertEqual((managed.version[0], managed.flags), (1, 0))

    def test_capsule_that_is_never_consumed_is_released(self):
        net = self.device.load("resnet18", batch=1, input_size=SIZE, instances=1)
        slot = net.slot()
        capsules = [slot.inputs[0].__dlpack__(), slot.outputs[0].__dlpack__(max_version=(1, 0))]
        del slot
        gc.collect()
        with self.assertRaises(reef.BusyError):
            self.rt.run(net, image())
        del capsules
        gc.collect()
        self.assert_same(self.rt.run(net, image()), 0)

    def test_output_is_an_input_of_the_next(self):
        slot = self.net.slot()
        np.copyto(slot.inputs[0].numpy(), image(2))
        self.assert_same(self.rt.run(self.net, slot.inputs[0]), 2)

    def test_slot_is_filled_and_read_in_place(self):
        slot = self.net.slot()
        self.assertEqual([slot.inputs[0].shape, slot.outputs[0].shape], [(1, 3, SIZE, SIZE), (1, 1000)])
        given, found = np.from_dlpack(slot.inputs[0]), np.from_dlpack(slot.outputs[0])
        with self.device.best_effort() as be:
            for seed in [0, 1, 2]:
                np.copyto(slot.inputs[0].numpy(), image(seed))
                self.assertTrue(np.array_equal(given, image(seed)))
                output = self.rt.run(slot)
                self.assertEqual(output.numpy().ctypes.data, found.ctypes.data)
                self.assert_same(found, seed)
                np.copyto(slot.inputs[0].numpy(), image(3))
                future = be.submit(slot)
                future.result()
                self.assert_same(found, 3)
                self.assertGreater(future.timing.total, 0)

    def test_input_of_a_slot_may_be_given(self):
        slot = self.net.slot("host")
        self.assert_same(self.rt.run(slot, image(1)), 1)
        view = slot.inputs[0].numpy()
        np.copyto(view, image(2))
        self.assert_same(self.rt.run(slot, view), 2)
        self.assert_same(self.rt.run(slot, Producer(image(3))), 3)
        self.assert_same(self.rt.run(slot, **{self.net.inputs[0].name: image(0)}), 0)

    def test_slot_has_its_memory_until_its_arrays_are_dropped(self):
        net = self.device.load("resnet18", batch=1, input_size=SIZE, instances=1)
        slot = net.slot()
        view = slot.outputs[0].numpy()
        self.rt.run(slot, image(1))
        for left in ["slot", "view"]:
            with self.assertRaises(reef.BusyError, msg=left):
                net.slot()
            if left == "slot":
                del slot
                gc.collect()
        self.assert_same(view, 1)
        del view
        self.assert_same(self.rt.run(net, image(2)), 2)

    def test_slot_takes_one_request_at_a_time(self):
        long = self.device.load("resnet50", batch=1, input_size=224)
        slot = self.net.slot()
        with self.device.best_effort() as be:
            before = [be.submit(long, np.zeros(long.inputs[0].shape, np.float32)) for _ in range(4)]
            job = be.submit(slot)
            with self.assertRaises(reef.BusyError):
                be.submit(slot)
            job.result()
            be.run(slot)
            self.assertTrue(all(job.done() for job in before))

    def test_wrong_options_are_refused(self):
        slot = self.net.slot()
        for call in [
            lambda: self.rt.run(self.net, image(), out="nowhere"),
            lambda: self.rt.run(slot, out="host"),
            lambda: self.rt.submit(slot, out="device"),
            lambda: self.net.slot("there"),
            lambda: self.rt.run(slot, image(), image()),
            lambda: self.rt.run(slot, nothing=image()),
        ]:
            with self.assertRaises(reef.InvalidError):
                call()
        with self.assertRaises(reef.UnsupportedError):
            self.net.slot("device")

    def test_future_gives_arrays_of_the_device(self):
        with self.device.best_effort() as be:
            jobs = [be.submit(self.net, image(seed), out="device") for seed in range(2)]
            for seed, job in enumerate(jobs):
                self.assertIsInstance(job.result(), reef.Array)
                self.assert_same(job.result(), seed)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_forked_process_may_drop_arrays(self):
        code = """
import gc, os, numpy, reef
device = reef.open("cpu:0")
net = device.load("resnet18", input_size=32)
slot = net.slot()
x = slot.inputs[0].numpy()
with device.real_time() as rt:
    y = rt.run(slot)
    z = rt.run(net, x, out="device")
    capsule = z.__dlpack__()
child = os.fork()
if child == 0:
    try:
        z.numpy()
    except reef.Error as error:
        assert "fork" in str(error), error
    del slot, x, y, z, capsule, net
    gc.collect()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
        self.assertEqual((run.stdout, run.returncode), ("7\n", 0), run.stderr)

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_tensors_of_torch_go_in_and_out(self):
        tensor = torch.from_numpy(image(1))
        self.assert_same(self.rt.run(self.net, tensor), 1)
        self.assert_same(self.rt.run(self.net, tensor.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)), 1)
        output = torch.from_dlpack(self.rt.run(self.net, tensor, out="device"))
        self.rt.run(self.net, image(2), out="device")
        self.assert_same(output, 1)
        slot = self.net.slot()
        torch.from_dlpack(slot.inputs[0]).copy_(torch.from_numpy(image(3)))
        result = torch.from_dlpack(self.rt.run(slot))
        self.assert_same(result, 3)
        self.assertEqual(result.data_ptr(), slot.outputs[0].numpy().ctypes.data)


if __name__ == "__main__":
    unittest.main()
