"""A model that answers in parts."""

import os

import reef.serve


class Count(reef.serve.Model):
    inputs = {"text": str, "count": int}
    outputs = {"token": str, "number": int}

    def stream(self, request):
        try:
            for number in range(request["count"]):
                if request["text"] == "raise" and number == 2:
                    raise reef.serve.InvalidRequest("no more")
                yield {"token": request["text"], "number": number}
        finally:
            if request.is_cancelled:
                open(os.path.join(self.folder, "cancelled"), "w").close()


reef.serve.run(Count)
