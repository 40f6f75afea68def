#!/usr/bin/env bash
# Resolve requirements/*.in into lock files with hashes. Usage: deploy/lock.sh BIN, the folder of pip-compile.
set -euo pipefail
cd "$(dirname "$0")/.."
options=(--generate-hashes --strip-extras --allow-unsafe --quiet --no-header
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host)
compile() { "$1/pip-compile" "${options[@]}" "${@:2}"; }
compile "$1" -o requirements/serve.txt requirements/serve.in
compile "$1" -c requirements/serve.txt -o requirements/sandbox.txt requirements/sandbox.in
compile "$1" -c requirements/serve.txt -c requirements/sandbox.txt -o requirements/dev.txt requirements/dev.in
compile "$1" -c requirements/serve.txt -c requirements/dev.txt -o requirements/traces.txt requirements/traces.in
compile "$1" -c requirements/serve.txt -c requirements/dev.txt -o requirements/llm.txt requirements/llm.in
compile "$1" -c requirements/serve.txt -c requirements/sandbox.txt -c requirements/dev.txt \
  -o requirements/bench.txt requirements/bench.in
compile "$1" -c requirements/serve.txt -c requirements/dev.txt -o requirements/train.txt requirements/train.in
