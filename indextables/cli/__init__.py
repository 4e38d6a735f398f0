"""The terminal program: `indextables VERB TABLE [options]`.

Start with `main`, which parses the command line (`arguments`) and runs the verb (`verbs`); the verb prints its result (`display`).
"""
