#!/usr/bin/env python3
"""Opens the daemon's page in headless Chromium: it must be live, and run nothing that a name brings.

tools/page.py [--seconds S] [--out FILE.png] [--reef FILE]

Starts `reef serve` on the software device with two networks, and a client of each class. One more
client has a token whose name is markup. After S seconds [60] the page must have been updated by its
script, must show that name as text, and the browser must have nothing to report. Then it is written
as a picture: docs/diagrams/page.png is made by this. Not a part of the gate. Without Chromium it says
so and ends with 0.
"""

import argparse
import base64
import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
NAME = "<img src=x onerror=alert(1)>"
TOKEN = "0123456789abcdef"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Daemon:
    """A daemon on the software device, with the clients that the page shows."""

    def __init__(self, reef):
        self.reef, self.folder, self.port = reef, Path(tempfile.mkdtemp(prefix="reef-page-")), free_port()
        token = self.folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        key = json.dumps(f"token {NAME}")
        (self.folder / "reef.toml").write_text(
            f'[models]\nbuiltin = true\nload = ["resnet18", "resnet50"]\n\n'
            f'[rights.{key}]\nrt = true\ntoken_file = "{token}"\n\n'
            f'[listen]\nhttp = "127.0.0.1:{self.port}"\n'
        )
        self.processes = []
        self.start("serve", "--config", str(self.folder / "reef.toml"), "--device", "cpu:0")
        self.wait()

    def start(self, *args):
        command = [str(self.reef), *args, "--socket-dir", str(self.folder / "sockets")]
        with open(self.folder / "log", "ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def get(self, path, token=TOKEN):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(errors="replace")
        connection.close()
        return found

    def infer(self):
        """Runs a network by HTTP, as the client with the odd name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        tensor = dict(name="input", datatype="FP32", shape=[1, 3, 224, 224], data=[0.5] * 150528)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        connection.request("POST", "/v2/models/resnet18/infer", json.dumps(dict(inputs=[tensor])), headers)
        status = connection.getresponse().status
        connection.close()
        assert status == 200, f"an inference: {status}"

    def wait(self):
        end = time.monotonic() + 120
        while True:
            try:
                if self.get("/v2/health/ready")[0] == 200:
                    return
            except OSError:
                pass
            if self.processes[0].poll() is not None or time.monotonic() > end:
                self.end()
                sys.exit(f"no daemon: {(self.folder / 'log').read_text()[-400:]}")
            time.sleep(0.2)

    def end(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


class Browser:
    """Chromium, which takes commands of its DevTools protocol by pipes."""

    def __init__(self, program, profile):
        (self.theirs, ours), (mine, yours) = os.pipe(), os.pipe()
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]

        def place():  # the browser reads from 3 and writes to 4
            low = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (self.theirs, yours)]
            os.dup2(low[0], 3)
            os.dup2(low[1], 4)

        self.process = subprocess.Popen(
            command, close_fds=False, preexec_fn=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(self.theirs)
        os.close(yours)
        self.input, self.output = os.fdopen(ours, "wb", 0), os.fdopen(mine, "rb", 0)
        self.rest, self.number, self.session, self.reports = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{part}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=1180, height=1000, deviceScaleFactor=1, mobile=False)

    def call(self, method, **params):
        """Calls a method; returns its result, and notes what the browser reports meanwhile."""
        self.number += 1
        message = dict(id=self.number, method=method, params=params)
        if self.session:
            message["sessionId"] = self.session
        self.input.write(json.dumps(message).encode() + b"\0")
        while True:
            found = self.read()
            if found.get("id") == self.number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]

    def read(self):
        while b"\0" not in self.rest:
            part = self.output.read(1 << 16)
            assert part, "the browser has ended"
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\0")
        found = json.loads(line)
        if found.get("method") == "Log.entryAdded":
            self.reports.append(found["params"]["entry"]["text"])
        if found.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.reports.append(json.dumps(found["params"])[:300])
        return found

    def open(self, url, token, seconds):
        """Opens a page as a client with this token, and waits."""
        shown = base64.b64encode(f"any:{token}".encode()).decode()
        self.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Basic {shown}"})
        self.call("Page.navigate", url=url)
        time.sleep(seconds)  # its stream has an event each second
        return self.call("Runtime.evaluate", expression="document.documentElement.outerHTML")["result"]["value"]

    def picture(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def end(self):
        self.process.kill()
        self.process.wait()


def browse(program, url):
    """Opens a page; returns what it has become, its picture, and what the browser reports."""
    with tempfile.TemporaryDirectory(prefix="reef-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            return browser.open(url, TOKEN, 8), browser.picture(), browser.reports
        finally:
            browser.end()


def check(dom, reports):
    """Returns what is wrong with the page as the browser has it."""
    shown = NAME.replace("<", "&lt;").replace(">", "&gt;")
    wrong = []
    if not re.search(r'id="link"[^>]*class="live"', dom):
        wrong.append("it is not live")
    if shown not in dom:
        wrong.append("the odd name is not shown")
    if "<img" in dom or "onerror" in dom.replace(shown, ""):
        wrong.append("the odd name became an element")
    if dom.count("<svg") != 4:
        wrong.append(f"it has {dom.count('<svg')} charts")
    return wrong + [f"the browser reports: {line}" for line in reports]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, help="file of the picture")
    parser.add_argument("--reef", type=Path, default=ROOT / "target/release/reef")
    args = parser.parse_args()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        return print(f"skipped: the page: no Chromium ({', '.join(BROWSERS)})")
    daemon = Daemon(args.reef)
    try:
        daemon.infer()
        daemon.start("request", "resnet50", "--continuous")
        daemon.start("request", "resnet18", "--class", "rt", "--continuous", "--sleep", "200ms")
        time.sleep(args.seconds)  # the charts show seconds
        dom, picture, reports = browse(program, f"http://127.0.0.1:{daemon.port}/")
    finally:
        daemon.end()
    if args.out:
        args.out.write_bytes(picture)
    wrong = check(dom, reports)
    if wrong:
        sys.exit("the page: " + "; ".join(wrong))
    print(f"the page is live, and shows {NAME!r} as text")


if __name__ == "__main__":
    main()
