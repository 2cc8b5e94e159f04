"""Modules of PyTorch on the CPU device, compared with PyTorch itself.

Sums of float32 have another order here, so outputs are compared with a tolerance of 1e-4 relative
to the largest output.
"""

import unittest

import numpy as np
import reef

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("torch is not installed") from None

TOLERANCE = 1e-4


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        )
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(8 * 16, 10))

    def forward(self, image):
        return self.head(self.body(image))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.attention = nn.Linear(16, 16)

    def forward(self, tokens, mask):
        rows = self.table(tokens)
        scores = self.attention(rows) @ rows.transpose(1, 2)
        scores = scores.masked_fill(~mask.unsqueeze(1), -1e4)
        rows = torch.softmax(scores, -1) @ rows
        return nn.functional.layer_norm(rows, (16,)), rows.mean(1)


class Deep(nn.Module):
    """A module of more steps than a queue of the usual capacity has room for."""

    def __init__(self):
        super().__init__()
        self.steps = nn.Sequential(*(nn.Linear(2, 2) for _ in range(1100)))

    def forward(self, x):
        return self.steps(x)


class Determinant(nn.Module):
    """REEF has no operator for it."""

    def forward(self, x):
        return torch.linalg.det(x)


class Branches(nn.Module):
    """Its formula depends on the values of its input."""

    def forward(self, x):
        return x if x.sum() > 0 else -2 * x


class Remembers(nn.Module):
    """Its formula depends on the size of its input alone."""

    def forward(self, x):
        return x if x.shape[1] > 2 else -2 * x


class Raises(nn.Module):
    def forward(self, x):
        raise RuntimeError("this module's own words")


class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(1)
        cls.device = reef.open("cpu:0?units=2")

    @classmethod
    def tearDownClass(cls):
        cls.device.close()

    def assert_close(self, found, wanted):
        wanted = wanted.detach().numpy()
        self.assertEqual((found.shape, found.dtype), (wanted.shape, wanted.dtype))
        self.assertGreater(np.abs(wanted).max(), 0)
        self.assertLess(np.abs(found - wanted).max(), TOLERANCE * np.abs(wanted).max())

    def test_module_of_images_gives_what_torch_gives(self):
        module = Small()
        module.train()
        with torch.no_grad():
            for _ in range(3):
                module(torch.randn(4, 3, 8, 8))  # so that the norm has statistics
        net = reef.torch.load(module, torch.zeros(1, 3, 8, 8), device=self.device)
        self.assertTrue(module.training and module.head[0].training, "it is left as it was")
        self.assertEqual((net.name, net.inputs[0].name), ("Small", "image"))
        module.eval()
        with self.device.real_time() as rt, self.device.best_effort() as be, torch.no_grad():
            for client in (rt, be):
                image = torch.randn(1, 3, 8, 8)
                self.assert_close(client.run(net, image), module(image))

    def test_module_of_two_inputs_has_their_names(self):
        module = TwoInputs().eval()
        tokens, mask = torch.randint(0, 50, (2, 7)), torch.rand(2, 7) > 0.3
        mask[:, 0] = True
        net = reef.torch.load(module, (tokens, mask), device=self.device)
        self.assertEqual(
            net.inputs, (reef.Port("tokens", (2, 7), "int64"), reef.Port("mask", (2, 7), "bool"))
        )
        with self.device.real_time() as rt, torch.no_grad():
            tokens = torch.randint(0, 50, (2, 7))
            for found, wanted in zip(rt.run(net, tokens, mask=mask), module(tokens, mask)):
                self.assert_close(found, wanted)

    def test_module_of_many_steps_is_compared_as_well(self):
        module = Deep().eval()
        net = reef.torch.load(module, torch.ones(1, 2), device=self.device)
        with self.device.real_time() as rt, torch.no_grad():
            self.assert_close(rt.run(net, torch.ones(1, 2)), module(torch.ones(1, 2)))

    def test_module_that_cannot_be_exported_is_one_error(self):
        with self.assertRaises(reef.InvalidError) as raised:
            reef.torch.load(Raises(), torch.zeros(1), device=self.device)
        text = str(raised.exception)
        self.assertTrue(text.startswith("Raises can't be exported to ONNX: TorchScript: "), text)
        self.assertIn("this module's own words", text)
        self.assertEqual(text.count("\n"), 0)

    def test_module_whose_branches_depend_on_data_is_refused(self):
        with self.assertRaises(reef.InvalidError) as raised:
            reef.torch.load(Branches(), torch.ones(1, 3), device=self.device)
        text = str(raised.exception)
        self.assertIn("Branches can't be exported to ONNX: TorchScript: the exported network", text)
        self.assertIn("TracerWarning: ", text)

    def test_numbers_of_bfloat16_are_compared_too(self):
        example = torch.ones(1, 3, dtype=torch.bfloat16)
        with self.assertRaisesRegex(reef.InvalidError, "the exported network differs"):
            reef.torch.load(Branches(), example, device=self.device)

    def test_module_whose_branches_depend_on_sizes_is_taken(self):
        net = reef.torch.load(Remembers(), torch.ones(1, 2), device=self.device)
        with self.device.real_time() as rt:
            self.assert_close(rt.run(net, torch.ones(1, 2)), -2 * torch.ones(1, 2))

    def test_module_that_reef_cannot_run_is_an_error_of_the_reader(self):
        with self.assertRaisesRegex(reef.Error, "Det"):
            reef.torch.load(Determinant(), torch.eye(3), device=self.device)


if __name__ == "__main__":
    unittest.main()
