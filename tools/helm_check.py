"""What tools/helm_check.sh does, with its packages."""

import json
import pathlib
import sys

import helm_python as helm
import kubernetes_validate
import yaml

CHART = "deploy/helm/reef"
METRICS = {"enabled": True, "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}
LIMITS = {"rt": {"compute": "30%", "memory": "8GiB"}, "be": {"memory": "16GiB"}}
# Values, and the versions of Kubernetes that they are for.
CASES = {
    "device-plugin": ({}, ["1.26", "1.34", "1.36", "1.37"]),
    "device-plugin, all": (
        {"resources": LIMITS, "driver": "/usr/lib/libcuda.so.1", "metrics": METRICS, "dashboard": {"enabled": True},
         "image": {"pullSecrets": [{"name": "registry"}]}, "plugin": {"resources": {"limits": {"memory": "128Mi"}}}},
        ["1.26", "1.37"],
    ),
    "dra": ({"mode": "dra"}, ["1.34", "1.36", "1.37"]),
    "dra, all": (
        {"mode": "dra", "claims": {**LIMITS, "gpuMemory": "141GiB", "suspendedMemory": "give-back"}, "metrics": METRICS},
        ["1.34", "1.36", "1.37"],
    ),
}
# What values.schema.json or the templates have to refuse.
WRONG = [
    {"mode": "both"},
    {"resource": {}},
    {"resources": {"rt": {"replicas": 33}}},
    {"resources": {"rt": {"replicas": 2}, "be": {"replicas": 31}}},
    {"resources": {"be": {"memory": "8 furlongs"}}},
    {"claims": {"rt": {"compute": 30}}},
    {"mode": "dra", "claims": {"gpuMemory": "141GiB", "suspendedMemory": "give"}},
    {"mode": "dra", "claims": {"suspendedMemory": "give-back"}},
    {"paths": {"sockets": "run/reef"}},
]
# Resources that aren't Kubernetes' own.
OTHERS = {"ServiceMonitor"}


def documents(text, source):
    for document in yaml.safe_load_all(text):
        if document is not None:
            yield source, document


def check(found, versions):
    count = 0
    for source, document in found:
        kind = document["kind"]
        if kind in OTHERS:
            continue
        for version in versions:
            try:
                kubernetes_validate.validate(document, version, strict=True)
                count += 1
            except kubernetes_validate.ValidationError as error:
                at = ".".join(map(str, error.path))
                sys.exit(f"{source}: {kind}, Kubernetes {version}: {at}: {error.message}")
    return count


def render(chart, values):
    for source, text in chart.render(values, name="reef", namespace="reef").items():
        if source.endswith(".yaml"):
            yield from documents(text, source)


def arguments(found):
    """What the plugin is told, and from where on the node that is mounted."""
    pod = next(it for _, it in found if it["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    assert pod["hostPID"] is True
    plugin = next(it for it in pod["containers"] if it["name"] == "plugin")
    on_node = {it["name"]: it["hostPath"]["path"] for it in pod["volumes"] if "hostPath" in it}
    mounts = {it["mountPath"]: on_node[it["name"]] for it in plugin["volumeMounts"] if it["name"] in on_node}
    paths = [it.split("=", 1)[1] for it in plugin["args"] if "=/" in it]
    for path in paths:
        at = next((at for at in mounts if path == at or path.startswith(at + "/")), None)
        if at is None or mounts[at] != at:
            sys.exit(f"{path}: not mounted from the same place of the node")
    return plugin["args"]


def check_dashboard(found):
    for _, document in found:
        if "reef-serve.json" in document.get("data", {}):
            ours = json.loads(pathlib.Path("deploy/grafana/reef-serve.json").read_text())
            assert json.loads(document["data"]["reef-serve.json"]) == ours
            return True
    return False


def main():
    print(f"Helm {helm.helm_sdk_version()}, schemas of kubernetes-validate {kubernetes_validate.__version__}")
    report = helm.lint(CHART, strict=True)
    messages = [it for it in report.get("messages", []) if "icon is recommended" not in str(it)]
    if messages:
        sys.exit(f"lint: {messages}")
    with helm.Chart.load(CHART) as chart:
        for name, (values, versions) in CASES.items():
            found = list(render(chart, values))
            count = check(found, versions)
            told = arguments(found)
            assert check_dashboard(found) == ("dashboard" in values)
            kinds = " ".join(sorted(it["kind"] for _, it in found))
            print(f"{name}: {kinds}; {count} comparisons for {' '.join(versions)}")
            print(f"  reef {' '.join(told)}")
        for values in WRONG:
            try:
                chart.validate_schema(values)
                chart.render(values, name="reef", namespace="reef")
            except helm.HelmError as error:
                print(f"refused: {json.dumps(values)}: {str(error).splitlines()[-1]}")
            else:
                sys.exit(f"not refused: {values}")
    files = {"node.yaml": ["1.26", "1.37"], "pods.yaml": ["1.26", "1.37"], "claims.yaml": ["1.34", "1.36", "1.37"],
             "remote.yaml": ["1.26", "1.37"], "models.yaml": ["1.26", "1.37"]}
    for name, versions in files.items():
        path = pathlib.Path("deploy/kubernetes") / name
        print(f"{path}: {check(documents(path.read_text(), path), versions)} comparisons")
    path = pathlib.Path("crates/reef-k8s/src/dra/tests/slice.json")
    print(f"{path}: {check(documents(path.read_text(), path), ['1.34', '1.36', '1.37'])} comparisons")


main()
