"""SQL commands as text: a grammar, the commands it gives, and what each of them does and shows.

`grammar` is the syntax, `parse` turns a text into one of the values of `model`, `run` carries it out by the verbs of `operations`, and
`results` holds the columns that are shown.
"""
