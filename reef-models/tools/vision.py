"""The built vision transformer next to torchvision: the same tensors, the same images.

    python3 vision.py REEF          # REEF: the command, such as target/release/reef
    python3 vision.py golden        # the logits of the small one in reef-models/src/zoo/vision.rs

needs numpy, torch and torchvision. Tensors are filled by the function that reef-models/src/model/seeded.rs documents,
with the seed of `reef run`, or 5 for the golden.
"""

import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision

from made_up import values


def offset_and_scale(name, shape):
    """As the table in seeded.rs has them."""
    if len(shape) in (2, 4):
        return 0.0, np.float32(np.sqrt(6.0 / np.prod(shape[1:])))
    return (1.0, 0.2) if name.endswith("weight") else (0.0, 0.1)


def expected(net, images, seed):
    filled = {name: torch.from_numpy(values(name, tensor.shape, *offset_and_scale(name, tensor.shape), seed))
              for name, tensor in net.state_dict().items()}
    net.load_state_dict(filled)
    with torch.inference_mode():
        return net.eval()(torch.from_numpy(images)).numpy()


def golden():
    net = torchvision.models.VisionTransformer(
        image_size=12, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=5)
    count = 2 * 3 * 12 * 12
    images = ((np.arange(count) * 37 % 101) / np.float32(50) - np.float32(1)).astype(np.float32)
    print(expected(net, images.reshape(2, 3, 12, 12), 5).tolist())


def main(reef):
    images = np.random.default_rng(7).random((2, 3, 224, 224), dtype=np.float32) * 2 - 1
    want = expected(torchvision.models.vit_b_16(), images, 2022)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/input.npy", images)
        given = [f"input={folder}/input.npy", "--out", folder, "--preempt"]
        subprocess.run([reef, "run", "vit_b_16", *given], check=True)
        have = np.load(f"{folder}/logits.npy")
    off = float(np.abs(have - want).max() / np.abs(want).max())
    apart = float(np.abs(want[0] - want[1]).max() / np.abs(want).max())
    print(f"vit_b_16: off by {off:.1e} of the largest logit; two images are {apart:.1e} apart")
    if not off < 1e-3:
        sys.exit("the logits differ")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["golden"]:
            golden()
        case [reef]:
            main(reef)
        case _:
            sys.exit(__doc__)
