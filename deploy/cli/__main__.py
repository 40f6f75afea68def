"""``python -m deploy.cli``: the command line if ``nestor`` is not on the path, for example in a container."""

from deploy.cli import main

main()
