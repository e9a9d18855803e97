"""Runs the reference collector for the two gates, and its negative controls; ``capaudit.contract`` judges them."""
