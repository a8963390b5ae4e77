#!/bin/sh
# Installs jumar from the folder that this script is in; needs no network.
set -eu

fail() {
    printf 'error: %s\n' "$1" >&2
    [ -z "${2-}" ] || printf 'hint: %s\n' "$2" >&2
    exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
. "$here/bundle.env"
to=${HOME-}/.local/share/jumar
while [ $# -gt 0 ]; do
    case $1 in
        --to)
            [ $# -gt 1 ] || fail "--to needs a folder" "sh install.sh --to /opt/jumar-cli"
            to=$2
            shift 2
            ;;
        *)
            printf 'usage: sh install.sh [--to DIR]\n\n'
            printf 'Installs jumar %s into DIR, by default ~/.local/share/jumar.\n' "$VERSION"
            [ "$1" = --help ] || [ "$1" = -h ] || exit 2
            exit 0
            ;;
    esac
done
case $to in
    /*) ;;
    *) to=$PWD/$to ;;
esac

arch=$(uname -m)
[ "$arch" = "$ARCH" ] ||
    fail "this bundle is for $ARCH, and this host is $arch" "make another: jumar site bundle --arch $arch"
(cd "$here" && sha256sum -c SHA256SUMS >/dev/null 2>&1) ||
    fail "the bundle is damaged, or sha256sum is missing" "copy it again; see: cd $here && sha256sum -c SHA256SUMS"

new="$to/versions/$VERSION-$(date +%Y%m%d%H%M%S)"
mkdir -p "$new" || fail "cannot write to $to" "choose another folder: sh install.sh --to DIR"
trap 'rm -rf "$new"' EXIT
trap 'exit 130' INT HUP TERM

python=
if [ -f "$here/python.tar" ]; then
    mkdir "$new/python"
    tar -xf "$here/python.tar" -C "$new/python"
    python="$new/python/$PYTHON_ROOT/bin/python$PYTHON"
else
    other=none
    for name in "python$PYTHON" python3; do
        found=$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        if [ "$found" = "$PYTHON" ]; then
            python=$name
            break
        fi
        other=$found
    done
    [ -n "$python" ] ||
        fail "this bundle needs Python $PYTHON; this host has: $other" \
            "make it with a Python inside: jumar site bundle --arch $ARCH --python ARCHIVE"
fi

"$python" -m venv --without-pip "$new/env" || fail "$python cannot make an environment"
pip=$(echo "$here"/wheels/pip-*.whl)
set -- "jumar==$VERSION"
while IFS= read -r one; do
    [ -z "$one" ] || set -- "$@" "$one"
done <<END
$EXTRA
END
# Nothing that the host is configured with: neither an index nor other wheels.
env -u PIP_FIND_LINKS -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
    "$new/env/bin/python" "$pip/pip" install --quiet --no-index --find-links "$here/wheels" \
    --disable-pip-version-check --no-warn-script-location --root-user-action ignore "$@" ||
    fail "the packages do not fit this host" "is its glibc older than 2.28? see: ldd --version"
"$new/env/bin/jumar" version >/dev/null || fail "the installed jumar does not start"
cp "$here/jumar-launch.pyz" "$new/"

mkdir -p "$to/bin"
ln -s "$new/env/bin/jumar" "$to/bin/.jumar.$$"
mv -f "$to/bin/.jumar.$$" "$to/bin/jumar"
trap - EXIT
printf 'installed jumar %s; run it as %s\n' "$VERSION" "$to/bin/jumar"
printf 'for everybody on this host: sudo %s site install --yes\n' "$to/bin/jumar"
