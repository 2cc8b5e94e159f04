#!/usr/bin/env python3
"""Golden logits: torchvision's networks with the made-up weights of reef-models.

    python3 reef-models/tools/golden.py reef-models/golden

    python3 reef-models/tools/golden.py reef-models/golden mobilenet     # those whose names begin so

Needs torch, torchvision and numpy, for mobilenet_v1 transformers, no network. Each tensor of a state_dict, and the image, is
filled by the function that reef-models/src/model/seeded.rs documents, so both sides have the same
weights to the last bit. Writes one file per network and size, and skips none silently.
"""

import json
import math
import sys
import time
from pathlib import Path

import torch
import torchvision
from made_up import units, values
from torchvision.models.resnet import BasicBlock, Bottleneck

SEED = 1
CASES = [
    ("resnet18", 64), ("resnet50", 64), ("densenet121", 64), ("inception_v3", 96),
    ("resnet18", 224), ("resnet50", 224), ("resnet152", 224),
    ("densenet121", 224), ("densenet201", 224), ("inception_v3", 299),
    ("vgg19", 224), ("alexnet", 224),
    ("mobilenet_v1", 64), ("mobilenet_v2", 64), ("mobilenet_v3_small", 64), ("mobilenet_v3_large", 64),
    ("mobilenet_v1", 224), ("mobilenet_v2", 224), ("mobilenet_v3_small", 224), ("mobilenet_v3_large", 224),
]


def branch_ends(net):
    """Names of the factors of the normalisations that end a residual branch."""
    last = {BasicBlock: "bn2", Bottleneck: "bn3"}
    ends = {
        f"{name}.{last[type(module)]}.weight"
        for name, module in net.named_modules()
        if type(module) in last
    }
    for name, module in net.named_modules():
        if getattr(module, "use_res_connect", False):
            inner = "conv" if hasattr(module, "conv") else "block"
            norms = [part for part, of in module.named_modules() if isinstance(of, torch.nn.BatchNorm2d)]
            assert norms[-1].startswith(inner)
            ends.add(f"{name}.{norms[-1]}.weight")
    return ends


def offset_and_scale(name, shape, ends):
    if name.endswith(".running_mean") or name.endswith(".bias"):
        return 0.0, 0.1
    if name.endswith(".running_var"):
        return 1.0, 0.3
    if len(shape) > 1:
        return 0.0, math.sqrt(6.0 / math.prod(shape[1:]))
    return (0.2, 0.05) if name in ends else (1.0, 0.2)


def fill(net, seed):
    ends = branch_ends(net)
    state = {}
    for name, tensor in net.state_dict().items():
        if name.endswith(".num_batches_tracked"):
            state[name] = tensor
            continue
        shape = tuple(tensor.shape)
        state[name] = torch.from_numpy(
            values(name, shape, *offset_and_scale(name, shape, ends), seed))
    net.load_state_dict(state, strict=True)


def network(name):
    if name == "inception_v3":
        return torchvision.models.inception_v3(
            weights=None, aux_logits=False, transform_input=False, init_weights=False)
    if name == "mobilenet_v1":
        import transformers
        config = transformers.MobileNetV1Config(num_labels=1000, tf_padding=False)
        return transformers.MobileNetV1ForImageClassification(config)
    return getattr(torchvision.models, name)(weights=None)


def logits(name, size, seed):
    net = network(name).eval()
    fill(net, seed)
    image = torch.from_numpy(values("input", (1, 3, size, size), 0.0, 1.0, seed))
    with torch.inference_mode():
        out = net(image)
        return getattr(out, "logits", out).reshape(-1)


def check_function():
    """The same numbers stand in the tests of reef-models/src/model/seeded.rs."""
    have = [float(value) for value in units("input", 4, SEED)]
    want = [-0.5589770078659058, 0.8368268013000488, 0.44405341148376465, -0.1346958875656128]
    assert have == want, f"units differ from reef-models: {have}, want {want}"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: golden.py OUTPUT_DIRECTORY [BEGINNING]")
    beginning = sys.argv[2] if len(sys.argv) == 3 else ""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    check_function()
    failed = []
    for name, size in [case for case in CASES if case[0].startswith(beginning)]:
        begin = time.time()
        try:
            result = logits(name, size, SEED)
        except Exception as error:  # one network that fails must not cost the others
            failed.append(f"{name} at {size}: {error!r}")
            continue
        record = {"model": name, "seed": SEED, "input_size": size,
                  "logits": [float(f"{float(value):.7g}") for value in result[:1000]]}
        (out / f"{name}-{size}.json").write_text(json.dumps(record) + "\n")
        low, high = float(result.min()), float(result.max())
        print(f"{name} at {size}: {low:.4f} to {high:.4f}, {time.time() - begin:.1f} s", flush=True)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
