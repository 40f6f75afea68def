"""``python -m deploy.cli``: the command line where there is no ``nestor`` on the path, as in a container."""

from deploy.cli import main

main()
