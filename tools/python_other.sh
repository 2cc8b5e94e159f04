#!/usr/bin/env bash
# python_other.sh 3.14 [ROOT]: runs the Python package's tests with another version of Python, that of Debian unstable, in a root of
# its own (target/python-root), with what tools/python_tests.sh has built. Needs Debian and root, and a network.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 root=$(realpath -m "${2:-target/python-root}")
target=${CARGO_TARGET_DIR:-$PWD/target}
package=$(ls -d "$target"/python/lib/python3.*/site-packages/reef)
if [ ! -x "$root/usr/bin/python$version" ]; then
    command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >/dev/null
    rm -rf "$root"
    debootstrap --variant=minbase --include="python$version" sid "$root" >/dev/null
fi
rm -rf "$root/opt/reef" && mkdir -p "$root/opt/reef"
pip install --quiet --target "$root/opt/reef" --only-binary :all: --python-version "$version" numpy
cp -r "$package" "$root/opt/reef/"
cp -r crates/reef-python/tests "$root/opt/reef/tests"
cp "$target/python/bin/reef" "$root/usr/bin/"
for tests in reef arrays limits guest; do
    chroot "$root" env PYTHONPATH=/opt/reef "python$version" -W error::ResourceWarning -m unittest discover \
        --start-directory /opt/reef/tests --pattern "test_$tests.py"
done
