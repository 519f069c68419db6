"""Proofs that need minutes, processes or a compiler: `python -m tests.prove NAME`.

One proof is one module with one function, and a row of `registry.txt`, which names the
planted bugs (`mutants.py`) that the proof must catch:

    def run(options: Options) -> Result: ...  # whether the promise held, and the figures to print

`run` draws all its randomness from `options.seed`, asks `options.number("rounds", 200, short=20)`
for its sizes (any `--rounds 7` on the command line wins), and starts its server with
`options.server(...)`, which has the planted bug under `--mutant`. It judges a server with a bug
exactly as it judges the product: saying that a failure was wished for is the business of `all`.

Exit codes: 0 the promise held; 1 it did not (the seed is printed); 2 the proof itself could not be
carried out, which catches no planted bug; 3 a part of it could not, and the rest held. `python -m
tests.prove all [--short]` runs every proof and every planted bug of each, and ends with a table.
What held in part is named there, does not count as held, and fails the whole with `--require`.
"""
