"""The terminal program: `indextables VERB TABLE [options]`.

`main` parses the command line (`arguments`) and runs the verb (`verbs`), which prints its result (`display`).
"""
