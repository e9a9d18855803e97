"""The command line: parses, calls one use case, prints, exits. One file per command, loaded on use."""
