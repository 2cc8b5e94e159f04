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
from ._network import Network, Source


def load(module: Any, example: Any, *, device: Device, instances: int = 8) -> Network:
    """Loads a `torch.nn.Module`, as it is for inference, with its weights.

    `example` is a tensor or a tuple of tensors: inputs that fix all shapes and types. The inputs of
    the network have the names of the parameters of `forward`; that of a network for pictures is
    `input`. The module is exported by
    `torch.onnx`: by its TorchScript exporter and, if that can't, by that of `torch.export`, which
    needs the package onnxscript. So only tensors decide what the network computes.

    Raises InvalidError if the module can't be exported, UnsupportedError or FileError if REEF can't
    run what was exported.
    """
    example = example if isinstance(example, tuple) else (example,)
    data, name = _export(module, example), type(module).__name__
    return Network(device._device.load(Source((data, name)), max(0, instances)))


def _export(module: Any, example: tuple[Any, ...]) -> bytes:
    faults: list[str] = []
    cause: Exception | None = None
    with _for_inference(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, export in _exporters():
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    return export(module, example, _names(module, len(example)))
            except Exception as error:  # of any kind: the module's code runs
                text = str(error).strip().splitlines()
                faults.append(f"{title}: {text[0] if text else type(error).__name__}")
                cause = error
    name = type(module).__name__
    raise _reef.InvalidError(f"{name} can't be exported to ONNX: {'; '.join(faults)}") from cause


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
