"""``nestor train``: trains models. It needs more libraries than serving, and names those that are missing."""

import typer

from deploy.cli.training.ablation import ablate_llm
from deploy.cli.training.corpus import corpus
from deploy.cli.training.data import record_own, write_data
from deploy.cli.training.instruct import make_requests
from deploy.cli.training.llm import gate_llm, train_llm
from deploy.cli.training.planner import train_confidence, train_judge, train_planner, train_stages
from deploy.cli.training.retriever import train_relevance, train_retriever, train_supply

trains = typer.Typer(no_args_is_help=True, help="Train Nestor's models on folders of data.")

trains.command("retriever")(train_retriever)
trains.command("planner")(train_planner)
trains.command("stages")(train_stages)
trains.command("confidence")(train_confidence)
trains.command("judge")(train_judge)
trains.command("relevance")(train_relevance)
trains.command("supply")(train_supply)
trains.command("record")(record_own)
trains.command("data")(write_data)
trains.command("instruct")(make_requests)
trains.command("llm")(train_llm)
trains.command("gate")(gate_llm)
trains.command("ablate")(ablate_llm)
trains.add_typer(corpus, name="corpus")
