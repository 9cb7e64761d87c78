"""The command line: `phalanx <verb> LAKE`. One file for each group of verbs."""
