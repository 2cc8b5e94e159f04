"""The stock tritonclient against a daemon: grpc, http, and shared memory of the system.

usage: triton.py FOLDER GRPC HTTP, where FOLDER holds grpc.sock, input.f32 and logits.f32
"""

import asyncio
import json
import queue
import sys
from pathlib import Path

import grpc as stock
import numpy as np
import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http
import tritonclient.http.aio as http_aio
import tritonclient.utils.shared_memory as shm
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.utils import InferenceServerException

FOLDER, GRPC, HTTP = sys.argv[1:4]
INPUT = np.fromfile(f"{FOLDER}/input.f32", np.float32).reshape(1, 3, 32, 32)
LOGITS = np.fromfile(f"{FOLDER}/logits.f32", np.float32).reshape(1, 1000)
TYPED = Path(FOLDER, "models", "typed.onnx").read_bytes()
MODEL = "tiny"


def agree(got, what):
    worst = np.abs(got - LOGITS).max()
    assert got.shape == LOGITS.shape and worst < 1e-3, (what, got.shape, worst)


def refused(what, *words):
    """What a call is refused with; the text must have these words."""
    try:
        what()
    except InferenceServerException as error:
        text = f"{error.status()}: {error.message()}"
        assert all(word in text for word in words), (words, text)
        return
    raise AssertionError(f"not refused: {words}")


def tensor(module, shape=INPUT.shape, name="input", datatype="FP32"):
    return module.InferInput(name, list(shape), datatype)


def given(module):
    wanted = tensor(module)
    wanted.set_data_from_numpy(INPUT)
    return [wanted]


def health(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready(MODEL) and client.is_model_ready(MODEL, "1")
    assert not client.is_model_ready("nothing") and not client.is_model_ready(MODEL, "9")


def inferences(client, module):
    for priority in (0, 1, 2, 9):
        result = client.infer(MODEL, given(module), request_id="my id", priority=priority)
        agree(result.as_numpy("logits"), f"priority {priority}")
    agree(client.infer(MODEL, given(module), model_version="1").as_numpy("logits"), "version")
    wanted = [module.InferRequestedOutput("logits")]
    agree(client.infer(MODEL, given(module), outputs=wanted).as_numpy("logits"), "output")


def errors(client, module):
    infer = client.infer
    refused(lambda: infer("nothing", given(module)), "model nothing is not loaded")
    refused(lambda: infer("../x", given(module)), "")
    refused(lambda: infer(MODEL, given(module), model_version="7"), "version 7 is not loaded")
    refused(lambda: infer(MODEL, given(module), model_version="x"), "model version")
    wrong = tensor(module, (1, 3, 16, 16))
    wrong.set_data_from_numpy(INPUT[:, :, :16, :16])
    refused(lambda: infer(MODEL, [wrong]), "shape must be [1, 3, 32, 32], got [1, 3, 16, 16]")
    wrong = tensor(module, name="data")
    wrong.set_data_from_numpy(INPUT)
    refused(lambda: infer(MODEL, [wrong]), 'no tensor "data" (have: input)')
    wrong = tensor(module, datatype="FP64")
    wrong.set_data_from_numpy(INPUT.astype(np.float64))
    refused(lambda: infer(MODEL, [wrong]), "datatype")
    refused(lambda: infer(MODEL, given(module) * 2), "got 2")
    wanted = [module.InferRequestedOutput("probabilities")]
    refused(lambda: infer(MODEL, given(module), outputs=wanted), "have: logits")
    refused(lambda: infer(MODEL, given(module), timeout=1), "timed out")
    refused(lambda: infer(MODEL, given(module), sequence_id=5), "has no state")
    health(client)


def classes(client, module):
    """The largest logits in the place of all."""
    wanted = [module.InferRequestedOutput("logits", class_count=3)]
    texts = client.infer(MODEL, given(module), outputs=wanted).as_numpy("logits")
    assert texts.shape == (1, 3), texts.shape
    order = np.argsort(-LOGITS.reshape(-1), kind="stable")[:3]
    for text, at in zip(texts[0], order):
        value, index = text.decode().split(":")
        assert int(index) == at and abs(float(value) - LOGITS.reshape(-1)[at]) < 1e-3, (text, at)


def compressed(client):
    """Bodies by gzip and deflate."""
    for how in ("gzip", "deflate"):
        answer = client.infer(MODEL, given(http), request_compression_algorithm=how,
                              response_compression_algorithm=how)
        agree(answer.as_numpy("logits"), how)


def compressed_messages(client):
    """The same over gRPC, one by one and in a stream."""
    for how in ("gzip", "deflate"):
        answer = client.infer(MODEL, given(grpc), compression_algorithm=how)
        agree(answer.as_numpy("logits"), how)
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)), compression_algorithm=how)
        for _ in range(3):
            client.async_stream_infer(MODEL, given(grpc))
            result, error = answers.get(timeout=60)
            assert error is None, error
            agree(result.as_numpy("logits"), f"stream by {how}")
        client.stop_stream()


def shared_memory(client, module, name):
    """Input and output in one region, without any bytes in the messages."""
    key, offset = f"/reef-triton-{name}", 4096
    size = offset + LOGITS.nbytes
    assert INPUT.nbytes == 12288
    region = shm.create_shared_memory_region("r", key, INPUT.nbytes + LOGITS.nbytes)
    try:
        client.unregister_system_shared_memory()
        refused(lambda: client.register_system_shared_memory("r", key, 1 << 40), "must lie inside")
        refused(lambda: client.register_system_shared_memory("r", "/reef-none", 64), "")
        refused(lambda: client.register_system_shared_memory("r", "/../etc/passwd", 64), "plain")
        client.register_system_shared_memory("r", key, INPUT.nbytes + LOGITS.nbytes)
        status = client.get_system_shared_memory_status()
        assert "reef-triton" in str(status), status
        refused(lambda: client.register_system_shared_memory("r", key, 64), "is registered")
        shm.set_shared_memory_region(region, [INPUT])
        source, wanted = tensor(module), module.InferRequestedOutput("logits")
        source.set_shared_memory("r", INPUT.nbytes)
        wanted.set_shared_memory("r", LOGITS.nbytes, INPUT.nbytes)
        for priority in (1, 2):
            client.infer(MODEL, [source], outputs=[wanted], priority=priority)
            got = shm.get_contents_as_numpy(region, np.float32, LOGITS.shape, INPUT.nbytes)
            agree(got, "shared memory")
            shm.set_shared_memory_region(region, [np.zeros_like(LOGITS)], INPUT.nbytes)
        source.set_shared_memory("r", INPUT.nbytes, size)
        refused(lambda: client.infer(MODEL, [source]), "must lie inside")
        source.set_shared_memory("r", INPUT.nbytes - 4)
        refused(lambda: client.infer(MODEL, [source]), "must have")
        client.unregister_system_shared_memory("r")
        source.set_shared_memory("r", INPUT.nbytes)
        refused(lambda: client.infer(MODEL, [source]), "no shared memory region")
    finally:
        shm.destroy_shared_memory_region(region)


def shared_by_connections(client):
    """A client has a pool of connections: what one has registered the others use, and another client after it."""
    key, size = "/reef-triton-pool", INPUT.nbytes
    region = shm.create_shared_memory_region("p", key, size)
    try:
        shm.set_shared_memory_region(region, [INPUT])
        source = tensor(http)
        source.set_shared_memory("p", size)
        for _ in range(2):
            client.register_system_shared_memory("p", key, size)
            pending = [client.async_infer(MODEL, [source]) for _ in range(8)]
            for one in pending:
                agree(one.get_result().as_numpy("logits"), "shared memory by several connections")
            with grpc.InferenceServerClient(GRPC) as other:
                refused(lambda: other.register_system_shared_memory("p", key, size), "is registered")
                other.unregister_system_shared_memory("p")
                other.register_system_shared_memory("p2", key, size)
                other.unregister_system_shared_memory("p2")
    finally:
        shm.destroy_shared_memory_region(region)


def repository(client):
    names = lambda: {m["name"]: m.get("state") for m in listed(client)}
    assert names()["other"] == "UNAVAILABLE" and names()[MODEL] == "READY"
    client.load_model("other")
    assert client.is_model_ready("other") and names()["other"] == "READY"
    client.unload_model("other")
    assert not client.is_model_ready("other")
    refused(lambda: client.load_model("nothing"), "no model nothing")
    refused(lambda: client.load_model("..%2f..%2fetc"), "model name")
    refused(lambda: client.unload_model("other"), "not loaded")


def listed(client):
    if isinstance(client, http.InferenceServerClient):
        return client.get_model_repository_index()
    return client.get_model_repository_index(as_json=True)["models"]


def settings(client, **form):
    """What the daemon does is what it says, and what it doesn't is refused by its name."""
    inner = lambda said: said["settings"] if form else said
    said = [inner(client.get_trace_settings(model, **form)) for model in (None, MODEL)]
    assert said[0] == said[1] and "OFF" in str(said[0]["trace_level"]), said
    client.update_trace_settings(settings={"trace_level": ["OFF"], "trace_rate": "1"}, **form)
    client.update_trace_settings(MODEL, settings={"trace_file": None}, **form)
    refused(lambda: client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]}), "trace_level")
    refused(lambda: client.update_trace_settings(settings={"trace_count": "5"}), "trace_count")
    refused(lambda: client.get_trace_settings("nothing"), "model nothing is not loaded")
    log = inner(client.get_log_settings(**form))
    assert {"log_info", "log_error", "log_verbose_level"} <= set(log), log
    client.update_log_settings({"log_file": ""}, **form)
    refused(lambda: client.update_log_settings({"log_file": "/tmp/x"}), "log_file")
    refused(lambda: client.update_log_settings({"log_verbose_level": 7}), "log_verbose_level")


def uploaded(client):
    """A model that the repository hasn't got comes with its load; a configuration takes the place of the repository's."""
    files = {"file:2/model.onnx": TYPED, "file:2/padding.bin": bytes(1 << 20)}
    refused(lambda: client.load_model("fresh", files=files), "files require a config")
    refused(lambda: client.load_model("fresh", config="{}", files={"file:../x.onnx": TYPED}), "must stay in its version's folder")
    refused(lambda: client.load_model("fresh", config="{"), "JSON")
    client.load_model("fresh", config='{"instance_group": [{"count": 2}]}', files=files)
    assert client.is_model_ready("fresh", "2")
    assert [group["count"] for group in config_of(client, "fresh")["instance_group"]] == [2, 2]
    client.unload_model("fresh")
    refused(lambda: client.load_model("fresh"), "no model fresh")
    batching = {"preferred_batch_size": [4], "max_queue_delay_microseconds": 500}
    client.load_model(MODEL, config=json.dumps({"max_batch_size": 4, "dynamic_batching": batching}))
    config = config_of(client, MODEL)
    assert config["max_batch_size"] == 4, config
    said = config["dynamic_batching"]
    assert {key: [int(n) for n in value] if isinstance(value, list) else int(value)
            for key, value in said.items()} == batching, said
    assert config["parameters"]["batch_rt"]["string_value"] == "false"
    client.load_model(MODEL, config=json.dumps(config))  # what the daemon says, it reads
    assert config_of(client, MODEL) == config
    client.load_model(MODEL)
    assert "dynamic_batching" not in config_of(client, MODEL)


def config_of(client, model):
    if isinstance(client, http.InferenceServerClient):
        return client.get_model_config(model)
    return client.get_model_config(model, as_json=True)["config"]


def typed(client, module):
    """A network with inputs and outputs of several types, as its file has them."""
    tokens = np.array([[7, 0, 1, 2]], np.int64)
    mask = np.array([[True, True, False, True]])
    bias = np.array([1, 0, 0], np.float16)
    table = np.arange(24, dtype=np.float32).reshape(8, 3) / 8
    hidden = np.where(mask[..., None], table[tokens] + bias.astype(np.float32), 0)
    want = {"hidden": hidden, "best": hidden.argmax(-1), "masked": ~mask}
    arrays = [("tokens", tokens, "INT64"), ("mask", mask, "BOOL"), ("bias", bias, "FP16")]
    over_http = module is http

    def ask(binary, outputs=None):
        inputs = []
        for name, array, datatype in arrays:
            given = tensor(module, array.shape, name, datatype)
            # The client sends halves as binary data only.
            form = {"binary_data": binary or datatype == "FP16"} if over_http else {}
            given.set_data_from_numpy(array, **form)
            inputs.append(given)
        return client.infer("typed", inputs, outputs=outputs)

    client.load_model("typed")
    for binary in (True, False) if over_http else (True,):
        form = {"binary_data": binary} if over_http else {}
        named = [module.InferRequestedOutput(name, **form) for name in ("masked", "hidden", "best")]
        for result in (ask(binary), ask(binary, named)):
            for name, array in want.items():
                got = result.as_numpy(name)
                assert got.dtype == array.dtype and (got == array).all(), (name, got)
        only = ask(binary, named[:1])
        assert only.as_numpy("hidden") is None and (only.as_numpy("masked") == ~mask).all()
    both = [module.InferRequestedOutput("best")] * 2
    refused(lambda: ask(True, both), '"best" must be named once')
    arrays[0] = ("tokens", tokens.astype(np.int32), "INT32")
    refused(lambda: ask(True), "must be INT64")
    client.unload_model("typed")


def over_grpc(url, name, channel_args=None):
    with grpc.InferenceServerClient(url, channel_args=channel_args) as client:
        health(client)
        assert client.get_server_metadata().name == "reef"
        metadata = client.get_model_metadata(MODEL)
        assert list(metadata.inputs[0].shape) == [1, 3, 32, 32] and metadata.versions == ["1"]
        config = client.get_model_config(MODEL).config
        assert config.input[0].name == "input" and list(config.output[0].dims) == [1, 1000]
        assert config.input[0].data_type == 11 and config.max_batch_size == 0
        inferences(client, grpc)
        errors(client, grpc)
        compressed_messages(client)
        refused(lambda: client.infer("nothing", given(grpc)), "NOT_FOUND")
        refused(lambda: client.infer(MODEL, []), "INVALID_ARGUMENT")
        refused(lambda: client.infer(MODEL, given(grpc), timeout=1), "DEADLINE_EXCEEDED")
        refused(client.get_cuda_shared_memory_status, "UNIMPLEMENTED")
        settings(client, **{"as_json": True})
        stats = client.get_inference_statistics(MODEL).model_stats[0]
        assert stats.inference_stats.success.count >= 6 and stats.inference_stats.fail.count >= 1
        classes(client, grpc)
        agree(client.infer(MODEL, given(grpc), headers={"reef-class": "rt"}).as_numpy("logits"), "")
        refused(lambda: client.infer(MODEL, given(grpc), headers={"reef-class": "x"}), "must be rt or be")
        at_once(client)
        overload(client)
        stream(client)
        shared_memory(client, grpc, name)
        repository(client)
        uploaded(client)
        typed(client, grpc)


def reflected(url):
    """A client that knows no message learns them from the daemon and makes a call with them."""
    with stock.insecure_channel(url) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= services, services
        service = DescriptorPool(database).FindServiceByName("inference.GRPCInferenceService")
        infer = service.methods_by_name["ModelInfer"]
        assert "raw_input_contents" in infer.input_type.fields_by_name
        method = service.methods_by_name["ModelMetadata"]
        request = GetMessageClass(method.input_type)(name=MODEL)
        answer = GetMessageClass(method.output_type)
        call = channel.unary_unary(f"/{service.full_name}/{method.name}",
                                   request_serializer=lambda message: message.SerializeToString(),
                                   response_deserializer=answer.FromString)
        assert call(request).inputs[0].shape == [1, 3, 32, 32]


def at_once(client):
    """Several requests that are open at a time."""
    done = queue.Queue()
    for _ in range(8):
        client.async_infer(MODEL, given(grpc), lambda result, error: done.put((result, error)))
    for _ in range(8):
        result, error = done.get(timeout=30)
        assert error is None, error
        agree(result.as_numpy("logits"), "asynchronous")


def overload(client):
    """Far more than may wait: what is not taken is refused at once, and what is taken is answered."""
    done = queue.Queue()
    for _ in range(200):
        client.async_infer(MODEL, given(grpc), lambda result, error: done.put((result, error)))
    served = refused = 0
    for _ in range(200):
        result, error = done.get(timeout=60)
        if error is None:
            agree(result.as_numpy("logits"), "under overload")
            served += 1
        else:
            assert error.status() == "StatusCode.RESOURCE_EXHAUSTED", error
            refused += 1
    assert served >= 12 and refused > 0, (served, refused)


def stream(client):
    """A stream answers in order, and an error doesn't end it."""
    done = queue.Queue()
    client.start_stream(lambda result, error: done.put((result, error)))
    for model in (MODEL, "nothing", MODEL):
        client.async_stream_infer(model, given(grpc), request_id=model)
    for model in (MODEL, "nothing", MODEL):
        result, error = done.get(timeout=30)
        if model == MODEL:
            assert error is None and result.get_response().id == MODEL, error
            agree(result.as_numpy("logits"), "stream")
        else:
            assert "not loaded" in str(error), error
    for wanted in (True, False):
        client.async_stream_infer(MODEL, given(grpc), enable_empty_final_response=wanted)
        result, error = done.get(timeout=30)
        assert error is None, error
        final = result.get_response().parameters.get("triton_final_response")
        assert (final is not None and final.bool_param) == wanted, "one answer, which is the last"
    client.stop_stream()


def over_http(url):
    with http.InferenceServerClient(url, concurrency=4) as client:
        health(client)
        assert client.get_server_metadata()["name"] == "reef"
        assert client.get_model_metadata(MODEL)["outputs"][0]["shape"] == [1, 1000]
        assert client.get_model_config(MODEL, "1")["input"][0]["data_type"] == "TYPE_FP32"
        inferences(client, http)
        errors(client, http)
        as_json(client)
        classes(client, http)
        compressed(client)
        pending = [client.async_infer(MODEL, given(http)) for _ in range(8)]
        for one in pending:
            agree(one.get_result().as_numpy("logits"), "asynchronous")
        stats = client.get_inference_statistics()["model_stats"]
        assert any(s["name"] == MODEL and s["inference_count"] > 0 for s in stats), stats
        refused(client.get_cuda_shared_memory_status, "501")
        settings(client)
        shared_memory(client, http, "http")
        shared_by_connections(client)
        repository(client)
        uploaded(client)
        typed(client, http)


def as_json(client):
    """Tensors as text, one way and the other."""
    source = tensor(http)
    source.set_data_from_numpy(INPUT, binary_data=False)
    for binary in (True, False):
        wanted = [http.InferRequestedOutput("logits", binary_data=binary)]
        agree(client.infer(MODEL, [source], outputs=wanted).as_numpy("logits"), "JSON input")
        agree(client.infer(MODEL, given(http), outputs=wanted).as_numpy("logits"), "JSON output")


async def asynchronous():
    """The clients for asyncio: several requests at a time, an error among them, and a stream."""
    for module, client in ((grpc, grpc_aio.InferenceServerClient(GRPC)), (http, http_aio.InferenceServerClient(HTTP))):
        async with client:
            assert await client.is_server_live() and await client.is_model_ready(MODEL)
            models = (MODEL, MODEL, "nothing", MODEL)
            asked = [client.infer(model, given(module), priority=k) for k, model in enumerate(models)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert "not loaded" in str(answers.pop(2)), answers
            for answer in answers:
                agree(answer.as_numpy("logits"), "asyncio")
            if module is grpc:
                await streamed(client)


async def streamed(client):
    async def requests():
        for name in "abc":
            yield {"model_name": MODEL, "inputs": given(grpc), "request_id": name}

    names = ""
    async for result, error in client.stream_infer(requests()):
        assert error is None, error
        agree(result.as_numpy("logits"), "a stream by asyncio")
        names += result.get_response().id
    assert names == "abc", names


# By default gRPC for Python names the socket's path as authority, which is not one.
over_grpc(f"unix:{FOLDER}/grpc.sock", "unix", [("grpc.default_authority", "localhost")])
over_grpc(GRPC, "tcp")
reflected(GRPC)
over_http(HTTP)
asyncio.run(asynchronous())
print("passed")
