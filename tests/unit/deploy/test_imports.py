"""What the command line imports before it knows the command: `nestor --help` and short commands pay for it."""

import subprocess
import sys


def test_the_command_line_loads_no_server_and_no_arrays() -> None:
    code = "import deploy.cli, sys; print(*sorted({'fastapi', 'uvicorn', 'numpy', 'sqlalchemy'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
