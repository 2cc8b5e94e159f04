"""Networks of several inputs and outputs, compared with the reference evaluator of ONNX."""

import tempfile
import unittest

import numpy as np
import reef

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    onnx = None


def info(name, element, shape):
    return helper.make_tensor_value_info(name, element, shape)


def model_of(name, nodes, inputs, outputs, stored=()):
    """A model of one graph, with arrays by their names."""
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(stored).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def embedding():
    """A table of 5 rows of 4, looked up by numbers and masked; the rows, and their sums."""
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    nodes = [
        helper.make_node("Gather", ["table", "numbers"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["factors"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["rows", "factors"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "axis"], ["sums"], keepdims=0),
    ]
    inputs = [info("numbers", TensorProto.INT64, [3]), info("mask", TensorProto.BOOL, [3, 1])]
    outputs = [info("masked", TensorProto.FLOAT, [3, 4]), info("sums", TensorProto.FLOAT, [3])]
    model = model_of("embedding", nodes, inputs, outputs, {"table": table, "axis": np.array([1])})
    onnx.checker.check_model(model)
    return model


@unittest.skipIf(onnx is None, "onnx is not installed")
class Tensors(unittest.TestCase):
    def test_inputs_and_outputs_have_names_shapes_and_types(self):
        model = embedding()
        values = {
            "numbers": np.array([4, 0, 2]),
            "mask": np.array([[True], [True], [False]]),
        }
        expected = ReferenceEvaluator(model).run(None, values)
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file, reef.open("cpu") as device:
            file.write(model.SerializeToString())
            file.flush()
            net = device.load(file.name)
            self.assertEqual(
                net.inputs,
                (reef.Port("numbers", (3,), "int64"), reef.Port("mask", (3, 1), "bool")),
            )
            with device.real_time() as rt, device.best_effort() as be:
                named = rt.run(net, **values)
                ordered = be.run(net, values["numbers"], mask=values["mask"])
                with self.assertRaises(reef.InvalidError) as raised:
                    rt.run(net, values["numbers"], numbers=values["numbers"])
                self.assertIn("no further input 'numbers'", str(raised.exception))
        for output in (named, ordered):
            self.assertEqual(len(output), 2)
            for found, wanted in zip(output, expected):
                self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape))
                self.assertTrue(np.array_equal(found, wanted))


@unittest.skipIf(onnx is None, "onnx is not installed")
class Slots(unittest.TestCase):
    def test_inputs_of_a_slot_are_not_exchanged_in_place(self):
        ports = [info(name, TensorProto.FLOAT, [2]) for name in "abc"]
        model = model_of("less", [helper.make_node("Sub", ["a", "b"], ["c"])], ports[:2], ports[2:])
        with reef.open("cpu") as device, device.real_time() as rt:
            slot = device.load(model.SerializeToString()).slot()
            for array, values in zip(slot.inputs, ([5.0, 7.0], [1.0, 2.0])):
                np.copyto(array.numpy(), values)
            exchanged = slot.inputs[1], slot.inputs[0]
            for given in (exchanged, [array.numpy() for array in exchanged]):
                with self.assertRaisesRegex(reef.InvalidError, "input b must not be memory of a replaced"):
                    rt.run(slot, *given)
            self.assertEqual(rt.run(slot).numpy().tolist(), [4.0, 5.0])
            copies = [array.numpy().copy() for array in exchanged]
            self.assertEqual(rt.run(slot, *copies).numpy().tolist(), [-4.0, -5.0])
            # One that stays may be read for the other.
            self.assertEqual(rt.run(slot, slot.inputs[1], slot.inputs[1]).numpy().tolist(), [0.0, 0.0])


def added(element, shape):
    """Twice a tensor of this type and shape."""
    ports = [info(name, element, shape) for name in "xy"]
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return model_of("added", [node], ports[:1], ports[1:]).SerializeToString()


@unittest.skipIf(onnx is None, "onnx is not installed")
class Lists(unittest.TestCase):
    def test_numbers_of_a_list_are_not_cut_to_fit(self):
        with reef.open("cpu") as device, device.real_time() as rt:
            whole, large, real, one = (
                device.load(added(*of))
                for of in [
                    (TensorProto.INT64, [2]),
                    (TensorProto.UINT64, [2]),
                    (TensorProto.FLOAT, [2]),
                    (TensorProto.FLOAT, []),
                ]
            )
            self.assertEqual(rt.run(whole, [1, 2]).tolist(), [2, 4])
            self.assertEqual(rt.run(large, [2**63 - 1, 1]).tolist(), [2**64 - 2, 2])
            for each in (2**63, np.uint64(2**63)):
                self.assertEqual(rt.run(large, [each, 1]).tolist()[1], 2)
            self.assertEqual(rt.run(real, [1, 2.5]).tolist(), [2.0, 5.0])
            self.assertEqual(rt.run(one, 1.5).tolist(), 3.0)
            for net, given, said in [
                (whole, [1.5, 2.0], "list must be an array in the host's memory: values must be int64, got float64"),
                (large, [2.0**63, 1], "values must be uint64, got float64"),
                (whole, ["1", "2"], "values must be int64, got <U1"),
                (whole, [2**70, 1], "list must be an array in the host's memory"),
                (real, [None, 1.0], "values must be float32, got object"),
                (one, None, "NoneType must be an array in the host's memory: values must be float32, got object"),
            ]:
                with self.subTest(given), self.assertRaises(reef.InvalidError) as raised:
                    rt.run(net, given)
                self.assertIn(said, str(raised.exception))


def doubled():
    """Twice a matrix of open sizes."""
    return added(TensorProto.FLOAT, ["rows", "columns"])


@unittest.skipIf(onnx is None, "onnx is not installed")
class OpenSizes(unittest.TestCase):
    def test_sizes_are_chosen_by_name(self):
        with reef.open("cpu") as device, device.real_time() as rt:
            for shape in ({"x": [2, 3]}, {"rows": (2,), "columns": (3,)}):
                net = device.load(doubled(), shape=shape)
                self.assertEqual(net.inputs[0].shape, (2, 3))
                values = np.arange(6, dtype=np.float32).reshape(2, 3)
                self.assertTrue(np.array_equal(rt.run(net, values), 2 * values))
            with self.assertRaises(reef.FileError) as raised:
                device.load(doubled(), shape={"z": [1]})
            self.assertIn('"z"', str(raised.exception))

    def test_networks_of_a_cluster_have_the_chosen_sizes(self):
        cluster = reef.open_cluster(["cpu:0?units=1", "cpu:1?units=1"])
        values = np.arange(6, dtype=np.float32).reshape(2, 3)
        for shape in ({"x": [2, 3]}, {"rows": (2,), "columns": (3,)}):
            net = cluster.load(doubled(), shape=shape)
            self.assertEqual((net.inputs[0].shape, net.outputs[0].shape), ((2, 3), (2, 3)))
            with cluster.real_time(net, load=0.3) as rt, cluster.best_effort(net) as be:
                for client in (rt, be):
                    self.assertTrue(np.array_equal(client.run(values), 2 * values))
                    with self.assertRaises(reef.InvalidError):
                        client.run(values[:1])
        with self.assertRaises(reef.FileError) as raised:
            cluster.load(doubled(), shape={"z": [1]})
        self.assertIn('"z"', str(raised.exception))

    def test_sizes_that_stay_open_are_those_of_each_request(self):
        with reef.open("cpu") as device, device.real_time() as rt, device.best_effort() as be:
            net = device.load(doubled(), shape={"columns": [3]}, instances=2)
            port = reef.Port("x", (-1, 3), "float32")
            self.assertEqual((net.inputs, net.outputs), ((port,), (port._replace(name="y"),)))
            arrays = [np.ones((rows, 3), np.float32) for rows in (1, 4, 0, 7, 4)]
            for values in arrays:
                self.assertTrue(np.array_equal(rt.run(net, values), 2 * values))
                self.assertTrue(np.array_equal(be.run(net, x=values), 2 * values))
            self.assertEqual(len(net._prepared), 3)
            on_way = [be.submit(net, values) for values in arrays]
            for future, values in zip(on_way, arrays):
                self.assertEqual(future.result().shape, values.shape)
            for wrong in (np.ones((2, 4), np.float32), np.ones(3, np.float32)):
                with self.assertRaises(reef.InvalidError) as raised:
                    rt.run(net, wrong)
                said = f"input x: shape must be (-1, 3), got {wrong.shape}"
                self.assertEqual(str(raised.exception), said)
            with self.assertRaises(reef.InvalidError):
                rt.run(net)
            self.assertEqual(len(net._prepared), 3)

    def test_networks_of_sizes_used_long_ago_are_dropped(self):
        with reef.open("cpu") as device, device.real_time() as rt:
            net = device.load(doubled())
            for rows in range(1, net.SHAPES + 3):
                rt.run(net, np.ones((rows, 2), np.float32))
                rt.run(net, np.ones((1, 2), np.float32))
            kept = [shape[0] for ((_, shape),) in net._prepared]
            self.assertEqual(kept, [*range(4, net.SHAPES + 3), 1])


def until_five():
    """Adds `x` until its largest number is 5 or more, and gives this number each time."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["h", "x"], ["sum"]),
            helper.make_node("ReduceMax", ["sum"], ["most"], keepdims=0),
            helper.make_node("Less", ["most", "five"], ["small"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("going", TensorProto.BOOL, []), info("h", TensorProto.FLOAT, [2])],
        [info("small", TensorProto.BOOL, []), info("sum", TensorProto.FLOAT, [2]), info("most", TensorProto.FLOAT, [])],
    )
    node = helper.make_node("Loop", ["", "", "x"], ["y", "parts"], name="while", body=body)
    outputs = [info("y", TensorProto.FLOAT, [2]), info("parts", TensorProto.FLOAT, ["n"])]
    inputs = [info("x", TensorProto.FLOAT, [2])]
    return model_of("until_five", [node], inputs, outputs, {"five": np.float32(5)}).SerializeToString()


@unittest.skipIf(onnx is None, "onnx is not installed")
class Loops(unittest.TestCase):
    def check(self, client, net, bound):
        for x, y, parts in (
            ([1.0, 2.0], [3.0, 6.0], [4.0, 6.0]),
            ([0.0, 1.25], [0.0, 5.0], [2.5, 3.75, 5.0]),
        ):
            made = client.run(*net, np.array(x, np.float32))
            self.assertEqual([output.tolist() for output in made], [y, parts])
        with self.assertRaises(reef.InvalidError) as raised:
            client.run(*net, np.zeros(2, np.float32))
        self.assertIn(f'node "while" (Loop): {bound} iterations', str(raised.exception))

    def test_loop_that_data_end_has_a_bound(self):
        with reef.open("cpu") as device, device.real_time() as rt, device.best_effort() as be:
            for bound, given in ((64, {}), (4, {"loop_bound": 4})):
                net = device.load(until_five(), **given)
                self.assertEqual(net.outputs[1].shape, (-1,))
                for client in (rt, be):
                    self.check(client, (net,), bound)

    def test_loop_of_a_cluster_has_a_bound(self):
        cluster = reef.open_cluster("cpu:0?units=1")
        net = cluster.load(until_five(), loop_bound=4)
        with cluster.real_time(net, load=0.3) as rt, cluster.best_effort(net) as be:
            for client in (rt, be):
                self.check(client, (), 4)


def colors():
    """Texts that become others by a table."""
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["red", "grün"],
        values_strings=["stop", "go"],
    )
    graph = helper.make_graph(
        [node],
        "colors",
        [info("x", TensorProto.STRING, ["n"])],
        [info("y", TensorProto.STRING, ["n"])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@unittest.skipIf(onnx is None, "onnx is not installed")
class Texts(unittest.TestCase):
    def test_texts_go_in_and_come_out_as_arrays_of_str(self):
        with reef.open("cpu") as device, device.real_time() as rt:
            net = device.load(colors().SerializeToString())
            self.assertEqual((net.inputs[0].shape, net.inputs[0].dtype), ((-1,), "str"))
            given = ["red", "blue", "grün"]
            for value in [np.array(given), np.array(given, dtype=object)]:
                made = rt.run(net, value)
                self.assertEqual(made.dtype.kind, "U")
                self.assertEqual(made.tolist(), ["stop", "_Unused", "go"])
            made = rt.run(net, np.array(["grün".encode(), b"\xff"]))
            self.assertEqual(made.tolist(), ["go", "_Unused"])
            self.assertEqual(rt.run(net, x=np.array(["red"])).tolist(), ["stop"])
            # NumPy 2 has texts of any length.
            if string := getattr(getattr(np, "dtypes", None), "StringDType", None):
                made = rt.run(net, np.array(["red", "a"], dtype=string()))
                self.assertEqual(made.tolist(), ["stop", "_Unused"])

    def test_numbers_in_place_of_texts_are_refused(self):
        with reef.open("cpu") as device, device.real_time() as rt:
            net = device.load(colors().SerializeToString())
            with self.assertRaisesRegex(reef.InvalidError, r"input x must be str \(1,\), got int64"):
                rt.run(net, np.array([1]))
            with self.assertRaisesRegex(reef.InvalidError, "input x must have texts, got int"):
                rt.run(net, np.array([1], dtype=object))
            with self.assertRaisesRegex(reef.UnsupportedError, "y is of texts"):
                rt.run(net, np.array(["red"]), out="device")
            with self.assertRaisesRegex(reef.UnsupportedError, "x is of texts"):
                net.slot()


def merged():
    """Rows with those of a cache before them if `use_cache` says so, and their sums. One of the two
    graphs gives as many rows as there are, as in decoders whose graphs an exporter has merged."""
    of = helper.make_node
    rows_of = lambda name, rows: info(name, TensorProto.FLOAT, [rows, 2])
    graph = lambda name, node: helper.make_graph([node], name, [], [rows_of(node.output[0], None)])
    both = graph("both", of("Concat", ["past", "x"], ["with_past"], axis=0))
    alone = graph("alone", of("Mul", ["x", "three"], ["without"]))
    nodes = [
        of("If", ["use_cache"], ["present"], then_branch=both, else_branch=alone),
        of("ReduceSum", ["present", "columns"], ["sums"], keepdims=0),
    ]
    inputs = [rows_of("x", "new"), info("use_cache", TensorProto.BOOL, [1]), rows_of("past", "rows")]
    outputs = [rows_of("present", "all"), info("sums", TensorProto.FLOAT, ["all"])]
    stored = {"three": np.array([3], np.float32), "columns": np.array([1])}
    return model_of("merged", nodes, inputs, outputs, stored).SerializeToString()


def after_sequence():
    """As `merged`, where the cache is a sequence of rows, which comes before the truth value."""
    of = helper.make_node
    row = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 2])
    rows = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 2])
    graph = lambda name, node: helper.make_graph([node], name, [], [rows(node.output[0])])
    both = graph("both", of("Concat", ["past_rows", "x"], ["with_past"], axis=0))
    alone = graph("alone", of("Mul", ["x", "three"], ["without"]))
    nodes = [
        of("ConcatFromSequence", ["past"], ["past_rows"], axis=0),
        of("If", ["use_cache"], ["present"], then_branch=both, else_branch=alone),
    ]
    inputs = [
        helper.make_value_info("past", helper.make_sequence_type_proto(row)),
        helper.make_tensor_value_info("use_cache", TensorProto.BOOL, [1]),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2]),
    ]
    stored = [numpy_helper.from_array(np.array([3], np.float32), "three")]
    made = helper.make_graph(nodes, "after_sequence", inputs, [rows("present")], stored)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()


@unittest.skipIf(onnx is None, "onnx is not installed")
class Switches(unittest.TestCase):
    def test_truth_value_after_a_sequence_has_the_place_of_the_file(self):
        first, second, x = (np.full((1, 2), value, np.float32) for value in (1, 2, 3))
        with reef.open("cpu") as device, device.real_time() as rt:
            net = device.load(after_sequence(), shape={"past": [2]})
            names = [port.name for port in net.inputs]
            self.assertEqual(names, ["past.0", "past.1", "use_cache", "x"])
            made = rt.run(net, first, second, np.array([False]), x)
            self.assertEqual(made.tolist(), [[9, 9]])
            made = rt.run(net, first, second, np.array([True]), x)
            self.assertEqual(made.tolist(), [[1, 1], [2, 2], [3, 3]])

    def test_truth_value_of_each_request_chooses_between_shapes(self):
        past = lambda rows: np.full((rows, 2), 10, np.float32)
        x, on, off = np.array([[1, 2], [3, 4]], np.float32), np.array([True]), np.array([False])
        with reef.open("cpu") as device, device.real_time() as rt, device.best_effort() as be:
            net = device.load(merged())
            shapes = [(port.name, port.shape, port.dtype) for port in net.inputs]
            rows = (-1, 2)
            self.assertEqual(
                shapes, [("x", rows, "float32"), ("use_cache", (1,), "bool"), ("past", rows, "float32")]
            )
            for client in (rt, be, rt):
                present, sums = client.run(net, x, on, past(1))
                self.assertEqual(present.tolist(), [[10, 10], [1, 2], [3, 4]])
                self.assertEqual(sums.tolist(), [20, 3, 7])
                present, sums = client.run(net, past=past(1), use_cache=off, x=x)
                self.assertEqual((present.tolist(), sums.tolist()), ([[3, 6], [9, 12]], [9, 21]))
            self.assertEqual(len(net._prepared), 2)
            # Both graphs give as many rows here.
            self.assertEqual(rt.run(net, x, on, past(0))[0].tolist(), x.tolist())
            self.assertEqual(rt.run(net, x, off, past(0))[0].tolist(), (3 * x).tolist())
            sums = be.submit(net, x[:1], on, past=past(1)).result()[1]
            self.assertEqual(sums.tolist(), [20, 3])
            with self.assertRaises(reef.InvalidError) as raised:
                rt.run(net, x, past=past(1))
            self.assertIn("3 inputs ['x', 'use_cache', 'past'], got 2", str(raised.exception))
            for wrong in (np.array([1]), np.array([True, False]), True):
                with self.assertRaises(reef.InvalidError):
                    rt.run(net, x, wrong, past(1))
            with self.assertRaises(reef.UnsupportedError) as raised:
                net.slot()
            self.assertIn("input 'use_cache' decides about shapes", str(raised.exception))

    def test_state_is_that_of_both_values(self):
        x, on, off = np.array([[1, 2]], np.float32), np.array([True]), np.array([False])
        with reef.open("cpu") as device, device.real_time() as rt:
            state = device.load(merged()).state({"past": "present"}, {"past": np.zeros((0, 2), np.float32)})
            made = [state.run(rt, x, value).tolist() for value in (off, on, on)]
            self.assertEqual(made, [[9], [9, 3], [9, 3, 3]])


TOKENS, WIDTH = 24, 8


def decoder():
    """A layer of attention with a cache, of made-up weights: tokens and the cache of those before
    give logits and the cache of all."""
    draw = np.random.default_rng(5)
    drawn = {name: (TOKENS, WIDTH) for name in ("table", "places")}
    drawn |= {name: (WIDTH, WIDTH) for name in ("wq", "wk", "wv")} | {"out": (WIDTH, TOKENS)}
    stored = {name: draw.normal(size=shape).astype(np.float32) for name, shape in drawn.items()}
    stored["places"] = draw.normal(size=(256, WIDTH)).astype(np.float32)
    stored |= {"one": np.int64(1), "i1": np.array([1], np.int64), "i2": np.array([2], np.int64)}
    stored |= {"far": np.float32(-1e9), "fixed": np.int64(0)}
    of = helper.make_node
    nodes = [
        of("Gather", ["table", "ids"], ["embedded"]),
        of("Shape", ["past_keys"], ["past_shape"]),
        of("Gather", ["past_shape", "one"], ["past"]),
        of("Shape", ["ids"], ["ids_shape"]),
        of("Gather", ["ids_shape", "one"], ["new"]),
        of("Add", ["past", "new"], ["all"]),
        of("Range", ["past", "all", "one"], ["numbers"]),
        of("Gather", ["places", "numbers"], ["placed"]),
        of("Add", ["embedded", "placed"], ["x"]),
        *(of("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"),
        of("Concat", ["past_keys", "k"], ["keys"], axis=1),
        of("Concat", ["past_values", "v"], ["values"], axis=1),
        of("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
        of("MatMul", ["q", "turned"], ["scores"]),
        of("Unsqueeze", ["numbers", "i1"], ["rows"]),
        of("Range", ["fixed", "all", "one"], ["columns"]),
        of("Greater", ["columns", "rows"], ["is_later"]),
        of("Where", ["is_later", "far", "scores"], ["masked"]),
        of("Softmax", ["masked"], ["shares"], axis=-1),
        of("MatMul", ["shares", "values"], ["mixed"]),
        of("Add", ["mixed", "x"], ["y"]),
        of("MatMul", ["y", "out"], ["logits"]),
    ]
    cache = lambda name, rows: info(name, TensorProto.FLOAT, [1, rows, WIDTH])
    inputs = [info("ids", TensorProto.INT64, [1, "new"]), cache("past_keys", "past"), cache("past_values", "past")]
    logits = info("logits", TensorProto.FLOAT, [1, "new", TOKENS])
    outputs = [logits, cache("keys", "all"), cache("values", "all")]
    return model_of("decoder", nodes, inputs, outputs, stored).SerializeToString()


PAIRS = {"past_keys": "keys", "past_values": "values"}
EMPTY = {name: np.zeros((1, 0, WIDTH), np.float32) for name in PAIRS}


@unittest.skipIf(onnx is None, "onnx is not installed")
class States(unittest.TestCase):
    def test_64_tokens_with_a_cache_are_those_of_the_whole_text(self):
        with reef.open("cpu") as device, device.real_time() as rt:
            net = device.load(decoder())
            state = net.state(PAIRS, EMPTY)
            text = [3, 1, 4]
            logits = state.run(rt, np.array([text]))
            for _ in range(64):
                whole, *_ = rt.run(net, np.array([text]), **EMPTY)
                np.testing.assert_allclose(logits[0, -1], whole[0, -1], atol=1e-4)
                self.assertEqual(logits[0, -1].argmax(), whole[0, -1].argmax())
                text.append(int(logits[0, -1].argmax()))
                logits = state.run(rt, ids=np.array([text[-1:]]))
            self.assertGreater(len(set(text)), 4, "made-up weights that say one word")
            kept = state.values()
            self.assertEqual({name: value.shape for name, value in kept.items()}, dict.fromkeys(PAIRS, (1, 67, WIDTH)))

    def test_a_request_that_fails_leaves_the_state_as_it_was(self):
        with reef.open("cpu") as device, device.best_effort() as be:
            net = device.load(decoder())
            states = [net.state(PAIRS, EMPTY) for _ in range(2)]
            first = [state.run(be, np.array([[token]])) for state, token in zip(states, (5, 6))]
            with self.assertRaises(reef.InvalidError):
                states[0].run(be, np.array([[1.0]]))
            with self.assertRaises(reef.InvalidError):
                states[0].run(be)
            self.assertEqual(states[0].values()["past_keys"].shape, (1, 1, WIDTH))
            states[0].reset()
            again = states[0].run(be, np.array([[5]]), out="device")
            self.assertTrue(np.array_equal(again.numpy(), first[0]))
            self.assertFalse(np.array_equal(first[1], first[0]))

    def test_first_values_are_copied(self):
        class Foreign:
            """An array of a library without `clone`."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        with reef.open("cpu") as device, device.real_time() as rt:
            net = device.load(added(TensorProto.FLOAT, [2]))
            for wrap in (lambda array: array, Foreign, memoryview):
                array = np.ones(2, np.float32)
                state = net.state({"x": "y"}, {"x": wrap(array)})
                array.fill(7.0)
                self.assertEqual(state.run(rt), ())
                self.assertEqual(state.values()["x"].numpy().tolist(), [2.0, 2.0])
                state.reset()
                state.run(rt)
                self.assertEqual(state.values()["x"].numpy().tolist(), [2.0, 2.0])
            slot = net.slot()
            slot.inputs[0].numpy().fill(1.0)
            state = net.state({"x": "y"}, {"x": slot.inputs[0]})
            slot.inputs[0].numpy().fill(7.0)
            state.run(rt)
            self.assertEqual(state.values()["x"].numpy().tolist(), [2.0, 2.0])
            with self.assertRaisesRegex(reef.InvalidError, "input x: list must be"):
                net.state({"x": "y"}, {"x": ["one", "two"]})

    def test_an_input_may_have_the_name_of_an_argument(self):
        nodes = [
            helper.make_node("Add", ["out", "sum"], ["next"]),
            helper.make_node("Identity", ["next"], ["y"]),
        ]
        ports = ([info(name, TensorProto.FLOAT, [2]) for name in names] for names in (("out", "sum"), ("y", "next")))
        model = model_of("sums", nodes, *ports)
        with reef.open("cpu") as device, device.real_time() as rt:
            state = device.load(model.SerializeToString()).state({"sum": "next"})
            for want in ([1, 2], [2, 4]):
                got = state.run(rt, np.array([1, 2], np.float32))
                np.testing.assert_array_equal(got, want)

    def test_pairs_that_do_not_fit_are_refused(self):
        with reef.open("cpu") as device:
            net = device.load(decoder())
            for pairs, first, why in (
                ({"past": "keys"}, {}, "no input 'past' (have: ['ids', 'past_keys', 'past_values'])"),
                ({"past_keys": "y"}, {}, "no output 'y'"),
                ({"ids": "logits"}, {}, "output logits must fit input ids, int64 (1, -1), got float32"),
                (PAIRS, {}, "first must have input past_keys, whose shape (1, -1, 8) leaves sizes open"),
                ({"past_keys": "keys"}, {"ids": 1}, "first: no pair has input 'ids'"),
                ({"past_keys": "keys", "past_values": "keys"}, EMPTY, "each output once"),
            ):
                with self.assertRaises(reef.InvalidError) as raised:
                    net.state(pairs, first)
                self.assertIn(why, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
