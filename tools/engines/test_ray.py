"""Ray: actors of both classes by `runtime_env`, on two nodes with a daemon each, one of which is lost."""

import os
import sys
import unittest
from pathlib import Path

import program

try:
    import ray
    from ray.cluster_utils import Cluster
except ImportError:
    ray = None

HERE = str(Path(__file__).parent)


def python(of, *options):
    """Environment of a worker that `reef exec` starts."""
    command = " ".join(["reef exec --class", of, "--strict", *options, "--", sys.executable])
    return {"py_executable": command, "env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}}


class Worker:
    def __init__(self):
        sys.path.insert(0, HERE)
        self.driver = program.Driver()

    def launch(self, seconds):
        return self.driver.launch_for(seconds)

    def status(self):
        self.driver.launch()
        return {**program.status(), "node": os.environ["XDG_RUNTIME_DIR"]}

    def is_held(self):
        return program.status()["held"]


@unittest.skipIf(ray is None, "Ray is not installed")
class Actors(unittest.TestCase):
    def setUp(self):
        self.daemons = [program.Daemon(), program.Daemon()]
        for daemon in self.daemons:
            self.addCleanup(daemon.end)
        self.cluster = Cluster()
        self.addCleanup(self.cluster.shutdown)
        self.nodes = []
        for name, daemon in zip("ab", self.daemons):
            # Each node's processes find the daemon of their own machine.
            os.environ["XDG_RUNTIME_DIR"] = str(daemon.folder)
            self.nodes.append(self.cluster.add_node(num_cpus=4, resources={name: 4}, include_dashboard=False))
        ray.init(address=self.cluster.address, logging_level="warning")
        self.addCleanup(ray.shutdown)

    def test_classes_hold_on_their_node_and_return_after_a_lost_one(self):
        def actor(of, **options):
            return ray.remote(Worker).options(runtime_env=python(of), **options).remote()

        a, b = (str(daemon.folder) for daemon in self.daemons)
        rt = actor("rt", resources={"a": 1})
        near = actor("be", resources={"a": 1})
        # It is restarted wherever there is room.
        far = actor(
            "be",
            max_restarts=1,
            max_task_retries=-1,
            scheduling_strategy=ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                self.nodes[1].node_id, soft=True
            ),
        )
        found = ray.get([worker.status.remote() for worker in (rt, near, far)])
        self.assertEqual([one["class"] for one in found], ["rt", "be", "be"])
        self.assertEqual([one["node"] for one in found], [a, a, b])
        self.assertFalse(any(one["held"] for one in found[1:]))

        # While the real-time actor works, the one on its node is held, and the other one is not.
        busy = rt.launch.remote(3)
        program.until(lambda: ray.get(near.is_held.remote()))
        self.assertGreater(ray.get(far.launch.remote(0.2)), 0)
        self.assertFalse(ray.get(far.is_held.remote()))
        launches = ray.get(busy)
        program.until(lambda: not ray.get(near.is_held.remote()))
        print(f"real-time actor: {launches} launches in 3 s, with the actor of its node held", file=sys.stderr)

        # The node is lost; its actor comes back on the other one, in its class.
        self.cluster.remove_node(self.nodes[1], allow_graceful=False)
        def moved():
            state = ray.get(far.status.remote(), timeout=120)
            return state if state["node"] == a else None

        again = program.until(moved, 120)
        self.assertEqual(again["class"], "be")
        self.assertNotEqual(again["pid"], found[2]["pid"])
        busy = rt.launch.remote(3)
        program.until(lambda: ray.get(far.is_held.remote()))
        ray.get(busy)

    def test_actor_does_not_start_without_a_daemon(self):
        self.daemons[0].child.kill()
        self.daemons[0].child.wait()
        worker = ray.remote(Worker).options(runtime_env=python("rt"), resources={"a": 1}).remote()
        # Ray starts workers again and again; none becomes an actor without protection.
        with self.assertRaises(ray.exceptions.GetTimeoutError):
            ray.get(worker.status.remote(), timeout=10)


if __name__ == "__main__":
    unittest.main()
