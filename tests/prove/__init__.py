"""Proofs that need minutes, processes or a compiler: `python -m tests.prove NAME`.

One proof is one module with three names, listed in the table of `registry.py`:

    NAME = "kill9"                          # the word on the command line
    MUTANTS = ("ack-before-commit",)        # planted bugs (`mutants.py`) that this proof must catch
    def run(options: Options) -> bool: ...  # print ONE summary line; True if the promise held

`run` draws all its randomness from `options.seed`, asks `options.number("rounds", 200, short=20)`
for its sizes (any `--rounds 7` on the command line wins) and starts its server with
`options.argv_prefix`, which is the mutant's launcher under `--mutant`. It judges a mutant exactly as
it judges the product: saying that a failure was wished for is the business of `all`.

Exit codes: 0 the promise held; 1 it did not (the seed is printed); 2 the proof itself could not be
carried out, which catches no mutant. `python -m tests.prove all [--short]` runs every proof and
every mutant of each, and ends with a table.
"""
