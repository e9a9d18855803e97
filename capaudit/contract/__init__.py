"""Run-time contracts: what a program declares about its captures, checked while it runs. No analysis, no torch."""
