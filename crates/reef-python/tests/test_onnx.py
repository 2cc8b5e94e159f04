"""Networks of several inputs and outputs, compared with the reference evaluator of ONNX."""

import tempfile
import unittest

import numpy as np
import reef

try:
    import onnx
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    onnx = None


def embedding():
    """A table of 5 rows of 4, looked up by numbers and masked; the rows, and their sums."""
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    nodes = [
        helper.make_node("Gather", ["table", "numbers"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["factors"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["rows", "factors"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "axis"], ["sums"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "embedding",
        [
            helper.make_tensor_value_info("numbers", TensorProto.INT64, [3]),
            helper.make_tensor_value_info("mask", TensorProto.BOOL, [3, 1]),
        ],
        [
            helper.make_tensor_value_info("masked", TensorProto.FLOAT, [3, 4]),
            helper.make_tensor_value_info("sums", TensorProto.FLOAT, [3]),
        ],
        [
            onnx.numpy_helper.from_array(table, "table"),
            onnx.numpy_helper.from_array(np.array([1]), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
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


def doubled():
    """Twice a matrix of open sizes."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "doubled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "columns"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "columns"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()


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


if __name__ == "__main__":
    unittest.main()
