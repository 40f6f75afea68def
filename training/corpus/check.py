"""``python -m training.corpus.check``: whether the corpus is sound, or what is wrong with which request."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from evals.data import DataError
from training.corpus.catalogue import Corpus, shipped, told
from training.corpus.requests import check_requests, read_requests


def main(argv: list[str] | None = None) -> int:
    """Check vendors, or list one's APIs; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m training.corpus.check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("vendors", nargs="*", help="names from vendors.json; by default all that have requests")
    parser.add_argument("--documents", type=Path, help="folder of the vendors' documents")
    parser.add_argument("--folder", type=Path, default=shipped(), help="of the corpus")
    parser.add_argument("--list", action="store_true", help="print the vendors' APIs instead")
    options = parser.parse_args(argv)
    corpus = Corpus(options.folder, options.documents)
    known = {vendor.name: vendor for vendor in corpus.vendors}
    wrong, kinds = 0, Counter[str]()
    chosen = options.vendors or [name for name in known if (options.folder / "requests" / f"{name}.jsonl").exists()]
    for name in chosen:
        if name not in known:
            print(f"{name}: not in vendors.json")
            wrong += 1
            continue
        try:
            apis = corpus.apis(known[name])
            if options.list:
                print(told(apis))
                continue
            requests = read_requests(options.folder / "requests" / f"{name}.jsonl")
        except DataError as error:
            print(error)
            wrong += 1
            continue
        kinds.update(request.kind for request in requests)
        for problem in check_requests(requests, apis, name):
            print(f"{problem.request}: {problem.text}")
            wrong += 1
    if not options.list:
        print(f"{sum(kinds.values())} requests, {wrong} problems:", dict(kinds))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
