"""`python -m phalanx` is the command line."""

from phalanx.cli.program import main

main()
