"""Ray Serve before the daemons of several machines: a replica on each node passes requests on to the node's own daemon.

In this folder, in a cluster of four nodes with a daemon each:

    serve run front:app nodes=4
"""

import os

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

# Headers that mean something to the daemon, and to its client. aiohttp has unpacked an answer.
REQUEST = ("content-type", "content-encoding", "inference-header-content-length", "reef-class")
ANSWER = ("content-type", "inference-header-content-length", "retry-after")


def chosen(headers, names):
    return {name: headers[name] for name in names if name in headers}


@serve.deployment(max_replicas_per_node=1, max_ongoing_requests=64, ray_actor_options={"num_cpus": 0.1})
class Front:
    def __init__(self):
        # As `reef` itself finds the daemon; that of a service is in /run/reef.
        folder = os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/run"), "reef")
        self.socket = os.path.join(folder, "http.sock")
        self.session = None

    async def check_health(self):
        """Serve starts a replica again, or elsewhere, while its node has no daemon that is ready."""
        async with self.daemon().get("http://localhost/v2/health/ready") as answer:
            answer.raise_for_status()

    async def __call__(self, request: Request) -> Response:
        body, headers = await request.body(), chosen(request.headers, REQUEST)
        url = f"http://localhost{request.url.path}"
        async with self.daemon().request(request.method, url, data=body, headers=headers) as answer:
            return Response(await answer.read(), answer.status, chosen(answer.headers, ANSWER))

    def daemon(self):
        if self.session is None:  # in the loop of the replica
            self.session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=self.socket))
        return self.session


def app(arguments: dict):
    return Front.options(num_replicas=int(arguments.get("nodes", 1))).bind()
