import sys
from pathlib import Path
from training.corpus.command import check_corpus, list_apis

a = sys.argv[1:]
docs = Path(a[a.index("--documents") + 1]) if "--documents" in a else Path("/work/shared/data/openapi_jentic/raw")
names = [x for i, x in enumerate(a) if not x.startswith("--") and (i == 0 or a[i - 1] != "--documents")]
if "--list" in a:
    raise SystemExit(max(list_apis(docs, n) for n in names))
raise SystemExit(check_corpus(docs, names, []))
