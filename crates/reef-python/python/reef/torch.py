"""Networks from modules of PyTorch, without a file: `reef.torch.load(module, example, device=device)`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from . import _reef
from ._device import Device
from ._network import Network, Source, whole


def load(module: Any, example: Any, *, device: Device, instances: int = 8) -> Network:
    """Loads a `torch.nn.Module`, as it is for inference, with its weights.

    `example` is a tensor or a tuple of tensors: inputs that fix all shapes and types. The inputs of
    the network have the names of the parameters of `forward`. The module is exported by
    `torch.onnx`: by its TorchScript exporter and, if that can't, by that of `torch.export`, which
    needs the package onnxscript. So only tensors decide what the network computes: before it is
    returned, it is compared with the module on the example and on other inputs of its shapes.
    Outputs in objects other than tensors, lists, tuples and dicts are not compared.

    Raises InvalidError if the module can't be exported, or computes something else than what was
    exported, UnsupportedError or FileError if REEF can't run what was exported.
    """
    example = example if isinstance(example, tuple) else (example,)
    name, instances = type(module).__name__, whole("instances", instances, 1)
    faults: list[str] = []
    cause: Exception | None = None
    for title, export in _exporters():
        try:
            data, said = _export(export, module, example)
        except Exception as error:  # of any kind: the module's code runs
            text = str(error).strip().splitlines()
            faults.append(f"{title}: {text[0] if text else type(error).__name__}")
            cause = error
            continue
        network = Network(device._device.load(Source((data, name)), instances))
        fault = _difference(module, network, example, device)
        if fault is None:
            return network
        faults.append(f"{title}: {fault}{said}")
    raise _reef.InvalidError(f"{name} can't be exported to ONNX: {'; '.join(faults)}") from cause


_Exporter = Callable[[Any, tuple[Any, ...], list[str]], bytes]


def _export(export: _Exporter, module: Any, example: tuple[Any, ...]) -> tuple[bytes, str]:
    """The bytes of the file, and what the tracer said about values that became constants."""
    with _for_inference(module), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(io.StringIO()):
            data = export(module, example, _names(module, len(example)))
    traced = [one for one in caught if one.category.__name__ == "TracerWarning"]
    said = str(traced[0].message).strip().splitlines()[0] if traced else ""
    return data, f" (TracerWarning: {said})" if said else ""


def _difference(
    module: Any, network: Network, example: tuple[Any, ...], device: Device
) -> str | None:
    """How the network differs from the module; None if it gives the same."""
    # The largest capacity: a deep network has many commands.
    with device.best_effort(capacity=1 << 16) as client:
        for what, inputs in _inputs(example):
            with _for_inference(module):
                try:
                    wanted = _flat(_run(module, inputs))
                except Exception:  # values that the module itself refuses say nothing
                    if inputs is example:
                        raise
                    continue
            given = [value.detach().cpu().contiguous() for value in inputs]
            found = client.run(network, *given)
            found = list(found) if isinstance(found, (tuple, list)) else [found]
            if len(found) != len(wanted):
                return None  # objects of other kinds, whose tensors have no known order
            if not all(map(_is_close, found, wanted)):
                return (
                    f"the exported network differs from the module on {what}: "
                    "its control flow may depend on data"
                )
    return None


def _run(module: Any, inputs: tuple[Any, ...]) -> Any:
    torch: Any = importlib.import_module("torch")
    parameter = next(iter(module.parameters()), None)
    own = [value.clone() for value in inputs]  # the module may change its inputs
    if parameter is not None:
        own = [value.to(parameter.device) for value in own]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return module(*own)


def _inputs(example: tuple[Any, ...]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The example, and other inputs of its shapes and types, whose values are in its range."""
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator().manual_seed(1)

    def drawn(value: Any) -> Any:
        if value.is_floating_point():
            noise = torch.randn(value.shape, generator=generator).to(value.dtype)
            return value.cpu() + noise
        order = torch.randperm(value.numel(), generator=generator)
        return value.cpu().flatten()[order].reshape(value.shape)

    def negative(value: Any) -> Any:
        return -value.cpu() if value.is_floating_point() else drawn(value)

    yield "the example", example
    others = tuple(drawn(value) for value in example)
    yield "a second input", others
    yield "the negative of a second input", tuple(negative(value) for value in others)


def _flat(made: Any) -> list[Any]:
    """Tensors of what a module returns, in the order in which they are exported."""
    if hasattr(made, "detach"):
        return [made.detach().cpu()]
    parts = made.values() if isinstance(made, dict) else made
    parts = parts if isinstance(made, (dict, list, tuple)) else []
    return [tensor for part in parts for tensor in _flat(part)]


def _is_close(found: Any, wanted: Any) -> bool:
    import numpy

    is_brain = str(wanted.dtype) == "torch.bfloat16"
    wanted = (wanted.float() if is_brain else wanted).numpy()
    if is_brain and found.dtype == numpy.uint16:
        # NumPy has no such type: its bits are the upper half of those of float32.
        found = (found.astype(numpy.uint32) << 16).view(numpy.float32)
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind not in "fc":
        # A rounding may decide between two labels; most are the same.
        return wanted.size == 0 or bool(numpy.mean(found == wanted) > 0.9)
    near = _LOOSE if is_brain or wanted.dtype.itemsize == 2 else _NEAR
    finite = wanted[numpy.isfinite(wanted)]
    scale = float(numpy.abs(finite).max(initial=0))
    found, wanted = found.astype(numpy.float64), wanted.astype(numpy.float64)
    return bool(numpy.allclose(found, wanted, rtol=near, atol=near * scale, equal_nan=True))


# Largest difference, as a part of the largest value: of numbers of 32 bits, and of 16.
_NEAR = 1e-2
_LOOSE = 5e-2


def _exporters() -> Iterator[tuple[str, Callable[[Any, tuple[Any, ...], list[str]], bytes]]]:
    torch: Any = importlib.import_module("torch")  # PyTorch's, not this module
    has_choice = "dynamo" in inspect.signature(torch.onnx.export).parameters

    def script(module: Any, example: tuple[Any, ...], names: list[str]) -> bytes:
        file = io.BytesIO()
        choice = {"dynamo": False} if has_choice else {}
        torch.onnx.export(module, example, file, input_names=names, **choice)
        return file.getvalue()

    def dynamo(module: Any, example: tuple[Any, ...], names: list[str]) -> bytes:
        program = torch.onnx.export(module, example, input_names=names, dynamo=True, verbose=False)
        data: bytes = program.model_proto.SerializeToString()
        return data

    yield "TorchScript", script
    if has_choice and importlib.util.find_spec("onnxscript") is not None:
        yield "torch.export", dynamo


def _names(module: Any, count: int) -> list[str]:
    """Names of the inputs: those of the parameters of `forward`, as far as it has names for them."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return [f"input_{index}" for index in range(count)]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    return (names + [f"input_{index}" for index in range(len(names), count)])[:count]


@contextlib.contextmanager
def _for_inference(module: Any) -> Iterator[None]:
    """Has dropout and the like off, as `module.eval()` does, and leaves them as they were."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
