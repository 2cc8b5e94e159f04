"""The built networks of text next to the transformers library: the same tensors, the same tokens.

    python3 text.py REEF          # REEF: the command, such as target/release/reef

needs numpy, torch and transformers. Tensors are filled by the function that reef-models/src/model/seeded.rs documents,
with the seed of `reef run`; two texts of 128 tokens, the second one with a mask for its last 40.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

from made_up import values

SEED = 2022
KINDS = {
    "bert": (transformers.BertForSequenceClassification, transformers.BertConfig),
    "distilbert": (transformers.DistilBertForSequenceClassification, transformers.DistilBertConfig),
}


def offset_and_scale(name, shape):
    """As the table in seeded.rs has them."""
    if "embeddings.weight" in name:
        return 0.0, np.float32(np.sqrt(6.0))
    if len(shape) == 2:
        return 0.0, np.float32(np.sqrt(6.0 / shape[1]))
    return (1.0, 0.2) if name.endswith("weight") else (0.0, 0.1)


def expected(name, ids, mask):
    network, config = KINDS[name]
    net = network(config()).eval()
    filled = {key: torch.from_numpy(values(key, tensor.shape, *offset_and_scale(key, tensor.shape), SEED))
              for key, tensor in net.state_dict().items() if tensor.is_floating_point()}
    lost = net.load_state_dict(filled, strict=False)
    assert not lost.unexpected_keys and not any("weight" in key for key in lost.missing_keys), lost
    with torch.inference_mode():
        out = net(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
    return out.logits.numpy(), sum(tensor.numel() for tensor in net.parameters())


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: text.py REEF")
    ids = np.random.default_rng(7).integers(0, 30522, (2, 128))
    mask = np.ones((2, 128), dtype=np.int64)
    mask[1, 88:] = 0
    worst = 0.0
    for name in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            np.save(folder / "ids.npy", ids)
            np.save(folder / "mask.npy", mask)
            inputs = [f"input_ids={folder}/ids.npy", f"attention_mask={folder}/mask.npy"]
            subprocess.run([sys.argv[1], "run", name, *inputs, "--out", folder], check=True)
            have = np.load(folder / "logits.npy")
        want, parameters = expected(name, ids, mask)
        off = float(np.abs(have - want).max() / np.abs(want).max())
        print(f"{name}: {parameters} parameters, off by {off:.1e} of the largest of {want.round(4).tolist()}")
        worst = max(worst, off)
    if not worst < 1e-3:
        sys.exit("the logits differ")


if __name__ == "__main__":
    main()
