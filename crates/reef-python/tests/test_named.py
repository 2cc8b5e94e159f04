"""Default arguments, and values that the docs of the package name: all of them work.

What is found is compared with the tables below, so that a new argument or a new value is not forgotten.
"""

import inspect
import re
import shutil
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import reef

PACKAGE = Path(__file__).parents[1]
ROOT = PACKAGE.parents[1]
PAGES = [PACKAGE / "README.md", ROOT / "docs/python.md", ROOT / "docs/operate/phases.md"]
SIZE = 32
BACKENDS = ("cpu", "cuda", "hip")

# Callables whose defaults are tested where there is a daemon or PyTorch: test_daemon.py, test_torch.py. Each is called
# there without its optional arguments.
ELSEWHERE = {
    "connect": ("test_daemon.py", r"reef\.connect\((folder|str\(|self\.folder|)"),
    "Daemon.real_time": ("test_daemon.py", r"\.real_time\(\)"),
    "Daemon.run": ("test_daemon.py", r"daemon\.run\(\"[a-z]+\", \w+\)"),
    "Daemon.submit": ("test_daemon.py", r"daemon\.run\(\"[a-z]+\", \w+\)"),
    "ServedClient.run": ("test_daemon.py", r"\.run\(\"[a-z]+\", \w+\)"),
    "ServedClient.submit": ("test_daemon.py", r"\.submit\(\"[a-z]+\", [\w()]+\)"),
    "torch.load": ("test_torch.py", r"torch\.load\("),
}


def image():
    return np.zeros((1, 3, SIZE, SIZE), np.float32)


def public_callables():
    """Functions and methods of the package that callers may name, by name."""
    import reef.guest
    import reef.torch

    def of_module(module):
        own = inspect.getmembers(module, inspect.isfunction)
        short = module.__name__.removeprefix("reef.")
        return [f"{short}.{name}" for name, made in own if made.__module__ == module.__name__ and name[0] != "_"]

    found = {}
    for name in [*reef.__all__, *of_module(reef.guest), *of_module(reef.torch)]:
        value = reef
        for part in name.split("."):
            value = getattr(value, part)
        if inspect.isclass(value) and not issubclass(value, (tuple, BaseException)):
            for member, method in inspect.getmembers(value, inspect.isroutine):
                if not member.startswith("_"):
                    found[f"{name}.{member}"] = method
        elif inspect.isfunction(value):
            found[name] = value
    return found


def with_defaults():
    """Those of them that have optional arguments, with the names of these."""
    found = {}
    for name, function in public_callables().items():
        parameters = inspect.signature(function).parameters.values()
        optional = [one.name for one in parameters if one.default is not inspect.Parameter.empty]
        if optional:
            found[name] = optional
    return found


class Defaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = reef.open("cpu:0?units=1")
        cls.net = cls.device.load("resnet18", input_size=SIZE)
        cls.cluster = reef.open_cluster("cpu:0?units=1,cpu:1?units=1")
        cls.shared = cls.cluster.load("resnet18", input_size=SIZE)

    @classmethod
    def tearDownClass(cls):
        cls.device.close()

    def calls(self):
        """A call of each callable without its optional arguments, on what this class has."""

        def client(make, call):
            with make() as opened:
                return call(opened)

        rt = lambda call: lambda: client(self.device.real_time, call)
        be = lambda call: lambda: client(self.device.best_effort, call)
        run = lambda one: one.run(self.net, image())
        submit = lambda one: one.submit(self.net, image()).result()
        return {
            "open": lambda: reef.open().close(),
            "open_cluster": lambda: reef.open_cluster("cpu:0?units=1"),
            "BestEffort.run": be(run),
            "BestEffort.submit": be(submit),
            "RealTime.run": rt(run),
            "RealTime.submit": rt(submit),
            "Future.result": rt(lambda one: one.submit(self.net, image()).result()),
            "Device.load": lambda: self.device.load("resnet18"),
            "Device.real_time": lambda: self.device.real_time().close(),
            "Device.best_effort": lambda: self.device.best_effort().close(),
            "Network.slot": lambda: self.net.slot(),
            "Network.state": lambda: self.net.state({}),
            "State.run": be(lambda one: self.net.state({}).run(one, image())),
            "Cluster.load": lambda: self.cluster.load("resnet18"),
            "Cluster.real_time": lambda: client(
                lambda: self.cluster.real_time(self.shared, load=0.5), lambda one: one.run(image())
            ),
            "Cluster.best_effort": lambda: client(
                lambda: self.cluster.best_effort(self.shared), lambda one: one.run(image())
            ),
            "Cluster.mark_lost": lambda: reef.open_cluster("cpu:0?units=1,cpu:1?units=1").mark_lost(1),
        }

    def test_each_default_is_called(self):
        calls = self.calls()
        missing = set(with_defaults()) - set(calls) - set(ELSEWHERE)
        self.assertEqual(missing, set(), "optional arguments without a test of their defaults")
        self.assertEqual((set(calls) | set(ELSEWHERE)) - set(with_defaults()), set(), "no such callable")
        for name, call in calls.items():
            with self.subTest(name):
                call()
        for name, (file, call) in ELSEWHERE.items():
            with self.subTest(name):
                self.assertRegex((Path(__file__).parent / file).read_text(), call)

    def test_real_time_client_is_placed_with_every_default(self):
        cluster = reef.open_cluster("cpu:0?units=1,cpu:1?units=1")
        with cluster.real_time(cluster.load("resnet18", input_size=SIZE)) as client:
            self.assertEqual(client.run(image()).shape, (1, 1000))


def docstrings():
    """Docstrings of the package, its modules and its types, as their sources have them."""
    for file in sorted((PACKAGE / "python/reef").glob("*.py*")):
        for text in re.findall(r'"""(.*?)"""', file.read_text(), re.DOTALL):
            yield file.name, text


def prose():
    """Text of the pages outside of code, and comments inside of it."""
    for page in PAGES:
        for number, part in enumerate(re.split(r"```", page.read_text())):
            text = part if number % 2 == 0 else "\n".join(re.findall(r"#(.*)", part))
            yield page.name, text


def quoted():
    """Values in double quotes, with the place of each."""
    for place, text in [*docstrings(), *prose()]:
        for value in re.findall(r'"([^"\n]+)"', text):
            yield place, value


def opens(name):
    """Whether this names a device: one that is here, or one of another machine or another build."""
    try:
        reef.open_cluster(name) if "," in name or "*" in name else reef.open(name).close()
    except reef.NotFoundError as error:
        is_known = re.match(r"[a-z]*", name).group() in BACKENDS
        return is_known and ("no backend" not in str(error) or "rebuild with --features" in str(error))
    except reef.InvalidError:
        return False
    return True


def is_output_form(name):
    with reef.open("cpu:0?units=1") as device, device.real_time() as rt:
        net = device.load("resnet18", input_size=SIZE)
        rt.run(net, image(), out=name)
        try:
            net.slot(name)
        except reef.UnsupportedError:
            return name == "device"  # as its docs say of the CPU
    return True


def is_network(name):
    with reef.open("cpu:0?units=1") as device:
        device.load(name, batch=1, input_size=SIZE)
    return True


def is_address(name):
    """Whether this is an address of a daemon: there is none, and the address isn't what is wrong."""
    try:
        reef.connect(name.replace("HOST:PORT", "127.0.0.1:9").replace("host:8000", "127.0.0.1:9"))
    except reef.UnavailableError:
        return True
    return False


# What each value in quotes is. A value that none of them takes is one that doesn't work.
KINDS = {
    r"auto|(cpu|cuda|hip)[:\d*]*(\?.*)?(,.*)?": opens,
    r"host|device": is_output_form,
    r"resnet\d+|mobilenet_v2": is_network,
    r"https?://.*": is_address,
    r"(model|bert)\.onnx|trace\.json": lambda name: True,  # files of the reader
    r"ids|tokens|past|present": lambda name: True,  # names in such a file; test_onnx.py chooses sizes by name
    r"reef_guest\.h": lambda name: (ROOT / "interpose/reef-shim/include" / name).exists(),
    r"bfloat16": lambda name: name in Path(PACKAGE / "python/reef/_network.py").read_text(),
    r"fair-share": lambda name: name in reef.schedulers(),
    r"rt|be": lambda name: name in reef.guest._CLASSES.values(),
    r"…": lambda name: True,
}


class Named(unittest.TestCase):
    def test_each_value_in_quotes_works(self):
        seen = set()
        for place, value in quoted():
            with self.subTest(place, value=value):
                kind = next((kind for kind in KINDS if re.fullmatch(kind, value)), None)
                self.assertIsNotNone(kind, "what is it? KINDS has no such value")
                if value not in seen:
                    self.assertTrue(KINDS[kind](value), "it doesn't work")
                seen.add(value)
        self.assertLessEqual({"guest.real_time", "guest.status", "guest.yield_now", "torch.load"}, set(public_callables()))
        for value in ("auto", "cuda:0", "host", "resnet18", "cpu:0?units=1,cpu:1?units=1"):
            self.assertIn(value, seen, "what reads the pages finds too little")

    def test_each_argument_that_is_named_exists(self):
        known = {"input_ids", "mask"}  # inputs of a reader's network
        for function in public_callables().values():
            known.update(inspect.signature(function).parameters)
        inline = [(place, code) for place, text in prose() for code in re.findall(r"`([^`\n]+)`", text)]
        for place, code in inline:
            for name in re.findall(r"\b([a-z_]+)=", code):
                with self.subTest(place, code=code):
                    self.assertIn(name, known)

    def test_reference_has_parentheses_after_calls_alone(self):
        import reef.serve

        page = (ROOT / "docs/reference/python.md").read_text()
        members = re.findall(r"^(###+) `([A-Z]\w+)\.(\w+)([:(])", page, re.MULTILINE)
        self.assertGreater(len(members), 40)
        for level, owner, name, after in members:
            with self.subTest(owner, member=name):
                made = inspect.getattr_static(getattr(reef if level == "###" else reef.serve, owner), name)
                self.assertEqual(callable(made), after == "(")

    def test_models_of_the_page_of_programs_have_what_models_have(self):
        import reef.serve

        page, found = (ROOT / "docs/operate/process-models.md").read_text(), 0
        for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            names = {"reef": reef}
            with mock.patch.object(reef.serve, "run"):
                exec(code, names)
            made = [one for one in names.values() if isinstance(one, type) and issubclass(one, reef.serve.Model)]
            for model in made:
                own = {name for name in vars(model) if not name.startswith("_")}
                with self.subTest(model.__name__):
                    self.assertLessEqual(own, set(dir(model.__base__)))
            found += len(made)
        self.assertGreater(found, 5)

    def test_unknown_value_is_found(self):
        self.assertFalse(opens("tpu:0"))
        self.assertFalse(opens("cpu:0?cores=2"))
        self.assertTrue(opens("cuda:0") and opens("auto"))
        self.assertFalse(opens("cpux"))
        with self.assertRaises(reef.InvalidError):
            is_address("ftp://host")

    def test_each_scheduler_is_started(self):
        for name in reef.schedulers():
            with self.subTest(name):
                reef.open("cpu:0?units=1", name).close()
        with self.assertRaisesRegex(reef.NotFoundError, "did you mean reef"):
            reef.open("cpu:0?units=1", "reaf")


class Shown(unittest.TestCase):
    def test_version_is_that_of_the_package(self):
        self.assertRegex(reef.__version__, r"^\d+\.\d+\.\d+")
        command = shutil.which("reef")
        if command is not None:
            import subprocess

            said = subprocess.run([command, "--version"], capture_output=True, text=True).stdout
            self.assertEqual(said.split(), ["reef", reef.__version__])

    def test_objects_say_what_they_are(self):
        with reef.open("cpu:0?units=1") as device, device.real_time() as rt, device.best_effort() as be:
            net = device.load("resnet18", input_size=SIZE)
            job = rt.submit(net, image())
            job.result()
            cluster = reef.open_cluster("cpu:0?units=1,cpu:1?units=1")
            shared = cluster.load("resnet18", input_size=SIZE)
            with cluster.best_effort(shared) as placed:
                shown = [repr(one) for one in (device, net, net.slot(), rt, be, job, cluster, shared, placed)]
        for text in shown:
            self.assertRegex(text, r"^<reef\.[A-Z]\w+ .+>$")
            self.assertNotIn(" object at 0x", text)
        self.assertEqual(shown[5], "<reef.Future done>")
        self.assertEqual(shown[8], "<reef.Placed of resnet18>")
        self.assertIn("on software device", shown[3])


if __name__ == "__main__":
    unittest.main()
