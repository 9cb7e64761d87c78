"""From what is wanted to an entry in the log: intents, the judge, and the one commit loop."""
