"""Runs a model for Triton's Python backend: `model.py` in this process's version folder, with a class
`TritonPythonModel` that has `initialize`, `execute` and `finalize`. The daemon starts this module for a
`config.pbtxt` with `backend: "python"`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from . import _triton_utils as utils
from ._model import InvalidRequest, Model, Request, RequestFailed
from ._run import run



class _Python(Model):
    def load(self, device: str) -> None:
        config = _listed(self.config)
        if utils.using_decoupled_model_transaction_policy(config):
            raise NotImplementedError("model_transaction_policy.decoupled is not implemented")
        is_batched = int(config.get("max_batch_size", 0)) > 0
        self.inputs, self.outputs = (_declared(config, key, is_batched) for key in ("input", "output"))
        config.setdefault("name", self.name)
        sys.modules["triton_python_backend_utils"] = utils
        self.model = _module(os.path.join(self.folder, "model.py")).TritonPythonModel()
        if hasattr(self.model, "initialize"):
            self.model.initialize(utils.arguments(config, self._facts(device)))

    def _facts(self, device: str) -> dict[str, str]:
        kind, _, number = device.partition(":")
        return {
            "model_instance_kind": "GPU" if kind == "cuda" else "CPU",
            "model_instance_name": f"{self.name}_{self.class_name}_{self.instance}",
            "model_instance_device_id": number or "0",
            "model_repository": os.path.dirname(self.folder),
            "model_version": str(self.version),
            "model_name": self.name,
        }

    def infer_batch(self, requests: list[Request]) -> list[Mapping[str, Any] | Exception]:
        responses = self.model.execute([utils.InferenceRequest(request) for request in requests])
        if responses is None or len(responses) != len(requests):
            counts = f"{'None' if responses is None else len(responses)} for {len(requests)}"
            raise RuntimeError(f"execute must return one response for each request, got {counts}")
        return [_answer(response) for response in responses]

    def unload(self) -> None:
        if hasattr(self.model, "finalize"):
            self.model.finalize()


def _answer(response: utils.InferenceResponse) -> Mapping[str, Any] | Exception:
    error = response.error()
    if error is not None:
        return _exception(error)
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


def _exception(error: utils.TritonError) -> Exception:
    if error.code() == utils.TritonError.INVALID_ARG:
        return InvalidRequest(error.message())
    is_unavailable = error.code() == utils.TritonError.UNAVAILABLE
    return RequestFailed(error.message(), "unavailable" if is_unavailable else "failed")


def _listed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with lists where fields may be repeated."""
    copy: dict[str, Any] = json.loads(json.dumps(config))
    for key in ("input", "output", "instance_group"):
        copy[key] = _list(copy.get(key, []))
    for tensor in copy["input"] + copy["output"]:
        tensor["dims"] = [int(size) for size in _list(tensor.get("dims", []))]
    copy["max_batch_size"] = int(copy.get("max_batch_size", 0))
    parameters = _list(copy.get("parameters", []))
    copy["parameters"] = {one["key"]: one["value"] for one in parameters if "key" in one}
    return copy


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _declared(config: Mapping[str, Any], key: str, is_batched: bool) -> dict[str, Any]:
    if not config[key]:
        raise ValueError(f"config.pbtxt must have {key}")
    rows = [-1] if is_batched else []
    return {one["name"]: (_datatype(one), rows + one["dims"]) for one in config[key]}


def _datatype(tensor: Mapping[str, Any]) -> str:
    name: str = tensor.get("data_type", "").removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name


def _module(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("model", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise FileNotFoundError(f"the version's folder must have model.py, got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    run(_Python)
