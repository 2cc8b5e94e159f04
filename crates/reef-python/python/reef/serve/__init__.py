"""A model as a program of its own, which the daemon starts and sends requests: `engine = "process"` in `model.toml`.

    import reef.serve

    class Summarise(reef.serve.Model):
        inputs = {"text": str}
        outputs = {"summary": str}

        def load(self, device):
            self.words = 20

        def infer(self, request):
            return {"summary": " ".join(request["text"].split()[: self.words])}

    reef.serve.run(Summarise)

A tensor is declared as `str`, `bytes`, `float`, `int` or `bool`, which stand for one element, or as a
pair of a datatype and a shape: `("FP32", [-1, 3])`. -1 is a size that each request chooses. Arrays are
those of NumPy where that is installed, and `memoryview`s otherwise. This package needs nothing else:
not the rest of `reef`, nor its compiled part.

A `TextModel` generates text, and the daemon's OpenAI-compatible calls are for it.
"""

from ._device import DeviceArray
from ._model import InvalidRequest, Model, Request
from ._run import run
from ._text import Piece, TextModel, TextRequest

__all__ = ["DeviceArray", "InvalidRequest", "Model", "Piece", "Request", "TextModel", "TextRequest", "run"]
