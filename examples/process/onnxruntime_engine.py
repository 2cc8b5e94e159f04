"""Any ONNX file behind the daemon, run by ONNX Runtime: on NVIDIA's GPU if it has its provider, else on the CPU.

It answers where REEF's own reader does not read a file; the daemon's log has a line with the model and the reason:

    # models/detector/model.toml; models/detector/1 has model.onnx
    engine = "auto"

    [process]
    command = ["/opt/venv/bin/python3", "/opt/examples/process/onnxruntime_engine.py"]
    env = { PYTHONPATH = "/opt/reef-python" }  # if the package is not installed there

With `engine = "process"` it always answers. It needs `pip install onnxruntime`, or onnxruntime-gpu. Names, types and
shapes are those of the file, texts included; `--shape NAME=-1,4` states a shape that the file does not have.

With `max_batch` in model.toml, requests are joined along the first size of all tensors, if it is open: only for a file
whose rows do not depend on each other.
"""

import argparse
import os

import reef.serve

# Datatypes by ONNX Runtime's names of types.
DATATYPES = {
    "tensor(double)": "FP64",
    "tensor(float)": "FP32",
    "tensor(float16)": "FP16",
    "tensor(int64)": "INT64",
    "tensor(int32)": "INT32",
    "tensor(int16)": "INT16",
    "tensor(int8)": "INT8",
    "tensor(uint64)": "UINT64",
    "tensor(uint32)": "UINT32",
    "tensor(uint16)": "UINT16",
    "tensor(uint8)": "UINT8",
    "tensor(bool)": "BOOL",
    "tensor(string)": "BYTES",
}


class Engine(reef.serve.Model):
    def __init__(self, file, shapes, threads):
        self.file, self.shapes, self.threads = file, shapes, threads

    def load(self, device):
        import numpy
        import onnxruntime

        self.numpy, self.wrong = numpy, onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        path = os.path.join(self.folder, self.file)
        providers = providers_for(device, onnxruntime.get_available_providers())
        self.session = onnxruntime.InferenceSession(path, options, providers=providers)
        print(f"ONNX Runtime {onnxruntime.__version__}: {self.file} by {', '.join(self.session.get_providers())}")
        self.inputs = {one.name: self.declared(one) for one in self.session.get_inputs()}
        outputs = self.session.get_outputs()
        self.outputs = {one.name: self.declared(one) for one in outputs if one.type in DATATYPES}
        for one in outputs:
            if one.name not in self.outputs:
                print(f"output {one.name}: left out, because no datatype of the protocol is {one.type}")
        if unknown := self.shapes.keys() - self.inputs.keys() - self.outputs.keys():
            raise ValueError(f"--shape: must be of a tensor of the file, got {', '.join(sorted(unknown))}")
        tensors = [*self.inputs.values(), *self.outputs.values()]
        self.has_rows = all(shape[:1] == [-1] for _, shape in tensors)

    def declared(self, tensor):
        """Datatype and shape of a tensor of the file. Open sizes are -1, as the protocol has them."""
        if tensor.type not in DATATYPES:
            raise ValueError(f"tensor {tensor.name}: must be of a datatype of the protocol, got {tensor.type}")
        if tensor.name in self.shapes:
            return DATATYPES[tensor.type], self.shapes[tensor.name]
        if not tensor.shape:  # nor does ONNX Runtime tell this from a shape that the file does not have
            print(f"tensor {tensor.name}: has no sizes; if it has, state them: --shape {tensor.name}=-1,-1")
        is_size = [isinstance(size, int) and size >= 0 for size in tensor.shape]
        return DATATYPES[tensor.type], [size if known else -1 for size, known in zip(tensor.shape, is_size)]

    def infer_batch(self, requests):
        groups = {}  # of requests that may run together
        for at, request in enumerate(requests):
            groups.setdefault(self.sizes(request) or at, []).append(at)
        answers = {}
        for group in groups.values():
            members = [requests[at] for at in group]
            joined = self.joined(members) if len(group) > 1 else None
            answers |= zip(group, joined or map(self.alone, members))
        return [answers[at] for at in range(len(requests))]

    def sizes(self, request):
        """The sizes that must be the same in requests that run together; `None` for a request without rows."""
        if not self.has_rows or len({len(request[name]) for name in self.inputs}) != 1:
            return None
        return tuple(request[name].shape[1:] for name in self.inputs)

    def alone(self, request):
        """The answer to a request, or an exception."""
        try:
            given = {name: self.given(request, name) for name in self.inputs}
            return dict(zip(request.outputs, self.session.run(request.outputs, given)))
        except self.wrong as error:
            return reef.serve.InvalidRequest(str(error))
        except Exception as error:
            return error

    def joined(self, requests):
        """The answers to requests that run together; `None` if they must run alone, such as for the error of one."""
        counts = [len(next(iter(request.values()))) for request in requests]
        try:
            given = {name: [self.given(request, name) for request in requests] for name in self.inputs}
            given = {name: self.numpy.concatenate(parts) for name, parts in given.items()}
            made = self.session.run(list(self.outputs), given)
        except Exception:
            return None
        if any(value.shape[:1] != (sum(counts),) for value in made):
            return None
        ends = [sum(counts[:at]) for at in range(1, len(counts))]
        parts = [self.numpy.split(value, ends) for value in made]
        return [dict(zip(self.outputs, each)) for each in zip(*parts)]

    def given(self, request, name):
        """An input as ONNX Runtime takes it: its texts are `str`."""
        value = request[name]
        if self.inputs[name][0] != "BYTES":
            return value
        try:
            texts = [text.decode() for text in value.ravel()]
        except UnicodeDecodeError as error:
            raise reef.serve.InvalidRequest(f"input {name}: must be UTF-8: {error}") from None
        return self.numpy.array(texts, dtype=object).reshape(value.shape)


def providers_for(device, available):
    """Providers for a device of the daemon, such as "cuda:0", the first one first."""
    kind, _, number = device.partition(":")
    if kind == "cuda" and "CUDAExecutionProvider" in available:
        return [("CUDAExecutionProvider", {"device_id": int(number or 0)}), "CPUExecutionProvider"]
    if kind != "cpu":
        print(f"device {device}: runs on the CPU, because ONNX Runtime has only {', '.join(available)}")
    return ["CPUExecutionProvider"]


def shape(text):
    """Name and sizes of an argument such as boxes=-1,4."""
    name, _, sizes = text.rpartition("=")
    return name, [int(size) for size in sizes.split(",") if size]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default="model.onnx", help="in the version's folder [model.onnx]")
    shapes = {"type": shape, "action": "append", "default": [], "metavar": "NAME=SIZES"}
    parser.add_argument("--shape", **shapes, help="of a tensor, such as boxes=-1,4")
    parser.add_argument("--threads", type=int, default=0, help="for an operator on the CPU [one for each core]")
    args = parser.parse_args()
    reef.serve.run(Engine(args.file, dict(args.shape), args.threads))


if __name__ == "__main__":
    main()
