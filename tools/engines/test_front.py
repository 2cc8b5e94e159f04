"""Ray Serve before two daemons: a replica on each node passes requests on to the daemon of that node."""

import json
import os
import sys
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import program

try:
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    EXAMPLES = str(Path(__file__).parents[2] / "examples/process")
    sys.path.insert(0, EXAMPLES)
    import front
except ImportError:
    serve = None

MODEL = "resnet18"


@unittest.skipIf(serve is None, "Ray Serve is not installed")
class Front(unittest.TestCase):
    def setUp(self):
        # Processes of all nodes have these. Else the only proxy would ask the daemon of its own node alone.
        os.environ["RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING"] = "0"
        os.environ["PYTHONPATH"] = os.pathsep.join([EXAMPLES, os.environ.get("PYTHONPATH", "")])
        cluster = Cluster()
        self.addCleanup(cluster.shutdown)
        for _ in range(2):
            daemon = program.Daemon("--set", "models.builtin=true", "--load", MODEL)
            self.addCleanup(daemon.end)
            # Each node's processes find the daemon of their own machine.
            os.environ["XDG_RUNTIME_DIR"] = str(daemon.folder)
            cluster.add_node(num_cpus=2, include_dashboard=False)
        ray.init(address=cluster.address, logging_level="warning")
        self.addCleanup(ray.shutdown)
        at = program.port()
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": at})
        self.addCleanup(serve.shutdown)
        serve.run(front.app({"nodes": 2}))
        self.base = f"http://127.0.0.1:{at}"

    def ask(self, path, form=None):
        body = None if form is None else json.dumps(form).encode()
        asked = urllib.request.Request(self.base + path, body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def state(self):
        """State of the model in the daemon that is asked."""
        listed = self.ask("/v2/repository/index", {})
        return next(model["state"] for model in listed if model["name"] == MODEL)

    def test_requests_reach_both_daemons_and_errors_their_client(self):
        picture = {"name": "input", "datatype": "FP32", "shape": [1, 3, 224, 224], "data": [0.5] * (3 * 224 * 224)}
        answer = self.ask(f"/v2/models/{MODEL}/infer", {"inputs": [picture]})
        self.assertEqual(answer["outputs"][0]["shape"], [1, 1000])
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.ask("/v2/models/unknown")
        self.assertEqual(refused.exception.code, 404)
        # One daemon of the two unloads it; the other one still has it.
        self.ask(f"/v2/repository/models/{MODEL}/unload", {})
        found = set()
        program.until(lambda: found.add(self.state()) or len(found) == 2, 120)
        self.assertEqual(found, {"READY", "UNAVAILABLE"})


if __name__ == "__main__":
    unittest.main()
