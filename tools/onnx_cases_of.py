"""Writes the node tests of the onnx package that is installed as folders with model.onnx and test_data_set_0, because
wheels from 1.23 on hold the programs that make them and no data.

Argument: the folder for what is made."""

import sys
from pathlib import Path

from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

def message(value, kind, name):
    if isinstance(value, TensorProto):
        return value
    make = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list,
            "optional_type": numpy_helper.from_optional}.get(kind, numpy_helper.from_array)
    return make(value, name)

out = Path(sys.argv[1])
for case in load_node_model_tests():
    data = out / case.name / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (out / case.name / "model.onnx").write_bytes(case.model.SerializeToString())
    inputs, outputs = case.data_sets[0]
    ports = (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output))
    for what, values, names in ports:
        for k, (value, port) in enumerate(zip(values, names)):
            made = message(value, port.type.WhichOneof("value"), port.name)
            (data / f"{what}_{k}.pb").write_bytes(made.SerializeToString())
