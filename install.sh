#!/bin/sh
# Installs fetchly from this checkout into ./.venv; run it again at any time.
#   ./install.sh            what a user needs
#   ./install.sh dev        and what the tests need (any extras of pyproject.toml, separated by commas)
# torch: the build for this machine's GPU where there is one, else the CPU build (about 200 MB), never CUDA by accident.
set -eu
cd "$(dirname "$0")"
extras="torch,browser${1:+,$1}"
venv="${FETCHLY_VENV:-.venv}"
torch="torch>=2.6,<2.14"

say() { printf 'install: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

python="${PYTHON:-python3}"
command -v "$python" >/dev/null 2>&1 || fail "no $python here; install Python 3.11 or newer, or set PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old; set PYTHON to Python 3.11 or newer"

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing python3-venv"
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
    else
        fail "this Python has no venv; on Debian: sudo apt-get install python3-venv"
    fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --upgrade "pip>=25.1"

has_gpu() { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi >/dev/null 2>&1; }
# The newest CPU build that pip's own configuration offers (an index or a folder of wheels), if any.
offered_cpu_build() {
    "$venv/bin/python" -m pip --disable-pip-version-check index versions torch 2>/dev/null | tr ', ' '\n\n' | grep -E '^2\.([6-9]|1[0-3])\.[0-9]+\+cpu$' | head -n 1
}

if ! "$venv/bin/python" -c 'import torch' >/dev/null 2>&1; then
    cpu_build="$(offered_cpu_build || true)"
    if has_gpu; then
        say "GPU found: installing torch with CUDA"
        pip install "$torch"
    elif [ -n "$cpu_build" ]; then
        say "no GPU: installing torch $cpu_build"
        pip install "torch==$cpu_build"
    elif [ "$(uname -s)" = Darwin ]; then
        say "installing torch"
        pip install "$torch"
    else
        say "no GPU: installing the CPU build of torch (uv knows where it is)"
        pip install "uv>=0.8"
        "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --torch-backend cpu "$torch"
    fi
fi

say "installing fetchly[$extras]"
pip install --editable ".[$extras]"
"$venv/bin/python" -c 'from fetchly.crawler.chromium import find_chromium; find_chromium()' 2>/dev/null ||
    say "no Chromium here, which pages filled by scripts need: $venv/bin/playwright install chromium (Debian: apt-get install chromium)"
"$venv/bin/python" -c 'import sys; from fetchly_llm.backends.native.library import available; sys.exit(available() or 0)' 2>/dev/null ||
    say "no native kernels, so decoding is about ten times slower: install a C++ compiler (Debian: apt-get install g++) and run this again"
say "done: $venv/bin/fetchly --help"
