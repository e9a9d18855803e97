"""Rewrites that remove findings: proposed from what the engine has proven, applied to source text.

One file per rewrite. A rewrite whose meaning is not certain is not proposed; one that rests on what
the audit cannot prove everywhere (an argument's element type for callers outside the program, say)
is proposed as unsafe and names what it rests on.
"""

from capaudit.audit.fixes.proposing import propose_fixes

__all__ = ["propose_fixes"]
