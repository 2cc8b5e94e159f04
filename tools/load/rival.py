#!/usr/bin/env python3
"""ONNX Runtime behind Python's own HTTP server, with so much of KServe's protocol (v2) as the generator speaks: one
binary tensor in, one out. A thread for each connection, one session for all, as its documentation has it.

    rival.py MODEL.onnx THREADS

Prints `http ADDRESS` when it is ready.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime as ort

LENGTH = "Inference-Header-Content-Length"


def session(model, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet
    session = None

    def log_message(self, *_):
        pass

    def answer(self, head, data=b""):
        head = json.dumps(head).encode()
        self.send_response(200)
        self.send_header(LENGTH, str(len(head)))
        self.send_header("Content-Length", str(len(head) + len(data)))
        self.end_headers()
        self.wfile.write(head + data)

    def do_GET(self):
        given = self.session.get_inputs()[0]
        self.answer({"inputs": [{"name": given.name, "datatype": "FP32", "shape": given.shape}]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        length = int(self.headers[LENGTH])
        tensor = json.loads(body[:length])["inputs"][0]
        x = np.frombuffer(body, np.float32, offset=length).reshape(tensor["shape"])
        (y,) = self.session.run(None, {tensor["name"]: x})
        size = {"binary_data_size": y.nbytes}
        said = {"name": "y", "datatype": "FP32", "shape": y.shape, "parameters": size}
        self.answer({"outputs": [said]}, y.tobytes())


def main():
    Handler.session = session(sys.argv[1], int(sys.argv[2]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


main()
