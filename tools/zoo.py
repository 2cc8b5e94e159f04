#!/usr/bin/env python3
"""Runs torchvision's classification networks and some of the transformers library's on a device, each exported to ONNX
with weights from a seed, and compares what comes out with PyTorch.

    pip install torch torchvision transformers onnx numpy
    tools/zoo.py REEF [--only NAME,...] [--device cpu] [--folder DIR] [--report FILE.md] [--exporter script|dynamo]
                 [--size N] [--first N] [--large]

REEF is the command, such as target/release/reef. Files are made in DIR (a temporary folder without it), one network
after the other, and deleted again. Networks with more than 1 GB of weights are left out, and said to be, unless
`--large` is there. With `--first N` only the N networks of torchvision with the fewest operations are run, with
`--size N` those for pictures see N rows and columns instead of their own. So they run on the software gfx906 as well
(a build with the feature gfx906-sim):

    tools/zoo.py 'target/release/reef --gfx906-sim' --device hip:0 --first 21 --size 96

Agreement is the largest difference as a part of the largest output that is wanted. Made-up weights could make a
network that gives the same whatever it sees, so statistics of batches are those of noise, constants among the weights
are moved, and *moves* is how far another input moves the output, by the same measure: far more than networks differ.
*Preempted* counts preemptions at random times at level All, after which three more inferences gave the same bits.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
import warnings

import numpy
import torch

TOLERANCE = 1e-3
LARGEST = 10**9
OPSET = 17
SIZES = {"inception_v3": 299}


class TooLarge(Exception):
    """More weights than are tried; says how many millions."""


def pictures(asked, large):
    """Torchvision's networks by name, the fastest first, each as a function that makes it with two inputs."""
    import torchvision

    def meta(name):
        return torchvision.models.get_model_weights(name).DEFAULT.meta

    def made(name):
        if not large and 4 * meta(name)["num_params"] > LARGEST:
            raise TooLarge(f"{meta(name)['num_params'] / 1e6:.1f}")
        model = torchvision.models.get_model(name, weights=None, **extra(name))
        size = asked or SIZES.get(name, 224)
        return model, {"input": torch.rand(2, 3, size, size)}, "logits"

    def extra(name):
        return {"init_weights": True} if name in ("googlenet", "inception_v3") else {}

    names = torchvision.models.list_models(module=torchvision.models)
    names.sort(key=lambda name: meta(name)["_ops"])
    return {name: lambda name=name: made(name) for name in names}


def texts():
    """Networks of the transformers library, base sizes with two classes; GPT-2 gives logits of the next token."""
    import transformers as t

    eager = {"attn_implementation": "eager"}

    def tokens(kind, config):
        ids = torch.randint(0, config.vocab_size, (2, 128))
        return kind(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, "logits"

    def sees(kind, config):
        return kind(config), {"pixel_values": torch.rand(2, 3, 224, 224)}, "logits"

    return {
        "bert-base": lambda: tokens(t.BertForSequenceClassification, t.BertConfig(**eager)),
        "distilbert-base": lambda: tokens(t.DistilBertForSequenceClassification, t.DistilBertConfig(**eager)),
        "vit-base": lambda: sees(t.ViTForImageClassification, t.ViTConfig(**eager)),
        "swin-tiny": lambda: sees(t.SwinForImageClassification, t.SwinConfig(**eager)),
        "gpt2": lambda: tokens(t.GPT2LMHeadModel, t.GPT2Config(use_cache=False, **eager)),
    }


class First(torch.nn.Module):
    """The logits of a network, by the names of its inputs."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        if self.names == ["input"]:
            made = self.model(*inputs)
        else:
            made = self.model(**dict(zip(self.names, inputs)), return_dict=True)
        return made if torch.is_tensor(made) else made.logits


def move(model, inputs):
    """Makes weights of which each one matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter.add_(torch.randn_like(parameter) * 0.05)
        norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.momentum = 1.0
            norm.train()
        if norms:
            model(*inputs)
    return model.eval()


def exported(name, make, folder, exporter):
    """Writes the network and its first input; gives what PyTorch makes of both inputs, and the parameters."""
    torch.manual_seed(17)
    model, inputs, output = make()
    parameters = sum(p.numel() for p in model.parameters())
    names = list(inputs)
    model = First(model.eval(), names)
    move(model, tuple(inputs.values()))
    with torch.inference_mode():
        want = model(*inputs.values()).numpy()
    one = tuple(value[:1].contiguous() for value in inputs.values())
    how = {"dynamo": False, "opset_version": OPSET} if exporter == "script" else {"dynamo": True, "verbose": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, one, str(folder / "model.onnx"), input_names=names, output_names=[output], **how)
    for key, value in zip(names, one):
        numpy.save(folder / f"{key}.npy", value.numpy())
    return want, parameters


def off(have, want):
    return float(numpy.abs(have - want).max() / numpy.abs(want).max())


def run(reef, folder, device):
    """What the command says of its inference, with preemptions."""
    arrays = [file for file in folder.glob("*.npy")]
    inputs = [word for file in arrays for word in (f"{file.stem}={file}",)]
    command = [*shlex.split(reef), "run", folder / "model.onnx", *inputs, "--out", folder / "out"]
    command += ["--memory", "0", "--device", device, "--preempt", "--json"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        raise RuntimeError(made.stderr.strip().splitlines()[-1])
    return json.loads(made.stdout)


def opset_of(folder):
    import onnx

    model = onnx.load(folder / "model.onnx", load_external_data=False)
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def row(args, name, make):
    """A line of the table, and whether the network is right."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        folder = pathlib.Path(folder)
        try:
            want, parameters = exported(name, make, folder, args.exporter)
        except TooLarge as size:
            return [name, str(size), "", "left out: more than 1 GB of weights"], None
        except Exception as error:  # whatever PyTorch can't export is no fault of ours, but is said
            return [name, "", "", f"not exported: {str(error).splitlines()[0][:120]}"], None
        size = f"{parameters / 1e6:.1f}"
        opset = str(opset_of(folder))
        try:
            said = run(args.reef, folder, args.device)
        except RuntimeError as error:
            return [name, size, opset, str(error).replace(str(folder), "").replace("|", "/")], False
        have = numpy.load(next((folder / "out").glob("*.npy")))
        error, moves = off(have[:1], want[:1]), off(want[1:], want[:1])
        right = error <= TOLERANCE and moves > 10 * TOLERANCE
        cells = [name, size, opset, f"{error:.1e}", f"{moves:.1e}", str(said["preemptions"]), f"{said['ms']:.0f}"]
        return cells, right


HEAD = ["network", "M parameters", "opset", "differs by", "moves", "preempted", "ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reef")
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--exporter", choices=["script", "dynamo"], default="script")
    parser.add_argument("--size", type=int)
    parser.add_argument("--first", type=int)
    parser.add_argument("--large", action="store_true")
    args = parser.parse_args()
    seen = pictures(args.size, args.large)
    networks = dict(list(seen.items())[: args.first]) if args.first else {**texts(), **seen}
    lines = ["| " + " | ".join(HEAD) + " |", "|---|--:|--:|--:|--:|--:|--:|"]
    right, wrong = 0, []
    began = time.monotonic()
    for name, make in networks.items():
        if args.only and name not in args.only:
            continue
        cells, fine = row(args, name, make)
        right += fine is True
        wrong += [name] if fine is False else []
        lines.append("| " + " | ".join(cells + [""] * (len(HEAD) - len(cells))) + " |")
        print(*cells, "" if fine is not False else "WRONG", sep="  ", flush=True)
        if args.report:
            args.report.write_text("\n".join(lines) + "\n")
    print(f"{right} right, {len(wrong)} wrong: {', '.join(wrong)} ({time.monotonic() - began:.0f} s)")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
