"""Clients that others made, against a daemon: rows of a table.

    python3 outside.py HTTP GRPC [SECONDS]      # addresses, such as 127.0.0.1:8000

The stock tritonclient over both ways in, and MLCommons' load generator in its scenarios SingleStream and Server as a
real-time client, while two best-effort clients ask without a pause. `outside.sh` starts the daemon.
"""

import re
import sys
import tempfile
import threading
from pathlib import Path

import grpc as stock
import mlperf_loadgen as lg
import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

HTTP, GRPC = sys.argv[1:3]
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
PICTURE = np.linspace(-1, 1, 3 * 32 * 32, dtype=np.float32).reshape(1, 3, 32, 32)


def given(module):
    tensor = module.InferInput("input", PICTURE.shape, "FP32")
    tensor.set_data_from_numpy(PICTURE)
    return [tensor]


class BestEffort:
    """A client that asks without a pause until it is stopped."""

    def __init__(self, module, address):
        self.asked, self.failed, self.ended = 0, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, args=(module, address))
        self.thread.start()

    def run(self, module, address):
        client = module.InferenceServerClient(address)
        while not self.ended.is_set():
            try:
                client.infer("tiny", given(module), priority=2)
                self.asked += 1
            except Exception:
                self.failed += 1

    def end(self):
        self.ended.set()
        self.thread.join(60)
        return self.asked, self.failed


def generated(scenario, name):
    """The load generator's own verdict and percentiles."""
    client, failed = grpc.InferenceServerClient(GRPC), []

    def complete(sample, error):
        if error is not None:
            failed.append(error)
        lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0)])

    def issue(samples):
        for sample in samples:
            client.async_infer("tiny", given(grpc), lambda result, error, s=sample: complete(s, error), priority=1)

    settings = lg.TestSettings()
    settings.scenario, settings.mode = scenario, lg.TestMode.PerformanceOnly
    settings.min_duration_ms, settings.min_query_count = int(1000 * SECONDS), 1
    # Server: fewer than 662 requests are too few for a verdict about the 99th percentile.
    settings.server_target_qps, settings.server_target_latency_ns = 80, 100_000_000
    log = lg.LogSettings()
    with tempfile.TemporaryDirectory() as folder:
        log.log_output.outdir = folder
        sut, qsl = lg.ConstructSUT(issue, lambda: None), lg.ConstructQSL(1, 1, lambda _: None, lambda _: None)
        lg.StartTestWithLogSettings(sut, qsl, settings, log)
        lg.DestroyQSL(qsl)
        lg.DestroySUT(sut)
        text = Path(folder, "mlperf_log_summary.txt").read_text()
    said = re.search(r"Result is : (\w+)", text).group(1).lower()
    tenths = {p: int(re.search(rf"{p} percentile latency \(ns\) *: (\d+)", text).group(1)) / 1e6 for p in ("50.00", "99.00")}
    return f"| loadgen {name}, real-time | {said}, {len(failed)} failed | {tenths['50.00']:.1f} | {tenths['99.00']:.1f} |"


def reflected():
    """What gRPC's own reflection client learns of the daemon."""
    with stock.insecure_channel(GRPC) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = database.get_services()
        methods = DescriptorPool(database).FindServiceByName("inference.GRPCInferenceService").methods
    return f"| grpcio-reflection | {len(services)} services, {len(methods)} calls of inference | – | – |"


def settings():
    """What the stock client is told of traces and of the log, over both ways in."""
    over_http, over_grpc = http.InferenceServerClient(HTTP), grpc.InferenceServerClient(GRPC)
    log = over_http.get_log_settings()
    same = over_grpc.get_log_settings(as_json=True)["settings"].keys() == log.keys()
    level = over_http.get_trace_settings()["trace_level"]
    return f"| tritonclient, settings | {len(log)} of the log, {'the same' if same else 'others'} over gRPC; trace {level[0]} | – | – |"


def main():
    print("| client | outcome | p50 ms | p99 ms |\n|---|---|--:|--:|", flush=True)
    print(reflected(), flush=True)
    print(settings(), flush=True)
    both = [BestEffort(http, HTTP), BestEffort(grpc, GRPC)]
    print(generated(lg.TestScenario.SingleStream, "SingleStream"), flush=True)
    print(generated(lg.TestScenario.Server, "Server at 80/s"), flush=True)
    for name, client in zip(("HTTP", "gRPC"), both):
        asked, failed = client.end()
        print(f"| tritonclient over {name}, best-effort | {asked} answered, {failed} failed | – | – |", flush=True)


main()
