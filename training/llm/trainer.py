"""The finetuner: trains a causal language model to answer conversations, with trl's trainer and peft's LoRA.

It is built for small machines. Only the answers' tokens go through the output layer, which saves a fifth of the work of
a small model. Conversations of similar length are padded together. The budget is time, and the learning rate decays as
the time is used up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from trl import SFTConfig, SFTTrainer

from evals.data import DataError
from training.llm.settings import CPU_TOKENS, GPU_TOKENS, Tuning
from training.shared.devices import faster_in_bfloat16, use_all_processors

IGNORED: Final = -100
_ELAPSED: Final = "elapsed.json"
_WINDOW: Final = 96
_PADDING: Final = -1
_WARM_STEPS: Final = 20
_LEAST_RATE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Encoded:
    """A conversation as tokens.

    Attributes:
        ids: the tokens.
        labels: the tokens to predict, :data:`IGNORED` where there is no loss.
        branches: for each token 0 if all later tokens see it, else the number of its request. Other requests do not
            see it then. The positions of a branch continue from the last token with 0.
    """

    ids: list[int]
    labels: list[int]
    branches: list[int]


@dataclass(frozen=True, slots=True)
class FinetuningResult:
    """The results of a run.

    Attributes:
        model: the trained model, with adapters if the method uses them.
        conversations: number of conversations that fit.
        tokens: of these.
        learnt: how many of them are tokens of answers.
        too_long: conversations left out.
        steps: done.
        epochs: passes over the data.
        minutes: of training, over all resumed runs.
        losses: ``{"step", "loss"}``, each the mean since the one before.
    """

    model: Any
    conversations: int
    tokens: int
    learnt: int
    too_long: int
    steps: int
    epochs: float
    minutes: float
    losses: tuple[dict[str, float], ...]


def encode(tokenizer: Any, messages: Sequence[dict[str, str]], longest: int, *, apart: bool = False) -> Encoded | None:
    """Render with the chat template, turn by turn. Only the assistant's text and its end marker have a loss.

    Args:
        tokenizer: with its chat template.
        messages: a system message, then alternating user and assistant messages.
        longest: maximum number of tokens; None is returned for more.
        apart: ask every request as if it were the first. The common prefix is computed once for all.
    """
    found = Encoded([], [], [])
    shown = ""
    if apart:
        shown = tokenizer.apply_chat_template(messages[:1], tokenize=False)
        _add(found, tokenizer, shown, 0, learnt=False)
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            asked = [*messages[:1], messages[index - 1]] if apart else messages[:index]
            branch = index if apart else 0
            prompt = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
            whole = tokenizer.apply_chat_template([*asked, message], tokenize=False)
            answer = whole[len(prompt) :]
            said = answer.rstrip("\n")
            _add(found, tokenizer, prompt[len(shown) :], branch, learnt=False)
            _add(found, tokenizer, said, branch, learnt=True)
            if not apart:
                _add(found, tokenizer, answer[len(said) :], branch, learnt=False)
                shown = whole
    return found if len(found.ids) <= longest and any(one != IGNORED for one in found.labels) else None


def _add(to: Encoded, tokenizer: Any, text: str, branch: int, *, learnt: bool) -> None:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
    to.ids.extend(ids)
    to.labels.extend(ids if learnt else [IGNORED] * len(ids))
    to.branches.extend([branch] * len(ids))


def batches(encoded: Sequence[Encoded], tokens: int, pad: int) -> Dataset:
    """A data set of batches of at most so many tokens, padding included. Similar lengths share a batch."""
    rows = []
    for batch in _batched(encoded, tokens):
        width = max(len(one.ids) for one in batch)
        rest = [width - len(one.ids) for one in batch]
        rows.append(
            {
                "input_ids": [one.ids + [pad] * more for one, more in zip(batch, rest, strict=True)],
                "labels": [one.labels + [IGNORED] * more for one, more in zip(batch, rest, strict=True)],
                "branches": [one.branches + [_PADDING] * more for one, more in zip(batch, rest, strict=True)],
            }
        )
    return Dataset.from_list(rows)


def _batched(encoded: Sequence[Encoded], tokens: int) -> Iterator[list[Encoded]]:
    for start in range(0, len(encoded), _WINDOW):
        window = sorted(encoded[start : start + _WINDOW], key=lambda one: len(one.ids))
        batch: list[Encoded] = []
        for one in window:
            if batch and (len(batch) + 1) * len(one.ids) > tokens:
                yield batch
                batch = []
            batch.append(one)
        yield batch


def attention_mask(branches: torch.Tensor, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The mask to add to the attention scores, and the position of each token.

    Args:
        branches: as in :class:`Encoded`; shape (batch, tokens).
        kind: dtype of the mask.

    Returns:
        Shapes (batch, 1, tokens, tokens) and (batch, tokens).
    """
    width = branches.shape[1]
    places = torch.arange(width, device=branches.device)
    same = branches[:, :, None] == branches[:, None, :]
    seen = (same | (branches[:, None, :] == 0)) & (places[None, :, None] >= places[None, None, :])
    mask = torch.zeros(seen.shape, dtype=kind, device=branches.device).masked_fill(~seen, torch.finfo(kind).min)
    return mask[:, None], seen.sum(-1) - 1


class _Budget(TrainerCallback):
    """Stops when the time is used up, including that of earlier runs."""

    def __init__(self, seconds: float, out: Path) -> None:
        self._seconds, self._file = seconds, out / _ELAPSED
        self._before = float(json.loads(self._file.read_text())) if self._file.exists() else 0.0
        self._began = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds of training so far."""
        return self._before + time.monotonic() - self._began

    def used(self) -> float:
        """Share of the budget, 0 to 1."""
        return min(self.spent / self._seconds, 1.0)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self._file.write_text(json.dumps(self.spent))

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        if self.used() >= 1:
            control.should_save = control.should_training_stop = True
        return control


class _Trainer(SFTTrainer):
    """trl's trainer, with the output layer applied only to tokens that have a loss."""

    def __init__(self, *args: Any, budget: _Budget, **rest: Any) -> None:
        self._budget = budget
        super().__init__(*args, **rest)

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        mask, positions = attention_mask(inputs["branches"], base.dtype)
        targets = inputs["labels"][:, 1:]
        learnt = targets != IGNORED
        kind = mask.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=faster_in_bfloat16(kind)):
            hidden = base.base_model(
                input_ids=inputs["input_ids"], attention_mask=mask, position_ids=positions, use_cache=False
            ).last_hidden_state[:, :-1]
            logits = base.get_output_embeddings()(hidden[learnt]).float()
        total = torch.nn.functional.cross_entropy(logits, targets[learnt], reduction="sum")
        loss = total / (num_items_in_batch if num_items_in_batch is not None else learnt.sum())
        return (loss, {"loss": loss}) if return_outputs else loss

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        warm = min(_WARM_STEPS, max(num_training_steps // 10, 1))

        def rate(step: int) -> float:
            gone = max(self._budget.used(), step / max(num_training_steps, 1))
            return min((step + 1) / warm, 1.0) * max(1.0 - gone, _LEAST_RATE)

        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, rate)
        return self.lr_scheduler


def _as_tensors(rows: list[dict[str, list[list[int]]]]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in rows[0].items()}


def finetune(
    model: Any,
    tokenizer: Any,
    conversations: Sequence[Mapping[str, Any]],
    work: Path,
    tuning: Tuning,
    start: Path | None = None,
) -> FinetuningResult:
    """Train. Checkpoints are kept in ``work``, and a run that was killed continues from the last one.

    Args:
        model: a causal language model.
        tokenizer: its own, with a chat template.
        conversations: ``{"messages", "apart"}`` as :mod:`training.llm.conversations` makes them.
        work: folder of checkpoints.
        tuning: the training options.
        start: folder of an adapter in peft's format to continue from.

    Raises:
        DataError: no conversation fits into ``tuning.longest`` tokens.
    """
    use_all_processors()
    on_gpu = next(model.parameters()).device.type == "cuda"
    all_encoded = (
        encode(tokenizer, one["messages"], tuning.longest, apart=bool(one.get("apart"))) for one in conversations
    )
    encoded = [one for one in all_encoded if one is not None]
    if not encoded:
        raise DataError(f"no conversation has {tuning.longest} tokens or fewer")
    data = batches(encoded, tuning.batch_tokens or (GPU_TOKENS if on_gpu else CPU_TOKENS), tokenizer.pad_token_id or 0)
    model = _adapted(model, tuning, start)
    budget = _Budget(tuning.minutes * 60, work)
    trainer = _Trainer(
        model=model,
        budget=budget,
        args=_arguments(work, tuning, on_gpu=on_gpu),
        train_dataset=data,
        data_collator=_as_tensors,
        processing_class=tokenizer,
        callbacks=[budget],
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(work)) if work.exists() else None)
    losses = ({"step": one["step"], "loss": one["loss"]} for one in trainer.state.log_history if "loss" in one)
    return FinetuningResult(
        model=model,
        conversations=len(encoded),
        tokens=sum(len(one.ids) for one in encoded),
        learnt=sum(label != IGNORED for one in encoded for label in one.labels),
        too_long=len(conversations) - len(encoded),
        steps=trainer.state.global_step,
        epochs=round(float(trainer.state.epoch or 0.0), 3),
        minutes=round(budget.spent / 60, 1),
        losses=tuple(losses),
    )


def _adapted(model: Any, tuning: Tuning, start: Path | None) -> Any:
    """The model with a trainable adapter; the model itself for full finetuning."""
    if start is not None:
        model = PeftModel.from_pretrained(model, str(start), is_trainable=True)
        for one in model.parameters():  # saved in half precision, trained in single
            one.data = one.data.float() if one.requires_grad else one.data
        return model
    if tuning.method == "full":
        return model
    torch.manual_seed(tuning.seed)
    low_rank = LoraConfig(r=tuning.rank, lora_alpha=2 * tuning.rank, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, low_rank)


def _arguments(work: Path, tuning: Tuning, *, on_gpu: bool) -> SFTConfig:
    return SFTConfig(
        output_dir=str(work),
        per_device_train_batch_size=1,  # a row of the data set is a batch
        gradient_accumulation_steps=tuning.accumulate,
        num_train_epochs=tuning.epochs,
        max_steps=tuning.steps or -1,
        learning_rate=tuning.rate,
        weight_decay=0.0,
        max_grad_norm=1.0,
        logging_steps=10,
        logging_first_step=True,
        save_steps=tuning.save_steps,
        save_total_limit=2,
        bf16=on_gpu,
        fp16=False,
        gradient_checkpointing=False,
        use_cpu=not on_gpu,
        report_to=[],
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        seed=tuning.seed,
    )
