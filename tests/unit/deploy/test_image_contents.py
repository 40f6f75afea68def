"""The services' images hold neither ``evals`` nor what trains models: nothing they run imports those on loading."""

import subprocess
import sys

_AS_IN_AN_IMAGE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] in ("evals", "bench", "tests") or "training" in parts[:-1] or parts[1:] == ["training"]:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import importlib
import deploy.cli
from deploy.serve import SERVICES
for service in SERVICES:
    importlib.import_module(f"{service}.main")
import planner_svc.backends.compact.backend
"""


def test_the_command_line_and_the_services_load_with_what_an_image_holds() -> None:
    done = subprocess.run([sys.executable, "-c", _AS_IN_AN_IMAGE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
