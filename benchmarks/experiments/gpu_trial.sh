#!/bin/bash
# What a GPU has to show of the trainer, in at most 40 minutes, without a network. Not run on a GPU yet.
#
#   OUT=runs/gpu TINY=runs/tiny THREE=models/3b SEVEN=models/7b benchmarks/experiments/gpu_trial.sh
#
# TINY is a model of `ReferenceModel`, or one that has learned Sokoban's replies; THREE and SEVEN are folders in
# Qwen2.5-VL's sizes, whose weights may be random. A step that has ended is left out when the script is called again;
# $OUT/report.md has each step's exit status, seconds and highest memory.
set -u
: "${OUT:?}" "${TINY:?}" "${THREE:?}" "${SEVEN:?}"
export HF_HUB_OFFLINE=1
mkdir -p "$OUT"

memory() {
  nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -l 2
}

step() { # seconds, name, command
  local limit=$1 name=$2 watcher begun code
  shift 2
  [ -e "$OUT/$name.done" ] && return
  memory >"$OUT/$name.memory" &
  watcher=$!
  begun=$SECONDS
  timeout "$limit" "$@" >"$OUT/$name.log" 2>&1
  code=$?
  kill "$watcher"
  echo "- $name: exit $code, $((SECONDS - begun)) s, at most $(sort -n "$OUT/$name.memory" | tail -1) MiB" >>"$OUT/report.md"
  touch "$OUT/$name.done"
}

train() { # name, model, settings
  local name=$1 model=$2
  shift 2
  vagen train --recipe vagen-base -e sokoban --model "$model" --out "$OUT/runs/$name" --resume auto \
    -o prompt_pack=terse -s top_p=1.0 -s report_to=none "$@"
}
export -f train
export OUT

SLEEPS='vllm_options={"enable_sleep_mode": true, "gpu_memory_utilization": 0.3}'
LORA='lora={"r": 32, "target_modules": "all-linear"}'

# The success of the tiny model rises as on a CPU, and policy/sampler_gap stays below 0.02.
step 420 tiny_vllm bash -c 'train "$@"' - tiny "$TINY" -o strategy=no_think -s temperature=1.0 \
  -s generation=vllm -s "$SLEEPS" -s rollouts=20 -s episodes_per_rollout=96 -s num_envs=96 \
  -s epochs_per_rollout=3 -s max_tokens=16 -s learning_rate=6e-4 -s critic_learning_rate=5e-4 -s kl_coef=0.0 \
  -s kl_loss_coef=0.05 -s advantage=turn_gae -s 'advantage_settings={"gamma": 0.95, "lam": 0.9}' -s eval_rollouts=10

# A signal in the middle, then the same command: the run goes on from its checkpoint.
step 60 stopped bash -c 'timeout --signal=TERM 45 bash -c "train \"\$@\"" - "$@"' - stop "$TINY" \
  -o strategy=no_think -s rollouts=200 -s episodes_per_rollout=16 -s max_tokens=16
step 90 resumed bash -c 'train "$@"' - stop "$TINY" -o strategy=no_think -s rollouts=200 -s episodes_per_rollout=16 \
  -s max_tokens=16

# The plan's sum beside what is taken: all weights of 3B on a shared backbone, then adapters of 7B.
step 420 three bash -c 'train "$@"' - three "$THREE" -s generation=vllm -s "$SLEEPS" -s shared_backbone=true \
  -s per_device_train_batch_size=1 -s rollouts=3 -s episodes_per_rollout=16 -s save_strategy=no
step 480 seven bash -c 'train "$@"' - seven "$SEVEN" -s generation=vllm -s "$SLEEPS" -s "$LORA" \
  -s per_device_train_batch_size=1 -s rollouts=3 -s episodes_per_rollout=16 -s save_strategy=no

# Attention padded and packed: losses of the first update agree within bfloat16.
for kind in sdpa flash_attention_2; do
  for packing in false true; do
    step 180 "attention_${kind}_$packing" bash -c 'train "$@"' - "attention_${kind}_$packing" "$THREE" -s "$LORA" \
      -s attn_implementation="$kind" -s packing="$packing" -s rollouts=1 -s episodes_per_rollout=8 -s save_strategy=no
  done
done

cat "$OUT/report.md"
