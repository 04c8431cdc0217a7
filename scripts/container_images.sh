#!/bin/bash
# Builds the container files of deploy/ and tries the images, on a machine without a container registry or a daemon.
#
#     sudo scripts/container_images.sh [Containerfile|bench.Containerfile|openenv/Dockerfile ...]     all by default
#
# Their base image, Debian's slim one with Python 3.11, is made by debootstrap; buildah carries out each step in a
# chroot. Needs debootstrap and buildah. This machine's mirror, certificates and pip settings are used there, too.
set -euo pipefail

[ $# -gt 0 ] || set -- Containerfile bench.Containerfile openenv/Dockerfile
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/images.XXXXXX")
key=$(head -c 32 /dev/urandom | base64 | tr -dc a-zA-Z0-9)
port=8790
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
images() { buildah --root "$work/storage" --runroot "$work/run" "$@"; }
openenv_episode='
import gymnasium as gym, vagen_envs
from vagen_adapters.openenv_env import VagenAction, VagenClient
local = gym.make("vagen/Sokoban-v0", split="test")
local.reset(seed=7)
with VagenClient(base_url="http://127.0.0.1:8000").sync() as env:
    result = env.reset(seed=7, split="test")
    while not result.done:
        reply = local.unwrapped.oracle_reply()
        local.step(reply)
        result = env.step(VagenAction(text=reply))
        print(result.reward)
    assert result.observation.terminated and result.reward > 9, result
'
server=
stop() { [ -z "$server" ] || kill -- "-$server" 2>/dev/null || true; server=; }
trap 'stop; images rm --all >/dev/null 2>&1 || true; rm -rf --one-file-system "$work"' EXIT

mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
    sed -nE 's/^(URIs:|deb) .*(https?:[^ ]*\/debian\/?)( .*|$)/\2/p' | head -n 1)
root=$work/root
debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates bookworm "$root" \
    "${mirror:-http://deb.debian.org/debian}" >/dev/null
ln -sf python3 "$root/usr/bin/python"
rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED  # the image's Python is not Debian's
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/pip.conf "$root/etc/" 2>/dev/null || true
{ grep -ls "Acquire::" /etc/apt/apt.conf.d/* || true; } | xargs -r cp -t "$root/etc/apt/apt.conf.d/"
base=$(images from scratch)
images copy -q "$base" "$root" / >/dev/null
mapfile -t settings < <(env | grep '^PIP_' || true)
images config --env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "${settings[@]/#/--env=}" "$base"
for folder in ${PIP_FIND_LINKS:-}; do
    [ ! -d "$folder" ] || images copy -q "$base" "$folder" "$folder" >/dev/null
done
slim=docker.io/library/python:3.11-slim-bookworm
images commit -q "$base" $slim >/dev/null

git clone -q "$here" "$work/source"  # .dockerignore leaves out the rest of it
for file in "$@"; do
    begun=$(date +%s)
    image=vagen-$(basename "${file,,}" .containerfile)  # names of images are in lower case
    context=$work/source
    if [ "$file" = openenv/Dockerfile ]; then  # it is built from its own folder, with the wheel beside it
        context=$work/source/deploy/openenv
        python3 -m pip -q wheel --no-deps -w "$context" "$work/source"
    fi
    images bud -q --format docker --pull-never --network host --build-arg "BASE=$slim" \
        -f "$work/source/deploy/$file" -t "$image" "$context" >/dev/null
    echo "$file: built in $(($(date +%s) - begun)) s"
    of=$(images from --pull-never "localhost/$image")
    case $file in
    Containerfile)
        ! images run "$of" -- vagen serve --host 0.0.0.0 --port $port 2>"$work/refused"
        grep -q "set VAGEN_SERVE_KEY" "$work/refused"
        set -m  # a process group of its own, which ends as a whole
        images run --env "VAGEN_SERVE_KEY=$key" "$of" -- vagen serve --host 0.0.0.0 --port $port --workers 2 &
        server=$!
        set +m
        for _ in $(seq 60); do curl -sf "http://127.0.0.1:$port/healthz" >/dev/null && break; sleep 1; done
        test "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/metrics")" = 401
        curl -sf -H "Authorization: Bearer $key" "http://127.0.0.1:$port/metrics" | grep -q '^sessions\|vagen'
        images run "$of" -- python -c "import os; assert os.getuid() == 10001"
        echo "$file: refuses to start without a key, is healthy with one, and shows its metrics to the key alone"
        ;;
    bench.Containerfile)
        images run "$of" -- vagen bench -n 4 | tail -n 24
        echo "$file: benchmarked"
        ;;
    openenv/Dockerfile)
        ! curl -s http://127.0.0.1:8000 >/dev/null || { echo "port 8000 is taken: end what listens there"; exit 1; }
        set -m
        images run "$of" -- python server.py 2>"$work/server.log" &
        server=$!
        set +m
        for _ in $(seq 60); do curl -sf http://127.0.0.1:8000/health >/dev/null && break; sleep 1; done
        kill -0 $server || { cat "$work/server.log"; exit 1; }
        images run "$of" -- python -c "$openenv_episode"
        echo "$file: served an episode to OpenEnv's client"
        ;;
    esac
    stop
done
