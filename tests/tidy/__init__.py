"""What no compiler checks: who imports whom, which words are used where, whether docs tell the truth."""
