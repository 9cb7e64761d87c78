"""`python -m phalanx` is the command line."""

from phalanx.cli.app import main

main()
