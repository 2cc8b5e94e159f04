#!/usr/bin/env python3
"""Compares networks with ONNX Runtime that PyTorch and Ultralytics export: detectors up to their chosen boxes, and small
encoders and decoders of the transformers library with made-up weights, also with a cache and after ONNX Runtime's optimizer.

    pip install torch torchvision transformers ultralytics onnx onnxruntime onnxscript numpy optimum-onnx
    tools/exports.py REEF [--only NAME,...] [--device cpu] [--folder DIR]

REEF is the command, such as target/release/reef. Each network sees two inputs, where its sizes are open of two shapes. A
line a network: *equal* if each output has ONNX Runtime's shape and values (relative difference 10⁻³, absolute 10⁻⁴ of the
largest value), *differs*, or *refused* with REEF's reason. What is not exported is *skipped*, with the exporter's reason.
Exit codes: 0 if nothing differs, 1 otherwise. Made-up weights give boxes of nearly the same scores, so a detector may
choose others where two scores or an overlap and its threshold differ in the last place.
"""

import argparse
import contextlib
import io
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnxruntime
import torch

PROMPTS = [torch.arange(14).reshape(2, 7) % 50, torch.arange(11).reshape(1, 11) % 50]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 60}
DECODERS = "Llama Mistral Qwen2 Qwen3 Gemma Gemma2 Phi Phi3 StableLm Olmo Olmo2 Starcoder2 Granite GPTNeoX Nemotron".split()
CACHED = "Llama Mistral Qwen2 Qwen3 Gemma2 Phi3 Olmo2 Granite".split()
ENCODERS = "Bert Roberta Albert Electra MPNet DebertaV2 ModernBert ConvBert SqueezeBert".split()
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 3, "sep_token_id": 4}
DETECTORS = """ssdlite320_mobilenet_v3_large ssd300_vgg16 retinanet_resnet50_fpn fcos_resnet50_fpn
    fasterrcnn_mobilenet_v3_large_320_fpn fasterrcnn_resnet50_fpn_v2 maskrcnn_resnet50_fpn keypointrcnn_resnet50_fpn""".split()
YOLO = "yolov8n yolo11n yolo12n yolov10n yolov9t yolov8n-seg yolo11n-pose yolo11n-obb yolo11n-cls".split()


class Outputs(torch.nn.Module):
    """Gives the tensors of a model's answer in order."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model.eval(), call

    def forward(self, x):
        found = self.call(self.model, x)
        if isinstance(found, torch.Tensor):
            return found
        values = found.values() if isinstance(found, dict) else found
        return tuple(value for value in values if isinstance(value, torch.Tensor))


def written(model, example, path, axes, dynamo):
    """Exports a network of one input, called `x`."""
    if dynamo:
        dynamic = {"x": {axis: torch.export.Dim.DYNAMIC for axis in axes}} if axes else None
        torch.onnx.export(model, (example,), path, input_names=["x"], dynamic_shapes=dynamic, dynamo=True, external_data=False)
    else:
        dynamic = {"x": dict(axes)} if axes else None
        torch.onnx.export(model, (example,), path, input_names=["x"], dynamic_axes=dynamic, opset_version=17, dynamo=False)


def detector(name):
    """One of torchvision's detectors for pictures of 128 or 300 rows, whose boxes all count."""
    import torchvision

    is_ssd = name.startswith("ssd")
    sizes = {} if is_ssd else {"min_size": 128, "max_size": 160}
    model = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, **sizes)
    for part in model.modules():
        if hasattr(part, "score_thresh"):
            part.score_thresh = 0.02
    rows, columns = (300, 300) if is_ssd else (128, 148)
    inputs = [torch.rand(3, rows, columns) for _ in range(2)]
    return Outputs(model, lambda model, x: model([x])[0]), inputs, {}


def of_text(kind, name):
    """A small model of the transformers library that sees tokens."""
    import transformers

    extra = {"num_key_value_heads": 2, "head_dim": 8} if kind == "ForCausalLM" else {}
    extra |= {"embedding_size": 32} if name in ("Albert", "Electra", "ConvBert", "SqueezeBert") else {}
    config = getattr(transformers, f"{name}Config")(**SIZES, **SPECIAL, **extra)
    model = getattr(transformers, name + kind)(config)
    off = {"use_cache": False} if kind == "ForCausalLM" else {}
    answer = "logits" if kind == "ForCausalLM" else "last_hidden_state"
    call = lambda model, x: getattr(model(input_ids=x, attention_mask=torch.ones_like(x), **off), answer)
    return Outputs(model, call), PROMPTS, {0: "batch", 1: "tokens"}


def yolo(name, folder, options):
    """A file of Ultralytics' exporter, and inputs for it."""
    from ultralytics import YOLO as Network

    torch.manual_seed(0)
    with contextlib.chdir(folder):
        path = Network(f"{name}.yaml").export(format="onnx", imgsz=128, device="cpu", verbose=False, simplify=False, **options)
    shapes = [(1, 3, 128, 128), (2, 3, 96, 160)] if options.get("dynamic") else [(1, 3, 128, 128)] * 2
    return pathlib.Path(folder, path), [torch.rand(*shape).numpy() for shape in shapes]


def with_cache(name, folder):
    """A decoder of optimum's exporter with keys and values of earlier tokens: a prompt, and a token behind four others."""
    import onnx
    import transformers
    from optimum.exporters.onnx import onnx_export_from_model

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **SPECIAL, num_key_value_heads=2, head_dim=8)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    onnx_export_from_model(model, folder, task="text-generation-with-past", do_validation=False, device="cpu")
    path = pathlib.Path(folder, "model.onnx")
    ports = onnx.load(path, load_external_data=False).graph.input
    return path, [cached(ports, *sizes) for sizes in ((0, 2, 5), (4, 1, 1))]


def cached(ports, past, batch, new):
    """Inputs of a decoder for `new` tokens behind `past` others."""
    random, feed = np.random.default_rng(past), {}
    open_sizes = {"batch_size": batch, "sequence_length": new, "past_sequence_length": past}
    for port in ports:
        sizes = port.type.tensor_type.shape.dim
        dims = [open_sizes.get(size.dim_param, past + new) if size.dim_param else size.dim_value for size in sizes]
        if port.name == "input_ids":
            feed[port.name] = random.integers(3, 50, dims)
        elif port.name == "attention_mask":
            feed[port.name] = np.ones(dims, np.int64)
        elif port.name == "position_ids":
            feed[port.name] = np.tile(np.arange(past, past + new), (batch, 1))
        else:
            feed[port.name] = random.standard_normal(dims).astype(np.float32)
    return feed


def optimized(name, folder):
    """An encoder after ONNX Runtime's optimizer for transformers, with operators of the domain com.microsoft."""
    from onnxruntime.transformers import optimizer

    torch.manual_seed(0)
    model, inputs, axes = of_text("Model", name)
    path = str(pathlib.Path(folder, "network.onnx"))
    with torch.no_grad():
        written(model, inputs[0], path, axes, dynamo=False)
    made = optimizer.optimize_model(path, model_type="bert", num_heads=4, hidden_size=32)
    made.save_model_to_file(path)
    return pathlib.Path(path), [x.numpy() for x in inputs]


def networks():
    """All networks by name: functions that write a file into a folder, and give it with its inputs."""
    made = {}

    def add(name, make, exporters):
        for exporter in exporters:
            def write(folder, make=make, exporter=exporter):
                torch.manual_seed(0)
                model, inputs, axes = make()
                path = pathlib.Path(folder, "network.onnx")
                with torch.no_grad():
                    written(model, inputs[0], str(path), axes, exporter == "dynamo")
                return path, [x.numpy() for x in inputs]

            made[f"{name}/{exporter}"] = write

    for name in DETECTORS:
        add(name, lambda name=name: detector(name), ["script"])
    for name in YOLO:
        for options in ({}, {"nms": True}, {"dynamic": True}, {"dynamic": True, "nms": True}):
            count = {"conf": 0.0005} if "nms" in options else {}
            made["/".join([name, *options])] = lambda folder, name=name, all=options | count: yolo(name, folder, all)
    for kind, names in (("ForCausalLM", DECODERS), ("Model", ENCODERS)):
        for name in names:
            add(name + kind, lambda kind=kind, name=name: of_text(kind, name), ["script", "dynamo"])
    for name in CACHED:
        made[f"{name}/cache"] = lambda folder, name=name: with_cache(name, folder)
    for name in ("Bert", "Roberta", "Electra"):
        made[f"{name}/optimized"] = lambda folder, name=name: optimized(name, folder)
    return made


def difference(have, want):
    """The reason why an output is not the one that is wanted, or `None`."""
    if have.shape != want.shape or have.dtype != want.dtype:
        return f"{have.dtype}{have.shape}, must be {want.dtype}{want.shape}"
    have, want = have.astype(np.float64), want.astype(np.float64)
    bound = 1e-4 * max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0.0)) + 1e-3 * np.abs(want)
    is_same = (have == want) | (np.isnan(have) & np.isnan(want))
    apart = np.where(is_same, 0.0, np.abs(have - want))
    return None if (is_same | (apart <= bound)).all() else f"{np.nanmax(apart):.3g} apart"


def compared(command, device, path, inputs, folder):
    """A line about one file."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ports, outputs = session.get_inputs(), session.get_outputs()
    for number, given in enumerate(inputs):
        feed = given if isinstance(given, dict) else {ports[0].name: given}
        want = session.run(None, feed)
        files = []
        for k, (name, x) in enumerate(feed.items()):
            np.save(f"{folder}/{k}.npy", x)
            files.append(f"{name}={folder}/{k}.npy")
        out = pathlib.Path(folder, f"out{number}")
        done = subprocess.run(
            [*command, "run", str(path), "--device", device, "--out", str(out), *files], capture_output=True, text=True
        )
        if done.returncode:
            return "refused", done.stderr.strip().splitlines()[-1]
        for output, value in zip(outputs, want):
            file = out / (output.name.replace("/", "_").replace(":", "_") + ".npy")
            why = difference(np.load(file), value)
            if why:
                return "differs", f"input {number}, {output.name}: {why}"
    return "equal", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reef")
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder")
    given = parser.parse_args()
    if given.folder:
        pathlib.Path(given.folder).mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    only = [name for name in given.only.split(",") if name]
    tally = {}
    for name, write in networks().items():
        if only and not any(part in name for part in only):
            continue
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    path, inputs = write(folder)
            except Exception as error:  # exporters raise whatever they meet
                found = "skipped", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]
            else:
                found = compared(given.reef.split(), given.device, path, inputs, folder)
        tally[found[0]] = tally.get(found[0], 0) + 1
        print(f"{found[0]:8} {name:44} {found[1]}".rstrip(), flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(tally.items())))
    return 1 if "differs" in tally else 0


if __name__ == "__main__":
    sys.exit(main())
