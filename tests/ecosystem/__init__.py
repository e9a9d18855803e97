"""How the audit does on published packages: an ecosystem run with pinned versions."""
