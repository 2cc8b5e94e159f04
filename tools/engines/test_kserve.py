"""KServe: its own clients against the daemon as it is, and its own readers of the manifests in deploy/kserve."""

import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import program

try:
    import kserve
    import numpy as np
    import yaml
except ImportError:
    kserve = None

RUNTIME = Path(__file__).parents[2] / "deploy/kserve/serving-runtime.yaml"
SERVICE = RUNTIME.with_name("inference-service.yaml")
MODEL = "resnet18"


@unittest.skipIf(kserve is None, "kserve is not installed")
class Clients(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.http, self.grpc = (f"127.0.0.1:{program.port()}" for _ in range(2))
        # The arguments of the runtime, but for the device, the models and the addresses.
        runtime = yaml.safe_load(RUNTIME.read_text())
        arguments = runtime["spec"]["containers"][0]["args"]
        kept = [one for one in arguments if one.startswith("--set=")]
        folder = tempfile.TemporaryDirectory(prefix="reef-kserve-")
        self.addCleanup(folder.cleanup)
        log = open(f"{folder.name}/log", "wb")
        self.addCleanup(log.close)
        daemon = subprocess.Popen(
            [program.COMMAND, *arguments[:1], *kept, "--device", "cpu:0", "--load", MODEL, "--http", self.http]
            + ["--grpc", self.grpc, "--socket-dir", f"{folder.name}/reef", "--set", "models.builtin=true"],
            stdout=log,
            stderr=log,
        )
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        end = time.monotonic() + 60
        while not Path(f"{folder.name}/reef/http.sock").exists():
            assert daemon.poll() is None and time.monotonic() < end, Path(log.name).read_text()
            time.sleep(0.01)

    async def test_rest_and_grpc_clients_get_the_same_output(self):
        client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2", timeout=60))
        base = f"http://{self.http}"
        picture = np.random.default_rng(1).random((1, 3, 224, 224), dtype=np.float32)

        def request():
            tensor = kserve.InferInput("input", list(picture.shape), "FP32")
            tensor.set_data_from_numpy(picture, binary_data=True)
            return kserve.InferRequest(MODEL, [tensor])

        answer = await client.infer(base, request(), model_name=MODEL, timeout=60)
        rest = answer.outputs[0].as_numpy()
        self.assertEqual(rest.shape, (1, 1000))
        self.assertIs(await client.is_server_live(base), True)
        self.assertIs(await client.is_server_ready(base), True)
        self.assertIs(await client.is_model_ready(base, MODEL), True)
        self.assertIs(await client.is_model_ready(base, "unknown"), False)
        stub = kserve.InferenceGRPCClient(self.grpc)
        self.assertTrue(await stub.is_server_live())
        self.assertTrue(await stub.is_server_ready())
        self.assertTrue(await stub.is_model_ready(MODEL))
        answer = await stub.infer(request())
        np.testing.assert_array_equal(answer.outputs[0].as_numpy(), rest)
        await stub.close()
        await client.close()


@unittest.skipIf(kserve is None, "kserve is not installed")
class Runtime(unittest.TestCase):
    def test_runtime_has_kserve_fields_alone(self):
        runtime = yaml.safe_load(RUNTIME.read_text())
        self.assertLessEqual(set(runtime), set(kserve.V1alpha1ServingRuntime.attribute_map.values()))
        known = set(kserve.V1alpha1ServingRuntimeSpec.attribute_map.values())
        self.assertLessEqual(set(runtime["spec"]), known)
        # With what it requires, or the constructor refuses it.
        kserve.V1alpha1ServingRuntimeSpec(containers=runtime["spec"]["containers"])

    def test_inference_service_has_kserve_fields_alone(self):
        service = yaml.safe_load(SERVICE.read_text())
        predictor = service["spec"]["predictor"]
        self.assertLessEqual(set(service), set(kserve.V1beta1InferenceService.attribute_map.values()))
        self.assertLessEqual(set(predictor), set(kserve.V1beta1PredictorSpec.attribute_map.values()))
        self.assertLessEqual(set(predictor["model"]), set(kserve.V1beta1ModelSpec.attribute_map.values()))


if __name__ == "__main__":
    unittest.main()
