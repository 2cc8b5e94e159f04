#!/usr/bin/env bash
# all.sh FOLDER VERSION PROFILE IS_BUILT [ROOT]: makes the files of a release in FOLDER, which has what `cargo xtask release` wrote
# there, and tries them (try.sh). IS_BUILT is true if what is in the target folder is taken as it is.
set -euo pipefail
cd "$(dirname "$0")/../.."
files=$(realpath "$1") version=$2 profile=$3 is_built=$4 root=${5:-}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
built=$target/$profile
[ "$profile" != dev ] || built=$target/debug
here=tools/release
# Packages whose programs and libraries are released as binaries, and their features.
released=(reef-capi reef-cli reef-cudareef reef-cudart reef-nvml-shim reef-python reef-remote-cuda reef-shim)
features=reef-cli/cuda,reef-cli/hip,reef-cli/remote,reef-capi/cuda,reef-capi/hip,reef-python/cuda,reef-python/hip

echo "== packages, in the order of publishing"
rm -rf "$target/package" "$files/crates" && mkdir -p "$files/crates"
mapfile -t order <"$files/order.txt"
CARGO_NET_OFFLINE=true cargo package --quiet --no-verify "${order[@]/#/--package=}"
for ((i = 0; i < ${#order[@]}; i++)); do
    printf -v number '%02d' $((i + 1))
    cp "$target/package/${order[i]}-$version.crate" "$files/crates/$number-${order[i]}-$version.crate"
done
echo "${#order[@]} packages"

echo "== bills of materials"
$here/bills.sh "$files" "$version" "$features" "${released[@]}"
checker=$target/release-sbom
if [ -x "$checker/bin/python" ] || { python3 -m venv "$checker" && "$checker/bin/pip" install --quiet "cyclonedx-python-lib[json-validation]"; }; then
    "$checker/bin/python" - "$files"/*.cdx.json <<'PYTHON'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

validator = JsonStrictValidator(SchemaVersion.V1_5)
for path in sys.argv[1:]:
    if fault := validator.validate_str(open(path).read()):
        sys.exit(f"{path}: not CycloneDX 1.5: {fault}")
print("they are CycloneDX 1.5")
PYTHON
else
    echo "skipped: cyclonedx-python-lib can't be installed: the bills of materials are not checked"
fi

if [ "$is_built" != true ]; then
    echo "== programs and libraries, profile $profile"
    # With the module of Python, so that the wheel's build finds all of it compiled.
    PYO3_NO_PYTHON=1 cargo build --locked --profile "$profile" --lib --bins "${released[@]/#/--package=}" --features "$features"
    echo "== wheel and source distribution"
    python3 -m venv "$target/release-python"
    "$target/release-python/bin/pip" install --quiet "maturin>=1.9,<2" build wheel auditwheel
    rm -rf "$target/wheels"
    (cd crates/reef-python && PATH=$target/release-python/bin:$PATH REEF_BUILD_PROFILE=$profile \
        "$target/release-python/bin/python" -m build --sdist --wheel --no-isolation --outdir "$target/wheels" .)
    $here/tag_wheel.sh "$target/release-python/bin/python" "$target"/wheels/*.whl
    REEF_BUILD_PROFILE=$profile tools/arm64.sh "$target/arm64"
fi
cp "$target"/wheels/* "$files/"
cp "$target"/arm64/wheel/*.whl "$files/" 2>/dev/null || echo "skipped: no wheel for arm64 in $target/arm64"

echo "== archives and the Debian package"
$here/archives.sh "$files" "$version" "$built"
$here/debian.sh "$files" "$version" "$built"

echo "== image"
image=$target/release-image
rm -rf "$image"
tools/container_check.py "$built" --oci "$image"
if [ -d "$image" ]; then
    tar -C "$image" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$files/reef-$version-image.tar" .
fi

(cd "$files" && find . -type f ! -name SHA256SUMS -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS)
for wheel in "$files"/*.whl; do
    size=$(stat -c %s "$wheel")
    echo "wheel: ${wheel##*/}, $((size / 1000000)) MB"
    if [ "$profile" = release ] && [ "$size" -gt 60000000 ]; then
        echo "wheel: must have at most 60 MB"
        exit 1
    fi
done
echo "== each in a root without Rust and without this repository"
$here/try.sh "$files" "$version" "$root"
echo "files of reef $version: $files; nothing was published"
