"""A model with state for each sequence: the sum of what it has got, in this process."""

import os
import time

import reef.serve


class Sums(reef.serve.Model):
    inputs = {"x": float}
    outputs = {"sum": float, "pid": int, "number": int, "flags": ("BOOL", [2]), "together": int}

    def load(self, device):
        self.sums = {}

    def infer_batch(self, requests):
        if requests[0].id == "hold":
            open("held", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.001)
        if requests[0].id == "crash":
            os._exit(7)
        return [self.step(request, len(requests)) for request in requests]

    def step(self, request, together):
        if request.id == "wrong":
            return reef.serve.InvalidRequest("not this one")
        number, flags = request.sequence, [request.starts_sequence, request.ends_sequence]
        if request.starts_sequence:
            self.sums[number] = 0.0
        self.sums[number] += request["x"]
        total = self.sums.pop(number) if request.ends_sequence else self.sums[number]
        return {"sum": total, "pid": os.getpid(), "number": number, "flags": flags, "together": together}


reef.serve.run(Sums)
