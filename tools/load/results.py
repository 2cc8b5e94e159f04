"""What has been measured so far: a table in a folder, and next to it what a later call needs to go on."""

import json
import os
import sys

HEAD = """| server | RT/s | answered | BE clients | RT p50 ms | p99 | p99.9 | max | BE/s | failed |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


class Results:
    """The rows of one setting; each is on disk and printed as soon as it is measured."""

    def __init__(self, folder, setting):
        os.makedirs(folder, exist_ok=True)
        self.table, self.state = (os.path.join(folder, name) for name in ("load.md", "load.json"))
        self.setting, self.rows = setting, []
        self.most = None  # requests a second that the rival answers alone
        self.outputs = {}  # what the model gives, by server
        self.note = ""
        if os.path.exists(self.state):
            self.resume()
        print("\n".join([*setting, "", HEAD, *(row for _, row in self.rows)]), flush=True)

    def resume(self):
        with open(self.state) as file:
            state = json.load(file)
        if state["setting"] != self.setting:
            sys.exit(f"{self.state} is of {state['setting']}, asked was {self.setting}: name another folder")
        self.rows, self.most, self.outputs = state["rows"], state["most"], state["outputs"]

    def has(self, *load):
        return any(tuple(done) == load for done, _ in self.rows)

    def add(self, turn, name, share, clients, row):
        self.rows.append(((turn, name, share, clients), row))
        print(row, flush=True)
        self.write()

    def write(self):
        state = {"setting": self.setting, "most": self.most, "outputs": self.outputs, "rows": self.rows}
        with open(self.state, "w") as file:
            json.dump(state, file, indent=1)
        rows = [row for _, row in self.rows]
        with open(self.table, "w") as file:
            file.write("\n".join([*self.setting, "", HEAD, *rows, "", self.note, ""]))
