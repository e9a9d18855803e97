"""Scorers: how often the audit is right, measured against programs whose outcome is known."""
