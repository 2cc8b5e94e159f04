"""Training without a pause: a ResNet-50 of torchvision on random pictures.

train.py [--batch N] [--small]

Writes "ready" once it is warm. Then it writes a line after each fourth step, until it is terminated:
"step COUNT TIME", where COUNT steps had ended on the device at TIME, on the clock of
time.monotonic(). `--small` trains a network of two layers, for a CPU.

Nothing here knows of REEF: `reef exec --class be -- python train.py` runs it as it is.
"""

import argparse
import signal
import sys
import time

import torch

WARM_UP = 12


class Trainer:
    """Steps of training on one batch."""

    def __init__(self, model, batch, classes, device):
        self.device = device
        self.model = model.to(device).train()
        self.batch = batch.to(device)
        self.classes = torch.randint(classes, (batch.shape[0],), device=device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)

    def step(self):
        with torch.autocast(self.device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(self.batch), self.classes)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, steps):
        """Runs steps and waits for their end."""
        for _ in range(steps):
            loss = self.step()
        return loss.item()


def trainer(args, device):
    if args.small:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        return Trainer(model, torch.randn(args.batch, 64), 10, device)
    import torchvision

    model = torchvision.models.resnet50(weights=None)
    return Trainer(model, torch.randn(args.batch, 3, 224, 224), 1000, device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64, help="pictures of a step [64]")
    parser.add_argument("--small", action="store_true", help="a small network")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    torch.manual_seed(2)
    one = trainer(args, "cuda" if torch.cuda.is_available() else "cpu")
    one.run(WARM_UP)
    print("ready", flush=True)
    count = 0
    while True:
        print(f"step {count} {time.monotonic():.6f}", flush=True)
        one.run(4)
        count += 4


if __name__ == "__main__":
    main()
