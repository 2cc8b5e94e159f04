"""A server of the transformers library: a small language model with random weights, by HTTP. serve.py PORT

GET /?tokens=1,2,3 answers the next tokens. It runs on a GPU if PyTorch has one.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import torch
import transformers

torch.manual_seed(1)
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=64)
model = transformers.GPT2LMHeadModel(config).eval().to(device)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        tokens = [int(token) for token in parse_qs(urlparse(self.path).query)["tokens"][0].split(",")]
        given = torch.tensor([tokens], device=device)
        with torch.no_grad():
            made = model.generate(given, max_new_tokens=16, do_sample=False, pad_token_id=0)
        answer = json.dumps({"device": device, "tokens": made[0].tolist()}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
server.serve_forever()
