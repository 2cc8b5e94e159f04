#!/usr/bin/env bash
# Renders deploy/helm/reef by Helm's own engine in each of its modes, and compares what comes out, the manifests in
# deploy/kubernetes, and the ResourceSlice of the tests with Kubernetes' schemas, where unknown fields are errors.
#   tools/helm_check.sh [FOLDER for the packages, target/helm_check without it]
# No cluster and no helm are needed: the packages helm-python-sdk (with Helm's library in it, 250 MB) and
# kubernetes-validate are installed. Not a part of CI.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-target/helm_check}
packages=(helm-python-sdk==0.2.2 kubernetes-validate==1.37.0)
if ! { [ -x "$folder/bin/pip" ] || python3 -m venv "$folder"; } ||
    ! "$folder/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"; then
    echo "skipped: the chart isn't checked, as ${packages[*]} can't be had"
    exit 0
fi
exec "$folder/bin/python" tools/helm_check.py
