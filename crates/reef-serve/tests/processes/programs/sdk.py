"""A model by the package `reef.serve`."""

import os
import time

import reef.serve


class Everything(reef.serve.Model):
    inputs = {"text": str, "times": int, "values": ("FP32", [-1, 2])}
    outputs = {"text": str, "sum": float, "names": ("BYTES", [-1])}

    def load(self, device):
        print("loading on", device, flush=True)
        self.device = device

    def infer(self, request):
        what = request["text"]
        if what == "environment":
            return {"text": "", "sum": 0.0, "names": [f"{key}={value}" for key, value in sorted(os.environ.items())]}
        if what == "facts":
            facts = [self.name, str(self.version), self.class_name, self.device, os.getcwd(), self.folder]
            return {"text": request.class_name, "sum": os.getpid() % 65536, "names": facts}
        if what == "wrong":
            raise reef.serve.InvalidRequest("text must be right")
        if what == "raise":
            raise ValueError("no such thing")
        if what == "bare":
            return {}
        if what == "wait":
            while not request.is_cancelled:
                time.sleep(0.001)
            open(os.path.join(self.folder, "cancelled"), "w").close()
            return {"text": "late", "sum": 0.0, "names": []}
        rows = [list(row) for row in request["values"].tolist()]
        total = sum(sum(row) for row in rows)
        return {"text": what * request["times"], "sum": total, "names": [what] * len(rows)}

    def unload(self):
        open(os.path.join(self.folder, "unloaded"), "w").close()


reef.serve.run(Everything)
