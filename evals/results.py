"""The page of planning results, made from what ``nestor eval plan --json`` printed.

``python -m evals.results --write PAGE FILES...`` writes it, ``--check`` fails where it is out of date, and
``--commands DATA`` prints the commands that make the files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from evals.data import DataError, explain
from evals.planning.answer_coverage import CoverageShares
from evals.planning.evaluate import PlanReport
from evals.planning.summary import Ratio
from evals.results_aims import aims
from evals.results_text import COUNTED, INTRO, MEANING, NESTFUL, NOTE, REPEAT, SEAL_TOOLS, Row

FOLDER = "docs/planning-results"
RUNS: tuple[tuple[str, ...], ...] = (
    ("held-out/seal_tools", "dev", "own", "compact"),
    ("held-out/seal_tools", "dev", "gold", "compact"),
    ("nestful_v1", "sgd", "own", "compact"),
    ("nestful_v1", "sgd", "gold", "compact"),
    ("nestful_v1", "glaive", "own", "compact"),
    ("nestful_v1", "glaive", "gold", "compact"),
    ("held-out/nestools", "test", "own", "compact"),
    ("held-out/nestools", "test", "gold", "compact"),
    ("seal_tools", "test_in_domain", "own", "compact"),
    ("seal_tools", "test_in_domain", "given", "compact"),
    ("seal_tools", "test_in_domain", "gold", "compact"),
    ("held-out/sgd", "train", "own", "compact"),
    ("held-out/sgd", "train", "own", "compact", "sgd"),
    ("held-out/sandbox", "train", "own", "compact"),
    ("held-out/sandbox", "train", "own", "compact", "sandbox"),
    ("held-out/complexfuncbench", "dev", "own", "compact"),
    ("held-out/corpus", "test", "own", "compact"),
    ("held-out/corpus", "test", "vendor", "compact"),
)
"""Folder, split, candidates and planner of each possible row of the page, and the folder of demos if any are shown."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of a folder's requests for a language model, which takes seconds per request on a CPU.

    Attributes:
        folder: of requests.
        split: of the folder.
        limit: number of requests.
        candidates: source of the candidates.
        base: use the model before finetuning.
        shots: demonstrations before each request.
        free: do not constrain answers to their format.
    """

    folder: str
    split: str
    limit: int
    candidates: str = "own"
    base: bool = False
    shots: int = 0
    free: bool = False

    def command(self, data: str) -> str:
        """The command that measures it, for folders below ``data``, with the environment variables it needs."""
        notes = ("base" * self.base, f"{self.shots}-shots" * bool(self.shots), "free" * self.free)
        name = "-".join([self.folder.replace("/", "-"), self.split, self.candidates, "served", *filter(None, notes)])
        variables = [*_BASE * self.base, *_ROOM * bool(self.shots), *_FREE * self.free]
        shots = f" --shots {self.shots}" if self.shots else ""
        measure = (
            f"nestor eval plan --data {data}/{self.folder} --split {self.split} --candidates {self.candidates}"
            f" --planner served --limit {self.limit}{shots} --cache vectors.npz --json > {FOLDER}/{name}.json"
        )
        return " ".join([*variables, measure])


_BASE = ("NESTOR_LLM_MODEL=var/llm/SmolLM2-135M-Instruct.Q4_1.gguf", "NESTOR_LLM_NAME=SmolLM2-135M-Instruct")
_ROOM = ("NESTOR_PLANNER_SERVED_DEMOS=3", "NESTOR_PLANNER_SERVED_PROMPT_TOKENS=3000")
"""Settings for demonstrations: by default the shipped model is asked without any."""
_FREE = ("NESTOR_PLANNER_SERVED_CONSTRAINT=none",)
_SEAL = partial(Sample, "seal_tools", "test_in_domain", 30)
SAMPLES = (
    Sample("seal_tools", "test_in_domain", 50),
    Sample("nestful_v1", "glaive", 40),
    Sample("held-out/sandbox", "train", 63),
    Sample("held-out/complexfuncbench", "dev", 30),
    *(
        _SEAL(candidates=source, base=base, shots=shots)
        for base in (True, False)
        for source in ("own", "gold")
        for shots in (0, 3)
        if base or shots or source == "gold"
    ),
    _SEAL(base=True, free=True),
    _SEAL(free=True),
)
"""The shipped language model, then the effects of finetuning, demonstrations, our own retrieval and the grammar
(TPTU-v2, tables 2 to 4; Seal-Tools, table 5)."""
_ORDER = {name: place for place, name in enumerate(("own", "vendor", "given", "gold"))}
_NONE = "-"
_HEADS = {
    "tool": "tool F1",
    "param": "parameter F1",
    "published_tool": "tool F1, as published",
    "published_param": "parameter F1, as published",
    "reference": "reference F1",
    "partial": "partial match",
    "full": "full match",
    "any_order": "full, any order",
    "passed": "pass rate",
    "ran": "ran",
}
_SHOWN = ("tool", "param", "reference", "partial", "full", "any_order", "passed", "ran")
_SECTIONS: dict[str, tuple[str, tuple[Row, ...], tuple[str, ...]]] = {
    "seal_tools": (
        "Seal-Tools",
        tuple(Row(one.name, {f"published_{key}": value for key, value in one.figures.items()}) for one in SEAL_TOOLS),
        ("tool", "param", "published_tool", "published_param", "reference", "full", "any_order", "passed", "ran"),
    ),
    "nestful_v1": (
        "NESTFUL, first version",
        NESTFUL,
        ("partial", "full", "any_order", "passed", "ran", "tool", "param", "reference"),
    ),
    "nestools": ("NesTools", (), _SHOWN),
    "sgd": ("SGD", (), _SHOWN),
    "sandbox": ("The sandbox's development questions", (), _SHOWN),
    "complexfuncbench": ("ComplexFuncBench", (), _SHOWN),
    "corpus": ("The corpus, by vendors that nobody learnt from", (), _SHOWN),
}


def page(reports: Sequence[PlanReport]) -> str:
    """The page. Rows are sorted by folder, split and candidates, independent of the order of the reports."""
    ordered = sorted(reports, key=_key)
    parts = [NOTE, "\n# Planning, measured\n", INTRO.strip(), "", *_aims(ordered)]
    for data in dict.fromkeys(one.data for one in ordered):
        parts += ["", *_section(data, [one for one in ordered if one.data == data])]
    parts += ["", *_behaviour(ordered), COUNTED.rstrip(), MEANING.rstrip(), REPEAT.rstrip(), "", "```console"]
    parts += [*(f"$ {line}" for line in commands("DATA")), "```"]
    return "\n".join(parts) + "\n"


def commands(data: str) -> Iterator[str]:
    """The commands that make the files, for folders below ``data``."""
    for folder, split, candidates, planner, *shown in RUNS:
        name = f"{folder.replace('/', '-')}-{split}-{candidates}-{planner}{'-demos' if shown else ''}"
        demos = "".join(f" --demos {data}/{one}" for one in shown)
        yield (
            f"nestor eval plan --data {data}/{folder} --split {split} --candidates {candidates} --planner {planner}"
            f"{demos} --cache vectors.npz --json > {FOLDER}/{name}.json"
        )
    yield from (sample.command(data) for sample in SAMPLES)


def read_reports(files: Sequence[Path]) -> list[PlanReport]:
    """Read these outputs.

    Raises:
        DataError: a file cannot be read, or is not an output of the command.
    """
    found = []
    for file in files:
        try:
            found.append(PlanReport.model_validate_json(file.read_bytes()))
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None
        except ValidationError as error:
            raise DataError(f"{file} is no output of `nestor eval plan --json`: {explain(error)}") from None
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the page, or print the commands; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m evals.results", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="outputs of `nestor eval plan --json`")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--write", type=Path, metavar="PAGE", help="write the page to this file")
    task.add_argument("--check", type=Path, metavar="PAGE", help="fail where this file is not what would be written")
    task.add_argument("--commands", metavar="DATA", help="print the commands for folders below DATA")
    options = parser.parse_args(argv)
    if options.commands is not None:
        print("\n".join(commands(options.commands)))
        return 0
    target = options.write or options.check
    try:
        text = page(read_reports(options.files))
        if options.write:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            print(f"{target} is out of date", file=sys.stderr)
            return 1
    except (DataError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _key(report: PlanReport) -> tuple[str, str, int, int, int, str, str, bool, int, int]:
    data = list(_SECTIONS).index(report.data) if report.data in _SECTIONS else len(_SECTIONS)
    return (
        f"{data} {report.data}",
        report.split or "",
        _ORDER.get(report.candidates, 9),
        report.distractors,
        report.k or 0,
        report.planner,
        report.model or "",
        report.constraint == "none",
        report.n,
        report.demos_shown,
    )


def _aims(reports: Sequence[PlanReport]) -> Iterator[str]:
    yield "## What is aimed at\n"
    yield from _header(["measure", "aim", "reached", "command"])
    yield from map(_row, aims(reports))


def _section(data: str, reports: Sequence[PlanReport]) -> Iterator[str]:
    title, rows, columns = _SECTIONS.get(data, (data, (), _SHOWN))
    yield f"## {title}\n"
    yield from _header(["", "n", *(_HEADS[column] for column in columns)])
    for one in reports:
        yield _row([_name(one), str(one.n), *(_with_interval(one, column) for column in columns)])
    for paper in rows:
        figures = (f"{paper.figures[column]:.2f}" if column in paper.figures else _NONE for column in columns)
        yield _row([paper.name, _NONE, *figures])
    yield ""
    yield from _header(
        ["by subset", "n", "tool P / R / F1", "parameter P / R / F1", "reference P / R / F1", "full match"]
    )
    for one in reports:
        for subset, scores in one.subsets.items():
            if scores.n:
                ratios = (_ratio(ratio) for ratio in (scores.tool, scores.param, scores.reference))
                yield _row([f"{_name(one)}: {subset}", str(scores.n), *ratios, f"{scores.full_match:.1f}"])


def _behaviour(reports: Sequence[PlanReport]) -> Iterator[str]:
    yield "## What the planner answers, how sure it is, how long it takes\n"
    yield from _header(
        [
            "",
            "planned",
            "asks",
            "no plan",
            "failed",
            "format",
            "calibration error",
            "surer half",
            "wrong, not said",
            "right, unsure",
            "told: all / only / just",
            "p50 / p95 ms",
            "late",
        ]
    )
    for one in reports:
        shares = [one.answers[name] for name in ("planned", "needs_input", "no_plan", "failed")]
        figures = [*shares, one.format_acc, one.calibration_error, one.confident_half]
        latency = f"{one.latency_ms['p50']:.0f} / {one.latency_ms['p95']:.0f}"
        said = ["-" if share is None else f"{share:.1f}" for share in (one.wrong_and_sure, one.right_and_unsure)]
        coverage = "-" if one.telling is None else _coverage(one.telling)
        shown = [*(f"{figure:.1f}" for figure in figures), *said, coverage, latency, f"{one.late:.1f}"]
        yield _row([f"{one.data} {_name(one)}", *shown])
    yield ""


def _coverage(shares: CoverageShares) -> str:
    return f"{shares.all:.1f} / {shares.only:.1f} / {shares.just:.1f} of {shares.n}"


def _name(report: PlanReport) -> str:
    planner = f"{report.planner} ({report.model})" if report.model else report.planner
    distractors = f" and {report.distractors} distractors" if report.distractors else ""
    parts = [planner, report.split or "all", report.candidates + distractors]
    if report.k is not None:
        parts.append(f"k {report.k}")
    if report.limit is not None:
        parts.append(f"sample of {report.limit}")
    if report.constraint == "none":
        parts.append("no grammar")
    if report.demos is not None:
        parts.append(f"{report.demos_shown / max(report.n, 1):.1f} demos each")
    return ", ".join(parts)


def _with_interval(report: PlanReport, column: str) -> str:
    ratios = {
        "published_tool": report.as_published.tool,
        "published_param": report.as_published.param,
        "tool": report.tool,
        "param": report.param,
        "reference": report.reference,
    }
    shares: dict[str, tuple[float | None, str]] = {
        "partial": (report.partial_match, "partial_match"),
        "full": (report.full_match, "full_match"),
        "any_order": (report.full_match_any_order, "full_match_any_order"),
        "passed": (report.pass_rate, "pass_rate"),
        "ran": (report.ran, "ran"),
    }
    if column in ratios:
        value, key = ratios[column].f1, f"{column}.f1"
        if not ratios[column].gold and not ratios[column].predicted:
            return _NONE
    else:
        share, key = shares[column]
        if share is None:
            return _NONE
        value = share
    bounds = report.intervals.get(key)
    return f"{value:.1f}" + (f" ({bounds[0]:.1f}-{bounds[1]:.1f})" if bounds else "")


def _ratio(ratio: Ratio) -> str:
    if not ratio.gold and not ratio.predicted:
        return _NONE
    return f"{ratio.p:.1f} / {ratio.r:.1f} / {ratio.f1:.1f}"


def _header(names: Sequence[str]) -> Iterator[str]:
    yield _row(names)
    yield _row(["---"] * len(names))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
