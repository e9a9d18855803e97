"""The language server: findings, rule pages and suppressions in an editor. Needs the ``lsp`` extra (pygls)."""
