#!/usr/bin/env python3
"""Golden networks: torchvision's modules, narrowed to a few channels, exported to ONNX by PyTorch.

    pip install torch==2.11 torchvision onnx onnxscript
    python3 reef-models/tools/make_onnx.py reef-models/tests/onnx/torch

Writes NAME-EXPORTER-OPSET.onnx and .json (logits of PyTorch in f32 on a CPU) for each network and
exporter, about 2 MB together, 3 MB at most; `tests/integration/onnx.rs` holds the import against them. Each tensor
of a state_dict, and the picture, is filled by the function that reef-models/src/model/seeded.rs documents.
What can't be exported is said at the end, and the others are there all the same.
"""

import json
import sys
import traceback
from pathlib import Path

import torch
import torchvision
from made_up import values
from torch import nn
from torchvision.models.inception import BasicConv2d, InceptionA, InceptionB, InceptionC
from torchvision.models.mobilenetv2 import MobileNetV2
from torchvision.models.resnet import BasicBlock, Bottleneck

SEED = 1
CLASSES = 10
MOST_BYTES = 3_000_000
# Which exporter, and the operator set that it is asked for.
EXPORTERS = [("script", 13), ("script", 17), ("dynamo", 18), ("dynamo", 20)]


def downsample(inputs, outputs, stride):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


def resnet():
    """The stem of a ResNet, one bottleneck and one basic block of each kind, its end."""
    return nn.Sequential(
        nn.Conv2d(3, 12, 7, 2, 3, bias=False), nn.BatchNorm2d(12), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        Bottleneck(12, 4, downsample=downsample(12, 16, 1)), Bottleneck(16, 4),
        BasicBlock(16, 20, 2, downsample(16, 20, 2)), BasicBlock(20, 20),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(1), nn.Linear(20, CLASSES))


def densenet():
    return torchvision.models.DenseNet(
        growth_rate=6, block_config=(2, 3, 2, 2), num_init_features=10, bn_size=2, num_classes=CLASSES)


def inception():
    """The first mixed blocks of Inception v3, an eighth as wide."""
    def narrow(inputs, outputs, **more):
        return BasicConv2d(inputs // 8, outputs // 8, **more)

    return nn.Sequential(
        BasicConv2d(3, 8, kernel_size=3, stride=2), BasicConv2d(8, 24, kernel_size=3, padding=1),
        nn.MaxPool2d(3, 2),
        InceptionA(192, 32, conv_block=narrow), InceptionB(256, conv_block=narrow),
        InceptionC(736, 64, conv_block=narrow),
        nn.AdaptiveAvgPool2d((1, 1)), nn.Dropout(), nn.Flatten(1), nn.Linear(96, CLASSES))


class TransformInput(nn.Module):
    """What Inception v3 does with a picture when its weights are trained ones."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            BasicConv2d(3, 8, kernel_size=3, stride=2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(1),
            nn.Linear(8, CLASSES))

    def forward(self, x):
        x = torchvision.models.Inception3._transform_input(_Transforming(), x)
        return self.net(x)


class _Transforming:
    transform_input = True


def vgg():
    """VGG with and without normalisation, its classifier narrowed."""
    net = torchvision.models.VGG(
        torchvision.models.vgg.make_layers([6, "M", 8, 8, "M"], batch_norm=True),
        num_classes=CLASSES, init_weights=False)
    net.classifier = nn.Sequential(
        nn.Linear(8 * 49, 24), nn.ReLU(True), nn.Dropout(), nn.Linear(24, 24), nn.ReLU(True),
        nn.Dropout(), nn.Linear(24, CLASSES))
    return net


def alexnet():
    """The modules of AlexNet, an eighth as wide."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 11, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(8, 24, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.Conv2d(24, 16, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        nn.AdaptiveAvgPool2d((6, 6)), nn.Flatten(1), nn.Dropout(), nn.Linear(16 * 36, 16),
        nn.ReLU(inplace=True), nn.Linear(16, CLASSES))


def mobilenet():
    settings = [[1, 8, 1, 1], [6, 12, 2, 2], [6, 16, 1, 2]]
    net = MobileNetV2(num_classes=CLASSES, width_mult=0.25, inverted_residual_setting=settings)
    last = net.features[-1][0]  # at least 1280 channels otherwise
    net.features[-1] = torchvision.ops.Conv2dNormActivation(
        last.in_channels, 32, kernel_size=1, norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU6)
    net.classifier[1] = nn.Linear(32, CLASSES)
    return net


NETWORKS = [
    (resnet, 64), (densenet, 64), (inception, 75), (TransformInput, 19), (vgg, 28), (alexnet, 224),
    (mobilenet, 64),
]


def fill(net):
    """As `Seeded`, by shape: one dimension is a norm's factor, a bias, a mean or a variance."""
    state = {}
    for name, tensor in net.state_dict().items():
        shape = tuple(tensor.shape)
        if name.endswith("num_batches_tracked"):
            state[name] = tensor
            continue
        if name.endswith((".bias", ".running_mean")):
            offset, scale = 0.0, 0.1
        elif name.endswith(".running_var"):
            offset, scale = 1.0, 0.3
        elif len(shape) > 1:
            offset, scale = 0.0, (6.0 / torch.Size(shape[1:]).numel()) ** 0.5
        else:
            offset, scale = 1.0, 0.2
        state[name] = torch.from_numpy(values(name, shape, offset, scale, SEED))
    net.load_state_dict(state, strict=True)


def export(net, picture, path, exporter, opset):
    more = {"dynamo": False, "do_constant_folding": True}
    if exporter == "dynamo":
        more = {"dynamo": True, "external_data": False}
    torch.onnx.export(
        net, (picture,), str(path), opset_version=opset, input_names=["input"],
        output_names=["output"], **more)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_onnx.py OUTPUT_DIRECTORY")
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    failed = []
    for make, size in NETWORKS:
        net = make().eval()
        fill(net)
        picture = torch.from_numpy(values("input", (1, 3, size, size), 0.0, 1.0, SEED))
        with torch.inference_mode():
            logits = net(picture).reshape(-1)
        record = {"seed": SEED, "torch": torch.__version__,
                  "logits": [float(f"{float(value):.7g}") for value in logits]}
        for exporter, opset in EXPORTERS:
            name = f"{make.__name__.lower()}-{exporter}-{opset}"
            path = out / f"{name}.onnx"
            try:
                export(net, picture, path, exporter, opset)
            except Exception:  # one export that fails must not cost the others
                failed.append(f"{name}: {traceback.format_exc(limit=1)}")
                path.unlink(missing_ok=True)
                continue
            path.with_suffix(".json").write_text(json.dumps(record) + "\n")
            low, high = float(logits.min()), float(logits.max())
            print(f"{name}: {path.stat().st_size} bytes, {low:.4f} to {high:.4f}", flush=True)
    total = sum(file.stat().st_size for file in out.iterdir())
    print(f"{total} bytes in all")
    if total > MOST_BYTES:
        failed.append(f"{total} bytes are more than {MOST_BYTES}")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
