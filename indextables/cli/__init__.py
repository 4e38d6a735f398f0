"""The terminal: `indextables VERB PATH [options]`. `main` parses and runs, `display` prints."""
