"""How long an audit takes, beside other programs that read the same files: ``python -m tests.bench --help``."""
