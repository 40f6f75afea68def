#!/usr/bin/env bash
# Finetunes a language model for the sandbox, end to end: base model, data, training, gate, serving, one request.
# Usage: deploy/llm/finetune_sandbox.sh FOLDER [MINUTES]; needs requirements/train.txt and `make llm`'s requirements.
# With 4 minutes of training it takes 10 to 15 minutes on two cores. A second call resumes where the first one stopped.
# MADE: requests that are made for the data; LIMIT: requests that the gate measures in each folder; START: an adapter to
# go on from, such as services/models/smollm2-135m-planner, which makes half a minute of training enough for a trial.
set -euo pipefail
place=$1 minutes=${2:-4}
nestor=${NESTOR:-.venv/bin/nestor}
port=${PORT:-8080} sandbox_port=${SANDBOX_PORT:-8090}
export NESTOR_URL=http://127.0.0.1:$port
mkdir -p "$place"
server=
stop() { if [ -n "$server" ]; then kill "$server" 2>/dev/null && wait "$server" || true; server=; fi; }
trap stop EXIT
serve() {
  "$nestor" serve --sandbox --port "$port" --sandbox-port "$sandbox_port" --data "$place/nestor" "$@" >"$place/serve.log" 2>&1 &
  server=$!
  until "$nestor" apis search --limit 1 >"$place/started" 2>&1 && grep -q sandbox "$place/started"; do
    kill -0 "$server" # ends the script if Nestor did not start
    sleep 1
  done
}

echo "== the base model"
base=$("$nestor" llm base --folder "$place/llm")

echo "== data: the catalogue, the demonstrations and the runs that were confirmed, as conversations"
serve
"$nestor" train data --runs --made "${MADE:-240}" --out "$place/data"
stop

echo "== train, export, gate"
echo '{"batch_tokens": 1280, "accumulate": 1}' >"$place/recipe.json" # small batches, so that a few minutes give enough steps
"$nestor" train llm --base "$base" --data "$place/data" --out "$place/sandbox-planner" --minutes "$minutes" \
  --recipe "$place/recipe.json" --registry "$place/models" --limit "${LIMIT:-8}" ${START:+--start "$START"}

echo "== serve what was promoted, and solve"
if [ -e "$place/models/registry.json" ]; then
  "$nestor" llm install --folder "$place/llm" --registry "$place/models"
else
  echo "the gate let nothing through: with so small a budget that may be; what was trained is served all the same"
  "$nestor" llm install --folder "$place/llm" --adapter "$place/sandbox-planner"
fi
export NESTOR_LLM_MODEL=$place/llm/planner.gguf
serve --llm
query="Convert 26.2 miles to kilometers"
if "$nestor" solve --backend served --json "$query" >"$place/solved.json"; then
  echo "solved: $query"
else
  echo "not solved, the budget was small: $query"
fi
echo "the run, with what the model was shown and wrote, is in $place/solved.json"
