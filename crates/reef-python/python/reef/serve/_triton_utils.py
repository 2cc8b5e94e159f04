"""The module `triton_python_backend_utils`, as far as models for Triton's Python backend use it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ._model import Request
from ._tensors import FORMATS, TEXTS, datatype_of, dtype_of

try:
    import numpy
except ImportError:  # arrays are memoryviews then
    numpy = None  # type: ignore[assignment]

# Datatypes in the order of Triton's numbers, of which the first one is 1.
_NUMBERED = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", TEXTS]

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2


class TritonModelException(Exception):  # noqa: N818
    """What Triton raises for calls that it refuses."""


class TritonError:
    """An error as a response."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message, self._code = message, code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class Tensor:
    """A tensor with its name."""

    def __init__(self, name: str, array: Any) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        """The array: a memoryview or nested lists where NumPy is not installed."""
        return self._array

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def triton_dtype(self) -> int:
        return _number(self._array)

    def is_cpu(self) -> bool:
        return True

    def to_dlpack(self) -> Any:
        return self._array.__dlpack__()

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> Tensor:
        if numpy is None:
            raise TritonModelException("from_dlpack requires NumPy")
        return Tensor(name, numpy.from_dlpack(tensor))


class InferenceRequest:
    """A request."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def inputs(self) -> list[Tensor]:
        return [Tensor(name, value) for name, value in self._request.items()]

    def request_id(self) -> str:
        return self._request.id

    def requested_output_names(self) -> list[str]:
        return list(self._request.outputs)

    def correlation_id(self) -> int:
        """Number of the request's sequence, which is the daemon's own; 0 without one."""
        return self._request.sequence or 0

    def flags(self) -> int:
        starts = TRITONSERVER_REQUEST_FLAG_SEQUENCE_START if self._request.starts_sequence else 0
        return starts | (TRITONSERVER_REQUEST_FLAG_SEQUENCE_END if self._request.ends_sequence else 0)

    def timeout(self) -> int:
        return int(self._request.remaining * 1e6)

    def priority(self) -> int:
        return 1 if self._request.class_name == "rt" else 2

    def is_cancelled(self) -> bool:
        return self._request.is_cancelled

    def parameters(self) -> str:
        return "{}"

    def get_response_sender(self) -> Any:
        raise TritonModelException("decoupled responses are not implemented")

    def exec(self, *_: Any, **__: Any) -> Any:
        raise TritonModelException("requests to other models are not implemented")

    async_exec = exec


class InferenceResponse:
    """A response: tensors, or an error."""

    def __init__(
        self, output_tensors: Sequence[Tensor] = (), error: TritonError | str | None = None
    ) -> None:
        self._tensors = list(output_tensors)
        self._error = TritonError(error) if isinstance(error, str) else error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error


class Logger:
    """Lines of the daemon's log, which have no level."""

    INFO, WARNING, ERROR, VERBOSE = range(4)

    @staticmethod
    def log(message: str, level: int = INFO) -> None:
        print(message, file=sys.stderr, flush=True)

    log_info = log_warn = log_error = log_verbose = staticmethod(log)


def get_input_tensor_by_name(request: InferenceRequest, name: str) -> Tensor | None:
    return _named(request.inputs(), name)


def get_output_tensor_by_name(response: InferenceResponse, name: str) -> Tensor | None:
    return _named(response.output_tensors(), name)


def _named(tensors: Sequence[Tensor], name: str) -> Tensor | None:
    return next((tensor for tensor in tensors if tensor.name() == name), None)


def get_input_config_by_name(config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return _config(config, "input", name)


def get_output_config_by_name(config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    return _config(config, "output", name)


def _config(config: Mapping[str, Any], key: str, name: str) -> dict[str, Any] | None:
    return next((one for one in config.get(key, []) if one["name"] == name), None)


def using_decoupled_model_transaction_policy(config: Mapping[str, Any]) -> bool:
    return bool(config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_string_to_numpy(name: str) -> Any:
    """The type of NumPy for `TYPE_FP32` and the like."""
    if numpy is None:
        raise TritonModelException("triton_string_to_numpy requires NumPy")
    datatype = name.removeprefix("TYPE_")
    if datatype == "STRING":
        return numpy.object_
    if datatype == "BF16" or datatype not in FORMATS:
        raise TritonModelException(f"no type of NumPy for {name}")
    return dtype_of(datatype).type


def numpy_to_triton_type(dtype: Any) -> int:
    """The number of a type of NumPy."""
    if numpy is None:
        raise TritonModelException("numpy_to_triton_type requires NumPy")
    return _number(numpy.empty(0, dtype=dtype))


def _number(array: Any) -> int:
    return _NUMBERED.index(datatype_of(array)) + 1


def triton_to_numpy_type(number: int) -> Any:
    """The type of NumPy with this number."""
    if not 1 <= number <= len(_NUMBERED):
        raise TritonModelException(f"no type of NumPy for the number {number}")
    return triton_string_to_numpy(_NUMBERED[number - 1].replace(TEXTS, "STRING"))


def arguments(config: Mapping[str, Any], facts: Mapping[str, str]) -> dict[str, str]:
    """What `initialize` gets."""
    return {"model_config": json.dumps(config), **facts}
